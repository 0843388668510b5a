"""The section `model`, and the list of further networks, whose entries have the same keys."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetJsonSchemaHandler

from realtime_lrp.config.values import Size, Text


class Section(BaseModel):
    """A section: unknown keys and values of other types are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Model(Section):
    """Which network is explained."""

    name: Text = Field(
        default="vgg16",
        description="shapes, vgg16, mobilenet_v2 or another name that `realtime-lrp models` "
        "lists, a model file FILE.keras, the FOLDER of a SavedModel, or hub:NAME, an image "
        "classifier of KerasHub; default: vgg16; in demo, kiosk and evaluate: shapes",
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
    output_activation: Literal["softmax", "sigmoid", "linear"] | None = Field(
        default=None,
        description="what makes scores of the last values: softmax, sigmoid, or linear: they are "
        "scores themselves, as in a regression; null: softmax where several values are no "
        "probabilities",
    )


class AlsoModel(Model):
    """A further network of the live viewer; its keys are those of the section model."""

    name: Text

    def setting(self) -> str | dict[str, Any]:
        """What a configuration file says: the name, or keys with values."""
        given = {key: as_setting(value) for key, value in self if value is not None}
        return self.name if len(given) == 1 else given

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: GetJsonSchemaHandler) -> Any:
        """A name alone is legal too."""
        return {"anyOf": [{"type": "string"}, handler.resolve_ref_schema(handler(core))]}


AlsoModels = Annotated[
    list[Annotated[AlsoModel, BeforeValidator(lambda v: {"name": v} if isinstance(v, str) else v)]],
    Field(max_length=3),
]


def as_setting(value: Any) -> Any:
    """A value as a configuration file has it, made of texts, numbers, lists and keys alone."""
    if isinstance(value, AlsoModel):
        return value.setting()
    if isinstance(value, list):
        return [as_setting(one) for one in value]
    return "x".join(map(str, value)) if isinstance(value, tuple) else value
