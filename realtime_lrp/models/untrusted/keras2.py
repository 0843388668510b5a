"""Translates the description of a model from Keras 2, or from an HDF5 file, into Keras 3's.

Nothing is built here. The result is checked like every other description (allowlist.py), so what
has no translation is refused there by its name.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from realtime_lrp.models.untrusted.allowlist import ALLOWED_CLASSES, parts_of

NAMES = {
    "BatchNormalizationV1": "BatchNormalization", "BatchNormalizationV2": "BatchNormalization",
    "SyncBatchNormalization": "BatchNormalization", "Model": "Functional",
}  # fmt: skip
"""Class of Keras 2 -> class of Keras 3 that computes the same in inference."""

OPERATION_LAYERS = (
    "TFOpLambda", "SlicingOpLambda", "ClassMethod", "InstanceMethod", "TensorFlowOpLayer",
)  # fmt: skip
"""Layers that Keras 2 makes of TensorFlow's functions."""

OBSOLETE = {
    "BatchNormalization": (
        "fused", "renorm", "renorm_clipping", "renorm_momentum", "virtual_batch_size", "adjustment",
    ),
    "Conv2DTranspose": ("groups",),
    "DepthwiseConv2D": ("groups", "filters"),
    "InputLayer": ("ragged",),
    "MultiHeadAttention": ("softmax_robust_masking", "query_shape", "key_shape", "value_shape"),
    "SeparableConv2D": ("groups",),
}  # fmt: skip
"""Class -> arguments that Keras 3 refuses. They change nothing in inference."""

TRAINING = ("_initializer", "_regularizer", "_constraint")  # ends of arguments for training alone
SAME_SHAPE = "InputLayer", "Identity", "Normalization", "Rescaling"  # output like input

# module and class of an operation of Keras 3, and its names of a function's arguments
Operation = tuple[str, str, dict[str, str]]


def _plain(module: str, kinds: dict[str, str]) -> dict[str, Operation]:
    """Operations without arguments but tensors, by their functions of TensorFlow."""
    return {function: (module, kind, {}) for function, kind in kinds.items()}


_NUMPY = "keras.src.ops.numpy"
_NN = "keras.src.ops.nn"
_IMAGE = "keras.src.ops.image"
_ALONG = {"axis": "axis"}
_KEEPS = {"axis": "axis", "keepdims": "keepdims"}
_PADS = _NUMPY, "Pad", {"paddings": "pad_width", "mode": "mode"}
_WINDOWS = {"ksize": "pool_size", "strides": "strides", "padding": "padding"}

