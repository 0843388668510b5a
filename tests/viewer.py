"""The viewer's parts with a scripted camera and scripted maps instead of threads."""

import time
from collections import deque
from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from realtime_lrp import config
from realtime_lrp.commands.live.run import Loop, Sources
from realtime_lrp.engine.result import FoundBox, MapKind, Result, ResultMap
from realtime_lrp.realtime.capture import Capture
from realtime_lrp.realtime.explaining import ExplainedFrame, first_request
from realtime_lrp.realtime.latest import Slot
from realtime_lrp.realtime.stats import Meter, Stats
from realtime_lrp.realtime.viewer.events import Chosen, KeyPressed, MouseMoved
from realtime_lrp.realtime.viewer.lecture import load_lecture
from realtime_lrp.realtime.viewer.state import NetworkFacts, first_state
from realtime_lrp.realtime.viewer.view import View
from realtime_lrp.relevance.maps.targets import TARGETS, Target, TargetResolver
from realtime_lrp.video.region import Region
from realtime_lrp.view.keys import commands
from realtime_lrp.view.look import Look
from realtime_lrp.view.window import Mouse

LOOK = replace(Look.of(config.Config().overlay), opacity=1.0)  # how maps are drawn


COMMANDS = {one.name: one for one in commands(TARGETS)}  # all that can be done by typing, by name


def event_named(name, **when):
    if name in COMMANDS:
        return Chosen(COMMANDS[name].action, COMMANDS[name].value, **when)
    return KeyPressed(name, **when)


def state_of(*sets, command="live", **options):
    """The first state of a viewer with these settings."""
    chosen = config.load(sets=sets, options=options, command=command).config
    return first_state(chosen, first_request(chosen), load_lecture(chosen))


class Scripted(Capture):
    """A capture whose source a test makes."""

    source = None


class ScriptedRelevance:
    """A relevance thread whose maps a test puts there; they are always of the requested engine."""

    doing, engine_cache, _engine = "", None, None

    def __init__(self, maps, request):
        self.maps, self.request, self.waiting = maps, request, Meter()
        self.stats = Stats("CPU", "float32")

    @property
    def choice(self):
        return self.request.choice

    @property
    def engine(self):
        """The engine of the newest map, unless a test set another."""
        newest = self.maps.newest()
        return self._engine or (newest and newest.value.engine)

    @engine.setter
    def engine(self, engine):
        self._engine = engine

    def check(self, **_):
        """Nothing fails."""


class Viewer:
    """A view in its loop, a step at a time, with its canvases and what the capture was told."""

    def __init__(self, size=None, figures=False, average=None, also=(), **options):
        options |= {"--also-model": list(also)} if also else {}
        chosen = config.load(options=options, command="live").config
        if average is not None:
            overlay = chosen.overlay.model_copy(update={"average": average})
            chosen = chosen.model_copy(update={"overlay": overlay})
        self.capture, self.maps = Scripted(lambda stop: None), Slot()
        self.shown, self.told = [], []
        if not figures:
            chosen = chosen.changed(live={"text": "none"})
        state = first_state(chosen, first_request(chosen), load_lecture(chosen))
        self.relevance = ScriptedRelevance(self.maps, state.request)
        self.stats = self.relevance.stats
        self.capture.source = SimpleNamespace(files=3, described="", timeline=None)
        self.capture.source.control = lambda *words: self.told.append(words)
        self.window = SimpleNamespace(full=False, heard=[], closed=False)
        self.window.events = lambda: [self.window.heard.pop(0) for _ in list(self.window.heard)]
        self.window.fill_screen = lambda on: setattr(self.window, "full", on)
        self.further = [ScriptedRelevance(Slot(), state.request) for _ in also]
        for thread in self.further:
            thread.config = chosen
        threads = [self.relevance, *self.further]
        self.view = View(state, self.capture, threads, self.shown.append, size and (lambda: size))
        saver = SimpleNamespace(record=lambda *_: None, news=deque())
        self.loop = Loop(self.view, saver, Sources(chosen), self.window)

    @property
    def state(self):
        return self.view.state

    @property
    def request(self):
        return self.relevance.request

    def press(self, *keys):
        for key in keys:
            mouse = isinstance(key, Mouse)
            event = MouseMoved(key.x, key.y, key.button) if mouse else event_named(key)
            for order in self.view.send(event):
                self.loop.perform(order)
        return self.view

    def state_target(self, target):
        self.view.send(Chosen("target", target))
        self.view.step()

    def frame(self, picture, source=""):
        self.capture.frames.put(picture, time.monotonic(), source)
        self.view.step()
        return self.view.frame


def engine_of(labels, precision="float32", name="epsilon_plus_flat", **settings):
    chosen = config.load(options=settings, command="live").config
    return SimpleNamespace(
        label=lambda index: labels[index],
        explainer=SimpleNamespace(
            classes=len(labels), read_target=TargetResolver(len(labels), labels).read,
            unsuited=frozenset(), advice="", traces=1,
        ),
        config=chosen, name=name, scores_ready=True, also=(), precision=precision, device="CPU",
        in_flight=1, computed=f"{precision} on CPU", auto_composite="epsilon_plus_flat",
        network=SimpleNamespace(name="shapes", labels=labels, warning=""), gallery=None,
        concepts=SimpleNamespace(layers=("conv1", "conv2")), concept_layer="conv2", detects=False,
    )  # fmt: skip


def explained_frame(
    frame, strength, box, scores=(0.7, 0.2, 0.1), labels=("heart", "star", "cup"), request=None,
    score=(0.7, 0.7), total=0.7, taken=0.0, engine=None, concepts=None, signed=False,
    tolerance=0.01, **more
):  # fmt: skip
    """A frame with a map: strength in [0, 1], scale 1."""
    rows, columns = strength.shape[:2]
    engine = engine or engine_of(labels)
    nothing = dict.fromkeys(("mask", "frame", "concepts", "box", "region"))
    request = request or SimpleNamespace(target="top1", **nothing)
    drawn = np.rint(127 * strength).astype(np.int8), 1.0, total, abs(total), lambda: None
    kind = MapKind(engine.name, tolerance=tolerance)
    result = SimpleNamespace(
        found=None, segments=None,
        target=engine.explainer.read_target(request.target),
        scores=np.array(scores, np.float32), explained=score, concepts=concepts,
        region=Region(box, (0, 0, columns, rows), (rows, columns)),
        maps=[ResultMap(*drawn, kind, signed, *score, taken)],
    )  # fmt: skip
    return ExplainedFrame(
        frame=frame, picture=frame.value, request=request, engine=engine, result=result, **more
    )


def answer(scores=(0.7, 0.2, 0.1), labels=("heart", "star", "cup"), asked="top1", **facts):
    read = TargetResolver(len(labels), labels).read
    region = Region((0, 0, 160, 120), (0, 0, 160, 120), (120, 160))
    result = Result(np.array(scores, np.float32), (0.0, 0.0), region, (), read(asked))
    named = {"auto_composite": "epsilon_plus_flat"} | facts
    return result, NetworkFacts(tuple(labels), read, **named)


def found_box(box, label, score, number, maps=(), region=None, inside=0.71):
    return FoundBox(
        np.zeros(3), (score, score), region, tuple(maps), Target(top=1), box=box, label=label,
        score=score, inside=inside, place=number, number=number,
    )  # fmt: skip


def green_square(canvas):
    """The mean column of what is more than half green."""
    red, green, blue = np.moveaxis(canvas[30:200].astype(int), -1, 0)
    return (green - np.maximum(red, blue) > 128).nonzero()[1].mean()
