"""The page in a real browser, on a desktop and on a phone: what a lecturer and the audience do."""

import io
import json
import os
import re
import shutil
import signal
import time
import urllib.request
from itertools import groupby

import av
import cv2
import media
import numpy as np
import pytest
import yaml

pytest.importorskip("playwright", reason="the extra test is not installed")
pytest.importorskip("uvicorn", reason="the extra serve is not installed")

from axe_playwright_python.sync_playwright import Axe
from galleries import gallery_file
from playwright.sync_api import expect, sync_playwright
from program import start
from served import TOKEN, Role, StandIn, serving_pages

from realtime_lrp import config
from realtime_lrp.commands.serve.messages import VisitorMap, join_message
from realtime_lrp.realtime.viewer.events import Clicked, LessonKey, Pointed
from realtime_lrp.realtime.viewer.lecture import INCLUDED
from realtime_lrp.view import keys

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DESKTOP = {"viewport": {"width": 1280, "height": 800}}
PHONE = {
    "viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "is_mobile": True,
    "has_touch": True,
}  # fmt: skip
LONG_S = 100.0  # how long is waited for what takes a second where the machine is idle
LOST = []  # requests of pages that got no answer
NOTE_NOTICES = """
  window.notices = [];
  addEventListener("DOMContentLoaded", () => {
    const notice = document.getElementById("notice");
    const note = () => notices.push(notice.textContent);
    if (notice) new MutationObserver(note).observe(notice, {childList: true});
  });
"""
"""Notices go after seconds, in which nobody may look on a busy machine."""

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")


def network(folder):
    """Options for a small network, whose channels have pictures in its second convolution."""
    import keras

    convolution = {"padding": "same", "activation": "relu"}
    model = keras.Sequential([keras.Input((64, 64, 3))])
    for name in ("first", "second"):
        model.add(keras.layers.Conv2D(8, 3, name=name, **convolution))
        model.add(keras.layers.MaxPooling2D())
    model.add(keras.layers.Flatten())
    model.add(keras.layers.Dense(5, activation="softmax"))
    model.save(folder / "small.keras")
    (folder / "names.txt").write_text("heart\nstar\ncup\nbottle\ntree\n")
    gallery = gallery_file(folder / "gallery.concepts", "second", 8)
    words = ("--model", folder / "small.keras", "--labels", folder / "names.txt")
    return (*words, "--preprocess", "tf", "--gallery", gallery)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The program as a user starts it, on the included clip; the address that it prints."""
    folder = tmp_path_factory.mktemp("serve")
    stats, clip = folder / "stats.json", media.slowed(config.ASSETS / "demo.mp4", folder / "c.mp4")
    words = ("--source", clip, "--target", "top1", *network(folder))
    with start("serve", *words, "--port", "0", "--stats", stats, DISPLAY="") as process:
        printed = process.stdout.readline().strip()
        assert printed, process.stderr.read()
        yield printed
        process.send_signal(signal.SIGINT)
        assert process.wait(300) == 0
        told = process.stderr.read()
    assert "Traceback" not in told and "token" not in told
    figures = json.loads(stats.read_text())
    captured, shown, dropped = (figures[f"frames_{n}"] for n in ("captured", "shown", "dropped"))
    assert shown > 0 and 0 <= captured - shown - dropped <= 2 and figures["maps"] > 0


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Headless Chromium; the included clip is before its camera."""
    film = tmp_path_factory.mktemp("camera") / "clip.mjpeg"
    clip = cv2.VideoCapture(str(config.ASSETS / "demo.mp4"))
    film.write_bytes(b"".join(cv2.imencode(".jpg", clip.read()[1])[1] for _ in range(90)))
    camera = "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"
    words = [*camera, "--disable-gpu", f"--use-file-for-fake-video-capture={film}"]
    if not os.geteuid():
        words.append("--no-sandbox")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=CHROMIUM, args=words, timeout=1000 * LONG_S
        )
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def open_page(browser):
    """Opens pages; none may complain, or ask another server for anything."""
    faults = []

    def open_page(address, **options):
        context = browser.new_context(**options)
        context.set_default_timeout(1000 * LONG_S)
        context.add_init_script(NOTE_NOTICES)
        page, own = context.new_page(), ("blob:", f"http://{address.split('/')[2]}/")
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda said: said.type == "error" and faults.append(said.text))
        page.on("request", lambda asked: asked.url.startswith(own) or faults.append(asked.url))
        page.on("requestfailed", lambda lost: LOST.append(f"{lost.url} ({lost.failure})"))
        page.goto(address)
        return page

    expect.set_options(timeout=1000 * LONG_S)
    yield open_page
    for context in browser.contexts:
        context.close()
    expected = (
        "net::ERR_CONNECTION_", "net::ERR_SOCKET_NOT_CONNECTED", "net::ERR_EMPTY_RESPONSE",
        "before receiving a handshake response", "Unexpected response code: 50",  # a server ends
        "Authentication failed", "401 (Unauthorized)",
    )  # fmt: skip
    assert [fault for fault in faults if not any(text in fault for text in expected)] == []


