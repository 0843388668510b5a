"""From a Keras model to a network: layers with a row, and traced TensorFlow operations."""
