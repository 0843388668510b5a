"""Which network is taught where none is named, and what its file says of how it was made."""

import platform
from pathlib import Path

from realtime_lrp.config import Config
from realtime_lrp.config.provenance import ModelProvenance, Provenance, recorded_settings
from realtime_lrp.engine.hashes import hashes, network_files
from realtime_lrp.engine.tensorflow import keras, tf
from realtime_lrp.errors import UsageError
from realtime_lrp.models.applications import APPLICATIONS
from realtime_lrp.models.networks import Network
from realtime_lrp.system.atomic import check_output
from realtime_lrp.system.version import __version__

QUICK = "mobilenet_v2"
"""What is taught where its weights are on this machine."""


def default_network(config: Config) -> Config:
    """The configuration with the network that is taught where none is named."""
    name = QUICK if APPLICATIONS[QUICK].weights.exists() else "shapes"
    return config.changed(model={"name": name})


def checked_output(path: Path, overwrite: bool) -> None:
    """Refuses an output that cannot be made or does not end in .keras."""
    if path.suffix != ".keras":
        raise UsageError(f"{str(path)!r} has another ending. Expected a name such as mine.keras.")
    check_output(path, overwrite)


def provenance(network: Network, config: Config) -> Provenance:
    """How a network was made that was taught on top of another one."""
    model = config.model
    return Provenance(
        version=__version__,
        tensorflow=tf.__version__,
        keras=keras.__version__,
        python=platform.python_version(),
        model=ModelProvenance(
            name=model.name,
            weights=model.weights,
            preprocess=network.preprocess,
            labels=model.labels,
            sha256=hashes(network_files(config)),
        ),
        method="teach",
        composite=None,
        layers=None,
        target=None,
        device=None,
        precision="float32",
        settings=recorded_settings(config),
    )
