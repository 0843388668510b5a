"""Puts together what is drawn: `compose` is a function of the state and the newest frame and map.

The `Scene` is what recordings and snapshots get as well. Menus and passing notices come
over it on the screen only: `draw_over`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from realtime_lrp.realtime.engine_cache import EngineChoice
from realtime_lrp.realtime.explaining import ExplainedFrame
from realtime_lrp.realtime.faithfulness import covered
from realtime_lrp.realtime.latest import Item
from realtime_lrp.realtime.viewer.concept_view import followed_caption
from realtime_lrp.realtime.viewer.pointing import brush_at_pointer, brush_radius, progress
from realtime_lrp.realtime.viewer.state import ViewerState
from realtime_lrp.system.geometry import moved
from realtime_lrp.view.controls import draw_brush, draw_controls
from realtime_lrp.view.hud import Block, Legend
from realtime_lrp.view.notices import draw_marks, draw_notice
from realtime_lrp.view.scene import ExplainedPicture, Patches, Scene, SplitArtist, SplitScene


@dataclass(frozen=True)
class Columns:
    """The figures at the left and at the right, and the legend of each map."""

    left: tuple[Block, ...] = ()
    right: tuple[Block, ...] = ()
    legends: tuple[Legend | None, ...] = ()


def compose(
    state: ViewerState,
    frame: Item[np.ndarray],
    explained: ExplainedFrame | None,
    drawn: ExplainedPicture | None,
    columns: Columns,
    trouble: str = "",
    size: tuple[int, int] | None = None,
    network: str = "",
) -> Scene:
    """The scene of a network."""
    own = explained is not None and explained.frame.value is frame.value
    if explained and (
        explained.frame.value.shape != frame.value.shape or (state.paired and not own)
    ):
        explained = drawn = None  # the map does not belong on this picture
    elif explained and drawn and not fits(explained, frame):
        explained, drawn = None, _without_maps(drawn, frame.value)
    if explained and own and explained.request.mask is state.request.mask:
        picture = explained.picture
    else:
        picture = covered(frame.value, state.request.mask)
    return Scene(
        size=size or frame.value.shape[:2],
        picture=picture,
        explained=drawn,
        tiled=state.tiled,
        look=state.look,
        left=columns.left,
        right=columns.right,
        legends=columns.legends if state.tiled and drawn else (),
        notice=trouble,
        with_figures=state.with_figures,
        text_size=state.text_size,
        awaited=_awaited(state, drawn, explained),
        patches=_flipped_patches(state, explained),
        network=network,
        title=followed_caption(explained) if explained and drawn else "",
    )


def fits(explained: ExplainedFrame, frame: Item[np.ndarray]) -> bool:
    """Whether an explanation is of the file or camera, and of the size, of a frame.

    A frozen frame that was mirrored since it was explained is another picture.
    """
    then = explained.frame
    mirrored = then.number == frame.number and then.value is not frame.value
    same_size = then.value.shape == frame.value.shape
    return same_size and then.source == frame.source and not mirrored


def _awaited(
    state: ViewerState, drawn: ExplainedPicture | None, explained: ExplainedFrame | None
) -> tuple[str, ...]:
    if not state.tiled or drawn is None:
        return ()
    unsuited = explained.engine.explainer.unsuited if explained else state.unsuited
    choice, shown = state.choice, [panel.name for panel in drawn.panels]
    wanted = [choice.name, *(name for name in choice.also if name not in unsuited)]
    missing = [name for name in wanted if name not in shown]
    return tuple(missing[: max(0, len(wanted) - len(shown))])


def _without_maps(drawn: ExplainedPicture, picture: np.ndarray) -> ExplainedPicture:
    """The same panels, empty, on the first picture of another file: they get its maps soon."""
    panels = (replace(one, intensity=np.zeros_like(one.intensity)) for one in drawn.panels)
    return ExplainedPicture(picture, drawn.box, tuple(panels))


def _flipped_patches(state: ViewerState, explained: ExplainedFrame | None) -> Patches | None:
    """What the faithfulness probe flipped, where it lies in the picture."""
    if explained is None or explained.probed is None or not state.request.probe:
        return None
    region, probed = explained.result.region, explained.probed
    x0, y0, x1, y1 = region.box
    left, top, right, bottom = region.inner
    across, down = (x1 - x0) / (right - left), (y1 - y0) / (bottom - top)
    rows, columns = region.size
    x, y = x0 - left * across, y0 - top * down
    box = x, y, x + columns * across, y + rows * down
    return Patches(probed.relevant_patches, probed.random_patches, box)


def passing_notice(
    state: ViewerState, now: float, doing: str, shown: Sequence[str], old: bool = False
) -> str:
    """The lines for the screen alone: no recording and no snapshot has them."""
    notice = state.notice.text if now < state.notice.until else ""
    if state.lecture:
        notice = "\n".join(filter(None, (notice, state.lecture[state.step].say)))
    if doing or not shown:
        return notice or doing or "preparing the first map"
    if old:
        return "\n".join(filter(None, (notice, _preparing(state.choice, shown))))
    return notice


def _preparing(choice: EngineChoice, shown: Sequence[str]) -> str:
    missing = [name for name in (choice.name, *choice.also) if name not in shown]
    text = f"preparing {', '.join(missing or (choice.name,))}"
    text += " with random weights" if choice.random else ""
    text += f" (still shown: {shown[0]})" if shown[0] != choice.name else ""
    return text


def draw_over(
    canvas: np.ndarray,
    artist: SplitArtist,
    scene: SplitScene,
    state: ViewerState,
    status: str,
    passing: Sequence[str],
    now: float,
) -> np.ndarray:
    """The canvas, or a copy of it with menus, controls and notices: what the screen shows."""
    frozen = "frozen" if status else "frozen: Space goes on"
    marks = status if not state.frozen or state.list_froze else f"{status}   {frozen}".strip()
    pairs = zip(passing, scene.scenes, strict=True)
    notices = ["" if one.notice else text for text, one in pairs]
    moving = now < state.pointer.until or state.pointer.holds
    if any(notices) or marks or state.menu or moving:
        canvas, controls = artist.buffers.copy(canvas), state.controls(now)
        rows = controls.area[1] if controls else scene.size[0]
        for number, notice in enumerate(notices):
            if notice:
                area = scene.notice_area(number, notice, rows)
                letters = scene.scenes[number].letters
                artist.decals.draw(canvas, draw_notice, notice, area, letters)
        if marks:
            box = moved(scene.marks, 0, min(0, rows - scene.marks[3]))  # above the controls
            artist.decals.draw(canvas, draw_marks, marks, box, scene.letters)
        _draw_pointer(canvas, state, status.startswith("recording"), now)
        if state.menu:
            state.menu.draw(canvas, scene.letters, scene.free)
    return canvas


def _draw_pointer(canvas: np.ndarray, state: ViewerState, recording: bool, now: float) -> None:
    controls, brush = state.controls(now), brush_at_pointer(state, now)
    if brush and state.shown:
        box, middle = brush
        draw_brush(canvas, box, state.shown.value.shape, middle, brush_radius(state))
    if controls:
        bar = progress(state.timeline) if state.timeline else None
        running = {"freeze": state.frozen is not None, "record": recording}
        undone = [action for action, runs in running.items() if runs]
        draw_controls(canvas, controls, bar, undone, (state.pointer.x, state.pointer.y))