@pytest.fixture
def visit(open_page):
    contexts = []

    def open_for_test(address, **options):
        page = open_page(address, **options)
        contexts.append(page.context)
        return page

    yield open_for_test
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def page(open_page, address):
    """The page of who controls, with its first map; each test leaves the view as it was."""
    opened = open_page(address, **DESKTOP)
    ready(opened)
    return opened


@pytest.fixture(scope="class")
def watching(open_page, page):
    opened = open_page(page.get_attribute("#watch", "href"), **PHONE)
    ready(opened)
    yield opened
    opened.context.close()


def ready(page):
    """Waits for pictures and maps; the token is not on the screen."""

    def counts(figure):
        return float(page.get_attribute("#figures", f"data-{figure}") or 0) > 0

    for figure in ("maps", "shown", "latency"):
        until(page, lambda name=figure: counts(name), f"no {figure}")
    expect(page.locator("#answers .bar")).to_have_count(3)
    assert size(page) == [640, 480] and "token" not in page.url


def noticed(page, text):
    """Waits until a notice has been shown since the last call, however briefly."""
    until(page, lambda: any(text in notice for notice in page.evaluate("notices")))
    page.evaluate("notices.length = 0")


def pressed(page, button):
    return expect(page.locator(f"#{button}[aria-pressed=true]"))


def freeze(page):
    page.click("#freeze")
    pressed(page, "freeze").to_have_count(1)


def test_controls_choose_what_is_computed_and_drawn(page):
    page.select_option("#method", "gradient")
    expect(page.locator("#answers")).to_contain_text("gradient")
    expect(page.locator("#composite")).to_be_disabled()
    page.select_option("#method", "lrp")
    page.select_option("#composite", "epsilon")
    page.reload()
    expect(page.locator("#composite")).to_have_value("epsilon")
    ready(page)
    page.locator("#opacity").fill("0.3")
    noticed(page, "opacity: 0.3")
    page.select_option("#style", "contour")
    noticed(page, "contour")
    page.select_option("#composite", "epsilon_plus_flat")


def test_a_class_is_found_by_its_name_and_a_wrong_one_gets_a_sentence(page):
    offered = page.eval_on_selector_all("#targets option", "all => all.map(one => one.value)")
    assert {"all", "top1", "heart", "star"} <= set(offered)
    page.fill("#target", "heart - star")
    page.press("#target", "Enter")
    expect(page.locator("#answers .legend")).to_contain_text("for “heart”")
    page.fill("#target", "haert")
    page.press("#target", "Enter")
    noticed(page, "Did you mean 'heart'?")
    expect(page.locator("#target")).to_have_value("heart - star")
    page.fill("#target", "top1")
    page.press("#target", "Enter")
    expect(page.locator("#answers")).to_contain_text("why: ")


