"""An error in any thread of `video` and `live`, at any moment, ends the run with its message."""

import sys

import media
import pytest
from films import films_in

from realtime_lrp.commands.video import recoding
from realtime_lrp.realtime.capture import Capture
from realtime_lrp.realtime.capture import _Reader as ReadingThread
from realtime_lrp.realtime.explaining import RelevanceThread
from realtime_lrp.system.child import Channel

pytestmark = pytest.mark.usefixtures("light_scripts")

FRAMES = 12  # a batch of eight, and one that is not full

PROCESS = """
from realtime_lrp.commands.video import recoding
from realtime_lrp.system import child

calls, fault = [], ""

def fails(name):
    calls.append(name)
    if fault == f"{name} {calls.count(name)}":
        raise MemoryError

def failing(owner, method, name, applies=lambda *arguments: True):
    whole = getattr(owner, method)
    def call(self, *arguments):
        if applies(self, *arguments):
            fails(name)
        return whole(self, *arguments)
    setattr(owner, method, call)

decoded, begun = recoding.Recoder._decoded, recoding.Recoder.__init__
def named(self, reader):
    for item in decoded(self, reader):
        fails("decode")
        yield item
    fails("decode")
def begins(self, job, *arguments):
    global fault
    fault = job.source.stem
    begun(self, job, *arguments)
recoding.Recoder._decoded, recoding.Recoder.__init__ = named, begins
failing(recoding.VideoWriter, "write", "write")
failing(child.Channel, "receive", "listen")
failing(child.Channel, "send", "tell", lambda self, message: isinstance(message, recoding.Written))
recoding.WRITTEN_EVERY_S = 0.0
recoding.main()
"""

MOMENTS = ["decode 1", "decode 5", f"decode {FRAMES}", f"write {FRAMES}", "listen 3", "tell 1"]
"""Names of recordings: what fails in their process, and at which call."""
FURTHER = ["decode 2", f"decode {FRAMES + 1}", "write 1", "write 5", "listen 2"]


@pytest.mark.parametrize("moments", [MOMENTS, pytest.param(FURTHER, marks=pytest.mark.release)])
def test_an_error_of_any_thread_of_the_decoding_process_costs_one_film(
    moments, run, words, tmp_path, monkeypatch
):
    """Decoder, encoder, listener, sign of life; in the first frame, in a batch, in the last one."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir(), out.mkdir()
    for name in (*moments, "whole"):
        media.recording(folder / f"{name}.mp4", count=FRAMES)
    script = tmp_path / "process.py"
    script.write_text(PROCESS)
    monkeypatch.setattr(recoding, "module_command", lambda _: [sys.executable, str(script)])
    code, _, err = run("video", folder, "-o", out, *words)
    assert code == 69 and f"{len(moments)} failed" in err
    told = [line for line in err.splitlines() if "The memory does not suffice" in line]
    assert len(told) == len(moments)
    assert all(any(f"/{name}.mp4'" in line for line in told) for name in moments)
    assert films_in(out) == ["whole.mp4"]
    assert len(media.times_of(out / "whole.mp4")) == FRAMES


@pytest.mark.parametrize("message", [1, 2, 3])
def test_an_error_of_the_thread_that_listens_to_it_ends_the_run(
    message, run, words, tmp_path, monkeypatch
):
    """It has not received what it should; nothing is left."""
    receive, calls = Channel.receive, []

    def failing(channel):
        calls.append(1)
        if len(calls) > message:
            raise MemoryError
        return receive(channel)

    monkeypatch.setattr(Channel, "receive", failing)
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
