"""What the description in a .keras file may name: nothing that is not listed here is ever built.

The layers are those that relevance has a rule for (`LAYERS` in relevance/layers.py; a test compares
the two), and those that a program using this package has registered with Keras itself. The rest is
what Keras writes around them: models, initialisers, constants.
"""

import math
from collections.abc import Iterator
from typing import Any

import keras

from realtime_lrp.errors import DamagedInputError

LAYERS = (
    "Activation", "ActivityRegularization", "Add", "AlphaDropout", "Average", "AveragePooling2D",
    "BatchNormalization", "Concatenate", "Conv1D", "Conv2D", "Conv2DTranspose", "Conv3D",
    "Cropping2D", "Dense", "DepthwiseConv2D", "Dropout", "ELU", "Flatten", "GaussianDropout",
    "GaussianNoise", "GlobalAveragePooling2D", "GlobalMaxPooling2D", "GroupNormalization",
    "Identity", "InputLayer", "LayerNormalization", "LeakyReLU", "MaxPooling2D", "Multiply",
    "Normalization", "PReLU", "Permute", "RandomBrightness", "RandomContrast", "RandomFlip",
    "RandomRotation", "RandomTranslation", "RandomZoom", "ReLU", "Rescaling", "Reshape",
    "SeparableConv2D", "Softmax", "SpatialDropout2D", "Subtract", "UpSampling2D", "ZeroPadding2D",
)  # fmt: skip

ACTIVATIONS = (
    "celu", "elu", "exponential", "gelu", "hard_sigmoid", "hard_silu", "hard_tanh", "leaky_relu",
    "linear", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "softmax", "softplus", "softsign",
    "tanh",
)  # fmt: skip

_MODELS = {"Functional", "Sequential"}
_POLICIES = {"DTypePolicy", "FloatDTypePolicy", "QuantizedDTypePolicy"}
_NUMBERS = ("bool", "int", "uint", "float", "bfloat")

