"""ONNX files: read as data into TensorFlow operations, which are then explained like any others."""
