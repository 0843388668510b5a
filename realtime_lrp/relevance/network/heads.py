"""The scores that a network ends in: found, or made of its last values.

What the last operations compute is decided by what they give for random values, not by names: what
agrees with a softmax or a sigmoid becomes one, and relevance starts there.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from realtime_lrp.errors import UsageError, unknown
from realtime_lrp.relevance.network import places, steps
from realtime_lrp.relevance.network.canonise import warn_once
from realtime_lrp.relevance.network.checks import count_classes
from realtime_lrp.relevance.network.convolutions import Convolution
from realtime_lrp.relevance.network.graph import Graph, Node
from realtime_lrp.relevance.network.linear import Dense, Linear
from realtime_lrp.relevance.network.steps import Activation, Identity, Move, Numbered, Reshape, Step

OUTPUT_ACTIVATIONS = ("softmax", "sigmoid", "linear")
SCORES = ("logits", "probabilities")

PROBES = 64  # how many random values decide what the last operations compute

MAX_ENTRIES = 1 << 22  # a tensor of random values, or a matrix that compares classes

EXACT = 0.01  # largest difference between logits of scores and of a softmax or sigmoid, for -4..4


class Head(NamedTuple):
    """A softmax or sigmoid; the logits are `scale` * value + `offset`, arrays [classes]."""

    kind: str  # "softmax" or "sigmoid"
    values: int  # the number of the tensor of the values
    columns: np.ndarray  # which of the values each class reads
    scale: np.ndarray
    offset: np.ndarray


def end_in_scores(
    graph: Graph, picture: tuple[int, int, int], activation: str | None, scores: str | None
) -> None:
    """Makes a graph end in scores, in place; says what was decided and why.

    Axes of length 1 are left out, [B] becomes [B, 1]. One probability becomes two classes,
    [1 - p, p], with the logits [-z, z]. A detector ends in the scores at its surest place, where
    one probability stays one. A segmentation has scores at every place; an output of the
    pictures' size, [B, H, W], stands for one class.

    `picture` is (rows, columns, channels). `activation` is one of `OUTPUT_ACTIVATIONS` and `scores`
    one of `SCORES`, which decide for the user, or None.

    Raises:
      UsageError: another name, or the network ends in another softmax or sigmoid.
      DamagedInputError: the output has another form.
    """
    if activation not in (None, *OUTPUT_ACTIVATIONS):
        raise unknown("output activation", activation, OUTPUT_ACTIVATIONS)
    if scores not in (None, *SCORES):
        raise unknown("scores", scores, SCORES)
    if activation and scores and (activation == "linear") != (scores == "probabilities"):
        raise UsageError(
            f"--output-activation {activation} and --scores {scores} contradict each other: "
            "leave one of them out.",
            "scores",
        )
    if graph.boxes is not None:
        places.end_at_best(graph, graph.boxes, places.output_shape(graph, picture))
    elif len(graph.output_shape) != 1:
        _end_in_vector_or_places(graph, picture)
    count_classes(graph)
    whole = graph.ends is None
    scoring = graph.scoring()
    known = scoring == {graph.output} or isinstance(_last_step(graph), Linear)
    given = scores == "logits" or activation == "linear"
    if graph.places:
        places.compute_supports(graph, picture)
        _activate_at_the_end(graph)
    elif whole and not given and not known:
        places.compute_supports(graph, picture)
        if head := _written_out(graph):
            _end_in(graph, head, graph.shapes[head.values][1:])
            plain = scoring and (head.columns == np.arange(len(head.columns))).all()
            if not plain and not scores:
                _say(graph, f"they are a {head.kind} of its last values")
        elif _activate_at_the_end(graph) and not scores:
            _say(graph, "they are sigmoids of its last values")
    own = _last_step(graph)
    name = own.name if isinstance(own, Activation) and [own] == _scoring_steps(graph) else ""
    if name and (activation not in (None, name) or scores == "logits"):
        words = f"--output-activation {activation}" if activation else f"--scores {scores}"
        raise UsageError(
            f"The network {graph.name!r} ends in a {name} already: leave {words} out.",
            "output activation" if activation else "scores",
        )
    if not graph.scoring() or scores == "logits":
        _make_scores(graph, picture, activation, scores)
    is_probability = whole and graph.output_shape[-1] == 1 and (
        graph.scoring()
        or scores == "probabilities"
        or (graph.scoring(steps.Product) and _values_are(graph, picture) == "probabilities")
    )  # fmt: skip
    if is_probability:
        _end_in_two_classes(graph)


def _end_in_vector_or_places(graph: Graph, picture: tuple[int, int, int]) -> None:
    shape = places.output_shape(graph, picture)
    sizes = tuple(size for size in shape if size != 1) or (1,)
    if len(sizes) == 1:
        graph.append("vector", "Reshape", [Reshape(sizes)], (graph.output,))
        graph.output_shape = sizes
        return
    if shape == picture[:2]:
        shape = (*shape, 1)
        graph.append("mask", "Reshape", [Reshape(shape)], (graph.output,))
    if len(shape) == 3:
        graph.output_shape = shape
        graph.places = shape[:2]


def _last_step(graph: Graph) -> Step | None:
    """The step that computes the output, with nothing but its shape behind it."""
    return graph.origin(graph.output, Identity, Reshape)


def _make_scores(
    graph: Graph, picture: tuple[int, int, int], activation: str | None, scores: str | None
) -> None:
    """Appends what makes scores of values that no softmax or sigmoid computes."""
    several = graph.output_shape[-1] != 1
    detects = graph.ends is not None and not activation  # its scores are scores
    if detects or activation == "linear" or scores == "probabilities":
        return
    if not activation and not scores:
        are = _values_are(graph, picture) if several else "a value"
        if are == "logarithms":
            graph.append("scores", "Activation", [_activation("exponential")], (graph.output,))
        if several and are in _WHY:
            _say(graph, _WHY[are], "values" if are == "a value" else "probabilities")
        if are != "logits":
            return
        warn_once(
            f"{graph.name} ends in values that can lie outside 0 to 1, so they are no "
            "probabilities: a softmax makes its scores. If they are probabilities: --scores "
            "probabilities. If classes do not exclude each other: --output-activation sigmoid. For "
            "values of a regression: --output-activation linear"
        )
    kind = activation or ("softmax" if several else "sigmoid")
    graph.append(kind, kind.capitalize(), [_activation(kind)], (graph.output,))


def _scoring_steps(graph: Graph) -> list[Activation]:
    found = (graph.nodes[number - 1].step for number in graph.scoring())
    return [step for step in found if isinstance(step, Activation)]


_WHY = {  # what `_values_are` says of several values -> why
    "a value": "they lie between -1 and 1 whatever its last weights give",
    "probabilities": "they lie between 0 and 1 whatever its last weights give",
    "logarithms": "its values are logarithms, whose exponentials add up to 1",
}


def _say(graph: Graph, why: str, what: str = "probabilities") -> None:
    warn_once(f"{graph.name}: its scores are {what}, as {why}. Otherwise: --scores logits")


def _activation(kind: str) -> Activation:
    functions = {"sigmoid": tf.sigmoid, "exponential": tf.exp}
    softmax = kind == "softmax"
    return steps.Softmax() if softmax else Activation(kind, functions[kind], nonnegative=True)


def _end_in_two_classes(graph: Graph) -> None:
    """Makes [1 - p, p] of one probability p; where a sigmoid makes it, of the logits [-z, z]."""
    last = graph.nodes[graph.output - 1]
    own = last.step if graph.scoring() == {graph.output} else None
    if not isinstance(own, Activation) or own.name != "sigmoid":
        graph.append("both", "TwoClasses", [steps.TwoClasses()], (graph.output,))
    elif graph.places:
        both = steps.Affine(tf.constant([-1.0, 1.0]), tf.constant([0.0, 0.0]))
        read = graph.append("both", "Move", [_picked(np.zeros(2, int)), both], last.inputs)
        graph.append("sigmoid", "Sigmoid", [_activation("sigmoid")], (read,))
    else:
        first = np.zeros(1, int)
        return _end_in(graph, Head("sigmoid", last.inputs[0], first, np.ones(1), np.zeros(1)), (1,))
    graph.output_shape = (*graph.output_shape[:-1], 2)
    places.without_unused(graph)


def _random(graph: Graph, numbers: set[int], spread: float) -> dict[int, tf.Tensor]:
    """Values from -spread to spread for some tensors of a batch; their shapes are known."""
    shapes = {number: graph.shapes[number][1:] for number in sorted(numbers)}
    count = max(2, min(PROBES, MAX_ENTRIES // max(map(math.prod, shapes.values()))))
    rng = np.random.default_rng(0)
    return {
        number: tf.constant(rng.uniform(-spread, spread, (count, *shape)), tf.float32)
        for number, shape in shapes.items()
    }


def _output_of(graph: Graph, known: Numbered) -> np.ndarray | None:
    """The output [B, classes] for known tensors; None where it depends on others."""
    output = graph.computed(known).get(graph.output)
    return None if output is None else output.numpy().astype(np.float64).reshape(len(output), -1)


def _written_out(graph: Graph) -> Head | None:
    """The softmax or sigmoid that the operations behind the last weights are; None if none."""
    for number in _sources(graph):
        if sum(size != 1 for size in graph.shapes[number][1:]) > 1:
            continue
        values = _random(graph, {number}, 4)
        y = _output_of(graph, values)
        if y is None or not np.isfinite(y).all():
            continue
        z = values[number].numpy().astype(np.float64).reshape(len(y), -1)
        with np.errstate(all="ignore"):
            if y.max() <= 0:  # logarithms
                y = np.exp(y)
            logits = np.log(y) - np.log1p(-y)
            shares = np.log(y)
        total = np.log(np.exp(z).sum(1, keepdims=True))
        for kind, ours, own in (("softmax", shares, z - total), ("sigmoid", logits, z)):
            lines = _lines(ours, own)
            if lines is None or (kind == "softmax" and not _is_identity(*lines[1:])):
                continue
            return Head(kind, number, *lines)
    return None


def _is_identity(scale: np.ndarray, offset: np.ndarray) -> bool:
    return bool(max(np.abs(scale - 1).max(), np.abs(offset).max()) < EXACT)


def _sources(graph: Graph) -> list[int]:
    """The tensors that all of the output is computed from, the one after the last weights first."""
    needed = {graph.output} | graph.leading_to({graph.output})
    found: list[int] = []
    lowest = graph.output
    for node in reversed(graph.nodes):
        if node.output not in needed:
            continue
        if node.output <= lowest:
            found.append(node.output)
        if isinstance(node.step, Linear):
            break
        lowest = min(lowest, *node.inputs)
    return found[::-1]


def _lines(ours: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, ...] | None:
    """The column of `own` [B, n], scale and offset that give each of `ours` [B, m]; or None."""
    if not np.isfinite(ours).all() or ours.shape[1] * own.shape[1] > MAX_ENTRIES:
        return None
    means = ours.mean(0)
    spreads = ours.std(0)
    if min(spreads.min(), own.std(0).min()) < EXACT:
        return None
    fit = ((ours - means) / spreads).T @ ((own - own.mean(0)) / own.std(0)) / len(own)
    columns = np.abs(fit).argmax(1)
    scale = fit[np.arange(len(columns)), columns] * spreads / own.std(0)[columns]
    offset = means - scale * own.mean(0)[columns]
    if np.abs(scale * own[:, columns] + offset - ours).max() > EXACT:
        return None
    scale = np.where(np.abs(np.abs(scale) - 1) < 1e-4, np.sign(scale), scale)
    return columns, scale, np.where(np.abs(offset) < 1e-4, 0, offset)


def _activate_at_the_end(graph: Graph) -> bool:
    """Moves sigmoids, or a segmentation's softmax, to the end, if that gives the same scores."""
    scoring = graph.scoring()
    between = graph.depending_on(scoring) & (graph.leading_to({graph.output}) | {graph.output})
    nodes = [graph.nodes[number - 1] for number in sorted(between - scoring)]
    kinds = {step.name for step in _scoring_steps(graph)}
    kind = next(iter(kinds)) if len(kinds) == 1 else ""
    if kind not in (("sigmoid", "softmax") if graph.places else ("sigmoid",)):
        return False
    if not nodes or not all(isinstance(node.step, Move | Reshape | Identity) for node in nodes):
        return False
    logits = {number: graph.nodes[number - 1].inputs[0] for number in scoring}
    values = _random(graph, {*logits.values()}, 4)
    wanted = _output_of(graph, values)
    moved = _output_of(graph, {number: values[read] for number, read in logits.items()})
    if wanted is None or moved is None:
        return False
    by_class = moved.reshape(-1, graph.output_shape[-1] or 1)
    after = _activation(kind).forward(tf.constant(by_class)).numpy()
    if not np.allclose(after.reshape(wanted.shape), wanted, atol=1e-5):
        return False
    for node in nodes:
        read = tuple(logits.get(number, number) for number in node.inputs)
        graph.replace(replace(node, inputs=read))
    graph.append(kind, kind.capitalize(), [_activation(kind)], (graph.output,))
    places.without_unused(graph)
    return True


