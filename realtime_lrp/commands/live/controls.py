"""What keys and the mouse change while the viewer runs; each action is a method named as in `keys`.

The main thread alone calls these. What they change is read by the view at its next step, and by the
relevance thread as a `MapRequest`; nothing here waits for anything.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import cv2
import numpy as np

from realtime_lrp.config import Config
from realtime_lrp.realtime.capture import Capture
from realtime_lrp.realtime.engine_cache import EngineChoice
from realtime_lrp.realtime.explaining import (
    ExplainedFrame,
    MapRequest,
    RelevanceThread,
    explained_against,
)
from realtime_lrp.realtime.latest import Item
from realtime_lrp.relevance.methods import METHODS
from realtime_lrp.view.colormaps import COLORMAPS
from realtime_lrp.view.keys import ACTIONS, COMPOSITE_KEYS
from realtime_lrp.view.menus import ClassList
from realtime_lrp.view.scene import Box, Look
from realtime_lrp.view.window.window import Mouse, Window

NOTICE_S = 4.0
HINT = "h shows all keys"
BRUSH = 0.06
"""Radius of the brush, of the picture's shorter side."""

TARGETS = ("all", "top1", "top5")
STYLES = ("heat", "contour", "off")
FOLLOWS = ("flow", "hold", "sync")
PARTS = ("answer", "rates", "setting")

T = TypeVar("T")


