"""Makes the ONNX file of an engine's explanation, and compares it with the explainer."""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import tensorflow as tf
from onnx import helper
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.framework import convert_to_constants
from tensorflow.python.grappler import tf_optimizer

from realtime_lrp.config import ASSETS
from realtime_lrp.engine.engine import Engine
from realtime_lrp.errors import DamagedInputError, NotFiniteError, UsageError
from realtime_lrp.export.rows import ROWS, TYPES
from realtime_lrp.export.writer import OPSET, Writer
from realtime_lrp.models.exported import PRODUCER, Exported, MapFacts, session_of
from realtime_lrp.relevance.network import onednn
from realtime_lrp.system.program import __version__
from realtime_lrp.video.reader import VideoReader

IR_VERSION = 9
MOST_BYTES = (1 << 31) - (1 << 20)
"""The largest message of Protocol Buffers, with room for the metadata."""

PASSES = "constfold", "function", "dependency", "arithmetic", "constfold", "dependency"
OFF = 2
"""What TensorFlow simplifies a graph by; its layout optimizer is `OFF`."""

LEAST_CORRELATION = 0.999
COMPARED = 3  # pictures
NOISE = 6.0  # the deviation of a grey value, in steps of 255

Compute = Callable[..., Sequence[tf.Tensor]]


def exported(engine: Engine, fixed: bool) -> tuple[bytes, Exported]:
    """The file of an engine's explanation and its metadata; `fixed`: of its own target alone.

    Raises:
      UsageError: the method computes several passes, or the network finds boxes.
      DamagedInputError: an operation has no row, or the file computes another map.
    """
    check(engine)
    model = model_of(graph_of(engine, fixed))
    if model.ByteSize() > MOST_BYTES:
        raise UsageError(
            f"The weights take {model.ByteSize() / 1e9:.1f} GB, and an ONNX file holds 2 GB at "
            "most. Choose a smaller --model."
        )
    explainer = engine.explainer
    network = engine.network
    lrp = engine.config.lrp
    kind = engine.kinds[0]
    about = Exported(
        name=network.name,
        labels=network.labels,
        classes=explainer.classes,
        method=lrp.method,
        composite=engine.composite if lrp.method == "lrp" else "",
        target=str(explainer.target) if fixed else "",
        precision=explainer.precision,
        size=explainer.input_shape[:2],
        fit=engine.fit,
        preprocess=network.preprocess,
        warning=network.warning,
        largest_difference=compare(engine, model.SerializeToString(), fixed),
        map=MapFacts(
            stride=explainer.stride, signed=explainer.signs_for("top1")[0], by_rules=kind.by_rules,
            difference=kind.difference, accounted=kind.tolerance is not None,
            from_scores=explainer.starts_with_scores,
        ),
        provenance=engine.provenance(),
    )  # fmt: skip
    helper.set_model_props(model, about.metadata())
    return model.SerializeToString(), about


def check(engine: Engine) -> None:
    """Refuses by name what a file cannot hold, see `exported`."""
    if engine.explainer.passes:
        raise UsageError(
            f"{engine.config.lrp.method} computes the mean of many passes, which a file of fixed "
            "operations cannot repeat. Choose another --method, such as lrp or gradient.",
            "method",
        )
    other = "finds boxes, which are explained one by one" if engine.detects else ""
    if engine.explainer.segments:
        other = "gives classes for every place"
    if other:
        raise UsageError(
            f"The network {engine.network.name!r} {other}. Expected a network that names the whole "
            "picture.",
            "model",
        )
    if engine.precision != "float32":
        raise UsageError(
            "The file computes in float32. Leave --precision out, or use --precision float32.",
            "precision",
        )


def graph_of(engine: Engine, fixed: bool) -> Any:
    """The ONNX graph: of `picture` and `target` to `scores`, `relevance` and `account`."""
    return written(*computation(engine, fixed), ("scores", "relevance", "account"))


def computation(engine: Engine, fixed: bool) -> tuple[Compute, list[tf.TensorSpec]]:
    """The file's computation as a function of tensors, and its inputs."""
    rows, columns, _ = engine.explainer.input_shape
    inputs = [tf.TensorSpec([1, rows, columns, 3], tf.uint8, name="picture")]
    if not fixed:
        inputs.append(tf.TensorSpec([engine.explainer.classes], tf.float32, name="target"))
    return engine.explainer.of_one_picture(engine.network.prepare, fixed), inputs


def written(compute: Compute, inputs: Sequence[tf.TensorSpec], outputs: Sequence[str]) -> Any:
    """The ONNX graph of a function of named tensors; DamagedInputError where a row is missing."""
    graph, computed = frozen(compute, *inputs)
    writer = Writer()
    names = dict[str, str]()
    for op in graph.get_operations():
        if op.type != "NoOp":
            made = _write(writer, op, [names[input_.name] for input_ in op.inputs])
            made = [made] if isinstance(made, str) else made
            names |= zip((output.name for output in op.outputs), made, strict=False)
    tensors = [graph.get_tensor_by_name(one) for one in computed]
    for name, tensor in zip(outputs, tensors, strict=True):
        writer.nodes.append(helper.make_node("Identity", [names[tensor.name]], [name]))
    given = {input_.name: input_ for input_ in inputs}
    results = dict(zip(outputs, tensors, strict=True))
    return writer.graph(_described(given), _described(results))


