"""The schema of config.yaml: every key, default, unit and limit, once.

Nothing here imports TensorFlow or OpenCV. Names that a room owns (composites, models, colour maps)
are plain text here and checked where they live; `Settings.located` says where a bad one came from.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from realtime_lrp.errors import ConfigError, Error, MissingInputError, UsageError, nearest
from realtime_lrp.hours import parse_hours

ASSETS = Path(__file__).parent / "assets"
if not ASSETS.is_dir():  # a checkout that is run without being installed
    ASSETS = Path(__file__).parents[1] / "assets"

MAX_BYTES = 1 << 20


def _pair(expected: str, one_is_enough: bool) -> BeforeValidator:
    """Reads "224x320" as (224, 320), and 224 as (224, 224) where one number is enough."""

    def read(value: Any) -> Any:
        if value is None or isinstance(value, tuple):
            return value
        parts = re.fullmatch(r"\s*(\d+)(?:\s*[xX,]\s*(\d+))?\s*", str(value))
        if not parts or not (parts[2] or one_is_enough):
            raise ValueError(f"expected {expected}")
        return int(parts[1]), int(parts[2] or parts[1])

    return BeforeValidator(read)


def _camera_format(value: Any) -> Any:
    """Four letters in capitals."""
    if value is not None and not re.fullmatch(r"[ -~]{4}", str(value)):
        raise ValueError("expected four letters, for example MJPG or YUYV")
    return value and str(value).upper()


Pixels = Annotated[int, Field(ge=1, le=8192)]
CameraFormat = Annotated[str | None, BeforeValidator(_camera_format)]
CameraSize = Annotated[
    tuple[Pixels, Pixels] | None, _pair("WIDTHxHEIGHT, for example 1280x720", False)
]
Size = Annotated[
    tuple[Pixels, Pixels] | None,
    _pair("one number or HEIGHTxWIDTH, for example 224 or 224x320", True),
]
Text = Annotated[str, BeforeValidator(lambda v: str(v) if isinstance(v, int) else v)]


Batch = Annotated[
    Literal["auto"] | Annotated[int, Field(ge=1, le=256)],
    BeforeValidator(lambda v: int(v) if isinstance(v, str) and v.isdecimal() else v),
]


def _hours(value: Any) -> Any:
    parse_hours(value)
    return value


Hours = Annotated[dict[str, str], AfterValidator(_hours)]


def _pin(value: Any) -> Any:
    if value is not None and not re.fullmatch(r"scrypt:[0-9a-f]{32}:[0-9a-f]{64}", str(value)):
        raise ValueError("expected what realtime-lrp kiosk --hash-pin prints")
    return value


Pin = Annotated[str | None, BeforeValidator(_pin)]


def _rules(value: Any) -> Any:
    if isinstance(value, dict) and None in value.values():
        raise ValueError("quote a rule that has a comma in it: 'alpha_beta(1, 0)'")
    return value


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Model(_Section):
    """Which network is explained."""

    name: str | None = Field(
        None, description="shapes, vgg16, vgg19, or a file FILE.keras; null: vgg16 (demo: shapes)"
    )
    weights: str | None = Field(
        None, description="imagenet, random or a file; null: the network's own"
    )
    labels: str | None = Field(
        None, description="a file of class names (JSON or one a line); null: the network's own"
    )
    preprocess: Literal["caffe", "tf", "torch", "rescale", "none"] | None = Field(
        None, description="caffe, tf, torch, rescale or none; null: the network's own"
    )
    size: Size = Field(
        None, description="pixels, N or HEIGHTxWIDTH, for a network without a fixed input size"
    )


class Lrp(_Section):
    """What is computed."""

    method: str = Field(
        "lrp",
        description="lrp, gradient, input_x_gradient, guided_backprop, deconvnet, "
        "excitation_backprop, grad_cam, smoothgrad or integrated_gradients",
    )
    composite: str | None = Field(
        None,
        description="which rule for which layer (lrp): zplus, epsilon, epsilon_plus, "
        "epsilon_plus_flat, epsilon_alpha2_beta1, epsilon_alpha2_beta1_flat or epsilon_gamma_box; "
        "null: zplus (live, demo: epsilon_plus_flat)",
    )
    layers: Annotated[dict[str, str], BeforeValidator(_rules)] = Field(
        {},
        description="rules of their own for some layers, by name or type, such as "
        "{block1_*: flat, Dense: epsilon(0.01)}, the first that fits; rules: zplus, epsilon, "
        "gamma, alpha_beta, zbox, wsquare, flat, zplus_input",
    )
    absorb_bias: bool = Field(
        False, description="true or false: biases take their share of relevance, which is lost"
    )
    keep: float = Field(
        1.0,
        gt=0,
        le=1,
        strict=False,
        description="above 0 to 1: share of the entries, largest first, that each layer lets "
        "through; the rest is lost",
    )
    guided: list[str] | None = Field(
        None,
        description="layers whose ReLUs guided_backprop and deconvnet change, such as [block5_*]; "
        "null: all",
    )
    samples: int = Field(
        20, ge=1, le=1000, description="1 to 1000 pictures for smoothgrad, integrated_gradients"
    )
    target: Text = Field(
        "all",
        description='all, top1, top5 (any number), a class by name or index, "A - B" or "A - rest"',
    )
    pool: Literal["max", "average"] = Field(
        "max", description="through max pools: max (winner takes all) or average (in proportion)"
    )
    precision: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        "auto",
        description="auto, float32, bfloat16 or float16. auto is, in moving pictures whose maps "
        "never add up both signs, what the hardware multiplies: bfloat16 (AMX, GPUs from Ampere "
        "on) or float16 (GPUs before); else float32",
    )
    xla: bool = Field(
        False,
        description="true or false: the whole graph through XLA. On a GPU bench says if that is "
        "quicker; on a CPU it is not",
    )


class Input(_Section):
    """What the network gets of a picture."""

    fit: Literal["crop", "squash", "letterbox"] = Field(
        "crop", description="crop (largest centred region), squash or letterbox"
    )
    mirror: bool | None = Field(
        None,
        description="true or false: left and right swapped, like a mirror; null: only in kiosk",
    )


class Overlay(_Section):
    """How relevance is drawn."""

    map: Literal["grey", "rgb"] = Field(
        "grey", description="grey (summed over the colour channels) or rgb (each by itself)"
    )
    colormap: str | None = Field(
        None,
        description="bwr, coldnhot, fire, gray, hot or icefire; null: fire, or icefire where "
        "relevance can be negative",
    )
    opacity: float = Field(0.8, ge=0, le=1, strict=False, description="0 (no map) to 1")
    follow: Literal["flow", "hold", "sync"] = Field(
        "flow",
        description="the newest map in live pictures: flow (carried along with what moves), hold "
        "(where it was) or sync (only pictures with their own map are shown)",
    )
    style: Literal["heat", "contour", "off"] = Field(
        "heat",
        description="heat (colours), contour (lines of equal strength) or off, in live pictures",
    )
    average: float = Field(
        0.0,
        ge=0,
        le=0.95,
        strict=False,
        description="0 to 0.95: how much of the maps before stays in each new one of live pictures "
        "(not with sync)",
    )


class Video(_Section):
    """Recorded files."""

    layout: Literal["overlay", "side-by-side", "map", "original+map"] = Field(
        "overlay",
        description="overlay, side-by-side (picture and overlay), map (on black) or original+map",
    )
    stride: int = Field(
        1,
        ge=1,
        le=1000,
        description="1 to 1000: every so many-th frame is explained, its map carried along with "
        "what moves in between",
    )
    batch: Batch = Field(
        "auto", description="pictures explained together, 1 to 256; auto: 8, on a GPU 16"
    )
    codec: Literal["h264", "hevc", "av1"] = Field("h264", description="h264, hevc or av1")
    quality: int | None = Field(
        None,
        ge=0,
        le=63,
        description="the codec's constant rate factor, 0 to 51 (av1: 63), lower is better; null: "
        "18 (h264), 20 (hevc), 28 (av1)",
    )
    audio: Literal["copy", "none"] = Field(
        "copy", description="copy (as it is; AAC where the container cannot hold it) or none"
    )


class Live(_Section):
    """The live viewer."""

    source: Text = Field(
        "0",
        description="camera (0, /dev/video0 or part of its name), URL, screen (screen:2), "
        "synthetic (synthetic:60 for 60 fps), or a file, folder or glob",
    )
    sources: list[Text] = Field(
        [], description="further sources to go over to by key, such as [0, demo.mp4]"
    )
    camera_size: CameraSize = Field(
        None, description="pixels to ask a camera for, WIDTHxHEIGHT such as 1280x720; null: its own"
    )
    camera_fps: float | None = Field(
        None, gt=0, le=1000, strict=False, description="frames a second to ask for; null: its own"
    )
    camera_format: CameraFormat = Field(
        None,
        description="pixel format to ask for, four letters such as MJPG or YUYV; null: its own",
    )
    panels: list[str] = Field(
        ["guided_backprop", "grad_cam"],
        description="methods or composites whose maps stand beside the chosen one (key p), all "
        "from one forward pass",
    )
    figures: list[Literal["answer", "rates", "setting"]] = Field(
        ["answer", "rates", "setting"],
        description="what is shown beside the picture at the start: answer, rates, setting",
    )
    folder: str = Field(".", description="where pictures and recordings kept by key go")
    display: Literal["window", "none"] = Field("window", description="window or none")


class Kiosk(_Section):
    """The exhibit; its camera and display are those of live."""

    languages: Annotated[list[str], Field(min_length=1, max_length=20)] = Field(
        ["en", "de", "fr", "es", "zh"], description="languages of the captions, the first one first"
    )
    language_seconds: float = Field(
        15.0,
        ge=0,
        le=3600,
        strict=False,
        description="seconds until the next language, as long as nobody chose one; 0: only by key "
        "or touch",
    )
    captions: str | None = Field(
        None, description="a folder of captions, LANGUAGE.yaml; null: the ones that are included"
    )
    clips: list[Text] = Field(
        [],
        description="films or pictures shown while nobody is there, with their maps; none: the "
        "clip that is included",
    )
    attract_fps: float = Field(
        6.0,
        ge=1,
        le=60,
        strict=False,
        description="1 to 60 pictures and maps a second while nobody is there",
    )
    idle_seconds: float = Field(
        30.0,
        ge=1,
        le=3600,
        strict=False,
        description="1 to 3600 seconds without anybody until the exhibit asks who is there",
    )
    countdown_seconds: float = Field(
        10.0,
        ge=1,
        le=600,
        strict=False,
        description="1 to 600 seconds that it waits for an answer before it starts again",
    )
    hours: Hours = Field(
        {},
        description='when the exhibit is open, such as {tue-fri: "09:00-12:00, 13:00-17:30", '
        'sat: "10:00-01:00"}; the screen is black at other times; none: always open',
    )
    exit_key: str = Field(
        "q", description="the key that ends the exhibit when it is held for 5 seconds"
    )
    exit_corner: Literal["top-left", "top-right", "bottom-left", "bottom-right", "none"] = Field(
        "top-left",
        description="the corner of the screen that does so too by touch or mouse: top-left, "
        "top-right, bottom-left, bottom-right or none",
    )
    pin: Pin = Field(
        None,
        description="what realtime-lrp kiosk --hash-pin prints, to be asked for the PIN before "
        "the exhibit ends; null: no PIN",
    )
    hot: float = Field(
        95.0,
        ge=40,
        le=150,
        strict=False,
        description="40 to 150 degrees Celsius of the processor at which the network rests until "
        "it is 10 degrees cooler",
    )
    health: str | None = Field(
        None,
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


MODELS = {
    "shapes": "hand-drawn symbols, embedded, no download",
    "vgg16": "1000 classes of ImageNet, 528 MB are downloaded once",
    "vgg19": "1000 classes of ImageNet, 549 MB are downloaded once",
}
"""Networks that have a name."""

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

_ABOUT = {
    "model": "model.name", "weights": "model.weights", "method": "lrp.method",
    "composite": "lrp.composite", "class": "lrp.target", "colormap": "overlay.colormap",
    "size": "model.size", "layers": "lrp.layers", "rule": "lrp.layers", "guided": "lrp.guided",
    "codec": "video.codec", "panel": "live.panels", "exit key": "kiosk.exit_key",
}  # fmt: skip
"""What a `UsageError` is about -> the key that holds it."""


@dataclass(frozen=True)
class Settings:
    """A valid configuration, and where each value that is not a default came from.

    Attributes:
      config: the values.
      origins: key "section.key" -> place, for example "my.yaml:12" or "--opacity".
      given: what `load` was given.
      complaint: what is wrong with the file in whose place another one was taken; else "".
    """

    config: Config
    origins: Mapping[str, str]
    given: tuple[str | Path | None, tuple[str, ...], Mapping[str, Any]] = (None, (), {})
    complaint: str = ""

    def located(self, error: UsageError) -> Error:
        """The error as a `ConfigError` with its place, where a file or `--set` caused it."""
        place = self.origins.get(_ABOUT.get(error.about or "", ""))
        if place is None or place in OPTIONS:
            return error
        return ConfigError(f"{place}: {_ABOUT[error.about]}: {error}")


def load(
    file: str | Path | None = None,
    sets: tuple[str, ...] = (),
    options: Mapping[str, Any] | None = None,
) -> Settings:
    """Command line over `--set` over file over default.

    Args:
      file: a YAML file, or None.
      sets: assignments "section.key=value".
      options: option such as "--opacity" -> value.

    Raises:
      MissingInputError: there is no such file.
      ConfigError: the file or an assignment is wrong; the message lists every error.
      UsageError: only values given as options are wrong.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    problems: list[tuple[str, str]] = []
    sources = [*_file_entries(file, problems), *_set_entries(sets, problems)]
    sources += [(OPTIONS[name], value, name) for name, value in (options or {}).items()]
    for key, value, place in sources:
        section, _, name = key.partition(".")
        origins[key] = place
        if not name:
            values[section] = {} if value is None else value
        elif isinstance(values.setdefault(section, {}), dict):
            values[section][name] = value
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        problems += [_problem(detail, origins) for detail in error.errors()]
    if problems:
        lines = "\n".join(f"{place}: {text}" for place, text in problems)
        only_options = all(place in OPTIONS for place, _ in problems)
        raise (UsageError if only_options else ConfigError)(lines)
    return Settings(config, origins, (file, sets, options or {}))


