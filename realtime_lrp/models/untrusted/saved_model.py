"""Reads the graph of a SavedModel, which may come from an attacker, as data.

TensorFlow's own loader would run what the folder asks it to. Here the functions of one signature
are joined into a flat graph of what leads to the explained output. It may hold only operations with
a row (`OPERATIONS`), some that compute their constants, and reads of variables of the checkpoint.
Nothing is run before all of it is checked.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2, node_def_pb2
from tensorflow.core.protobuf import saved_model_pb2, trackable_object_graph_pb2
from tensorflow.python.framework import op_def_registry

from realtime_lrp.errors import DamagedInputError
from realtime_lrp.models.untrusted.loading import naming_the_file
from realtime_lrp.relevance.network.checks import refuse_beyond_memory
from realtime_lrp.relevance.network.places import choose_output
from realtime_lrp.relevance.reading.operations import OPERATIONS
from realtime_lrp.system.files import read_limited

FILE = "saved_model.pb"
PICTURES = "pictures"  # the operation that stands for them in a flat graph
MAX_FILE_BYTES = 512 << 20  # the graph with its constants; weights lie in other files
MAX_NODES = 200_000
MAX_DEPTH = 50  # How deep functions may call each other. Keras writes 3.
MAX_EXPANSION = 100  # times the file's size for constants; zeros are written as one number
SMALL_BYTES = 256 << 20  # Constants up to this size are accepted in any file

OF_CONSTANTS = (
    "All", "Any", "ArgMax", "ArgMin", "BatchToSpaceND", "BroadcastArgs", "Bucketize",
    "ConcatOffset", "Const", "DynamicStitch", "Fill", "FloorDiv", "FloorMod", "GatherNd",
    "InvertPermutation", "LinSpace", "OneHot", "PlaceholderWithDefault", "Prod", "Range", "Rank",
    "ScatterNd", "Select", "Size", "SpaceToBatchND", "TruncateDiv", "Where",
)  # fmt: skip
"""Operations that compute sizes, indices and masks; without a row they may only read constants. Add
one only if it computes its outputs from its inputs and does nothing else."""

CALLS = ("PartitionedCall", "StatefulPartitionedCall")  # a function takes their place
DROPPED = ("Assert", "DisableCopyOnRead", "NoOp", "ReadVariableOp")  # left out of functions

DEFAULT_SIGNATURE = "serving_default"
EXPECTED = "Expected what model.export(folder) of Keras or tf.saved_model.save writes."
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


@dataclass(frozen=True)
class SavedGraph:
    """The flat graph between the input and the outputs of a network, and nothing else."""

    graph: graph_pb2.GraphDef
    input_shape: tuple[int | None, ...]  # the batch's axis included, None where it is open
    input_type: tf.DType
    outputs: tuple[str, ...]  # tensors
    variables: dict[str, np.ndarray]  # values by the operations that stand for them


def read_saved_model(folder: Path, output: str | None = None) -> SavedGraph:
    """Reads and checks the graph behind a signature, and its variables; `output` names one."""
    shown = repr(str(folder))
    if not (folder / FILE).is_file():
        raise DamagedInputError(f"{shown} is no SavedModel: it holds no {FILE}. {EXPECTED}")
    data = read_limited(folder / FILE, MAX_FILE_BYTES, "a SavedModel")
    problem = f"The SavedModel {shown} is damaged, or none that can be explained"
    with naming_the_file(shown, problem, EXPECTED):
        held = saved_model_pb2.SavedModel.FromString(data).meta_graphs
        graphs = [one for one in held if "serve" in one.meta_info_def.tags] or [*held]
        if len(graphs) != 1:
            raise ValueError(f"it holds {len(graphs)} graphs")
        (saved,) = graphs
        if not saved.object_graph_def.nodes:
            raise ValueError(
                "it was written for TensorFlow 1; load it and save it with TensorFlow 2"
            )
        info, function, position = _signature(saved, output)
        kind = tf.as_dtype(info.dtype)
        graph = _Flat(saved).of(function, position)
        constants = [node.attr["value"].tensor for node in graph.nodes if node.op == "Const"]
        claimed = sum(_bytes(constant.tensor_shape, constant.dtype) for constant in constants)
        limit = max(SMALL_BYTES, MAX_EXPANSION * len(data))
        if claimed > limit:
            raise ValueError(f"its constants claim {claimed:,} bytes, more than {limit:,}")
        variables = _read_variables(folder, saved, graph.variables)
    flat = graph_pb2.GraphDef(node=graph.nodes, versions=saved.graph_def.versions)
    shape = tuple(None if one.size < 0 else one.size for one in info.tensor_shape.dim)
    return SavedGraph(flat, shape, kind, (graph.output,), variables)


def _signature(saved: Any, wanted: str | None) -> tuple[Any, str, int]:
    """The input of `DEFAULT_SIGNATURE` or the only one, its function, its output's position."""
    nodes = saved.object_graph_def.nodes
    root = {child.local_name: child.node_id for child in nodes[0].children}
    signatures = nodes[root["signatures"]].children if "signatures" in root else ()
    functions = {
        child.local_name: nodes[child.node_id].bare_concrete_function.concrete_function_name
        for child in signatures
        if nodes[child.node_id].WhichOneof("kind") == "bare_concrete_function"
    }
    names = [name for name in functions if name in saved.signature_def]
    name = DEFAULT_SIGNATURE if DEFAULT_SIGNATURE in names else names[0] if names else ""
    if not name or (name != DEFAULT_SIGNATURE and len(names) > 1):
        has = f"the signatures {', '.join(map(repr, names))}" if names else "no signature"
        raise ValueError(
            f"it has {has} instead of {DEFAULT_SIGNATURE!r} or a single one; save it with "
            "model.export(folder), or tf.saved_model.save(model, folder, signatures=)"
        )
    described = saved.signature_def[name]
    if len(described.inputs) != 1:
        listed = ", ".join(map(repr, described.inputs)) or "none"
        raise ValueError(
            f"the signature {name!r} has the inputs {listed} instead of pictures alone"
        )
    (info,) = described.inputs.values()
    outputs = dict(sorted(described.outputs.items()))
    sizes = {key: [n.size for n in one.tensor_shape.dim][1:] for key, one in outputs.items()}
    output = [*outputs.values()][choose_output(wanted, sizes, name)]
    position = output.name.rpartition(":")[2]
    return info, functions[name], int(position) if position.isdecimal() else 0


