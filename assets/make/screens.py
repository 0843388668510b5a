"""Films the live viewer and photographs the exhibit; `demo.mp4` stands for the camera."""

import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from realtime_lrp import config
from realtime_lrp.commands.kiosk.loop import Exhibit
from realtime_lrp.commands.live.run import run as run_live
from realtime_lrp.errors import UnavailableError
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.system.files import atomic_file
from realtime_lrp.video.libraries import cv2
from realtime_lrp.video.pictures import write_picture
from realtime_lrp.video.reader import VideoReader
from realtime_lrp.video.source import Source
from realtime_lrp.video.sources import SOURCES
from realtime_lrp.view.arrangement import arrange, scaled_box
from realtime_lrp.view.hud import figure_size
from realtime_lrp.view.tiles import contact_sheet
from realtime_lrp.view.window import Mouse, NullWindow

CLIP_FPS = 30

FILM_SIZE = (540, 960)
"""Rows and columns of the film of the live viewer."""

FILM_FPS = 8
SETTLING_S = 20.0
"""Seconds after the start until film or photographs begin; by then the network is loaded."""

SLOWNESS = 3
"""How many times longer each second of a script takes, for maps to keep up on a busy machine."""

FILM_BEGINS = 245
"""The picture of the clip with which the film begins: a fish comes, then a star."""

PHOTO = "photo"


def typed(second: float, words: str) -> list[tuple[float, str]]:
    """The keys that find a command in the box and do it."""
    letters = ("space" if letter == " " else letter for letter in words)
    return [(second, key) for key in ("h", *letters, "Return")]


VIEWS = (
    (0.0, PHOTO), (0.5, "u"), (5.0, PHOTO), (5.2, "p"), (15.0, PHOTO), (15.1, "p"),
    (15.3, "v"), *typed(15.4, "what this method shows"), (25.0, PHOTO), (25.1, "q"), (25.2, "q"),
)  # fmt: skip
"""Keys of the photographs of the live viewer, each with its second. Maps need some seconds."""

NETWORKS = ((20.0, PHOTO), (20.1, "q"), (20.2, "q"))
"""The same of two networks side by side: each explains its best answer."""

VIEWS_FRAME = 110
"""The picture of the clip that they show: a heart."""

PANEL, PANEL_FRAME, PANEL_SIZE = ((15.0, PHOTO), (15.1, "q"), (15.2, "q")), 190, (720, 1280)
"""The same of the panel of concepts, the picture of the clip (a house), rows and columns."""

VIEW_SIZE = (540, 960)
"""Rows and columns of each of them."""

STEPS = (3.8, 7.0, 9.6, 11.8, 14.8)
"""The second of the film at which each further step of the lecture begins."""

FILM_ENDS = 17.6

PATCHES = ((0.54, 0.56), (0.66, 0.66), (0.42, 0.67), (0.46, 0.83), (0.61, 0.83))
"""Where its second step covers the star: shares of the picture's width and height."""

EXHIBIT_SIZE = (720, 1280)
"""Rows and columns of the pictures of the exhibit."""

LANGUAGE_KEYS = {"attract": "1", "active": "2", "idle": "3", "card (camera)": "5"}
"""State of the exhibit -> the key that is pressed in it, which chooses a language."""

WAITS_S = {"attract": 3.0, "active": 1.5, "idle": 1.5, "card (camera)": 1.5}
"""State of the exhibit -> how long it has lasted when its picture is taken."""

SETTLED_S = 0.7
"""Seconds for which the answer has been the same when a picture is taken: the bar has grown."""

ANSWERS = {"attract": "house", "active": "heart", "card (camera)": "star"}
"""State of the exhibit -> the answer that it shows when its picture is taken."""


def film_script() -> list[tuple[float, str | Mouse]]:
    """The keys and clicks of the film, each with its second: a clicker plays the lecture.

    Before the film begins it goes to the end and back: all maps are prepared then.
    """
    clip = (480, 640)
    (picture,) = arrange(FILM_SIZE, clip, None, 0, True, figure_size(*FILM_SIZE)).pictures
    before = [-8.0 * number for number in range(len(STEPS) + 1, 1, -1)]
    clicks = [
        Mouse(*scaled_box((round(x * clip[1]), round(y * clip[0])) * 2, clip, picture)[:2], "left")
        for x, y in PATCHES
    ]
    return [
        *((second, "Page_Down") for second in before), *((-3.0, "Page_Up") for _ in STEPS),
        (STEPS[0], "Page_Down"),
        *((STEPS[0] + 0.3 + 0.5 * number, click) for number, click in enumerate(clicks)),
        *((second, "Page_Down") for second in STEPS[1:]),
        (FILM_ENDS, "q"), (FILM_ENDS + 0.1, "q"),
    ]  # fmt: skip


