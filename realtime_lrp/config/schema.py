"""The schema of config.yaml: every key, default, unit and limit, once.

The text under a key is what users read in config.yaml and --help. After a change run
`python assets/make/make_assets.py printed`.
The type of a key says more: `Option`, that --key sets it, and the `Names` that it takes.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationInfo,
    field_validator,
)

from realtime_lrp.config import names, values
from realtime_lrp.config.values import Address, Option, OptionName, Text, TextOrNumber

ASSETS = Path(__file__).parents[1] / "assets"
if not ASSETS.is_dir():  # a checkout that is run without being installed
    ASSETS = Path(__file__).parents[2] / "assets"


class Section(BaseModel):
    """A section: unknown keys and values of other types are refused."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True
    )


class Model(Section):
    """Which network is explained."""

    name: Annotated[Text, names.MODELS, OptionName("--model")] = "vgg16"
    """shapes, vgg16, mobilenet_v2 or another name that `realtime-lrp models` lists, a model file
    FILE.keras, FILE.h5, FILE.onnx or FILE.tflite, the FOLDER of a SavedModel, or hub:NAME, a
    classifier, detector or segmentation of KerasHub; default: vgg16; in demo, kiosk and evaluate:
    shapes"""
    weights: Option[Annotated[Text | None, names.WEIGHTS]] = None
    """imagenet, random or a weights file; null: the network's own"""
    labels: Option[Text | None] = None
    """file of class names (JSON, or one name per line); null: the network's own"""
    preprocess: Option[values.Preprocess | None] = None
    """caffe, tf, torch, rescale or none, or a range for 0 to 255 and further steps: '0..1
    mean=0.1307 std=0.3081', '0..255 bgr', '-1..1 invert'; null: the network's own"""
    size: Option[values.Size] = None
    """input size in pixels, N or HEIGHTxWIDTH, for a network without a fixed one"""
    output: Option[TextOrNumber | None] = None
    """name of the output to explain, if the network has several; null: the output with classes, or
    with a detector's boxes"""
    output_activation: Option[Literal["softmax", "sigmoid", "linear"] | None] = None
    """how the last values become scores: softmax, sigmoid, or linear (unchanged, as in a
    regression); null: softmax if several values are no probabilities"""
    scores: Option[Literal["logits", "probabilities"] | None] = None
    """logits or probabilities: the network's last values; null: its last operations decide, and a
    line says which"""


class AlsoModel(Model):
    """A further network of the live viewer, with the keys of the section model."""

    name: Text

    def setting(self) -> str | dict[str, Any]:
        """The value in a configuration file: the name, or keys with values."""
        given = {key: as_setting(value) for key, value in self if value is not None}
        return self.name if len(given) == 1 else given

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: GetJsonSchemaHandler) -> Any:
        """A name alone is legal too."""
        return {"anyOf": [{"type": "string"}, handler.resolve_ref_schema(handler(core))]}


AlsoModels = Annotated[
    list[Annotated[AlsoModel, BeforeValidator(lambda v: {"name": v} if isinstance(v, str) else v)]],
    Field(max_length=3),
    names.MODELS,
]


class Followed(AlsoModel):
    """The detector that finds what the network is to see, with the keys of the section model."""

    label: TextOrNumber | None = None
    """the class to look for, by name or index; null: any"""

    def setting(self) -> str | dict[str, Any]:
        """The value in a configuration file: FILE, FILE:CLASS, or keys with values."""
        given = {key: as_setting(value) for key, value in self if value is not None}
        text = ":".join(filter(None, (self.name, self.label)))
        return text if _read_follow(text) == given else given


def _read_follow(value: Any) -> Any:
    """Reads FILE:CLASS; the colon of hub:NAME, or of a drive, is another."""
    if not isinstance(value, str):
        return value
    name, _, label = value.rpartition(":")
    alone = len(name) < 2 or name + ":" == names.HUB or not label or {*label} & {*"/\\"}
    return {"name": value} if alone else {"name": name, "label": label}


Follow = Annotated[Followed, BeforeValidator(_read_follow)]


def as_setting(value: Any) -> Any:
    """A value as a configuration file has it, made of texts, numbers, lists and keys alone."""
    if isinstance(value, AlsoModel):
        return value.setting()
    if isinstance(value, list):
        return [as_setting(one) for one in value]
    return "x".join(map(str, value)) if isinstance(value, tuple) else value


