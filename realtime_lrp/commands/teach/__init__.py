"""`teach`: a network for a few things of one's own, from a folder or by showing them."""
