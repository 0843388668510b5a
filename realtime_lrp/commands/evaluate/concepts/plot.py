"""The plot of `evaluate --concepts`: how the answer falls, layer by layer."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from realtime_lrp.commands.evaluate.concepts.masking import (
    ACTIVATION,
    ORDERS,
    RANDOM,
    RELEVANCE,
    MaskedLayer,
)
from realtime_lrp.commands.evaluate.plots import GREY, curve_with_band, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {RELEVANCE: "#c1440e", ACTIVATION: "#1f5fa8", RANDOM: GREY}
COLUMNS = 4


def masking_plot(title: str, layers: Sequence[MaskedLayer], photos: Sequence[str]) -> "Figure":
    """Draws the mean curves of every layer with the bands of their intervals.

    Args:
      title: the text at the top.
      layers: what was measured.
      photos: the photo of each picture.
    """
    columns = min(COLUMNS, len(layers))
    lines = -(-len(layers) // columns)
    figure = new_figure(max(2.6 * columns + 0.6, 6.4), 2.3 * lines + 1.2, title)
    panels = figure.subplots(lines, columns, sharey=True, squeeze=False)
    for axes in panels.flat[len(layers) :]:
        axes.set_visible(False)
    for layer, axes in zip(layers, panels.flat, strict=False):
        positions = np.arange(len(layer.counts))
        for order in reversed(ORDERS):
            curve_with_band(axes, positions, layer.curves[order], COLOURS[order], photos)
        axes.set_title(f"{layer.name}, {layer.channels} channels", fontsize=9)
        axes.set_xticks(positions, [str(count) for count in layer.counts])
        axes.tick_params(labelsize=8)
        axes.set_xlabel("channels set to 0", fontsize=9)
    for axes in panels[:, 0]:
        axes.set_ylabel("probability", fontsize=9)
        axes.set_ylim(bottom=0)
    _add_legend(figure)
    return figure


def _add_legend(figure: "Figure") -> None:
    from matplotlib.lines import Line2D

    words = {
        RELEVANCE: "most relevance first",
        ACTIVATION: "most activation first",
        RANDOM: "random",
    }
    lines = [Line2D([], [], color=COLOURS[order], label=words[order]) for order in ORDERS]
    figure.legend(handles=lines, loc="outside lower center", ncols=3, fontsize=9, frameon=False)
