"""Teaches a network a few things of one's own: a dense layer on the features of another network.

Training takes seconds, because the other network stays unchanged (transfer learning).
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import cv2
import keras
import numpy as np

from realtime_lrp.config.names import HUB
from realtime_lrp.errors import UsageError
from realtime_lrp.models.network import Network

NOTHING = "nothing"  # the class of the empty scene
FEWEST = 5  # pictures that each class needs
FEW = 20  # pictures of a class; with fewer, more are asked for
UNEQUAL = 3  # one class should not have more than this many times another's pictures
CHANGES = 2  # changed copies of each picture, see `changed`
ASIDE = 4  # the last of 4 parts of each showing is kept aside; chosen by chance, all would be alike
REMEMBERED = 100  # pictures of each class whose vectors go into the file
KEPT = 6  # the last pictures of the last showings that are kept, to say what was learnt

ENLARGED = 0.15  # most that a copy is enlarged
SHIFTED = 0.05  # most that it is shifted, as a part of its side
LIGHTENED = 0.2  # most that it is lightened or darkened

STEPS = 200  # steps of Adam over all pictures
RATE = 0.03  # Adam's learning rate
DECAY = 5e-3  # the penalty on squared weights
MOMENTUM, SQUARES = 0.9, 0.999  # what Adam keeps of its means, as Kingma and Ba 2015 set it


def changed(picture: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A picture, uint8 [H, W, 3], enlarged, shifted and lightened a little at random."""
    size = np.array(picture.shape[1::-1])
    scale = 1 + rng.uniform(0, ENLARGED)
    offset = ((1 - scale) / 2 + rng.uniform(-SHIFTED, SHIFTED, 2)) * size
    matrix = np.column_stack([scale * np.eye(2), offset])
    moved = cv2.warpAffine(picture, matrix, size.tolist(), borderMode=cv2.BORDER_REPLICATE)
    light = 1 + rng.uniform(-LIGHTENED, LIGHTENED)
    return np.clip(moved * light, 0, 255).astype(np.uint8)


class Features:
    """The vector that a classifier computes before its last layer with weights.

    Where that layer reads rows and columns, they are averaged. `model` goes from the input to the
    vector. UsageError: the network has no such vector, or no fixed size.
    """

    def __init__(self, network: Network):
        self.network = network
        self.model = _up_to_vector(network.model, network.name)

    def with_changes(
        self, pictures: Sequence[np.ndarray], rng: np.random.Generator
    ) -> list[np.ndarray]:
        """Features of pictures and of changed copies: float32 [1 + CHANGES, features] each."""
        copies = [
            [picture, *(changed(picture, rng) for _ in range(CHANGES))] for picture in pictures
        ]
        vectors = self.model.predict_on_batch(self.network.prepare(np.stack([*chain(*copies)])))
        return [*np.reshape(vectors, (len(pictures), 1 + CHANGES, -1))]

    def taught(self, kernel: np.ndarray, bias: np.ndarray, labels: Sequence[str]) -> Network:
        """The whole network with a dense layer of these weights at its end."""
        dense = keras.layers.Dense(len(bias), activation="softmax", name="taught")
        model = keras.Model(self.model.input, dense(self.model.output), name="taught")
        dense.set_weights([kernel, bias])
        return replace(self.network, model=model, labels=[*labels])


@dataclass
class Showing:
    """Pictures of one class that follow each other; vectors are of `Features.with_changes`."""

    number: int
    vectors: list[np.ndarray] = field(default_factory=list)
    pictures: deque[np.ndarray] = field(default_factory=lambda: deque(maxlen=KEPT))

    @property
    def aside(self) -> int:
        """How many of the last pictures are kept aside."""
        return len(self.vectors) // ASIDE


