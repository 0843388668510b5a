"""Colours maps, lays them over the region of the picture that the network saw, moves them along.

The picture stays unchanged outside the region, and where a map is 0 everywhere. Under a map it is
darker and less colourful, the more so the stronger the relevance nearby: an orange map would not be
seen on an orange pullover. Under contours the picture keeps its colours.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import cv2
import numpy as np

from realtime_lrp.system.geometry import Box
from realtime_lrp.view.boxes import Outline
from realtime_lrp.view.look import Look

FULL = 127  # the largest strength
SMOOTHING = 0.9  # how much of the previous scale stays with each new map of a moving picture

MAX_ABOVE = 2.0
"""The largest factor between a map's own peak and the peak that it is drawn with."""

SOFTNESS = 0.75
"""Strength is relevance to this power. `relevance.strength` uses the same power and FULL."""

LEVELS = (0.25, 0.5, 0.75)  # contours are drawn at these shares of the smoothed map's maximum
LINES_AT = 540  # contours are drawn on a canvas whose longer side has at most this many pixels

CONTOUR_BLUR = 0.02
"""Maps are blurred for contours: the standard deviation, as a share of the longer side."""

CASING = 0.7
"""How dark the edge along contours is, so that they are seen on grounds of their own colour."""

OUTLINE = 0.25  # the share of white in the outline of the region
MUTED = 0.6  # how far the whole region under a map is toned down. 0: not at all, 1: to dark grey.
GREY = 0.6  # the brightness of a picture that is toned down completely, as a share of its own

HALO = 0.07
"""How far around relevance the picture is toned down to dark grey: a share of the longer side."""

NEEDED = 0.2
"""Relevance drawn with this alpha tones down the picture around it completely; weaker, in part."""


FLOW_WIDTH = 320  # columns of the reduced pictures in which motion is measured

WINDOW = 9
"""Side of the square, in pixels of a reduced picture, over which two pictures are compared."""

ALIKE, UNLIKE = 8.0, 24.0
"""Mean difference in grey levels up to which the motion was found, and from which it was not.
In recordings of moving cars and people 95 % of all pixels differ by less than 8 after 0.1 s."""

SEEN = 0.5  # a detector's box is lost where less of it was found, the picture of a map as well


class Scale:
    """The peak that is drawn at full strength, smoothed over the maps of a video.

    A map's peak is the relevance of full strength, divided by the sum of magnitudes. The sums of a
    trained network change by a factor of 4 from picture to picture, the peaks hardly change.
    `smoothing` of the previous peak stays with each map; 0 scales every map by itself.
    """

    def __init__(self, smoothing: float = SMOOTHING):
        self._smoothing = smoothing
        self._peak = 0.0  # of the maps until now

    def __call__(self, peak: float) -> float:
        """How strongly a map of this peak is drawn: 1 is full strength."""
        if not peak:
            return 0.0
        kept = self._smoothing if self._peak else 0.0
        self._peak = kept * self._peak + (1 - kept) * peak
        self._peak = min(max(self._peak, peak / MAX_ABOVE), peak * MAX_ABOVE)
        return peak / self._peak


class Drawn(NamedTuple):
    """A map as it is drawn."""

    strength: np.ndarray  # int8 [h, w] or [h, w, 3] from -FULL to FULL
    peak: float  # see `Scale`
    fade: float = 1.0  # below 1 the map is fainter


@dataclass(frozen=True)
class Overlay:
    """A coloured map, ready to be laid over pictures of one size."""

    colour: np.ndarray  # uint8 [h, w, 3] RGB, at the resolution of the map
    alpha: np.ndarray  # float32 [h, w] in [0, 1], 0 where relevance is 0
    box: Box  # the region of the picture that it covers
    look: Look

    @functools.cached_property
    def tone(self) -> np.ndarray:
        """How far the picture is toned down, float32 [h, w] in [0, 1]: see `MUTED` and `HALO`."""
        window = (max(1, round(max(self.alpha.shape) * HALO)),) * 2
        near = cv2.blur(cv2.blur(cv2.dilate(self.alpha, np.ones((5, 5))), window), window)
        base = MUTED * min(1.0, float(self.alpha.max()) / NEEDED)
        return base + (1 - base) * np.minimum(near / NEEDED, 1)

    @functools.cached_property
    def weights(self) -> "Weights":
        rest = 1 - self.alpha
        size = (self.box[2] - self.box[0], self.box[3] - self.box[1])
        keep, grey, colour = (
            cv2.resize(part, size)
            for part in (
                _bytes(rest * (1 - self.tone)),
                _bytes(rest * self.tone * GREY),
                np.rint(self.colour * self.alpha[..., None]).astype(np.uint8),
            )
        )
        return Weights(cv2.cvtColor(keep, cv2.COLOR_GRAY2RGB), grey, colour)


