"""How well maps point at the object: samples with known objects, metrics, measuring."""

# first, because the mathematics imports TensorFlow without keeping it quiet
import realtime_lrp.engine.tensorflow  # noqa: F401
