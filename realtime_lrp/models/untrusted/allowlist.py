"""The classes that a .keras file may name. Nothing else is ever built.

Keras builds whatever class a description names, with arguments from the file: it could run code,
read files, connect to the internet. Add a class only if none of its arguments can name a function,
a file, a module or another class that is not listed.

Allowed are layers with a row (`relevance/reading/layers.py`), some that are traced (`TRACED`), what
a Python program has registered with Keras itself, and what Keras writes around layers.
"""

import math
import sys
from collections.abc import Iterator
from typing import Any

import keras

from realtime_lrp.relevance.reading.layers import NONNEGATIVE, OURS, SIGNED

LAYERS = (*OURS, "InputLayer")

TRACED = (
    "AdaptiveAveragePooling2D", "AdaptiveMaxPooling2D", "Attention", "AveragePooling1D",
    "CenterCrop", "Conv1DTranspose", "Cropping1D",
    "DepthwiseConv1D", "Dot", "EinsumDense", "GlobalAveragePooling1D", "GlobalMaxPooling1D",
    "GroupQueryAttention", "MaxPooling1D", "Maximum", "Minimum", "MultiHeadAttention",
    "RMSNormalization", "RandomCrop", "RepeatVector", "Resizing", "SeparableConv1D",
    "SpectralNormalization", "TimeDistributed", "UnitNormalization", "UpSampling1D",
    "ZeroPadding1D",
)  # fmt: skip
"""Layers without a row: relevance goes through the operations that they consist of."""

ACTIVATIONS = (*NONNEGATIVE, *SIGNED, "linear")

_MODELS = {"Functional", "Sequential"}
_POLICIES = {"DTypePolicy", "FloatDTypePolicy", "QuantizedDTypePolicy"}
_NUMBER_TYPES = ("bool", "int", "uint", "float", "bfloat")

ALLOWED_CLASSES: dict[str | None, set[str]] = {
    None: {"__ellipsis__", "__keras_tensor__", "__numpy__", "__slice__", "__tensor__"},
    "keras": _MODELS | _POLICIES,
    "keras.models": _MODELS,
    "keras.src.models.functional": _MODELS,
    "keras.src.models.sequential": _MODELS,
    "keras.layers": {*LAYERS, *TRACED},
    "keras.src.applications.convnext": {"LayerScale", "StochasticDepth"},
    "keras.src.applications.inception_resnet_v2": {"CustomScaleLayer"},
    "keras.src.ops.core": {"Cast", "StopGradient", "Unstack"},
    "keras.src.ops.image": {"RGBToGrayscale", "Resize"},
    "keras.src.ops.math": {"Erf", "Logsumexp", "Rsqrt"},
    "keras.src.ops.nn": {
        "AveragePool", "Celu", "DepthToSpace", "Elu", "Gelu", "HardSigmoid", "HardSilu", "HardTanh",
        "LeakyRelu", "LogSigmoid", "LogSoftmax", "MaxPool", "Normalize", "Relu", "Relu6", "Selu",
        "Sigmoid", "Silu", "Softmax", "Softplus", "Softsign", "SpaceToDepth",
    },
    "keras.src.ops.numpy": {
        "Absolute", "Add", "Amax", "Amin", "Clip", "Concatenate", "Cumsum", "Divide", "Einsum",
        "Equal", "Exp", "ExpandDims", "Flip", "GetItem", "Greater", "GreaterEqual", "Less",
        "LessEqual", "Log", "Log1p", "Matmul", "Max", "Maximum", "Mean", "Min", "Minimum",
        "Moveaxis", "Multiply", "Negative", "Pad", "Power", "Reciprocal", "Repeat", "Reshape",
        "Roll", "Split", "Sqrt", "Square", "Squeeze", "Stack", "Std", "Subtract", "Sum", "Swapaxes",
        "Take", "Tanh", "Tile", "Transpose", "TrueDivide", "Var", "Where",
    },
    "keras.initializers": {
        "Constant", "GlorotNormal", "GlorotUniform", "HeNormal", "HeUniform", "Identity",
        "IdentityInitializer", "LecunNormal", "LecunUniform", "Ones", "Orthogonal",
        "OrthogonalInitializer", "RandomNormal", "RandomUniform", "TruncatedNormal",
        "VarianceScaling", "Zeros",
    },
    "keras.regularizers": {"L1", "L1L2", "L2", "OrthogonalRegularizer"},
    "keras.constraints": {"MaxNorm", "MinMaxNorm", "NonNeg", "UnitNorm"},
    "keras.dtype_policies": _POLICIES,
    "keras.random": {"SeedGenerator"},
}  # fmt: skip
"""Module -> classes that may be built; None: constants and tensors, which have no module."""