def test_keys_work_as_in_the_window_but_not_while_somebody_types(page):
    page.keyboard.down(" ")
    page.keyboard.down(" ")  # it is held, and repeats
    page.keyboard.up(" ")
    pressed(page, "freeze").to_have_count(1)
    page.locator("#target").focus()
    page.keyboard.type("f")
    page.locator("#view").focus()
    page.keyboard.press("q")
    page.keyboard.press(" ")
    pressed(page, "freeze").to_have_count(0)
    page.keyboard.press("p")
    pressed(page, "tiled").to_have_count(1)
    until(page, lambda: size(page) == [1280, 720])
    page.keyboard.press("p")
    page.click("#help")
    expect(page.locator("#commands")).to_contain_text("several maps side by side")
    assert [text for text in page.locator("#commands kbd").all_inner_texts() if text] == [
        keys.key_text([key for key in one.keys if key not in ("F5", "F11")])  # the browser's own
        for one in (*keys.KEYED, *keys.CLICKER)
        if one.action not in ("escape", "quit")
    ]
    page.keyboard.type("text large")
    expect(page.locator(".key")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.locator("#box")).not_to_be_visible()
    expect(page.locator("html")).to_have_attribute("data-text", "large")
    page.keyboard.press("/")
    page.keyboard.type("medium")
    page.locator(".key").filter(has_text="medium text").click()
    expect(page.locator("html")).to_have_attribute("data-text", "medium")


def test_patches_are_painted_with_the_mouse_and_removed(page):
    freeze(page)
    box = page.locator("#view").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    before = middle(page)
    page.mouse.move(x - 20, y)
    page.mouse.down()
    page.mouse.move(x + 20, y, steps=5)
    page.mouse.up()
    expect(page.locator("#uncover")).to_be_enabled()
    until(page, lambda: np.abs(middle(page) - before).max() > 20)
    small = page.locator("#brush").bounding_box()
    assert abs(small["x"] + small["width"] / 2 - x - 20) < 2
    done(page, "larger brush")  # a larger brush leaves nothing at the edges
    page.mouse.move(x - 60, y)
    page.mouse.down(button="right")
    page.mouse.move(x + 60, y, steps=9)
    page.mouse.up(button="right")
    expect(page.locator("#uncover")).to_be_disabled()
    until(page, lambda: page.locator("#brush").bounding_box()["width"] > 1.2 * small["width"])
    done(page, "smaller brush")
    page.mouse.click(x, y)
    page.click("#uncover")
    expect(page.locator("#uncover")).to_be_disabled()
    page.click("#freeze")


def test_a_rectangle_on_the_page_is_seen_alone(page):
    box = page.locator("#view").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.keyboard.down("Shift")
    page.mouse.move(x + 40, y + 30)
    page.mouse.down()
    page.mouse.move(x - 20, y - 10, steps=4)
    outline = page.locator("#brush").bounding_box()
    assert abs(outline["x"] - x + 20) < 3 and abs(outline["width"] - 60) < 4
    page.mouse.up()
    page.keyboard.up("Shift")
    expect(page.locator("#notice")).to_contain_text("seen alone")
    page.keyboard.press("z")
    expect(page.locator("#notice")).to_contain_text("let go")
    expect(page.locator("#uncover")).to_be_disabled()


def done(page, words):
    page.keyboard.press("h")
    page.keyboard.type(words)
    page.keyboard.press("Enter")


FOCUS_LARGEST = """() => {
  const share = (row) => Math.abs(parseInt(row.querySelector(".percent").textContent)) || 0;
  const rows = [...document.querySelectorAll("#concept-rows button")];
  const row = rows.reduce((one, other) => (share(other) > share(one) ? other : one));
  row.focus();
  return row.querySelector(".name").textContent;
}"""
"""Focuses the row with the largest share, which stays when a frozen picture sorts the rows; in one
step, as rows are replaced at any time. Returns its name."""


