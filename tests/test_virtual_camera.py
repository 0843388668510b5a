"""The virtual camera, against a stand-in for pyvirtualcam's interface: no device is needed."""

import sys
import types

import numpy as np
import pytest
from faults.clock import until

from realtime_lrp.errors import UnavailableError
from realtime_lrp.video import virtual_camera
from realtime_lrp.video.virtual_camera import SIZE, VirtualCamera


class Library(types.ModuleType):
    """What is used of pyvirtualcam 0.15; a camera notes what it is sent.

    Attributes:
      error: raised instead of opening a camera.
      send_error: raised instead of sending.
    """

    def __init__(self):
        super().__init__("pyvirtualcam")
        self.error = self.send_error = None
        self.sent, self.opened, self.closed = [], [], 0
        library = self

        class Camera:
            device = "/dev/video9"

            def __init__(self, width, height, fps):
                if library.error:
                    raise library.error
                library.opened.append((width, height, fps))

            def send(self, frame):
                assert frame.dtype == np.uint8 and frame.shape == (*SIZE, 3)
                if library.send_error:
                    raise library.send_error
                library.sent.append(frame)

            def close(self):
                library.closed += 1

        self.Camera = Camera


@pytest.fixture
def library(monkeypatch):
    """The stand-in, installed."""
    made = Library()
    monkeypatch.setitem(sys.modules, "pyvirtualcam", made)
    monkeypatch.setattr(virtual_camera, "FPS", 500)
    return made


def test_a_picture_is_sent_whole_and_again_until_the_next_one(library):
    """With black borders; changing the array later changes nothing."""
    with VirtualCamera() as camera:
        assert camera.device == "/dev/video9"
        picture = np.full((300, 300, 3), 200, np.uint8)
        camera.show(picture)
        picture[:] = 7
        until(lambda: any(frame.any() for frame in library.sent[-3:]))
        count = len(library.sent)
        until(lambda: len(library.sent) > count + 5)
    assert library.opened == [(1280, 720, 500)] and library.closed == 1
    frame = library.sent[-1]
    assert (frame[:, 280:1000] == 200).all() and not frame[:, :279].any()
    assert not frame[:, 1001:].any() and frame is library.sent[-2]


def test_a_camera_that_fails_later_says_so_once(library):
    """The view goes on."""
    with VirtualCamera() as camera:
        library.send_error = RuntimeError("the device is gone")
        until(lambda: library.closed)
        assert camera.news() == "the virtual camera has ended: the device is gone"
        assert camera.news() == ""
        camera.show(np.zeros((2, 2, 3), np.uint8))


@pytest.mark.parametrize("command", ["live", "serve"])
def test_without_library_or_device_there_is_a_line_that_says_what_to_do(
    command, library, run, tiny_model, monkeypatch
):
    """Exit code 69, before a window or an address."""
    words = command, "--virtual-camera", "--model", tiny_model, "--source", "synthetic"
    words += ("--display", "none") if command == "live" else ("--port", 0)
    library.error = RuntimeError("'v4l2loopback' backend: No v4l2 loopback device found")
    code, out, told = run(*words)
    assert (code, out) == (69, "")
    assert "no virtual camera (No v4l2 loopback device found). On Linux install v4l2" in told
    monkeypatch.setitem(sys.modules, "pyvirtualcam", None)
    code, out, told = run(*words)
    assert (code, out) == (69, "") and 'pip install "realtime-lrp[virtual-camera]"' in told
    with pytest.raises(UnavailableError):
        VirtualCamera()


def test_the_camera_shows_the_view(library, run, tiny_model):
    """Although nobody looks at the page."""
    words = "serve", "--virtual-camera", "--model", tiny_model, "--source", "synthetic"
    assert run(*words, "--port", 0, "--duration", 0.3)[0] == 0
    assert library.closed == 1
    pictures = [frame for frame in library.sent if frame.any()]
    assert pictures and (pictures[-1][:, 160:1120].max(-1) > 0).mean() > 0.9