class Lrp(Section):
    """The computation."""

    method: Option[Annotated[Text, names.METHODS]] = Field(
        default="lrp", description=names.METHODS.listed()
    )
    composite: Option[Annotated[Text, names.COMPOSITE_OR_AUTO]] = Field(
        default="auto",
        description=f"which rule for which layer (method lrp): auto, {names.COMPOSITES.listed()}; "
        f"auto: {names.ATTENTION_COMPOSITE} for networks with attention, "
        f"{names.DETECTOR_COMPOSITE} for detectors with attention; for others "
        f"{names.VIEWER_COMPOSITE} in live, serve, demo, kiosk and concepts, elsewhere "
        f"{names.COMPOSITE}",
    )
    layers: values.Rules = Field(
        default={},
        description="other rules for some layers, by name or type, such as {block1_*: flat, "
        "Dense: epsilon(0.01)}; the first pattern that matches counts; rules: "
        + names.RULES.listed(),
    )
    absorb_bias: bool | None = None
    """true or false: biases absorb their share of the relevance, which then does not reach the
    pixels; null: as the composite was published (zplus and excitation_backprop: false, all others:
    true), or a rule of lrp.layers (epsilon, gamma and alpha_beta: true, all others: false)"""
    samples: int | None = Field(default=None, ge=1, le=1000)
    """1 to 1000: pictures per map; null: 20 for smoothgrad, 50 for integrated_gradients"""
    grad_cam_layer: Text | None = None
    """layer whose feature maps grad_cam enlarges; null: the last one"""
    target: Option[Annotated[values.Target, names.TARGETS]] = "all"
    """all, top1, top5 (any number), a class name or index, "A - B" or "A - rest"; default: all; in
    live, serve, demo, kiosk and concepts: top1"""
    start: Literal["probability", "logit"] = "probability"
    """probability or logit: the relevance that each class starts with. logit, as in zennit and LXT,
    is better for all classes at once if a composite divides by the logits"""
    contrast: Option[bool] = True
    """true or false: a segmentation explains why a place has one class and not another: the map of
    the class minus the map of the runner-up, or of the target's second class, each divided by its
    sum of magnitudes; false: the map of the target alone"""
    pool: Option[Literal["max", "average"]] = "max"
    """how relevance passes max pools: max (winner takes all) or average (in proportion)"""
    precision: Option[Literal["auto", "float32", "bfloat16"]] = "auto"
    """auto, float32 or bfloat16. auto: float32; for moving pictures bfloat16 where rounding does no
    harm, if that is faster (processors: as measured; GPUs: since Ampere)"""
    xla: bool = False
    """true or false: compile the whole graph with XLA. On a GPU, bench says whether that is faster;
    on a CPU it is not"""


class Input(Section):
    """The network's input: the part of a picture that it sees."""

    fit: Literal["auto", "crop", "squash", "letterbox"] = "auto"
    """auto, crop (largest centred region), squash or letterbox. auto: letterbox for detectors and
    segmentations, crop for others"""
    at: Option[values.Place | None] = None
    """what a segmentation explains: the region of one class at X,Y, shares of the picture's width
    and height from the upper left, such as 0.5,0.25; null: the largest region that is not
    background"""
    pixel: bool = False
    """true or false: at a place a segmentation explains the pixel alone, not the region around"""
    mirror: Option[bool] = False
    """true or false: swap left and right, like a mirror; default: false; in kiosk: true"""
    region: Option[values.Corners | None] = None
    """X0,Y0,X1,Y1, fractions of the picture: the network sees that region alone; null: all of it"""
    follow: Option[Follow | None] = None
    """FILE[:CLASS], a detector: the network sees only the largest thing (of that class) that the
    detector finds, with a margin; or keys of the section model, such as {name: faces.onnx,
    preprocess: tf, label: face}; null: no detector"""


