"""Loads model files from other people. They are checked before Keras builds anything from them."""
