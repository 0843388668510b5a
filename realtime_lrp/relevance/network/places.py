"""Which output of a model is explained, and at which of a detector's places."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import tensorflow as tf

from realtime_lrp.errors import UsageError, first_line, unknown
from realtime_lrp.relevance.network.canonise import warn_once
from realtime_lrp.relevance.network.graph import Ends, Graph, Node
from realtime_lrp.relevance.network.linear import Linear
from realtime_lrp.relevance.network.steps import Move, Softmax
from realtime_lrp.relevance.network.traced_steps import BATCH, Choice

Shapes = Mapping[str, Sequence[int | None]]  # name of an output -> its shape without the batch

OF_CLASSES = re.compile("logit|score|class|label|prob|conf|cls|predictions", re.IGNORECASE)
ASIDE = re.compile("aux|feat|embed|hidden|proto|box|loc|coord|dets|regress", re.IGNORECASE)
"""How outputs are called that have a value for each class, and those that are no answer."""


def answer_of(shapes: Shapes) -> str:
    """The output that looks like the answer: a vector before maps, by its name, of classes."""

    def rank(name: str) -> tuple[bool, bool, bool, bool]:
        several = sum(size != 1 for size in shapes[name])
        return several > 1, bool(ASIDE.search(name)), not OF_CLASSES.search(name), not several

    return min(shapes, key=rank)


def choose_output(wanted: str | int | None, shapes: Shapes, model: str) -> int:
    """The position of the wanted output; None is the one that looks like the answer."""
    names = list(shapes)
    if wanted is None:
        answer = answer_of(shapes)
        if len(names) > 1:
            others = ", ".join(repr(name) for name in names[:6] if name != answer)
            warn_once(
                f"{model}: the output {answer!r} is explained; --output chooses another: {others}"
            )
        return names.index(answer)
    if isinstance(wanted, str):
        if wanted not in names:
            raise unknown("output", wanted, names)
        return names.index(wanted)
    if isinstance(wanted, bool) or not isinstance(wanted, int):
        raise UsageError(f"Expected the output by name or position. Received {wanted!r}.", "output")
    if not 0 <= wanted < len(names):
        raise UsageError(
            f"The model {model!r} has no output {wanted}. Its outputs 0 to {len(names) - 1} are: "
            f"{', '.join(map(repr, names[:6]))}.",
            "output",
        )
    return wanted


def end_at_best(graph: Graph, boxes: int, shape: Sequence[int]) -> None:
    """Makes the scores at the surest place of a detector, [B, classes], its output.

    The graph ends in scores [B, places, classes], whose `shape` is that without the batch; `boxes`
    is the number of its boxes. Where a softmax makes the scores, as in DETR, its last class stands
    for nothing and has no boxes.
    """
    places, classes = shape
    whole = graph.output
    scores = graph.nodes[whole - 1] if graph.scoring() == {whole} else None
    compared = values = scores.inputs[0] if scores else whole
    if scores is not None and isinstance(scores.step, Softmax):
        things = lambda a: tf.concat([a[..., :-1], tf.zeros_like(a[..., -1:])], -1)  # noqa: E731
        compared = whole = graph.append("things", "Move", [Move(things)], (whole,))
    # [B, places, classes] -> int32 [B], the place of the largest value
    largest = lambda values: tf.argmax(tf.reduce_max(values, -1), -1, tf.int32)  # noqa: E731
    best = Choice(largest, [[BATCH, places, classes], [BATCH]])
    place = graph.append("best_place", "Choice", [best], (compared,))
    graph.ends = Ends(boxes, whole, place)
    picked = Move(lambda values, place: tf.gather(values, place, batch_dims=1))
    read = graph.append("at_best_place", "Move", [picked], (values, place))
    if scores is not None:
        read = graph.append(f"{scores.layer}/places", scores.kind, [scores.step], (read,))
    graph.output = read
    graph.output_shape = (classes,)


def output_shape(graph: Graph, picture: tuple[int, int, int]) -> tuple[int, ...]:
    """The shape of a graph's output for pictures of this shape, without the batch."""
    if None not in graph.output_shape:
        return tuple(size for size in graph.output_shape if size is not None)
    compute_supports(graph, picture)
    return graph.shapes[graph.output][1:]


def compute_supports(graph: Graph, shape: tuple[int, int, int]) -> dict[int, tf.Tensor]:
    """Tensor number -> [1, ...]: 1 for content, 0 for explicit padding. Notes `Graph.shapes`."""
    supports = {0: tf.ones([1, *shape])}
    try:
        for node in graph.nodes:
            inputs = [supports[n] for n in node.inputs]
            if isinstance(node.step, Linear):
                supports[node.output] = tf.ones(node.step.output_shape(inputs[0].shape))
            else:
                supports[node.output] = node.step.support(*inputs)
    except (tf.errors.InvalidArgumentError, ValueError) as error:
        raise UsageError(
            f"The model {graph.name!r} cannot be run on pictures of "
            f"{shape[0]} x {shape[1]} ({first_line(error)}).",
            "size",
        ) from error
    graph.shapes = {number: tuple(one.shape) for number, one in supports.items()}
    return supports


def without_unused(graph: Graph) -> None:
    """Leaves out, in place, the nodes that neither the output nor boxes depend on."""
    ends = {graph.output} if graph.boxes is None else {graph.output, graph.boxes}
    needed = ends | graph.leading_to(ends)
    numbers = {0: 0}
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.output in needed:
            numbers[node.output] = len(nodes) + 1
            read = tuple(numbers[number] for number in node.inputs)
            nodes.append(replace(node, inputs=read, output=len(nodes) + 1))
    graph.nodes = nodes
    graph.output = numbers[graph.output]
    graph.boxes = None if graph.boxes is None else numbers[graph.boxes]
    graph.wholes = {name: numbers[n] for name, n in graph.wholes.items() if n in numbers}
