"""Pictures and maps side by side, as a figure of Matplotlib, which is imported for a drawing."""

import io
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from realtime_lrp.errors import UsageError, unknown
from realtime_lrp.system.scale import end_of

if TYPE_CHECKING:
    from matplotlib.colors import Colormap as MatplotlibColormap
    from matplotlib.figure import Figure

MOST_PICTURES = 24  # that a figure has room for
LINE, LONGEST = 38, 114  # letters of a title in one line above a picture, and at all
SIGNED, UNSIGNED = "bwr", "hot"  # with negative entries white is 0, else black is


def drawable(text: object) -> str:
    """The text with escapes for what cannot be encoded, which file names may hold."""
    return str(text).encode("utf-8", "backslashreplace").decode("utf-8")


def check_count(pictures: int) -> None:
    """Refuses a figure of no pictures, or of more than `MOST_PICTURES`."""
    if not 1 <= pictures <= MOST_PICTURES:
        raise UsageError(
            f"Expected 1 to {MOST_PICTURES} pictures in a figure. Received {pictures}: take a "
            f"part, such as explanation[:{MOST_PICTURES}]."
        )


def draw_maps(
    pictures: np.ndarray,
    answers: Sequence[str],
    maps: Mapping[str, np.ndarray],
    colormap: Any = None,
) -> "Figure":
    """Draws a row for each picture: the picture with its answer, then its maps with their scales.

    Pictures are uint8 [B, h, w, 3] RGB, maps title -> float [B, h, w]. The colour map is a name or
    one of Matplotlib's, or an object with a `table` uint8 [256, 3]; None means "hot", or "bwr" for
    maps with negative entries.
    """
    signed = {title: bool((values < 0).any()) for title, values in maps.items()}
    colours = {title: _colours(colormap, signed[title]) for title in maps}
    height, width = pictures.shape[1:3]
    tall = 2.6 * min(2.0, max(0.4, height / width)) + 0.3
    figure = new_figure(2.6 + 3.1 * len(maps), tall * len(pictures))
    grid = figure.subplots(len(pictures), 1 + len(maps), squeeze=False)
    for number, (first, *others) in enumerate(grid):
        first.imshow(pictures[number])
        _label(first, answers[number])
        for axes, (title, values) in zip(others, maps.items(), strict=True):
            magnitude = np.abs(values[number])
            end = end_of(magnitude)
            low = -end if signed[title] else 0
            image = axes.imshow(values[number], cmap=colours[title], vmin=low, vmax=end)
            beyond = "both" if signed[title] else "max"
            beyond = "neither" if magnitude.max() <= end else beyond
            bar = figure.colorbar(image, ax=axes, extend=beyond, fraction=0.05, pad=0.02)
            bar.ax.tick_params(labelsize=7)
            bar.ax.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3))
            bar.ax.yaxis.get_offset_text().set_fontsize(7)
            _label(axes, title)
    return figure


def new_figure(width: float, height: float, title: str = "", dpi: float = 100) -> "Figure":
    """An empty figure of a size in inches, with a title."""
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        """Shown by notebooks even if pyplot was never imported."""

        def _repr_png_(self) -> bytes:
            return png_of(self)

    figure = NotebookFigure(figsize=(width, height), dpi=dpi, layout="constrained")
    if title:
        figure.suptitle(drawable(title), parse_math=False)
    return figure


def pixels_of(figure: "Figure") -> np.ndarray:
    """The drawn figure, uint8 [H, W, 3] RGB."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    with warnings.catch_warnings(action="ignore"):  # letters that the font lacks
        canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def png_of(figure: "Figure") -> bytes:
    """The figure as a PNG file."""
    file = io.BytesIO()
    with warnings.catch_warnings(action="ignore"):  # as above
        figure.savefig(file, format="png")
    return file.getvalue()


def _label(axes: Any, title: str) -> None:
    lines = (textwrap.fill(line[:LONGEST], LINE) for line in drawable(title).splitlines())
    axes.set_title("\n".join(lines), fontsize=9, parse_math=False)
    axes.set_xticks([])
    axes.set_yticks([])


def _colours(colormap: Any, signed: bool) -> "MatplotlibColormap":
    import matplotlib
    from matplotlib.colors import Colormap, ListedColormap

    if colormap is None:
        colormap = SIGNED if signed else UNSIGNED
    if isinstance(colormap, Colormap):
        return colormap
    if isinstance(colormap, str):
        if colormap not in matplotlib.colormaps:
            raise unknown("colormap", colormap, matplotlib.colormaps)
        return matplotlib.colormaps[colormap]
    if not hasattr(colormap, "table"):
        raise UsageError(
            "Expected a colormap of Matplotlib, its name, or one of COLORMAPS. Received "
            f"{colormap!r:.80}.",
            "colormap",
        )
    return ListedColormap(colormap.table / 255)
