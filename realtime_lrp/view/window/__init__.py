"""The window on the screen: OpenCV's, the whole screen, and what X11 is asked."""
