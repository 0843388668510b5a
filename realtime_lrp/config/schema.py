"""The schema of config.yaml: every key, default, unit and limit, once.

After a change run `python assets/make/make_assets.py printed`. `keys.py` has the options that set
a key.
"""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from realtime_lrp.config.defaults import ATTENTION_COMPOSITE, COMPOSITE, VIEWER_COMPOSITE
from realtime_lrp.config.model_section import AlsoModels, Model, Section
from realtime_lrp.config.names import COLORMAPS, COMPOSITES, METHODS, RULES
from realtime_lrp.config.values import (
    Address,
    Batch,
    CameraFormat,
    CameraSize,
    Hours,
    Pin,
    Rules,
    Target,
    Text,
)

ASSETS = Path(__file__).parents[1] / "assets"
if not ASSETS.is_dir():  # a checkout that is run without being installed
    ASSETS = Path(__file__).parents[2] / "assets"


class Lrp(Section):
    """What is computed."""

    method: Text = Field(
        default="lrp",
        description=METHODS.listed(),
    )
    composite: Text = Field(
        default="auto",
        description=f"which rule for which layer (method lrp): auto, {COMPOSITES.listed()}; auto: "
        f"{ATTENTION_COMPOSITE} for networks with attention; for others {VIEWER_COMPOSITE} in "
        f"live, serve, demo, kiosk and concepts, elsewhere {COMPOSITE}",
    )
    layers: Rules = Field(
        default={},
        description="other rules for some layers, by name or type, such as {block1_*: flat, "
        f"Dense: epsilon(0.01)}}; the first pattern that matches counts; rules: {RULES.listed()}",
    )
    absorb_bias: bool | None = Field(
        default=None,
        description="true or false: biases absorb their share of the relevance, which then does "
        "not reach the pixels; null: as the composite was published (zplus and "
        "excitation_backprop: false, all others: true), or a rule of lrp.layers (epsilon, gamma "
        "and alpha_beta: true, all others: false)",
    )
    keep: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="above 0 to 1: share of the entries, largest first, that each layer passes "
        "on; the rest is dropped",
    )
    guided: list[Text] | None = Field(
        default=None,
        description="layers whose ReLUs guided_backprop and deconvnet change, such as [block5_*]; "
        "null: all",
    )
    samples: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="1 to 1000: pictures per map; null: 20 for smoothgrad, 50 for "
        "integrated_gradients",
    )
    baseline: Literal["zero", "black", "white", "mean", "blur"] = Field(
        default="zero",
        description="start of integrated_gradients: zero, black, white, mean (colour) or blur",
    )
    grad_cam_layer: Text | None = Field(
        default=None, description="layer whose feature maps grad_cam enlarges; null: the last one"
    )
    target: Target = Field(
        default="all",
        description='all, top1, top5 (any number), a class name or index, "A - B" or "A - rest"; '
        "default: all; in live, serve, demo, kiosk and concepts: top1",
    )
    start: Literal["probability", "logit"] = Field(
        default="probability",
        description="what LRP starts with at each class: its probability, or its logit (as zennit "
        "and LXT; better for all classes at once where a composite divides by the logits)",
    )
    pool: Literal["max", "average"] = Field(
        default="max",
        description="how relevance passes max pools: max (winner takes all) or average (in "
        "proportion)",
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        default="auto",
        description="auto, float32 or bfloat16. auto: float32; for moving pictures what rounding "
        "does not change is computed in bfloat16 where that is faster (processors: as measured; "
        "GPUs: since Ampere)",
    )
    xla: bool = Field(
        default=False,
        description="true or false: compile the whole graph with XLA. On a GPU, bench says "
        "whether that is faster; on a CPU it is not",
    )


class Input(Section):
    """What the network sees of a picture."""

    fit: Literal["crop", "squash", "letterbox"] = Field(
        default="crop", description="crop (largest centred region), squash or letterbox"
    )
    mirror: bool = Field(
        default=False,
        description="true or false: swap left and right, like a mirror; default: false; in kiosk: "
        "true",
    )


