"""The metadata of an exported explanation, inside its ONNX file, which runs without TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from realtime_lrp.config.provenance import Provenance
from realtime_lrp.errors import DamagedInputError

PRODUCER = "realtime-lrp"  # the file's first words, which mark it among other ONNX files
MARK = b"\x12\x0c" + PRODUCER.encode()  # field 2 of the message ModelProto, 12 letters


Positive = Annotated[int, msgspec.Meta(ge=1)]
Fit = Annotated[str, msgspec.Meta(pattern="^(crop|squash|letterbox)$")]


class MapFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about the map before it is computed, for drawing and checking."""

    stride: tuple[Positive, Positive]  # drawings smooth away a grid of this stride
    signed: bool  # classes that do not count against others can have negative entries
    by_rules: bool  # follows the rules of a composite
    difference: bool  # adds up to a difference of scores
    accounted: bool  # its sum is a share of what started
    from_scores: bool  # a class's weight times its score starts, rather than its weight


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata; each field is an entry of the file, as text or as JSON."""

    name: str  # the network's
    labels: list[str] | None  # class names in order
    classes: Positive  # how many scores there are
    method: str
    composite: str  # "" for other methods than LRP
    target: str  # what is explained, where it is fixed; "" where the input `target` says it
    precision: str  # the type of the file's numbers
    size: tuple[Positive, Positive]  # (H, W) of the input `picture`
    fit: Fit  # says which part of a picture the network gets
    preprocess: str  # how the file prepares the picture inside
    warning: str  # why the answers may be wrong, or ""
    largest_difference: float  # from the explainer's maps, as a share of their largest entry
    map: MapFacts
    provenance: Provenance

    def metadata(self) -> dict[str, str]:
        """The entries of the file."""
        fields = msgspec.to_builtins(self)
        return {
            name: one if isinstance(one, str) else msgspec.json.encode(one).decode()
            for name, one in fields.items()
        }

    @property
    def shapes(self) -> dict[str, list[int]]:
        """The inputs and outputs of the file: name -> shape."""
        target = {} if self.target else {"target": [self.classes]}
        ends = {"picture": [1, *self.size, 3], "scores": [1, self.classes]}
        return ends | target | {"relevance": [1, *self.size], "account": [3]}

    @classmethod
    def of(cls, session: Any, file: str) -> Exported:
        """Reads the entries of an opened file; DamagedInputError if they are not true of it."""
        entries: Mapping[str, str] = session.get_modelmeta().custom_metadata_map
        try:
            fields = {
                field.name: entries[field.name]
                if field.type in (str, Fit)
                else msgspec.json.decode(entries[field.name])
                for field in msgspec.structs.fields(cls)
            }
            about = msgspec.convert(fields, cls)
            ends = [*session.get_inputs(), *session.get_outputs()]
            shapes = {end.name: end.shape for end in ends}
            if shapes != about.shapes or len(about.labels or ()) not in (0, about.classes):
                raise msgspec.ValidationError("they are not true of the graph")
            return about
        except (KeyError, msgspec.MsgspecError) as error:
            raise DamagedInputError(
                f"The metadata of {file!r} is damaged, or of another version ({error}). Export it "
                "again: realtime-lrp export."
            ) from None


def session_of(file: str | bytes, threads: int = 1) -> Any:
    """A session of onnxruntime on the processor that runs a file, or its content."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(file, options, ["CPUExecutionProvider"])


def is_exported(path: str | Path) -> bool:
    """Whether a file is an explanation that `export` wrote."""
    if Path(path).suffix.lower() != ".onnx":
        return False
    try:
        with open(path, "rb") as file:
            return MARK in file.read(32)
    except OSError:
        return False