class Weights(NamedTuple):
    """How a picture becomes a picture with a map: keep * picture + grey * luminance + colour.

    Bytes, because OpenCV multiplies them twice as fast as it mixes with float weights.
    """

    keep: np.ndarray  # uint8 [H, W, 3], of the picture; 255 keeps it
    grey: np.ndarray | None  # uint8 [H, W], of the picture's luminance; None for none
    colour: np.ndarray  # uint8 [H, W, 3] RGB, multiplied by its alpha


def blend_into(region: np.ndarray, weights: Weights) -> None:
    """Changes a region, uint8 [H, W, 3] RGB, as the weights say."""
    grey = None
    if weights.grey is not None:
        luminance = cv2.cvtColor(region, cv2.COLOR_RGB2GRAY)
        cv2.multiply(luminance, weights.grey, luminance, 1 / 255)
        grey = cv2.cvtColor(luminance, cv2.COLOR_GRAY2RGB)
    cv2.multiply(region, weights.keep, region, 1 / 255)
    for part in (grey, weights.colour):
        if part is not None:
            cv2.add(region, part, region)


def intensity(strength: np.ndarray, inner: Box, relative: float = 1.0) -> np.ndarray:
    """How strongly each pixel of the region is drawn: float32 [h, w] or [h, w, 3] in [-1, 1].

    The strength is int8 of the whole map, from -FULL to FULL; `inner` is the region's box in it;
    `relative` is its relevance of full strength, divided by that of the drawing.
    """
    x0, y0, x1, y1 = inner
    return np.clip(strength[y0:y1, x0:x1] * np.float32(relative**SOFTNESS / FULL), -1, 1)


def make_overlay(intensity: np.ndarray, signed: bool, look: Look, box: Box) -> Overlay:
    """Colours a map. The three channels of an "rgb" map are used as colours themselves."""
    if intensity.ndim == 3:
        strength = np.abs(intensity)
        alpha = strength.max(axis=-1)
        colour = np.rint(255 * (strength / np.maximum(alpha, 1e-12)[..., None]))
        return Overlay(colour.astype(np.uint8), np.float32(look.opacity) * alpha, box, look)
    table = look.colours(signed)
    alpha = np.abs(intensity) if table.signed else np.maximum(intensity, 0)
    return Overlay(table(intensity), np.float32(look.opacity) * alpha, box, look)


class Painter:
    """Colours the maps of one video."""

    def __init__(self, signed: bool, look: Look, smoothing: float = SMOOTHING):
        look.colours(signed)
        self._signed, self._look = signed, look
        self._scale = Scale(smoothing)

    def __call__(self, drawn: Drawn, box: Box, inner: Box) -> Overlay:
        """Colours a map.

        `box` is the explained region in the picture, `inner` the same region in the map.
        """
        shown = intensity(drawn.strength, inner, drawn.fade * self._scale(drawn.peak))
        return make_overlay(shown, self._signed, self._look, box)


def lay_over(picture: np.ndarray, overlay: Overlay) -> np.ndarray:
    """A copy of the picture with the overlay on it. The region gets a faint outline."""
    result = picture.copy()
    lay_into(result, overlay)
    return result


def lay_into(picture: np.ndarray, overlay: Overlay) -> None:
    """`lay_over` in place."""
    x0, y0, x1, y1 = overlay.box
    region = picture[y0:y1, x0:x1]
    contours = overlay.look.style == "contour"
    blend_into(region, _contours(overlay) if contours else overlay.weights)
    if (x0, y0, x1, y1) != (0, 0, picture.shape[1], picture.shape[0]):
        _outline(region)


def _contours(overlay: Overlay) -> Weights:
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
    lines, edges = lines * opaque, edges * opaque * np.float32(CASING)
    drawn = np.rint(cv2.resize(colour, size) * lines[..., None]).astype(np.uint8)
    keep = cv2.resize(_bytes(1 - np.maximum(lines, edges)), box)
    return Weights(cv2.cvtColor(keep, cv2.COLOR_GRAY2RGB), None, cv2.resize(drawn, box))


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


def _outline(region: np.ndarray) -> None:
    for edge in (region[0], region[-1], region[:, 0], region[:, -1]):
        edge[:] = edge + np.rint((255 - edge.astype(float)) * OUTLINE).astype(np.uint8)


