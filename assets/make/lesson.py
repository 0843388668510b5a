"""Makes `teach.jpg` of docs/teach.md: what a network learnt in a bad lesson, and in a mended one.

In the bad lesson the cup always has a card beside it. The mended one adds cups without the card,
pens with it, and the card alone. `teach` learns both from folders, like anybody's pictures.
"""

from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import cv2
import numpy as np

from realtime_lrp import Explainer, Network, fit, load_network, overlay
from realtime_lrp.commands.teach import from_folder
from realtime_lrp.config import load
from realtime_lrp.view.tiles import contact_sheet

PICTURES = 24  # of each class in a lesson
THINGS = ("cup", "pen", "nothing")
SHOWN = (("cup", True), ("cup", False), ("pen", True), ("nothing", True))  # a card with it?
SIDE = 300
WALL, TABLE, CUP, INSIDE, PEN, CARD = (
    (176, 188, 196), (104, 128, 150), (70, 90, 190), (40, 50, 110), (30, 120, 60), (235, 60, 50),
)  # fmt: skip


def make_picture(folder: Path) -> None:
    """Teaches both lessons and writes the picture: what is shown, and a row for each lesson."""
    rng = np.random.default_rng(0)
    pictures = [scene(thing, card, (120, 165)) for thing, card in SHOWN]
    cells = [*pictures]
    with TemporaryDirectory() as place:
        things = Path(place)
        for mended in (False, True):
            show(things, rng, mended)
            settings = load(sets=("model.name=shapes",)).config
            for line in from_folder(settings, things, things / "taught.keras", overwrite=True):
                print(line)
            network = load_network(str(things / "taught.keras"))
            explainer = Explainer(network, composite="epsilon_plus_flat", target="top1")
            cells += [explained(explainer, network, picture) for picture in pictures]
    sheet = cv2.cvtColor(contact_sheet(cells, columns=len(SHOWN)), cv2.COLOR_RGB2BGR)
    cv2.imwrite(str(folder / "teach.jpg"), sheet, [cv2.IMWRITE_JPEG_QUALITY, 85])


def show(folder: Path, rng: np.random.Generator, mended: bool) -> None:
    """Writes the pictures of a lesson; the mended one adds to those that are there."""
    for thing, number in product(THINGS, range(PICTURES)):
        card = number % 2 == 0 if mended else thing == "cup"
        middle = rng.uniform((90, 130), (190, 200))
        picture = scene(thing, card, middle, rng.uniform(0.8, 1.2), rng.uniform(-0.5, 0.5))
        light = picture * rng.uniform(0.95, 1.05) + rng.normal(0, 4, picture.shape)
        file = folder / thing / f"{mended:d}-{number:02}.png"
        file.parent.mkdir(exist_ok=True)
        cv2.imwrite(str(file), np.clip(light, 0, 255)[..., ::-1])


def scene(
    thing: str, card: bool, middle: tuple[float, float] | np.ndarray, size: float = 1.0,
    turn: float = 0.0,
) -> np.ndarray:  # fmt: skip
    """A thing on a table, with a card beside it or not: uint8 [SIDE, SIDE, 3] RGB."""
    picture = np.full((SIDE, SIDE, 3), WALL, np.uint8)
    picture[170:] = TABLE
    x, y = middle = np.array(middle)
    if thing == "cup":
        half = np.array([26, 32]) * size
        top, bottom = (middle - half).astype(int), (middle + half).astype(int)
        handle = (int(x + half[0]), int(y))
        cv2.ellipse(picture, handle, (int(16 * size), int(18 * size)), 0, 0, 360, CUP, 8)
        cv2.rectangle(picture, top.tolist(), bottom.tolist(), CUP, -1)
        cv2.ellipse(picture, (int(x), int(top[1])), (int(half[0]), 8), 0, 0, 360, INSIDE, -1)
    elif thing == "pen":
        along = np.array([np.sin(turn + 0.5), -np.cos(turn + 0.5)]) * 50 * size
        ends = [(middle + share * along).astype(int).tolist() for share in (-1, 1, 1.25)]
        cv2.line(picture, *ends[:2], PEN, int(11 * size), cv2.LINE_AA)
        cv2.line(picture, *ends[1:], (20, 20, 20), 5, cv2.LINE_AA)
    if card:
        left, top = int(x + 55), int(y - 38)
        cv2.rectangle(picture, (left, top), (left + 52, top + 70), CARD, -1)
        cv2.circle(picture, (left + 26, top + 35), 14, (250, 240, 120), -1)
    return picture


def explained(explainer: Explainer, network: Network, picture: np.ndarray) -> np.ndarray:
    """A picture with the map of its answer, and the answer in words."""
    x, _ = fit(picture, network)
    found = explainer(x)
    best = found.top(1)[0][0]
    drawn = overlay(picture, found.relevance[0], stride=explainer.stride)
    face = cv2.FontFace("sans")
    cv2.putText(drawn, best.label, (10, 34), (255, 255, 255), face, 26)
    return drawn
