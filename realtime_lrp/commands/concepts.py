"""`concepts`: makes a gallery, and of one that exists a sheet and a file of names."""

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import msgspec
import numpy as np

from realtime_lrp.concepts.making import ACTIVATING, RELEVANT, SIDE, Making
from realtime_lrp.concepts.pictures import DrawnPictures, FilePictures, Pictures
from realtime_lrp.config import Config
from realtime_lrp.config.names import VIEWER_COMPOSITE
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.gallery import other_network
from realtime_lrp.errors import OutputError, UsageError
from realtime_lrp.models import gallery as galleries
from realtime_lrp.models.drawings import check_known
from realtime_lrp.models.names import hashes, network_files
from realtime_lrp.system.files import atomic_file, check_output
from realtime_lrp.video.files import PICTURES, VIDEOS, refuse_inputs, same_file
from realtime_lrp.video.pictures import write_picture
from realtime_lrp.video.region import resize
from realtime_lrp.view.text import draw_text, fitted

TILE, GAP = 64, 4  # side of a picture on the sheet, and the pixels between two
TEXT_WIDTH, TEXT_SIZE = 150, 13  # pixels for the text of a row, and the size of its letters
BACKGROUND = 24  # brightness behind everything
HEADING = 24  # rows of pixels above the pictures, for the words that say which are which
MOST_CHANNELS = 200  # how many of a layer are listed: nobody names more

MOST_ROWS = 600
"""How many channels without a name a sheet shows; of many layers it has fewer of each. As PNG that
takes 510 MB of memory."""

LEAST_CLASS = 0.01  # a class with a smaller part of a channel's relevance is not mentioned


def listed_channels(
    gallery: galleries.Gallery, layer: str, names: galleries.ChannelNames, most: int = MOST_CHANNELS
) -> list[tuple[int, galleries.ChannelContents]]:
    """A layer's `most` relevant channels and all named ones, the most often relevant first."""
    named = names.get(layer, {})
    known = sorted(gallery.channels(layer).items(), key=lambda one: (-one[1].often, one[0]))
    relevant = [number for number, one in known if one.relevant]
    first = {*relevant[:most], *named}
    return [(number, one) for number, one in known if number in first]


def class_words(known: galleries.ChannelContents) -> list[str]:
    """The classes that a channel speaks for, with their parts: "tabby cat 40%"."""
    return [f"{label} {part:.0%}" for label, part in known.classes if part >= LEAST_CLASS]


