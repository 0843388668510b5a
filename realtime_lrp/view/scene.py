"""What stands on the screen, as data, and the one place that draws it.

A `Scene` holds all that a canvas is made of: drawn twice it gives the same pixels, also in another
process (`results/snapshot.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np

from realtime_lrp.view.colormaps import by_sign
from realtime_lrp.view.follow import Follower
from realtime_lrp.view.hud import Block, column_width, draw_column, draw_notice, figure_size
from realtime_lrp.view.overlay import Box, Overlay, coloured, lay_into
from realtime_lrp.view.text import darken, draw_text, fitted

BACKGROUND = 24
GAP = 2


@dataclass(frozen=True)
class Look:
    """How maps are drawn.

    Attributes:
      colormap: its name; None is by the map's signs.
      opacity: 0 to 1, of the strongest relevance.
      style: "heat", "contour" or "off".
      follow: "flow", "hold" or "sync", see `overlay.follow`.
    """

    colormap: str | None
    opacity: float
    style: str
    follow: str


@dataclass(frozen=True, eq=False)
class Panel:
    """A map to be drawn.

    Attributes:
      name: the method or composite that it comes from.
      intensity: float32 [h, w] or [h, w, 3] in [-1, 1], see `overlay.intensity`.
      signed: whether it can be negative.
    """

    name: str
    intensity: np.ndarray
    signed: bool


@dataclass(frozen=True, eq=False)
class ExplainedPicture:
    """What was found in a picture.

    Attributes:
      picture: uint8 [H, W, 3] RGB, the one that was explained.
      box: the explained region in it.
      panels: the maps, the chosen one first.
    """

    picture: np.ndarray
    box: Box
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Scene:
    """A canvas before it is drawn.

    Attributes:
      size: rows and columns of the canvas.
      picture: uint8 [H, W, 3] RGB.
      finding: made for the picture, or for another one of its size; or None.
      tiled: whether the picture and all maps stand side by side, else the first map over it.
      look: how maps are drawn.
      left: figures in the left column.
      right: figures in the right column.
      notice: a line at the bottom, or "".
    """

    size: tuple[int, int]
    picture: np.ndarray
    finding: ExplainedPicture | None
    tiled: bool
    look: Look
    left: tuple[Block, ...] = ()
    right: tuple[Block, ...] = ()
    notice: str = ""

    @property
    def maps(self) -> tuple[Panel, ...]:
        """The maps that have a tile of their own beside the picture; none where it stands alone."""
        return self.finding.panels if self.tiled and self.finding else ()


class Artist:
    """Draws scenes; keeps what the next one of the same finding needs again."""

    def __init__(self) -> None:
        self._finding: ExplainedPicture | None = None
        self._colours: tuple[str | None, float] | None = None
        self._overlays: list[Overlay] = []
        self._follower: Follower | None = None

    def draw(self, scene: Scene) -> np.ndarray:
        """The canvas, uint8 [*size, 3] RGB."""
        rows, columns = scene.size
        canvas = np.full((rows, columns, 3), BACKGROUND, np.uint8)
        overlays = self._overlays_of(scene)
        boxes = places(scene)
        names = [""] * len(boxes)
        over: list[Overlay | None] = [overlays[0] if overlays else None]
        if scene.maps:
            over = [None, *overlays]
            names = ["picture", *(panel.name for panel in scene.maps)]
        picture = _scaled(scene.picture, boxes[0])
        style = scene.look.style
        for box, overlay, name in zip(boxes, over, names, strict=True):
            x0, y0, x1, y1 = box
            tile = canvas[y0:y1, x0:x1]
            tile[:] = picture
            if overlay and style != "off":
                lay_into(tile, _moved(overlay, scene.picture.shape, box), style)
            _caption(canvas, name, box)
        _columns(canvas, scene)
        draw_notice(canvas, scene.notice)
        return canvas

    def _overlays_of(self, scene: Scene) -> list[Overlay]:
        """The finding's overlays where they belong on the scene's picture."""
        finding, look = scene.finding, scene.look
        if finding is None:
            return []
        colours = (look.colormap, look.opacity)
        if finding is not self._finding or colours != self._colours:
            self._finding, self._colours, self._follower = finding, colours, None
            self._overlays = [_overlay(panel, finding.box, look) for panel in finding.panels]
        if look.follow != "flow" or scene.picture is finding.picture or look.style == "off":
            return self._overlays
        self._follower = self._follower or Follower(finding.picture, self._overlays)
        return self._follower(scene.picture)


def places(scene: Scene) -> list[Box]:
    """Where the picture stands on the canvas: once, or once for each tile."""
    rows, columns = scene.size
    tiles = 1 + len(scene.maps)
    if scene.maps and (scene.left or scene.right):
        columns -= column_width(columns)
    grid = max(range(1, tiles + 1), key=lambda n: _tile_scale(scene, columns, rows, n, tiles))
    down = -(-tiles // grid)
    width, height = columns // grid, rows // down
    offset, gap = scene.size[1] - columns, GAP if tiles > 1 else 0
    return [
        _centred(
            scene.picture.shape,
            (offset + n % grid * width, n // grid * height, width, height),
            gap,
        )
        for n in range(tiles)
    ]


def _tile_scale(scene: Scene, columns: int, rows: int, across: int, tiles: int) -> float:
    height, width = scene.picture.shape[:2]
    return min(columns / across / width, rows / -(-tiles // across) / height)


def _centred(shape: Sequence[int], room: tuple[int, int, int, int], gap: int) -> Box:
    """Where a picture of this shape stands in x, y, width, height."""
    x, y, width, height = room
    scale = min((width - gap) / shape[1], (height - gap) / shape[0])
    w, h = max(1, round(shape[1] * scale)), max(1, round(shape[0] * scale))
    x, y = x + (width - w) // 2, y + (height - h) // 2
    return x, y, x + w, y + h


def _scaled(picture: np.ndarray, box: Box) -> np.ndarray:
    size = (box[2] - box[0], box[3] - box[1])
    if size == (picture.shape[1], picture.shape[0]):
        return picture
    shrinks = size[0] < picture.shape[1]
    return cv2.resize(picture, size, interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)


def _moved(overlay: Overlay, shape: Sequence[int], box: Box) -> Overlay:
    """A overlay made for a picture of this shape, for that picture scaled to a box."""
    across, down = (box[2] - box[0]) / shape[1], (box[3] - box[1]) / shape[0]
    x0, y0, x1, y1 = overlay.box
    x0, x1 = round(x0 * across), max(round(x0 * across) + 1, round(x1 * across))
    y0, y1 = round(y0 * down), max(round(y0 * down) + 1, round(y1 * down))
    return replace(overlay, box=(x0, y0, x1, y1))


def _overlay(panel: Panel, box: Box, look: Look) -> Overlay:
    return coloured(panel.intensity, look.colormap or by_sign(panel.signed), look.opacity, box)


def _caption(canvas: np.ndarray, name: str, box: Box) -> None:
    if name:
        size = figure_size(*canvas.shape[:2])
        x0, y0, x1, _ = box
        darken(canvas, (x0, y0, x1, y0 + round(1.6 * size)))
        text = fitted(name.replace("_", " "), x1 - x0 - size, size)
        draw_text(canvas, text, (x0 + size // 2, y0 + round(1.15 * size)), size)


def _columns(canvas: np.ndarray, scene: Scene) -> None:
    width = canvas.shape[1]
    if scene.maps:
        draw_column(canvas, (*scene.right, *scene.left), 0)
        return
    draw_column(canvas, scene.left, 0)
    draw_column(canvas, scene.right, width - column_width(width))