class Overlay(Section):
    """How relevance is drawn."""

    map: Option[Literal["grey", "rgb"]] = "grey"
    """grey (summed over the colour channels) or rgb (each channel by itself)"""
    colormap: Option[Annotated[Text | None, names.COLORMAPS]] = Field(
        default=None,
        description=names.COLORMAPS.listed()
        + "; null: fire, or icefire if relevance can be negative",
    )
    opacity: Option[float] = Field(default=0.8, ge=0, le=1)
    """0 (no map) to 1"""
    motion: Option[Literal["flow", "hold"]] = "flow"
    """what a map does in live pictures until the next one: flow (moves with the picture) or hold
    (stays where it was)"""
    style: Literal["heat", "contour", "off"] = "heat"
    """heat (colours), contour (lines of equal strength) or off, in live pictures"""
    average: float = Field(default=0.0, ge=0, le=0.95)
    """0 to 0.95: share of the previous maps in each new one, in live pictures"""


class Video(Section):
    """Recordings."""

    layout: Option[Literal["overlay", "side-by-side", "map", "original+map"]] = "overlay"
    """overlay, side-by-side (picture and overlay), map (on black) or original+map"""
    stride: Option[int] = Field(default=1, ge=1, le=1000)
    """1 to 1000: explain every n-th frame; until the next one its map moves with the picture"""
    batch: Option[int | None] = Field(default=None, ge=1, le=256)
    """pictures explained at once, 1 to 256; null: 8, on a GPU 16"""
    codec: Option[Literal["h264", "hevc", "av1"]] = "h264"
    """h264, hevc or av1"""
    quality: Option[int | None] = Field(default=None, ge=0, le=63)
    """constant rate factor of the codec, 0 to 51 (av1: 63), lower is better; null: 18 (h264), 20
    (hevc), 28 (av1)"""
    audio: Option[Literal["copy", "none"]] = "copy"
    """copy (unchanged; AAC if the container cannot hold it) or none"""

    @field_validator("quality")
    @classmethod
    def _of_the_codec(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is not None and value > 51 and info.data.get("codec") != "av1":
            raise ValueError(f"expected 0 to 51 for {info.data.get('codec')}")
        return value


class Live(Section):
    """The live viewer."""

    source: Option[Annotated[Address, names.SOURCES]] = Field(
        default="0",
        description="camera (0, /dev/video0 or part of its name), URL, file, folder, glob, or a "
        f"name: {'; '.join(f'{name} ({about})' for name, about in names.ABOUT_SOURCES.items())}",
    )
    sources: list[Address] = []
    """more sources to switch to by key, such as [0, demo.mp4]"""
    camera_size: values.CameraSize = None
    """pixels to request from the camera, WIDTHxHEIGHT such as 1280x720; null: its default"""
    camera_fps: float | None = Field(default=None, gt=0, le=1000)
    """frames per second to request from the camera; null: its default"""
    camera_format: values.CameraFormat | None = None
    """pixel format to request from the camera, such as MJPG or YUYV; null: its default"""
    panels: list[Annotated[Text, names.PANELS]] = ["guided_backprop", "grad_cam"]
    """methods or composites whose maps are shown beside the main one (key p), all from one forward
    pass"""
    also_models: Annotated[AlsoModels, OptionName("--also-model")] = []
    """up to 3 further networks that explain the same pictures, each in its own part of the window:
    names as of model.name, or keys of the section model, such as [vgg16, {name: my.keras, labels:
    my.txt, preprocess: torch}]"""
    concepts: Option[bool] = False
    """true or false: whether the panel of concepts is shown at the start (key c): the four
    channels with most relevance, each with its map and pictures of the gallery"""
    text: Literal["presenter", "figures", "none"] = "presenter"
    """presenter (the answer in large letters, three bars, what is explained, colours), figures (all
    of them, key u) or none"""
    text_size: Literal["small", "medium", "large"] = "medium"
    """small, medium or large letters"""
    lecture: Option[Text | None] = None
    """steps for a presenter's clicker (Page Down, Page Up): en or de (the included lecture;
    --lecture alone means en) or a file, LECTURE.yaml; null: none"""
    clicker: Literal["methods", "files"] = "methods"
    """methods or files: what a presenter's clicker steps through (Page Up, Page Down, arrows)"""
    folder: Text = "."
    """folder for the snapshots and recordings that are made by key"""
    display: Option[Literal["window", "none"]] = "window"
    """window or none"""


class Kiosk(Section):
    """The exhibit; its camera and display are set in the section live."""

    languages: list[Text] = Field(
        default=["en", "de", "fr", "es", "zh"], min_length=1, max_length=20
    )
    """languages of the captions; the exhibit begins with the first one"""
    captions: Text | None = None
    """folder of captions, LANGUAGE.yaml; null: the included ones"""
    clips: list[Address] = []
    """films or pictures that are shown, with their maps, while nobody is there; empty: the included
    clip"""
    attract_fps: float = Field(default=6.0, ge=1, le=60)
    """1 to 60 pictures and maps per second while nobody is there"""
    idle_seconds: float = Field(default=30.0, ge=1, le=3600)
    """1 to 3600 seconds without a visitor until the exhibit asks whether somebody is there"""
    countdown_seconds: float = Field(default=10.0, ge=1, le=600)
    """1 to 600 seconds to answer that question before the exhibit starts over"""
    sure: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description='0 to 1: least probability of a sure answer, "I see: cup"',
    )
    perhaps: float | None = Field(default=None, ge=0, le=1)
    """0 to 1: least probability, averaged over a second, of an unsure answer, "Perhaps: cup"; below
    it "Nothing that I know"; null: 0.1, but no unsure answers if the network has a class nothing
    (shapes)"""
    hours: values.Hours = {}
    """opening hours, such as {tue-fri: "09:00-12:00, 13:00-17:30", sat: "10:00-01:00"}; empty:
    always open"""
    pin: values.Pin | None = Field(default=None, repr=False)
    """PIN that is asked for before the exhibit ends, as realtime-lrp kiosk --hash-pin prints it;
    null: no PIN"""
    teach: bool = False
    """true or false: a button opens a page on which visitors teach the network three things of
    their own, which are forgotten when they go"""
    game: bool = False
    """true or false: a button begins a game for networks of drawn symbols (shapes): draw what
    people recognise and the network does not"""
    health: Text | None = None
    """file in which the exhibit reports its state to technicians (JSON); null: health.json in the
    service's own folder"""


