"""Reads an ONNX file, which may come from an attacker, as data.

Nothing is computed here, and nothing allocated that the files do not hold. Weights beside the file
are read from its own folder alone.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from realtime_lrp.errors import DamagedInputError, first_line
from realtime_lrp.models.onnx.rows import MICROSOFT, OF_CONSTANTS, row_of
from realtime_lrp.relevance.network.checks import refuse_beyond_memory
from realtime_lrp.relevance.network.places import choose_output
from realtime_lrp.system.files import read_limited

MAX_FILE_BYTES = (2 << 30) - 1  # what protobuf can hold; larger weights lie beside the file
MAX_NODES = 100_000

OLDEST = 7  # opset whose operations are known
NEWEST = 28

EXPECTED = "Expected a file that torch.onnx.export or another exporter has written."

WHOLE_TYPES = frozenset(map(onnx.TensorProto.DataType.Value, (
    "FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE", "BOOL", "UINT8", "INT8", "UINT16", "INT16", "UINT32",
    "INT32", "UINT64", "INT64", "INT4", "UINT4",
)))  # fmt: skip
"""The types of weights that are read."""

OF_PICTURES = ("FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE", "UINT8")  # the types of pictures

# how operations begin that compute with whole numbers
WHOLE = re.compile("QLinear|QGemm|QAttention|ConvInteger|MatMulInteger|DynamicQuantize")

CHOICES = (
    "ArgMax", "ArgMin", "BatchedNMS_TRT", "EfficientNMS_TRT", "Hardmax", "NonMaxSuppression",
    "NonZero", "TopK",
)  # fmt: skip
"""Operations that choose at the end of a file, the best classes, boxes that do not overlap: what is
chosen has no map of its own. TopK only where the numbers of what it has chosen are read."""

WEIGHTED = (
    "Conv", "ConvTranspose", "FusedConv", "FusedGemm", "FusedMatMul", "Gemm", "MatMul",
    "MatMulNBits",
)  # fmt: skip
"""Operations with weights, if one of what they read does not depend on the picture."""


@dataclass(frozen=True)
class OnnxFile:
    """A network of pictures; of its outputs one will be explained, or two of a detector."""

    nodes: list[Any]  # between pictures and outputs, each after those that it reads
    arrays: dict[str, np.ndarray]  # the constants that nodes read
    pictures: str  # the name of the input
    shape: tuple[int | None, ...]  # the pictures', None where a size is open
    whole: bool  # whether pictures are whole numbers from 0 to 255
    outputs: list[str]
    chosen: str  # the operation that chooses from the outputs in the file, or ""
    version: int  # the opset
    about: dict[str, str]  # what the file says about itself


def read_onnx(path: Path, output: str | None) -> OnnxFile:
    """Reads and checks a file; `output` names one of several. Damage raises a ValueError, ..."""
    shown = repr(str(path))
    model = onnx.ModelProto.FromString(read_limited(path, MAX_FILE_BYTES, "an ONNX file"))
    if not model.graph.node or not model.opset_import:
        raise ValueError("it holds no network")
    found = [one.version for one in model.opset_import if one.domain in ("", "ai.onnx")]
    if len(found) != 1 or found[0] < OLDEST:
        raise ValueError(
            f"it uses the opset {', '.join(map(str, found)) or 'none'}, not {OLDEST} to {NEWEST}; "
            "export it again with opset_version=17"
        )
    arrays = {one.name: one for one in model.graph.initializer}
    pictures, shape, whole = _pictures(model.graph, arrays)
    known = {pictures, *arrays}
    chosen = ""
    computed = {name for node in model.graph.node for name in node.output}
    outputs = [one.name for one in model.graph.output]
    outputs = [one for one in outputs if one in computed] or outputs
    if output is not None:
        choose_output(output, dict.fromkeys(outputs, ()), shown)
        outputs = [output]
    nodes = _needed(model.graph.node, outputs, known)
    if output is None:
        ends, chosen = _before_choices(nodes, outputs, pictures)
        nodes = _needed(nodes, ends, known)
        outputs = ends or outputs
    for node in nodes:
        _check(node, shown)
    if not any(pictures in node.input for node in nodes):
        listed = ", ".join(map(repr, outputs[:10])) or "none"
        raise ValueError(f"its outputs {listed} do not depend on its pictures")
    read = {name for node in nodes for name in node.input}
    values = _arrays({name: one for name, one in arrays.items() if name in read}, path)
    about = {prop.key: prop.value for prop in model.metadata_props}
    return OnnxFile(nodes, values, pictures, shape, whole, outputs, chosen, found[0], about)


def _pictures(graph: Any, arrays: dict[str, Any]) -> tuple[str, tuple[int | None, ...], bool]:
    """The only input that is no constant: its name, its shape, whether it has whole numbers."""
    inputs = [one for one in graph.input if one.name not in arrays]
    if len(inputs) != 1:
        names = ", ".join(repr(input_.name[:100]) for input_ in inputs[:10]) or "none"
        raise ValueError(f"it has the inputs {names}. Expected a single one: pictures")
    described = inputs[0].type.tensor_type
    shape = tuple(one.dim_value if one.dim_value > 0 else None for one in described.shape.dim)
    kinds = [*map(onnx.TensorProto.DataType.Value, OF_PICTURES)]
    channels = len(shape) == 4 and {1, 3} & {shape[1], shape[3]}
    if described.elem_type not in kinds or not channels:
        listed = " x ".join("any" if one is None else str(one) for one in shape) or "no shape"
        raise ValueError(
            f"it reads {inputs[0].name[:100]!r}, {listed}. Expected pictures: numbers "
            "[batch, 3 or 1, height, width], floating or uint8"
        )
    return inputs[0].name, shape, described.elem_type == onnx.TensorProto.UINT8


def _needed(nodes: Any, outputs: Sequence[str], known: set[str]) -> list[Any]:
    """The nodes that outputs depend on, each after those that it reads."""
    if len(nodes) > MAX_NODES:
        raise ValueError(f"it has {len(nodes):,} nodes")
    made: dict[str, int] = {}
    for number, node in enumerate(nodes):
        for name in node.output:
            if name and (name in made or name in known):
                raise ValueError(f"it computes {name[:100]!r} twice")
            made[name] = number
    read: dict[int, list[int]] = {}
    left = [(output, "its output") for output in outputs]
    while left:
        name, reader = left.pop()
        if not name or name in known:
            continue
        if name not in made:
            raise ValueError(
                f"{reader} reads {name[:100]!r}, which is neither among its weights nor computed"
            )
        number = made[name]
        if number not in read:
            own = nodes[number].input
            read[number] = [made[one] for one in own if one not in known and one in made]
            reader = f"the node {label(nodes[number])}"
            left += [(one, reader) for one in own]
    if all(one < number for number, before in read.items() for one in before):
        return [nodes[number] for number in sorted(read)]
    try:
        return [nodes[number] for number in TopologicalSorter(read).static_order()]
    except CycleError:
        raise ValueError("some of its nodes read each other in a circle") from None


def _before_choices(
    nodes: Sequence[Any], outputs: Sequence[str], pictures: str
) -> tuple[list[str], str]:
    """The tensors that a file's answer is chosen from, and the operation that chooses, or "".

    Outputs that are not chosen come first. A choice that layers with weights follow, as of queries,
    is a part of the network. `nodes` come after those that they read.
    """
    of_picture = {pictures}
    chosen = set[str]()
    weighs = set[str]()
    used = {*outputs, *(name for node in nodes for name in node.input)}
    for node in nodes:
        branches = any(one.type == one.GRAPH for one in node.attribute)
        if branches or of_picture.intersection(node.input):
            of_picture.update(filter(None, node.output))
    for node in reversed(nodes):
        read = of_picture.intersection(node.input)
        weighted = node.op_type in WEIGHTED and len(read) < len([*filter(None, node.input[:2])])
        if weighted or weighs.intersection(node.output):
            weighs.update(read)
    how = ""
    ends = [output for output in outputs if output in of_picture]
    for node in nodes:
        read = of_picture.intersection(node.input)
        first = node.op_type in CHOICES and read and not weighs.intersection(node.output)
        if node.op_type == "TopK":  # else it sorts, or what is largest is summed
            first = first and node.output[-1] in used and len(node.output) > 1
        how = how or (node.op_type if first else "")
        if first or chosen.intersection(node.input):
            chosen.update(filter(None, node.output))
            ends += [one for one in node.input if one in read and one not in chosen]
    return list(dict.fromkeys(end for end in ends if end not in chosen)), how


def label(node: Any) -> str:
    """A node in a message: its name, or its first output's, and its operation."""
    name = node.name or next(iter(node.output), "")
    return f"{name[:100]!r} ({node.op_type[:100]})"