def describe(key: str) -> str:
    """The comment of a key "section.key": its meaning, unit and legal values."""
    return _field(key).description


def legal_keys() -> list[str]:
    """Every key as "section.key", in the order of the file."""
    sections = Config.model_fields.items()
    return [f"{s}.{k}" for s, field in sections for k in field.annotation.model_fields]


def as_yaml(settings: Settings) -> str:
    """The effective configuration as a commented YAML file that `load` reads back."""
    return "".join(_yaml_lines(settings))


def _yaml_lines(settings: Settings) -> Iterator[str]:
    yield "# realtime_lrp: every setting with its default, unit and legal values.\n"
    for section, field in Config.model_fields.items():
        yield f"\n{section}:  # {field.annotation.__doc__}\n"
        for key, value in getattr(settings.config, section):
            path = f"{section}.{key}"
            place = settings.origins.get(path)
            if isinstance(value, tuple):
                value = "x".join(map(str, value))
            flow = None if isinstance(value, dict | list) else False
            shown = yaml.safe_dump(
                {key: value},
                allow_unicode=True,
                width=1000,
                default_flow_style=flow,
                sort_keys=False,
            ).strip()
            yield f"  {shown}  # {describe(path)}{f' [from {place}]' if place else ''}\n"


def _field(key: str):
    section, _, name = key.partition(".")
    return Config.model_fields[section].annotation.model_fields[name]