def pixel(page, x, y):
    code = "([x, y]) => [...view.getContext('2d').getImageData(x, y, 1, 1).data]"
    return np.array(page.evaluate(code, [x, y])[:3])


def size(page):
    return page.evaluate("(({width, height}) => [width, height])(document.getElementById('view'))")


def middle(page):
    """The middle of the picture, int [100, 100, 4]."""
    code = "[...view.getContext('2d').getImageData(270, 190, 100, 100).data]"
    return np.array(page.evaluate(code)).reshape(100, 100, 4)


def until(page, condition, missing=""):
    """Waits until something holds; else it says what the page shows, and what got no answer."""
    end = time.monotonic() + LONG_S
    while not condition():
        if time.monotonic() > end:
            shown = [page.inner_text(f"#{name}") for name in ("notice", "figures")]
            raise AssertionError(f"waited in vain: {missing or condition}; {shown}; {LOST}")
        page.wait_for_timeout(50)


class TestTheAudience:
    """Who only watches, on a phone, while another page controls."""

    def test_channels_have_rows_that_can_be_followed(self, page, watching):
        page.click("#concepts")
        rows = page.locator("#concept-rows button")
        expect(rows).to_have_count(4)
        pressed(page, "concepts").to_have_count(1)
        expect(rows.first.locator(".name")).to_contain_text("channel ")
        expect(rows.first.locator(".percent")).to_contain_text(" %")
        expect(page.locator("#concept-rows .examples:visible")).to_have_count(4)
        canvas = "document.querySelector('#concept-rows canvas')"
        first_map = f"[...{canvas}.getContext('2d').getImageData(0, 0, {canvas}.width, 100).data]"
        until(page, lambda: np.std(page.evaluate(first_map)) > 10)
        freeze(page)
        name = page.evaluate(FOCUS_LARGEST)
        page.keyboard.press("Enter")
        followed = page.locator("#concept-rows button[aria-pressed=true]")
        expect(followed).to_have_text(re.compile(re.escape(name)))
        expect(watching.locator("#concept-rows button[aria-pressed=true]")).to_have_count(1)
        assert watching.evaluate("document.documentElement.scrollWidth") == 390
        watching.locator("#concept-rows button").first.click(force=True)
        expect(followed).to_be_focused()
        expect(followed).to_have_attribute("aria-disabled", "false")
        page.keyboard.press("Enter")
        expect(followed).to_have_count(0)
        layers = page.locator("#concept-layer option")
        expect(layers.filter(has_text="no pictures")).to_have_count(1)
        expect(layers.last).to_have_text("second")
        page.select_option("#concept-layer", "first")
        expect(page.locator("#concept-title")).to_have_text("Channels of first")
        page.select_option("#concept-layer", "second")
        expect(rows).to_have_count(4)
        page.click("#concepts")
        expect(page.locator("#concept-rows")).to_be_hidden()
        expect(watching.locator("#concept-rows")).to_be_hidden()
        page.click("#freeze")

    def test_the_audience_watches_and_has_no_controls(self, page, watching):
        page.click("#show-code")

        def read():
            shown = np.frombuffer(page.locator("#code-picture").screenshot(), np.uint8)
            return media.code_in(cv2.imdecode(shown, 1))

        until(page, lambda: read() == page.get_attribute("#watch", "href"))
        expect(page.locator("#code-address")).to_have_text(page.get_attribute("#watch", "href"))
        warning = page.locator("#code-warning")
        expect(warning).to_contain_text("Only this machine opens that address")
        page.keyboard.press("Escape")
        expect(watching.locator("#controls")).to_be_hidden()
        watching.keyboard.press(" ")
        freeze(page)
        page.click("#freeze")
        pressed(page, "freeze").to_have_count(0)

    def test_a_phone_of_the_audience_shows_all_on_one_screen(self, watching):
        expect(watching.locator(".headline")).to_be_visible()
        boxes = watching.evaluate(
            "['#view', '.headline', '#camera'].map(one => document.querySelector(one))"
            ".map(one => one.getBoundingClientRect().toJSON())"
        )  # at once: bars are replaced with each answer
        edges = [edge for box in boxes for edge in (box["top"], box["bottom"])]
        assert edges == sorted(edges) and edges[0] >= 0 and edges[-1] <= 844
        assert (boxes[0]["width"], boxes[0]["height"]) == (390, 390), "what the network sees"
        assert boxes[1]["height"] > 44
        assert watching.evaluate("document.documentElement.scrollHeight") == 844
        assert watching.locator("button:visible").count() == 1

    def test_a_phone_explains_what_is_before_its_own_camera(self, page, watching):
        phone = watching
        page.click("#concepts")
        expect(phone.locator("#concept-rows button")).to_have_count(4)
        phone.tap("#camera")
        expect(phone.locator("#figures")).to_contain_text("this device's camera")
        expect(phone.locator("#film")).to_be_hidden()
        expect(phone.locator("#concept-rows")).to_be_hidden()
        expect(page.locator("#concept-rows button")).to_have_count(4)
        until(phone, lambda: float(phone.get_attribute("#figures", "data-maps")) > 0)
        expect(phone.locator("#answers .bar")).to_have_count(3)
        before = pixel(phone, 320, 240)
        until(phone, lambda: np.abs(pixel(phone, 320, 240) - before).max() > 3)
        expect(phone.locator("#concept-rows")).to_be_hidden()
        phone.tap("#camera")
        phone.tap("#camera")  # its first pictures are not the first of this connection
        expect(phone.locator("#figures")).to_contain_text("no map yet")
        expect(phone.locator("#figures")).to_contain_text(re.compile(r"the map is [\d.]+ m?s old"))
        freeze(page)
        phone.tap("#camera")
        until(phone, lambda: np.array_equal(middle(phone), middle(page)))
        expect(phone.locator("#concept-rows button")).to_have_count(4)
        page.click("#freeze")
        expect(phone.locator("#figures")).to_contain_text("from camera to screen")
        page.click("#concepts")
        expect(phone.locator("#concept-rows")).to_be_hidden()


