"""Makes the pictures of docs/gallery.md: strips of drawn pictures under every method.

Only the public Python API computes maps here. The pictures are drawn at 256 x 256 pixels from a
fixed seed; the network sees them at 128 x 128.
"""

from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np
from drawing import draw_picture

from realtime_lrp import COLORMAPS, COMPOSITES, METHODS, Explainer, Network, load_network, overlay
from realtime_lrp.config import ASSETS
from realtime_lrp.models.drawings import CLASSES
from realtime_lrp.video.libraries import cv2
from realtime_lrp.video.reader import VideoReader
from realtime_lrp.view.tiles import contact_sheet

SYMBOLS = ("star", "house", "smiley", "flower")
SEED = 7
SIDE = 256
"""Pixels: height and width of each picture of a strip."""

CLIP_FRAME = 90
"""The frame of the demo clip that ends each strip: somebody holds up a drawing."""

GROUNDS = {
    "star": ((70, 20, 0), (255, 150, 30)),
    "house": ((0, 10, 70), (70, 150, 255)),
    "smiley": ((190, 190, 190), (255, 255, 255)),
    "flower": ((0, 0, 0), (80, 80, 80)),
}
"""Symbols on warm, cold, bright and dark grounds: the colours of their shadows and lights."""

BUSY_SEED = 8
"""Draws a heart on a busy ground."""

SANITY = ("zplus", "epsilon_plus_flat", "gradient", "guided_backprop")
CONTRASTED = ("zplus", "epsilon_alpha2_beta1_flat", "input_x_gradient")


def make_strips(folder: Path, only: str | None = None) -> None:
    """Writes every strip into `gallery/`, or the one of the name `only`."""
    (folder / "gallery").mkdir(parents=True, exist_ok=True)
    network, transformer = load_network("shapes"), load_network("shapes_vit")
    pictures, grounds = drawn_pictures(), pictures_on_grounds()
    strips = {
        "pictures": lambda: pictures,
        "colormaps": lambda: in_every_colormap(network, pictures[0]),
        "grounds": lambda: [*grounds, *overlaid(network, grounds, "epsilon_plus_flat", "top1")],
    }
    for_transformers = Explainer(network).unsuited
    for name in (*COMPOSITES, *(name for name in METHODS if name != "lrp")):
        explained = transformer if name in for_transformers else network
        strips[name] = partial(overlaid, explained, pictures, name, "top1")
    for name in CONTRASTED:
        strips[f"{name}_contrast"] = partial(overlaid, network, pictures, name, "top1 - rest")
    for name in SANITY:
        strips[f"{name}_random"] = partial(overlaid_without_learning, pictures, name)
    for name in [only] if only else strips:
        columns = len(grounds) if name == "grounds" else None
        write_strip(folder / "gallery" / f"{name}.webp", strips[name](), columns)


def overlaid_without_learning(pictures: np.ndarray, name: str) -> list[np.ndarray]:
    """The same as `overlaid` of the network with random weights."""
    return overlaid(load_network("shapes", weights="random"), pictures, name, "top1")


def drawn_pictures() -> np.ndarray:
    """A picture of each of `SYMBOLS`, and one frame of the clip: uint8 [N, SIDE, SIDE, 3] RGB."""
    rng = np.random.default_rng(SEED)
    drawn = [
        draw_picture(rng, CLASSES.index(name), SIDE, sizes=(0.45, 0.7)).pixels for name in SYMBOLS
    ]
    with VideoReader(ASSETS / "demo.mp4") as reader:
        frame = next(f.picture for number, f in enumerate(reader) if number == CLIP_FRAME)
    edge = (frame.shape[1] - frame.shape[0]) // 2
    square = frame[:, edge : edge + frame.shape[0]]
    return np.stack([*drawn, cv2.resize(square, (SIDE, SIDE), interpolation=cv2.INTER_AREA)])


def pictures_on_grounds() -> np.ndarray:
    """A picture of each of `GROUNDS`, and a heart on a busy one: uint8 [N, SIDE, SIDE, 3] RGB."""
    rng = np.random.default_rng(SEED)
    pictures = []
    for name, colours in GROUNDS.items():
        picture = draw_picture(rng, CLASSES.index(name), SIDE, sizes=(0.45, 0.7)).pixels
        share = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)[..., None] / 255
        shadow, light = np.array(colours)
        pictures.append(np.rint(shadow + share * (light - shadow)).astype(np.uint8))
    rng = np.random.default_rng(BUSY_SEED)
    busy = draw_picture(rng, CLASSES.index("heart"), SIDE, sizes=(0.3, 0.36))
    return np.stack([*pictures, busy.pixels])


def overlaid(
    network: Network, pictures: np.ndarray, name: str, target: str, colormap: str | None = None
) -> list[np.ndarray]:
    """The pictures with the map of a composite or method.

    Args:
      network: what is explained.
      pictures: uint8 [N, SIDE, SIDE, 3] RGB.
      name: a name out of `COMPOSITES` or `METHODS`.
      target: a target, or "top1 - rest" for each picture's own answer against all other classes.
      colormap: None chooses by the map's signs.
    """
    chosen = {"composite": name} if name in COMPOSITES else {"method": name}
    explainer = Explainer(network, **chosen)
    height, width, _ = explainer.input_shape
    seen = [cv2.resize(one, (width, height), interpolation=cv2.INTER_AREA) for one in pictures]
    x = network.prepare(np.stack(seen))
    targets: Iterable[str] = [target] * len(pictures)
    if target == "top1 - rest":
        answers = explainer.scores(x).argmax(1)
        targets = [f"{network.labels[answer]} - rest" for answer in answers]
    return [
        overlay(picture, explainer(x[n : n + 1], target=each).relevance[0], colormap=colormap)
        for n, (picture, each) in enumerate(zip(pictures, targets, strict=True))
    ]


def in_every_colormap(network: Network, picture: np.ndarray) -> list[np.ndarray]:
    """One picture in each of `COLORMAPS`: a signed map in those that have two ends."""
    return [
        overlaid(
            network,
            picture[None],
            "epsilon_alpha2_beta1_flat" if colormap.signed else "zplus",
            "top1",
            name,
        )[0]
        for name, colormap in COLORMAPS.items()
    ]


def write_strip(path: Path, pictures: Iterable[np.ndarray], columns: int | None = None) -> None:
    """Pictures side by side, or in rows of so many columns, as one WebP file."""
    pictures = list(pictures)
    strip = contact_sheet(pictures, columns=columns or len(pictures))
    bgr = cv2.cvtColor(strip, cv2.COLOR_RGB2BGR)
    path.write_bytes(cv2.imencode(".webp", bgr, [cv2.IMWRITE_WEBP_QUALITY, 75])[1].tobytes())
