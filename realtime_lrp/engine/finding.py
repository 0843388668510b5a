"""The detector of `input.follow`: it finds a thing in one forward pass, without a map."""

from collections.abc import Sequence

import numpy as np

from realtime_lrp.config import Config
from realtime_lrp.config.schema import Followed
from realtime_lrp.engine.device import Device, cpu
from realtime_lrp.engine.loading import build_explainer, load
from realtime_lrp.engine.tensorflow import tf
from realtime_lrp.errors import UsageError
from realtime_lrp.system.geometry import FloatBox
from realtime_lrp.video.region import region_of


class Finder:
    """A detector that finds things in pictures, of one class or of any.

    Raises:
      Error: what `load` raises.
      UsageError: the network is no detector, or has no such class.
    """

    def __init__(self, followed: Followed, on: Device | None = None) -> None:
        on = on or cpu()
        model = {key: value for key, value in followed if key != "label"}
        config = Config().changed(model=model, lrp={"method": "gradient"})
        try:
            self._network, graph = load(config, keep_model=False)
            if graph.boxes is None:
                raise UsageError("it finds no boxes. Expected a detector.")
            explainer = build_explainer(graph, self._network, config, on, precision="float32")
            self._target = explainer.read_target(followed.label or "all")
        except UsageError as error:
            error.args = (f"--follow {followed.name}: {error}",)
            error.about = "follow"  # it is no setting of the network that is explained
            raise
        self._explainer = explainer
        self._device = on

    def __call__(
        self, pictures: Sequence[np.ndarray] | np.ndarray, aspect: float = 1.0
    ) -> list[list[FloatBox]]:
        """The boxes of the things in each picture, uint8 [H, W, 3] RGB, the largest first."""
        size = self._explainer.input_shape[:2]
        fit = self._network.fit
        regions = [region_of(one.shape[:2], size, fit, aspect) for one in pictures]
        seen = np.stack([one.extract(p) for one, p in zip(regions, pictures, strict=True)])
        with tf.device(self._device.scope):
            found = self._explainer.boxes(self._network.prepare(seen), self._target)
        rows, boxes, sure = (one.numpy() for one in (found.pictures, found.boxes, found.sure))
        order = np.argsort(-np.prod(boxes[:, 2:] - boxes[:, :2], 1), kind="stable")
        return [
            [
                region.in_picture(tuple(boxes[n].tolist()))
                for n in order
                if rows[n] == number and sure[n]
            ]
            for number, region in enumerate(regions)
        ]