class Overlay(Section):
    """How relevance is drawn."""

    map: Literal["grey", "rgb"] = Field(
        default="grey",
        description="grey (summed over the colour channels) or rgb (each channel by itself)",
    )
    resolution: Literal["pixels", "patches"] | None = Field(
        default=None,
        description="pixels (as computed) or patches (the mean over each patch of a transformer); "
        "null, and patches on other networks: pixels, the grid of the first layers averaged away",
    )
    colormap: Text | None = Field(
        default=None,
        description=f"{COLORMAPS.listed()}; null: fire, or icefire if relevance can be negative",
    )
    opacity: float = Field(default=0.8, ge=0, le=1, description="0 (no map) to 1")
    follow: Literal["flow", "hold", "sync"] = Field(
        default="flow",
        description="what a map does in live pictures until the next one: flow (moves with the "
        "picture), hold (stays where it was) or sync (only pictures with their own map are shown)",
    )
    style: Literal["heat", "contour", "off"] = Field(
        default="heat",
        description="heat (colours), contour (lines of equal strength) or off, in live pictures",
    )
    average: float = Field(
        default=0.0,
        ge=0,
        le=0.95,
        description="0 to 0.95: share of the previous maps in each new one, in live pictures (not "
        "with sync)",
    )


class Video(Section):
    """Recordings."""

    layout: Literal["overlay", "side-by-side", "map", "original+map"] = Field(
        default="overlay",
        description="overlay, side-by-side (picture and overlay), map (on black) or original+map",
    )
    stride: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="1 to 1000: explain every n-th frame; until the next one its map moves with "
        "the picture",
    )
    batch: Batch = Field(
        default="auto", description="pictures explained at once, 1 to 256; auto: 8, on a GPU 16"
    )
    codec: Literal["h264", "hevc", "av1"] = Field(default="h264", description="h264, hevc or av1")
    quality: int | None = Field(
        default=None,
        ge=0,
        le=63,
        description="constant rate factor of the codec, 0 to 51 (av1: 63), lower is better; null: "
        "18 (h264), 20 (hevc), 28 (av1)",
    )
    audio: Literal["copy", "none"] = Field(
        default="copy",
        description="copy (unchanged; AAC if the container cannot hold it) or none",
    )

    @field_validator("quality")
    @classmethod
    def _of_the_codec(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is not None and value > 51 and info.data.get("codec") != "av1":
            raise ValueError(f"expected 0 to 51 for {info.data.get('codec')}")
        return value


class Live(Section):
    """The live viewer."""

    source: Address = Field(
        default="0",
        description="camera (0, /dev/video0 or part of its name), URL, screen (screen:2), "
        "synthetic (synthetic:60 for 60 fps), or a file, folder or glob",
    )
    sources: list[Address] = Field(
        default=[], description="more sources to switch to by key, such as [0, demo.mp4]"
    )
    camera_size: CameraSize = Field(
        default=None,
        description="pixels to request from the camera, WIDTHxHEIGHT such as 1280x720; null: its "
        "default",
    )
    camera_fps: float | None = Field(
        default=None,
        gt=0,
        le=1000,
        description="frames per second to request from the camera; null: its default",
    )
    camera_format: CameraFormat | None = Field(
        default=None,
        description="pixel format to request from the camera, such as MJPG or YUYV; "
        "null: its default",
    )
    panels: list[Text] = Field(
        default=["guided_backprop", "grad_cam"],
        description="methods or composites whose maps are shown beside the main one (key p), all "
        "from one forward pass",
    )
    also_models: AlsoModels = Field(
        default=[],
        description="up to 3 further networks that explain the same pictures, each in its own "
        "part of the window: names as of model.name, or keys of the section model, such as [vgg16, "
        "{name: my.keras, labels: my.txt, preprocess: torch}]",
    )
    concepts: bool = Field(
        default=False,
        description="true or false: whether the panel of concepts is shown at the start (key F2): "
        "the four channels with most relevance, each with its map and pictures of the gallery",
    )
    figures: list[Literal["answer", "rates", "setting"]] | None = Field(
        default=None,
        description="what is shown beside the picture at the start: answer, rates, setting; null: "
        "answer and setting, in the presenter view the answer",
    )
    text: Literal["presenter", "figures"] | None = Field(
        default=None,
        description="presenter (the answer in large letters, bars, method, colours) or figures; "
        "null: presenter in windows of 1000 lines or more",
    )
    text_size: Literal["small", "medium", "large"] = Field(
        default="medium", description="small, medium or large letters"
    )
    clicker: Literal["methods", "files"] = Field(
        default="methods",
        description="methods or files: what Page Up, Page Down and the arrow keys go through, the "
        "keys of a presenter's clicker",
    )
    folder: Text = Field(
        default=".", description="folder for the snapshots and recordings that are made by key"
    )
    display: Literal["window", "none"] = Field(default="window", description="window or none")


class Kiosk(Section):
    """The exhibit; its camera and display are set in the section live."""

    languages: list[Text] = Field(
        default=["en", "de", "fr", "es", "zh"],
        min_length=1,
        max_length=20,
        description="languages of the captions; the exhibit begins with the first one",
    )
    language_seconds: float = Field(
        default=15.0,
        ge=0,
        le=3600,
        description="0 to 3600 seconds until the next language, unless somebody chose one; 0: "
        "only by key or touch",
    )
    captions: Text | None = Field(
        default=None,
        description="folder of captions, LANGUAGE.yaml; null: the included ones",
    )
    clips: list[Address] = Field(
        default=[],
        description="films or pictures that are shown, with their maps, while nobody is there; "
        "empty: the included clip",
    )
    attract_fps: float = Field(
        default=6.0,
        ge=1,
        le=60,
        description="1 to 60 pictures and maps per second while nobody is there",
    )
    idle_seconds: float = Field(
        default=30.0,
        ge=1,
        le=3600,
        description="1 to 3600 seconds without a visitor until the exhibit asks whether somebody "
        "is there",
    )
    countdown_seconds: float = Field(
        default=10.0,
        ge=1,
        le=600,
        description="1 to 600 seconds to answer that question before the exhibit starts over",
    )
    sure: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description='0 to 1: least probability of a sure answer, "I see: cup"',
    )
    perhaps: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="0 to 1: least probability, averaged over a second, of an unsure answer, "
        '"Perhaps: cup"; below it "Nothing that I know"; null: 0.1, but no unsure answers of a '
        "network that has a class nothing (shapes)",
    )
    hours: Hours = Field(
        default={},
        description='opening hours, such as {tue-fri: "09:00-12:00, 13:00-17:30", sat: '
        '"10:00-01:00"}; empty: always open',
    )
    closed: Literal["black", "card", "off"] = Field(
        default="black",
        description="what the screen shows outside the opening hours: black, card (when the "
        "exhibit opens again) or off (black, and switched off where the X server has DPMS)",
    )
    exit_key: Text = Field(
        default="q", description="the key that ends the exhibit if held for 5 seconds"
    )
    exit_corner: Literal["top-left", "top-right", "bottom-left", "bottom-right", "none"] = Field(
        default="top-left",
        description="the corner of the screen that does the same by touch or mouse: top-left, "
        "top-right, bottom-left, bottom-right or none",
    )
    pin: Pin | None = Field(
        default=None,
        repr=False,
        description="PIN that is asked for before the exhibit ends, as realtime-lrp kiosk "
        "--hash-pin prints it; null: no PIN",
    )
    hot: float = Field(
        default=95.0,
        ge=40,
        le=150,
        description="40 to 150: temperature of the processor, in degrees Celsius, at which the "
        "network pauses until it is 10 degrees cooler",
    )
    concepts: bool = Field(
        default=False,
        description="true or false: while the network has an answer, a page shows in turn what "
        "single parts of it answer to, with pictures of the gallery (concepts.gallery)",
    )
    health: Text | None = Field(
        default=None,
        description="file in which the exhibit reports its state to technicians (JSON); null: "
        "health.json in the service's own folder",
    )


