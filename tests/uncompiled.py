"""Explainers that compute operation by operation.

Compiling takes most of the time of a test that explains a few pictures with a small network. That
compiled functions compute the same is proved in `test_methods.py`, `test_modes.py` and wherever
tests run the program. Must not import TensorFlow: many tests do not need it.
"""

import sys
from contextlib import contextmanager

HOME = "realtime_lrp.relevance.maps.compiled"


class Uncompiled:
    """A function with what explainers ask of a compiled one."""

    def __init__(self, function, signature):
        self.python_function, self._signature = function, signature
        self.structured_outputs = None

    def __call__(self, *inputs):
        """Runs it with tensors of the types of its signature."""
        import tensorflow as tf

        tensors = tf.nest.map_structure(
            lambda spec, value: tf.convert_to_tensor(value, spec.dtype),
            list(self._signature),
            list(inputs),
        )
        self.structured_outputs = self.python_function(*tensors)
        return self.structured_outputs

    def experimental_get_tracing_count(self):
        """It is traced once."""
        return 1


def operation_by_operation(function, signature, xla):
    """What stands for `compile_once`."""
    kept = Uncompiled(function, signature)
    return kept, kept


def begin():
    """From now on explainers compute operation by operation."""
    global _usual
    if home := sys.modules.get(HOME):
        _usual = home.compile_once
        _compile_by(operation_by_operation)


@contextmanager
def compiled():
    """Explainers that are built meanwhile are compiled."""
    _compile_by(_usual)
    try:
        yield
    finally:
        _compile_by(operation_by_operation)


_usual = None


def _compile_by(way):
    for name, module in list(sys.modules.items()) if _usual else ():
        if name.startswith("realtime_lrp.relevance.") and hasattr(module, "compile_once"):
            module.compile_once = way