OPERATIONS: dict[str, Operation] = {
    **_plain(_NUMPY, {
        "__operators__.add": "Add", "__operators__.getitem": "GetItem", "math.abs": "Absolute",
        "math.add": "Add", "math.divide": "TrueDivide", "math.exp": "Exp",
        "linalg.matmul": "Matmul",
        "math.greater": "Greater", "math.greater_equal": "GreaterEqual", "math.less": "Less",
        "math.less_equal": "LessEqual", "math.log": "Log", "math.log1p": "Log1p",
        "math.maximum": "Maximum", "math.minimum": "Minimum", "math.multiply": "Multiply",
        "math.negative": "Negative", "math.pow": "Power", "math.reciprocal": "Reciprocal",
        "math.sqrt": "Sqrt", "math.square": "Square", "math.subtract": "Subtract",
        "math.tanh": "Tanh", "math.truediv": "TrueDivide", "nn.bias_add": "Add", "where": "Where",
    }),
    **_plain(_NN, {
        "math.sigmoid": "Sigmoid", "math.softplus": "Softplus", "nn.elu": "Elu", "nn.relu": "Relu",
        "nn.relu6": "Relu6", "nn.selu": "Selu", "nn.sigmoid": "Sigmoid", "nn.silu": "Silu",
        "nn.softsign": "Softsign",
    }),
    **_plain("keras.src.ops.core", {"stop_gradient": "StopGradient"}),
    **_plain("keras.src.ops.math", {"math.erf": "Erf", "math.rsqrt": "Rsqrt"}),
    **_plain(_IMAGE, {"image.rgb_to_grayscale": "RGBToGrayscale"}),
    "cast": ("keras.src.ops.core", "Cast", {"dtype": "dtype"}),
    "clip_by_value": (_NUMPY, "Clip", {"clip_value_min": "x_min", "clip_value_max": "x_max"}),
    "compat.v1.gather": (_NUMPY, "Take", _ALONG), "compat.v1.pad": _PADS,
    "compat.v1.squeeze": (_NUMPY, "Squeeze", _ALONG),
    "compat.v1.transpose": (_NUMPY, "Transpose", {"perm": "axes"}),
    "concat": (_NUMPY, "Concatenate", _ALONG), "expand_dims": (_NUMPY, "ExpandDims", _ALONG),
    "gather": (_NUMPY, "Take", _ALONG),
    "image.resize": (_IMAGE, "Resize", {"size": "size", "method": "interpolation"}),
    "math.l2_normalize": (_NN, "Normalize", _ALONG),
    "math.reduce_logsumexp": ("keras.src.ops.math", "Logsumexp", _KEEPS),
    **{
        f"math.reduce_{ours}": (_NUMPY, theirs, _KEEPS)
        for ours, theirs in (("max", "Max"), ("mean", "Mean"), ("min", "Min"), ("std", "Std"),
                             ("sum", "Sum"), ("variance", "Var"))
    },
    **{
        f"nn.{kind}_pool{more}": (_NN, theirs, _WINDOWS)
        for kind, theirs in (("avg", "AveragePool"), ("max", "MaxPool")) for more in ("", "2d")
    },
    "nn.depth_to_space": (_NN, "DepthToSpace", {"block_size": "block_size"}),
    "nn.gelu": (_NN, "Gelu", {"approximate": "approximate"}),
    "nn.leaky_relu": (_NN, "LeakyRelu", {"alpha": "negative_slope"}),
    "nn.log_softmax": (_NN, "LogSoftmax", _ALONG), "nn.softmax": (_NN, "Softmax", _ALONG),
    "nn.space_to_depth": (_NN, "SpaceToDepth", {"block_size": "block_size"}),
    "pad": _PADS, "reshape": (_NUMPY, "Reshape", {"shape": "newshape"}),
    "reverse": (_NUMPY, "Flip", _ALONG),
    "split": (_NUMPY, "Split", {"num_or_size_splits": "indices_or_sections", "axis": "axis"}),
    "stack": (_NUMPY, "Stack", _ALONG), "tile": (_NUMPY, "Tile", {"multiples": "repeats"}),
}  # fmt: skip
"""Function of TensorFlow -> operation of Keras 3."""

OLD_OPERATIONS = {
    "Add": "math.add", "AddV2": "math.add", "Maximum": "math.maximum", "Mul": "math.multiply",
    "RealDiv": "math.truediv", "Relu": "nn.relu", "Relu6": "nn.relu6", "Sub": "math.subtract",
}  # fmt: skip
"""Operation of a TensorFlowOpLayer (TensorFlow 2.0 to 2.3) -> function of TensorFlow."""

DEFAULTS = {"nn.gelu": {"approximate": False}}  # defaults of functions that differ in Keras 3

IGNORED = (
    "name", "data_format", "conjugate", "training", "mask", "transpose_a", "transpose_b",
    "validate_indices",
)  # fmt: skip
"""Arguments of calls that change nothing here or are read before; channels are last."""

WITHOUT_EFFECT = (("constant_values", 0), ("batch_dims", 0))  # arguments with their values


def translated(described: Any, old: bool) -> Any:
    """A description in Keras 3's form; what is in that form stays; `old` ones are of Keras 2."""
    for part in parts_of(described) if old else ():
        if "hard_sigmoid" in (part.get("activation"), part.get("recurrent_activation")):
            raise ValueError(
                "it uses hard_sigmoid, which Keras 3 computes otherwise; load the model in Keras 2 "
                'and write a SavedModel: model.export("folder")'
            )
    names = {json.dumps(str(part.get("name"))) for part in parts_of(described)}

    def renamed(text: re.Match[str]) -> str:
        """With "_" for "/", which Keras 3 refuses, in names of layers."""
        return text[0].replace("/", "_") if text[0] in names else text[0]

    return _translated(json.loads(re.sub(r'"(?:[^"\\]|\\.)*"', renamed, json.dumps(described))))


