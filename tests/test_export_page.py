"""The web page of an exported explanation, in a real browser; without onnxruntime-web it skips."""

import functools
import http.server
import os
import re
import shutil
import threading
import time
from pathlib import Path

import cv2
import numpy as np
import pytest

pytest.importorskip("playwright", reason="the extra test is not installed")

from playwright.sync_api import sync_playwright

from realtime_lrp.commands.export import web_page
from realtime_lrp.commands.export.run import run
from realtime_lrp.config import ASSETS, Config
from realtime_lrp.engine.engine import Engine
from realtime_lrp.errors import DamagedInputError, OutputError, UsageError

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PLACES = [
    os.environ.get("ONNXRUNTIME_WEB", ""),
    *(one / "node_modules/onnxruntime-web/dist" for one in Path(__file__).resolve().parents),
]
RUNTIME = next((Path(one) for one in PLACES if one and Path(one).is_dir()), None)
LONG_MS = 90_000
CONFIG = Config().changed(model={"name": "shapes"}, lrp={"composite": "epsilon_plus_flat"})
KEEP_REPLIES = """
  window.replies = [];
  window.Worker = class extends Worker {
    constructor(...given) {
      super(...given);
      this.addEventListener("message", ({data}) => replies.push(data));
    }
  };
"""


def until(page, condition):
    """Waits; the page's policy forbids Playwright's own way."""
    end = time.monotonic() + LONG_MS / 1000
    while not page.evaluate(condition):
        assert time.monotonic() < end, f"{condition}: {page.inner_text('main')}"
        page.wait_for_timeout(50)


def frame(number=0):
    """A frame of the included clip, uint8 [H, W, 3] RGB; the first one shows a heart."""
    clip = cv2.VideoCapture(str(ASSETS / "demo.mp4"))
    clip.set(cv2.CAP_PROP_POS_FRAMES, number)
    return clip.read()[1][..., ::-1]


def test_scripts_become_one_that_needs_no_modules():
    """No import or export is left of the page's script, and what it imports is in it."""
    script = web_page.bundled("page.js")
    assert not re.search(r"^(import|export) ", script, re.M)
    for name in ("openVideo", "showBlocks", "follow", "timestamp"):
        assert f"function {name}(" in script


def test_what_is_no_folder_of_ours_is_refused(tmp_path):
    """Other files are kept, another onnxruntime-web is named, --runtime needs a folder."""
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "mine.txt").touch()
    with pytest.raises(OutputError, match="mine"):
        list(run(CONFIG, tmp_path / "page", False, True))
    for name, _ in web_page._all_files():
        (tmp_path / name).write_bytes(b"another")
    with pytest.raises(DamagedInputError, match=web_page.VERSION):
        list(run(CONFIG, tmp_path / "new", False, False, tmp_path))
    with pytest.raises(UsageError, match="folder"):
        list(run(CONFIG, tmp_path / "a.onnx", False, False, tmp_path))
    assert not (tmp_path / "new").exists()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The address of the page of the network `shapes`, behind a server of static files."""
    if not (RUNTIME and CHROMIUM):
        pytest.skip(
            "Chromium, or onnxruntime-web in node_modules or $ONNXRUNTIME_WEB, is not there"
        )
    folder = tmp_path_factory.mktemp("site") / "page"
    list(run(CONFIG, folder, False, False, RUNTIME))

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *words):
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()


def test_the_page_finds_the_heart_and_gives_the_explainers_map(site, tmp_path):
    """A played camera, a picture, another class by a tap; nothing leaves the origin; offline."""
    heart = frame()
    jpeg = cv2.imencode(".jpg", heart[..., ::-1])[1].tobytes()
    (tmp_path / "camera.mjpeg").write_bytes(30 * jpeg)
    cv2.imwrite(str(tmp_path / "heart.png"), heart[..., ::-1])
    words = [
        "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream", "--no-sandbox",
        "--disable-gpu", f"--use-file-for-fake-video-capture={tmp_path / 'camera.mjpeg'}",
    ]  # fmt: skip
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=words, timeout=LONG_MS)
        context = browser.new_context(viewport={"width": 390, "height": 844})
        context.set_default_timeout(LONG_MS)
        context.add_init_script(KEEP_REPLIES)
        page, asked, faults = context.new_page(), [], []
        context.on("request", lambda one: asked.append(one.url.removeprefix("blob:")))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(site)
        page.wait_for_selector("#controls:enabled")
        page.click("#camera")
        until(page, "document.querySelector('#said').innerText.includes('heart')")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.set_input_files("#file", tmp_path / "heart.png")
        until(page, "!document.querySelector('#turn').checkVisibility()")
        page.evaluate("replies.length = 0")
        page.click("#classes button:nth-child(2)")
        until(page, "replies.some((one) => one.target)")
        found = page.evaluate(
            "(({relevance, target}) => [[...relevance], target.indexOf(1)])"
            "(replies.findLast((one) => one.target))"
        )
        (expected,) = Engine(CONFIG).explain([heart], [found[1]])
        map_ = np.reshape(found[0], expected.relevance.shape[:2])
        assert np.corrcoef(map_.ravel(), expected.relevance.sum(-1).ravel())[0, 1] > 0.99
        refused = "fetch('http://127.0.0.1:9/').then(() => 'sent', (e) => 'refused')"
        assert page.evaluate(refused) == page.workers[0].evaluate(refused) == "refused"
        context.set_offline(True)
        page.reload()
        page.wait_for_selector("#controls:enabled")
        browser.close()
    assert faults == []
    assert [url for url in asked if not url.startswith(site)] == []
