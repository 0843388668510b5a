"""The painter of window, page, exhibit, film, picture and sheet: colours maps, lays them over.

A map is scaled by itself, smoothed over a series of pictures. It fades where there is nothing to
explain, and is not drawn where it is zero or not finite. The picture stays unchanged outside the
region that the network saw, and where a map is 0 everywhere. Under a map it is darker and less
colourful, the more so the stronger the relevance nearby: an orange map would not be seen on an
orange pullover. Under contours the picture keeps its colours. `Outline` is a box of a detector.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np

from realtime_lrp.system.geometry import Box, FloatBox
from realtime_lrp.system.scale import FULL, SOFTNESS
from realtime_lrp.view.look import Look
from realtime_lrp.view.text import darken, draw_text, text_size, text_width

LEVELS = (0.25, 0.5, 0.75)  # contours are drawn at these shares of the smoothed map's maximum
LINES_AT = 540  # contours are drawn on a canvas whose longer side has at most this many pixels
CONTOUR_BLUR = 0.02  # deviation of the blur before contours, as a share of the longer side
CASING = 0.7  # darkness of the edges of contours, which show on grounds of their colour
OUTLINE = 0.25  # the share of white in the outline of the region
OUTLINED = (np.arange(256) + np.rint(OUTLINE * np.arange(255, -1, -1))).astype(np.uint8)  # by level
MUTED = 0.6  # how far the whole region under a map is toned down. 0: not at all, 1: to dark grey.
GREY = 0.6  # the brightness of a picture that is toned down completely, as a share of its own
DARKER = 0.7  # darkness of a layer's ground where the window makes it grey: 0 to 1, black
HALO = 0.07  # how far around relevance pictures are toned down, as a share of the longer side
NEEDED = 0.2  # alpha of relevance that tones down the picture completely; weaker, in part


COLOURS = (
    (255, 150, 30), (60, 170, 255), (90, 220, 90), (255, 90, 170),
    (250, 230, 60), (170, 120, 255), (60, 225, 215), (255, 85, 70),
)  # fmt: skip
"""RGB; a box with the number n has colour n, modulo 8."""

PALE = (150, 150, 150)  # RGB of a box whose map is not shown


@dataclass(frozen=True)
class ColouredMap:
    """A coloured map, ready to be laid over pictures of one size."""

    colour: np.ndarray  # uint8 [h, w, 3] RGB, at the resolution of the map
    alpha: np.ndarray  # float32 [h, w] in [0, 1], 0 where relevance is 0
    box: Box  # the region of the picture that it covers
    look: Look
    name: str = ""  # the method or composite that it comes from
    signed: bool = False  # whether it can be negative
    by_channel: bool = False  # whether its channels are the colours

    @functools.cached_property
    def tone(self) -> np.ndarray:
        """How far the picture is toned down, float32 [h, w] in [0, 1]: see `MUTED` and `HALO`."""
        window = (max(1, round(max(self.alpha.shape) * HALO)),) * 2
        near = cv2.blur(cv2.blur(cv2.dilate(self.alpha, np.ones((5, 5))), window), window)
        base = MUTED * min(1.0, float(self.alpha.max()) / NEEDED)
        return base + (1 - base) * np.minimum(near / NEEDED, 1)

    @property
    def layer(self) -> np.ndarray:
        """The map on a darker ground, uint8 [h, w, 4] RGBA, for what cannot make pictures grey."""
        covers = 1 - (1 - self.alpha) * (1 - DARKER * self.tone)
        colour = self.colour * (self.alpha / np.maximum(covers, np.float32(1e-6)))[..., None]
        return np.rint(np.dstack([colour, 255 * covers])).astype(np.uint8)

    @functools.cached_property
    def weights(self) -> "BlendWeights":
        alpha = _bytes(self.alpha)
        tone = _bytes(self.tone)
        rest = cv2.bitwise_not(alpha)
        size = (self.box[2] - self.box[0], self.box[3] - self.box[1])
        keep = cv2.resize(cv2.multiply(rest, cv2.bitwise_not(tone), scale=1 / 255), size)
        grey = cv2.resize(cv2.multiply(rest, tone, scale=GREY / 255), size)
        three = cv2.cvtColor(alpha, cv2.COLOR_GRAY2RGB)
        colour = cv2.resize(cv2.multiply(self.colour, three, scale=1 / 255), size)
        return BlendWeights(cv2.cvtColor(keep, cv2.COLOR_GRAY2RGB), grey, colour)


class BlendWeights(NamedTuple):
    """A drawn picture is keep * picture + grey * luminance + colour, in quick bytes."""

    keep: np.ndarray  # uint8 [H, W, 3], of the picture; 255 keeps it
    grey: np.ndarray | None  # uint8 [H, W], of the picture's luminance; None for none
    colour: np.ndarray  # uint8 [H, W, 3] RGB, multiplied by its alpha


def blend_into(region: np.ndarray, weights: BlendWeights) -> None:
    """Changes a region, uint8 [H, W, 3] RGB, as the weights say."""
    luminance = None
    if weights.grey is not None:
        luminance = cv2.cvtColor(region, cv2.COLOR_RGB2GRAY)
        cv2.multiply(luminance, weights.grey, luminance, 1 / 255)
    cv2.multiply(region, weights.keep, region, 1 / 255)
    if luminance is not None:
        cv2.add(region, cv2.cvtColor(luminance, cv2.COLOR_GRAY2RGB), region)
    cv2.add(region, weights.colour, region)


def make_overlay(
    intensity: np.ndarray, signed: bool, look: Look, box: Box, name: str = ""
) -> ColouredMap:
    """Colours a map, float32 [h, w] or [h, w, 3] in [-1, 1]; three channels are colours already."""
    if intensity.ndim == 3:
        strength = np.abs(intensity)
        alpha = strength.max(axis=-1)
        colour = np.rint(255 * (strength / np.maximum(alpha, 1e-12)[..., None])).astype(np.uint8)
    else:
        table = look.colours(signed)
        alpha = np.abs(intensity) if table.signed else np.maximum(intensity, 0)
        colour = table(intensity)
    alpha = np.float32(look.opacity) * alpha
    return ColouredMap(colour, alpha, box, look, name, signed, intensity.ndim == 3)


def lay_over(picture: np.ndarray, overlay: ColouredMap) -> np.ndarray:
    """A copy of the picture with the overlay on it. The region gets a faint outline."""
    result = picture.copy()
    lay_into(result, overlay)
    return result


def lay_into(picture: np.ndarray, overlay: ColouredMap) -> None:
    """`lay_over` in place."""
    x0, y0, x1, y1 = overlay.box
    region = picture[y0:y1, x0:x1]
    contours = overlay.look.style == "contour"
    blend_into(region, _contours(overlay) if contours else overlay.weights)
    if region.shape != picture.shape:
        for edge in (region[0], region[-1], region[:, 0], region[:, -1]):
            edge[:] = OUTLINED[edge]


def _contours(overlay: ColouredMap) -> BlendWeights:
    """Contours with dark edges, drawn at LINES_AT pixels at most."""
    box = (overlay.box[2] - overlay.box[0], overlay.box[3] - overlay.box[1])
    scale = min(1.0, LINES_AT / max(box))
    size = (max(1, round(box[0] * scale)), max(1, round(box[1] * scale)))
    spread = max(overlay.alpha.shape) * CONTOUR_BLUR
    alpha = cv2.GaussianBlur(overlay.alpha, (0, 0), spread)
    weighted = cv2.GaussianBlur(overlay.colour * overlay.alpha[..., None], (0, 0), spread)
    colour = np.clip(weighted / np.maximum(alpha, 1e-6)[..., None], 0, 255).astype(np.uint8)
    lines, edges = _lines(cv2.resize(alpha, size, interpolation=cv2.INTER_CUBIC), alpha.max())
    opaque = np.float32(min(1.0, overlay.alpha.max()) / 255)
    lines = lines * opaque
    edges = edges * opaque * np.float32(CASING)
    drawn = np.rint(cv2.resize(colour, size) * lines[..., None]).astype(np.uint8)
    keep = cv2.resize(_bytes(1 - np.maximum(lines, edges)), box)
    return BlendWeights(cv2.cvtColor(keep, cv2.COLOR_GRAY2RGB), None, cv2.resize(drawn, box))


def _lines(smooth: np.ndarray, top: float) -> tuple[np.ndarray, np.ndarray]:
    """Masks uint8 [h, w] of the contours at `LEVELS` of `top`, and of these with their edges."""
    lines, edges = np.zeros((2, *smooth.shape), np.uint8)
    for level in LEVELS if top > 0 else ():
        above = (smooth > level * top).astype(np.uint8)
        contours, _ = cv2.findContours(above, cv2.RETR_LIST, cv2.CHAIN_APPROX_NONE)
        width = max(1, round(min(smooth.shape) / 300 * (1 + level)))
        cv2.drawContours(lines, contours, -1, 255, width, cv2.LINE_AA)
        cv2.drawContours(edges, contours, -1, 255, width + 2 * max(1, width // 2), cv2.LINE_AA)
    return lines, edges


def _bytes(share: np.ndarray) -> np.ndarray:
    return np.rint(share * 255).astype(np.uint8)


SMOOTHING = 0.9  # how much of the previous scale stays with each new map of a moving picture
MAX_ABOVE = 2.0  # the largest factor between a map's own peak and the peak that it is drawn with


class Scale:
    """The peak that is drawn at full strength, smoothed over the maps of a video.

    A map's peak is the relevance of full strength, divided by the sum of magnitudes. The sums of a
    trained network change by a factor of 4 from picture to picture, the peaks hardly change.
    """

    _peak = 0.0  # the maps' largest value until now

    def __call__(self, peak: float) -> float:
        """How strongly a map of this peak is drawn: 1 is full strength."""
        if not (0 < peak < np.inf):
            return 0.0
        kept = SMOOTHING if self._peak else 0.0
        self._peak = kept * self._peak + (1 - kept) * peak
        self._peak = min(max(self._peak, peak / MAX_ABOVE), peak * MAX_ABOVE)
        return peak / self._peak


class Drawn(NamedTuple):
    """A map that is ready to be painted."""

    strength: np.ndarray  # int8 [h, w] or [h, w, 3] from -FULL to FULL; of the region alone
    peak: float  # see `Scale`
    fade: float = 1.0  # 0 to 1: the map's strength
    signed: bool = False  # whether it can be negative
    name: str = ""  # the method or composite that it comes from


class Series:
    """The maps of one video: their scales, smoothed, and their average."""

    def __init__(self) -> None:
        self._scales: list[Scale] = []
        self._last: tuple[Sequence[Drawn], list[np.ndarray]] = (), []

    def __call__(self, maps: Sequence[Drawn], average: float = 0.0) -> list[np.ndarray]:
        """How strongly each pixel is drawn, float32 [h, w] or [h, w, 3] in [-1, 1], of each map.

        `average` of the previous maps stays. The same sequence of maps is one picture, however
        often it is painted.
        """
        before, previous = self._last
        if maps is before:
            return previous
        self._scales += [Scale() for _ in maps[len(self._scales) :]]
        new = [
            intensity(one, scale(one.peak)) for one, scale in zip(maps, self._scales, strict=True)
        ]
        if average and [one.shape for one in previous] == [one.shape for one in new]:
            pairs = zip(previous, new, strict=True)
            new = [average * old + (1 - average) * now for old, now in pairs]
        self._last = maps, new
        return new


def intensity(one: Drawn, relative: float = 1.0) -> np.ndarray:
    """How strongly each pixel is drawn: float32 [h, w] or [h, w, 3] in [-1, 1].

    `relative` is the map's relevance of full strength, divided by the drawing's.
    """
    factor = np.float32((one.fade * relative) ** SOFTNESS / FULL)
    return np.clip(one.strength * factor, -1, 1)


class Outline(NamedTuple):
    """A box, or lines within it, with what stands above and below."""

    box: FloatBox  # pixels of the picture
    above: str
    below: str
    colour: tuple[int, int, int]
    # closed lines x, y, drawn instead of the box, in pixels of the picture
    lines: tuple[tuple[tuple[float, float], ...], ...] = ()
    strong: bool = True  # whether lines are as thick as a box

    def moved(self, x: float, y: float) -> "Outline":
        """The same outline, moved by pixels to the right and down."""
        x0, y0, x1, y1 = self.box
        lines = tuple(tuple((left + x, top + y) for left, top in line) for line in self.lines)
        return self._replace(box=(x0 + x, y0 + y, x1 + x, y1 + y), lines=lines)


@dataclass(frozen=True, eq=False)
class Painted:
    """A picture with its maps, coloured, and the boxes of a detector."""

    picture: np.ndarray  # uint8 [H, W, 3] RGB, the one that was explained
    overlays: tuple[ColouredMap, ...]  # the maps, the chosen one first
    outlines: tuple[Outline, ...] = ()
    # moved to a later picture: which boxes are not found again, and whether it shows something else
    lost: frozenset[int] = frozenset()
    elsewhere: bool = False

    @property
    def box(self) -> Box:
        """The explained region in the picture."""
        return self.overlays[0].box


def paint(
    picture: np.ndarray, maps: Sequence[Drawn], look: Look, box: Box,
    outlines: tuple[Outline, ...] = (), series: Series | None = None,
) -> Painted:  # fmt: skip
    """Colours the maps of a region of a picture; each by itself without a `series`."""
    series = series or Series()
    overlays = []
    for one, shown in zip(maps, series(maps, look.average), strict=True):
        rows, columns = shown.shape[:2]
        smaller = min(columns, box[2] - box[0]), min(rows, box[3] - box[1])
        if smaller != (columns, rows):  # it covers fewer pixels: they are averaged, not left out
            shown = cv2.resize(shown, smaller, interpolation=cv2.INTER_AREA)
        overlays.append(make_overlay(shown, one.signed, look, box, one.name))
    return Painted(picture, tuple(overlays), outlines)


def draw_outlines(
    tile: np.ndarray, outlines: Sequence[Outline], shape: Sequence[int] | None = None
) -> None:
    """Draws outlines in place, the first on top; `shape` is the picture's where it is scaled."""
    rows, columns = tile.shape[:2]
    down, across = (rows / shape[0], columns / shape[1]) if shape else (1, 1)
    thick = max(1, round(min(rows, columns) / 240))
    size = text_size(rows)
    high = round(1.35 * size)
    for box, above, below, colour, lines, strong in reversed(outlines):
        x0, x1 = (round(min(max(x * across, 0), columns - 1)) for x in box[::2])
        y0, y1 = (round(min(max(y * down, 0), rows - 1)) for y in box[1::2])
        width = thick if strong else max(1, thick // 2)
        corners = [np.rint(np.array(line) * (across, down)).astype(np.int32) for line in lines]
        corners = corners or [np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)])]
        cv2.polylines(tile, corners, True, (0, 0, 0), width + 2)
        cv2.polylines(tile, corners, True, colour, width)
        ends = x0, x0
        if lines:  # the texts stand where the lines begin and end
            every = np.concatenate(corners)
            ends = every[every[:, 1].argmin(), 0], every[every[:, 1].argmax(), 0]
        tops = y0 - high if y0 >= high else y0, y1 if y1 + high <= rows else y1 - high
        for text, x, top in zip((above, below), ends, tops, strict=True):
            if text:
                wide = text_width(text, size) + size // 2
                left, top = max(0, min(x, columns - wide)), max(0, min(top, rows - high))
                darken(tile, (left, top, left + wide, top + high))
                draw_text(tile, text, (left + size // 4, top + size), size, colour)


def tinted(strengths: Sequence[np.ndarray], colours: Sequence[tuple[int, int, int]]) -> np.ndarray:
    """Positive strengths, int8 [h, w] each, as [h, w, 3] in their colours; the brightest wins."""
    drawn = np.zeros((*strengths[0].shape, 3), np.float32)
    for strength, colour in zip(strengths, colours, strict=True):
        one = np.maximum(strength, 0)[..., None] * (np.float32(1 / 255) * np.array(colour))
        drawn = np.maximum(drawn, one)
    return np.rint(drawn).astype(np.int8)
