"""Every command that writes, on a disk that is really full: told, and no half-written file."""

import media
import pytest
from faults import disk

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
