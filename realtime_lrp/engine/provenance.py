"""How an output was made, from the engine that made it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from realtime_lrp.config import Config
from realtime_lrp.config.names import AUTO
from realtime_lrp.config.provenance import ModelProvenance, Provenance, recorded_settings
from realtime_lrp.engine.hashes import hashes

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine


def provenance_of(engine: Engine, config: Config | None = None, *further: str) -> Provenance:
    """How the maps of an engine are made. Waits for the hashes of the network's files.

    The configuration is that of the output; None is the engine's. `further` are sections of it that
    shape the output besides those of every one.
    """
    config = config or engine.config
    if config.lrp.composite == AUTO:
        lrp = config.lrp.model_copy(update={"composite": engine.composite})
        config = config.model_copy(update={"lrp": lrp})
    model, lrp = config.model, config.lrp
    return msgspec.structs.replace(
        engine.explainer.provenance(),
        model=ModelProvenance(
            name=model.name,
            weights=model.weights,
            preprocess=engine.network.preprocess,
            labels=model.labels,
            sha256=hashes(engine.files),
        ),
        composite=lrp.composite if lrp.method == "lrp" else None,
        target=lrp.target,
        device=engine.device,
        settings=recorded_settings(config, *further),
    )