def _described(named: Mapping[str, Any]) -> list[Any]:
    return [
        helper.make_tensor_value_info(name, TYPES[one.dtype], one.shape.as_list())
        for name, one in named.items()
    ]


def frozen(function: Callable[..., Any], *inputs: tf.TensorSpec) -> tuple[tf.Graph, list[str]]:
    """Traces a function of tensors of fixed shapes, optimises its graph, and names its outputs."""
    with onednn.disabled():
        traced = tf.function(function, autograph=False).get_concrete_function(*inputs)
    constant = convert_to_constants.convert_variables_to_constants_v2(
        traced, lower_control_flow=False
    )
    settings = config_pb2.ConfigProto()
    rewriting = settings.graph_options.rewrite_options
    rewriting.optimizers.extend(PASSES)
    rewriting.meta_optimizer_iterations = 2
    rewriting.min_graph_nodes = -1
    rewriting.layout_optimizer = OFF
    described = tf.compat.v1.train.export_meta_graph(
        graph_def=constant.graph.as_graph_def(), graph=constant.graph
    )
    kept = described.collection_def["train_op"].node_list.value
    kept.extend(one.op.name for one in (*constant.outputs, *constant.inputs))
    graph = tf.Graph()
    with graph.as_default():
        tf.graph_util.import_graph_def(tf_optimizer.OptimizeGraph(settings, described), name="")
    return graph, [output.name for output in constant.outputs]


def model_of(graph: Any) -> Any:
    """The file of an ONNX graph, without metadata."""
    return helper.make_model(
        graph, producer_name=PRODUCER, producer_version=__version__, ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid("", OPSET)],
    )  # fmt: skip


def _write(writer: Writer, op: tf.Operation, inputs: Sequence[str]) -> str | list[str]:
    row = ROWS.get(op.type)
    problem = ""
    if row is not None:
        try:
            return row(writer, op, *inputs)
        except NotImplementedError as error:
            problem = f" {error}"
    raise DamagedInputError(
        f"TensorFlow's operation {op.type}{problem} ({op.name[:100]!r}) has no row.\nChoose "
        "another --method or --composite, or add a row to ROWS in realtime_lrp/export/rows.py."
    )


def compare(engine: Engine, file: bytes, fixed: bool) -> float:
    """The largest difference from the explainer's map, as a share of the map's largest entry.

    Three frames of the included clip are explained.

    Raises:
      NotFiniteError: the file computes NaN or Inf.
      DamagedInputError: a map correlates less than `LEAST_CORRELATION` with the explainer's.
    """
    session = session_of(file)
    inputs = {} if fixed else {"target": np.zeros(engine.explainer.classes, np.float32)}
    largest = 0.0
    for picture in pictures():
        seen = engine.region(picture.shape[:2]).extract(picture)[None]
        scores, relevance, account = session.run(None, {"picture": seen, **inputs})
        target = engine.explainer.target if fixed else "top1"
        found = engine.explainer(engine.network.prepare(seen), target)
        if not all(np.isfinite(one).all() for one in (scores, relevance, account)):
            raise NotFiniteError("The file computes NaN or Inf. Choose another --composite.")
        expected = found.relevance.sum(-1)
        largest = max(largest, difference_of(relevance, expected))
        if not agrees(relevance, expected) or not agrees(scores, found.scores):
            raise DamagedInputError(
                f"The file's map is not the explainer's (difference {largest:.1e} of the largest "
                "entry). Nothing was written. Choose another --composite or --method."
            )
    return largest


def difference_of(one: np.ndarray, other: np.ndarray) -> float:
    """The largest difference between two maps, as a share of the other's largest entry."""
    return float(np.abs(one - other).max() / max(float(np.abs(other).max()), 1e-30))


def agrees(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two maps are the same except for rounding: by correlation."""
    if difference_of(one, other) < 1e-4:
        return True
    correlation: float = np.corrcoef(one.ravel(), other.ravel())[0, 1]
    return correlation >= LEAST_CORRELATION


def pictures() -> list[np.ndarray]:
    """Frames from all over the included clip, uint8 [H, W, 3] RGB, with the noise of a camera.

    Without it areas of one colour would be the same to the last bit, and which of equal entries a
    max pool takes is a matter of rounding.
    """
    rng = np.random.default_rng(0)
    with VideoReader(ASSETS / "demo.mp4") as reader:
        frames = [one.picture for one in islice(reader, 20, None, 60)][:COMPARED]
    return [
        np.clip(frame + rng.normal(0, NOISE, frame.shape), 0, 255).astype(np.uint8)
        for frame in frames
    ]
