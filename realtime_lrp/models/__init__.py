"""What is explained: a name or file gives a Keras model, its preprocessing and its labels."""
