"""The engine of a configuration: of a network, or of an exported explanation.

Must not import TensorFlow with the module: an exported explanation needs none.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from realtime_lrp.config import Config
from realtime_lrp.errors import UnavailableError
from realtime_lrp.models.exported import is_exported

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine


def engine_for(config: Config, **options: Any) -> Engine:
    """The engine of a configuration; of an exported explanation one with the same attributes."""
    if is_exported(config.model.name):
        from realtime_lrp.engine.exported import ExportedEngine

        exported: Any = ExportedEngine(config, options.get("also", ()))
        return exported
    if find_spec("tensorflow") is None:
        raise UnavailableError(
            f"The network {config.model.name!r} needs TensorFlow, which is not installed: "
            "pip install tensorflow keras h5py.\nAn exported FILE.onnx needs none."
        )
    from realtime_lrp.engine.engine import Engine

    return Engine(config, **options)
