"""Makes what lies in `assets/`: the network `shapes`, its figures, the demo clip, pictures.

`python assets/make/make_assets.py` does all of it; `network`, `measure`, `clip`,
`animation` or `kiosk` after it only what is named. The pictures measured are drawn from a seed
that training never uses.

Relevance maps here are float32 [N, H, W], summed over the colour channels; masks are bool
[N, H, W].
"""

import argparse
import json
import logging
import threading
import time
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from realtime_lrp.config import ASSETS
from realtime_lrp.models.drawing import CLASSES, NOTHING
from realtime_lrp.models.drawing.batch import Batch, draw_batches, with_margin
from realtime_lrp.system.atomic import atomic_file
from realtime_lrp.video.libraries import cv2
from realtime_lrp.video.writer import VideoWriter

if TYPE_CHECKING:
    from realtime_lrp.relevance.explainer import Explainer

logger = logging.getLogger(__name__)

STEPS = ("network", "measure", "clip", "animation", "kiosk")
HELD_OUT_SEED = 2027
HELD_OUT = 6400
CLIP_FPS = 30
ANIMATION = (540, 960)
ANIMATION_FPS = 8
"""Rows and columns, and pictures a second, of the film of the live viewer."""
SETTLED_S = 9.0
EXHIBIT = (720, 1280)
"""Rows and columns of the pictures of the exhibit."""


def main(words: list[str] | None = None) -> None:
    """The command line: which steps, and the folder to write to."""
    parser = argparse.ArgumentParser(prog="make_assets", description=__doc__.split("\n\n")[0])
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"of {', '.join(STEPS)}")
    parser.add_argument("-o", "--output", type=Path, default=ASSETS, help="the folder")
    given = parser.parse_args(words)
    unknown = set(given.steps) - set(STEPS)
    if unknown:
        parser.error(f"no such step: {', '.join(sorted(unknown))} (there are {', '.join(STEPS)})")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    steps = {
        "network": make_network,
        "measure": measure_network,
        "clip": make_clip,
        "animation": make_animation,
        "kiosk": make_kiosk,
    }
    for name in STEPS:
        if name in (given.steps or STEPS):
            steps[name](given.output)


def make_network(folder: Path) -> None:
    """Trains `shapes` and writes `shapes.keras` and, of `shapes.json`, how it was trained."""
    from train_shapes import STAGES, train

    start = time.monotonic()
    model = train()
    model.save(folder / "shapes.keras")
    seconds = round(time.monotonic() - start)
    stages = [{**asdict(plan), "pictures": plan.batches * plan.drawn} for plan in STAGES]
    _write(folder, {"classes": list(CLASSES), "training": {"stages": stages, "seconds": seconds}})
    logger.info("trained in %d s", seconds)