@dataclass
class _Flat:
    """Joins the functions of a SavedModel into a flat graph."""

    saved: Any
    nodes: list[node_def_pb2.NodeDef] = field(default_factory=list)
    variables: dict[str, int] = field(default_factory=dict)  # operation for one -> its object
    output: str = ""
    _names: set[str] = field(default_factory=set)

    def of(self, name: str, output: int) -> "_Flat":
        """Makes the flat graph of one output of a signature's function."""
        self._library = {one.signature.name: one for one in self.saved.graph_def.library.function}
        arguments = self._library[name].signature.input_arg
        bound = self.saved.object_graph_def.concrete_functions[name].bound_inputs
        if len(arguments) != len(bound) + 1:
            raise ValueError(f"its function has {len(arguments)} arguments")
        self._add("Placeholder", PICTURES, []).attr["dtype"].type = arguments[0].type
        self.output = self._inline(name, [PICTURES, *map(self._captured, bound)], 0)[output]
        self._prune()
        for node in self.nodes:
            if not _computes(node) and node.op != "Placeholder":
                raise _refusal(node)
        return self

    def _captured(self, number: int) -> str:
        """A variable or constant that a function reads besides its arguments."""
        found = self.saved.object_graph_def.nodes[number]
        kind = found.WhichOneof("kind")
        if kind == "variable":
            node = self._add("Placeholder", found.variable.name or "variable", [])
            node.attr["dtype"].type = found.variable.dtype
            self.variables[node.name] = number
        elif kind == "constant":
            name = found.constant.operation
            (held,) = (one for one in self.saved.graph_def.node if one.name == name)
            node = self._add("Const", name, [])
            node.attr["value"].CopyFrom(held.attr["value"])
            node.attr["dtype"].CopyFrom(held.attr["dtype"])
        else:
            raise ValueError(f"it needs a file or a table ({kind}), not only variables")
        return node.name

    def _inline(self, name: str, arguments: Sequence[str], depth: int) -> list[str]:
        """Adds the operations of a function; returns the names of its outputs."""
        if depth > MAX_DEPTH:
            raise ValueError("its functions call themselves")
        function = self._library[name]
        names = [one.name for one in function.signature.input_arg]
        known = dict(zip(names, arguments, strict=True))
        for node in _in_order(function.node_def):
            inputs = [known[_tensor(one)] for one in node.input if not one.startswith("^")]
            if node.op in CALLS:
                outputs = self._inline(node.attr["f"].func.name, inputs, depth + 1)
            elif node.op == "Identity" and node.attr["T"].type == tf.resource.as_datatype_enum:
                outputs = inputs
            elif not _computes(node) and _has_effects(node):
                raise _refusal(node)
            else:
                outputs = self._copied(node, inputs)
            known |= dict(zip(_output_names(node), outputs, strict=False))
        return [known[_tensor(function.ret[one.name])] for one in function.signature.output_arg]

    def _copied(self, node: node_def_pb2.NodeDef, inputs: Sequence[str]) -> list[str]:
        """Adds an operation of a function; returns the names of its outputs."""
        if node.op == "ReadVariableOp":
            added = self._add("Identity", node.name, inputs)
            added.attr["T"].CopyFrom(node.attr["dtype"])
            return [added.name]
        added = self._add(node.op, node.name, inputs)
        for key, value in node.attr.items():
            if not key.startswith("_"):
                added.attr[key].CopyFrom(value)
        others = (f"{added.name}:{index}" for index in range(1, len(_output_names(node))))
        return [added.name, *others]

    def _add(self, kind: str, name: str, inputs: Sequence[str]) -> node_def_pb2.NodeDef:
        """Adds an operation, under a name that no other one has."""
        if len(self.nodes) >= MAX_NODES:
            raise ValueError(f"it has more than {MAX_NODES:,} operations")
        unique = name
        number = 1
        while unique.lower() in self._names:
            unique = f"{name}_{number}"
            number = number + 1
        self._names.add(unique.lower())
        node = node_def_pb2.NodeDef(op=kind, name=unique, input=inputs)
        self.nodes.append(node)
        return node

    def _prune(self) -> None:
        """Leaves out what the output does not depend on."""
        by_name = {node.name: node for node in self.nodes}
        needed = set()
        left = [self.output.partition(":")[0]]
        while left:
            name = left.pop()
            if name not in needed:
                needed.add(name)
                left += [one.partition(":")[0] for one in by_name[name].input]
        if PICTURES not in needed:
            raise ValueError("its output does not depend on its pictures")
        self.nodes = [node for node in self.nodes if node.name in needed]
        self.variables = {name: number for name, number in self.variables.items() if name in needed}


