"""The section `concepts`."""

from pydantic import Field

from realtime_lrp.config.model_section import Section
from realtime_lrp.config.values import Text


class Concepts(Section):
    """Concepts: what single channels of a layer answer to."""

    layer: Text | None = Field(
        default=None,
        description="the layer whose channels are shown first; null: the last one with rows and "
        "columns, or the last hidden one of a transformer",
    )
    gallery: Text | None = Field(
        default=None,
        description="file with the pictures that channels answer to, made by realtime-lrp "
        "concepts; null: the embedded one (shapes, shapes_vit), or none",
    )
    names: Text | None = Field(
        default=None,
        description="file of channel names (YAML), {layer: {17: whiskers}}; null: none",
    )
