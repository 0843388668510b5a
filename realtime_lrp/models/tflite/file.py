"""Reads a TensorFlow Lite file, which may come from an attacker, as data.

TensorFlow's reader of its tables copies nothing, and raises an error for what lies outside of the
file. Nothing is computed here but what quantised weights stand for.
"""

import io
import math
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from flatbuffers.number_types import Float32Flags
from flatbuffers.table import Table
from tensorflow.lite.python import schema_py_generated as schema

from realtime_lrp.models.labels import MAX_FILE_BYTES as MAX_TEXT_BYTES
from realtime_lrp.models.labels import names_in
from realtime_lrp.relevance.network.checks import refuse_beyond_memory
from realtime_lrp.relevance.network.places import choose_output
from realtime_lrp.system.files import read_limited

MAX_BYTES = (2 << 30) - 1
MAX_OPERATIONS = 100_000
MAX_LISTED = 10_000  # entries of a list of tensors, outputs, files
MAX_LETTERS = 500  # letters of a name
MAX_TEXTS = 20  # files that are packed behind a network


OPERATORS, TYPES = (
    {number: name for name, number in vars(enum).items() if isinstance(number, int)}
    for enum in (schema.BuiltinOperator, schema.TensorType)
)


class TfliteOperation(NamedTuple):
    """An operation; tensors have numbers, -1 is an input that is left out."""

    kind: str
    options: Any  # has the schema's attributes; None where there are none
    inputs: list[int]
    outputs: list[int]


class TfliteTensor(NamedTuple):
    """A tensor."""

    name: str
    shape: list[int]  # 1 where sizes are open
    signature: list[int]  # -1 where sizes are open
    type: str
    ends: tuple[float, float] | None  # the range that quantised numbers can stand for


