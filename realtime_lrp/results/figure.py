"""Matplotlib figures as pictures that say how they were made."""

from typing import TYPE_CHECKING

import numpy as np

from realtime_lrp.video.pictures import encode_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figure_png(figure: "Figure", description: str, dpi: float | None = None) -> bytes:
    """The PNG file of a figure.

    Args:
      figure: what is drawn.
      description: kept in the file, see `write_picture`.
      dpi: pixels per inch; None is the figure's.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    if dpi:
        figure.set_dpi(dpi)
    canvas.draw()
    return encode_picture(".png", np.asarray(canvas.buffer_rgba())[..., :3], description)
