"""The render loop's step: the newest frame, the newest map over it, the figures; and the account.

A frame counts once: as shown when it is drawn for the first time, as dropped when a later one was.
"""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from realtime_lrp.commands.live import figures
from realtime_lrp.commands.live.controls import Controls
from realtime_lrp.commands.live.figures import Rates
from realtime_lrp.realtime.capture import Capture
from realtime_lrp.realtime.explaining import ExplainedFrame, RelevanceThread
from realtime_lrp.realtime.faithfulness import covered
from realtime_lrp.realtime.latest import Item
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.view.hud import Block, draw_notice
from realtime_lrp.view.menus import draw_help
from realtime_lrp.view.scene import Artist, Scene, places

POLL_S = 0.004
"""So long a step waits for a frame: OpenCV keeps one key of those that come between two steps."""
SOON_S = 0.05
"""A new map or figure waits so long for the next frame, to be drawn with it."""
FIGURES_S = 0.25
"""So often the figures change, at most: faster ones cannot be read."""


class View:
    """Composes what is shown.

    Frames that were captured before the view existed do not count.

    Args:
      capture: where frames come from.
      relevance: where maps come from.
      stats: counts frames.
      controls: what the user wants to see.
      show: gets each composed canvas, uint8 [H, W, 3] RGB.
      size: gives rows and columns of the canvas; None is those of the picture.
      status: gives a line for the upper edge of the screen, about a recording; or "".

    Attributes:
      scene, canvas: what was drawn last, without menus; None before that.
      map: the newest map of what is shown, or None.
      frame: the one that is shown, or None.
    """

    def __init__(
        self,
        capture: Capture,
        relevance: RelevanceThread,
        stats: Stats,
        controls: Controls,
        show: Callable[[np.ndarray], None],
        size: Callable[[], tuple[int, int]] | None = None,
        status: Callable[[], str] = lambda: "",
    ):
        self.scene: Scene | None = None
        self.canvas: np.ndarray | None = None
        self.map: ExplainedFrame | None = None
        self.frame: Item[np.ndarray] | None = None
        self._capture = capture
        self._relevance = relevance
        self._stats = stats
        self._controls = controls
        self._show = show
        self._size = size
        self._status = status
        self._artist = Artist()
        self._missed = capture.frames.count
        self._drawn: tuple[object, object] = None, None
        self._drawn_at = 0.0
        self._rates = Rates()
        self._columns: tuple[tuple[Block, ...], tuple[Block, ...]] = (), ()
        self._columns_for: tuple[object, ...] = ()

    @property
    def frozen(self) -> bool:
        """Whether the picture stands still."""
        return self._controls.frozen is not None

    def step(self) -> np.ndarray | None:
        """Draws again if anything changed; waits up to `POLL_S` for a frame.

        Returns:
          The canvas without menus, if it was drawn.
        """
        before = self.frame.number if self.frame else self._missed
        fresh, self.map = self._newest(before)
        frame, frozen = fresh or self.frame, self._controls.frozen
        if frozen and frame and frozen.number == frame.number:
            frame = frozen  # it may have been mirrored
        self.frame = frame
        self._measure()
        at_once, soon = self._state()
        waited = time.monotonic() - self._drawn_at > SOON_S
        changed = at_once != self._drawn[0] or (waited and soon != self._drawn[1])
        if frame is None or not changed:
            return None
        self._drawn, self._drawn_at = (at_once, soon), time.monotonic()
        canvas = self._draw(frame)
        if fresh:
            self._count(frame, fresh.number - before - 1)
        return canvas

    def finish(self) -> None:
        """Closes the account: what was captured and not drawn until now was dropped."""
        count = self._capture.frames.count
        self._stats.frames_captured = count - self._missed
        self._drop(count - (self.frame.number if self.frame else self._missed))
        self._stats.reconnects = self._capture.reconnects

    def _newest(self, before: int) -> tuple[Item[np.ndarray] | None, ExplainedFrame | None]:
        """The next frame to show, and the map for what is shown then."""
        controls, maps, frames = self._controls, self._relevance.maps, self._capture.frames
        newest = maps.newest()
        made = newest.value if newest else None
        if controls.frozen:
            after = max(before, controls.frozen.number)
            stepped = frames.newest(after, POLL_S) if controls.stepping else None
            if stepped:
                controls.stepped(stepped)
            elif not controls.stepping:
                maps.newest(newest.number if newest else 0, POLL_S)
            frozen = controls.frozen
            waits = self._pairs and (made is None or made.frame.number != frozen.number)
            return (None if waits or frozen.number <= before else frozen), made
        if not self._pairs:
            return frames.newest(before, POLL_S), made
        if made is None or made.frame.number <= before:
            maps.newest(newest.number if newest else 0, POLL_S)
            return None, made
        return made.frame, made

    @property
    def _pairs(self) -> bool:
        """Whether only pictures with their own map are shown."""
        return self._controls.look.follow == "sync"

    def _measure(self) -> None:
        self._rates.captured.reached(self._capture.frames.count)
        self._rates.shown.reached(self._stats.frames_shown)
        self._rates.maps.reached(self._relevance.maps.count)
        self._rates.frozen, self._rates.in_sync = self.frozen, self._pairs

    def _state(self) -> tuple[object, object]:
        """What a drawing depends on: what is drawn at once, and what waits for the next frame."""
        number, size = self.frame and self.frame.number, self._size and self._size()
        lines = self._capture.trouble, self._passing(), self._status()
        at_once = number, self._controls.version, lines, size
        return at_once, (self.map, time.monotonic() // FIGURES_S)

    def _draw(self, frame: Item[np.ndarray]) -> np.ndarray:
        controls = self._controls
        self.scene = scene = self._composed(frame)
        self.canvas = canvas = self._artist.draw(scene)
        controls.see(frame, self.map, places(scene))
        status, passing = self._status(), "" if scene.notice else self._passing()
        shown = canvas
        if controls.helping:
            shown = self._artist.draw(replace(scene, left=(), right=(), notice=""))
            draw_help(shown)
        elif status or passing or controls.menu:
            shown = canvas.copy()
            draw_notice(shown, status, top=True)
            draw_notice(shown, passing)
            if controls.menu:
                controls.menu.draw(shown)
        self._show(shown)
        return canvas

    def _composed(self, frame: Item[np.ndarray]) -> Scene:
        controls, made = self._controls, self.map
        left, right = self._figures(frame, made)
        picture = covered(frame.value, controls.mask)
        own = made is not None and made.frame.number == frame.number
        if made and (made.frame.value.shape != frame.value.shape or (self._pairs and not own)):
            made = None  # it does not belong on this picture
        if made and own and made.request.mask is controls.mask:
            picture = made.finding.picture
        return Scene(
            size=self._size() if self._size else frame.value.shape[:2],
            picture=picture,
            finding=made.finding if made else None,
            tiled=controls.tiled,
            look=controls.look,
            left=left,
            right=right,
            notice=self._capture.trouble,
        )

    def _passing(self) -> str:
        """A line for the screen alone: no recording and no kept picture has it."""
        for text in (self._controls.said, self._relevance.doing):
            if text:
                return text
        if self._controls.frozen:
            return "frozen: f goes on"
        return "" if self.map else "preparing the first map"

    def _figures(
        self, frame: Item[np.ndarray], made: ExplainedFrame | None
    ) -> tuple[tuple[Block, ...], tuple[Block, ...]]:
        """The two columns; they change a few times a second at most, or with what is asked."""
        parts = frozenset(self._controls.parts)
        key = (time.monotonic() // FIGURES_S, parts, made is None, self._controls.version)
        if key != self._columns_for:
            self._columns_for = key
            self._columns = self._made_columns(frame, made, parts)
        return self._columns

    def _made_columns(
        self, frame: Item[np.ndarray], made: ExplainedFrame | None, parts: frozenset[str]
    ) -> tuple[tuple[Block, ...], tuple[Block, ...]]:
        now = time.monotonic()
        self._rates.picture_ms = 1000 * (now - frame.time)
        self._rates.map_ms = 1000 * (now - made.frame.time) if made else None
        left: list[Block] = []
        right: list[Block] = []
        if "rates" in parts:
            left.append(self._rates.block(self._capture.described or "..."))
        if made and "answer" in parts:
            right.append(figures.answer(made))
        if made and "setting" in parts:
            right.append(figures.setting(made, self._controls.look))
        if made and self._controls.request.probe:
            right.append(figures.faithfulness(made))
        return tuple(left), tuple(right)

    def _count(self, frame: Item[np.ndarray], dropped: int) -> None:
        now = time.monotonic()
        self._stats.frames_shown += 1
        self._drop(dropped)
        self._stats.frame_age_ms.append(1000 * (now - frame.time))
        if self.map:
            self._stats.map_age_ms.append(1000 * (now - self.map.frame.time))

    def _drop(self, frames: int) -> None:
        self._rates.dropped += frames
        self._stats.frames_dropped = self._rates.dropped
