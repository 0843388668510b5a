"""Reads the variables of a SavedModel from its checkpoint, which has to hold all of them."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from realtime_lrp.errors import DamagedInputError
from realtime_lrp.models.untrusted.loading import naming_the_file

EXPECTED = "Expected what model.export(folder) of Keras or tf.saved_model.save writes."
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


def read_variables(
    folder: Path, saved: Any, wanted: dict[str, int], shown: str
) -> dict[str, np.ndarray]:
    """The values of variables, by the names of the operations that stand for them.

    `wanted` maps such a name to the number of the variable's object in the graph `saved`.
    """
    if not wanted:
        return {}
    for path in folder.glob("variables/variables.*"):
        if not path.is_file():
            raise DamagedInputError(
                f"{path.name} of the SavedModel {shown} is no regular file. {EXPECTED}"
            )
    held = sum(path.stat().st_size for path in folder.glob("variables/variables.data-*"))
    nodes = saved.object_graph_def.nodes
    claimed = sum(_bytes(nodes[number].variable) for number in set(wanted.values()))
    if claimed > held:
        raise DamagedInputError(
            f"The variables of the SavedModel {shown} claim {claimed:,} bytes, its files hold "
            f"{held:,}. {EXPECTED}"
        )
    problem = f"The variables of the SavedModel {shown} are damaged or missing"
    with naming_the_file(shown, problem, EXPECTED):
        reader = tf.train.load_checkpoint(str(folder / "variables" / "variables"))
        described = trackable_object_graph_pb2.TrackableObjectGraph.FromString(
            reader.get_tensor(_OBJECT_GRAPH)
        )
        keys = _checkpoint_keys(nodes, described.nodes)
        shapes = reader.get_variable_to_shape_map()
        values = {}
        for name, number in wanted.items():
            shape = [one.size for one in nodes[number].variable.shape.dim]
            if shapes[keys[number]] != shape:
                raise ValueError(f"{nodes[number].variable.name} has another shape")
            values[name] = reader.get_tensor(keys[number])
    return values


def _bytes(variable: Any) -> int:
    sizes = [one.size for one in variable.shape.dim]
    if any(size < 0 for size in sizes):
        raise DamagedInputError(f"The variable {variable.name[:100]!r} has no fixed shape.")
    return math.prod(sizes) * (tf.as_dtype(variable.dtype).size or 1)


def _checkpoint_keys(objects: Sequence[Any], stored: Sequence[Any]) -> dict[int, str]:
    """Number of a variable -> its key in the checkpoint, by the same path from the root in both."""
    keys: dict[int, str] = {}
    seen, left = {0}, [(0, 0)]
    while left:
        number, there = left.pop()
        for attribute in stored[there].attributes:
            if attribute.name == "VARIABLE_VALUE":
                keys[number] = attribute.checkpoint_key
        children = {child.local_name: child.node_id for child in stored[there].children}
        for child in objects[number].children:
            if child.local_name in children and child.node_id not in seen:
                seen.add(child.node_id)
                left.append((child.node_id, children[child.local_name]))
    return keys
