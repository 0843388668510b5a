"""Folders whose run was killed at any rename, and folders of damaged recordings."""

import shutil
import subprocess
import sys

import media
import pytest
from faults import disk

CALLS = "rename,renameat,renameat2,link,linkat"


@pytest.fixture
def words(tiny_model):
    """Options for the tiny network."""
    return ("--model", tiny_model, "--preprocess", "none")


def killed_at(number, command):
    """Runs a command and kills it at its n-th rename or link; whether it was killed."""
    strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={CALLS}"]
    strace += ["-e", f"inject={CALLS}:signal=KILL:when={number}"]
    words = [*strace, sys.executable, "-m", "realtime_lrp", *map(str, command)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode in (0, -9, 137), done.stderr
    return done.returncode != 0


@pytest.mark.release
@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
@pytest.mark.parametrize("command", ["video", "image"])
def test_a_run_that_was_killed_at_any_rename_goes_on(command, run, words, tmp_path):
    """--resume makes all that is missing, with exit code 0, and leaves the same as a whole run."""
    source = tmp_path / "in"
    source.mkdir()
    for name in "ab":
        if command == "video":
            media.recording(source / f"{name}.mp4", count=3)
        else:
            media.write_picture(source / f"{name}.png", media.plain())

    def words_for(folder):
        folder.mkdir(exist_ok=True)
        beside = ("--sidecar", "--summary", "--maps", folder / "maps")
        return (command, source, "-o", folder, *words, *(beside if command == "video" else ()))

    whole = tmp_path / "whole"
    assert run(*words_for(whole))[0] == 0
    names = sorted(str(path.relative_to(whole)) for path in whole.rglob("*"))
    number = 1
    while killed_at(number, words_for(tmp_path / str(number))):
        folder = tmp_path / str(number)
        code, _, err = run(*words_for(folder), "--resume")
        assert code == 0, (number, err)
        left = [path for path in folder.rglob("*") if ".part" not in path.name]
        made = [path for path in left if ".part" not in path.parent.name]
        assert sorted(str(path.relative_to(folder)) for path in made) == names, number
        code, out, err = run(*words_for(folder), "--resume")
        assert code == 0 and out.count("finished before") == 2, (number, err)
        number += 1
    assert number > (6 if command == "video" else 2)


SMALL = {
    "stats": ["stats.json"],
    "npz": ["out.npz"],
    "maps": ["maps", "maps/out", "maps/out/maps_000000.npz"],
}
"""What fits into a nearly full disk."""

FREE = {"full": 0, "nearly full": 8 << 10}


@pytest.fixture(scope="module")
def commands(tiny_model, tmp_path_factory):
    """Name -> words; each writes more than there is room for."""
    folder = tmp_path_factory.mktemp("in")
    picture = media.write_picture(folder / "in.png", media.plain(size=(480, 640)))
    film = media.write_video(folder / "in.mp4", media.numbered(12, (240, 320)))
    tiny = ("--model", tiny_model, "--preprocess", "none")
    beside = (picture, "-o", folder / "out.png", "--overwrite")
    live = ("live", "--source", "synthetic", "--display", "none", "--duration", "0.5", *tiny)
    return {
        "png": ("image", picture, "-o", "DISK/out.png", *tiny),
        "jpg": ("image", picture, "-o", "DISK/out.jpg", *tiny),
        "npz": ("image", picture, "-o", "DISK/out.npz", *tiny),
        "maps": ("image", *beside, "--maps", "DISK/maps", *tiny),
        "video": ("video", film, "-o", "DISK/out.mp4", "--sidecar", "--summary", *tiny),
        "demo": ("demo", "-o", "DISK/demo.mp4"),
        "inspect": ("inspect", picture, "--logdir", "DISK/runs", *tiny),
        "stats": (*live, "--stats", "DISK/stats.json"),
        "record": (*live, "--record", "DISK/view.mp4"),
    }


@pytest.mark.release
@pytest.mark.parametrize("free", ["nearly full", "full"])
def test_what_does_not_fit_is_told_and_leaves_nothing(commands, free, tmp_path):
    """Exit code 74, one or two lines, nothing under the final name; what fits is whole."""
    if why := disk.missing():
        pytest.skip(f"no file system can be mounted: {why}")
    answers = disk.on_a_full_disk(tmp_path / "disk", FREE[free], commands.values())
    for name, (code, said, left) in zip(commands, answers, strict=True):
        fits = SMALL.get(name) if free == "nearly full" else None
        assert (code, left) == ((0, fits) if fits else (74, [])), (name, said)
        assert fits or (len(said.splitlines()) == 1 and "/disk" in said), said