MAX_LAYERS = 5000  # The networks of keras.applications have up to 1041
MAX_ROW = 900  # Layers of a Sequential: Keras follows them by recursion, and builds it for each
MAX_NORMALISED = 2**24  # Values of a Normalization: one for each channel, or for a whole picture
MAX_NAME_SHOWN = 100  # Characters of a name that a message shows
MAX_STEP = 2**16  # Pixels; above TensorFlow aborts the process. Pictures have up to 8192.

_STEP_KEYS = (
    "strides", "dilation_rate", "pool_size", "kernel_size", "size", "output_padding", "height",
    "width", "n", "pad_width", "power_iterations", "repeats", "block_size",
)  # fmt: skip


def check_description(described: Any) -> None:
    """Raises ValueError for a parsed config.json that names anything that is not on the list."""
    # what Keras would build
    objects = [part for part in parts_of(described) if "class_name" in part]
    layers = sum(part.get("module") == "keras.layers" for part in objects)
    if layers > MAX_LAYERS:
        raise ValueError(f"it describes {layers:,} layers, more than {MAX_LAYERS:,}")
    for part in objects:
        _check_object(part)


def _check_object(part: dict[str, Any]) -> None:
    class_name = part["class_name"]
    module = part.get("module")
    config = part.get("config")
    options = config if isinstance(config, dict) else {}
    name = part.get("name") or options.get("name")
    if not all(isinstance(text, str | None) for text in (class_name, module, name)):
        raise ValueError("a name in it is not text")
    shown = repr(str(name)[:MAX_NAME_SHOWN])
    if name is not None and not name.isprintable():
        raise ValueError(f"it has a layer with an unprintable name ({shown})")
    row = options.get("layers")
    if class_name == "Sequential" and isinstance(row, list) and len(row) > MAX_ROW:
        raise ValueError(f"it has {len(row):,} layers in a row, more than Keras can connect")
    for key in _STEP_KEYS:
        values = keras.tree.flatten(options.get(key))
        if any(isinstance(value, int | float) and abs(value) > MAX_STEP for value in values):
            raise ValueError(f"the {key} of layer {shown} is larger than any picture")
    if class_name == "Normalization" and not _normalises_pictures(part):
        raise ValueError(
            f"the Normalization layer {shown} has no shape that fits a picture, with at most "
            f"{MAX_NORMALISED:,} values"
        )
    if not _is_allowed(part, class_name, module):
        texts = [text and text[:MAX_NAME_SHOWN] for text in (class_name, module, name)]
        raise ValueError(_refusal(*texts))


def parts_of(described: Any) -> Iterator[dict[str, Any]]:
    """Every object in a description, at any depth."""
    if isinstance(described, dict):
        yield described
    values = described.values() if isinstance(described, dict) else described
    for value in values if isinstance(described, dict | list) else ():
        yield from parts_of(value)


def _normalises_pictures(part: dict[str, Any]) -> bool:
    """Whether a Normalization has a small shape; it allocates and computes when it is built."""
    try:
        shape = part["build_config"]["input_shape"]
        axis = part["config"].get("axis", -1)
        kept = [shape[index] for index in (axis if isinstance(axis, list) else [axis])]
    except (AttributeError, IndexError, KeyError, TypeError):
        return False
    return all(isinstance(size, int) for size in kept) and 0 < math.prod(kept) <= MAX_NORMALISED


def _is_allowed(part: dict[str, Any], class_name: str | None, module: str | None) -> bool:
    is_function = class_name == "function"
    built = part.get("config") if is_function else class_name
    registered = part.get("registered_name")
    if registered not in (None, "function", built):
        hub = sys.modules.get("keras_hub")  # its tokenizers read files that their arguments name
        reads = hub is not None and is_registered(registered, hub.tokenizers.Tokenizer)
        return is_registered(registered, keras.Layer) and not reads and not is_function
    if is_function:
        return module in ("builtins", "keras.activations") and built in ACTIVATIONS
    if class_name in ("__numpy__", "__tensor__"):
        config = part.get("config")
        return isinstance(config, dict) and str(config.get("dtype")).startswith(_NUMBER_TYPES)
    return class_name in ALLOWED_CLASSES.get(module, ())


def is_registered(name: Any, kinds: type | tuple[type, ...]) -> bool:
    """Whether Python code in this process has registered such a class by this name; no file can."""
    found = keras.saving.get_registered_object(name) if isinstance(name, str) else None
    return isinstance(found, type) and issubclass(found, kinds)


def _refusal(class_name: str | None, module: str | None, name: str | None) -> str:
    if class_name in ("Lambda", "__lambda__"):
        return (
            "it holds Lambda code, which is never run; replace the Lambda layer by a Keras layer "
            "and save the model again"
        )
    if module == "keras.layers":
        return (
            f"layer {name!r} ({class_name}) is none of those that a model file may hold; load the "
            "model in Python and give it to Explainer, or replace the layer"
        )
    needed = f"{module}: {class_name}" if module else class_name
    return (
        f"it needs code that is not in Keras or does not belong in a network ({needed}); load it "
        "in Python, where Explainer(model) explains layers of your own, too"
    )
