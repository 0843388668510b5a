"""The metadata of an exported explanation, inside its ONNX file.

Must not import TensorFlow: the file runs without.
"""

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
    """Facts about the map before it is computed, for drawing and checking.

    Attributes:
      stride: (rows, columns) of the grid that is smoothed away where the map is drawn.
      signed: whether the map of classes that do not count against others can have negative entries.
      by_rules: whether it follows the rules of a composite.
      difference: whether it adds up to a difference of scores.
      accounted: whether its sum is a share of what started.
      from_scores: whether what starts is a class's weight times its score, rather than its weight.
    """

    stride: tuple[Positive, Positive]
    signed: bool
    by_rules: bool
    difference: bool
    accounted: bool
    from_scores: bool


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata; each field is an entry of the file, as text or as JSON.

    Attributes:
      name: the network.
      labels: class names in order, or None.
      classes: the number of scores.
      method, composite: what made the map; the composite is "" for other methods than LRP.
      target: what is explained, where it is fixed; "" where the input `target` says it.
      precision: the type of the file's numbers.
      size: (H, W) of the input `picture`.
      fit: which part of a picture belongs there: "crop", "squash" or "letterbox".
      preprocess: how the file prepares the picture inside.
      warning: why the answers may be wrong, or "".
      largest_difference: between its map and the explainer's, as a share of the map's largest
        entry, on three pictures.
      map: see `MapFacts`.
      provenance: how it was made.
    """

    name: str
    labels: list[str] | None
    classes: Positive
    method: str
    composite: str
    target: str
    precision: str
    size: tuple[Positive, Positive]
    fit: Fit
    preprocess: str
    warning: str
    largest_difference: float
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
            shapes = {
                one.name: one.shape for one in [*session.get_inputs(), *session.get_outputs()]
            }
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
