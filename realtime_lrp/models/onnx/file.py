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
from google.protobuf.message import DecodeError
from onnx import numpy_helper

from realtime_lrp.errors import DamagedInputError, first_line
from realtime_lrp.models.onnx.choices import before_choices
from realtime_lrp.relevance.network.checks import refuse_beyond_memory
from realtime_lrp.relevance.network.places import choose_output
from realtime_lrp.system.files import read_limited

MAX_FILE_BYTES = (2 << 30) - 1  # what protobuf can hold; larger weights lie beside the file
MAX_NODES = 100_000

OLDEST = 7
NEWEST = 28
"""The opsets whose operations are known."""

EXPECTED = "Expected a file that torch.onnx.export or another exporter has written."

WHOLE_TYPES = frozenset(map(onnx.TensorProto.DataType.Value, (
    "FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE", "BOOL", "UINT8", "INT8", "UINT16", "INT16", "UINT32",
    "INT32", "UINT64", "INT64", "INT4", "UINT4",
)))  # fmt: skip
"""The types of weights that are read."""

OF_PICTURES = ("FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE", "UINT8")
"""The types of pictures that are read."""


@dataclass(frozen=True)
class OnnxFile:
    """The nodes between the pictures and the explained outputs, each after those that it reads.

    `pictures` and `outputs` name tensors; of outputs one will be explained, or two of a detector.
    `chosen` is the operation that chooses from them in the file, or "". `shape` is that of the
    pictures, None where a size is open; `whole` says that they are whole numbers from 0 to 255.
    `arrays` has the constants that nodes read; `version` is the opset; `about` is what the file
    says about itself.
    """

    nodes: list[Any]
    arrays: dict[str, np.ndarray]
    pictures: str
    shape: tuple[int | None, ...]
    whole: bool
    outputs: tuple[str, ...]
    chosen: str
    version: int
    about: dict[str, str]


def read_onnx(path: Path, output: str | None) -> OnnxFile:
    """Reads and checks a file; `output` names one of several.

    Raises:
      UsageError: it has no such output.
      DamagedInputError: it is no ONNX file, or no network of pictures.
      MissingInputError: it cannot be read.
      UnavailableError: its weights do not fit into memory.
    """
    shown = repr(str(path))
    data = read_limited(path, MAX_FILE_BYTES, "an ONNX file")
    try:
        model = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise DamagedInputError(f"{shown} is no ONNX file, or it is cut. {EXPECTED}") from error
    del data
    if not model.graph.node or not model.opset_import:
        raise DamagedInputError(f"{shown} is no ONNX file: it holds no network. {EXPECTED}")
    version = _version(model, shown)
    arrays = {one.name: one for one in model.graph.initializer}
    pictures, shape, whole = _pictures(model.graph, arrays, shown)
    known = {pictures, *arrays}
    chosen = ""
    computed = {name for node in model.graph.node for name in node.output}
    outputs = [one.name for one in model.graph.output]
    outputs = [one for one in outputs if one in computed] or outputs
    if output is not None:
        choose_output(output, dict.fromkeys(outputs, ()), shown)
        outputs = [output]
    nodes = _needed(model.graph.node, outputs, known, shown)
    if output is None:
        ends, chosen = before_choices(nodes, outputs, pictures)
        nodes = _needed(nodes, ends, known, shown)
        outputs = ends or outputs
    for node in nodes:
        _check(node, shown)
    if not any(pictures in node.input for node in nodes):
        raise DamagedInputError(
            f"The outputs {', '.join(map(repr, outputs[:10])) or 'none'} of the ONNX file {shown} "
            "do not depend on its pictures."
        )
    read = {name for node in nodes for name in node.input}
    wanted = {name: one for name, one in arrays.items() if name in read}
    _check_sizes(wanted, shown)
    values = {name: _array(one, path, shown) for name, one in wanted.items()}
    about = {one.key: one.value for one in model.metadata_props}
    return OnnxFile(nodes, values, pictures, shape, whole, tuple(outputs), chosen, version, about)


def _version(model: Any, shown: str) -> int:
    """The opset of ONNX's own operations."""
    found = [one.version for one in model.opset_import if one.domain in ("", "ai.onnx")]
    if len(found) != 1 or found[0] < OLDEST:
        raise DamagedInputError(
            f"The ONNX file {shown} uses the opset {', '.join(map(str, found)) or 'none'}. "
            f"Expected {OLDEST} to {NEWEST}: export it again with opset_version=17."
        )
    return found[0]


def _pictures(
    graph: Any, arrays: dict[str, Any], shown: str
) -> tuple[str, tuple[int | None, ...], bool]:
    """The only input that is no constant: its name, its shape, whether it has whole numbers."""
    inputs = [one for one in graph.input if one.name not in arrays]
    if len(inputs) != 1:
        names = ", ".join(repr(one.name[:100]) for one in inputs[:10]) or "none"
        raise DamagedInputError(
            f"The ONNX file {shown} has the inputs {names}. Expected a single one: pictures."
        )
    described = inputs[0].type.tensor_type
    shape = tuple(one.dim_value if one.dim_value > 0 else None for one in described.shape.dim)
    kinds = [*map(onnx.TensorProto.DataType.Value, OF_PICTURES)]
    channels = len(shape) == 4 and {1, 3} & {shape[1], shape[3]}
    if described.elem_type not in kinds or not channels:
        listed = " x ".join("any" if one is None else str(one) for one in shape) or "no shape"
        raise DamagedInputError(
            f"The ONNX file {shown} reads {inputs[0].name[:100]!r}, {listed}. Expected pictures: "
            "numbers [batch, 3 or 1, height, width], floating or uint8."
        )
    return inputs[0].name, shape, described.elem_type == onnx.TensorProto.UINT8


