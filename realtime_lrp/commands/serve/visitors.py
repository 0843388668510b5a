"""The maps of visitors' own cameras: a thread that explains their pictures in shared batches.

Each visitor has at most one picture here, the newest, and they take turns: a visitor who sends more
gets no more. Pictures are decoded by a child process and kept nowhere.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from realtime_lrp.commands.serve.messages import VisitorMap, figure_fields, in_shares, join_message
from realtime_lrp.engine.boxes import BoxNumbers
from realtime_lrp.errors import first_line
from realtime_lrp.realtime.explaining import ExplainedFrame, RelevanceThread
from realtime_lrp.realtime.latest import Item
from realtime_lrp.realtime.viewer.figures import legend_of, presented
from realtime_lrp.realtime.viewer.maps import MapPainter
from realtime_lrp.realtime.viewer.state import ViewerState
from realtime_lrp.video.libraries import cv2
from realtime_lrp.video.untrusted import ChildDecoder

BATCH = 8  # pictures that are explained at once, at most
BATCH_S = 0.3  # seconds of a batch, about: with a slow network batches are smaller
EQUAL = 8  # this many visitors together get as much time as the view
UNWATCHED = 4  # if nobody watches the view, its share is divided by this
GATHER_S = 0.01  # how long a batch waits for a second picture
ACTIVE_S = 2.0  # a visitor who has sent nothing for this long does not count
IDLE_S = 0.2  # how often the thread looks whether it is to end
PNG = (cv2.IMWRITE_PNG_STRATEGY, cv2.IMWRITE_PNG_STRATEGY_RLE)  # the quickest encoding for maps

NO_MAP = "no map at the moment"

log = logging.getLogger(__name__)

Answer = Callable[[bytes], None]  # takes what a visitor gets; may be called from any thread


@dataclass(eq=False)
class Visitor:
    """One visitor's camera."""

    answer: Answer
    paint: MapPainter
    boxes: BoxNumbers  # keeps a detector's boxes apart from picture to picture
    number: int = 0  # the last picture's number; the first one is 1
    newest: float = -ACTIVE_S  # `time.monotonic()` when it came
    harmful: bool = False  # a picture has ended the decoder: no further one is taken
    waiting: Item[bytes] | None = None  # the picture that waits for its turn


