"""ONNX files: read as data into TensorFlow operations, which are then explained like any others."""

from importlib.util import find_spec

from realtime_lrp.errors import UnavailableError

if find_spec("onnx") is None:
    raise UnavailableError(
        "To read ONNX files the package onnx is needed. Install it: "
        'pip install "realtime-lrp[onnx]"'
    )