def _needed(nodes: Any, outputs: Sequence[str], known: set[str], shown: str) -> list[Any]:
    """The nodes that outputs depend on, in the order of the file if that is one.

    Each tensor is computed once, before it is read, so that there are no circles.
    """
    if len(nodes) > MAX_NODES:
        raise DamagedInputError(f"The ONNX file {shown} has {len(nodes):,} nodes. {EXPECTED}")
    made: dict[str, int] = {}
    for number, node in enumerate(nodes):
        for name in node.output:
            if name and (name in made or name in known):
                raise DamagedInputError(
                    f"The ONNX file {shown} computes {name[:100]!r} twice. {EXPECTED}"
                )
            made[name] = number
    read: dict[int, list[int]] = {}
    left = [(output, len(nodes)) for output in outputs]
    while left:
        name, reader = left.pop()
        if not name or name in known:
            continue
        if name not in made:
            raise _not_computed(nodes, reader, name, shown)
        number = made[name]
        if number not in read:
            own = nodes[number].input
            read[number] = [made[one] for one in own if one not in known and one in made]
            left += [(one, number) for one in own]
    if all(one < number for number, before in read.items() for one in before):
        return [nodes[number] for number in sorted(read)]
    try:
        return [nodes[number] for number in TopologicalSorter(read).static_order()]
    except CycleError as error:
        before, after = error.args[1][:2]
        name = next(one for one in nodes[after].input if made.get(one) == before)
        raise _not_computed(nodes, after, name, shown) from None


def _not_computed(nodes: Any, reader: int, name: str, shown: str) -> DamagedInputError:
    by = f"the node {label(nodes[reader])}" if reader < len(nodes) else "its output"
    return DamagedInputError(
        f"In the ONNX file {shown} {by} reads {name[:100]!r}, which is neither among its "
        f"weights nor computed before. {EXPECTED}"
    )


def label(node: Any) -> str:
    """A node in a message: its name, or its first output's, and its operation."""
    name = node.name or next(iter(node.output), "")
    return f"{name[:100]!r} ({node.op_type[:100]})"


WHOLE = re.compile("QLinear|QGemm|QAttention|ConvInteger|MatMulInteger|DynamicQuantize")
"""Operations that compute with whole numbers begin so."""


def _check(node: Any, shown: str) -> None:
    """Refuses nodes whose operation is not known, by name."""
    from realtime_lrp.models.onnx.rows import MICROSOFT, OF_CONSTANTS, row_of

    kind = node.op_type
    attributes = node.attribute
    domain = node.domain
    faults = (
        (WHOLE.match(kind),
         "computes with quantised numbers. Expected floating ones: quantise the network with "
         "QuantizeLinear and DequantizeLinear around its layers (QDQ), or export it as it was."),
        (any(one.type in (one.GRAPH, one.GRAPHS) for one in attributes),
         "repeats or chooses other nodes (control flow). Expected a network without: export it "
         "with fixed sizes, or simplify it (onnxsim)."),
        (any(one.t.data_location == onnx.TensorProto.EXTERNAL for one in attributes),
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


def _check_sizes(wanted: dict[str, Any], shown: str) -> None:
    """Refuses constants of types that are not known, and more of them than memory holds."""
    total = 0
    for name, one in wanted.items():
        if one.data_type not in WHOLE_TYPES or any(size < 0 for size in one.dims):
            raise DamagedInputError(
                f"The weights {name[:100]!r} of the ONNX file {shown} are of the type "
                f"{one.data_type} and the shape {list(one.dims)[:8]}. Expected numbers of "
                "usual types."
            )
        total += math.prod(one.dims) * _item_bytes(one)
    refuse_beyond_memory(total, shown)


def _item_bytes(one: Any) -> int:
    return onnx.helper.tensor_dtype_to_np_dtype(one.data_type).itemsize


def _array(one: Any, path: Path, shown: str) -> np.ndarray:
    """The values of a constant; of another file no more than it has.

    ONNX's own reader refuses a file outside of the folder, and what a link leads to.
    """
    if one.data_location == onnx.TensorProto.EXTERNAL:
        one.external_data.add(key="length", value=str(math.prod(one.dims) * _item_bytes(one)))
    try:
        return numpy_helper.to_array(one, str(path.resolve().parent))
    except (OSError, TypeError, ValueError, onnx.checker.ValidationError) as error:
        raise DamagedInputError(
            f"The weights {one.name[:100]!r} of the ONNX file {shown} are damaged, or not in its "
            f"folder ({first_line(error)[:200]}). {EXPECTED}"
        ) from error
