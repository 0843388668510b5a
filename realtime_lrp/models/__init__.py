"""Loads the network for a name or a file: a Keras model, its preprocessing and its labels."""
