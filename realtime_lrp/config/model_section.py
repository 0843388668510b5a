"""The section `model`, and the list of further networks, whose entries have the same keys."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from realtime_lrp.config.values import Size, Text


class Section(BaseModel):
    """A section: unknown keys and values of other types are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Model(Section):
    """Which network is explained."""

    name: Text = Field(
        default="vgg16",
        description="shapes, shapes_vit, vgg16, vgg19, a model file FILE.keras, the FOLDER of "
        "a SavedModel, or hub:NAME, an image classifier of KerasHub; default: vgg16; in demo, "
        "kiosk and evaluate: shapes",
    )
    weights: Text | None = Field(
        default=None, description="imagenet, random or a weights file; null: the network's own"
    )
    labels: Text | None = Field(
        default=None,
        description="file of class names (JSON, or one name per line); null: the network's own",
    )
    preprocess: Literal["caffe", "tf", "torch", "rescale", "none"] | None = Field(
        default=None, description="caffe, tf, torch, rescale or none; null: the network's own"
    )
    size: Size = Field(
        default=None,
        description="input size in pixels, N or HEIGHTxWIDTH, for a network without a fixed one",
    )


class AlsoModel(Model):
    """A further network of the live viewer; its keys are those of the section model."""

    name: Text

    def setting(self) -> str | dict[str, Any]:
        """What a configuration file says: the name, or keys with values."""
        given = {key: as_setting(value) for key, value in self if value is not None}
        return self.name if len(given) == 1 else given


def _read_also_model(value: Any) -> Any:
    """Turns a name into keys with values."""
    if isinstance(value, str):
        return {"name": value}
    keys = list(AlsoModel.model_fields)
    known = isinstance(value, dict) and value.keys() <= set(keys)
    if not isinstance(value, AlsoModel) and not (known and isinstance(value.get("name"), str)):
        raise ValueError(
            f"expected the name of a network, or keys such as {{name: FILE.keras, labels: FILE}}; "
            f"the keys are {', '.join(keys)}"
        )
    return value


_ALSO_MODEL_KEYS = Model.model_json_schema()["properties"]
AlsoModels = Annotated[
    list[Annotated[AlsoModel, BeforeValidator(_read_also_model)]],
    WithJsonSchema(
        {
            "type": "array",
            "maxItems": 3,
            "items": {
                "anyOf": [
                    {"type": "string"},
                    {
                        "type": "object",
                        "properties": {**_ALSO_MODEL_KEYS, "name": {"type": "string"}},
                        "required": ["name"],
                        "additionalProperties": False,
                    },
                ]
            },
        }
    ),
]


def as_setting(value: Any) -> Any:
    """A value as a configuration file has it, made of texts, numbers, lists and keys alone."""
    if isinstance(value, AlsoModel):
        return value.setting()
    if isinstance(value, list):
        return [as_setting(one) for one in value]
    return "x".join(map(str, value)) if isinstance(value, tuple) else value
