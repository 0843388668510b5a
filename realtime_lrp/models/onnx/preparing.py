"""How pictures are prepared for an ONNX file: as it says itself, else a guess."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from realtime_lrp.models.onnx.file import OnnxFile
from realtime_lrp.models.preparing import scaled_pictures

RANGES = {
    "NominalRange_0_255": "0..255", "NominalRange_16_235": "16..235",
    "Normalized_0_1": "0..1", "Normalized_1_1": "-1..1",
}  # fmt: skip
"""What ONNX's metadata of pictures, `Image.NominalPixelRange`, calls a range."""

HIGHEST = 6  # the most that a network reads once it has normalised its pictures


def preparation(
    file: OnnxFile,
    pictures: tf.Tensor,
    detects: bool,
    compute: Callable[[Sequence[tf.Tensor]], list[np.ndarray]],
) -> tuple[str, str]:
    """A way to prepare pictures, and what says so; "" is a guess.

    `pictures` is the input in the graph; `compute` gives tensors for pictures of 0, .5 and noise.
    """
    grey = pictures.shape[-1] == 1
    bgr = " bgr" * ("bgr" in file.about.get("Image.BitmapPixelFormat", "").lower())
    if file.whole:
        return f"0..255{bgr}" if bgr else "none", "its input, which has whole numbers,"
    if way := RANGES.get(file.about.get("Image.NominalPixelRange", "")):
        return way + bgr, "its metadata"
    if file.about.get("author") == "Ultralytics":
        return "rescale", "its metadata"
    graph = pictures.graph
    if normalised := scaled_pictures(graph.as_graph_def().node, pictures.op.name, ()):
        scaled = graph.get_operation_by_name(normalised).outputs[0]
        black, half = (one.mean() for one in compute([scaled])[0][:2])
        factor = 2 * (half - black)
        if 0 < factor * 255 <= HIGHEST:
            return "none", "its first operation"
        if 0.9 < factor <= 2 * HIGHEST and 0.2 < -black / factor < 0.8:
            return "rescale", "its first operation"
    last = file.shape[1] not in (1, 3)  # as Keras has its channels
    return "rescale" if grey or last or detects else "torch", ""
