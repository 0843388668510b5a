"""Windows: OpenCV's, one that fills the screen, and requests to an X11 desktop."""
