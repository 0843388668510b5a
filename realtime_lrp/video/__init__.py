"""Reads and writes pictures and films: still pictures, recordings, live sources.

Frames are uint8 [H, W, 3] RGB; BGR exists only inside functions that call OpenCV.
No TensorFlow.
"""