def test_a_snapshot_and_its_raw_maps_are_downloaded(page):
    freeze(page)
    with page.expect_download() as picture:
        page.keyboard.press("s")
    data = np.frombuffer(picture.value.path().read_bytes(), np.uint8)
    assert cv2.imdecode(data, 1).shape == (480, 640, 3)
    assert picture.value.suggested_filename.endswith(".png")
    with page.expect_download() as maps:
        page.click("#data")
    with np.load(io.BytesIO(maps.value.path().read_bytes())) as arrays:
        assert arrays["relevance"].shape == (64, 64, 3) and arrays["picture"].shape[2] == 3
    page.click("#freeze")


def violations(page):
    found = Axe().run(page).response["violations"]
    return [(one["id"], [node["html"] for node in one["nodes"]]) for one in found]


def test_the_page_is_accessible(page):
    page.click("#concepts")
    expect(page.locator("#concept-rows button")).to_have_count(4)
    assert violations(page) == []
    page.click("#help")
    assert violations(page) == []
    page.keyboard.press("Escape")
    page.click("#concepts")
    expect(page.locator("#concept-rows")).to_be_hidden()


def test_beside_the_channels_the_picture_keeps_65_percent_of_the_width(page):
    page.click("#concepts")
    expect(page.locator("#concept-rows button")).to_have_count(4)
    width = "Math.min(view.clientWidth, view.clientHeight * 640 / 480)"
    root = "(one => [one.scrollWidth, one.scrollHeight])(document.scrollingElement)"
    for screen in ((1920, 1080), (1280, 720), (960, 600), (640, 480)):
        page.set_viewport_size({"width": screen[0], "height": screen[1]})
        if screen[0] < 960:
            page.keyboard.press("f")
        until(page, lambda screen=screen: page.evaluate(root) == [*screen])
        until(page, lambda least=0.65 * screen[0] - 0.5: page.evaluate(width) >= least)
    page.keyboard.press("f")
    page.set_viewport_size(DESKTOP["viewport"])
    page.click("#concepts")
    expect(page.locator("#concept-rows")).to_be_hidden()


