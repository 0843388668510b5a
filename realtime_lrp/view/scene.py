"""A canvas as data, and what draws it: the same scene, the same pixels."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import cv2
import numpy as np

from realtime_lrp.system.geometry import Box, Extent, moved
from realtime_lrp.view import hud
from realtime_lrp.view.arrangement import CAPTION, GAP, Arrangement, arrange, scaled_box, split
from realtime_lrp.view.concepts import ConceptArtist, ConceptPanel, PanelPlace
from realtime_lrp.view.decals import Buffers, Decals
from realtime_lrp.view.look import Look
from realtime_lrp.view.motion import Follower
from realtime_lrp.view.painting import ColouredMap, Painted, draw_outlines, lay_into
from realtime_lrp.view.text import WHITE, draw_text, fitted

BACKGROUND, EMPTY = 24, 40  # the grey around pictures, and of a tile whose map is being prepared
DASH = 0.3  # a dashed side is drawn for this share of its length at either end


@dataclass(frozen=True, eq=False)
class Patches:
    """Two choices of patches of a grid, bool [rows, columns]."""

    relevant: np.ndarray  # gets a solid outline
    random: np.ndarray  # gets dashes
    # x0, y0, x1, y1 of the whole grid, in pixels of the picture. It can be larger than the picture.
    box: tuple[float, float, float, float]


@dataclass(frozen=True)
class Scene:
    """The contents of a canvas, or of a network's part of one."""

    size: Extent  # rows and columns of the canvas
    picture: np.ndarray  # uint8 [H, W, 3] RGB
    explained: Painted | None  # made for this picture or an earlier one of its size
    tiled: bool  # picture and maps stand side by side; else the first map lies over the picture
    look: Look
    left: tuple[hud.Block, ...] = ()  # figures for the left side, where both sides have room
    right: tuple[hud.Block, ...] = ()  # figures for the right side; they come first
    legends: tuple[hud.Legend | None, ...] = ()  # a panel has none if its channels are colours
    notice: str = ""  # a line at the bottom, or ""
    with_figures: bool = False  # whether room is kept for figures
    text_size: str = "medium"  # see `hud.TEXT_SIZES`
    awaited: tuple[str, ...] = ()  # further panels that are being prepared; their tiles are empty
    patches: Patches | None = None  # what the faithfulness probe flips, outlined on the picture
    roams: bool = False  # whether what is explained moves about in the picture
    network: str = ""  # the name that stands above the map where there are several networks, or ""
    title: str = ""  # what stands above the map where it is not the whole one, or ""
    untitled: str = ""  # what stands there else, where a line is kept for the title; or ""

    @property
    def panels(self) -> tuple[ColouredMap, ...]:
        """The maps that stand beside the picture; none where the picture stands alone."""
        return self.explained.overlays if self.tiled and self.explained else ()

    @property
    def letters(self) -> int:
        return hud.figure_size(*self.size, self.text_size)

    @cached_property
    def arrangement(self) -> Arrangement:
        region = self.explained.box if self.explained else None
        if self.roams:  # figures stay where they are
            region = 0, 0, self.picture.shape[1], self.picture.shape[0]
        panels = len(self.panels) + len(self.awaited)
        titled = (self.network or self.title or self.untitled) and not panels
        return arrange(
            self.size, self.picture.shape, region, panels, self.with_figures, self.letters,
            round(CAPTION * self.letters) if titled else 0,
        )  # fmt: skip

    def caption(self, name: str) -> str:
        """The name of a panel or title: "shapes:zplus" where there are several networks."""
        return ":".join(filter(None, (self.network, name)))

    def figures(self) -> list[tuple[tuple[hud.Block, ...], Box]]:
        """The blocks of each area for figures, and that area; none where no room is kept."""
        areas = self.arrangement.figures if self.with_figures else ()
        blocks = [self.left, self.right] if len(areas) > 1 else [(*self.right, *self.left)]
        return list(zip(blocks, areas, strict=False))

    def notice_area(self, text: str, rows: int | None = None) -> Box:
        """A place for a notice that covers no other text, if there is room."""
        areas = [
            (x0, hud.blocks_end(blocks, (x0, y0, x1, y1), self.size, self.letters), x1, y1)
            for blocks, (x0, y0, x1, y1) in self.figures()
        ]
        below = self.size[0] if rows is None else rows
        *free, last = ((*one[:3], min(one[3], below)) for one in (*areas, self.arrangement.notices))
        for x0, y0, x1, y1 in free:
            if x1 > x0 and y1 - y0 >= hud.notice_height(text, x1 - x0, self.letters):
                return x0, y0, x1, y1
        return last


