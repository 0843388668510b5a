"""Teaches while the view goes on: takes pictures of what is shown, trains, exchanges the network.

A thread takes pictures, another one trains, so that the next thing can be shown meanwhile.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from realtime_lrp.engine.engine import Engine
from realtime_lrp.errors import Error, first_line
from realtime_lrp.realtime.explaining import RelevanceThread
from realtime_lrp.realtime.latest import Item, Slot
from realtime_lrp.realtime.viewer.events import Chosen, Event, KeyPressed, LessonKey, NoticeGiven
from realtime_lrp.system import machine
from realtime_lrp.teaching.learnt import SENTENCES, what_it_learnt
from realtime_lrp.teaching.lesson import FEWEST, NOTHING, Features, Lesson, Showing
from realtime_lrp.view.hud import Bar, Block, Paragraph, Row

EVERY_S = 0.1  # between two pictures that are taken
MOST = 2000  # pictures of all classes
IDLE_S = 0.05  # how often the thread looks for work
HELD_S = 0.7
RELEASED_S = 0.3
GONE_S = 1.5
"""A key that comes again within the first is held; without it for the second, it is released. A
page that is not heard of for the third is gone, and so its button is released."""

UNDO = "BackSpace"
FORGET = "Delete"

log = logging.getLogger(__name__)


class Teacher:
    """Takes pictures of what is shown, which `keep` gets, trains, and lets `save` write."""

    def __init__(
        self, lesson: Lesson, frames: Slot[np.ndarray], relevance: RelevanceThread,
        save: Callable[[Engine, Lesson], str],
        keep: Callable[[str, np.ndarray], object] | None = None,
    ):  # fmt: skip
        self.lesson = lesson
        self.failure: Error | None = None  # why the network is not written
        self._error: Exception | None = None
        self._frames = frames
        self._relevance = relevance
        self._save = save
        self._keep = keep
        keys = ("0" if name == NOTHING else str(n) for n, name in enumerate(lesson.classes, 1))
        self.keys = dict(zip(keys, lesson.classes, strict=True))
        self._shown = self._by = self._doing = ""  # the class that is shown, by whom; what goes on
        self._pressed = 0.0  # when its key came last
        self._held = self._changed = self._ended = False
        self.news: deque[Event] = deque()  # what happened, for the view
        self.looks: Block = ()  # how much relevance is on what was shown
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="teacher", daemon=True)

    def __enter__(self) -> "Teacher":
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()

    def end(self) -> None:
        """Ends without waiting; the network is exchanged no more, and nothing is saved."""
        with self._lock:
            self._ended = True
        self._stop.set()

    def takes(self, event: Event) -> bool:
        """Takes a key of a class, undo or forget; False for other events.

        A short press begins a showing and another one ends it; a key that is held ends it when it
        is released, as a page's button does. While somebody shows a thing, nobody else can.
        """
        key = event.key if isinstance(event, KeyPressed | LessonKey) else ""
        if key not in (*self.keys, UNDO, FORGET):
            return False
        by = event.by if isinstance(event, LessonKey) else ""
        with self._lock:
            if isinstance(event, LessonKey) and not event.down:
                self._shown = self._shown if by != self._by else ""
            elif self._shown and by != self._by:
                if self.keys.get(key) != self._shown:
                    told = f"somebody else shows {self._shown}: wait until they are done"
                    self.news.append(NoticeGiven(told))
            elif key in self.keys:
                self._show(self.keys[key], by, event.time)
            elif self.lesson.showings:
                last = self.lesson.showings.pop().number
                if key == FORGET:
                    kept = (showing for showing in self.lesson.showings if showing.number != last)
                    self.lesson.showings = list(kept)
                self._shown = ""
                self._changed = True
        return True

    def _show(self, name: str, by: str, now: float) -> None:
        again = now - self._pressed < HELD_S
        self._pressed = now
        if name != self._shown and sum(self.lesson.counts()) >= MOST:
            self.news.append(NoticeGiven(f"{MOST} pictures are the limit: remove some"))
        elif name != self._shown:
            self._shown = name
            self._by = by
            self._held = bool(by)
            self._changed = True
            self.lesson.begin(self.lesson.classes.index(name))
        elif again or by:
            self._held = True
        else:
            self._shown = ""

    def status(self) -> str:
        """The teacher's present work in words."""
        return f"taking {self._shown}" if self._shown else self._doing

    def panel(self) -> Block:
        """Key, name and count of each class, and where the network looks."""
        rows = (Row(key if name == key else f"{key}  {name}", f"{count}", name == self._shown)
                for key, name, count in self.fields()["classes"])  # fmt: skip
        return (*rows, *self.looks)

    def fields(self) -> dict[str, Any]:
        """The same for a page: key, name and count of each class; what is shown, and was last."""
        pairs = zip(self.keys.items(), self.lesson.counts(), strict=True)
        classes = [(key, name, count) for (key, name), count in pairs]
        numbers = [showing.number for showing in self.lesson.showings[-1:]]
        last = self.lesson.classes[numbers[0]] if numbers else ""
        return {"classes": classes, "shown": self._shown, "doing": self._doing, "last": last}

    def check(self) -> None:
        """Raises why nothing can be taught with this network."""
        if self._error:
            raise self._error

    def _run(self) -> None:
        while not (engine := self._relevance.engine):
            if self._stop.wait(IDLE_S):
                return
        try:
            features = Features(replace(engine.network, model=engine.model))
            blank = np.zeros((*features.model.input_shape[1:3], 3), np.uint8)
            features.with_changes([blank], np.random.default_rng(0))  # the first takes long
        except Exception as error:
            self._error = error
            return
        number = 0
        learning = threading.Thread()
        while not self._stop.wait(IDLE_S):
            with self._errors_told():
                showing = self._present(time.monotonic())
                if showing and (frame := self._frames.newest(number)):
                    number = frame.number
                    self._take(features, showing, frame)
                elif not showing and self._changed and not learning.is_alive():
                    self._changed = False
                    learning = threading.Thread(target=self._learn, args=(features,), daemon=True)
                    learning.start()
        if learning.is_alive():
            learning.join()

    @contextmanager
    def _errors_told(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            log.error("teaching failed: %s", first_line(error))
            self.news.append(NoticeGiven(first_line(error)))

    def _present(self, now: float) -> Showing | None:
        """The showing that goes on; None while nothing is shown."""
        with self._lock:
            silent = now - self._pressed > (GONE_S if self._by else RELEASED_S)
            if (self._held and silent) or sum(self.lesson.counts()) >= MOST:
                self._shown = ""
                self._held = False
            return self.lesson.showings[-1] if self._shown else None

    def _take(self, features: Features, showing: Showing, frame: Item[np.ndarray]) -> None:
        begun = time.monotonic()
        engine = self._relevance.engine
        assert engine
        (seen,) = engine.sight.regions([frame.value], self._relevance.request.region)
        region = seen.extract(frame.value)
        rng = np.random.default_rng(frame.number)
        showing.vectors += features.with_changes([region], rng)
        showing.pictures.append(region)
        if self._keep:
            self._keep(self.lesson.classes[showing.number], frame.value)
        self._stop.wait(max(0.0, EVERY_S - IDLE_S - (time.monotonic() - begun)))

    def _learn(self, features: Features) -> None:
        self._doing = "learning"
        done = ""
        with self._errors_told():
            done = self._train(features)
        self._doing = done

    def _train(self, features: Features) -> str:
        """Trains, lets the view go over to the new network, says what it learnt, saves it."""
        counts = dict(zip(self.lesson.classes, self.lesson.counts(), strict=True))
        few = {name: count for name, count in counts.items() if 0 < count < FEWEST}
        said = [f"{name}: too few pictures ({count} of {FEWEST})" for name, count in few.items()]
        lesson = self.lesson.complete()
        relevance = self._relevance
        if len(lesson.classes) < 2:
            self.news.append(NoticeGiven("\n".join([*said, "show another thing as well"])))
            return ""
        trained = lesson.train(aside=True)
        engine = relevance.engine
        choice = relevance.choice
        cache = relevance.engine_cache
        assert engine and cache
        known = engine.network.labels
        engine = engine.with_network(features.taught(*trained, lesson.classes))
        with self._lock:
            if self._ended:
                return ""
            cache.exchange(engine, choice)
        if known != engine.network.labels and relevance.request.target != "top1":
            self.news.append(Chosen("target", "top1"))
        right, asked = np.sum(lesson.right(*lesson.train()), axis=0).tolist()
        said = [f"learnt: right on {right} of the last {asked} pictures", *said, *lesson.advices()]
        found = what_it_learnt(engine, lesson.pictures_aside())
        said += [f"{name}: {SENTENCES[look.verdict]}" for name, look in found.items()]
        bars = [Bar(name, look.relevance) for name, look in found.items()]
        self.looks = (Paragraph("", "Relevance on what was shown"), *bars) if bars else ()
        if not found:
            said.append(f"show {NOTHING!r} (0), the empty scene, to learn what it looks at")
        self.news.append(NoticeGiven("\n".join(said)))
        machine.free_cycles()  # of networks before
        try:
            saved = self._save(engine, lesson)
            self.failure = None
        except Error as error:
            self.failure = error
            raise
        return f"saved in {saved}" if saved else ""