def test_a_small_laptop_shows_all_controls_without_scrolling(page):
    page.set_viewport_size({"width": 1280, "height": 657})
    overflow = "(one => one.scrollHeight - one.clientHeight)(document.getElementById('side'))"
    until(page, lambda: page.evaluate("document.documentElement.scrollHeight") == 657)
    assert page.evaluate(overflow) <= 0
    page.set_viewport_size(DESKTOP["viewport"])


def test_on_a_phone_everything_is_within_reach_of_a_thumb(visit, address):
    phone = visit(address, **PHONE)
    ready(phone)
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390
    heights = phone.eval_on_selector_all(
        "#controls button", "all => all.map(one => one.getBoundingClientRect().height)"
    )
    assert min(heights) >= 44
    phone.tap("#view")
    phone.tap("#paint")
    phone.tap("#view")
    expect(phone.locator("#uncover")).to_be_enabled()
    phone.tap("#uncover")
    phone.tap("#paint")
    assert violations(phone) == []


NEWS = {
    "type": "news", "left": [], "right": [], "panels": [], "trouble": "", "notice": "",
    "frozen": False, "loading": "", "maps": 1.0, "timeline": None, "brush": 0.1, "look": {},
    "region": [0, 0, 1, 1], "text_size": "medium",
}  # fmt: skip

OFFERED = {"type": "choices", "methods": [], "composites": [], "look": [], "targets": [],
           "commands": [("Space", "freeze the picture", "freeze", ["space"])]}  # fmt: skip


def test_what_the_mouse_is_over_and_where_a_finger_taps_is_said(visit):
    with serving_pages() as served:
        served.exchange.say("choices", json.dumps(OFFERED))
        served.exchange.say("news", json.dumps(NEWS | {"points": True}))

        def place(**options):
            page = visit(f"http://127.0.0.1:{served.port}/?token={TOKEN}", **options)
            until(page, lambda: (served.publish(200), size(page) == [64, 48])[1])
            box = page.locator("#view").bounding_box()
            scale = min(box["width"] / 64, box["height"] / 48)
            return page, (box["x"] + box["width"] / 2 + 20 * scale, box["y"] + box["height"] / 2)

        def said(kind):
            return [one.at for one in served.messages if isinstance(one, kind)]

        page, at = place(**DESKTOP)
        page.mouse.move(*at)
        until(page, lambda: (52, 24) in said(Pointed))
        page.mouse.move(0, 0)
        until(page, lambda: said(Pointed)[-1] is None)
        phone, at = place(**PHONE)
        phone.touchscreen.tap(*at)
        until(phone, lambda: said(Clicked) == [(52, 24)])


