"""Appends the operations of a traced layer to a graph, by the rows of `operations.py`.

What does not depend on the layer's inputs is computed once, while the graph is built.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import keras
import tensorflow as tf

from realtime_lrp.errors import first_line
from realtime_lrp.relevance.network.graph import Graph
from realtime_lrp.relevance.network.steps import Step
from realtime_lrp.relevance.network.traced_steps import BATCH, Choice, kept_shape
from realtime_lrp.relevance.reading import tracing
from realtime_lrp.relevance.reading.layers import UnsupportedLayerError
from realtime_lrp.relevance.reading.norms import Candidate, as_normalisation, candidates
from realtime_lrp.relevance.reading.tracing import CannotReadError, Chain, Held, Turned, Value

Values = Sequence[Value | None]  # an operation's outputs, None if nothing reads them

Row = Callable[["Reader", tf.Operation], Values]
"""(reader, operation) -> the values of its outputs. A row appends the nodes that compute them."""

MAX_CONSTANT_BYTES = 1 << 30
"""The most memory for constants that are computed from others, plus `MAX_CONSTANT_FACTOR` times the
layer's own weights. A model file can ask for a constant of any size in a few bytes."""

MAX_CONSTANT_FACTOR = 10

MAX_CHAIN = 50  # operations in a chain; a longer one, computed by recursion, becomes a node

CONTROL_FLOW = {
    "While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase", "Switch", "Enter",
}  # fmt: skip