@dataclass(frozen=True)
class SplitScene:
    """The scenes of several networks on a canvas, with the panel of concepts."""

    size: Extent
    scenes: tuple[Scene, ...]  # one for each network; a scene that stands alone fills the canvas
    boxes: tuple[Box, ...]  # where each stands
    concepts: ConceptPanel | None = None  # the panel, which has a part of the canvas to itself
    said: str = ""  # a sentence below all of them, or ""

    @property
    def letters(self) -> int:
        return hud.figure_size(*self.size, self.scenes[0].text_size)

    @property
    def pictures(self) -> tuple[Box, ...]:
        """The picture's place on the canvas, in every scene."""
        return tuple(
            moved(picture, *box[:2])
            for scene, box in zip(self.scenes, self.boxes, strict=True)
            for picture in scene.arrangement.pictures
        )

    @property
    def place(self) -> PanelPlace | None:
        panel = self.concepts
        room = room_above(self.said, self.size, self.letters)
        return panel.place(room, self.letters) if panel else None

    @property
    def concept_rows(self) -> tuple[tuple[Box, int], ...]:
        """Each channel's row in the panel of concepts."""
        if self.place is None or self.concepts is None:
            return ()
        pairs = zip(self.place.rows, self.concepts.rows, strict=False)
        return tuple((box, row.channel) for box, row in pairs)

    @property
    def free(self) -> Box:
        """The panel of concepts, or the last area for figures: there a list covers no picture."""
        if self.place:
            return self.place.box
        return moved(self.scenes[-1].arrangement.figures[-1], *self.boxes[-1][:2])

    def notice_area(self, number: int, text: str, rows: int) -> Box:
        """The place of a notice about a network, within these rows of the canvas."""
        box = self.boxes[number]
        return moved(self.scenes[number].notice_area(text, rows - box[1]), *box[:2])

    def pictures_alone(self, size: Extent) -> "SplitScene":
        """The same on a canvas of another size, without figures and the panel of concepts."""
        first = self.scenes[0]
        letters = hud.figure_size(*size, first.text_size)
        boxes = boxes_of(size, first.picture.shape, len(self.scenes), letters)
        scenes = (
            replace(scene, size=(y1 - y0, x1 - x0), with_figures=False, untitled="")
            for scene, (x0, y0, x1, y1) in zip(self.scenes, boxes, strict=True)
        )
        return SplitScene(size, tuple(scenes), boxes)


def room_above(said: str, size: Extent, letters: int) -> Extent:
    """Rows and columns that a sentence at the lower edge leaves of a canvas."""
    below = hud.notice_height(said, size[1], letters) - letters // 2 if said else 0
    return size[0] - below, size[1]


def boxes_of(
    size: Extent, shape: Sequence[int], count: int, letters: int,
    concepts: ConceptPanel | None = None,
) -> tuple[Box, ...]:  # fmt: skip
    """The places of several networks' scenes on a canvas, beside the panel of concepts."""
    if concepts:
        size = concepts.place(size, letters).rest
    return split(size, shape, count, round(GAP * letters))


