"""A network as steps over tensors; nothing here knows Keras models or rules."""
