"""Layers without a row of their own: traced into TensorFlow operations, which have rows."""