def _refusal(node: node_def_pb2.NodeDef) -> ValueError:
    why = "has no rule; export the network without it, or add a row to OPERATIONS"
    if _has_effects(node) or _reaches_out(node):
        why = "does more than to compute"
    return ValueError(
        f"it uses the operation {node.op[:100]} ({node.name[:100]!r}), which {why}; nothing of it "
        "was run"
    )


def _computes(node: node_def_pb2.NodeDef) -> bool:
    """Whether an operation may be run: it is known, and TensorFlow says that it only computes.

    `CheckNumerics`, which counts as one with effects, may raise an error and does nothing else.
    """
    known = node.op in OPERATIONS or node.op in OF_CONSTANTS
    harmless = node.op == "CheckNumerics" or not (_has_effects(node) or _reaches_out(node))
    return known and harmless


def _has_effects(node: node_def_pb2.NodeDef) -> bool:
    """Whether an operation may do more than to compute."""
    if node.op in DROPPED:
        return False
    described = op_def_registry.get(node.op)
    return described is None or described.is_stateful


def _reaches_out(node: node_def_pb2.NodeDef) -> bool:
    """Whether an operation calls a function, or takes text, such as the name of a file."""
    described = op_def_registry.get(node.op)
    if described is None or "PyFunc" in node.op:
        return described is not None
    text = any(one.type == tf.string.as_datatype_enum for one in described.input_arg)
    return text or any("func" in one.type for one in described.attr)


