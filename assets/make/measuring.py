"""Measures the embedded networks on pictures that they have never seen.

Maps here are float32 [N, H, W], summed over the colour channels; masks are bool [N, H, W].
"""

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
from drawing.batch import Batch, draw_batches

from realtime_lrp.models.drawings import CLASSES, NOTHING, with_margin
from realtime_lrp.models.untrusted.loading import load_model
from realtime_lrp.relevance.explainer import Explainer

logger = logging.getLogger(__name__)

HELD_OUT_SEED = 2027
HELD_OUT_PICTURES = 6400

NETWORKS = ("shapes", "shapes_vit")


def measure_networks(folder: Path) -> None:
    """Measures each network of the folder on pictures that it has never seen, into NAME.json."""
    count = 8
    batches = list(draw_batches(HELD_OUT_SEED, count, HELD_OUT_PICTURES // count, workers=2))
    held_out = Batch(*(np.concatenate(part) for part in zip(*map(_fields, batches), strict=True)))
    for name in NETWORKS:
        if (folder / f"{name}.keras").exists():
            _measure(folder, name, held_out)


def _measure(folder: Path, name: str, held_out: Batch) -> None:
    explainer = Explainer(load_model(folder / f"{name}.keras"), composite="zplus", target="all")
    maps = {target: explain(explainer, held_out.pixels, target) for target in ("all", "top1")}
    figures: dict[str, Any] = {
        "held_out": {"seed": HELD_OUT_SEED, "pictures": len(held_out.labels)}
    }
    figures |= naming(maps["all"][0], held_out.labels)
    figures["pointing"] = {t: pointing(relevance, held_out) for t, (_, relevance) in maps.items()}
    note(folder, name, figures)
    logger.info("%s: %.4f, pointing %s", name, figures["accuracy"], figures["pointing"])


def _fields(batch: Batch) -> tuple[np.ndarray, ...]:
    return batch.pixels, batch.mask, batch.silhouette, batch.labels


def note(folder: Path, name: str, figures: dict[str, Any]) -> None:
    """Adds figures to NAME.json."""
    path = folder / f"{name}.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**known, **figures}, indent=1) + "\n")


def explain(explainer: Explainer, pixels: np.ndarray, target: str) -> tuple[np.ndarray, np.ndarray]:
    """Explains pictures in batches.

    Args:
        explainer: of a network that takes RGB from 0 to 255.
        pixels: uint8 [N, H, W, 3] RGB.
        target: what is explained.

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
    """Accuracy, accuracy of each class, and the confusion matrix (row: true, column: answer)."""
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
    """How well maps point at the symbol, on the pictures that show one.

    Args:
        relevance: float32 [N, H, W].
        batch: the explained pictures.

    Returns:
        Shares from 0 to 1: how often the largest relevance is on the ink or in the silhouette,
        both with a margin of `MARGIN`, and how much of the positive relevance is there on average.
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
    maps = np.maximum(maps, 0)
    total = maps.sum(axis=(1, 2))
    return (maps * masks).sum(axis=(1, 2)) / np.maximum(total, 1e-9)
