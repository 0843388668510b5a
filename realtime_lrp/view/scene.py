"""A canvas as data (`Scene`), and `Artist`, which draws it: the same scene, the same pixels."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np

from realtime_lrp.system.geometry import Box
from realtime_lrp.view.colormaps import by_sign
from realtime_lrp.view.follow import Follower
from realtime_lrp.view.hud import Block, column_width, draw_column, draw_notice, figure_size
from realtime_lrp.view.overlay import Overlay, coloured, lay_into
from realtime_lrp.view.text import darken, draw_text, fitted

BACKGROUND = 24
"""The grey around pictures."""

GAP = 2
"""Pixels between pictures side by side."""


@dataclass(frozen=True)
class Look:
    """How maps are drawn.

    Attributes:
      colormap: its name; None goes by the map's signs.
      opacity: 0 to 1, of the strongest relevance.
      style: "heat", "contour" or "off".
      follow: "flow", "hold" or "sync", see `overlay.follow` of the configuration.
    """

    colormap: str | None
    opacity: float
    style: str
    follow: str


@dataclass(frozen=True, eq=False)
class Panel:
    """A map that is ready to be coloured.

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
    """A picture with its maps.

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
    """What a canvas is drawn of.

    Attributes:
      size: rows and columns of the canvas.
      picture: uint8 [H, W, 3] RGB.
      explained: the maps, made for this picture or an earlier one of its size; or None.
      tiled: whether the picture and all maps stand side by side. Else the first map lies over the
        picture.
      look: how maps are drawn.
      left: figures in the left column.
      right: figures in the right column.
      notice: a line at the bottom, or "".
    """

    size: tuple[int, int]
    picture: np.ndarray
    explained: ExplainedPicture | None
    tiled: bool
    look: Look
    left: tuple[Block, ...] = ()
    right: tuple[Block, ...] = ()
    notice: str = ""

    @property
    def panels(self) -> tuple[Panel, ...]:
        """The maps that stand beside the picture; none where the picture stands alone."""
        return self.explained.panels if self.tiled and self.explained else ()


class Artist:
    """Draws scenes. Keeps the coloured maps for further scenes of the same explained picture."""

    def __init__(self) -> None:
        self._explained: ExplainedPicture | None = None
        self._colours: tuple[str | None, float] | None = None
        self._overlays: list[Overlay] = []
        self._follower: Follower | None = None

    def draw(self, scene: Scene) -> np.ndarray:
        """The canvas, uint8 [*size, 3] RGB."""
        rows, columns = scene.size
        canvas = np.full((rows, columns, 3), BACKGROUND, np.uint8)
        overlays = self._overlays_for(scene)
        boxes = picture_boxes(scene)
        names = [""] * len(boxes)
        shown: list[Overlay | None] = [overlays[0] if overlays else None]
        if scene.panels:
            shown = [None, *overlays]
            names = ["picture", *(panel.name for panel in scene.panels)]
        picture = _scaled(scene.picture, boxes[0])
        style = scene.look.style
        for box, overlay, name in zip(boxes, shown, names, strict=True):
            x0, y0, x1, y1 = box
            tile = canvas[y0:y1, x0:x1]
            tile[:] = picture
            if overlay and style != "off":
                lay_into(tile, _scaled_overlay(overlay, scene.picture.shape, box), style)
            _draw_caption(canvas, name, box)
        _draw_columns(canvas, scene)
        draw_notice(canvas, scene.notice)
        return canvas

    def _overlays_for(self, scene: Scene) -> list[Overlay]:
        """The coloured maps, moved to where they belong on the picture of the scene."""
        explained, look = scene.explained, scene.look
        if explained is None:
            return []
        colours = (look.colormap, look.opacity)
        if explained is not self._explained or colours != self._colours:
            self._explained, self._colours, self._follower = explained, colours, None
            self._overlays = [_overlay(panel, explained.box, look) for panel in explained.panels]
        if look.follow != "flow" or scene.picture is explained.picture or look.style == "off":
            return self._overlays
        self._follower = self._follower or Follower(explained.picture, self._overlays)
        return self._follower(scene.picture)


def picture_boxes(scene: Scene) -> list[Box]:
    """Where the picture stands on the canvas: once, or side by side once for each tile."""
    rows, columns = scene.size
    tiles = 1 + len(scene.panels)
    if scene.panels and (scene.left or scene.right):
        columns -= column_width(columns)
    across = max(range(1, tiles + 1), key=lambda n: _tile_scale(scene, columns, rows, n, tiles))
    down = -(-tiles // across)
    width, height = columns // across, rows // down
    left, gap = scene.size[1] - columns, GAP if tiles > 1 else 0
    return [
        _centred(
            scene.picture.shape,
            (left + n % across * width, n // across * height, width, height),
            gap,
        )
        for n in range(tiles)
    ]


def _tile_scale(scene: Scene, columns: int, rows: int, across: int, tiles: int) -> float:
    """How much the picture is enlarged with so many tiles across."""
    height, width = scene.picture.shape[:2]
    return min(columns / across / width, rows / -(-tiles // across) / height)


def _centred(shape: Sequence[int], room: tuple[int, int, int, int], gap: int) -> Box:
    """The box of a picture of this shape in the middle of x, y, width, height."""
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


def _scaled_overlay(overlay: Overlay, shape: Sequence[int], box: Box) -> Overlay:
    """The overlay of a picture of this shape, for that picture scaled to a box."""
    across, down = (box[2] - box[0]) / shape[1], (box[3] - box[1]) / shape[0]
    x0, y0, x1, y1 = overlay.box
    x0, x1 = round(x0 * across), max(round(x0 * across) + 1, round(x1 * across))
    y0, y1 = round(y0 * down), max(round(y0 * down) + 1, round(y1 * down))
    return replace(overlay, box=(x0, y0, x1, y1))


def _overlay(panel: Panel, box: Box, look: Look) -> Overlay:
    return coloured(panel.intensity, look.colormap or by_sign(panel.signed), look.opacity, box)


def _draw_caption(canvas: np.ndarray, name: str, box: Box) -> None:
    if name:
        size = figure_size(*canvas.shape[:2])
        x0, y0, x1, _ = box
        darken(canvas, (x0, y0, x1, y0 + round(1.6 * size)))
        text = fitted(name.replace("_", " "), x1 - x0 - size, size)
        draw_text(canvas, text, (x0 + size // 2, y0 + round(1.15 * size)), size)


def _draw_columns(canvas: np.ndarray, scene: Scene) -> None:
    width = canvas.shape[1]
    if scene.panels:
        draw_column(canvas, (*scene.right, *scene.left), 0)
        return
    draw_column(canvas, scene.left, 0)
    draw_column(canvas, scene.right, width - column_width(width))