def test_controls_wait_for_the_network_and_the_page_comes_back_with_the_server(visit):
    news = NEWS | {"loading": "loading vgg16", "maps": 0.0}
    with serving_pages() as served:
        page = visit(f"http://127.0.0.1:{served.port}/?token={TOKEN}", **DESKTOP)
        expect(page.locator("#freeze")).to_be_disabled()
        served.exchange.say("choices", json.dumps(OFFERED))
        until(page, lambda: served.exchange.picture_wanted)
        served.exchange.say("news", json.dumps(news))
        expect(page.locator("#controls-notice")).to_contain_text("loading vgg16")
        expect(page.locator("#figures")).to_contain_text("- pictures/s · 0 maps/s · - ms")
        page.keyboard.press(" ")
        expect(page.locator("#freeze")).to_be_disabled()
        served.exchange.say("news", json.dumps(news | {"loading": ""}))
        expect(page.locator("#freeze")).to_be_enabled()
        assert not served.messages
        figures = page.locator("#figures")
        until(page, lambda: (served.publish(200), "- ms" not in figures.inner_text())[1])
        served.exchange.say("news", json.dumps(news | {"loading": "", "trouble": "lost"}))
        expect(page.locator("#figures")).to_contain_text("- ms")
    expect(page.locator("#freeze")).to_be_disabled()
    expect(page.locator("#notice")).to_contain_text("The view was ended")
    with serving_pages(served.port) as served:
        until(page, lambda: served.exchange.picture_wanted)
        served.publish(200)
        until(page, lambda: pixel(page, 5, 5).min() > 150)
        expect(page.locator("#notice")).to_have_text("")
    with serving_pages(served.port, token="the-token-of-another-start"):
        expect(page.locator("#notice")).to_contain_text("scan the code again")
    for old in ("#view", "#answers"):
        assert page.eval_on_selector(old, "one => getComputedStyle(one).opacity") == "0.4"
    page.close()


def test_the_bar_seeks_in_a_film_that_stands_still_or_runs(page):
    expect(page.locator("#film-length")).to_have_text("0:20")
    freeze(page)
    before = middle(page)
    slider = page.locator("#seek")
    late = float(slider.input_value()) > 0.55  # then the picture may be as at 0:16
    slider.fill("0.3" if late else "0.8")
    expect(page.locator("#film-position")).to_have_text("0:06" if late else "0:16")
    until(page, lambda: np.abs(middle(page) - before).max() > 20)
    page.click("#freeze")
    pressed(page, "freeze").to_have_count(0)


@pytest.mark.release
def test_a_film_is_recorded_in_the_browser(page):
    page.keyboard.press("r")
    pressed(page, "record").to_have_count(1)
    page.evaluate("""() => {
      const draw = CanvasRenderingContext2D.prototype.drawImage;
      window.drawn = 0;
      CanvasRenderingContext2D.prototype.drawImage = function (...words) {
        drawn++;
        draw.apply(this, words);
      };
    }""")
    until(page, lambda: page.evaluate("drawn") > 9)
    with page.expect_download() as downloaded:
        page.click("#record")
    with av.open(downloaded.value.path()) as film:
        frames = [frame.to_ndarray(format="rgb24") for frame in film.decode(video=0)]
    assert len(frames) > 3 and frames[-1].shape == (480, 640, 3) and frames[-1].std() > 20
    pressed(page, "record").to_have_count(0)


@pytest.mark.release
def test_a_camera_goes_on_when_answers_stop_and_when_the_server_is_started_again(visit):

    def reply(number, jpeg):
        return join_message(VisitorMap(number, f"no map {number}"))

    with serving_pages(visitors=StandIn(reply)) as served:
        visitors, port = served.visitors, served.port
        phone = visit(f"http://127.0.0.1:{port}/?token={TOKEN}", **PHONE)
        phone.tap("#camera")
        until(phone, lambda: len(visitors.pictures) > 5)
        expect(phone.locator("#figures")).to_contain_text("no map yet")
        visitors.reply = None
        phone.wait_for_timeout(100)
        before = len(visitors.pictures)
        until(phone, lambda: len(visitors.pictures) > before + 1)
        visitors.reply = reply
        until(phone, lambda: len(visitors.pictures) > before + 9)
    with serving_pages(port, visitors=StandIn(reply)) as served:
        until(phone, lambda: len(served.visitors.pictures) > 5)
        expect(phone.locator("#camera-notice")).to_contain_text("no map")
    phone.close()