def _check(node: Any, shown: str) -> None:
    """Refuses nodes whose operation is not known, by name."""
    kind = node.op_type
    attributes = node.attribute
    domain = node.domain
    faults = (
        (WHOLE.match(kind),
         "computes with quantised numbers. Expected floating ones: quantise the network with "
         "QuantizeLinear and DequantizeLinear around its layers (QDQ), or export it as it was."),
        (any(attribute.type in (attribute.GRAPH, attribute.GRAPHS) for attribute in attributes),
         "repeats or chooses other nodes (control flow). Expected a network without: export it "
         "with fixed sizes, or simplify it (onnxsim)."),
        (any(attribute.t.data_location == onnx.TensorProto.EXTERNAL for attribute in attributes),
         f"holds a constant in another file. {EXPECTED}"),
        (domain not in ("", "ai.onnx") and not (domain == MICROSOFT and row_of(kind, domain)),
         f"is {kind[:100]!r} of the domain {domain[:100]!r}, which is for one program or "
         "processor. Expected ONNX's own operations: export it without such optimisation, or "
         "inline its functions (onnx.inliner)."),
        (not row_of(kind, domain) and kind not in OF_CONSTANTS,
         "has no rule.\nExport the network without it, or add a row to ROWS in models/onnx "
         "(docs/extending.md)."),
    )  # fmt: skip
    for wrong, why in faults:
        if wrong:
            raise DamagedInputError(f"The node {label(node)} of the ONNX file {shown} {why}")


def _arrays(wanted: dict[str, Any], path: Path) -> dict[str, np.ndarray]:
    """The values of constants of known types, if memory holds them; of another file what it has.

    ONNX's own reader refuses a file outside of the folder, and what a link leads to.
    """
    total = 0
    for name, one in wanted.items():
        if one.data_type not in WHOLE_TYPES or any(size < 0 for size in one.dims):
            raise ValueError(
                f"the weights {name[:100]!r} are of the type {one.data_type} and the shape "
                f"{list(one.dims)[:8]}; expected numbers of usual types"
            )
        held = math.prod(one.dims) * onnx.helper.tensor_dtype_to_np_dtype(one.data_type).itemsize
        total += held
        if one.data_location == onnx.TensorProto.EXTERNAL:
            one.external_data.add(key="length", value=str(held))
    refuse_beyond_memory(total, repr(str(path)))
    arrays = {}
    for name, one in wanted.items():
        try:
            arrays[name] = numpy_helper.to_array(one, str(path.resolve().parent))
        except (OSError, TypeError, ValueError, onnx.checker.ValidationError) as error:
            why = first_line(error)[:200]
            raise ValueError(
                f"the weights {name[:100]!r} are damaged, or not in its folder: {why}"
            ) from error
    return arrays
