"""Writes an explainer as a SavedModel, which TensorFlow runs without this package.

The explainer's function is traced again with public operations only. Its weights are constants of
the graph; they become variables, because the file of a graph must not exceed 2 GB.
"""

import hashlib
import os
import platform
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import msgspec
import tensorflow as tf
from tensorflow.types.experimental import ConcreteFunction

from realtime_lrp.config.keys import FIELDS
from realtime_lrp.config.provenance import ModelProvenance, Provenance
from realtime_lrp.config.schema import Lrp, as_setting
from realtime_lrp.errors import TransferError, UsageError, first_line
from realtime_lrp.relevance.maps.compiled import Explained
from realtime_lrp.relevance.maps.plan import Plan
from realtime_lrp.relevance.maps.targets import TargetTensors
from realtime_lrp.relevance.network import onednn
from realtime_lrp.relevance.rules.composites import COMPOSITES, Composite
from realtime_lrp.system.files import atomic_folder
from realtime_lrp.system.program import __version__

NONE_OF_OURS = "/"
"""A mark that no file name can contain, so that no existing folder counts as one of ours."""

PROVENANCE = "provenance.json"

Compute = Callable[[tf.Tensor, TargetTensors], Explained]
"""(x, target) -> scores, the map, the additional maps."""


def save(
    folder: str | os.PathLike[str],
    compute: Compute,
    shape: tuple[int, int, int],
    target: TargetTensors,
    also: Sequence[str],
    labels: Sequence[str] | None,
    provenance: Provenance,
) -> None:
    """Writes what `Explainer.export` describes; `serving_default` explains the target.

    Raises:
      UsageError: two outputs would have the same name.
      OutputError: the folder cannot be created, or is not empty.
      TransferError: writing failed.
    """
    folder = os.fspath(folder)
    if not isinstance(folder, str) or not folder or "\0" in folder:
        raise UsageError(f"Expected the name of a folder. Received {folder!r}.")
    names = ["scores", "relevance", *(re.sub(r"\W", "_", name) for name in also)]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"Two outputs would be called {twice!r}. Give each map once.", "map")

    def scores_and_maps(x: tf.Tensor, index: tf.Tensor | None = None) -> list[tf.Tensor]:
        found = compute(x, target if index is None else _one_each(x, index, target))
        return [found.scores, *found.maps]

    pictures = tf.TensorSpec([None, *shape], tf.float32, name="x")
    classes = tf.TensorSpec([None], tf.int32, name="target")
    with onednn.disabled():
        own = _traced(scores_and_maps, pictures)
        by_class = _traced(scores_and_maps, pictures, classes)
    weights = _variables(own, by_class)
    signatures = {
        "serving_default": _over_variables(own, weights, names, pictures),
        "explain_class": _over_variables(by_class, weights, names, pictures, classes),
    }
    module = tf.Module()
    module.weights = list(weights.values())  # what the module holds is saved
    digest = hashlib.sha256()
    for weight in module.weights:
        digest.update(weight.numpy().tobytes())
    model = msgspec.structs.replace(provenance.model, sha256={"weights": digest.hexdigest()})
    provenance = msgspec.structs.replace(provenance, model=model)
    with (
        atomic_folder(folder, overwrite=True, mark=NONE_OF_OURS) as part,
        tempfile.TemporaryDirectory() as lent,
    ):
        if labels is not None:
            lines = [" ".join(label.split()) for label in labels]
            module.labels = _asset(lines, os.path.join(lent, "labels.txt"))
        module.provenance = _asset([provenance.as_json()], os.path.join(lent, PROVENANCE))
        try:
            tf.saved_model.save(module, os.fspath(part), signatures)
        except tf.errors.OpError as error:
            raise TransferError(
                f"{folder!r} cannot be written ({first_line(error)}). Nothing is left "
                "of it; make room and start again."
            ) from error


def _asset(lines: Sequence[str], file: str) -> tf.saved_model.Asset:
    """A file of lines that is copied into the SavedModel."""
    with open(file, "w", encoding="utf-8") as opened:
        opened.writelines(f"{line}\n" for line in lines)
    return tf.saved_model.Asset(file)


