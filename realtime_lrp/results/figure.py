"""Matplotlib figures as pixels, and as PNG files that say how they were made."""

import warnings
from typing import TYPE_CHECKING

import numpy as np

from realtime_lrp.video.pictures import encode_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figure_pixels(figure: "Figure", dpi: float | None = None) -> np.ndarray:
    """The figure as it is drawn, uint8 [H, W, 3] RGB; `dpi` None is the figure's."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    if dpi:
        figure.set_dpi(dpi)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # letters that the font lacks
        canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def figure_png(figure: "Figure", description: str, dpi: float | None = None) -> bytes:
    """The PNG file of a figure; the description is kept in it, see `write_picture`."""
    return encode_picture(".png", figure_pixels(figure, dpi), description)