def _translated(part: Any) -> Any:
    if isinstance(part, list):
        return [_translated(value) for value in part]
    if not isinstance(part, dict):
        return part
    kind = part.get("class_name")
    if kind in ("__tuple__", "TensorShape"):
        return _translated(part.get("items"))
    if kind == "Policy":
        return part["config"]["name"]
    if part.get("type") == "ndarray":  # what Keras 2 has written of a number of NumPy
        return _translated(part.get("value"))
    if kind in OPERATION_LAYERS:
        return _operation(part)
    # a layer, a model or an operation: those of an HDF5 file have no module
    module = str(part.get("module", "keras.layers"))
    rooms = ".layers", "_layers", "engine", "models", "preprocessing"
    named = kind not in (None, "function") and not str(kind).startswith("__")
    if "config" in part and named and any(room in module for room in rooms):
        return _layer(part)
    return {key: _translated(value) for key, value in part.items()}


def _layer(part: dict[str, Any]) -> dict[str, Any]:
    kind = str(part["class_name"])
    kind = NAMES.get(kind, kind)
    config = part["config"]
    if kind == "Sequential" and isinstance(config, list):  # before Keras 2.2.3
        config = {"name": "sequential", "layers": config}
    if kind.startswith(("Random", "Spatial")) and kind != "RandomCrop":  # only when training
        kind = "Identity"
        config = {key: config[key] for key in ("name", "dtype") if key in config}
    if kind == "Functional":
        config = config | {"layers": [_without_sizes(layer) for layer in config["layers"]]}
        config = config | {"layers": _needed(config)}
    before: Any = config["layers"] if kind in ("Functional", "Sequential") else ()
    module = _module(kind, config)
    config = {
        key: _translated(value)
        for key, value in config.items()
        if key not in OBSOLETE.get(kind, ())
        and not (module == "keras.layers" and key.endswith(TRAINING))
    }
    shape = config.pop("batch_input_shape", None)
    if kind == "InputLayer" and shape is not None:
        config["batch_shape"] = shape
    if kind in ("BatchNormalization", "Normalization") and isinstance(config.get("axis"), list):
        config["axis"] = config["axis"][0] if len(config["axis"]) == 1 else config["axis"]
    if kind == "LeakyReLU" and "alpha" in config:
        config["negative_slope"] = config.pop("alpha")
    if kind == "Sequential" and before[0]["class_name"] != "InputLayer":
        first = before[0]["config"]
        shape = first.get("batch_input_shape") if isinstance(first, dict) else None
        if shape is not None:
            described = {"class_name": "InputLayer", "config": {"batch_input_shape": shape}}
            config["layers"].insert(0, _layer(described))
    if kind == "Functional":
        for layer, old in zip(config["layers"], before, strict=True):
            layer["inbound_nodes"] = [_call(node, old) for node in old.get("inbound_nodes", ())]
        for ends in ("input_layers", "output_layers"):
            if len(config[ends]) == 1 and isinstance(config[ends], list):
                (config[ends],) = config[ends]  # a list of one is another structure in Keras 3
        _number_calls(config)
    if before:
        _say_shapes(config["layers"], kind == "Sequential")
    keys = ("name", "build_config") if kind == "Normalization" else ("name",)
    registered = kind if module.startswith("keras.src") else None
    if ">" in kind:  # of a package that a Python program has registered
        module = ""
        registered = kind
        kind = kind.rpartition(">")[2]
    return {key: part[key] for key in keys if key in part} | {
        "module": module, "class_name": kind, "config": config, "registered_name": registered,
    }  # fmt: skip


