"""Which precision is faster on this processor: measured once, kept, measured again if need be."""

import json

import pytest

from realtime_lrp.engine import device as times
from realtime_lrp.engine.device import PrecisionTimes


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """The measurements that were made; the cache is an empty folder that does not exist yet."""
    made = []

    def measure():
        made.append(PrecisionTimes(20.0, 10.0 + len(made)))
        return made[-1]

    monkeypatch.setattr(times, "measure", measure)
    monkeypatch.setattr(times, "user_cache_path", lambda name: tmp_path / "cache" / name)
    return made


def test_a_processor_is_measured_once(measured, tmp_path):
    """The second time it is read from the file; another processor is measured, and both stay."""
    first = times.precision_times("4 x Some CPU")
    assert times.precision_times("4 x Some CPU") == first == PrecisionTimes(20.0, 10.0)
    assert times.precision_times("2 x Some CPU") == PrecisionTimes(20.0, 11.0)
    assert times.precision_times("4 x Some CPU") == first
    assert len(measured) == 2
    (file,) = (tmp_path / "cache" / "realtime-lrp").iterdir()
    keys = list(json.loads(file.read_text()))
    assert len(keys) == 2 and all("TensorFlow" in key and "realtime-lrp" in key for key in keys)


@pytest.mark.parametrize(
    "damaged",
    [
        b"", b"\xff\xfe", b'{"KEY": {"float32": 1.0}}', b"[" * 100_000,
        b'{"KEY": {"float32": NaN, "bfloat16": 1.0}}', b'{"KEY": {"float32": 1.0, "bfloat16": 0}}',
        b'{"KEY": {"float32": "1", "bfloat16": 1.0}}', b'{"KEY": {"float32": null, "bfloat16": 1}}',
    ],
)  # fmt: skip
def test_a_damaged_file_is_measured_again_and_replaced(damaged, measured):
    """Whatever is in it; the next run reads what was written."""
    times.precision_times("CPU")
    file = times.cache_file()
    (key,) = json.loads(file.read_text())
    file.write_bytes(damaged.replace(b"KEY", key.encode()))
    again = PrecisionTimes(20.0, 11.0)
    assert [times.precision_times("CPU") for _ in range(2)] == [again, again]
    assert len(measured) == 2