def gallery_sheet(gallery: galleries.Gallery, names: galleries.ChannelNames) -> np.ndarray:
    """The relevant and activating pictures of each listed channel: uint8 [H, W, 3] RGB."""
    most = min(MOST_CHANNELS, MOST_ROWS // max(1, len(gallery.layers)))
    channels = [
        (layer, channel, known)
        for layer in gallery.layers
        for channel, known in listed_channels(gallery, layer, names, most)
    ]
    step = TILE + GAP
    starts = TEXT_WIDTH, TEXT_WIDTH + RELEVANT * step + 4 * GAP
    width = starts[1] + ACTIVATING * step + 4 * GAP
    columns = max(1, round(np.sqrt(len(channels) * step / width)))
    each = -(-len(channels) // columns)
    sheet = np.full((HEADING + each * step + GAP, columns * width, 3), BACKGROUND, np.uint8)
    for column in range(columns):
        for start, text in zip(starts, ("most relevance", "most activation"), strict=True):
            draw_text(sheet, text, (column * width + start, HEADING - 8), TEXT_SIZE)
    for number, (layer, channel, known) in enumerate(channels):
        y, x = HEADING + number % each * step, number // each * width
        row = sheet[y : y + TILE, x : x + width]
        name = names.get(layer, {}).get(channel, "")
        _write_beside(row, layer, channel, known, name)
        relevant = gallery.pictures(layer, channel)
        activating = gallery.activating(layer, channel)
        kinds = relevant[:RELEVANT], activating[:ACTIVATING]
        for start, pictures in zip(starts, kinds, strict=True):
            for place, picture in enumerate(pictures):
                left = start + place * step
                row[:, left : left + TILE] = resize(picture, (TILE, TILE))
    return sheet


def _write_beside(
    row: np.ndarray, layer: str, channel: int, known: galleries.ChannelContents, name: str
) -> None:
    """Draws the text of a channel into its row, uint8 [TILE, W, 3]."""
    lines = [name or f"channel {channel}", layer if not name else f"{channel} of {layer}"]
    lines += class_words(known)[:2]
    text = np.ascontiguousarray(row[:, :TEXT_WIDTH])
    for number, line in enumerate(lines):
        fits = fitted(line, TEXT_WIDTH - 2 * GAP, TEXT_SIZE)
        draw_text(text, fits, (GAP, TEXT_SIZE + number * (TEXT_SIZE + 2)), TEXT_SIZE)
    row[:, :TEXT_WIDTH] = text


NAMES_HEADING = """\
Names of channels, for --names FILE or the key concepts.names.
Write a name behind the colon, such as 17: whiskers. Channels that are relevant most often come
first; rare ones are left out. Behind them: the answers for which they speak most.
realtime-lrp concepts --names writes this file anew: names stay, other comments do not."""

MOST_NAMED = 4  # layers in a warning
LEAST_CROP = 250  # bytes of a crop on average, at least; of 96 x 96 pixels it has 380 to 520

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ConceptOptions:
    """The options of the command line besides the configuration."""

    inputs: Sequence[str] = ()  # pictures and recordings: files, folders, globs
    images: Path | None = None  # a further folder of pictures
    output: Path | None = None  # the gallery that is made
    layers: str | None = None  # names with commas; None is the configured one, or the last
    every: float = 1.0  # seconds between the frames that are taken of a recording
    count: int | None = None  # how many drawn pictures; None: all
    sheet: Path | None = None  # a picture of the whole gallery
    overwrite: bool = False
    side: int = SIDE  # rows and columns of the crops
    network_given: bool = False  # whether the configuration or the command line names a network

    def check(self, names: bool) -> None:
        """Refuses options that do not go together; `names`: a file of names is written."""
        reads = bool(self.inputs or self.images)
        if self.output is None:
            if reads or self.layers or self.count:
                raise UsageError(
                    "Nothing says where the gallery goes. Add -o FILE.concepts, or leave pictures, "
                    "--layers and --count out."
                )
            if not (names or self.sheet):
                raise UsageError(
                    "There is nothing to do. Make a gallery with -o FILE.concepts. From a gallery "
                    "--names FILE makes a file of names to fill in, --sheet FILE a picture."
                )
        if reads and self.count:
            raise UsageError("--count is for drawn pictures. Leave out --count or the inputs.")


def run(config: Config, options: ConceptOptions) -> Iterator[str]:
    """Makes a gallery, a sheet, a file of names: what is asked for; yields a line for each file."""
    options.check(names=config.concepts.names is not None)
    pictures: Pictures | None = None
    if options.output and (options.inputs or options.images):
        pictures = FilePictures(options.inputs, options.images, options.every)
    elif options.output:
        check_known(config.model.name, "photos with --images DIR, or pictures and recordings")
        pictures = DrawnPictures(options.count)
    _check_outputs(config, options, pictures.files if pictures else ())
    file = config.concepts.names
    names = galleries.NamesFile()
    if file and Path(file).exists():
        names = galleries.read_names(Path(file))
    if options.output and pictures:
        yield _make(config, options, pictures, names)
        gallery = galleries.Gallery(*galleries.read_gallery_file(options.output))
    else:
        name = Path(config.model.name).stem
        gallery = galleries.load_gallery(config.changed(concepts={"names": None}))
        if not gallery.layers:
            raise UsageError(
                "There is no gallery. Name one with --gallery FILE, or make one with -o FILE."
            )
        if options.network_given:
            weights = config.model.weights
            if other := other_network(gallery, weights, name, network_files(config)):
                raise UsageError(
                    f"The gallery {config.concepts.gallery!r} was made with {other}. Expected a "
                    f"gallery of {config.model.name!r}. Leave --model out to use this gallery.",
                    "gallery",
                )
        if others := sorted(layer for layer in names.names if layer not in gallery.layers):
            log.warning(
                "%s names channels of layers that the gallery does not have: %s",
                config.concepts.names, ", ".join(others[:MOST_NAMED]),
            )  # fmt: skip
    names.check({layer.name: layer.channels for layer in gallery.contents.layers}, partly=True)
    if config.concepts.names:
        yield _write_names(Path(config.concepts.names), gallery, names.names)
    if options.sheet:
        sheet = gallery_sheet(gallery, names.names)
        made = json.dumps(gallery.contents.provenance)
        write_picture(options.sheet, sheet, options.overwrite, made)
        yield f"sheet: {sheet.shape[1]} x {sheet.shape[0]} pixels -> {options.sheet}"


def _check_outputs(config: Config, options: ConceptOptions, inputs: Sequence[Path]) -> None:
    """Refuses an output that cannot be made, or is an input or another output."""
    chosen = config.concepts
    model = config.model
    files = {
        "-o": options.output,
        "--sheet": options.sheet,
        "--names": Path(chosen.names) if chosen.names else None,
    }
    outputs = {option: file for option, file in files.items() if file}
    of_network = [Path(file) for file in (model.name, model.weights, model.labels) if file]
    refuse_inputs((*inputs, *of_network), outputs.values())
    if chosen.gallery and not options.output:
        outputs["--gallery"] = Path(chosen.gallery)
    for (one, file), (other, second) in combinations(outputs.items(), 2):
        if same_file(file, second):
            raise OutputError(f"{one} and {other} name the same file, {str(file)!r}. Choose two.")
    if options.output:
        check_output(options.output, options.overwrite)
        if options.output.suffix.lower() in (*PICTURES, *VIDEOS, ".yaml", ".yml", ".keras"):
            raise UsageError(
                f"{str(options.output)!r} ends as another kind of file. Expected a name such as "
                f"{options.output.stem}{galleries.SUFFIX}."
            )
    if options.sheet:
        check_output(options.sheet, options.overwrite)
        if options.sheet.suffix.lower() not in (".png", ".jpg", ".jpeg", ".webp"):
            raise UsageError(
                f"{str(options.sheet)!r} has no known ending. Expected .png, .jpg or .webp."
            )
    if config.concepts.names:
        check_output(Path(config.concepts.names), overwrite=True)


def _make(
    config: Config, options: ConceptOptions, pictures: Pictures, names: galleries.NamesFile
) -> str:
    """Makes the gallery; returns a line. A signal gets through once finished crops are written."""
    target = options.output
    assert target
    engine = Engine(config, otherwise=VIEWER_COMPOSITE)
    layers = _layers(engine, options.layers or config.concepts.layer)
    counts = engine.explainer.channel_counts()
    names.check(counts)
    channels = sum(counts[layer] for layer in layers)
    most = pictures.total or RELEVANT + ACTIVATING
    crops = channels * (min(most, RELEVANT) + min(most, ACTIVATING))
    if crops * LEAST_CROP > galleries.MAX_BYTES:
        raise _too_large(f" with {channels} channels")
    making = Making(engine, pictures, layers, options.side)
    stopped = None
    try:
        making.run()
    except (KeyboardInterrupt, SystemExit) as error:
        if not making.crops:
            raise
        stopped = error
    pictures.tell_left_out()
    contents, encoded = making.contents()
    contents = msgspec.structs.replace(
        contents,
        sha256={kind: one for kind, one in hashes(engine.files).items() if kind != "labels"},
        provenance=msgspec.to_builtins(engine.provenance()),
    )
    with atomic_file(target, options.overwrite) as part:
        galleries.write_gallery(part, contents, encoded)
        if part.stat().st_size > galleries.MAX_BYTES:
            raise _too_large()
    channels = sum(len(layer.entries) for layer in contents.layers)
    if stopped:
        log.warning(
            "stopped early: %s has the %d crops that were cut out, of %d channels",
            target, len(encoded), channels,
        )  # fmt: skip
        raise stopped
    return (
        f"{contents.network}: {channels} channel{'s' * (channels != 1)} of {', '.join(layers)}, "
        f"from {contents.pictures} picture{'s' * (contents.pictures != 1)}, "
        f"{target.stat().st_size / 1e6:.1f} MB -> {target}"
    )


def _too_large(what: str = "") -> OutputError:
    return OutputError(
        f"The gallery would be larger than {galleries.MAX_BYTES >> 20} MiB{what}, which is more "
        "than can be read. Choose fewer --layers."
    )


def _layers(engine: Engine, asked: str | None) -> tuple[str, ...]:
    """The layers of the gallery in the order of the network."""
    known = engine.explainer.channel_counts()
    if asked is None and engine.config.lrp.method == "lrp":
        last = engine.concept_layer
        if last is None:
            raise UsageError(
                "This network has no layer with rows and columns whose channels are concepts. "
                "Choose one: --layers NAME."
            )
        return (last,)
    words = [word.strip() for word in (asked or "").split(",")]
    for word in words:
        engine.explainer.check_concept_layer(word)
    return tuple(layer for layer in known if layer in words)


def _write_names(file: Path, gallery: galleries.Gallery, names: galleries.ChannelNames) -> str:
    """Writes the file of names, with those that are there; returns a line."""
    comments = {
        layer: {
            channel: ", ".join(class_words(known))
            for channel, known in listed_channels(gallery, layer, names)
        }
        for layer in gallery.layers
    }
    text = galleries.names_text(names, comments, NAMES_HEADING)
    with atomic_file(file, overwrite=True) as part:
        part.write_text(text, encoding="utf-8")
    named = sum(len(of_layer) for of_layer in names.values())
    listed = sum(len(channels) for channels in comments.values())
    return f"names: {listed} channel{'s' * (listed != 1)}, {named} of them named -> {file}"
