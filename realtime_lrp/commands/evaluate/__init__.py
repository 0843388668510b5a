"""`evaluate`: measures how well maps point at the object."""

# first, because the mathematics imports TensorFlow without keeping it quiet
import realtime_lrp.engine.tensorflow  # noqa: F401
