"""Draws batches of training pictures. No TensorFlow here: child processes import this file."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.pool import AsyncResult

import cv2
import numpy as np

from drawing import SIZES, draw_picture
from realtime_lrp.models.drawings import NOTHING


@dataclass(frozen=True)
class Batch:
    """Pictures of all classes, in random order.

    Attributes:
        pixels: uint8 [N, size, size, 3] RGB.
        mask: bool [N, size, size], the ink of the symbol.
        silhouette: bool [N, size, size], everything inside the outline of the symbol.
        labels: int64 [N].
    """

    pixels: np.ndarray
    mask: np.ndarray
    silhouette: np.ndarray
    labels: np.ndarray


def draw_batch(
    seed: tuple[int, ...],
    count: int,
    size: int = 128,
    nothings: int = 1,
    sizes: tuple[float, float] = SIZES,
) -> Batch:
    """Draws `count` pictures, each symbol equally often; the same seed gives the same pictures.

    Args:
        seed: the random seed.
        count: how many pictures.
        size: height and width of each in pixels.
        nothings: how many pictures of "nothing" there are for each picture of one symbol.
        sizes: the smallest and the largest symbol, see `SIZES`.
    """
    cv2.setNumThreads(1)
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.minimum(np.arange(count) % (NOTHING + nothings), NOTHING))
    pictures = [draw_picture(rng, int(label), size, sizes) for label in labels]
    return Batch(
        np.stack([p.pixels for p in pictures]),
        np.stack([p.mask for p in pictures]),
        np.stack([p.silhouette for p in pictures]),
        labels,
    )


def draw_batches(
    seed: int,
    batches: int,
    count: int,
    workers: int = 1,
    nothings: int = 1,
    sizes: tuple[float, float] = SIZES,
) -> Iterator[Batch]:
    """Draws batches in child processes, a few ahead of their use; their order is fixed.

    Args:
        seed: batch k is drawn from the seed (seed, k).
        batches: how many batches.
        count: pictures in each.
        workers: child processes.
        nothings: how many pictures of "nothing" there are for each picture of one symbol.
        sizes: the smallest and the largest symbol, see `SIZES`.
    """
    with get_context("spawn").Pool(workers) as pool:
        waiting: deque[AsyncResult[Batch]] = deque()
        for k in range(batches + workers + 1):
            if k < batches:
                arguments = ((seed, k), count, 128, nothings, sizes)
                waiting.append(pool.apply_async(draw_batch, arguments))
            if k > workers:
                yield waiting.popleft().get()
