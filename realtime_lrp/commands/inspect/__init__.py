"""`inspect`: shows what every layer of a network held for one picture."""

import realtime_lrp.engine.tensorflow  # noqa: F401  # first, so that TensorFlow prints nothing