def _values_are(graph: Graph, picture: tuple[int, int, int]) -> str:
    """The kind of the output: probabilities, logarithms, logits, or a value, as cosines are."""
    last = graph.last_with_weights(graph.output)
    if not last or isinstance(_last_step(graph), Linear):
        return "logits"
    places.compute_supports(graph, picture)
    found = [_output_of(graph, _random(graph, last, spread)) for spread in (1, 30)]
    outputs = [one for one in found if one is not None and np.isfinite(one).all()]
    if len(outputs) < len(found):
        return "logits"
    y = np.concatenate(outputs)
    if y.min() >= 0 and y.max() <= 1 + 1e-6:
        return "probabilities"
    if np.abs(y).max() <= 1 + 1e-6:
        return "a value"
    logarithms = y.max() <= 1e-6 and np.allclose(np.exp(y).sum(1), 1, atol=1e-4)
    return "logarithms" if logarithms else "logits"


def _end_in(graph: Graph, head: Head, shape: tuple[int, ...]) -> None:
    """Makes a softmax or sigmoid the end of a graph; its values have this shape."""
    layer = graph.nodes[graph.output - 1].layer
    count = int(np.prod(shape))
    alone = len(head.columns) == 1
    if alone and head.kind == "sigmoid":
        both = np.array([-1, 1])
        head = head._replace(
            columns=head.columns[[0, 0]], scale=head.scale * both, offset=head.offset * both
        )
    elif alone and count == 2:  # the other class of the softmax was left out
        column = head.columns[0]
        head = Head("softmax", head.values, np.array([1 - column, column]), np.ones(2), np.zeros(2))
    graph.output = head.values
    graph.output_shape = (len(head.columns),)
    places.without_unused(graph)
    read = graph.output
    if len(shape) > 1:
        read = graph.append(f"{layer}/values", "Reshape", [Reshape([count])], (read,))
    same = [*head.columns] == [*range(count)] and _is_identity(head.scale, head.offset)
    if head.kind == "softmax" and sorted(head.columns) != [*range(count)]:
        some = graph.append(f"{layer}/chosen", "Move", [_picked(head.columns)], (read,))
        graph.append(layer, "Softmax", [steps.SoftmaxOfSome()], (some, read))
        return
    if not same and not _choose_outputs(graph, read, count, head):
        scale, offset = (tf.constant(one, tf.float32) for one in (head.scale, head.offset))
        logits = [_picked(head.columns), steps.Affine(scale, offset)]
        graph.append(f"{layer}/logits", "Move", logits, (read,))
    graph.append(layer, head.kind.capitalize(), [_activation(head.kind)], (graph.output,))


def _picked(columns: np.ndarray) -> Move:
    return Move(lambda a: tf.gather(a, columns, axis=-1))


def _choose_outputs(graph: Graph, number: int, count: int, head: Head) -> bool:
    """Makes the layer with weights that computes `count` values compute the logits, or not."""
    between: list[Node] = []
    node = graph.producer(number)
    while node is not None and isinstance(node.step, Identity | Reshape | steps.GlobalAveragePool):
        if isinstance(node.step, Reshape) and between and not isinstance(between[-1].step, Reshape):
            return False
        between.append(node)
        node = graph.producer(node.inputs[0])
        if node is not None and len(graph.readers(node.output)) > 1:
            return False
    step = node.step if node is not None else None
    if node is None or not isinstance(step, Dense | Convolution) or step.outputs != count:
        return False
    if step.input_axis is None:  # each output has inputs of its own
        return False
    scale, offset = (tf.constant(one, tf.float32) for one in (head.scale, head.offset))
    graph.replace(replace(node, step=step.of_outputs(head.columns).then(scale, offset)))
    for one in between:
        if isinstance(one.step, Reshape):
            graph.replace(replace(one, step=Reshape([-1])))
    return True