def measure_network(folder: Path) -> None:
    """Measures `shapes.keras` on pictures it has never seen, into `shapes.json`."""
    from realtime_lrp.models.untrusted.loading import load_model
    from realtime_lrp.relevance.explainer import Explainer

    model = load_model(folder / "shapes.keras")
    explainer = Explainer(model, composite="zplus", target="all")
    parts = 8
    batches = list(draw_batches(HELD_OUT_SEED, parts, HELD_OUT // parts, workers=2))
    held_out = Batch(*(np.concatenate(part) for part in zip(*map(_fields, batches), strict=True)))
    maps = {target: explain(explainer, held_out.pixels, target) for target in ("all", "top1")}
    figures: dict[str, Any] = {
        "held_out": {"seed": HELD_OUT_SEED, "pictures": len(held_out.labels)}
    }
    figures |= naming(maps["all"][0], held_out.labels)
    figures["pointing"] = {t: pointing(relevance, held_out) for t, (_, relevance) in maps.items()}
    _write(folder, figures)
    logger.info("accuracy %.4f, pointing %s", figures["accuracy"], figures["pointing"])


def make_clip(folder: Path) -> None:
    """Draws the demo clip into `demo.mp4`."""
    from clip import render_clip

    with (
        atomic_file(folder / "demo.mp4", overwrite=True) as part,
        VideoWriter(part, ".mp4", Fraction(CLIP_FPS), Fraction(1, CLIP_FPS)) as writer,
    ):
        for number, (frame, _, _) in enumerate(render_clip(fps=CLIP_FPS)):
            writer.write(frame, number)


def make_animation(folder: Path) -> None:
    """Films the live viewer on `demo.mp4`, keys pressed by a script, into `live.webp`."""
    from realtime_lrp import config
    from realtime_lrp.commands.live.run import run
    from realtime_lrp.view.window.window import Mouse

    rows, columns = ANIMATION
    patches = [
        Mouse(round(x * columns), round(y * rows), "left")
        for x, y in ((0.53, 0.56), (0.62, 0.66), (0.44, 0.67), (0.47, 0.83), (0.58, 0.83))
    ]
    script: list[tuple[float, str | Mouse]] = [
        (0.0, "t"), (3.5, "p"), (6.5, "p"), (7.0, "o"), (8.5, "o"), (8.6, "o"), (9.5, "a"),
        (11.5, "a"), (12.0, "f"), (12.1, "]"), (12.2, "]"),
        *((12.5 + 0.7 * number, patch) for number, patch in enumerate(patches)),
        (17.5, "q"),
    ]  # fmt: skip
    canvases: list[np.ndarray] = []
    opened = time.monotonic()

    class Filmed:
        """A window whose keys a script presses, once the rates have settled."""

        size, closed = ANIMATION, False

        def __init__(self) -> None:
            self.begun: float | None = None
            self.due = list(script)

        def __enter__(self) -> "Filmed":
            return self

        def __exit__(self, *exception: object) -> None:
            pass

        def show(self, canvas: np.ndarray) -> None:
            now = time.monotonic()
            if self.begun is not None and now - self.begun >= len(canvases) / ANIMATION_FPS:
                canvases.append(canvas.copy())

        def events(self) -> list[str | Mouse]:
            now = time.monotonic()
            if self.begun is None and now - opened > SETTLED_S:
                self.begun = now
            happened = []
            while self.begun is not None and self.due and now - self.begun >= self.due[0][0]:
                happened.append(self.due.pop(0)[1])
            return happened

    chosen = config.load(options={"--model": "shapes", "--source": str(folder / "demo.mp4")}).config
    run(chosen, window=Filmed)
    made = cv2.Animation()
    made.frames = [cv2.cvtColor(canvas, cv2.COLOR_RGB2BGR) for canvas in canvases]
    made.durations = [1000 // ANIMATION_FPS] * len(canvases)
    quality = [cv2.IMWRITE_WEBP_QUALITY, 60]
    with atomic_file(folder / "live.webp", overwrite=True) as part:
        done, data = cv2.imencodeanimation(".webp", made, quality)
        if not done:
            raise RuntimeError("the animation cannot be encoded")
        part.write_bytes(data.tobytes())


def make_kiosk(folder: Path) -> None:
    """Photographs the exhibit into `kiosk.jpg` and `kiosk_states.jpg`; `demo.mp4` is its camera.

    The camera shows the clip's first picture, then the clip, then nothing; keys choose languages.
    """
    from realtime_lrp import config
    from realtime_lrp.commands.kiosk.captions import captions_of
    from realtime_lrp.commands.kiosk.loop import Kiosk
    from realtime_lrp.commands.kiosk.null_window import NullWindow
    from realtime_lrp.errors import UnavailableError
    from realtime_lrp.realtime.stats import Stats
    from realtime_lrp.video.reader import VideoReader
    from realtime_lrp.video.source import Source
    from realtime_lrp.view.sheet import contact_sheet
    from realtime_lrp.view.window.window import Mouse

    with VideoReader(folder / "demo.mp4") as reader:
        clip = [frame.picture for frame in reader]
    taken: dict[str, np.ndarray] = {}
    keys = {"attract": "1", "active": "2", "idle": "3", "card (camera)": "5"}
    waits = {"attract": 3.0, "active": 1.5, "idle": 1.5, "card (camera)": 1.5}
    sees = {"attract": "house", "active": "heart", "card (camera)": "star"}

    class Screen(NullWindow):
        """Notes the canvas, and presses the key of a state once it is there."""

        size = EXHIBIT
        state, since, canvas = "", 0.0, np.zeros((*EXHIBIT, 3), np.uint8)

        def show(self, picture: np.ndarray) -> None:
            self.canvas = picture

        def events(self) -> list[str | Mouse]:
            if kiosk is None or kiosk.described == self.state:
                return []
            self.state, self.since = kiosk.described, time.monotonic()
            return [keys[self.state]] if self.state in keys else []

    class Film(Source):
        """The camera."""

        alive = steady = True

        def __init__(self, stop: threading.Event):
            super().__init__(stop)
            if "idle" in taken:
                raise UnavailableError("over")
            self.number, self.grain = 0, np.random.default_rng(1)

        def read(self) -> np.ndarray | None:
            time.sleep(1 / CLIP_FPS)
            self.number += "attract" in taken and self.number < len(clip) - 1
            self.number = 0 if "active" in taken else self.number
            grain = self.grain.integers(-3, 4, clip[0].shape)
            return (
                None
                if "idle" in taken
                else np.clip(clip[self.number] + grain, 0, 255).astype(np.uint8)
            )

    kiosk, screen = None, Screen()
    chosen = config.load(
        sets=("kiosk.idle_seconds=3", "kiosk.language_seconds=0"), options={"--model": "shapes"}
    ).config
    captions = captions_of(chosen)
    kiosk = Kiosk(chosen, captions, screen, Stats("", ""), open_camera=Film)
    while len(taken) < len(keys):
        kiosk.step()
        name = screen.state
        waited = time.monotonic() - screen.since > waits.get(name, 0.0)
        if name in keys and name not in taken and waited and kiosk.answer == sees.get(name, ""):
            taken[name] = screen.canvas.copy()
    kiosk.end()
    _write_jpeg(folder / "kiosk.jpg", taken.pop("active"))
    small = (EXHIBIT[1] // 2, EXHIBIT[0] // 2)
    others = [cv2.resize(one, small, interpolation=cv2.INTER_AREA) for one in taken.values()]
    _write_jpeg(folder / "kiosk_states.jpg", contact_sheet(others, columns=3))


def _write_jpeg(path: Path, picture: np.ndarray) -> None:
    with atomic_file(path, overwrite=True) as part:
        bgr = cv2.cvtColor(picture, cv2.COLOR_RGB2BGR)
        part.write_bytes(cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, 85])[1].tobytes())


def _fields(batch: Batch) -> tuple[np.ndarray, ...]:
    return batch.pixels, batch.mask, batch.silhouette, batch.labels


def _write(folder: Path, figures: dict[str, Any]) -> None:
    path = folder / "shapes.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**known, **figures}, indent=1) + "\n")


def explain(
    explainer: "Explainer", pixels: np.ndarray, target: str
) -> tuple[np.ndarray, np.ndarray]:
    """Explains pictures in batches.

    Args:
        explainer: An `Explainer` of a network that takes RGB 0..255.
        pixels: uint8 [N, H, W, 3] RGB.
        target: What is explained.

    Returns:
        Scores, float32 [N, classes], and relevance, float32 [N, H, W].
    """
    scores, maps = [], []
    for start in range(0, len(pixels), 32):
        part = explainer(pixels[start : start + 32].astype(np.float32), target=target)
        scores.append(np.asarray(part.scores))
        maps.append(np.asarray(part.relevance).sum(axis=-1))
    return np.concatenate(scores), np.concatenate(maps)


def naming(scores: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Accuracy, accuracy of each class, and the confusion matrix (row: true, column: named)."""
    count = len(CLASSES)
    confusion = np.zeros((count, count), int)
    np.add.at(confusion, (labels, scores.argmax(axis=1)), 1)
    each = confusion.diagonal() / confusion.sum(axis=1)
    return {
        "accuracy": round(float(confusion.trace() / confusion.sum()), 4),
        "accuracy_of_class": {n: round(float(a), 4) for n, a in zip(CLASSES, each, strict=True)},
        "confusion": confusion.tolist(),
    }


def pointing(relevance: np.ndarray, batch: Batch) -> dict[str, float]:
    """How well maps point at the symbol, over the pictures that hold one.

    Args:
        relevance: float32 [N, H, W].
        batch: The pictures explained.

    Returns:
        Shares of 0..1: how often the largest relevance is on the ink and in the silhouette (both
        with a margin of `MARGIN`), and how much of the relevance is there, on average.
    """
    shown = batch.labels != NOTHING
    maps = relevance[shown]
    ink, silhouette = (
        np.stack([with_margin(mask) for mask in masks[shown]])
        for masks in (batch.mask, batch.silhouette)
    )
    return {
        "peak_on_ink": round(float(_at_peak(maps, ink).mean()), 4),
        "peak_in_silhouette": round(float(_at_peak(maps, silhouette).mean()), 4),
        "relevance_on_ink": round(float(_share(maps, ink).mean()), 4),
        "relevance_in_silhouette": round(float(_share(maps, silhouette).mean()), 4),
    }


def _at_peak(maps: np.ndarray, masks: np.ndarray) -> np.ndarray:
    peaks = maps.reshape(len(maps), -1).argmax(axis=1)
    return masks.reshape(len(masks), -1)[np.arange(len(maps)), peaks]


def _share(maps: np.ndarray, masks: np.ndarray) -> np.ndarray:
    total = maps.sum(axis=(1, 2))
    return (maps * masks).sum(axis=(1, 2)) / np.maximum(total, 1e-9)


if __name__ == "__main__":
    main()