class TfliteFile:
    """The `operations` between the tensors `picture` and `output`, each after what it reads."""

    def __init__(self, path: Path, output: str | None) -> None:
        self.data = read_limited(path, MAX_BYTES, "a .tflite file")
        if self.data[4:8] != b"TFL3":
            raise ValueError("it does not begin as one")
        self.model = schema.Model.GetRootAs(self.data, 0)
        self.graph = self.model.Subgraphs(0)
        if self.graph is None:
            raise ValueError("it holds no network")
        inputs = _list(self.graph.InputsAsNumpy())
        if len(inputs) != 1:
            raise ValueError(f"it reads {len(inputs)} tensors, not pictures alone")
        (self.picture,) = inputs
        numbers = _list(self.graph.OutputsAsNumpy())
        names = {number: self.tensor(number).name for number in numbers}
        if self.model.SignatureDefsLength():  # its names go before the tensors'
            signature = self.model.SignatureDefs(0)
            for one in map(signature.Outputs, range(min(signature.OutputsLength(), MAX_LISTED))):
                names[one.TensorIndex()] = _text(one.Name())
        outputs = {names[number]: number for number in numbers}
        shapes = {name: self.tensor(number).signature[1:] for name, number in outputs.items()}
        self.output = [*outputs.values()][choose_output(output, shapes, path.name)]
        self.operations = self._needed()

    def tensor(self, number: int) -> TfliteTensor:
        """What the file says of a tensor."""
        one = self.graph.Tensors(number)
        shape = _list(one.ShapeAsNumpy())
        kind = TYPES[one.Type()]
        held = one.Quantization()
        ends = None
        if kind in ("INT8", "UINT8", "INT16") and held and held.ScaleLength() == 1:
            most = np.iinfo(kind.lower())
            zero = int(np.ravel(held.ZeroPointAsNumpy())[0])
            ends = (most.min - zero) * held.Scale(0), (most.max - zero) * held.Scale(0)
        signature = _list(one.ShapeSignatureAsNumpy()) or shape
        return TfliteTensor(_text(one.Name()), shape, signature, kind, ends)

    def arrays(self) -> dict[int, np.ndarray]:
        """The constants that operations read; floating numbers, and quantised ones, as float32."""
        made = {self.picture, -1, *(n for operation in self.operations for n in operation.outputs)}
        numbers = {n for operation in self.operations for n in operation.inputs} - made
        shapes = [self.tensor(number).shape for number in numbers]
        refuse_beyond_memory(4 * sum(map(math.prod, shapes)), "The .tflite file")
        return {number: self._array(number) for number in numbers}

    def _needed(self) -> list[TfliteOperation]:
        """The operations that outputs depend on; as the file has them in order, none in circles."""
        count = self.graph.OperatorsLength()
        model = self.model
        if count > MAX_OPERATIONS:
            raise ValueError(f"it has {count:,} operations")
        needed = {self.output}
        made = {self.picture}
        found = []
        for one in map(self.graph.Operators, reversed(range(count))):
            outputs = _list(one.OutputsAsNumpy())
            inputs = _list(one.InputsAsNumpy())
            if not made.isdisjoint(outputs) or (made - {self.picture}).intersection(inputs):
                raise ValueError("it computes tensors twice, or after they are read")
            made.update(outputs)
            if needed.isdisjoint(outputs):
                continue
            needed.update(inputs)
            code = model.OperatorCodes(one.OpcodeIndex())
            kind = OPERATORS.get(max(code.BuiltinCode(), code.DeprecatedBuiltinCode()), "unknown")
            kind = _text(code.CustomCode()) if kind == "CUSTOM" else kind
            options = one.BuiltinOptions()
            options = options and schema.BuiltinOptionsCreator(one.BuiltinOptionsType(), options)
            found.append(TfliteOperation(kind, options, inputs, outputs))
        if self.picture not in needed:
            raise ValueError("its output does not depend on its pictures")
        return found[::-1]

    def _array(self, number: int) -> np.ndarray:
        one = self.graph.Tensors(number)
        tensor = self.tensor(number)
        held = self.model.Buffers(one.Buffer()).DataAsNumpy()
        where = f"{tensor.name[:100]!r}"
        held = np.zeros(0, np.uint8) if isinstance(held, int) else held
        if one.Sparsity():
            raise ValueError(f"the weights {where} are sparse")
        if tensor.type == "INT4":  # two in a byte, the first in the low half
            held = np.stack([held << 4, held], -1).view(np.int8).ravel() >> 4
            values = held[: math.prod(tensor.shape)]
        else:
            values = held.view(tensor.type.lower())
        values = values.reshape(tensor.shape)
        if values.dtype.kind == "f":
            return values.astype(np.float32, copy=False)
        quantised = one.Quantization()
        if not quantised or not quantised.ScaleLength():
            return values
        if quantised.DetailsType():
            raise ValueError(f"the weights {where} are quantised block by block")
        shape = [1] * values.ndim
        if values.ndim:
            shape[quantised.QuantizedDimension()] = -1
        zero, scale = (
            np.ravel(by).astype(np.float32).reshape(shape if np.size(by) > 1 else ())
            for by in (quantised.ZeroPointAsNumpy(), quantised.ScaleAsNumpy())
        )
        return (values.astype(np.float32) - zero) * scale

    def normalised(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Mean and deviation of pictures from 0 to 255, where TensorFlow's metadata give them.

        Its schema is metadata_schema.fbs of tflite_support; the numbers are its fields'.
        """
        for one in map(self.model.Metadata, range(min(self.model.MetadataLength(), MAX_LISTED))):
            if one.Name() == b"TFLITE_METADATA":
                data = self.model.Buffers(one.Buffer()).DataAsNumpy().tobytes()
                tables = [Table(data, int.from_bytes(data[:4], "little"))]
                for field in (3, 2, 4):  # subgraph_metadata, input_tensor_metadata, process_units
                    tables = [inner for table in tables for inner in _tables(table, field)]
                for unit in tables:
                    kind = unit.Offset(4)
                    if kind and data[unit.Pos + kind] == 1:  # NormalizationOptions
                        found = Table(data, unit.Indirect(unit.Pos + unit.Offset(6)))
                        mean, deviation = (
                            found.GetVectorAsNumpy(Float32Flags, found.Offset(at))[:3]
                            for at in (4, 6)
                        )
                        return mean, deviation
        return None

    def labels(self, classes: int) -> list[str] | None:
        """The class names in a text file that is packed behind the network; one output has two."""
        if not zipfile.is_zipfile(io.BytesIO(self.data)):
            return None
        with zipfile.ZipFile(io.BytesIO(self.data)) as archive:
            for one in archive.infolist()[:MAX_TEXTS]:
                stored = one.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
                if stored and one.filename.endswith(".txt") and one.file_size <= MAX_TEXT_BYTES:
                    text = archive.open(one).read(one.file_size).decode("utf-8-sig", "replace")
                    if len(names := names_in(text)) == max(classes, 2):
                        return names
        return None


def _list(values: Any) -> list[int]:
    """A list of numbers; where a file leaves it out the reader returns 0."""
    if np.size(values) > MAX_LISTED:
        raise ValueError(f"it holds a list of {np.size(values):,} numbers")
    return [] if isinstance(values, int) else values.tolist()


def _text(name: bytes | None) -> str:
    """A name; of those of layers that became one the first."""
    first = (name or b"").partition(b";")[0][:MAX_LETTERS].decode(errors="replace")
    return "".join(one if one.isprintable() else "_" for one in first)


def _tables(table: Table, field: int) -> Iterator[Table]:
    """The tables in a list of a table, at most 20, by the number of its field."""
    if offset := table.Offset(4 + 2 * field):
        for n in range(min(table.VectorLen(offset), 20)):
            yield Table(table.Bytes, table.Indirect(table.Vector(offset) + 4 * n))
