"""Prints the table of docs/performance.md: how closely quick maps agree with float32.

`python assets/make/correlations.py` measures drawn pictures with the embedded network, with
`--model FILE --photos FOLDER` the photos in a folder. Every composite and method is explained in
float32 and as `--precision auto` explains moving pictures where bfloat16 is faster.
"""

import argparse
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
from drawing import draw_picture

from realtime_lrp import COMPOSITES, METHODS, Explainer, Network, load_network
from realtime_lrp.models.drawings import CLASSES
from realtime_lrp.video.pictures import read_picture
from realtime_lrp.video.region import region_of

SEED = 3
DRAWN = 2
"""Drawn pictures of each symbol."""

BEST = 5
LEAST = 1e-6
"""The best classes of each picture are explained, and of these the ones above a probability."""

GROUPS = ("all", "class", "A - B", "A - rest")


def main(words: list[str] | None = None) -> None:
    """The command line: the network and the pictures."""
    parser = argparse.ArgumentParser(prog="correlations", description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", default="shapes")
    parser.add_argument("--labels")
    parser.add_argument("--preprocess")
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--methods", nargs="*", default=[*COMPOSITES, *METHODS])
    options = parser.parse_args(words)

    network = load_network(options.model, None, options.labels, options.preprocess)
    pictures = photos(options.photos, network) if options.photos else drawings()
    x = np.asarray(network.prepare(pictures))
    print(f"{len(x)} pictures; least and median correlation, below 0.999 of all")
    print("| map | computed | " + " | ".join(GROUPS) + " |")
    for name in options.methods:
        if name != "lrp":
            print(row(network, x, name), flush=True)


def drawings() -> np.ndarray:
    """Drawn pictures of every symbol, uint8 [N, h, w, 3]."""
    rng = np.random.default_rng(SEED)
    labels = [label for label in range(len(CLASSES) - 1) for _ in range(DRAWN)]
    return np.stack([draw_picture(rng, label, sizes=(0.35, 0.77)).pixels for label in labels])


def photos(folder: Path, network: Network) -> np.ndarray:
    """The photos in a folder as the network sees them, uint8 [N, h, w, 3]."""
    size = network.model.input_shape[1:3]
    found = [read_picture(file) for file in sorted(folder.iterdir())]
    return np.stack([region_of(photo.shape[:2], size, "crop").extract(photo) for photo in found])


def row(network: Network, x: np.ndarray, name: str) -> str:
    """The row of a composite or method."""
    own = {"composite": name} if name in COMPOSITES else {"method": name}
    options = own | network.box()
    exact = Explainer(network.model, **options)
    quick = {
        contrast: Explainer(network.model, precision="auto", target=target, **options)
        for contrast, target in ((False, "all"), (True, "0 - rest"))
    }
    found = defaultdict(list)
    for picture, scores in zip(x, exact.scores(x), strict=True):
        for group, target in targets(scores):
            explainer = quick[group.startswith("A")]
            maps = [one(picture[None], target).relevance.ravel() for one in (exact, explainer)]
            if all(map(np.any, maps)):
                found[group].append(np.corrcoef(*maps)[0, 1])
    cells = [" / ".join(dict.fromkeys(map(computed, quick.values())))]
    for group in GROUPS:
        values = np.array(found[group])
        below = f" ({(values < 0.999).sum()} of {values.size})" if (values < 0.999).any() else ""
        cells.append(f"{values.min():.4f}, {np.median(values):.4f}{below}")
    return f"| `{name}` | {' | '.join(cells)} |"


def targets(scores: np.ndarray) -> list[tuple[str, str | int]]:
    """What is explained of a picture: pairs of a group and a target."""
    best = [int(index) for index in np.argsort(-scores)[:BEST] if scores[index] >= LEAST]
    pairs = [("A - B", f"{a} - {b}") for a, b in pairwise(best[:3])]
    return [
        ("all", "all"),
        *(("class", index) for index in best),
        *pairs,
        ("A - rest", f"{best[0]} - rest"),
    ]


def computed(explainer: Explainer) -> str:
    """What computes in bfloat16."""
    if explainer.precision == "float32":
        return "nothing"
    return "relevance" if explainer.exact_forward else "everything"


if __name__ == "__main__":
    main()
