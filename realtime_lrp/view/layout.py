"""Lays out a picture and its map for recorded files."""

import numpy as np

from realtime_lrp.view.overlay import Overlay, lay_over
from realtime_lrp.view.text import draw_lines


def lay_out(picture: np.ndarray, overlay: Overlay, line: str, layout: str) -> np.ndarray:
    """A picture with its map and the line that names its best label.

    Args:
      picture: uint8 [H, W, 3] RGB.
      overlay: made for this picture.
      line: drawn at the bottom of the explained region, except where the map stands alone.
      layout: "overlay"; "side-by-side": the picture, with the overlay at its right; "map": the map
        on black; "original+map": the picture, with the map on black at its right.

    Returns:
      uint8 [H, W, 3] or [H, 2 W, 3].
    """
    if layout in ("map", "original+map"):
        drawn = lay_over(np.zeros_like(picture), overlay)
    else:
        drawn = lay_over(picture, overlay)
        draw_lines(drawn, [line], overlay.box, bottom=True)
    return drawn if layout in ("overlay", "map") else np.hstack([picture, drawn])