class ScriptedWindow:
    """A window whose keys and clicks a script sends.

    Args:
      size: rows and columns.
      script: seconds from the beginning, and what happens then.
      settling_s: seconds of the script until the beginning.

    Attributes:
      canvas: what is shown.
    """

    closed = False

    def __init__(
        self, size: tuple[int, int], script: Sequence[tuple[float, str | Mouse]], settling_s: float
    ):
        self.size = size
        self.canvas = np.zeros((*size, 3), np.uint8)
        self._waiting = list(script)
        self._begins = time.monotonic() + SLOWNESS * settling_s

    def __enter__(self) -> "ScriptedWindow":
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    @property
    def seconds(self) -> float:
        """Seconds of the script from the beginning."""
        return (time.monotonic() - self._begins) / SLOWNESS

    def show(self, canvas: np.ndarray) -> None:
        """Keeps the canvas."""
        self.canvas = canvas.copy()

    def events(self) -> list[str | Mouse]:
        """What happens now."""
        due = []
        while self._waiting and self._waiting[0][0] <= self.seconds:
            due.append(self._waiting.pop(0)[1])
        return due


def film_viewer(folder: Path) -> None:
    """Films the lecture into `live.webp`."""
    canvases: list[np.ndarray] = []
    with VideoReader(folder / "demo.mp4") as reader:
        clip = [frame.picture for frame in reader]
    window = None

    class Film(ScriptedWindow):
        """Keeps a canvas at each time of the film."""

        def __enter__(self) -> "Film":
            nonlocal window
            window = self
            return self

        def events(self) -> list[str | Mouse]:
            while self.seconds >= len(canvases) / FILM_FPS:
                canvases.append(self.canvas)
            return super().events()

    class Clip(Source):
        """Plays the clip again and again; it starts anew when the film begins."""

        described = "clip"

        def read(self) -> np.ndarray | None:
            time.sleep(SLOWNESS / CLIP_FPS)
            seconds = window.seconds if window else 0.0
            return clip[(FILM_BEGINS + int(seconds * CLIP_FPS)) % len(clip)]

    SOURCES["clip"] = lambda _, stop: Clip(stop)
    options = {"--model": "shapes", "--source": "clip", "--lecture": "en"}
    settings = config.load(options=options, command="live").config
    run_live(settings, window=lambda: Film(FILM_SIZE, film_script(), 3 * SETTLING_S))
    _write_webp(folder / "live.webp", canvases)


def photograph_viewer(folder: Path) -> None:
    """Photographs the live viewer; needs `demo.mp4`.

    Its views go into `live_views.jpg`, two networks side by side into `live_networks.jpg`.
    """
    photos = _photographs(folder, VIEWS)
    _write_jpeg(folder / "live_views.jpg", contact_sheet(photos, columns=2))
    (both,) = _photographs(folder, NETWORKS, "live.also_models=[{name: shapes, weights: random}]")
    _write_jpeg(folder / "live_networks.jpg", both)


def photograph_panel(folder: Path) -> None:
    """Photographs the panel of concepts into `concepts.jpg`; needs `demo.mp4` and the gallery."""
    (photo,) = _photographs(folder, PANEL, "live.concepts=true", frame=PANEL_FRAME, size=PANEL_SIZE)
    _write_jpeg(folder / "concepts.jpg", photo)