class Visitors:
    """Explains the pictures of all visitors while it is entered, as the view's are explained.

    Maps are made by the engine that is in use; `state` returns the present state of the view.
    """

    def __init__(
        self,
        relevance: RelevanceThread,
        state: Callable[[], ViewerState],
        view_watched: Callable[[], bool] = lambda: True,
    ):
        self._relevance = relevance
        self._state = state
        self._view_watched = view_watched
        self._decoder = ChildDecoder()
        self._visitors: set[Visitor] = set()
        self._turn: list[Visitor] = []
        self._changed = threading.Condition()  # guards the visitors' pictures
        self._ended = False
        self._failing = ""
        self._batch = 1  # pictures of the next one
        self._thread = threading.Thread(target=self._run, name="visitors", daemon=True)

    def __enter__(self) -> Visitors:
        self._relevance.others = self._weight
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify()
        self._thread.join(2.0)

    def join(self, answer: Answer) -> Visitor:
        """A new visitor, whose maps `answer` takes; has to `leave`."""
        visitor = Visitor(answer, MapPainter(), BoxNumbers())
        with self._changed:
            self._visitors.add(visitor)
        return visitor

    def put(self, visitor: Visitor, jpeg: bytes) -> bool:
        """Takes a visitor's newest picture; False if an earlier one has ended the decoder."""
        with self._changed:
            if visitor.harmful:
                return False
            visitor.number += 1
            if visitor.waiting is None:
                self._turn.append(visitor)
            visitor.newest = time.monotonic()
            visitor.waiting = Item(jpeg, visitor.number, visitor.newest)
            self._changed.notify()
            return True

    def leave(self, visitor: Visitor) -> None:
        with self._changed:
            self._visitors.discard(visitor)
            visitor.waiting = None
            if visitor in self._turn:
                self._turn.remove(visitor)

    def _weight(self) -> int:
        """How many times as much time as the view the visitors of the last seconds get."""
        now = time.monotonic()
        with self._changed:
            active = sum(now - visitor.newest < ACTIVE_S for visitor in self._visitors)
        return -(-active // EQUAL) * (1 if self._view_watched() else UNWATCHED)

    def _run(self) -> None:
        """Explains batch after batch; the next one is decoded, the last one answered meanwhile."""
        with ThreadPoolExecutor(2) as pool:
            decoded = pool.submit(self._next_frames)
            answered: Future[Any] = pool.submit(bool)  # there is nothing to wait for yet
            while not self._ended:
                frames = decoded.result()
                decoded = pool.submit(self._next_frames)
                if frames:
                    state = self._state()
                    maps = self._maps(frames, state)
                    answered.result()
                    answered = pool.submit(_answer_all, maps, state)
            decoded.result()
        self._decoder.close()

    def _next_frames(self) -> list[_Frame]:
        """The decoded pictures of those who have waited longest; the others get a reason."""
        with self._changed:
            self._changed.wait_for(lambda: self._turn or self._ended, IDLE_S)
            if len(self._turn) == 1:
                self._changed.wait(GATHER_S)
            batch = [(one, one.waiting) for one in self._turn[: self._batch] if one.waiting]
            self._turn = self._turn[self._batch :]
            for visitor, _ in batch:
                visitor.waiting = None
        frames = []
        for visitor, jpeg in batch:
            crashes = self._decoder.crashes
            picture = self._decoder.decode(jpeg.value)
            visitor.harmful |= self._decoder.crashes > crashes
            if picture is None:
                visitor.answer(_no_map(jpeg.number, "that picture cannot be decoded"))
            elif self._relevance.engine is None:
                visitor.answer(_no_map(jpeg.number, self._relevance.doing))
            else:
                frames.append((visitor, Item(picture, jpeg.number, jpeg.time)))
        return frames

    def _maps(
        self, frames: list[_Frame], state: ViewerState
    ) -> list[tuple[Visitor, ExplainedFrame]]:
        """The maps of the pictures; where they cannot be computed visitors hear it."""
        engine = self._relevance.engine
        started = time.monotonic()
        try:
            assert engine, "frames are taken once there is one"
            targets = [state.request.target] * len(frames)
            results = engine.explain([frame.value for _, frame in frames], targets)
            self._failing = ""
        except Exception as error:
            if not self._failing:
                log.error("explaining visitors' pictures failed: %s", first_line(error))
            self._failing = first_line(error)
            for visitor, frame in frames:
                visitor.answer(_no_map(frame.number, NO_MAP))
            return []
        request = replace(state.request, box=None)  # the view's boxes are others
        each_s = (time.monotonic() - started) / len(frames)
        self._batch = max(1, min(BATCH, round(BATCH_S / max(each_s, 1e-6))))
        return [
            (visitor, ExplainedFrame(frame, frame.value, request, engine, visitor.boxes(result)))
            for (visitor, frame), result in zip(frames, results, strict=True)
        ]


_Frame = tuple[Visitor, Item[np.ndarray]]


def _answer_all(maps: list[tuple[Visitor, ExplainedFrame]], state: ViewerState) -> None:
    for visitor, explained in maps:
        try:
            visitor.answer(_map_message(visitor, explained, state))
        except Exception as error:
            log.error("a visitor's map cannot be drawn: %s", first_line(error))
            visitor.answer(_no_map(explained.frame.number, NO_MAP))


def _map_message(visitor: Visitor, explained: ExplainedFrame, state: ViewerState) -> bytes:
    """The visitor's message: answers and legend as JSON, the map as PNG; see `join_message`."""
    drawn = visitor.paint(explained, state.look)
    shares = partial(in_shares, picture=explained.picture)
    legend = None
    box = (0.0, 0.0, 1.0, 1.0)
    layer = b""
    outlines = [
        {
            "box": shares(one.box),
            "texts": (one.above, one.below),
            "colour": f"rgb{one.colour}",
            "lines": [[shares((*at, *at))[:2] for at in line] for line in one.lines],
        }
        for one in (drawn.outlines if drawn else ())
    ]
    if drawn and state.look.style != "off":
        overlay = drawn.overlays[0]
        box = shares(overlay.box)
        pixels = cv2.cvtColor(overlay.layer, cv2.COLOR_RGBA2BGRA)
        layer = cv2.imencode(".png", pixels, PNG)[1].tobytes()
        legend = legend_of(overlay, state.look, explained)
    blocks = figure_fields(state.words.blocks(presented(explained, legend)))
    return join_message(VisitorMap(explained.frame.number, "", box, outlines, blocks), layer)


def _no_map(number: int, reason: str) -> bytes:
    return join_message(VisitorMap(number, reason))
