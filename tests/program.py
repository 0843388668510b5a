"""The program as a user runs it, and the display that it opens its window on."""

import os
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager

import cv2
import pytest
from faults.clock import until


@contextmanager
def start(*words, cwd=None, **environment):
    """Starts the program as a user does; it does not outlive the test."""
    process = subprocess.Popen(
        [sys.executable, "-m", "realtime_lrp", *map(str, words)], cwd=cwd,
        env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def running(*words, **more):
    """Starts a process that does not outlive the block."""
    process = subprocess.Popen(words, **{"stderr": subprocess.DEVNULL, **more})
    try:
        yield process
    finally:
        process.kill()
        process.wait(60)


@contextmanager
def virtual_display(size, *words, managed=True):
    """A display with a window manager: its DISPLAY value and process. Skips where there is none."""
    tools = ("Xvfb", "openbox", "xdotool", "xset", "import")
    if missing := [name for name in tools if not shutil.which(name)]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    read, write = os.pipe()
    # else it would begin anew when its last client goes, and cut off who is about to come; -r: on a
    # busy machine a key that is pressed shortly may be down for long: none is repeated
    words = ("-noreset", "-r", "-displayfd", str(write), "-screen", "0", f"{size}x24", *words)
    with ExitStack() as stack:
        server = stack.enter_context(running("Xvfb", *words, pass_fds=[write]))
        os.close(write)
        with os.fdopen(read) as answer:
            number = f":{answer.readline().strip()}"
        if managed:
            stack.enter_context(running("openbox", env=with_display(number)))
            # a window that opens while the manager starts may never be shown
            until(lambda: xdotool(number, "get_num_desktops") not in ("", "0"))
        yield number, server


def with_display(display):
    """The environment of a user at this display."""
    return {**os.environ, "DISPLAY": display}


def screenshot(display, path):
    """What is on the display, uint8 [H, W, 3] RGB."""
    subprocess.run(
        ["import", "-window", "root", str(path)], env=with_display(display), check=True,
        timeout=300,
    )  # fmt: skip
    return cv2.imread(str(path))[..., ::-1]


def xdotool(display, *words):
    """Runs xdotool and gives what it prints."""
    done = subprocess.run(
        ["xdotool", *map(str, words)], env=with_display(display), capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    return done.stdout.strip()


def opened_window(display, process):
    """The window's id once it is there."""
    for _ in range(600):
        found = xdotool(display, "search", "--class", "^realtime_lrp$")
        if found:
            return found.splitlines()[-1]
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.1)
    raise AssertionError("no window came")


@contextmanager
def repeating(display):
    """A key that is held repeats meanwhile, which the display is told not to do else."""
    environment = with_display(display)
    subprocess.run(["xset", "r", "on"], env=environment, check=True)
    try:
        yield
    finally:
        subprocess.run(["xset", "r", "off"], env=environment, check=True)