class Artist:
    """Draws scenes. Keeps what further scenes of the same explained picture need again."""

    def __init__(self) -> None:
        self.decals = Decals()
        self._buffers = Buffers()
        self._explained: Painted | None = None
        self._follower: Follower | None = None

    def lost(self, scene: Scene) -> tuple[frozenset[int], bool]:
        """Which boxes are not found again on the scene's picture, and whether nothing is."""
        painted = self._drawn_for(scene)
        return (painted.lost, painted.elsewhere) if painted else (frozenset(), False)

    def draw(self, scene: Scene) -> np.ndarray:
        """The canvas, uint8 [*size, 3] RGB. Its memory is used again when nobody holds it."""
        canvas = self._buffers.get((*scene.size, 3))
        self.draw_on(canvas, scene)
        return canvas

    def draw_on(self, canvas: np.ndarray, scene: Scene) -> None:
        """Draws a scene over all of a canvas, uint8 [*size, 3] RGB, in place."""
        boxes = scene.arrangement.pictures
        if boxes != ((0, 0, *scene.size[::-1]),):
            canvas.fill(BACKGROUND)
        painted = self._drawn_for(scene)
        outlines = painted.outlines if painted else ()
        overlays = painted.overlays if painted and scene.look.style != "off" else ()
        picture = self._working_picture(scene, overlays, boxes[0])
        shown: list[ColouredMap | None] = [
            _scaled_overlay(one, scene.picture.shape, picture.shape) for one in overlays
        ]
        if scene.panels:
            shown = [None, *(shown or [None] * len(scene.panels))]
        else:
            shown = shown[:1] or [None]
        for number, (overlay, (x0, y0, x1, y1)) in enumerate(zip(shown, boxes, strict=False)):
            tile = canvas[y0:y1, x0:x1]
            if overlay and tile.shape != picture.shape:
                drawn = self._buffers.copy(picture)
                lay_into(drawn, overlay)
                _scale_into(tile, drawn)
            else:
                _scale_into(tile, picture)
                if overlay:
                    lay_into(tile, overlay)
            draw_outlines(tile, outlines, scene.picture.shape)
            if number == len(scene.panels[:1]):  # the shares belong to the first map
                outlines = tuple(outline._replace(below="") for outline in outlines)
        for x0, y0, x1, y1 in boxes[len(shown) :]:
            canvas[y0:y1, x0:x1] = EMPTY
        if scene.patches:
            _draw_patches(canvas, scene.patches, scene.picture.shape, boxes[0])
        self._draw_text(canvas, scene)

    def _working_picture(
        self, scene: Scene, overlays: Sequence[ColouredMap], box: Box
    ) -> np.ndarray:
        """The picture at its own size or the box's, the smaller; no map becomes smaller."""
        picture = scene.picture
        rows, columns = box[3] - box[1], box[2] - box[0]
        maps_fit = all(
            x1 - x0 >= overlay.alpha.shape[1] and y1 - y0 >= overlay.alpha.shape[0]
            for overlay in overlays
            for x0, y0, x1, y1 in [overlay.box]
        )
        if maps_fit and picture.shape[0] <= rows and picture.shape[1] <= columns:
            return picture
        scaled = self._buffers.get((rows, columns, 3))
        _scale_into(scaled, picture)
        return scaled

    def _draw_text(self, canvas: np.ndarray, scene: Scene) -> None:
        draw = self.decals.draw
        boxes = scene.arrangement.pictures
        if scene.panels:
            awaited = (f"preparing {name}" for name in scene.awaited)
            named = (scene.caption(panel.name) for panel in scene.panels)
            captions = ("picture", *named, *awaited)
            for name, box in zip(captions, boxes, strict=True):
                draw(canvas, _draw_caption, name, box, scene.letters)
        elif name := scene.caption(scene.title) or (scene.untitled if scene.explained else ""):
            draw(canvas, _draw_caption, name, boxes[0], scene.letters)
        for legend, box in zip(scene.legends, boxes[1:], strict=False):
            if legend:
                draw(canvas, _draw_legend, legend, box, scene.letters)
        for blocks, area in scene.figures():
            if blocks:
                draw(canvas, hud.draw_blocks, blocks, area, scene.letters)
        if scene.notice:
            area = scene.notice_area(scene.notice)
            draw(canvas, hud.draw_notice, scene.notice, area, scene.letters)

    def _drawn_for(self, scene: Scene) -> Painted | None:
        """The maps and boxes, moved to where they belong on the scene's picture."""
        explained = scene.explained
        look = scene.look
        if explained is None or (look.style == "off" and not explained.outlines):
            return None
        if explained is not self._explained:
            self._explained = explained
            self._follower = None
        if look.motion != "flow" or scene.picture is explained.picture:
            return explained
        self._follower = self._follower or Follower(explained)
        return self._follower(scene.picture)