ALLOWED_CLASSES: dict[str | None, set[str]] = {
    None: {"__keras_tensor__", "__numpy__", "__tensor__"},
    "keras": _MODELS | _POLICIES,
    "keras.models": _MODELS,
    "keras.src.models.functional": _MODELS,
    "keras.src.models.sequential": _MODELS,
    "keras.layers": set(LAYERS),
    "keras.src.applications.convnext": {"LayerScale", "StochasticDepth"},
    "keras.src.applications.inception_resnet_v2": {"CustomScaleLayer"},
    "keras.src.ops.numpy": {
        "Add", "Divide", "Exp", "Multiply", "Subtract", "Tanh", "TrueDivide",
    },
    "keras.src.ops.nn": {
        "Celu", "Elu", "Gelu", "HardSigmoid", "HardSilu", "HardTanh", "LeakyRelu", "Relu",
        "Relu6", "Selu", "Sigmoid", "Silu", "Softmax", "Softplus", "Softsign",
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


MOST_LAYERS = 5000
"""Of a network; those of keras.applications have up to 1041."""

MOST_STEP = 2**16
"""Pixels; pictures have up to 8192."""

_STEPS = ("strides", "dilation_rate", "pool_size", "kernel_size", "size", "output_padding")

MOST_NORMALISED = 2**24
"""Numbers that a Normalization subtracts: channels, or a picture."""

MOST_SHOWN = 100
"""Characters of a name in a message."""


def check_description(described: Any, file: str) -> None:
    """Refuses a description that names anything but what is known, before it is used.

    Args:
      described: what config.json holds.
      file: how messages call the file.

    Raises:
      DamagedInputError: something in it is not known.
    """
    layers = sum(part.get("module") == "keras.layers" for part in _objects(described))
    if layers > MOST_LAYERS:
        raise DamagedInputError(
            f"{file} describes {layers:,} layers; no network needs more than {MOST_LAYERS:,}."
        )
    for part in _objects(described):
        kind, module = part["class_name"], part.get("module")
        name = part.get("name") or _own_name(part)
        if not all(isinstance(word, str | None) for word in (kind, module, name)):
            raise DamagedInputError(f"{file} describes no model: a name in it is no text.")
        if name is not None and not name.isprintable():
            raise DamagedInputError(
                f"{file} has a layer with an unprintable name ({name[:MOST_SHOWN]!r})."
            )
        if wide := _beyond_pictures(part.get("config")):
            raise DamagedInputError(
                f"{file} has a layer whose {wide} is beyond any picture "
                f"({str(name)[:MOST_SHOWN]!r}). Expected at most {MOST_STEP:,}."
            )
        if kind == "Normalization" and not _normalises_pictures(part):
            raise DamagedInputError(
                f"{file} gives {str(name)[:MOST_SHOWN]!r} no shape that a picture could have. "
                f"Expected a layer that normalises {MOST_NORMALISED:,} numbers at most."
            )
        if not _known(part, kind, module):
            shown = [word and word[:MOST_SHOWN] for word in (kind, module, name)]
            raise DamagedInputError(_refusal(file, *shown))


def _objects(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, dict):
        if "class_name" in part:
            yield part
        for value in part.values():
            yield from _objects(value)
    elif isinstance(part, list):
        for value in part:
            yield from _objects(value)


def _beyond_pictures(config: Any) -> str:
    """What of a layer steps further than pictures reach; TensorFlow would end the process."""
    for key in _STEPS if isinstance(config, dict) else ():
        values = config.get(key)
        values = values if isinstance(values, list) else [values]
        if any(isinstance(value, int | float) and abs(value) > MOST_STEP for value in values):
            return key
    return ""


def _normalises_pictures(part: dict[str, Any]) -> bool:
    """Whether a Normalization has a shape, and a small one: it computes as soon as it is built."""
    try:
        shape, axis = part["build_config"]["input_shape"], part["config"].get("axis", -1)
        kept = [shape[each] for each in (axis if isinstance(axis, list) else [axis])]
    except (AttributeError, IndexError, KeyError, TypeError):
        return False
    return all(isinstance(n, int) for n in kept) and 0 < math.prod(kept) <= MOST_NORMALISED


def _own_name(part: dict[str, Any]) -> Any:
    config = part.get("config")
    return config.get("name") if isinstance(config, dict) else None


def _known(part: dict[str, Any], kind: str | None, module: str | None) -> bool:
    named = part.get("config") if kind == "function" else kind
    if part.get("registered_name") not in (None, "function", named):
        return kind != "function" and _registered(part["registered_name"])
    if kind == "function":
        return module in ("builtins", "keras.activations") and named in ACTIVATIONS
    if kind in ("__numpy__", "__tensor__"):
        config = part.get("config")
        return isinstance(config, dict) and str(config.get("dtype")).startswith(_NUMBERS)
    return kind in ALLOWED_CLASSES.get(module, ())


def _registered(name: Any) -> bool:
    """Whether it is a layer that Python code has registered in this process; no file can."""
    layer = keras.saving.get_registered_object(name) if isinstance(name, str) else None
    return isinstance(layer, type) and issubclass(layer, keras.Layer)


def _refusal(file: str, kind: str | None, module: str | None, name: str | None) -> str:
    if kind in ("Lambda", "__lambda__"):
        return (
            f"{file} holds Lambda code, which is never run. "
            "Replace the Lambda layer by a Keras layer and save the model again."
        )
    if module == "keras.layers":
        return (
            f"Layer {name!r} ({kind}) of {file} cannot be explained: relevance has no rule for "
            "this type. Replace the layer in the model, or add a row to LAYERS in "
            "realtime_lrp/relevance/layers.py and its name to "
            "realtime_lrp/models/untrusted/allowlist.py."
        )
    return (
        f"{file} needs code that is not in Keras or has no place in a network "
        f"({module}: {kind}). Build the model from Keras layers and save it again."
    )