def _module(kind: str, config: Any) -> str:
    """Where Keras 3 has a class; an HDF5 file does not say it."""
    if kind in ("Functional", "Sequential"):
        return f"keras.src.models.{kind.lower()}"
    # an operation: layers of the same name have this key
    if "trainable" not in config and kind not in ("InputLayer", "Identity"):
        for module, kinds in ALLOWED_CLASSES.items():
            if module and module.startswith("keras.src.ops") and kind in kinds:
                return module
    return "keras.layers"


def _say_shapes(layers: list[Any], in_a_row: bool) -> None:
    """Tells each Normalization that follows the input directly its shape, which Keras 3 needs."""
    shapes: dict[str, Any] = {}
    for before, layer in zip([None, *layers], layers, strict=False):
        name = layer.get("name") or layer["config"].get("name")
        config = layer["config"]
        read = before and (before.get("name") or before["config"].get("name"))
        if not in_a_row:
            nodes = layer["inbound_nodes"]
            read = nodes[0]["args"][0] if nodes and nodes[0]["args"] else None
            read = read["config"]["keras_history"][0] if isinstance(read, dict) else None
        shape = config.get("batch_shape", shapes.get(str(read)))
        if shape and layer["class_name"] == "Normalization":
            layer.setdefault("build_config", {"input_shape": shape})
        if shape and layer["class_name"] in SAME_SHAPE:
            shapes[str(name)] = shape


def _number_calls(config: dict[str, Any]) -> None:
    """Counts the calls of each layer from 0; of a model inside another Keras 2 counts from 1."""
    calls = {layer["name"]: len(layer["inbound_nodes"]) for layer in config["layers"]}
    read = [
        part["config"]["keras_history"]
        for layer in config["layers"]
        for part in parts_of(layer["inbound_nodes"])
        if part.get("class_name") == "__keras_tensor__"
    ]
    read += [*_histories([config["input_layers"], config["output_layers"]])]
    highest: dict[str, int] = {}
    for name, index, _ in read:
        highest[name] = max(index, highest.get(name, 0))
    for history in read:
        name = history[0]
        history[1] -= max(0, highest[name] + 1 - max(calls.get(name, 0), 1))


def _histories(part: Any) -> Iterator[list[Any]]:
    """Every [name of a layer, call, output] in a list or an object, at any depth."""
    if isinstance(part, list) and len(part) >= 3 and isinstance(part[0], str):
        yield part
    if isinstance(part, list | dict):
        for value in part.values() if isinstance(part, dict) else part:
            yield from _histories(value)


def _needed(config: dict[str, Any]) -> list[Any]:
    """The layers that inputs and outputs depend on."""
    layers = {layer["name"]: layer for layer in config["layers"]}
    left = [name for name, *_ in _histories([config["input_layers"], config["output_layers"]])]
    needed = set()
    while left:
        name = left.pop()
        if name in layers and name not in needed:
            needed.add(name)
            left += [one for one, *_ in _histories(layers[name].get("inbound_nodes", []))]
    return [layer for name, layer in layers.items() if name in needed]


def _without_sizes(layer: dict[str, Any]) -> dict[str, Any]:
    """A layer; of a reshape None is the size of the batch, if it computes it, -1 any other size."""
    if layer["class_name"] not in OPERATION_LAYERS or _function(layer) != "reshape":
        return layer
    shape = _arguments(layer["inbound_nodes"][0])["shape"]
    known = [size if isinstance(size, int) else -1 if n else None for n, size in enumerate(shape)]
    (name, call, output, *_), *_ = layer["inbound_nodes"]
    return layer | {"inbound_nodes": [[name, call, output, {"shape": known}]]}