def test_buttons_of_a_lesson_are_held_or_tapped(visit):
    classes = [["1", "cup", 7], ["0", "nothing", 0]]
    lesson = {"classes": classes, "shown": "cup", "doing": "", "last": "cup"}
    with serving_pages() as served:
        served.exchange.say("news", json.dumps(NEWS | {"lesson": lesson}))
        address = f"http://127.0.0.1:{served.port}/?token="
        page = visit(address + TOKEN, **PHONE)
        watcher = visit(address + served.tokens[Role.WATCH], **PHONE)
        expect(watcher.locator("#lesson")).to_be_hidden()
        cup, nothing = page.locator("#lesson li button").all()
        expect(cup).to_have_attribute("aria-pressed", "true")
        expect(cup).to_have_text("1cup7")

        page.clock.pause_at(time.time() + 1000)  # else a tap may take as long as a press
        heard = []

        def hears(*changes):
            page.clock.run_for(500)  # longer than a tap, and than between two messages
            heard.extend(changes)
            until(page, lambda: held() == heard)

        def held():
            pressed = [(one.key, one.down) for one in served.messages if isinstance(one, LessonKey)]
            return [change for change, _ in groupby(pressed)]

        cup.tap()
        hears(("1", True))
        until(page, lambda: len(served.messages) >= 5)
        nothing.tap()
        hears(("1", False), ("0", True))
        nothing.tap()
        hears(("0", False))
        nothing.hover()
        page.mouse.down()
        hears(("0", True))
        page.mouse.up()
        hears(("0", False))
        page.keyboard.down("1")
        hears(("1", True))
        page.keyboard.up("1")
        page.tap("#lesson [data-key=BackSpace]")
        hears(("1", False), ("BackSpace", True))


@pytest.mark.release
def test_a_clicker_plays_the_lecture_to_its_end(visit, tmp_path):
    words = ("--source", "synthetic", *network(tmp_path), "--set", "live.lecture=de")
    with start("serve", *words, "--port", "0", DISPLAY="") as process:
        page = visit(process.stdout.readline().strip(), **DESKTOP)
        expect(page.locator("#controls")).to_be_enabled()
        expect(page.locator("#freeze")).to_have_text("Anhalten")
        expect(page.locator("#camera")).to_have_text("Kamera dieses Geräts benutzen")
        page.click("#fill")
        for step in yaml.safe_load(INCLUDED["de"].read_text()):
            expect(page.locator("#answers")).to_contain_text(step["say"])
            page.keyboard.press("PageDown")
        until(page, lambda: size(page) == [1280, 720])
        process.send_signal(signal.SIGINT)
        assert process.wait(300) == 0
        page.context.close()


def test_the_bare_view_fills_the_screen_for_obs(visit, address):
    page = visit(address.replace("/?", "/view?"), **DESKTOP)
    until(page, lambda: pixel(page, 5, 5).sum() > 0)
    box = page.locator("#view").bounding_box()
    assert (box["width"], box["height"]) == (1280, 800)
    assert page.inner_text("body").strip() == ""
    with urllib.request.urlopen(address.replace("/?", "/figures?")) as answer:
        figures = json.load(answer)
    assert set(figures) >= {"frames_shown", "maps", "map_age_ms", "display_fps", "device"}


FOLLOWED = """async ([then, steps]) => {
  const { follow } = await import("./device.js");
  const part = { box: [30 / 96, 25 / 72, 50 / 96, 45 / 72], shift: [0, 0] };
  return steps.map((now) => [follow(part, then, now), 96 * part.shift[0], 72 * part.shift[1]]);
}"""


def test_boxes_over_a_visitors_camera_follow_its_picture(page):
    this, other = np.random.default_rng(3).integers(0, 256, (2, 20, 20))
    for bright in (1, 0.3):

        def picture(x, y, texture=this, bright=bright):
            drawn = np.full((72, 96), 90.0)
            drawn[y : y + 20, x : x + 20] = texture
            return (bright * drawn).ravel().tolist()

        steps = [picture(33, 23), picture(37, 26), picture(37, 26, 90), picture(37, 26, other)]
        near, far, *cuts = page.evaluate(FOLLOWED, [picture(30, 25), steps])
        assert (near, far) == ([True, 3, -2], [True, 7, 1])
        assert [found for found, *_ in cuts] == [False, False]