class Controls:
    """The state of the viewer.

    Args:
      config: the effective configuration.
      request: what was asked first.

    Attributes:
      request: what is asked of the relevance thread.
      look: how maps are drawn.
      parts: the figures that are shown.
      tiled: whether all maps stand side by side.
      mirror: whether pictures are mirrored.
      frozen: the picture that stands still, or None.
      stepping: whether the next picture takes its place.
      mask: bool [H, W], the painted patches, or None.
      menu: the list of classes while it is open, else None.
      helping: whether the help is shown.
      ended: whether the viewer was told to end.
      wanted: what `run` is to do next: "snapshot", "record", "source" in any number.
      version: rises with everything that changes.
    """

    def __init__(self, config: Config, request: MapRequest):
        overlay = config.overlay
        self.request = request
        self.look = Look(overlay.colormap, overlay.opacity, overlay.style, overlay.follow)
        self.parts: set[str] = set(config.live.figures)
        self.tiled = False
        self.mirror = config.input.mirror
        self.frozen: Item[np.ndarray] | None = None
        self.stepping = False
        self.mask: np.ndarray | None = None
        self.menu: ClassList | None = None
        self.helping = False
        self.ended = False
        self.wanted: list[str] = []
        self.version = 0
        self._config = config
        self._brush = BRUSH
        self._said, self._said_until = "", 0.0
        self._shown: Item[np.ndarray] | None = None
        self._map: ExplainedFrame | None = None
        self._places: Sequence[Box] = ()
        self._hinted = False
        self._before_versus: str | int = "top1"

    def attach(self, capture: Capture, relevance: RelevanceThread, window: Window | None) -> None:
        """Says what the actions work on."""
        self._capture, self._relevance, self._window = capture, relevance, window

    def see(
        self, shown: Item[np.ndarray], newest: ExplainedFrame | None, places: Sequence[Box]
    ) -> None:
        """Notes what is on the screen, and where on the canvas the picture stands."""
        self._shown, self._map, self._places = shown, newest, places
        if newest and not self._hinted:
            self._hinted = True
            if self._window:
                self.say(HINT)
            target = newest.engine.explainer.canonical(self.request.target)
            if target != self.request.target:
                self._ask(target=target)
        if self.mask is not None and self.mask.shape != shown.value.shape[:2]:
            self.uncover()
        if newest and self.menu:
            self.menu.scores = newest.result.scores

    def handle(self, event: "str | Mouse") -> None:
        """Does what a key or the mouse asks for."""
        self.version += 1
        if isinstance(event, Mouse):
            self._paint(event)
        elif self.menu:
            self._press_in_menu(self.menu, event)
        elif self.helping and event in ("Escape", "q"):
            self.helping = False
        elif event in COMPOSITE_KEYS:
            self.composite(COMPOSITE_KEYS[event])
        elif event in ACTIONS:
            getattr(self, ACTIONS[event])()
        else:
            self.say(HINT)

    def say(self, text: str) -> None:
        """Shows a line for a few seconds."""
        self.version += 1
        self._said, self._said_until = text, time.monotonic() + NOTICE_S

    @property
    def said(self) -> str:
        """The line that is to be shown."""
        return self._said if time.monotonic() < self._said_until else ""

    def refuse(self, choice: EngineChoice | None, why: str, shown: EngineChoice) -> None:
        """Says why; goes back to what is shown, if that is still the choice."""
        if self.request.choice == choice:
            self._ask(choice=shown)
            self.tiled = self.tiled and bool(shown.also)
        self.say(why)

    def settings(self) -> Config:
        """The configuration that asks for what is shown now."""
        request, look, config = self.request, self.look, self._config
        made = request.choice.settings(config)
        overlay = {
            "colormap": look.colormap, "opacity": look.opacity, "style": look.style,
            "follow": look.follow,
        }  # fmt: skip
        return made.model_copy(
            update={
                "lrp": made.lrp.model_copy(update={"target": str(request.target)}),
                "overlay": made.overlay.model_copy(update=overlay),
                "input": config.input.model_copy(update={"mirror": self.mirror}),
            }
        )

    def forget_frame(self) -> None:
        """Goes on with live pictures, for example from another source."""
        self.frozen, self.stepping, self.mask = None, False, None
        self._ask(frame=None, mask=None)

    # What is computed

    def composite(self, name: str) -> None:
        """LRP with a composite by name."""
        self._choose(method="lrp", composite=name)

    def next_method(self, by: int = 1) -> None:
        """The next one of `METHODS`."""
        method = _next(list(METHODS), self.request.choice.method, by)
        self._choose(method=method)
        self.say(f"method: {'LRP' if method == 'lrp' else method.replace('_', ' ')}")

    def previous_method(self) -> None:
        """The one before."""
        self.next_method(-1)

    def panels(self) -> None:
        """All maps side by side, or the chosen one alone."""
        self.tiled = not self.tiled
        also = tuple(self._config.live.panels) if self.tiled else ()
        self._choose(also=also)

    def random(self) -> None:
        """Random weights, or the network's own again."""
        self._choose(random=not self.request.choice.random)

    def probe(self) -> None:
        """The faithfulness probe, on or off."""
        self._ask(probe=not self.request.probe)

    # What is explained

    def next_target(self) -> None:
        """All classes, the best, the five best."""
        wide = self._classes() >= 5
        self._explain(_next(TARGETS if wide else TARGETS[:2], self.request.target, 1))

    def lock(self) -> None:
        """The best class stays the target; again: the best one is followed."""
        if isinstance(self.request.target, int):
            self._explain("top1")
        elif best := self._best(1):
            self._explain(best[0])

    def choose(self) -> None:
        """Opens the list of classes."""
        if self._map:
            engine, scores = self._map.engine, self._map.result.scores
            order = np.argsort(-scores, kind="stable").tolist()
            self.menu = ClassList([(n, engine.label(n)) for n in order], scores)

    def versus(self) -> None:
        """The target class, or the best, against the best other one; again: as before."""
        target = self.request.target
        if " - " in str(target):
            self._explain(self._before_versus)
            return
        best = self._best(2)
        if len(best) == 2:
            self._before_versus = target
            one = target if isinstance(target, int) else best[0]
            other = best[1] if best[0] == one else best[0]
            self._explain(f"{one} - {other}")

    # How it is drawn

    def next_colormap(self, by: int = 1) -> None:
        """The next one of `COLORMAPS`; behind the last, the one that fits the map's signs."""
        name = _next([None, *sorted(COLORMAPS)], self.look.colormap, by)
        self.look = replace(self.look, colormap=name)
        self.say(f"colour map: {name or 'by sign (fire or icefire)'}")

    def previous_colormap(self) -> None:
        """The one before."""
        self.next_colormap(-1)

    def stronger(self, by: float = 0.1) -> None:
        """More opacity."""
        opacity = round(min(max(self.look.opacity + by, 0.0), 1.0), 2)
        self.look = replace(self.look, opacity=opacity)
        self.say(f"opacity: {opacity:.1f}")

    def weaker(self) -> None:
        """Less opacity."""
        self.stronger(-0.1)

    def channels(self) -> None:
        """Maps in grey or in RGB."""
        channels = "grey" if self.request.choice.channels == "rgb" else "rgb"
        self._choose(channels=channels)
        self.say({"grey": "map in grey", "rgb": "map in RGB, each channel by itself"}[channels])

    def style(self) -> None:
        """Heat, contours, no map."""
        style = _next(STYLES, self.look.style, 1)
        self.look = replace(self.look, style=style)
        self.say({"off": "no map"}.get(style, style))

    def follow(self) -> None:
        """How a map gets to later pictures."""
        follow = _next(FOLLOWS, self.look.follow, 1)
        self.look = replace(self.look, follow=follow)
        self._ask(alone=follow == "sync")
        meaning = {"flow": "carried along", "hold": "held", "sync": "shown with its own picture"}
        self.say(f"the map is {meaning[follow]}")

    def mirrored(self) -> None:
        """Swaps left and right, patches too."""
        self.mirror = not self.mirror
        if self.mask is not None:
            self.mask = np.ascontiguousarray(self.mask[:, ::-1])
        if self.frozen:
            turned = np.ascontiguousarray(self.frozen.value[:, ::-1])
            self.frozen = replace(self.frozen, value=turned)
        self._ask(mask=self.mask, frame=self.frozen)

    # The picture

    def freeze(self) -> None:
        """The picture stands still, or goes on."""
        if self.frozen:
            self.frozen, self.stepping = None, False
            self._capture.pause(False)
        elif self._shown:
            self.frozen = self._shown
            self._capture.pause(True)
        self._ask(frame=self.frozen)

    def step(self) -> None:
        """One picture further, which then stands still."""
        if not self.frozen:
            self.freeze()
        self.stepping = True
        self._capture.step()

    def stepped(self, frame: Item[np.ndarray]) -> None:
        """Notes that the next picture has come."""
        self.frozen, self.stepping = frame, False
        self._ask(frame=frame)

    def next_source(self) -> None:
        """Another source."""
        self.wanted.append("source")

    def next_file(self, by: int = 1) -> None:
        """The next file of a folder."""
        if not self._capture.controllable:
            self.say("this source has no files to go through")
            return
        self._capture.skip(by)
        self.stepping = self.frozen is not None

    def previous_file(self) -> None:
        """The file before."""
        self.next_file(-1)

    def larger_brush(self, factor: float = 1.3) -> None:
        """A larger brush."""
        self._brush = min(max(self._brush * factor, 0.01), 0.5)
        self.say(f"brush: {self._brush:.0%} of the picture")

    def smaller_brush(self) -> None:
        """A smaller brush."""
        self.larger_brush(1 / 1.3)

    def uncover(self) -> None:
        """Takes all patches away."""
        self.mask = None
        self._ask(mask=None)

    # The window

    def snapshot(self) -> None:
        """Keeps what is shown."""
        self.wanted.append("snapshot")

    def record(self) -> None:
        """Begins or ends a recording."""
        self.wanted.append("record")

    def figures(self) -> None:
        """All figures, or none."""
        self.parts = set() if self.parts else set(PARTS)

    def answer(self) -> None:
        """The best classes."""
        self.parts ^= {"answer"}

    def rates(self) -> None:
        """Rates and ages."""
        self.parts ^= {"rates"}

    def setting(self) -> None:
        """What is computed."""
        self.parts ^= {"setting"}

    def full_screen(self) -> None:
        """The whole screen, or the window."""
        if self._window:
            self._window.toggle_full_screen()

    def help(self) -> None:
        """The keys."""
        self.helping = not self.helping

    def quit(self) -> None:
        """The end."""
        self.ended = True

    def _press_in_menu(self, menu: ClassList, key: str) -> None:
        chosen = menu.chosen()
        if key == "Escape":
            self.menu = None
        elif key not in ("Return", "Tab"):
            menu.press(key)
        elif chosen is None:
            return
        elif key == "Return":
            self.menu = None
            self._explain(chosen)
        else:
            self.menu = None
            target = self._before_versus = self.request.target
            one = target if isinstance(target, int) else self._best(1)[0]
            if one != chosen:
                self._explain(f"{one} - {chosen}")

    def _paint(self, mouse: Mouse) -> None:
        if not mouse.button or self._shown is None:
            return
        shape = self._shown.value.shape[:2]
        for x0, y0, x1, y1 in self._places:
            if x0 <= mouse.x < x1 and y0 <= mouse.y < y1:
                x = (mouse.x - x0) * shape[1] // (x1 - x0)
                y = (mouse.y - y0) * shape[0] // (y1 - y0)
                mask = (
                    np.zeros(shape, np.uint8) if self.mask is None else self.mask.astype(np.uint8)
                )
                radius = max(1, round(self._brush * min(shape)))
                cv2.circle(mask, (x, y), radius, int(mouse.button == "left"), -1)
                self.mask = mask.astype(bool) if mask.any() else None
                self._ask(mask=self.mask)

    def _choose(self, **changes: Any) -> None:
        self._ask(choice=replace(self.request.choice, **changes))

    def _explain(self, target: str | int) -> None:
        against = explained_against(self._config, target)
        self._ask(target=target, choice=replace(self.request.choice, against=against))

    def _ask(self, **changes: Any) -> None:
        self.request = self._relevance.request = replace(self.request, **changes)

    def _best(self, count: int) -> list[int]:
        """The indices of the best classes."""
        return [] if self._map is None else np.argsort(-self._map.result.scores)[:count].tolist()

    def _classes(self) -> int:
        return 0 if self._map is None else len(self._map.result.scores)


def _next(names: Sequence[T], present: object, by: int) -> T:
    """The next name; the first, or the last where it goes back, behind one that is no name."""
    place = names.index(present) if present in names else min(-by, 0)
    return names[(place + by) % len(names)]
