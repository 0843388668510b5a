"""The schema of config.yaml: every key, default, unit and limit, once."""

from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from realtime_lrp.config.values import (
    Address,
    Batch,
    CameraFormat,
    CameraSize,
    Hours,
    Pin,
    Rules,
    Size,
    Target,
    Word,
)

ASSETS = Path(__file__).parents[1] / "assets"
if not ASSETS.is_dir():  # a checkout that is run without being installed
    ASSETS = Path(__file__).parents[2] / "assets"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Model(_Section):
    """Which network is explained."""

    name: Word = Field(
        default="vgg16",
        description="shapes, vgg16, vgg19, or a model file FILE.keras; default: vgg16, in demo, "
        "kiosk and evaluate (drawn pictures) shapes",
    )
    weights: Word | None = Field(
        default=None, description="imagenet, random or a file; null: the network's own"
    )
    labels: Word | None = Field(
        default=None,
        description="a file of class names (JSON or one a line); null: the network's own",
    )
    preprocess: Literal["caffe", "tf", "torch", "rescale", "none"] | None = Field(
        default=None, description="caffe, tf, torch, rescale or none; null: the network's own"
    )
    size: Size = Field(
        default=None,
        description="pixels, N or HEIGHTxWIDTH, for a network without a fixed input size",
    )


class Lrp(_Section):
    """What is computed."""

    method: Word = Field(
        default="lrp",
        description="lrp, gradient, input_x_gradient, guided_backprop, deconvnet, "
        "excitation_backprop, grad_cam, smoothgrad or integrated_gradients",
    )
    composite: Word = Field(
        default="zplus",
        description="which rule for which layer (method lrp): zplus, epsilon, epsilon_plus, "
        "epsilon_plus_flat, epsilon_alpha2_beta1, epsilon_alpha2_beta1_flat or epsilon_gamma_box; "
        "default: zplus, in live, demo and kiosk epsilon_plus_flat",
    )
    layers: Rules = Field(
        default={},
        description="rules of their own for some layers, by name or type, such as "
        "{block1_*: flat, Dense: epsilon(0.01)}, the first that fits; rules: zplus, epsilon, "
        "gamma, alpha_beta, zbox, wsquare, flat, zplus_input",
    )
    absorb_bias: bool = Field(
        default=False,
        description="true or false: biases take their share of relevance, which is lost",
    )
    keep: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="above 0 to 1: share of the entries, largest first, that each layer lets "
        "through; the rest is lost",
    )
    guided: list[Word] | None = Field(
        default=None,
        description="layers whose ReLUs guided_backprop and deconvnet change, such as [block5_*]; "
        "null: all",
    )
    samples: int = Field(
        default=20,
        ge=1,
        le=1000,
        description="1 to 1000 pictures for smoothgrad, integrated_gradients",
    )
    target: Target = Field(
        default="all",
        description='all, top1, top5 (any number), a class by name or index, "A - B" or '
        '"A - rest"; default: all, in kiosk top1',
    )
    pool: Literal["max", "average"] = Field(
        default="max",
        description="through max pools: max (winner takes all) or average (in proportion)",
    )
    precision: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        default="auto",
        description="auto, float32, bfloat16 or float16. auto is, in moving pictures whose maps "
        "never add up both signs, what the hardware multiplies: bfloat16 (AMX, GPUs from Ampere "
        "on) or float16 (GPUs before); else float32",
    )
    xla: bool = Field(
        default=False,
        description="true or false: the whole graph through XLA. On a GPU bench says if that is "
        "quicker; on a CPU it is not",
    )


class Input(_Section):
    """What the network gets of a picture."""

    fit: Literal["crop", "squash", "letterbox"] = Field(
        default="crop", description="crop (largest centred region), squash or letterbox"
    )
    mirror: bool = Field(
        default=False,
        description="true or false: swap left and right, like a mirror; default: false, in kiosk "
        "true",
    )