@dataclass
class Reader:
    """The state while a traced layer is read; nodes are appended to `graph`."""

    graph: Graph
    layer: keras.Operation
    name: str
    trace: tracing.Trace
    # (a call of an inner layer, its inputs, its name) -> its outputs
    append_call: Callable[[tracing.Call, list[int], str], list[int | None]]
    rows: Mapping[str, Row]  # type of an operation -> its row
    # name of a traced tensor -> what it stands for
    values: dict[str, Value] = field(default_factory=dict)
    # the names of the traced tensors that a node computes
    made: set[str] = field(default_factory=set)
    numbers: set[int] = field(default_factory=set)  # the tensors of the graph that were appended
    constant_bytes: int = 0  # the size of all constants that were computed

    def read(self, numbers: Sequence[int]) -> list[int | None]:
        """Appends everything that the layer's outputs depend on; `numbers` are its inputs.

        Returns the numbers of its outputs, None for one that does not depend on the picture.
        """
        operations = self.trace.graph.get_operations()
        for tensor, number in zip(self.trace.inputs, numbers, strict=True):
            self.values[tensor.name] = Held(number, tuple(tensor.shape))
        of_picture = set(self.values)  # the names of the tensors that depend on the picture
        for operation in operations:
            if any(tensor.name in of_picture for tensor in operation.inputs):
                of_picture.update(tensor.name for tensor in operation.outputs)
        needed, skipped = self._needed(of_picture)
        norms = candidates(operations, of_picture, needed) if self.trace.flat else []
        by_output = {norm.operations[-1].name: norm for norm in norms}
        single = needed - {part.name for norm in norms for part in norm.operations}
        outputs: list[int | None] = []
        try:
            for operation in operations:
                calls = (self.trace.calls.get(tensor.name) for tensor in operation.outputs)
                call = next((one for one in calls if one in skipped), None)
                if call and call.outputs[0].name not in self.values:
                    # the operations that compute its inputs came before this one
                    read = [self.held(tensor).number for tensor in call.inputs]
                    made = self.append_call(call, read, self._joined(call.place))
                    for tensor, of_call in zip(call.outputs, made, strict=True):
                        if of_call is not None:
                            self.values[tensor.name] = Held(of_call, tuple(tensor.shape))
                elif call is None and operation.name in by_output:
                    self._read_norm(by_output[operation.name])
                elif call is None and operation.name in single:
                    self._read(operation)
            for tensor in self.trace.outputs:
                operation = tensor.op
                of_pictures = self.constant(tensor) is None
                outputs.append(self.held(tensor).number if of_pictures else None)
        except CannotReadError as error:
            place = self.trace.names.get(operation.name) or self.trace.places.get(operation.name)
            where = f" in {place!r}" if place else ""
            why = f"its operation {operation.type}{where} {error}"
            raise UnsupportedLayerError(self.layer, why, "OPERATIONS", "operations.py") from None
        return outputs

    def _needed(self, of_picture: set[str]) -> tuple[set[str], list[tracing.Call]]:
        """The names of the operations that outputs depend on, and the calls of layers with rows."""
        found: set[str] = set()
        calls: list[tracing.Call] = []
        left = list(self.trace.outputs)
        while left:
            tensor = left.pop()
            call = self.trace.calls.get(tensor.name)
            if call and all(input_.name in of_picture for input_ in call.inputs):
                if call not in calls:
                    calls.append(call)
                    left += call.inputs
            elif tensor.op.name not in found:
                found.add(tensor.op.name)
                left += tensor.op.inputs
        return found, calls

    def _read_norm(self, candidate: Candidate) -> None:
        """Reads a normalisation as one step; what turns out to be none, one by one."""
        operations = candidate.operations
        for count in range(len(operations), candidate.least - 1, -1):
            shorter = replace(candidate, operations=operations[:count])
            if steps := as_normalisation(shorter, self.constant):
                last = shorter.operations[-1]
                (norm,) = self.append(last, steps, [self.held(candidate.root)])
                self.values[last.outputs[0].name] = norm
                operations = operations[count:]
                break
        for operation in operations:
            self._read(operation)

    def _read(self, operation: tf.Operation) -> None:
        if operation.outputs and operation.outputs[0].name in self.values:
            return
        for tensor, value in zip(operation.outputs, self._outputs(operation), strict=True):
            if value is not None:
                self.values[tensor.name] = value
            if isinstance(value, Chain) and len(value.types) >= MAX_CHAIN:
                self.held(tensor)

    def _outputs(self, operation: tf.Operation) -> Values:
        kind = operation.type
        if "Random" in kind or kind == "Multinomial":
            raise CannotReadError("draws random numbers, so no two maps would be the same")
        if kind in CONTROL_FLOW or kind.startswith(("TensorList", "TensorArray")):
            raise CannotReadError("repeats or chooses other operations (control flow)")
        captured = self.trace.captured.get(f"{operation.name}:0")
        if captured is not None:
            return [captured]
        if self.from_picture(operation):
            if kind not in self.rows:
                raise CannotReadError("has no rule")
            return self.rows[kind](self, operation)
        inputs = self.constants(operation)
        self.constant_bytes += tracing.bytes_of_outputs(operation, inputs)
        weights = sum(map(tracing.bytes_of, self.trace.captured.values()))
        if self.constant_bytes > MAX_CONSTANT_BYTES + MAX_CONSTANT_FACTOR * weights:
            raise CannotReadError(
                f"computes a constant that is too large: all of them take {self.constant_bytes:,} "
                "bytes"
            )
        try:
            return tracing.run(operation, inputs)
        except (MemoryError, tf.errors.ResourceExhaustedError):
            raise CannotReadError("computes a constant that does not fit into memory") from None
        except tf.errors.OpError as error:
            raise CannotReadError(f"cannot be computed ({first_line(error)})") from None

    def inputs(self, operation: tf.Operation) -> list[Value]:
        """The inputs of an operation."""
        return [self.values[tensor.name] for tensor in operation.inputs]

    def constant(self, tensor: tf.Tensor) -> tf.Tensor | None:
        """The value of a tensor that does not depend on the picture, else None."""
        value = self.values[tensor.name]
        return value if tf.is_tensor(value) else None

    def constants(self, operation: tf.Operation) -> list[tf.Tensor | None]:
        """The values of an operation's inputs, None for those that depend on the picture."""
        return [self.constant(tensor) for tensor in operation.inputs]

    def from_picture(self, operation: tf.Operation) -> list[tf.Tensor]:
        """The inputs of an operation that depend on the picture."""
        return [tensor for tensor in operation.inputs if self.constant(tensor) is None]

    def held(self, tensor: tf.Tensor) -> Held:
        """The tensor in the graph; a chain becomes a node."""
        value = self.values[tensor.name]
        if tf.is_tensor(value):
            raise CannotReadError("reads a constant where a tensor of the picture is expected")
        if isinstance(value, Held):
            return value
        if isinstance(value, Turned):
            raise CannotReadError(tracing.MIXES)
        if self._is_chosen(value.root) or not tensor.dtype.is_floating:
            step: Step = Choice(value.compute, [value.root.shape, tuple(tensor.shape)])
        else:
            step = tracing.step_of(value)
        (held,) = self.append(value.last, [step], [value.root])
        self.values[tensor.name] = held
        return held

    def is_picture(self, tensor: tf.Tensor) -> bool:
        """Whether it has the entries of a picture of bytes, perhaps moved, and is no choice."""
        value = self.values[tensor.name]
        if isinstance(value, Turned):
            value = value.held
        return tensor.dtype.is_integer and isinstance(value, Held) and not self._is_chosen(value)

    def _is_chosen(self, held: Held) -> bool:
        return isinstance(self.graph.origin(held.number), Choice)

    def turned(self, tensor: tf.Tensor) -> Turned | None:
        """The tensor, if its first axis is not the pictures' axis."""
        value = self.values[tensor.name]
        return value if isinstance(value, Turned) else None

    def unmoved(self, tensor: tf.Tensor) -> Held:
        """The tensor in the graph; for moved entries, the tensor that they come from."""
        turned = self.turned(tensor)
        return turned.held if turned else self.held(tensor)

    def compute(self, operation: tf.Operation, index: int = 0) -> Callable[..., tf.Tensor]:
        """The output of an operation as a function of its inputs that depend on the picture."""
        run = tracing.compute_of(operation)
        turned = [self.turned(tensor) for tensor in operation.inputs]
        from_picture = self.from_picture(operation)
        rank = max(len(tensor.shape) for tensor in from_picture)
        operands = [
            None if constant is None else _for_batch(constant, rank, (operation.type, position))
            for position, constant in enumerate(self.constants(operation))
        ]
        beside = self.turned(from_picture[0])
        first = beside.held.shape[0] if beside else from_picture[0].shape[0]

        def compute(*inputs: tf.Tensor) -> tf.Tensor:
            batch = tf.shape(inputs[0])[0] * BATCH // first
            given = iter(inputs)
            read = [next(given) if operand is None else operand(batch) for operand in operands]
            moved = zip(read, turned, strict=True)
            result = run(*(a if one is None else one.move(a) for a, one in moved))
            return result[index] if isinstance(result, list | tuple) else result

        return compute

    def append(
        self, operation: tf.Operation, steps: Sequence[Step], inputs: Sequence[Held],
        output: int = 0,
    ) -> list[Held]:  # fmt: skip
        """Appends steps in a row that compute an output of an operation, which names the nodes."""
        name = self.trace.names.get(operation.name)
        name = name or self._joined(self.trace.places.get(operation.name), operation.type)
        read = tuple(input_.number for input_ in inputs)
        number = self.graph.append(name, operation.type, steps, read)
        self.numbers.update(range(number - len(steps) + 1, number + 1))
        self.made.add(operation.outputs[output].name)
        return [Held(number, tuple(operation.outputs[output].shape))]

    def _joined(self, *names: str | None) -> str:
        """The name of a node: the traced layer's name, and the names inside it."""
        return "/".join(filter(None, (self.name, *names)))


