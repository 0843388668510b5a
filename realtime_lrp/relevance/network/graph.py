"""A network as a flat list of steps over numbered tensors; tensor 0 is the model's input."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import tensorflow as tf

from realtime_lrp.relevance.network import steps
from realtime_lrp.relevance.network.linear import RECTIFIERS, Linear
from realtime_lrp.relevance.network.steps import Activation, Handed, Numbered, Step, Tensors


@dataclass(frozen=True)
class Node:
    """One step and the numbers of the tensors that it reads and computes."""

    layer: str  # the Keras layer's name; "model/layer" if nested, "layer:2" at a second call
    kind: str  # the layer's type
    step: Step
    inputs: tuple[int, ...]
    output: int
    dtype: tf.DType = tf.float32  # type of its output and of the relevance there
    exact: Step | None = None  # the step that computes the output in float32 where that is rounded

    def computing_in(self, dtype: tf.DType, exact_forward: bool) -> "Node":
        """The node computing in another type, its weights too; or only what it hands down."""
        step = self.step
        if isinstance(step, Linear) and dtype != tf.float32:
            step = step.cast(dtype)
        return replace(self, step=step, dtype=dtype, exact=self.step if exact_forward else None)


_SCORES_STAY_SCORES = (steps.Elementwise, steps.Move, steps.Pool, steps.GlobalPool, steps.Add)

BIASES = -1  # the number under which `backward` keeps what biases took, [B] for each node


class Arrival(NamedTuple):
    """Relevance or a gradient at the output of a node, with the tensors of the forward pass."""

    node: Node
    inputs: Tensors
    output: tf.Tensor
    arriving: tf.Tensor | steps.Multiple  # a `Multiple` only where `Back` hands some down

    @property
    def relevance(self) -> tf.Tensor:
        """The arriving relevance or gradient as a tensor."""
        return steps.relevance_of(self.arriving)

    def gradient(self, s: tf.Tensor) -> Tensors:
        """For each input the derivative of the output with respect to it, times s."""
        return self.node.step.gradient(self.inputs, self.output, s)


Back = Callable[[Arrival], Handed]
"""Arrival at a node -> the share of each input; then, where biases take a share, that share, [B].
None where an input receives nothing."""


class Part(NamedTuple):
    """The share that a node hands down to input number `position`, shaped like that input."""

    tensor: tf.Tensor
    node: Node | None = None  # None for what starts at the output
    position: int = 0
    factor: tf.Tensor | None = None  # a `Multiple`'s factor


Parts = dict[int, list[Part]]  # number of a tensor -> all that arrives there


class Ends(NamedTuple):
    """The numbers of what a detector finds, and of the place that is explained."""

    boxes: int  # [B, places, 4]
    scores: int  # [B, places, classes]
    chosen: int  # int32 [B]


@dataclass
class Graph:
    """Nodes in the order of the forward pass, without the model; node n computes tensor n + 1."""

    nodes: list[Node] = field(default_factory=list)
    output: int = 0
    name: str = ""
    # (rows, columns, channels) of a picture, None where the model leaves them open
    input_shape: tuple[int | None, ...] = ()
    output_shape: tuple[int | None, ...] = ()
    # number of a tensor -> its shape for one picture, with the batch; once the size is known
    shapes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    # the numbers of tensors that have to be computed without the ReLU behind them
    kept: set[int] = field(default_factory=set)
    boxes: int | None = None  # the number of a detector's boxes [B, places, 4]
    ends: Ends | None = None  # a detector's
    # of a segmentation, whose output is [B, h, w, classes]: (h, w), and the class that stands for
    # no thing, or -1
    places: tuple[int, int] | None = None
    background: int = -1
    # nested model, or layer that was traced -> the number of its (first) output
    wholes: dict[str, int] = field(default_factory=dict)
    _calls: Counter[str] = field(default_factory=Counter)

    def append(self, layer: str, kind: str, steps: Sequence[Step], inputs: tuple[int, ...]) -> int:
        """Appends the chain of steps of a layer; returns the number of its output."""
        self._calls[layer] += 1
        layer = layer if self._calls[layer] == 1 else f"{layer}:{self._calls[layer]}"
        for step in steps:
            self.output = len(self.nodes) + 1
            self.nodes.append(Node(layer, kind, step, inputs, self.output))
            inputs = (self.output,)
        return self.output

    @property
    def with_weights(self) -> list[Node]:
        """The nodes that have weights."""
        return [node for node in self.nodes if isinstance(node.step, Linear)]

    def producer(self, number: int) -> Node | None:
        """The node that computes a tensor; None for the model's input."""
        return self.nodes[number - 1] if number else None

    def origin(self, number: int, *passed: type[Step]) -> Step | None:
        """The step that computes a tensor, steps of the kinds `passed` skipped; None: the input."""
        node = self.producer(number)
        while node is not None and isinstance(node.step, passed):
            node = self.producer(node.inputs[0])
        return node.step if node is not None else None

    def outputs(self) -> dict[str, int]:
        """Layer -> the number of its output, after its activation."""
        return self.wholes | {node.layer: node.output for node in self.nodes}

    def readers(self, number: int) -> list[Node]:
        """The nodes that read a tensor."""
        return [node for node in self.nodes if number in node.inputs]

    def replace(self, node: Node) -> None:
        """Replaces the node that computes the same tensor."""
        self.nodes[node.output - 1] = node

    def unfolded(self, nodes: Sequence[Node]) -> "Graph":
        """A copy of this graph with the nodes that `canonise` replaced."""
        graph = replace(self, nodes=list(self.nodes))
        for node in nodes:
            now = self.nodes[node.output - 1]
            graph.replace(node.computing_in(now.dtype, now.exact is not None))
        return graph

    def forward(
        self, x: tf.Tensor, joined: bool = True, known: Numbered | None = None
    ) -> dict[int, tf.Tensor]:
        """Runs the network; returns every tensor by its number. `known` ones are not computed.

        Where `joined`, a layer with weights also computes the ReLU that is its only reader. The
        tensor between the two, which no rule and no gradient needs, is then the rectified one.
        """
        tensors = {0: x, **(known or {})}
        for node in self.nodes:
            if node.output in tensors:
                continue
            step, dtype = (node.exact, tf.float32) if node.exact else (node.step, node.dtype)
            inputs = [steps.as_type(tensors[n], dtype) for n in node.inputs]
            joining, rectifier = self._chain_to_rectifier(node) if joined else ([], "")
            if joining and self.kept.isdisjoint(one.output for one in (node, *joining[:-1])):
                output = step.forward(*inputs, rectifier)
                tensors |= {one.output: output for one in (node, *joining)}
            else:
                tensors[node.output] = step.forward(*inputs)
        return tensors

    def computed(self, known: Numbered, *barred: type[Step]) -> dict[int, tf.Tensor]:
        """The known tensors and all that follow from them, not past steps of the kinds `barred`."""
        tensors = dict(known)
        for node in self.nodes:
            ready = node.output not in tensors and tensors.keys() >= set(node.inputs)
            if ready and not isinstance(node.step, barred):
                tensors[node.output] = node.step.forward(*(tensors[n] for n in node.inputs))
        return tensors

    def of_rows(self, tensors: Numbered, pictures: tf.Tensor) -> dict[int, tf.Tensor]:
        """Tensors of a batch made of pictures, int32 [N], of another one; numbers stay."""
        # whole numbers may say where a picture begins in its batch: `forward` computes them anew
        kept = {n: one.ref() for n, one in tensors.items() if not one.dtype.is_integer}
        found = {
            fromkey: tf.gather(fromkey.deref(), pictures)
            for fromkey in dict.fromkeys(kept.values())
        }
        return {n: found[one] for n, one in kept.items()}

    def _dtype(self, number: int) -> tf.DType:
        """The type in which what arrives at a tensor is kept."""
        return self.nodes[number - 1].dtype if number > 0 else tf.float32

    def _chain_to_rectifier(self, node: Node) -> tuple[list[Node], str]:
        """The nodes from behind a layer with weights to its ReLU, and its name; or nothing."""
        chain: list[Node] = []
        number = node.output if isinstance(node.step, Linear) else self.output
        while number != self.output and len(readers := self.readers(number)) == 1:
            chain += readers
            number = readers[0].output
            step = readers[0].step
            if isinstance(step, Activation) and step.name in RECTIFIERS:
                return chain, step.name
            if not isinstance(step, steps.Identity):
                break
        return [], ""

    def finite(self, tensors: dict[int, tf.Tensor]) -> tf.Tensor:
        """Whether outputs of layers with weights are finite, bool [B]: a ReLU turns NaN into 0."""
        outputs = [tensors[node.output] for node in self.with_weights] or [tensors[self.output]]
        sums = [steps.sum_of_each(output) for output in outputs]
        return tf.reduce_all(tf.math.is_finite(sums), 0)

    def scores(self, tensors: Numbered) -> tf.Tensor:
        """The scores [B, classes]; of a detector the best of each class at any place."""
        if self.ends is None:
            return tensors[self.output]
        everywhere = tensors[self.ends.scores]
        finite = tf.reduce_all(tf.math.is_finite(everywhere), [1, 2])
        return tf.where(finite[:, None], tf.reduce_max(everywhere, 1), float("nan"))

    def activations(self, size: tuple[int, int]) -> int:
        """How many numbers the tensors of one picture of (rows, columns) hold."""
        picture = tf.TensorSpec([1, *size, self.input_shape[-1]], tf.float32)
        forward = tf.function(self.forward, autograph=False).get_concrete_function(picture)
        return sum(math.prod(output.shape) for output in forward.structured_outputs.values())

    def backward(
        self, tensors: Numbered, begin: tf.Tensor, back: Back,
        start: int | None = None, end: int = 0,
    ) -> Parts:  # fmt: skip
        """Passes relevance or a gradient back from the tensor `start` to the tensor `end`.

        `start` None is the output. What passes `end` by is not followed. Returns what arrives at
        each tensor, and at `BIASES`; tensors at which nothing arrives are left out, except the
        network's input, at which zeros do.
        """
        start = self.output if start is None else start
        parts: Parts = defaultdict(list, {start: [Part(begin)]})
        self.hand_down(parts, self.behind(end), tensors, back)
        if not end and not parts[0]:  # the answer depends on the picture by thresholds alone
            pictures = tf.shape(begin)[0]
            parts[0] = [Part(tf.zeros([pictures, *tensors[0].shape[1:]], self._dtype(0)))]
        return parts

    def hand_down(self, parts: Parts, nodes: Sequence[Node], tensors: Numbered, back: Back) -> None:
        """Passes arrivals back through some nodes; adds the shares that they hand down."""
        for node in reversed(nodes):
            if node.output not in parts:
                continue  # a branch that `start` does not use
            # A rounded input of a max pool could have another largest entry than its output has.
            exact = node.exact is not None and isinstance(node.step, steps.MaxPool)
            dtype = tf.float32 if exact else node.dtype
            inputs = [steps.as_type(tensors[n], dtype) for n in node.inputs]
            output = steps.as_type(tensors[node.output], dtype)
            handed = back(Arrival(node, inputs, output, _arriving(parts[node.output], dtype)))
            numbers = (*node.inputs, BIASES)[: len(handed)]
            for position, (number, part) in enumerate(zip(numbers, handed, strict=True)):
                if part is None:
                    continue
                dtype = self._dtype(number)
                factor = tf.cast(part.factor, dtype) if isinstance(part, steps.Multiple) else None
                relevance = tf.cast(steps.relevance_of(part), dtype)
                parts[number].append(Part(relevance, node, position, factor))

    def depending_on(self, numbers: Collection[int]) -> set[int]:
        """The numbers of these tensors, and of all that is computed from them."""
        found = set(numbers)
        for node in self.nodes:
            if not found.isdisjoint(node.inputs):
                found.add(node.output)
        return found

    def leading_to(self, numbers: Collection[int]) -> set[int]:
        """The numbers of all tensors that these are computed from."""
        found: set[int] = set()
        for node in reversed(self.nodes):
            if node.output in numbers or node.output in found:
                found.update(node.inputs)
        return found

    def behind(self, number: int) -> list[Node]:
        """The nodes that depend on a tensor, in the order of the forward pass."""
        found = self.depending_on({number}) - {number}
        return [node for node in self.nodes if node.output in found]

    def nonnegative(self) -> set[int]:
        """The numbers of tensors that can never hold a negative entry."""
        found: set[int] = set()
        for node in self.nodes:
            rectified = isinstance(node.step, Activation) and node.step.nonnegative
            if rectified or (node.step.keeps_sign and found.issuperset(node.inputs)):
                found.add(node.output)
        return found

    def scoring(self, *further: type[Step]) -> set[int]:
        """The output numbers of the softmax or sigmoid steps that compute the scores.

        Moving, choosing, pooling, averaging, scaling and joining may follow them, and `further`
        kinds of steps. Empty where the output holds no probabilities.
        """
        found: set[int] = set()
        left = {self.output}
        while left:
            node = self.producer(left.pop())
            if node is not None and isinstance(node.step, Activation) and node.step.gates:
                found.add(node.output)
            elif node is not None and isinstance(node.step, (*_SCORES_STAY_SCORES, *further)):
                left.update(node.inputs)
            else:
                return set()
        return found

    def logits(self) -> int | None:
        """The number of what the only softmax or sigmoid of the scores reads, or None."""
        numbers = [self.nodes[number - 1].inputs[0] for number in self.scoring()]
        return numbers[0] if len(numbers) == 1 else None

    def differentiated(self) -> int | None:
        """The number of what gradient methods differentiate: logits, a linear output, or None."""
        scoring = self.scoring()
        return self.logits() if scoring == {self.output} else None if scoring else self.output

    def last_with_weights(self, number: int) -> set[int]:
        """The output numbers of the layers with weights nearest before a tensor."""
        found: set[int] = set()
        left = {number}
        for node in reversed(self.nodes):
            if node.output in left and isinstance(node.step, Linear):
                found.add(node.output)
            elif node.output in left:
                left.update(node.inputs)
        return found


def total(parts: Sequence[Part]) -> tf.Tensor:
    """The sum of all that was handed down to a tensor."""
    return tf.add_n([part.tensor for part in parts])


def _arriving(parts: Sequence[Part], dtype: tf.DType) -> tf.Tensor | steps.Multiple:
    """The sum of all that was handed down to a tensor, with the factor where all parts have one."""
    relevance = tf.cast(total(parts), dtype)
    factors = [part.factor for part in parts if part.factor is not None]
    if len(factors) < len(parts):
        return relevance
    return steps.Multiple(relevance, tf.cast(tf.add_n(factors), dtype))
