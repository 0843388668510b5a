"""Explainers that compute operation by operation.

Compiling takes most of the time of a test that explains a few pictures with a small network. That
compiled functions compute the same is proved in `test_methods.py`, `test_modes.py` and wherever
tests run the program. Must not import TensorFlow: many tests do not need it.
"""

import sys
from contextlib import contextmanager

HOME = "realtime_lrp.relevance.maps.compiled"


class Uncompiled:
    """What stands for `Lazy`."""

    traces = 1

    def __init__(self, function, xla=False):
        self.python_function = function

    @property
    def function(self):
        """It is its own."""
        return self

    def traced(self, *inputs):
        """Nothing is compiled."""
        return self

    def __call__(self, *inputs):
        """Runs it."""
        return self.python_function(*inputs)


def begin():
    """From now on explainers compute operation by operation."""
    global _usual
    if home := sys.modules.get(HOME):
        _usual = home.Lazy
        _compile_by(Uncompiled)


@contextmanager
def compiled():
    """Explainers that are built meanwhile are compiled."""
    _compile_by(_usual)
    try:
        yield
    finally:
        _compile_by(Uncompiled)


_usual = None


def _compile_by(way):
    for name, module in list(sys.modules.items()) if _usual else ():
        if name.startswith("realtime_lrp.relevance.") and hasattr(module, "Lazy"):
            module.Lazy = way