class Follower:
    """Moves overlays from the explained picture to later ones, by the optical flow between them.

    The flow is dense inverse search (Kroeger et al. 2016, "Fast Optical Flow using Dense Inverse
    Search"). A map fades where the later picture shows something else: the motion was too fast.
    """

    def __init__(self, picture: np.ndarray, overlays: Sequence[Overlay]):
        self._overlays = self._moved = list(overlays)
        self.elsewhere = False  # whether the last picture shows something else where the map is
        self._picture, self._then = picture, _small(picture)
        self._back = np.zeros((*self._then.shape, 2), np.float32)
        self._certain = np.ones_like(self._then)
        self._prepare_coordinates(picture.shape[:2], overlays[0])
        self._flow = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_ULTRAFAST)

    def __call__(self, picture: np.ndarray) -> list[Overlay]:
        """The overlays, moved to a later picture of the same size."""
        if picture is self._picture:
            return self._moved
        self._picture, now = picture, _small(picture)
        # from each pixel now to where it was then; it begins with that of the last call
        self._back = flow = self._flow.calc(now, self._then, self._back)
        self._certain = self._found(now, flow)
        at_x, at_y = self._at
        moved = _sampled(flow, at_x, at_y) * self._scale
        found = _sampled(self._certain, at_x, at_y)
        where = self._columns + moved[..., 0], self._rows + moved[..., 1]
        self._moved = [
            replace(
                overlay,
                colour=_sampled(overlay.colour, *where),
                alpha=cv2.remap(overlay.alpha, *where, cv2.INTER_LINEAR) * found,
            )
            for overlay in self._overlays
        ]
        drawn = float(self._overlays[0].alpha.sum())
        self.elsewhere = float(self._moved[0].alpha.sum()) < SEEN * drawn
        return self._moved

    def moved(self, outline: Outline) -> Outline | None:
        """A box, moved to the picture of the last call; None if it is lost there."""
        at, shift = np.array(outline.box).reshape(2, 2) / self._steps, np.zeros(2)
        for _ in range(2):  # the flow is known where the box is now
            low, high = np.clip(np.rint(at + shift), 0, self._then.shape[1::-1]).astype(int)
            part = np.s_[low[1] : high[1] : 2, low[0] : high[0] : 2]
            if not self._certain[part].size or self._certain[part].mean() < SEEN:
                return None
            shift = -np.median(self._back[part].reshape(-1, 2), axis=0)
        x0, y0, x1, y1 = ((at + shift) * self._steps).ravel().tolist()
        return outline._replace(box=(x0, y0, x1, y1))

    def _found(self, now: np.ndarray, flow: np.ndarray) -> np.ndarray:
        """Whether the flow leads to what was there then: float32 [h, w] from 0, no, to 1, yes.

        A change of the whole picture's brightness plays no part.
        """
        rows, columns = now.shape
        y, x = np.mgrid[:rows, :columns].astype(np.float32)
        then = _sampled(self._then, x + flow[..., 0], y + flow[..., 1])
        difference = np.subtract(now, then, dtype=np.float32)
        difference -= np.median(difference[::4, ::4])
        unlike = cv2.blur(np.abs(difference), (WINDOW, WINDOW))
        return np.clip((UNLIKE - unlike) / (UNLIKE - ALIKE), 0, 1)

    def _prepare_coordinates(self, size: tuple[int, int], overlay: Overlay) -> None:
        x0, y0, x1, y1 = overlay.box
        rows, columns = overlay.alpha.shape
        small = self._then.shape
        self._steps = steps = np.array([size[1] / small[1], size[0] / small[0]], np.float32)
        scale = np.array([(x1 - x0) / columns, (y1 - y0) / rows], np.float32)
        x, y = np.arange(columns, dtype=np.float32), np.arange(rows, dtype=np.float32)
        at_x = ((x + 0.5) * scale[0] + x0) / steps[0] - 0.5
        at_y = ((y + 0.5) * scale[1] + y0) / steps[1] - 0.5
        self._columns, self._rows = np.meshgrid(x, y)
        self._at = np.meshgrid(at_x, at_y)
        self._scale = steps / scale


def _sampled(image: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """An image at these places; beyond its edges it goes on as there."""
    return cv2.remap(image, x, y, cv2.INTER_LINEAR, None, cv2.BORDER_REPLICATE)


def _small(picture: np.ndarray) -> np.ndarray:
    grey = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
    rows, columns = grey.shape
    size = (
        max(16, min(FLOW_WIDTH, columns)),
        max(16, round(rows * min(FLOW_WIDTH, columns) / columns)),
    )
    return cv2.resize(grey, size, interpolation=cv2.INTER_AREA)
