"""The child process that checks HDF5 files: what it reports, and what it protects from."""

import shutil
import sys

import pytest
from model_files import dense

from realtime_lrp.errors import DamagedInputError
from realtime_lrp.models.untrusted import hdf5_check
from realtime_lrp.models.untrusted.loading import load_weights

pytestmark = pytest.mark.usefixtures("new_processes")


@pytest.mark.parametrize("suffix", [".weights.h5", ".h5"])
def test_the_child_reports_what_the_function_returns(tmp_path, suffix):
    """The number of values of a good file, in both formats."""
    path = tmp_path / f"w{suffix}"
    model = dense()
    (model.save_weights if suffix == ".weights.h5" else model.save)(path)
    answer = hdf5_check._examine_in_child(path, "it")
    assert answer == hdf5_check.examine(path) == {"values": 8}
    load_weights(dense(), path)


def test_bytes_that_hang_or_crash_the_library_do_so_in_a_child(tmp_path, monkeypatch):
    """A child that does not end, or ends with an error, means a damaged file."""
    path = tmp_path / "w.weights.h5"
    dense().save_weights(path)
    with monkeypatch.context() as patched:
        patched.setattr(hdf5_check, "WALL_FACTOR", 0.0)
        with pytest.raises(DamagedInputError, match=r"w\.weights\.h5.*does not end within 0 s"):
            load_weights(dense(), path)
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(DamagedInputError, match=r"w\.weights\.h5.*ended with code 1"):
        load_weights(dense(), path)
