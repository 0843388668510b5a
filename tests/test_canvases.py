"""A dozen canvases as people see them, compared with kept ones; each shows many parts at once.

`python tests/test_canvases.py` keeps those of today: look at the sheet that it writes first.
"""

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from viewer import Viewer, engine_of, explained_frame

from realtime_lrp.engine.result import ConceptMap, ConceptResult
from realtime_lrp.realtime.faithfulness import ProbeResult
from realtime_lrp.video.source import Timeline
from realtime_lrp.view import exhibit as pages
from realtime_lrp.view.decals import Buffers, Decals
from realtime_lrp.view.hud import Bar, Legend, Row, draw_blocks, draw_notice
from realtime_lrp.view.window import Mouse

KEPT = Path(__file__).parent / "canvases.npz"
SHRINK = 4  # canvases are kept at a quarter of their size

MOST = 24  # how much a pixel of a shrunk canvas may differ: less than a letter that is not there

LABELS = ("water bottle", "African chameleon", "cup", "star", "fish")
SCORES = (0.62, 0.2, 0.1, 0.05, 0.03)
PICTURE = np.full((240, 320, 3), 90, np.uint8)
PICTURE[60:180, 100:220] = (40, 120, 200)
BOX = (40, 0, 280, 240)


def spot(signed=False):
    """A map with a spot at the upper left of its middle, and one against at the lower right."""
    y, x = np.mgrid[:60, :60]
    drawn = np.exp(-((y - 22) ** 2 + (x - 22) ** 2) / 60)
    return (drawn - signed * np.exp(-((y - 42) ** 2 + (x - 42) ** 2) / 60)).astype(np.float32)


def shown(*keys, size=(720, 1280), signed=False, target="top1", **more):
    """A viewer that shows a frame with its map, after keys."""
    viewer = Viewer(size=size, figures=True)
    frame = viewer.frame(PICTURE)
    facts = {"signed": signed, "score": (0.62, 0.62), "total": 0.62}

    def explain():
        request = replace(viewer.request, target=target)
        made = explained_frame(
            frame, spot(signed), BOX, SCORES, LABELS, request=request, **{**facts, **more}
        )
        viewer.maps.put(made, frame.time)
        drawn_again(viewer)

    explain()
    viewer.press(*keys)
    explain()
    return viewer


def drawn_again(viewer):
    """A step of the view that draws, without the notices of keys."""
    viewer.view.state = replace(viewer.state, notice=type(viewer.state.notice)())
    viewer.view._drawn = None, None
    viewer.view.step()
    return viewer.shown[-1]


def screen(*keys, **more):
    return shown(*keys, **more).shown[-1]


def controls():
    """Buttons, the bar of a film and the brush, over a frozen picture."""
    viewer = shown("space")
    viewer.capture.source.timeline = Timeline(2.0, 8.0, "seconds")
    drawn_again(viewer)
    viewer.press(Mouse(300, 300, ""))
    return drawn_again(viewer)


def concepts(size):
    """The panel of concepts with a gallery; one channel speaks against, one is followed."""
    pictures = [np.full((32, 32, 3), 40 * n, np.uint8) for n in range(1, 6)]
    known = {8: SimpleNamespace(classes=(("cup", 0.4), ("star", 0.3), ("fish", 0.1)))}
    engine = engine_of(LABELS)
    engine.gallery = SimpleNamespace(
        layers=("conv2",), other_network="other weights of shapes",
        described=lambda layer: True, channels=lambda layer: known,
        name=lambda layer, channel: {17: "whiskers"}.get(channel, ""),
        pictures=lambda layer, channel: pictures if channel == 5 else (),
    )  # fmt: skip
    maps = [
        ConceptMap(
            np.rint(127 * spot()).astype(np.int8), 1.0, 1.0, 1.0,
            lambda: np.zeros((60, 60, 3), np.float32), channel, share, share,
        )
        for channel, share in ((5, 0.4), (17, -0.3), (8, 0.004))
    ]  # fmt: skip
    found = ConceptResult("conv2", tuple(maps), np.zeros(64, np.float32))
    return screen("c", size=size, engine=engine, concepts=found)


def patches():
    """The patches that the probe flips, solid and dashed, and its figures."""
    relevant, random = np.zeros((2, 12, 12), bool)
    relevant[2:4, 3] = random[8, 9] = True
    return screen("a", probed=ProbeResult(0, 0.9, 0.2, 0.8, relevant, random))