class Overlay(_Section):
    """How relevance is drawn."""

    map: Literal["grey", "rgb"] = Field(
        default="grey", description="grey (summed over the colour channels) or rgb (each by itself)"
    )
    colormap: Word | None = Field(
        default=None,
        description="bwr, coldnhot, fire, gray, hot or icefire; null: fire, or icefire where "
        "relevance can be negative",
    )
    opacity: float = Field(default=0.8, ge=0, le=1, description="0 (no map) to 1")
    follow: Literal["flow", "hold", "sync"] = Field(
        default="flow",
        description="the newest map in live pictures: flow (carried along with what moves), hold "
        "(where it was) or sync (only pictures with their own map are shown)",
    )
    style: Literal["heat", "contour", "off"] = Field(
        default="heat",
        description="heat (colours), contour (lines of equal strength) or off, in live pictures",
    )
    average: float = Field(
        default=0.0,
        ge=0,
        le=0.95,
        description="0 to 0.95: how much of the maps before stays in each new one of live pictures "
        "(not with sync)",
    )


class Video(_Section):
    """Recorded files."""

    layout: Literal["overlay", "side-by-side", "map", "original+map"] = Field(
        default="overlay",
        description="overlay, side-by-side (picture and overlay), map (on black) or original+map",
    )
    stride: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="1 to 1000: every so many-th frame is explained, its map carried along with "
        "what moves in between",
    )
    batch: Batch = Field(
        default="auto", description="pictures explained together, 1 to 256; auto: 8, on a GPU 16"
    )
    codec: Literal["h264", "hevc", "av1"] = Field(default="h264", description="h264, hevc or av1")
    quality: int | None = Field(
        default=None,
        ge=0,
        le=63,
        description="the codec's constant rate factor, 0 to 51 (av1: 63), lower is better; null: "
        "18 (h264), 20 (hevc), 28 (av1)",
    )
    audio: Literal["copy", "none"] = Field(
        default="copy",
        description="copy (as it is; AAC where the container cannot hold it) or none",
    )

    @field_validator("quality")
    @classmethod
    def _of_the_codec(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is not None and value > 51 and info.data.get("codec") != "av1":
            raise ValueError(f"expected 0 to 51 for {info.data.get('codec')}")
        return value


class Live(_Section):
    """The live viewer."""

    source: Address = Field(
        default="0",
        description="camera (0, /dev/video0 or part of its name), URL, screen (screen:2), "
        "synthetic (synthetic:60 for 60 fps), or a file, folder or glob",
    )
    sources: list[Address] = Field(
        default=[], description="further sources to go over to by key, such as [0, demo.mp4]"
    )
    camera_size: CameraSize = Field(
        default=None,
        description="pixels to ask a camera for, WIDTHxHEIGHT such as 1280x720; null: its own",
    )
    camera_fps: float | None = Field(
        default=None, gt=0, le=1000, description="frames a second to ask for; null: its own"
    )
    camera_format: CameraFormat | None = Field(
        default=None,
        description="pixel format to ask for, four letters such as MJPG or YUYV; null: its own",
    )
    panels: list[Word] = Field(
        default=["guided_backprop", "grad_cam"],
        description="methods or composites whose maps stand beside the chosen one (key p), all "
        "from one forward pass",
    )
    figures: list[Literal["answer", "rates", "setting"]] = Field(
        default=["answer", "rates", "setting"],
        description="what is shown beside the picture at the start: answer, rates, setting",
    )
    folder: Word = Field(default=".", description="where pictures and recordings kept by key go")
    display: Literal["window", "none"] = Field(default="window", description="window or none")


class Kiosk(_Section):
    """The exhibit; its camera and display are those of live."""

    languages: list[Word] = Field(
        default=["en", "de", "fr", "es", "zh"],
        min_length=1,
        max_length=20,
        description="languages of the captions, the first one first",
    )
    language_seconds: float = Field(
        default=15.0,
        ge=0,
        le=3600,
        description="seconds until the next language, as long as nobody chose one; 0: only by key "
        "or touch",
    )
    captions: Word | None = Field(
        default=None,
        description="a folder of captions, LANGUAGE.yaml; null: the ones that are included",
    )
    clips: list[Address] = Field(
        default=[],
        description="films or pictures shown while nobody is there, with their maps; none: the "
        "clip that is included",
    )
    attract_fps: float = Field(
        default=6.0,
        ge=1,
        le=60,
        description="1 to 60 pictures and maps a second while nobody is there",
    )
    idle_seconds: float = Field(
        default=30.0,
        ge=1,
        le=3600,
        description="1 to 3600 seconds without anybody until the exhibit asks who is there",
    )
    countdown_seconds: float = Field(
        default=10.0,
        ge=1,
        le=600,
        description="1 to 600 seconds that it waits for an answer before it starts again",
    )
    hours: Hours = Field(
        default={},
        description='when the exhibit is open, such as {tue-fri: "09:00-12:00, 13:00-17:30", '
        'sat: "10:00-01:00"}; the screen is black at other times; none: always open',
    )
    exit_key: Word = Field(
        default="q", description="the key that ends the exhibit when it is held for 5 seconds"
    )
    exit_corner: Literal["top-left", "top-right", "bottom-left", "bottom-right", "none"] = Field(
        default="top-left",
        description="the corner of the screen that does so too by touch or mouse: top-left, "
        "top-right, bottom-left, bottom-right or none",
    )
    pin: Pin | None = Field(
        default=None,
        repr=False,
        description="what realtime-lrp kiosk --hash-pin prints, to be asked for the PIN before "
        "the exhibit ends; null: no PIN",
    )
    hot: float = Field(
        default=95.0,
        ge=40,
        le=150,
        description="40 to 150 degrees Celsius of the processor at which the network rests until "
        "it is 10 degrees cooler",
    )
    health: Word | None = Field(
        default=None,
        description="the file that tells the technician how the exhibit is (JSON); null: "
        "health.json in the service's own folder",
    )


class Config(_Section):
    """Every setting."""

    model: Model = Field(default_factory=Model)
    lrp: Lrp = Field(default_factory=Lrp)
    input: Input = Field(default_factory=Input)
    overlay: Overlay = Field(default_factory=Overlay)
    video: Video = Field(default_factory=Video)
    live: Live = Field(default_factory=Live)
    kiosk: Kiosk = Field(default_factory=Kiosk)


SECTIONS: dict[str, type[BaseModel]] = {name: type(section) for name, section in Config()}
"""Name -> the class that has its keys."""

_FIELDS = {
    f"{section}.{key}": field
    for section, kind in SECTIONS.items()
    for key, field in kind.model_fields.items()
}

OPTIONS = {
    "--model": "model.name",
    "--weights": "model.weights",
    "--labels": "model.labels",
    "--preprocess": "model.preprocess",
    "--size": "model.size",
    "--method": "lrp.method",
    "--composite": "lrp.composite",
    "--target": "lrp.target",
    "--pool": "lrp.pool",
    "--precision": "lrp.precision",
    "--mirror": "input.mirror",
    "--map": "overlay.map",
    "--colormap": "overlay.colormap",
    "--opacity": "overlay.opacity",
    "--follow": "overlay.follow",
    "--layout": "video.layout",
    "--stride": "video.stride",
    "--batch": "video.batch",
    "--codec": "video.codec",
    "--quality": "video.quality",
    "--audio": "video.audio",
    "--source": "live.source",
    "--display": "live.display",
}
"""Command line options that set a key."""


def describe(key: str) -> str:
    """The comment of a key "section.key": its meaning, unit and legal values."""
    return _FIELDS[key].description or ""


def kind_of(key: str) -> type:
    """What a key "section.key" takes: int or float where it is nothing but a number, else str."""
    kinds = set(get_args(_FIELDS[key].annotation) or [_FIELDS[key].annotation]) - {type(None)}
    return next(iter(kinds)) if kinds in ({int}, {float}) else str


def choices(key: str) -> list[str]:
    """The words of a key with fixed choices, true and false included; empty for other keys."""
    return list(_choices(_FIELDS[key].annotation))


def _choices(kind: Any) -> Iterator[str]:
    if kind is bool:
        yield from ("true", "false")
    elif get_origin(kind) is Literal:
        yield from get_args(kind)
    elif get_origin(kind) in (Union, UnionType):
        for one in get_args(kind):
            yield from _choices(one)


def field_of(key: str) -> FieldInfo | None:
    """The field of a key "section.key", or None where there is no such key."""
    return _FIELDS.get(key)


def legal_keys() -> list[str]:
    """Every key as "section.key", in the order of the file."""
    return list(_FIELDS)
