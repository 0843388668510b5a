"""What the page of an archive shows of one film: small pictures, a timeline, the usual answers.

    OUT/archive.files/a.mp4.svg    pictures and timeline
                      a.mp4.json   the rest, a `FilmEntry`

Both are small and written once, when the film is finished, so that a page of any number of films
can be made, and made again, without reading films. Nothing in them is loaded from elsewhere.
"""

import base64
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import numpy as np

from realtime_lrp.notebook.html import escaped
from realtime_lrp.results.summary import Curves, Timeline
from realtime_lrp.system.atomic import atomic_file
from realtime_lrp.system.plain_text import plain
from realtime_lrp.video.pictures import encode_picture
from realtime_lrp.video.region import resize

FOLDER = "archive.files"

THUMBNAILS, QUALITY = 8, 70
WIDTH, THUMBNAIL, TALLEST = 960, (116, 65), 116
"""Width of the picture; (width, usual height) and maximum height of a thumbnail, in pixels."""

LEFT, RIGHT, PLOT, CAPTION, GAP = 34, 8, 110, 16, 4
LIMITS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
"""Where the axis of probabilities may end."""

POINTS = 300
"""Maximum number of points of a curve."""

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")
ANSWERS = 3
"""How many of the most frequent answers are named."""

LONGEST = 60
"""Maximum number of characters of a label."""


class FilmEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a film.

    Attributes:
      source: the recording, as it is shown.
      frames: how many there are.
      seconds: the time of the last one.
      answers: the labels that were best in most frames, each with its share of these.
      height: of the picture, in pixels; 0 if there is none.
      notes: what was not kept as it was.
      outputs: what each is -> its address from the folder of the archive, see `link_to`.
      error: why there is no film; "" if there is one.
    """

    source: str = ""
    frames: int = 0
    seconds: float = 0.0
    answers: list[tuple[str, float]] = []
    height: int = 0
    notes: list[str] = []
    outputs: dict[str, str] = {}
    error: str = ""


class Overview:
    """Collects what is shown of a film from the lines of its sidecar."""

    def __init__(self) -> None:
        self._timeline = Timeline()
        self._timeline.most = POINTS
        self._best: Counter[str] = Counter()
        self.frames, self.seconds = 0, 0.0

    def watch(self, records: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """Yields the lines as they come, and takes what it needs of each."""
        for record in records:
            self.frames, self.seconds = self.frames + 1, record["time"]
            if record["explained"] and record["top5"]:
                self._best[record["top5"][0]["label"]] += 1
                self._timeline.add(record["time"], record)
            yield record

    @property
    def answers(self) -> list[tuple[str, float]]:
        """The labels that were best in most explained frames, each with its share of these."""
        total = self._best.total()
        return [(label, count / total) for label, count in self._best.most_common(ANSWERS)]

    def draw(self, thumbnails: Sequence[tuple[float, np.ndarray]]) -> tuple[str, int]:
        """Draws the film: small pictures, below them its timeline.

        Args:
          thumbnails: (seconds, uint8 [h, w, 3] RGB), of which a few are taken.

        Returns:
          An SVG document, and its height in pixels.
        """
        chosen = _evenly(thumbnails, THUMBNAILS)
        strip, top = _strip(chosen)
        curves = self._timeline.curves()
        plot, bottom = _plot(curves, top) if curves.probabilities else ("", top)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom}" '
            f'width="{WIDTH}" height="{bottom}" font-family="sans-serif" font-size="11">\n'
            f'<rect width="{WIDTH}" height="{bottom}" fill="#fff"/>\n{strip}{plot}</svg>\n'
        ), bottom


def _evenly(items: Sequence[Any], most: int) -> list[Any]:
    numbers = np.linspace(0, len(items) - 1, min(most, len(items))).round().astype(int)
    return [items[number] for number in numbers]


def _strip(thumbnails: Sequence[tuple[float, np.ndarray]]) -> tuple[str, int]:
    """The pictures side by side, and the height that they take."""
    parts, tallest = [], 0
    for number, (seconds, picture) in enumerate(thumbnails):
        rows, columns = picture.shape[:2]
        scale = min(THUMBNAIL[0] / columns, TALLEST / rows)
        width, height = max(1, round(columns * scale)), max(1, round(rows * scale))
        data = encode_picture(".jpg", resize(picture, (height, width)), quality=QUALITY)
        left, tallest = number * (THUMBNAIL[0] + GAP), max(tallest, height)
        parts.append(
            f'<image x="{left}" y="{CAPTION}" width="{width}" height="{height}" '
            f'href="data:image/jpeg;base64,{base64.b64encode(data).decode("ascii")}"/>\n'
            f'<text x="{left}" y="{CAPTION - 4}" fill="#555">{clock(seconds)}</text>\n'
        )
    return "".join(parts), CAPTION + tallest + GAP if parts else 0


def _plot(curves: Curves, top: int) -> tuple[str, int]:
    """The probabilities over time, and where the plot ends."""
    positions, repeats = curves.positions, 1
    if len(positions) == 1:  # each curve is a level line across the plot
        positions, repeats = [positions[0], positions[0] + 1.0], 2
    begin, end = min(positions), max(positions)
    wide = (WIDTH - LEFT - RIGHT) / ((end - begin) or 1.0)
    above = top + CAPTION + GAP
    below = above + PLOT
    largest = max(np.nanmax(shares) for shares in curves.probabilities.values())
    most = min(limit for limit in LIMITS if limit >= min(largest, 1.0))
    parts = [
        f'<text x="0" y="{y + 4:.0f}" fill="#555">{share * most:g}</text>'
        f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>\n'
        for share in (0, 0.5, 1)
        for y in [below - share * PLOT]
    ]
    column = (WIDTH - LEFT) / len(curves.probabilities)
    for number, (label, shares) in enumerate(curves.probabilities.items()):
        colour, x = COLOURS[number], LEFT + number * column
        points = [
            None if np.isnan(share) else (LEFT + (at - begin) * wide, below - share / most * PLOT)
            for at, share in zip(positions, shares * repeats, strict=True)
        ]
        name = label_text(label, int(column / 6.5))
        parts.append(
            f'<path d="{_path(points)}" fill="none" stroke="{colour}" stroke-width="1.3" '
            'stroke-linecap="round"/>\n'
            f'<rect x="{x:.0f}" y="{top + 5}" width="9" height="9" fill="{colour}"/>'
            f'<text x="{x + 12:.0f}" y="{top + CAPTION - 2}" fill="#222">{escaped(name)}</text>\n'
        )
    seconds = curves.unit == "seconds"
    first, last = (clock(begin), clock(end)) if seconds else (f"{begin:g}", f"{end:g}")
    if repeats > 1:
        last = ""
    parts.append(
        f'<text x="{LEFT}" y="{below + CAPTION - 3}" fill="#555">{first}</text>'
        f'<text x="{WIDTH - RIGHT}" y="{below + CAPTION - 3}" fill="#555" text-anchor="end">'
        f"{last}{'' if seconds else ' (explained frame)'}</text>\n"
    )
    return "".join(parts), below + CAPTION + 2


def _path(points: Sequence[tuple[float, float] | None]) -> str:
    """A line through the points that breaks at None; a single point becomes a dot."""
    path, pen = [], "M"
    for number, point in enumerate(points):
        if point is None:
            pen = "M"
            continue
        path.append(f"{pen}{point[0]:.1f} {point[1]:.1f}")
        if pen == "M" and (number + 1 == len(points) or points[number + 1] is None):
            path.append("h0.1")
        pen = "L"
    return "".join(path)


def label_text(label: str, most: int = LONGEST) -> str:
    """A label as it is shown: printable, in one line, of limited length."""
    text = " ".join(plain(label.replace("_", " ")).split())
    return text if len(text) <= max(most, 8) else f"{text[: max(most, 8) - 1]}…"


def clock(seconds: float) -> str:
    """A time as "1:02:03" or "2:03"; below a minute "3.21 s"."""
    if abs(seconds) < 60:
        return f"{seconds:.2f} s"
    minutes, left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def files_of(film: str) -> tuple[str, str]:
    """The paths of a film's picture and entry, from the folder of the archive."""
    return f"{FOLDER}/{film}.svg", f"{FOLDER}/{film}.json"


def link_to(path: str) -> str:
    """The address of a file for a page in the folder that the path counts from."""
    return f"./{quote(os.fsencode(path))}"


def keep_overview(folder: Path, film: str, entry: FilmEntry, svg: str) -> None:
    """Writes picture and entry of a film, or replaces them.

    Args:
      folder: the folder of the archive.
      film: the film's name there.
      entry: what is known of it.
      svg: its picture.

    Raises:
      OutputError: a file cannot be made.
      TransferError: the write failed.
    """
    (folder / FOLDER).mkdir(exist_ok=True)
    picture, data = (folder / name for name in files_of(film))
    with atomic_file(picture, overwrite=True) as part:
        part.write_text(svg, encoding="utf-8")
    with atomic_file(data, overwrite=True) as part:
        part.write_text(
            json.dumps(msgspec.to_builtins(entry))
        )  # in ASCII: names may hold any bytes


def read_entry(folder: Path, film: str) -> FilmEntry | None:
    """The entry of a film, None if there is none or it is damaged."""
    try:
        return msgspec.convert(json.loads((folder / files_of(film)[1]).read_bytes()), FilmEntry)
    except (OSError, ValueError):
        return None
