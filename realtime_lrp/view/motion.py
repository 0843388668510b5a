"""Moves maps and boxes along with what they were made of."""

from dataclasses import replace

import cv2
import numpy as np

from realtime_lrp.view.painting import ColouredMap, Outline, Painted

FLOW_WIDTH = 320  # about how many columns a picture has where motion is measured
WINDOW = 5  # side of the compared squares, in every second pixel of a reduced picture

ALIKE = 8.0
UNLIKE = 24.0
"""Mean difference in grey levels up to which the motion was found, and from which it was not.
In recordings of moving cars and people 95 % of all pixels differ by less than 8 after 0.1 s."""

SEEN = 0.5  # a detector's box is lost where less of it was found, the picture of a map as well


class Follower:
    """Moves what is painted from the explained picture to later ones, by the optical flow.

    The flow is dense inverse search (Kroeger et al. 2016, "Fast Optical Flow using Dense Inverse
    Search"). A map fades where the later picture shows something else: the motion was too fast.
    """

    def __init__(self, painted: Painted):
        self._painted = self._moved = painted
        self._box = x0, y0, x1, y1 = painted.box
        self._then = then = self._small(painted.picture)
        self._back = np.zeros((*then.shape, 2), np.float32)
        self._half = _grid(then.shape[1] // 2, then.shape[0] // 2) * 2 + np.float32(0.5)
        self._steps = np.array([x1 - x0, y1 - y0], np.float32) / then.shape[::-1]
        size = painted.overlays[0].alpha.shape[::-1]
        self._map_pixels = _grid(*size)
        self._scale = np.divide(size, then.shape[::-1], dtype=np.float32)
        self._layers = [_layer(overlay) for overlay in painted.overlays]
        self._flow = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_ULTRAFAST)

    def __call__(self, picture: np.ndarray) -> Painted:
        """The painting, moved to a later picture of the same size, without lost boxes."""
        if picture is self._moved.picture:
            return self._moved
        now = self._small(picture)
        # from each pixel now to its place then; it begins with the last call's flow
        self._back = self._flow.calc(now, self._then, self._back)
        half = self._half.shape[1::-1]
        size = self._map_pixels.shape[1::-1]
        flow = cv2.resize(self._back, half, interpolation=cv2.INTER_AREA)
        certain = self._found(cv2.resize(now, half, interpolation=cv2.INTER_AREA), flow)
        where = cv2.resize(flow * self._scale, size) + self._map_pixels
        found = cv2.resize(certain, size)
        overlays = (
            _with_layer(overlay, cv2.remap(layer, where, None, cv2.INTER_LINEAR), found)
            for overlay, layer in zip(self._painted.overlays, self._layers, strict=True)
        )
        outlines = [self._outline(outline, flow, certain) for outline in self._painted.outlines]
        lost = frozenset(n for n, one in enumerate(outlines) if one is None)
        moved = Painted(picture, tuple(overlays), tuple(filter(None, outlines)), lost)
        drawn, left = (float(one.overlays[0].alpha.sum()) for one in (self._painted, moved))
        self._moved = replace(moved, elsewhere=left < SEEN * drawn)
        return self._moved

    def _outline(self, outline: Outline, flow: np.ndarray, certain: np.ndarray) -> Outline | None:
        """A box, moved along; None if it is lost."""
        at = (np.array(outline.box).reshape(2, 2) - self._box[:2]) / self._steps
        shift = np.zeros(2)
        for _ in range(2):  # the flow is known where the box is now
            low, high = np.clip(np.rint(at + shift), 0, self._then.shape[1::-1]).astype(int)
            x0, y0 = low // 2
            x1, y1 = (high + 1) // 2
            if not certain[y0:y1, x0:x1].size or certain[y0:y1, x0:x1].mean() < SEEN:
                return None
            shift = -np.median(flow[y0:y1, x0:x1].reshape(-1, 2), axis=0)
        return outline.moved(*(shift * self._steps).tolist())

    def _found(self, now: np.ndarray, flow: np.ndarray) -> np.ndarray:
        """Whether the flow leads to the same, whatever the brightness: float32 [h, w], 0 to 1."""
        where = self._half + flow
        then = cv2.remap(self._then, where, None, cv2.INTER_LINEAR, None, cv2.BORDER_REPLICATE)
        difference = np.subtract(now, then, dtype=np.float32)
        difference -= np.median(difference[::4, ::4])
        unlike = cv2.blur(np.abs(difference), (WINDOW, WINDOW))
        return np.clip((UNLIKE - unlike) / (UNLIKE - ALIKE), 0, 1)

    def _small(self, picture: np.ndarray) -> np.ndarray:
        """The explained region in grey, reduced by a whole number: that is several times faster."""
        x0, y0, x1, y1 = self._box
        grey = cv2.cvtColor(picture[y0:y1, x0:x1], cv2.COLOR_RGB2GRAY)
        factor = max(1, round(picture.shape[1] / FLOW_WIDTH))
        size = max(16, (x1 - x0) // factor), max(16, (y1 - y0) // factor)
        return cv2.resize(grey, size, interpolation=cv2.INTER_AREA)


def _layer(overlay: ColouredMap) -> np.ndarray:
    """Colour and alpha, uint8 [h, w, 4]: four channels are moved twice as fast as three."""
    layer = cv2.cvtColor(overlay.colour, cv2.COLOR_RGB2RGBA)
    layer[..., 3] = np.rint(255 * overlay.alpha)
    return layer


def _with_layer(overlay: ColouredMap, layer: np.ndarray, found: np.ndarray) -> ColouredMap:
    alpha = layer[..., 3] * (found / 255)
    return replace(overlay, colour=cv2.cvtColor(layer, cv2.COLOR_RGBA2RGB), alpha=alpha)


def _grid(columns: int, rows: int) -> np.ndarray:
    """The places (x, y) of pixels: float32 [rows, columns, 2]."""
    return np.dstack(np.meshgrid(np.arange(columns), np.arange(rows))).astype(np.float32)