def _file_entries(file, problems) -> Iterator[tuple[str, Any, str]]:
    """Yields (key, value, place) for each entry of the file."""
    if file is None:
        return
    root = read_yaml(Path(file))
    if root is None:
        return
    if not isinstance(root, yaml.MappingNode):
        problems.append((f"{file}:1", "expected sections such as 'lrp:' with keys under them"))
        return
    yield from _mapping_entries(root, "", file, problems)


def _mapping_entries(node, prefix, file, problems) -> Iterator[tuple[str, Any, str]]:
    for key, place, value_node in pairs(node, prefix, file, problems):
        if isinstance(value_node, yaml.MappingNode) and not prefix:
            yield key, {}, place
            yield from _mapping_entries(value_node, f"{key}.", file, problems)
            continue
        try:
            value = yaml.SafeLoader("").construct_object(value_node, deep=True)
        except (yaml.YAMLError, ValueError):
            problems.append((place, f"{key}: is not a plain YAML value; quote it if it is text"))
        else:
            yield key, value, place


def pairs(
    node: yaml.MappingNode, prefix: str, file: Any, problems: list[tuple[str, str]]
) -> Iterator[tuple[str, str, yaml.Node]]:
    """Yields (prefix and key, place, value) of a mapping in YAML.

    Args:
      node: the mapping.
      prefix: the keys around it, such as "lrp.".
      file: what the place "FILE:LINE" names.
      problems: (place, message) of each key that stands there twice is added.
    """
    seen: set[str] = set()
    for key_node, value_node in node.value:
        key = prefix + str(key_node.value)
        place = f"{file}:{key_node.start_mark.line + 1}"
        if key in seen:
            problems.append((place, f"{key}: stands here a second time; keep one of them"))
        seen.add(key)
        yield key, place, value_node


