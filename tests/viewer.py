"""The viewer's parts with a scripted camera and scripted maps instead of threads."""

import time
from types import SimpleNamespace

import numpy as np

from realtime_lrp import config
from realtime_lrp.commands.live.controls import Controls
from realtime_lrp.commands.live.view import View
from realtime_lrp.realtime.capture import Capture
from realtime_lrp.realtime.explaining import ExplainedFrame, first_request
from realtime_lrp.realtime.latest import Slot
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.relevance.targets import TargetResolver
from realtime_lrp.view.scene import ExplainedPicture, Panel


class Files(Capture):
    """A source whose files can be gone through."""

    controllable = True


class Viewer:
    """A view and its controls.

    Attributes:
      shown: every canvas.
      maps: where maps are put.
      asked: what the capture was told: ("pause", True), ("step",), ("skip", 1).
    """

    def __init__(self, captured_before=0, size=None, figures=False, **options):
        chosen = config.load(options=options, command="live").config
        self.capture, self.maps = Files(lambda stop: None), Slot()
        for _ in range(captured_before):
            self.capture.frames.put(np.zeros((8, 8, 3), np.uint8), time.monotonic())
        self.stats, self.shown, self.asked = Stats("CPU", "float32"), [], []
        request = first_request(chosen)
        self.relevance = SimpleNamespace(maps=self.maps, doing="", request=request)
        self.window = SimpleNamespace(full=0)
        self.window.toggle_full_screen = lambda: setattr(self.window, "full", self.window.full + 1)
        for name in ("pause", "step", "skip"):
            setattr(self.capture, name, lambda *words, name=name: self.asked.append((name, *words)))
        self.controls = Controls(chosen, request)
        self.controls.attach(self.capture, self.relevance, self.window)
        if not figures:
            self.controls.parts = set()
        self.view = View(
            self.capture, self.relevance, self.stats, self.controls, self.shown.append,
            size and (lambda: size),
        )  # fmt: skip

    def press(self, *keys):
        """Presses keys one after the other."""
        for key in keys:
            self.controls.handle(key)

    def frame(self, picture):
        """A new frame comes and is shown."""
        self.capture.frames.put(picture, time.monotonic())
        self.view.step()
        return self.view.frame


def engine_of(labels, precision="float32", **settings):
    """What figures and controls ask of an engine."""
    chosen = config.load(options=settings, command="live").config
    return SimpleNamespace(
        label=lambda index: labels[index],
        explainer=SimpleNamespace(
            classes=len(labels), canonical=TargetResolver(len(labels), labels).canonical
        ),
        settings=chosen,
        composite="epsilon_plus_flat",
        name="epsilon_plus_flat",
        precision=precision,
        device="CPU",
        network=SimpleNamespace(name="shapes"),
    )


def found(
    frame, drawn, box, scores=(0.7, 0.2, 0.1), labels=("heart", "star", "cup"), request=None, **more
):
    """A finished map of a frame."""
    scores = np.array(scores, np.float32)
    order = np.argsort(-scores)
    facts = {
        "uncovered": None, "explained": (0.7, 0.7), "totals": (0.7,), "flipped": None,
        "engine": engine_of(labels),
    }  # fmt: skip
    return ExplainedFrame(
        frame=frame,
        request=request or SimpleNamespace(target="top1", mask=None),
        result=SimpleNamespace(scores=scores),
        finding=ExplainedPicture(frame.value, box, (Panel("epsilon_plus_flat", drawn, False),)),
        scores=[(labels[n], float(scores[n])) for n in order],
        **(facts | more),
    )


def green_square(canvas):
    """The mean column of what is pure green."""
    return ((canvas[30:200] == (0, 255, 0)).all(-1)).nonzero()[1].mean()
