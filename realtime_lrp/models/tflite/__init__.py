"""TensorFlow Lite files: read as data into TensorFlow operations, explained like any others."""
