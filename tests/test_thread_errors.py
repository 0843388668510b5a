"""An error in any thread of `video` and `live`, at any moment, ends the run with its message."""

import sys

import media
import pytest
from films import films_in

from realtime_lrp.commands.video import recoding
from realtime_lrp.realtime.capture import Capture
from realtime_lrp.realtime.capture import _Reader as ReadingThread
from realtime_lrp.realtime.explaining import RelevanceThread
from realtime_lrp.system.child import Child

pytestmark = pytest.mark.usefixtures("light_scripts")

FRAMES = 12  # a batch of eight, and one that is not full

PROCESS = """
from realtime_lrp.commands.video import recoding
from realtime_lrp.system import child

def failing(owner, name, applies=lambda *arguments: True):
    whole = getattr(owner, name)
    def call(self, *arguments):
        thread, _, number = fault.partition(" ")
        if thread == name and applies(self, *arguments):
            calls.append(1)
            if len(calls) == int(number):
                raise MemoryError
        return whole(self, *arguments)
    setattr(owner, name, call)

class Frames:
    def __init__(self, frames):
        self.frames = frames
    def __iter__(self):
        return self
    def __next__(self):
        return next(self.frames)

calls, fault = [], ""
decoded = recoding.Recoder._decoded
def named(self, reader):
    items = Frames(decoded(self, reader))
    while (item := next(items, None)) is not None:
        yield item
failing(Frames, "__next__")
recoding.Recoder._decoded = named
begun = recoding.Recoder.__init__
def begins(self, job, *arguments):
    global fault
    fault = job.source.stem
    begun(self, job, *arguments)
recoding.Recoder.__init__ = begins
failing(recoding.VideoWriter, "write")
failing(child.Channel, "receive")
failing(child.Channel, "send", lambda self, message: isinstance(message, recoding.Written))
recoding.WRITTEN_EVERY_S = 0.0
recoding.main()
"""

MOMENTS = [
    *(f"__next__ {number}" for number in (1, 2, 5, FRAMES, FRAMES + 1)),
    *(f"write {number}" for number in (1, 5, FRAMES)),
    "receive 1", "receive 2", "send 1",
]  # fmt: skip
"""Names of recordings: the method that fails in their process, and at which call."""


def test_an_error_of_any_thread_of_the_decoding_process_costs_one_film(
    run, words, tmp_path, monkeypatch
):
    """Decoder, encoder, listener, sign of life; in the first frame, in a batch, in the last one."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir(), out.mkdir()
    for name in (*MOMENTS, "whole"):
        media.recording(folder / f"{name}.mp4", count=FRAMES)
    script = tmp_path / "process.py"
    script.write_text(PROCESS)
    monkeypatch.setattr(recoding, "module_command", lambda _: [sys.executable, str(script)])
    code, _, err = run("video", folder, "-o", out, *words)
    assert code == 69 and f"{len(MOMENTS)} failed" in err
    told = [line for line in err.splitlines() if "The memory does not suffice" in line]
    assert len(told) == len(MOMENTS)
    assert all(any(f"/{name}.mp4'" in line for line in told) for name in MOMENTS)
    assert films_in(out) == ["whole.mp4"]
    assert len(media.times_of(out / "whole.mp4")) == FRAMES


@pytest.mark.parametrize("message", [1, 2, 3])
def test_an_error_of_the_thread_that_listens_to_it_ends_the_run(
    message, run, words, tmp_path, monkeypatch
):
    """It has not received what it should; nothing is left."""
    receive, calls = Child.receive, []

    class Failing:
        def __init__(self, channel):
            self._channel, self.send = channel, channel.send

        def receive(self):
            if len(calls) >= message:
                raise MemoryError
            return self._channel.receive()

    def wrapped(child, *arguments, **words):
        calls.append(1)
        return receive(child, *arguments, **words)

    listen = Child._listen

    def listening(child):
        child._channel = Failing(child._channel)
        listen(child)

    monkeypatch.setattr(Child, "receive", wrapped)
    monkeypatch.setattr(Child, "_listen", listening)
    source = media.recording(tmp_path / "in.mp4", count=FRAMES)
    code, _, err = run("video", source, "-o", tmp_path / "out.mp4", *words)
    assert code == 69 and "The memory does not suffice" in err
    assert not list(tmp_path.glob("out.mp4*"))


LIVE = ("live", "--source", "synthetic", "--display", "none", "--duration", 1)


@pytest.mark.parametrize(
    ("owner", "name", "call", "code"),
    [
        (Capture, "_next_reader", 1, 70),
        (Capture, "_goes_on", 20, 70),
        (ReadingThread, "_hand_over", 1, 70),
        (ReadingThread, "_hand_over", 9, 0),
        (RelevanceThread, "_go_on", 1, 70),
    ],
)
def test_an_error_of_a_thread_of_the_viewer_is_survived_or_ends_it(
    owner, name, call, code, run, words, monkeypatch
):
    """A source that has given pictures is opened again; everything else ends the run."""
    whole, calls = getattr(owner, name), []

    def failing(*arguments):
        calls.append(1)
        if len(calls) == call:
            raise MemoryError("not enough")
        return whole(*arguments)

    monkeypatch.setattr(owner, name, failing)
    ended, _, err = run(*LIVE, *words)
    assert len(calls) >= call and ended == code
    assert ("not enough" if code else "the picture is back") in err