def shapes_of(operation: tf.Operation, held: Sequence[Held], index: int = 0) -> list[Sequence[int]]:
    """The traced shapes of an operation's inputs and of one output."""
    try:
        kept_shape(operation.outputs[index].shape)
    except ValueError as error:
        raise CannotReadError(str(error)) from None
    return [*(one.shape for one in held), operation.outputs[index].shape]


_SIZES = {("BroadcastTo", 1), ("Slice", 2), ("StridedSlice", 2)}
"""Type of an operation and the position of an input that holds sizes or ends, the batch first."""


def _for_batch(
    value: tf.Tensor, rank: int, place: tuple[str, int]
) -> Callable[[tf.Tensor], tf.Tensor]:
    """A function that stands for a constant input: batch size -> tensor.

    `rank` is the rank of the tensors beside it; `place` has the operation's type and the constant's
    position among its inputs.
    """
    if place == ("Reshape", 1):
        joined = [size for size in value.numpy() if size > 0 and size % BATCH == 0]
        if not joined and -1 in value.numpy():
            return lambda batch: value
        if len(joined) != 1:
            raise CannotReadError(tracing.MIXES)
        open_size = tf.where(value == joined[0], -1, value)
        return lambda batch: open_size
    if place in _SIZES and value.shape.rank == 1 and value.shape[0] and not value[0] % BATCH:
        joined = value[:1] // BATCH
        return lambda batch: tf.concat([tf.cast(batch, value.dtype) * joined, value[1:]], 0)
    if value.dtype.is_floating and value.shape.rank == rank and value.shape[0] == BATCH:
        single = tracing.of_any_batch(value, value.shape)
        return lambda batch: tf.repeat(single, batch, 0)
    if value.dtype.is_integer and value.shape.rank == rank and value.shape[0] % BATCH == 0:
        return _counted(value)
    held = tf.cast(value, tf.float32) if value.dtype.is_floating else value
    return lambda batch: held


def _counted(value: tf.Tensor) -> Callable[[tf.Tensor], tf.Tensor]:
    """Whole numbers that grow evenly from picture to picture, such as where its entries begin."""
    by_picture = tf.reshape(value, [BATCH, -1, *value.shape[1:]])
    first = by_picture[0]
    growth = by_picture[1] - first

    def of_pictures(batch: tf.Tensor) -> tf.Tensor:
        numbers = tf.reshape(tf.range(batch), [-1, *[1] * first.shape.rank])
        counted = first + tf.cast(numbers, value.dtype) * growth
        return tf.reshape(counted, [-1, *value.shape[1:]])

    if not tf.reduce_all(of_pictures(BATCH) == value):
        raise CannotReadError(tracing.MIXES)
    return of_pictures
