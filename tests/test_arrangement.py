"""Where pictures, figures and notices stand on the canvas, and how large the answer is."""

import numpy as np
import pytest
from viewer import Viewer, explained_frame

from realtime_lrp.view.arrangement import arrange, central_square, scaled_box
from realtime_lrp.view.hud import figure_size

SIZES = [(480, 640), (720, 1280), (1080, 1920), (1920, 1080)]
"""Rows and columns of canvases."""

SHAPES = [(480, 640), (720, 1280), (1280, 720), (500, 500)]
"""Rows and columns of pictures."""


def arranged(size, shape, panels=0, with_figures=True):
    """A canvas with letters of the usual size."""
    return arrange(size, shape, None, panels, with_figures, figure_size(*size))


def common(first, second):
    """How many pixels two boxes share."""
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    return max(width, 0) * max(height, 0)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("panels", [0, 2])
@pytest.mark.parametrize("with_figures", [True, False])
def test_everything_is_on_the_canvas_and_the_picture_keeps_its_shape(
    size, shape, panels, with_figures
):
    """No picture lies on another; areas and notices are within the canvas."""
    arrangement = arranged(size, shape, panels, with_figures)
    assert len(arrangement.pictures) == 1 + panels
    for box in (*arrangement.pictures, *arrangement.figures, arrangement.notices):
        assert 0 <= box[0] < box[2] <= size[1] and 0 <= box[1] < box[3] <= size[0]
    for number, box in enumerate(arrangement.pictures):
        assert (box[2] - box[0]) / (box[3] - box[1]) == pytest.approx(shape[1] / shape[0], rel=0.02)
        assert not any(common(box, other) for other in arrangement.pictures[number + 1 :])


@pytest.mark.parametrize(
    ("size", "shape"), [((720, 1280), (720, 1280)), ((1080, 1920), (720, 1280)),
                        ((1920, 1080), (1280, 720)), ((480, 640), (720, 1280))],
)  # fmt: skip
@pytest.mark.parametrize("with_figures", [True, False])
def test_figures_and_notices_keep_away_from_the_explained_region(size, shape, with_figures):
    """Of a picture that fills the canvas they cover only what the network does not see."""
    arrangement = arranged(size, shape, with_figures=with_figures)
    region = scaled_box(central_square(shape), shape, arrangement.pictures[0])
    areas = arrangement.figures if with_figures else (arrangement.notices,)
    assert not any(common(area, region) for area in (*areas, arrangement.marks))


# The presenter view


def presented(size, picture_size=(480, 640), scores=(0.7, 0.2, 0.06, 0.03, 0.01), **options):
    """A viewer that has shown a frame with five answers."""
    viewer = Viewer(size=size, figures=True, **options)
    picture = np.full((*picture_size, 3), 90, np.uint8)
    frame = viewer.frame(picture)
    box = central_square(picture_size)
    labels = ("water bottle", "African chameleon", "cup", "star", "fish")
    drawn = np.zeros((9, 9), np.float32)
    viewer.maps.put(explained_frame(frame, drawn, box, scores, labels), frame.time)
    viewer.view.step()
    return viewer


@pytest.mark.parametrize(
    ("size", "presenting"), [((720, 1280), False), ((1080, 1920), True), ((1920, 1080), True)]
)
def test_a_large_canvas_gets_the_presenter_view(size, presenting):
    """Three bars, the method, its target and its colours, at 1000 lines and more."""
    viewer = presented(size)
    assert viewer.state.presenting is presenting
    scene = viewer.view.first.scene
    names = [[getattr(entry, "name", "") for entry in block] for block in scene.right]
    best = ["water bottle", "African chameleon", "cup"]
    below = ["epsilon_plus_flat", ""]
    assert names[0] == ([*best, *below] if presenting else [*best, "star", "fish"])
    assert len(names) == (1 if presenting else 2) and scene.left == ()