@dataclass
class Lesson:
    """The pictures of each class, in order, and a dense layer that learns from them."""

    classes: Sequence[str]
    showings: list[Showing] = field(default_factory=list)

    def begin(self, number: int) -> Showing:
        """Begins a showing of a class."""
        self.showings = [showing for showing in self.showings if showing.vectors]
        for one in [showing for showing in self.showings if showing.number == number][: 1 - KEPT]:
            one.pictures.clear()
        self.showings.append(Showing(number))
        return self.showings[-1]

    def counts(self) -> list[int]:
        """How many pictures of each class were shown."""
        return [
            sum(len(showing.vectors) for showing in self.showings if showing.number == number)
            for number in range(len(self.classes))
        ]

    def pictures_aside(self) -> dict[str, list[np.ndarray]]:
        """The pictures kept aside, of the classes that have some: `KEPT` of each showing."""
        found: dict[str, list[np.ndarray]] = {}
        for showing in self.showings:
            if showing.aside and showing.pictures:
                found.setdefault(self.classes[showing.number], []).extend(
                    [*showing.pictures][-showing.aside :]
                )
        return found

    def advices(self) -> Iterator[str]:
        """Advice on few pictures, or unequally many."""
        counts = dict(zip(self.classes, self.counts(), strict=True))
        if few := [name for name, count in counts.items() if count < FEW]:
            yield f"few pictures of {', '.join(few)}: {FEW} or more of each class are better"
        least = min(counts, key=counts.__getitem__)
        most = max(counts, key=counts.__getitem__)
        if counts[most] > UNEQUAL * counts[least]:
            yield f"{most} has {counts[most]} pictures, {least} {counts[least]}: show all alike"

    def complete(self) -> "Lesson":
        """The lesson without the classes that have too few pictures."""
        kept = [number for number, count in enumerate(self.counts()) if count >= FEWEST]
        shown = [showing for showing in self.showings if showing.number in kept]
        shown = [replace(one, number=kept.index(one.number)) for one in shown]
        return Lesson([self.classes[number] for number in kept], shown)

    def remembered(self) -> list[tuple[int, np.ndarray]]:
        """The vectors of up to about `REMEMBERED` pictures of each class, showing by showing."""
        steps = [-(-count // REMEMBERED) for count in self.counts()]
        shown = [showing for showing in self.showings if showing.vectors]
        return [(one.number, np.stack(one.vectors[:: steps[one.number]])) for one in shown]

    def train(self, aside: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Trains the dense layer: kernel [features, classes] and bias [classes], float32.

        `aside`: also from the pictures kept aside. Classes count alike, however many pictures they
        have. Done by hand, because Keras keeps 2.6 MB of each model that it has trained.
        """
        ends = [len(showing.vectors) - (0 if aside else showing.aside) for showing in self.showings]
        shown = [(s.number, s.vectors[:end]) for s, end in zip(self.showings, ends, strict=True)]
        x = np.concatenate([vectors for _, several in shown for vectors in several])
        y = np.repeat([number for number, _ in shown], [sum(map(len, v)) for _, v in shown])
        scale = float(np.sqrt(np.mean(np.square(x)))) or 1.0
        often = np.bincount(y, minlength=len(self.classes))
        weights = (len(y) / (often * len(often)))[y]
        x = np.pad(x / np.float32(scale), ((0, 0), (0, 1)), constant_values=1)  # the bias is a row
        asked = np.eye(len(often), dtype=np.float32)[y]
        weights = (weights / len(y))[:, None].astype(np.float32)
        kernel = np.zeros((x.shape[1], len(often)), np.float32)
        decay = np.full_like(kernel, 2 * DECAY)
        decay[-1] = 0
        mean = np.zeros_like(kernel)
        square = np.zeros_like(kernel)
        for step in range(1, STEPS + 1):
            logits = x @ kernel
            scores = np.exp(logits - logits.max(1, keepdims=True))
            scores /= scores.sum(1, keepdims=True)
            gradient = x.T @ (weights * (scores - asked)) + decay * kernel
            mean += (1 - MOMENTUM) * (gradient - mean)
            square += (1 - SQUARES) * (gradient**2 - square)
            rate = RATE * np.sqrt(1 - SQUARES**step) / (1 - MOMENTUM**step)
            kernel -= rate * mean / (np.sqrt(square) + 1e-7)
        return kernel[:-1] / np.float32(scale), kernel[-1]

    def right(self, kernel: np.ndarray, bias: np.ndarray) -> list[tuple[int, int]]:
        """For each class: how many pictures kept aside are named rightly, and their number."""
        found = [(0, 0)] * len(self.classes)
        for showing in self.showings:
            for vectors in showing.vectors[len(showing.vectors) - showing.aside :]:
                right, asked = found[showing.number]
                named = int(np.argmax(vectors[0] @ kernel + bias))
                found[showing.number] = right + (named == showing.number), asked + 1
        return found


def _up_to_vector(model: Any, name: str) -> keras.Model:
    layers = [layer for layer in getattr(model, "layers", ()) if layer.weights]
    last: Any = layers[-1] if layers else None
    shape = getattr(model, "output_shape", None)
    single = isinstance(shape, tuple) and len(shape) == 2 and len(model.inputs) == 1
    reads = last.input.shape if isinstance(last, keras.layers.Dense | keras.layers.Conv2D) else ()
    fixed = single and None not in model.input_shape[1:3]
    if not fixed or len(reads) not in (2, 4) or name.startswith(HUB):
        raise UsageError(
            f"The network {name!r} has no features of one vector, or no fixed input size. Expected "
            "a classifier of keras.applications, shapes, shapes_vit, or a .keras file that ends in "
            "a dense layer or a convolution; an ONNX file cannot be taught.",
            "model",
        )
    vector = last.input
    if len(reads) == 4:
        vector = keras.layers.GlobalAveragePooling2D(name="pooled")(vector)
    return keras.Model(model.inputs[0], vector)