def _operation(part: dict[str, Any]) -> dict[str, Any]:
    """A function of TensorFlow as an operation of Keras 3; its arguments are the call's."""
    function = _function(part)
    if function not in OPERATIONS:
        raise ValueError(
            f"it calls tf.{str(function)[:100]}, which has no translation from Keras 2; load the "
            'model there and write a SavedModel: model.export("folder")'
        )
    module, kind, names = OPERATIONS[function]
    config = {"name": part["config"]["name"]}
    for node in part.get("inbound_nodes", ())[:1]:
        given = _arguments(node)
        given = DEFAULTS.get(function, {}) | given
        config |= {ours: _plainly(given[theirs], ours) for theirs, ours in names.items()
                   if theirs in given}  # fmt: skip
        if any(given.get(f"transpose_{side}") for side in "ab"):
            first = "...ji" if given.get("transpose_a") else "...ij"
            second = "...kj" if given.get("transpose_b") else "...jk"
            kind = "Einsum"
            config["subscripts"] = f"{first},{second}->...ik"
    if "pool_size" in config:
        config["data_format"] = "channels_last"
    if config.get("newshape", [0])[0] is None:  # the batch's size
        module = "keras.layers"
        kind = "Reshape"
        config["target_shape"] = config.pop("newshape")[1:]
    return {
        "module": module, "class_name": kind, "config": config, "registered_name": kind,
        "name": part["name"],
    }  # fmt: skip


def _plainly(value: Any, key: str) -> Any:
    """An argument as Keras 3 has it: small letters, windows without batch and channels."""
    if key in ("pool_size", "strides") and isinstance(value, list) and len(value) == 4:
        return value[1:3]
    return value.lower() if isinstance(value, str) else value


def _function(part: dict[str, Any]) -> str:
    """The function of TensorFlow that a layer stands for."""
    config = part["config"]
    if part["class_name"] != "TensorFlowOpLayer":
        return str(config["function"])
    operation = str(json.loads(config["node_def"])["op"])
    return OLD_OPERATIONS.get(operation, f"raw_ops.{operation}")


def _arguments(node: Any) -> dict[str, Any]:
    """The arguments of a call without its tensors."""
    if isinstance(node, dict):
        return node.get("kwargs", {})
    last = node if node and isinstance(node[0], str) else node[-1]
    return last[3] if len(last) > 3 else {}


def _call(node: Any, part: dict[str, Any]) -> Any:
    """A call of a layer: Keras 2 lists its tensors, each with the arguments of the call."""
    if isinstance(node, dict):
        return node
    alone = isinstance(node[0], str)
    tensors = [_tensor(entry) for entry in ([node] if alone else node)]
    args: list[Any] = [tensors[0] if len(tensors) == 1 else tensors]
    kwargs = {
        key: value
        for key, value in _arguments(node).items()
        if key not in IGNORED and (key, value) not in WITHOUT_EFFECT
    }
    if part["class_name"] in OPERATION_LAYERS:
        if part["class_name"] == "TensorFlowOpLayer":
            args = [*tensors]
            for position, constant in sorted(part["config"].get("constants", {}).items()):
                args.insert(int(position), _value(constant))
        names = OPERATIONS[_function(part)][2]
        args += [_value(value) for key, value in kwargs.items() if key not in names]
        kwargs = {}
    return {"args": args, "kwargs": {key: _value(value) for key, value in kwargs.items()}}


def _tensor(entry: Any) -> Any:
    """An output of a layer, or a constant."""
    if entry[0] == "_CONSTANT_VALUE":
        return entry[2]
    return {
        "class_name": "__keras_tensor__",
        "config": {"shape": [None], "dtype": "float32", "keras_history": list(entry[:3])},
    }


def _value(value: Any) -> Any:
    """An argument of a call: an output of a layer, slices, or numbers."""
    is_list = isinstance(value, list)
    if is_list and len(value) >= 3 and isinstance(value[0], str):
        return _tensor(value)
    if is_list and any(isinstance(entry, dict) for entry in value):
        return [_slice(entry) for entry in value]
    if is_list and value and all(isinstance(entry, int | float) for entry in value):
        dtype = "int32" if all(isinstance(entry, int) for entry in value) else "float32"
        return {"class_name": "__tensor__", "config": {"value": value, "dtype": dtype}}
    return value


def _slice(entry: Any) -> Any:
    if not isinstance(entry, dict):
        return entry
    kind = entry.get("class_name", "__slice__")
    return {"class_name": kind, "config": {} if "class_name" in entry else entry}