def _photographs(
    folder: Path,
    script: Sequence[tuple[float, str | Mouse]],
    *assignments: str,
    frame: int = VIEWS_FRAME,
    size: tuple[int, int] = VIEW_SIZE,
) -> list[np.ndarray]:
    """The canvases of the live viewer at every key `PHOTO` of a script."""
    with VideoReader(folder / "demo.mp4") as reader:
        picture = next(one.picture for n, one in enumerate(reader) if n == frame)
    photos: list[np.ndarray] = []

    class Camera(ScriptedWindow):
        """Keeps the canvas at every key `PHOTO`."""

        def events(self) -> list[str | Mouse]:
            due = super().events()
            photos.extend(self.canvas for event in due if event == PHOTO)
            return [event for event in due if event != PHOTO]

    with tempfile.TemporaryDirectory() as shown:
        write_picture(Path(shown) / "frame.png", picture)
        options = {"--model": "shapes", "--source": shown}
        settings = config.load(sets=assignments, options=options, command="live").config
        run_live(settings, window=lambda: Camera(size, script, SETTLING_S))
    return photos


def photograph_exhibit(folder: Path) -> None:
    """Photographs the states of the exhibit into `kiosk.jpg` and `kiosk_states.jpg`.

    The camera shows the clip's first picture, then the clip, then nothing.
    """
    with VideoReader(folder / "demo.mp4") as reader:
        clip = [frame.picture for frame in reader]
    photos: dict[str, np.ndarray] = {}
    kiosk: Exhibit | None = None

    class Screen(NullWindow):
        """Keeps the canvas, and presses the key of a state once it is reached."""

        size = EXHIBIT_SIZE
        state, since, canvas = "", 0.0, np.zeros((*EXHIBIT_SIZE, 3), np.uint8)

        def show(self, picture: np.ndarray) -> None:
            self.canvas = picture

        def events(self) -> list[str | Mouse]:
            if kiosk is None or kiosk.described == self.state:
                return []
            self.state, self.since = kiosk.described, time.monotonic()
            return [LANGUAGE_KEYS[self.state]] if self.state in LANGUAGE_KEYS else []

    class ClipCamera(Source):
        """A camera that films the clip, with the noise of a sensor."""

        alive = steady = True

        def __init__(self, stop: threading.Event):
            super().__init__(stop)
            if "idle" in photos:
                raise UnavailableError("the camera is gone")
            self.number, self.rng = 0, np.random.default_rng(1)

        def read(self) -> np.ndarray | None:
            time.sleep(1 / CLIP_FPS)
            if "idle" in photos:
                return None
            self.number += "attract" in photos and self.number < len(clip) - 1
            self.number = 0 if "active" in photos else self.number
            noise = self.rng.integers(-3, 4, clip[0].shape)
            return np.clip(clip[self.number] + noise, 0, 255).astype(np.uint8)

    screen = Screen()
    settings = config.load(sets=("kiosk.idle_seconds=3",), command="kiosk").config
    kiosk = Exhibit(settings, screen, Stats("", ""), open_camera=ClipCamera)
    other_answer_at = time.monotonic()
    while len(photos) < len(LANGUAGE_KEYS):
        kiosk.step()
        state, now = screen.state, time.monotonic()
        if kiosk.answer != ANSWERS.get(state, ""):
            other_answer_at = now
        if state in LANGUAGE_KEYS and state not in photos:
            waited = now - screen.since > WAITS_S[state]
            if waited and now - other_answer_at > SETTLED_S:
                photos[state] = screen.canvas.copy()
    kiosk.end()
    _write_jpeg(folder / "kiosk.jpg", photos.pop("active"))
    half = (EXHIBIT_SIZE[1] // 2, EXHIBIT_SIZE[0] // 2)
    others = [cv2.resize(photo, half, interpolation=cv2.INTER_AREA) for photo in photos.values()]
    _write_jpeg(folder / "kiosk_states.jpg", contact_sheet(others, columns=3))


def _write_webp(path: Path, canvases: list[np.ndarray]) -> None:
    animation = cv2.Animation()
    animation.frames = [cv2.cvtColor(canvas, cv2.COLOR_RGB2BGR) for canvas in canvases]
    animation.durations = [1000 // FILM_FPS] * len(canvases)
    quality = [cv2.IMWRITE_WEBP_QUALITY, 55]
    with atomic_file(path, overwrite=True) as part:
        done, data = cv2.imencodeanimation(".webp", animation, quality)
        if not done:
            raise RuntimeError("the animation cannot be encoded")
        part.write_bytes(data.tobytes())


def _write_jpeg(path: Path, picture: np.ndarray) -> None:
    with atomic_file(path, overwrite=True) as part:
        bgr = cv2.cvtColor(picture, cv2.COLOR_RGB2BGR)
        part.write_bytes(cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, 80])[1].tobytes())