def notices():
    """A long notice in a narrow window, and what is wrong with the source."""
    viewer = shown(size=(480, 640))
    viewer.relevance.doing = "saved realtime_lrp-20261122-094407-and-a-very-long-name.png " * 2
    return drawn_again(viewer)


def exhibit(size):
    canvas = np.zeros((*size, 3), np.uint8)
    top = (
        pages.TextBlock("I see", 0.9), pages.TextBlock("African chameleon", 1.5), Bar("", 0.62),
        pages.Gap(0.5), pages.TextBlock("The colours show what spoke for it. " * 2),
        Legend("icefire", "against", "for"),
    )  # fmt: skip
    buttons = pages.Buttons(("a", "b", "c"), ("English", "Deutsch", "Privacy"), "b")
    pages.draw_page(canvas, pages.layout_of(size, 8)[1], pages.Page(top, (buttons,)))
    return canvas


def card():
    canvas = np.full((480, 640, 3), 90, np.uint8)
    pages.draw_card(canvas, "The picture is black", "Please take the cap off the camera. " * 3)
    pad = np.full((480, 640, 3), 90, np.uint8)
    pages.draw_pad(pad, "PIN", "2 tries left", 3)
    return np.hstack([canvas, pad])


CANVASES = {
    "usual": lambda: screen(total=0.5, taken=0.1),
    "presenter": lambda: screen(size=(1080, 1920), signed=True, target="0 - 1"),
    "upright": lambda: screen(size=(1280, 720)), "small": lambda: screen(size=(240, 320)),
    "contours": lambda: screen("next_style", signed=True), "side by side": lambda: screen("p"),
    "classes": lambda: screen("l", "Down"), "commands": lambda: screen("h", *"lrp"),
    "controls": controls, "concepts": lambda: concepts((720, 1280)),
    "concepts upright": lambda: concepts((1280, 720)), "patches": patches, "notices": notices,
    "exhibit": lambda: exhibit((720, 1280)), "exhibit upright": lambda: exhibit((1280, 720)),
    "card": card,
}  # fmt: skip


def shrunk(canvas):
    rows, columns = canvas.shape[0] // SHRINK, canvas.shape[1] // SHRINK
    return cv2.resize(canvas, (columns, rows), interpolation=cv2.INTER_AREA)


@pytest.mark.parametrize("name", CANVASES)
def test_a_canvas_is_as_it_was(name):
    with np.load(KEPT) as kept:
        before, now = kept[name].astype(int), shrunk(CANVASES[name]()).astype(int)
    assert now.shape == before.shape
    difference = cv2.blur(np.abs(now - before).max(-1).astype(np.float32), (3, 3))
    assert difference.max() <= MOST, np.argwhere(difference > MOST)[:5] * SHRINK


if __name__ == "__main__":
    drawn = {name: shrunk(make()) for name, make in CANVASES.items()}
    np.savez_compressed(KEPT, **drawn)
    for name, canvas in drawn.items() if len(sys.argv) > 1 else ():
        cv2.imwrite(str(Path(sys.argv[1]) / f"{name}.png"), canvas[..., ::-1])


BLOCKS = ((Row("source", "a camera"), Bar("heart", 0.6, 0.4)), (Legend("fire", "none", "most"),))
DRAWINGS = {
    "figures": (draw_blocks, BLOCKS, (10, 20, 300, 340), 14),
    "notice": (draw_notice, "a line of text", (0, 0, 640, 360), 14),
    "nothing": (lambda canvas: None,),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_kept_drawing_is_what_drawing_it_gives(name, rng):
    decals = Decals()
    for size in ((360, 640, 3), (360, 640, 3), (240, 320, 3), (360, 640, 3)):
        picture = rng.integers(0, 256, size, np.uint8)
        drawn = picture.copy()
        draw, *arguments = DRAWINGS[name]
        draw(drawn, *arguments)
        decals.draw(picture, draw, *arguments)
        assert np.abs(picture.astype(int) - drawn).max() <= 3


def test_memory_is_used_again_only_when_nobody_holds_it():
    buffers = Buffers()
    first = buffers.get((8, 8, 3))
    part = first[2:4]
    assert buffers.get((8, 8, 3)) is not first
    address = first.ctypes.data
    del first
    assert buffers.get((8, 8, 3)).ctypes.data != address, "its part is still held"
    del part
    assert buffers.get((8, 8, 3)).ctypes.data == address
    assert buffers.get((4, 8, 3)).shape == (4, 8, 3)
