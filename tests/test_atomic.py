"""Files that appear under their names complete or not at all."""

import os

import pytest

from realtime_lrp.errors import OutputError, TransferError
from realtime_lrp.system.atomic import atomic_file


@pytest.fixture
def calls(monkeypatch):
    """What is done to the disk, in order: "fsync", "replace", "link"."""
    made = []
    for name in ("fsync", "replace", "link"):
        real = getattr(os, name)

        def spy(*args, name=name, real=real):
            made.append(name)
            return real(*args)

        monkeypatch.setattr(os, name, spy)
    return made


@pytest.mark.parametrize(
    ("overwrite", "expected"), [(True, ["fsync", "replace"]), (False, ["fsync", "link"])]
)
def test_a_file_is_on_the_disk_before_it_gets_its_name(tmp_path, calls, overwrite, expected):
    """After a power cut the name is not that of an empty file."""
    with atomic_file(tmp_path / "a.txt", overwrite) as part:
        part.write_text("whole")
        assert os.listdir(tmp_path) == [part.name]
    assert calls == expected
    assert os.listdir(tmp_path) == ["a.txt"] and (tmp_path / "a.txt").read_text() == "whole"


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, OutputError])
def test_an_error_leaves_nothing_new(tmp_path, error):
    """Whatever it is: the old file stays, the unfinished one goes."""
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(error), atomic_file(target, overwrite=True) as part:
        part.write_text("half")
        raise error
    assert os.listdir(tmp_path) == ["a.txt"] and target.read_text() == "old"


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path):
    """As a failed transfer, with the name of the file."""
    with pytest.raises(TransferError, match=r"a\.txt"), atomic_file(tmp_path / "a.txt") as part:
        part.write_text("half")
        raise OSError(28, "No space left on device")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("late", [True, False], ids=["at the last moment", "before"])
def test_a_file_that_appears_meanwhile_stays(tmp_path, monkeypatch, late):
    """Another job was faster, by however little."""
    target = tmp_path / "a.txt"

    def link(part, name):
        target.write_text("theirs")
        raise FileExistsError

    if late:
        monkeypatch.setattr(os, "link", link)
    with pytest.raises(OutputError, match="exists"), atomic_file(target) as part:
        part.write_text("ours")
        if not late:
            target.write_text("theirs")
    assert os.listdir(tmp_path) == ["a.txt"] and target.read_text() == "theirs"