class Serve(Section):
    """The web page."""

    host: Option[Text] = "127.0.0.1"
    """address to listen on: 127.0.0.1 for this machine alone, 0.0.0.0 for all of its networks"""
    port: Option[int] = Field(default=8090, ge=0, le=65535)
    """port to listen on, 0 to 65535; 0: any free one"""
    token_file: Option[Text | None] = None
    """file with the token that opens the page, 22 to 200 letters and digits; null: the environment
    variable REALTIME_LRP_TOKEN, else one that is kept for this user"""
    https: Option[bool] = False
    """true or false: HTTPS with a certificate that this machine makes and keeps, unless serve.cert
    names one; phones give their camera only to pages over HTTPS"""
    cert: Option[Text | None] = None
    """certificate for HTTPS, with its chain (PEM); null: none"""
    key: Option[Text | None] = None
    """private key of serve.cert, without a password (PEM); null: none"""
    names: list[Text] = []
    """further names of this machine in addresses, such as a reverse proxy's, [lrp.example.org]"""


class ConceptSettings(Section):
    """Concepts: what single channels of a layer answer to."""

    layer: Text | None = None
    """the layer whose channels are shown first; null: the last one with rows and columns, or the
    last hidden one of a transformer"""
    gallery: Option[Text | None] = None
    """file with the pictures that channels answer to, made by realtime-lrp concepts; null: the
    embedded one (shapes, shapes_vit), or none"""
    names: Option[Text | None] = None
    """file of channel names (YAML), {layer: {17: whiskers}}; null: none"""


class Config(Section):
    """Every setting."""

    model: Model = Field(default_factory=Model)
    lrp: Lrp = Field(default_factory=Lrp)
    input: Input = Field(default_factory=Input)
    overlay: Overlay = Field(default_factory=Overlay)
    video: Video = Field(default_factory=Video)
    live: Live = Field(default_factory=Live)
    kiosk: Kiosk = Field(default_factory=Kiosk)
    serve: Serve = Field(default_factory=Serve)
    concepts: ConceptSettings = Field(default_factory=ConceptSettings)

    def changed(self, **sections: dict[str, Any]) -> "Config":
        """The configuration with other values of some keys: `changed(lrp={"target": "all"})`."""
        return self.model_copy(
            update={
                name: getattr(self, name).model_copy(update=keys) for name, keys in sections.items()
            }
        )
