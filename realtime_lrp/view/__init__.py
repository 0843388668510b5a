"""Drawing: colour maps, overlays, text, contact sheets, the window. No TensorFlow.

Pictures are uint8 [H, W, 3] RGB; BGR exists only inside the window.
"""
