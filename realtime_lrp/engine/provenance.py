"""Fills in how an output was made, from the engine that made it."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from realtime_lrp.config import Config
from realtime_lrp.config.names import AUTO
from realtime_lrp.config.provenance import ModelProvenance, Provenance, recorded_settings
from realtime_lrp.engine.hashes import hashes
from realtime_lrp.system.version import __version__

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine


def provenance_of(engine: Engine, config: Config | None = None, *further: str) -> Provenance:
    """How the maps of an engine are made. Waits for the hashes of the network's files.

    Args:
      engine: has explained, or is going to.
      config: the configuration of the output; None is the engine's.
      further: sections of the configuration that shape the output besides those of every one.
    """
    from realtime_lrp.engine.tensorflow import keras, tf

    config = config or engine.config
    if config.lrp.composite == AUTO:
        lrp = config.lrp.model_copy(update={"composite": engine.composite})
        config = config.model_copy(update={"lrp": lrp})
    model, lrp = config.model, config.lrp
    explainer = engine.explainer
    return Provenance(
        version=__version__,
        tensorflow=tf.__version__,
        keras=keras.__version__,
        python=platform.python_version(),
        model=ModelProvenance(
            name=model.name,
            weights=model.weights,
            preprocess=engine.network.preprocess,
            labels=model.labels,
            sha256=hashes(engine.files),
        ),
        method=lrp.method,
        composite=lrp.composite if lrp.method == "lrp" else None,
        layers=explainer.rules_by_layer,
        target=lrp.target,
        device=engine.device,
        precision=engine.precision,
        settings=recorded_settings(config, *further),
    )
