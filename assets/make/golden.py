"""Golden outcomes of the embedded network: what every composite and method gives.

Write them anew only where a change of the maps is meant; `--only NAME` adds one or replaces it.
"""

import json
from pathlib import Path

import numpy as np
from drawing.batch import draw_batch

from realtime_lrp import COMPOSITES, METHODS, Explainer, load_network

GOLDEN = Path(__file__).parents[2] / "tests" / "golden.json"
CELLS = 4


def measured() -> dict:
    """Map -> for the top class of two drawn pictures: its magnitude, and the share in each cell."""
    network = load_network("shapes")
    names = [*COMPOSITES, *(name for name in METHODS if name not in Explainer(network).unsuited)]
    explainer = Explainer(network.model, target="top1", also=names, samples=5, low=0, high=255)
    explanation = explainer(draw_batch((31415,), 2).pixels.astype("float32"))
    return {
        "scores": explanation.scores.max(1).tolist(),
        "classes": explanation.scores.argmax(1).tolist(),
        "maps": {name: outcome(explanation.maps[name]) for name in names},
    }


def outcome(relevance: np.ndarray) -> dict:
    """The magnitude of each map, float [B, H, W, C], and the share of each cell."""
    side = relevance.shape[1] // CELLS
    cells = relevance.astype("float64").sum(3).reshape(-1, CELLS, side, CELLS, side).sum((2, 4))
    magnitude = np.abs(relevance.astype("float64")).sum((1, 2, 3))
    share = cells / magnitude[:, None, None]
    return {"magnitude": magnitude.tolist(), "cells": share.tolist()}


def write(_: Path, only: str | None = None) -> None:
    """Writes the golden outcomes, or those of one map."""
    found = measured()
    if only:
        then = json.loads(GOLDEN.read_text())
        found = then | {"maps": then["maps"] | {only: found["maps"][only]}}
    GOLDEN.write_text(json.dumps(found, indent=1) + "\n")