def read_yaml(file: Path) -> yaml.Node | None:
    """The tree of nodes of a YAML file in UTF-8, at most 1 MiB large; None of an empty one.

    Raises:
      MissingInputError: there is no such file.
      ConfigError: it is too large, has aliases, or is not YAML.
    """
    try:
        if file.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{file}: is larger than 1 MiB. Expected a configuration file.")
        text = file.read_text(encoding="utf-8")
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text)):
            raise ConfigError(
                f"{file}: uses YAML aliases (*name). Write the values out, "
                "and quote a name that begins with *."
            )
        return yaml.compose(text, yaml.SafeLoader)
    except FileNotFoundError:
        raise MissingInputError(f"There is no configuration file {str(file)!r}.") from None
    except RecursionError:
        raise ConfigError(f"{file}: is nested too deeply. Expected a configuration file.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read as UTF-8 text ({error}).") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{file}:{mark.line + 1}" if mark else str(file)
        raise ConfigError(f"{where}: is not YAML ({getattr(error, 'problem', error)}).") from None


def _set_entries(sets, problems) -> Iterator[tuple[str, Any, str]]:
    for assignment in sets:
        key, equals, value = assignment.partition("=")
        place = "--set"  # without the value, which may be secret
        if not equals:
            problems.append((place, f"expected section.key=value for {key.strip()!r}"))
            continue
        try:
            yield key.strip(), yaml.safe_load(value), place
        except (yaml.YAMLError, ValueError):
            problems.append((place, f"{key}: is not a plain YAML value; quote it if it is text"))


def _problem(detail: Mapping[str, Any], origins: Mapping[str, str]) -> tuple[str, str]:
    """(place, message) of one pydantic error."""
    location = [str(part) for part in detail["loc"]]
    key = ".".join(location[:2])
    inside = (origins[k] for k in origins if k.startswith(f"{location[0]}."))
    place = origins.get(key) or origins.get(location[0]) or next(inside, key)
    if detail["type"] == "extra_forbidden":
        legal = legal_keys() if len(location) > 1 else list(Config.model_fields)
        close = nearest(key, legal)
        return place, f"there is no key {key!r}" + (f"; did you mean {close!r}?" if close else "")
    if detail["type"] in ("model_type", "model_attributes_type"):
        return place, f"{key}: is a section; expected keys under it"
    message = detail["msg"].removeprefix("Value error, ")
    return place, f"{key}: {message[0].lower()}{message[1:]}; received {detail['input']!r}"