def of_one_picture(
    plan: Plan, before: Callable[[tf.Tensor], tf.Tensor], fixed: TargetTensors | None
) -> Callable[..., tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
    """Makes (picture, target) -> scores [1, classes], relevance [1, H, W] and account [3].

    `before` is picture, uint8 [1, H, W, 3], -> x. The target is float32 [classes], the weight of
    each class, zeros the most probable class; with a `fixed` one there is no such input. The
    account: what started, what reached the pixels, what biases took.
    """
    graph = plan.graph

    def explain(picture: tf.Tensor, *weights: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        x = before(picture)
        tensors = graph.forward(x)
        target = fixed
        if target is None:
            given = tf.reduce_any(weights[0] != 0)
            top = tf.where(given, weights[0].shape[0], 1)
            target = TargetTensors(tf.where(given, weights[0], 1.0)[None], top[None, None])
        result = plan(x, tensors, target)
        relevance = tf.reduce_sum(tf.cast(result.relevance, tf.float32), -1)
        started, _, taken = tf.unstack(result.account[0])
        account = tf.stack([started, tf.reduce_sum(relevance), taken])
        return graph.scores(tensors), relevance, account

    return explain


def _traced(function: Callable[..., object], *inputs: tf.TensorSpec) -> ConcreteFunction:
    return tf.function(function, autograph=False).get_concrete_function(*inputs)


def _one_each(x: tf.Tensor, index: tf.Tensor, target: TargetTensors) -> TargetTensors:
    """The target for class index[b] of picture b; index is int32 [B]."""
    classes = target.weights.shape[1]
    known = tf.reduce_all((index >= 0) & (index < classes))
    as_many = tf.shape(index)[0] == tf.shape(x)[0]
    refusals = [
        tf.debugging.Assert(known, [f"There is no such class. Known: 0 to {classes - 1}."]),
        tf.debugging.Assert(as_many, ["Expected a class for each picture. Received", index]),
    ]
    with tf.control_dependencies(refusals):
        weights = tf.one_hot(index, classes)
    return TargetTensors(weights, tf.constant([[classes]]))._replace(region=target.region)


def _variables(*traced: ConcreteFunction) -> dict[int, tf.Variable]:
    """A variable for each weight that the functions capture, by the id of its tensor."""
    handles = {
        id(variable.handle): variable for function in traced for variable in function.variables
    }
    weights: dict[int, tf.Variable] = {}
    for function in traced:
        for tensor in function.captured_inputs:
            held = handles.get(id(tensor), tensor)
            if id(tensor) not in weights:
                weights[id(tensor)] = tf.Variable(held, trainable=False, name="weight")
    return weights


def _over_variables(
    traced: ConcreteFunction,
    weights: Mapping[int, tf.Variable],
    names: Sequence[str],
    *inputs: tf.TensorSpec,
) -> ConcreteFunction:
    """A traced function that reads variables in place of constants and names its outputs."""
    whole = traced.graph.as_graph_def()
    replaced = {tensor.op.name for tensor in traced.inputs}
    graph = tf.compat.v1.GraphDef(
        node=(node for node in whole.node if node.name not in replaced),
        library=whole.library,
        versions=whole.versions,
    )
    held = [weights[id(tensor)] for tensor in traced.captured_inputs]
    read_from = [tensor.name for tensor in traced.inputs]
    computed = [tensor.name for tensor in traced.outputs]

    def function(*given: tf.Tensor) -> dict[str, tf.Tensor]:
        read = [
            tf.identity(one.handle) if place.dtype == tf.resource else one.read_value()
            for one, place in zip(held, traced.inputs[len(given) :], strict=True)
        ]
        tensors = dict(zip(read_from, (*given, *read), strict=True))
        outputs = tf.graph_util.import_graph_def(graph, tensors, computed, name="explainer")
        return dict(zip(names, outputs, strict=True))

    return _traced(function, *inputs)


ARGUMENTS = {f"lrp.{name}": name for name in Lrp.model_fields} | {
    f"model.{name}": name for name in ("size", "output_activation", "scores")
}
"""Key of the configuration -> the argument of `Explainer` that is the same setting."""


def explainer_provenance(
    model: str, arguments: Mapping[str, Any], rules: Mapping[str, str], target: str, precision: str
) -> Provenance:
    """The record of an explainer; its settings are `arguments` that are not at their defaults.

    The target, and the composite where the method is lrp, are kept in any case.
    """
    given = {key: _plain(arguments[name]) for key, name in ARGUMENTS.items()}
    settings = {key: value for key, value in given.items() if value != FIELDS[key].default}
    composite = given["lrp.composite"] if given["lrp.method"] == "lrp" else None
    settings |= {"lrp.target": target, "lrp.composite": composite}
    return Provenance(
        version=__version__,
        tensorflow=tf.__version__,
        keras=keras.__version__,
        python=platform.python_version(),
        model=ModelProvenance(name=model),
        method=given["lrp.method"],
        composite=composite,
        layers=dict(rules),
        target=target,
        device=None,
        precision=precision,
        settings={key: value for key, value in settings.items() if value is not None},
    )


def _plain(value: Any) -> Any:
    """A value as JSON holds it; a composite without a name is "custom", which `load` refuses."""
    if isinstance(value, Composite):
        return next((name for name, row in COMPOSITES.items() if row is value), "custom")
    if isinstance(value, Mapping):
        return {pattern: str(rule) for pattern, rule in value.items()}
    return as_setting(value)
