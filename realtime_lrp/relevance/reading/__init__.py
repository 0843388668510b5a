"""Reads a Keras model as a network: layers with a row, and traced TensorFlow operations."""
