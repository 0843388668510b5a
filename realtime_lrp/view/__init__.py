"""Drawing: colour maps, overlays, text, contact sheets, the window. No TensorFlow.

Pictures and canvases are uint8 [H, W, 3] RGB; BGR exists only inside the window. What begins with
`draw_` draws in place. Sizes are rows and columns, boxes x0, y0, x1, y1; `letters` and the `size`
of a text are the height of its letters. All are pixels of the canvas where nothing else is said.
"""