class Serve(Section):
    """The web page."""

    host: Text = Field(
        default="127.0.0.1",
        description="address to listen on: 127.0.0.1 for this machine alone, 0.0.0.0 for all of "
        "its networks",
    )
    port: int = Field(
        default=8090, ge=0, le=65535, description="port to listen on, 0 to 65535; 0: any free one"
    )
    token_file: Text | None = Field(
        default=None,
        description="file with the token that opens the page, 22 to 200 letters and digits; null: "
        "the environment variable REALTIME_LRP_TOKEN, else one that is kept for this user",
    )
    https: bool = Field(
        default=False,
        description="true or false: HTTPS with a certificate that this machine makes and keeps, "
        "unless serve.cert names one; phones give their camera only to pages over HTTPS",
    )
    cert: Text | None = Field(
        default=None, description="certificate for HTTPS, with its chain (PEM); null: none"
    )
    key: Text | None = Field(
        default=None, description="private key of serve.cert, without a password (PEM); null: none"
    )
    names: list[Text] = Field(
        default=[],
        description="further names of this machine in addresses, such as that of a reverse proxy, "
        "[lrp.example.org]",
    )


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
    concepts: Concepts = Field(default_factory=Concepts)

    def changed(self, **sections: dict[str, Any]) -> "Config":
        """The configuration with other values of some keys: `changed(lrp={"target": "all"})`."""
        return self.model_copy(
            update={
                name: getattr(self, name).model_copy(update=keys) for name, keys in sections.items()
            }
        )
