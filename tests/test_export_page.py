"""The web page of an exported explanation, in a real browser; without onnxruntime-web it skips."""

import os
import re
import shutil
import time
from pathlib import Path

import cv2
import numpy as np
import pytest

pytest.importorskip("playwright", reason="the extra test is not installed")

from playwright.sync_api import sync_playwright
from web import serving_files

from realtime_lrp.commands.export import run as export
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
NEWEST = """
  (({relevance, target}) => ({relevance: [...relevance], target}))
  (replies.at(-1))
"""
DOCUMENT = Path(__file__).parents[1] / "docs" / "anywhere.md"
SNIPPET = """
  <script type="importmap">
    {"imports": {"onnxruntime-web": "./page/runtime/ort.wasm.min.mjs"}}
  </script>
  <script type="module">
    const image = Object.assign(new Image(), {src: "heart.png"});
    await image.decode();
    CODE
    window.found = [[...scores.data], relevance.dims];
  </script>
"""
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
        assert time.monotonic() < end, f"{condition}: {page.inner_text('body')}"
        page.wait_for_timeout(50)


def agreement(found, picture):
    """The correlation of an answer of the page's worker with the explainer's map of a picture."""
    target = "top1" if found["target"] is None else found["target"]
    (expected,) = Engine(CONFIG).explain([picture], [target])
    maps = found["relevance"], expected.relevance.sum(-1).ravel()
    return np.corrcoef(*maps)[0, 1]


def test_scripts_become_one_that_needs_no_modules():
    script = export.bundled("page.js")
    assert not re.search(r"^(import|export) ", script, re.M)
    for name in ("openVideo", "showBlocks", "follow", "timestamp"):
        assert f"function {name}(" in script


def test_what_is_no_folder_of_ours_is_refused(tmp_path):
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "mine.txt").touch()
    with pytest.raises(OutputError, match="mine"):
        list(run(CONFIG, tmp_path / "page", False, True))
    for name in export.CHECKSUMS:
        (tmp_path / name).write_bytes(b"another")
    with pytest.raises(DamagedInputError, match=export.VERSION):
        list(run(CONFIG, tmp_path / "new", False, False, tmp_path))
    with pytest.raises(UsageError, match="folder"):
        list(run(CONFIG, tmp_path / "a.onnx", False, False, tmp_path))
    assert not (tmp_path / "new").exists()


@pytest.mark.skipif(not (RUNTIME and CHROMIUM), reason="no onnxruntime-web, or no Chromium")
def test_the_page_finds_the_heart_and_gives_the_explainers_map(tmp_path):
    list(run(CONFIG, tmp_path / "page", False, False, RUNTIME))
    clip = cv2.VideoCapture(str(ASSETS / "demo.mp4"))
    clip.set(cv2.CAP_PROP_POS_FRAMES, 105)
    picture = clip.read()[1][..., ::-1]
    jpeg = cv2.imencode(".jpg", picture[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 100])[1]
    (tmp_path / "camera.mjpeg").write_bytes(30 * jpeg.tobytes())
    cv2.imwrite(str(tmp_path / "heart.png"), picture[..., ::-1])
    words = [
        "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream", "--no-sandbox",
        "--disable-gpu", f"--use-file-for-fake-video-capture={tmp_path / 'camera.mjpeg'}",
    ]  # fmt: skip
    asked, faults = [], []
    with serving_files(tmp_path / "page") as (site, server), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=words, timeout=LONG_MS)
        context = browser.new_context(viewport={"width": 390, "height": 844})
        context.set_default_timeout(LONG_MS)
        context.add_init_script(KEEP_REPLIES)
        page = context.new_page()
        context.on("request", lambda one: asked.append(one.url.removeprefix("blob:")))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(site)
        page.wait_for_selector("#controls:enabled")
        page.click("#camera")
        until(page, "document.querySelector('#said').innerText.includes('heart')")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert agreement(page.evaluate(NEWEST), picture) > 0.99
        page.set_input_files("#file", tmp_path / "heart.png")
        until(page, "!document.querySelector('#turn').checkVisibility()")
        page.click("#classes button:nth-child(2)")
        until(page, "(replies.at(-1)?.target ?? null) !== null")
        assert agreement(page.evaluate(NEWEST), picture) > 0.999
        with serving_files(tmp_path, Access_Control_Allow_Origin="*") as (elsewhere, _):
            sent = f"fetch('{elsewhere}heart.png').then(() => 'sent', () => 'refused')"
            assert page.evaluate(sent) == page.workers[0].evaluate(sent) == "refused"
            code = re.search(r"```js\n(.*?)```", DOCUMENT.read_text(), re.S)[1]
            (tmp_path / "snippet.html").write_text(SNIPPET.replace("CODE", code))
            shutil.copy(tmp_path / "page" / "explanation.onnx", tmp_path / "shapes.onnx")
            other = context.new_page()
            other.goto(elsewhere + "snippet.html")
            until(other, "window.found")
            scores, shape = other.evaluate("found")
            assert np.argmax(scores) == Engine(CONFIG).network.labels.index("heart")
            assert shape == [1, 128, 128]
        server.shutdown()
        server.server_close()
        page.reload()
        page.wait_for_selector("#controls:enabled")
        browser.close()
    assert faults == []
    assert [url for url in asked if not url.startswith((site, elsewhere))] == []