def _output_names(node: node_def_pb2.NodeDef) -> list[str]:
    """What a function calls the outputs of an operation, "node:output:0", without the ":0"."""
    names = []
    for one in op_def_registry.get(node.op).output_arg:
        count = 1
        if one.number_attr:
            count = node.attr[one.number_attr].i
        elif one.type_list_attr:
            count = len(node.attr[one.type_list_attr].list.type)
        if count > MAX_NODES:
            raise ValueError(f"{node.name[:100]!r} has {count:,} outputs")
        names += [_tensor(f"{node.name}:{one.name}:{index}") for index in range(count)]
    return names


def _tensor(name: str) -> str:
    """A name of a tensor without the ":0" of first outputs."""
    return name.removesuffix(":0")


def _in_order(nodes: Sequence[Any]) -> list[Any]:
    """A function's operations after those that they read; it may list them in any order."""
    by_name = {node.name: node for node in nodes}
    read = {
        node.name: [one.removeprefix("^").partition(":")[0] for one in node.input] for node in nodes
    }
    ordered = TopologicalSorter(read).static_order()  # a circle is a ValueError
    return [by_name[name] for name in ordered if name in by_name]


def _read_variables(folder: Path, saved: Any, wanted: dict[str, int]) -> dict[str, np.ndarray]:
    """The values of variables; `wanted` maps names to the numbers of their objects in `saved`."""
    if not wanted:
        return {}
    for path in folder.glob("variables/variables.*"):
        if not path.is_file():
            raise ValueError(f"{path.name} is no regular file")
    held = sum(path.stat().st_size for path in folder.glob("variables/variables.data-*"))
    nodes = saved.object_graph_def.nodes
    claimed = 0
    for variable in (nodes[number].variable for number in {*wanted.values()}):
        if any(one.size < 0 for one in variable.shape.dim):
            raise ValueError(f"the variable {variable.name[:100]!r} has no fixed shape")
        claimed += _bytes(variable.shape, variable.dtype)
    if claimed > held:
        raise ValueError(f"its variables claim {claimed:,} bytes, its files hold {held:,}")
    refuse_beyond_memory(claimed, repr(str(folder)))
    reader = tf.train.load_checkpoint(str(folder / "variables" / "variables"))
    described = trackable_object_graph_pb2.TrackableObjectGraph.FromString(
        reader.get_tensor(_OBJECT_GRAPH)
    )
    keys = _checkpoint_keys(nodes, described.nodes)
    shapes = reader.get_variable_to_shape_map()
    values = {}
    for name, number in wanted.items():
        if shapes[keys[number]] != [one.size for one in nodes[number].variable.shape.dim]:
            raise ValueError(f"{nodes[number].variable.name[:100]} has another shape")
        values[name] = reader.get_tensor(keys[number])
    return values


def _bytes(shape: Any, kind: int) -> int:
    return math.prod(one.size for one in shape.dim) * (tf.as_dtype(kind).size or 1)


def _checkpoint_keys(objects: Sequence[Any], stored: Sequence[Any]) -> dict[int, str]:
    """Number of a variable -> its key in the checkpoint, by the same path from the root in both."""
    keys: dict[int, str] = {}
    seen = {0}
    left = [(0, 0)]
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
