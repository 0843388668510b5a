"""Frames in, frames out: pictures, recorded files, live sources, files that appear complete.

Frames are uint8 [H, W, 3] RGB; BGR exists only inside functions that call OpenCV.
No TensorFlow.
"""