class SplitArtist:
    """Draws split canvases; an `Artist` for each scene."""

    def __init__(self) -> None:
        self._artists: list[Artist] = []
        self.buffers = Buffers()
        self.decals = Decals()
        self._concepts = ConceptArtist()

    def _artists_for(self, scene: SplitScene) -> list[Artist]:
        self._artists += [Artist() for _ in scene.scenes[len(self._artists) :]]
        return self._artists[: len(scene.scenes)]

    def lost(self, scene: SplitScene) -> list[tuple[frozenset[int], bool]]:
        """For each scene: `Artist.lost`."""
        return list(map(Artist.lost, self._artists_for(scene), scene.scenes))

    def draw(self, scene: SplitScene) -> np.ndarray:
        """The canvas, see `Artist.draw`."""
        canvas = self.buffers.get((*scene.size, 3))
        if len(scene.scenes) > 1 or scene.said:
            canvas.fill(BACKGROUND)  # also between the scenes
        artists = self._artists_for(scene)
        for artist, one, (x0, y0, x1, y1) in zip(artists, scene.scenes, scene.boxes, strict=True):
            artist.draw_on(canvas[y0:y1, x0:x1], one)
        if scene.concepts and scene.place:
            self._concepts.draw(canvas, scene.concepts, scene.place, scene.letters)
        if scene.said:
            area = (0, 0, *scene.size[::-1])
            self.decals.draw(canvas, hud.draw_notice, scene.said, area, scene.letters)
        return canvas


def _scale_into(tile: np.ndarray, picture: np.ndarray) -> None:
    rows, columns = tile.shape[:2]
    if tile.shape == picture.shape:
        np.copyto(tile, picture)
    else:  # down to a half every pixel still counts, and linear takes a sixth of the time
        how = cv2.INTER_AREA if 2 * columns <= picture.shape[1] else cv2.INTER_LINEAR
        cv2.resize(picture, (columns, rows), dst=tile, interpolation=how)


def _scaled_overlay(
    overlay: ColouredMap, shape: Sequence[int], scaled: Sequence[int]
) -> ColouredMap:
    """The overlay of a picture of one shape, for that picture scaled to another shape."""
    if tuple(shape) == tuple(scaled):
        return overlay
    x0, y0, x1, y1 = scaled_box(overlay.box, shape, (0, 0, scaled[1], scaled[0]))
    return replace(overlay, box=(x0, y0, max(x0 + 1, x1), max(y0 + 1, y1)))


def _draw_caption(canvas: np.ndarray, name: str, box: Box, letters: int) -> None:
    x0, y0, x1, _ = box
    x0 = max(x0, letters // 2)  # text does not touch the edge
    text = fitted(name, x1 - x0, letters)
    draw_text(canvas, text, (x0, y0 - round(0.5 * letters)), letters)


def _draw_legend(canvas: np.ndarray, legend: hud.Legend, box: Box, letters: int) -> None:
    x0, _, x1, y1 = box
    parts = hud.legend_line(legend, x1 - x0, letters)
    hud.draw_parts(canvas, parts, x0, y1 + letters // 4, x1 - x0)


def _draw_patches(canvas: np.ndarray, patches: Patches, shape: tuple[int, ...], box: Box) -> None:
    """Draws the outlines in place, white with dark edges, so that they show on any ground."""
    x0, y0, x1, y1 = box
    tile = canvas[y0:y1, x0:x1]
    down, across = tile.shape[0] / shape[0], tile.shape[1] / shape[1]
    left, top, right, bottom = patches.box
    rows, columns = patches.relevant.shape
    xs = np.linspace(left * across, right * across, columns + 1)
    ys = np.linspace(top * down, bottom * down, rows + 1)
    width = max(1, round(min(tile.shape[:2]) / 360))
    solid = _sides(patches.relevant, xs, ys)
    dashes = [
        np.array([end, end + DASH * (other - end)])
        for first, last in _sides(patches.random, xs, ys)
        for end, other in ((first, last), (last, first))
    ]
    for sides, thick in ((dashes, width), (solid, width + 1)):
        lines = [np.rint(side).astype(np.int32) for side in sides]
        cv2.polylines(tile, lines, False, (0, 0, 0), thick + 2)
        cv2.polylines(tile, lines, False, WHITE, thick)


def _sides(chosen: np.ndarray, xs: np.ndarray, ys: np.ndarray) -> list[np.ndarray]:
    """The sides between patches that are chosen and others: two ends x, y of each."""
    framed = np.pad(chosen, 1)  # row 1 is the first patch
    upright = np.argwhere(framed[:, 1:] != framed[:, :-1])
    level = np.argwhere(framed[1:] != framed[:-1])
    return [
        *(np.array([(xs[x], ys[y - 1]), (xs[x], ys[y])]) for y, x in upright),
        *(np.array([(xs[x - 1], ys[y]), (xs[x], ys[y])]) for y, x in level),
    ]
