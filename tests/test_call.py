"""What reads files of strangers in a child process: what comes back, and what it protects from."""

import json
import math
import os
import re
import time

import pytest
from model_files import dense

from realtime_lrp.errors import DamagedInputError
from realtime_lrp.models.untrusted import hdf5_check
from realtime_lrp.models.untrusted.loading import load_weights
from realtime_lrp.system import call
from realtime_lrp.system.call import call_in_child

pytestmark = pytest.mark.usefixtures("new_processes")


@pytest.mark.parametrize("suffix", [".weights.h5", ".h5"])
def test_the_child_reports_what_the_function_returns(tmp_path, suffix):
    """The number of values of a good file; damage as the same error."""
    path = tmp_path / f"w{suffix}"
    model = dense()
    (model.save_weights if suffix == ".weights.h5" else model.save)(path)
    assert hdf5_check.stored_values(path, "w", "it") == 8
    assert hdf5_check.examine(str(path), "it") == 8
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(DamagedInputError, match=r"^it is damaged .* Expected what model\.save"):
        hdf5_check.stored_values(path, "w", "it")


def test_a_hang_is_told_of_the_file_that_the_user_named(tmp_path, monkeypatch):
    """And not of the weights that were unpacked from it."""
    dense().save(path := tmp_path / "Ann's.keras")
    monkeypatch.setattr(hdf5_check, "BASE_CPU_S", 0.01)
    monkeypatch.setattr(call, "module_command", lambda module: ["sleep", "600"])
    with pytest.raises(DamagedInputError, match=re.escape(f"{str(path)!r} makes the decoder hang")):
        load_weights(dense(), path)


@pytest.mark.parametrize(
    ("function", "words", "cpu_s", "expected"),
    [
        (time.sleep, [600], 0.01, "makes the decoder hang: nothing in 0.12 s"),
        (math.factorial, [10**7], 1, r"makes the decoder (crash \(SIGXCPU\)|hang)"),
        (os.abort, [], 9, r"makes the decoder crash \(SIGABRT\)"),
        (os._exit, [3], 9, r"makes the decoder end early \(exit code 3\)"),
        (json.loads, ["no JSON"], 9, "makes the decoder fail"),
    ],
)
def test_what_hangs_crashes_or_fails_does_so_in_a_child(function, words, cpu_s, expected):
    """Here it means a damaged file, which the message names."""
    with pytest.raises(DamagedInputError, match=f"'bad.h5' {expected}"):
        call_in_child("bad.h5", function, *words, cpu_s=cpu_s)


def test_the_child_limits_itself():
    """To its seconds of CPU time, and to its memory."""
    resource = pytest.importorskip("resource")
    limits = {"cpu_s": 7, "memory": 5 << 30}
    of_cpu, of_memory = (
        call_in_child("x", resource.getrlimit, kind, **limits)
        for kind in (resource.RLIMIT_CPU, resource.RLIMIT_AS)
    )
    assert (of_cpu[0], of_memory) == (7, [5 << 30] * 2)
