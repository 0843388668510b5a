"""Photographs the web page on a projector and on a phone, for the README: `gallery/serve.webp`.

It needs Chromium and the extra `test`. The demo clip stands for both cameras.
"""

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

from realtime_lrp.config import ASSETS
from realtime_lrp.video.libraries import cv2

PROJECTOR = {"viewport": {"width": 1920, "height": 1080}}
PHONE = {
    "viewport": {"width": 390, "height": 780}, "device_scale_factor": 2, "is_mobile": True,
    "has_touch": True,
}  # fmt: skip

PROJECTED = 0.375
"""Share of the clip at which the projector shows it: a heart."""

BEFORE_PHONE = 195
"""The frame of the clip that is before the phone's camera: a house."""

SETTLING_MS = 6000
"""Until notices are gone."""

SIZE = (610, 1270)
"""Rows and columns of the picture."""

SCREEN = (45, 40, 565, 964)
"""Where the projector's picture is: top, left, bottom, right."""

HANDSET = (75, 996, 555, 1236)
"""Where the phone's picture is."""

GROUND, EDGE = (226, 229, 233), (24, 26, 30)
FRAME, ROUNDING = 10, 26
"""Pixels: the edge around each picture, and the radius of the phone's corners."""


def photograph_page(folder: Path) -> None:
    """Photographs the page into `gallery/serve.webp`."""
    folder = folder / "gallery"
    with tempfile.TemporaryDirectory() as name, served() as address:
        film = Path(name) / "camera.mjpeg"
        film.write_bytes(cv2.imencode(".jpg", clip_frame(BEFORE_PHONE))[1].tobytes())
        with browser(film) as chromium:
            watch, screen = photograph_projector(chromium, address)
            picture = composed(screen, photograph_phone(chromium, watch))
    folder.mkdir(exist_ok=True)
    data = cv2.imencode(".webp", picture, [cv2.IMWRITE_WEBP_QUALITY, 88])[1]
    (folder / "serve.webp").write_bytes(data.tobytes())


@contextmanager
def served() -> Iterator[str]:
    """Runs the server; gives the address that it prints."""
    source = str(ASSETS / "demo.mp4")
    words = "serve", "--source", source, "--model", "shapes", "--target", "top1", "--port", "0"
    command = [sys.executable, "-m", "realtime_lrp", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


@contextmanager
def browser(film: Path) -> Iterator[Browser]:
    """Headless Chromium with a film before its camera."""
    words = [
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
        f"--use-file-for-fake-video-capture={film}",
        *(() if os.geteuid() else ("--no-sandbox",)),
    ]
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=words)
        yield launched
        launched.close()


def photograph_projector(chromium: Browser, address: str) -> tuple[str, np.ndarray]:
    """The address for those who only watch, and the page in full screen with rows of concepts.

    The picture is uint8 [H, W, 3] BGR.
    """
    page = opened(chromium, address, PROJECTOR)
    page.click("#concepts")
    page.click("#freeze")
    page.locator("#seek").fill(str(PROJECTED))
    page.click("#fill")
    page.mouse.move(0, 0)
    page.wait_for_timeout(SETTLING_MS)
    return page.get_attribute("#watch", "href") or "", photographed(page)


def photograph_phone(chromium: Browser, address: str) -> np.ndarray:
    """The page of a visitor who uses the own camera, uint8 [H, W, 3] BGR."""
    page = opened(chromium, address, PHONE)
    page.tap("#camera")
    page.wait_for_timeout(SETTLING_MS)
    return photographed(page)


def opened(chromium: Browser, address: str, screen: dict[str, Any]) -> Page:
    """The page with its first answer."""
    page = chromium.new_context(**screen).new_page()
    page.goto(address)
    page.locator("#answers .bar").nth(2).wait_for(state="attached", timeout=120_000)
    return page


def photographed(page: Page) -> np.ndarray:
    """What is on the screen, uint8 [H, W, 3] BGR."""
    return cv2.imdecode(np.frombuffer(page.screenshot(), np.uint8), cv2.IMREAD_COLOR)


def clip_frame(number: int) -> np.ndarray:
    """A frame of the demo clip, uint8 [H, W, 3] BGR."""
    clip = cv2.VideoCapture(str(ASSETS / "demo.mp4"))
    clip.set(cv2.CAP_PROP_POS_FRAMES, number)
    return clip.read()[1]


def composed(screen: np.ndarray, phone: np.ndarray) -> np.ndarray:
    """The projector's picture with the phone's before it."""
    canvas = np.full((*SIZE, 3), GROUND, np.uint8)
    paste(canvas, screen, SCREEN, 4)
    paste(canvas, phone, HANDSET, ROUNDING)
    return canvas


def paste(
    canvas: np.ndarray, picture: np.ndarray, box: tuple[int, int, int, int], radius: int
) -> None:
    """Puts a picture into a dark frame with round corners and a soft shadow, in place.

    Args:
      canvas: uint8 [H, W, 3].
      picture: the same, of any size.
      box: top, left, bottom, right.
      radius: of the corners.
    """
    top, left, bottom, right = box
    inner = rounded(canvas.shape[:2], box, radius)
    outer = rounded(
        canvas.shape[:2], (top - FRAME, left - FRAME, bottom + FRAME, right + FRAME), radius + FRAME
    )
    shadow = cv2.GaussianBlur(np.roll(outer, 8, axis=0), (0, 0), 12)[..., None] * 0.35
    laid = canvas * (1 - shadow)
    laid = laid * (1 - outer[..., None]) + np.array(EDGE) * outer[..., None]
    size = right - left, bottom - top
    full = np.zeros_like(laid)
    full[top:bottom, left:right] = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
    canvas[:] = np.rint(laid * (1 - inner[..., None]) + full * inner[..., None])


def rounded(shape: tuple[int, ...], box: tuple[int, int, int, int], radius: int) -> np.ndarray:
    """A mask, float32 [H, W] in [0, 1], of a box with round corners."""
    (top, left), (bottom, right) = box[:2], (side - 1 for side in box[2:])
    mask = np.zeros(shape, np.uint8)
    cv2.rectangle(mask, (left + radius, top), (right - radius, bottom), 255, -1)
    cv2.rectangle(mask, (left, top + radius), (right, bottom - radius), 255, -1)
    columns, rows = (left + radius, right - radius), (top + radius, bottom - radius)
    for middle in itertools.product(columns, rows):
        cv2.circle(mask, middle, radius, 255, -1, cv2.LINE_AA)
    return mask.astype(np.float32) / 255
