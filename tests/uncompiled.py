"""Explainers that compute operation by operation.

Compiling takes most of the time of a test that explains a few pictures with a small network. That
compiled functions compute the same is proved in `test_methods.py` and wherever tests run commands.
"""

import sys
from contextlib import contextmanager

import pytest
import tensorflow as tf

from realtime_lrp import Explainer  # noqa: F401
from realtime_lrp.relevance.maps.compiled import compile_once


class Uncompiled:
    """A function with what explainers ask of a compiled one."""

    def __init__(self, function, signature):
        self.python_function, self._signature = function, signature
        self.structured_outputs = None

    def __call__(self, *inputs):
        """Runs it with tensors of the types of its signature."""
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


def _uncompiled(function, signature, xla):
    kept = Uncompiled(function, signature)
    return kept, kept


@contextmanager
def _compiling_by(replacement):
    with pytest.MonkeyPatch.context() as patched:
        for name, module in list(sys.modules.items()):
            if name.startswith("realtime_lrp.relevance.") and hasattr(module, "compile_once"):
                patched.setattr(module, "compile_once", replacement)
        yield


def uncompiled():
    """Explainers that are built meanwhile compute operation by operation."""
    return _compiling_by(_uncompiled)


def compiled():
    """Explainers that are built meanwhile are compiled again."""
    return _compiling_by(compile_once)
