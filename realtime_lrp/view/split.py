"""A canvas that several networks share: each has a scene of its own in a part of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from realtime_lrp.system.geometry import Box, moved
from realtime_lrp.view.arrangement import GAP, split
from realtime_lrp.view.buffers import Buffers
from realtime_lrp.view.concepts import ConceptArtist, ConceptPanel, PanelPlace
from realtime_lrp.view.decals import Decals
from realtime_lrp.view.hud import figure_size
from realtime_lrp.view.scene import BACKGROUND, Artist, Scene


@dataclass(frozen=True)
class SplitScene:
    """The scenes of a canvas."""

    size: tuple[int, int]
    scenes: tuple[Scene, ...]  # one for each network; a scene that stands alone fills the canvas
    boxes: tuple[Box, ...]  # where each stands
    # the panel of concepts, which has a part of the canvas to itself; or None
    concepts: ConceptPanel | None = None

    @property
    def letters(self) -> int:
        return figure_size(*self.size, self.scenes[0].text_size)

    @property
    def pictures(self) -> tuple[Box, ...]:
        """Where the picture stands on the canvas, in every scene."""
        return tuple(
            moved(picture, *box[:2])
            for scene, box in zip(self.scenes, self.boxes, strict=True)
            for picture in scene.arrangement.pictures
        )

    @property
    def place(self) -> PanelPlace | None:
        panel = self.concepts
        return panel.place(self.size, self.letters) if panel else None

    @property
    def concept_rows(self) -> tuple[tuple[Box, int], ...]:
        """Where each channel has its row in the panel of concepts."""
        if self.place is None or self.concepts is None:
            return ()
        pairs = zip(self.place.rows, self.concepts.rows, strict=False)
        return tuple((box, row.channel) for box, row in pairs if row)

    @property
    def free(self) -> Box:
        """The last area for figures, where a list covers no picture."""
        return moved(self.scenes[-1].arrangement.figures[-1], *self.boxes[-1][:2])

    @property
    def marks(self) -> Box:
        return moved(self.scenes[-1].arrangement.marks, *self.boxes[-1][:2])

    def notice_area(self, number: int, text: str, rows: int) -> Box:
        """Where a notice about one of the networks stands; of these rows of the canvas alone."""
        box = self.boxes[number]
        return moved(self.scenes[number].notice_area(text, rows - box[1]), *box[:2])

    def pictures_alone(self, size: tuple[int, int]) -> SplitScene:
        """The same on a canvas of another size, without figures and the panel of concepts."""
        shape, text_size = self.scenes[0].picture.shape, self.scenes[0].text_size
        boxes = boxes_of(size, shape, len(self.scenes), text_size)
        scenes = (
            replace(
                scene,
                size=(y1 - y0, x1 - x0),
                left=(),
                right=(),
                with_figures=False,
                titled=False,
            )
            for scene, (x0, y0, x1, y1) in zip(self.scenes, boxes, strict=True)
        )
        return SplitScene(size, tuple(scenes), boxes)


def size_beside(
    size: tuple[int, int], concepts: ConceptPanel | None, text_size: str
) -> tuple[int, int]:
    """Rows and columns that the panel of concepts leaves to the scenes."""
    if concepts is None:
        return size
    return concepts.place(size, figure_size(*size, text_size)).rest


def boxes_of(
    size: tuple[int, int], shape: Sequence[int], count: int, text_size: str
) -> tuple[Box, ...]:
    """Where the scenes of so many networks stand on a canvas."""
    return split(size, shape, count, round(GAP * figure_size(*size, text_size)))


class SplitArtist:
    """Draws split canvases; an `Artist` for each scene."""

    def __init__(self) -> None:
        self._artists: list[Artist] = []
        self._buffers, self.decals, self._concepts = Buffers(), Decals(), ConceptArtist()

    def draw(self, scene: SplitScene) -> np.ndarray:
        """The canvas, uint8 [*size, 3] RGB. Its memory is used again when nobody holds it."""
        self._artists += [Artist() for _ in scene.scenes[len(self._artists) :]]
        drawn = [artist.draw(one) for artist, one in zip(self._artists, scene.scenes, strict=False)]
        if len(drawn) == 1 and scene.place is None:
            return drawn[0]
        canvas = self._buffers.get((*scene.size, 3))
        if len(drawn) > 1:
            canvas.fill(BACKGROUND)
        for part, (x0, y0, x1, y1) in zip(drawn, scene.boxes, strict=True):
            canvas[y0:y1, x0:x1] = part
        if scene.concepts and scene.place:
            self._concepts.draw(canvas, scene.concepts, scene.place, scene.letters)
        return canvas

    def copy(self, canvas: np.ndarray) -> np.ndarray:
        copied = self._buffers.get(canvas.shape)
        np.copyto(copied, canvas)
        return copied
