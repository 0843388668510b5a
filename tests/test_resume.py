"""`video --resume` and `--overwrite`: what is made again, what is kept, what is refused."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import av
import media
import pytest
from faults import disk

from realtime_lrp import config
from realtime_lrp.results.resume import fingerprint


def test_resume_skips_what_is_finished_and_only_that(run, words, tmp_path):
    """Recognised by the source and the settings, not by its name."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir(), out.mkdir()
    for name, count in (("a.mp4", 4), ("b.mp4", 5)):
        media.recording(folder / name, count=count, metadata={"comment": "mine", "title": "T"})
    command = ("video", folder, "-o", out, *words, "--resume")
    code, stdout, _ = run(*command)
    assert code == 0 and stdout.count("frames ->") == 2
    with av.open(out / "a.mp4") as container:
        assert container.metadata["title"] == "T"
        assert container.metadata["comment"].startswith("mine\nrealtime_lrp")
    made = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    code, stdout, _ = run(*command)
    assert code == 0 and stdout.count("finished before") == 2
    assert {path: path.stat().st_mtime_ns for path in out.iterdir()} == made
    code, _, err = run(*command, "--opacity", 0.1)
    assert code == 73 and "other settings" in err and "--overwrite" in err
    shutil.copy(folder / "b.mp4", folder / "a.mp4")
    code, stdout, err = run(*command)
    assert code == 73 and "b.mp4: finished before" in stdout, "the other file is done"
    assert "a.mp4' was made from another source" in err and "1 of 2 videos done" in err
    code, stdout, _ = run(*command, "--overwrite")
    assert code == 0 and "a.mp4: 5 frames" in stdout and "b.mp4: finished before" in stdout
    code, stdout, err = run(*command, "--sidecar")  # the same settings, but something is missing
    assert code == 0 and stdout.count("frames ->") == 2
    assert "a.mp4 is made again: a.jsonl is missing or has changed" in err
    assert (out / "a.jsonl").exists()


def test_outputs_that_exist_are_told_before_any_work(run, words, tmp_path):
    """Folders of raw maps here: exit code 73, and how many more there are."""
    for name in ("a.mp4", "b.mp4"):
        media.recording(tmp_path / name, count=2)
        (tmp_path / "maps" / name[0]).mkdir(parents=True)
    (tmp_path / "out").mkdir()
    inputs = (tmp_path / "a.mp4", tmp_path / "b.mp4")
    code, out, err = run(
        "video", *inputs, "-o", tmp_path / "out", *words, "--maps", tmp_path / "maps"
    )
    assert (code, out) == (73, "") and "maps/a' exists" in err
    assert "(1 more cannot be made either.)" in err and not list((tmp_path / "out").glob("*"))


def test_resume_makes_again_what_is_not_known_to_be_whole(run, words, tmp_path):
    """What is gone, or was left by a killed run, is made again."""
    source, target = media.recording(tmp_path / "in.mp4", count=3), tmp_path / "out.mp4"
    command = ("video", source, "-o", target, *words, "--sidecar", "--maps", tmp_path / "maps")
    command = (*command, "--resume")
    assert run(*command)[0] == 0
    film, sidecar = target.read_bytes(), tmp_path / "out.jsonl"
    chunk = tmp_path / "maps" / "out" / "maps_000000.npz"
    for spoil, told in [
        (lambda: sidecar.write_text(sidecar.read_text().replace("1", "2")), "out.jsonl is missing"),
        (lambda: os.truncate(chunk, 100), "out is missing or has changed"),
        (lambda: shutil.rmtree(tmp_path / "maps" / "out"), "out is missing or has changed"),
    ]:
        spoil()
        code, out, err = run(*command)
        assert code == 0 and "3 frames" in out and f"out.mp4 is made again: {told}" in err, err
        code, out, err = run(*command)
        assert (code, err) == (0, "") and "finished before" in out
    target.unlink()  # killed just before the film got its name
    assert run(*command)[0] == 0 and target.read_bytes() == film
    target.unlink()
    sidecar.write_text("precious")
    assert run(*command)[0] == 73 and sidecar.read_text() == "precious"


@pytest.mark.parametrize("manifest", [None, "{"], ids=["no manifest", "a damaged one"])
def test_resume_replaces_no_film_that_it_does_not_know(run, words, tmp_path, manifest):
    """It may be the user's own; --overwrite replaces it."""
    source, target = media.recording(tmp_path / "in.mp4", count=3), tmp_path / "out.mp4"
    target.write_bytes(b"precious")
    if manifest:
        (tmp_path / ".out.mp4.resume.json").write_text(manifest)
    command = ("video", source, "-o", target, *words, "--resume")
    code, _, err = run(*command)
    assert code == 73 and "out.mp4' exists. Add --overwrite" in err
    assert target.read_bytes() == b"precious"
    assert run(*command, "--overwrite")[0] == 0
    code, out, _ = run(*command)
    assert code == 0 and "finished before" in out


def test_resume_replaces_nothing_of_the_users(run, words, tmp_path):
    """Not a film that was edited, nor what lies beside a film that was never begun."""
    source, target = media.recording(tmp_path / "in.mp4", count=3), tmp_path / "out.mp4"
    command = ("video", source, "-o", target, *words, "--resume", "--sidecar")
    sidecar = tmp_path / "out.jsonl"
    sidecar.write_text("precious")
    code, _, err = run(*command)
    assert code == 73 and "out.jsonl" in err and sidecar.read_text() == "precious"
    sidecar.unlink()
    assert run(*command)[0] == 0
    target.write_bytes(b"edited")
    code, _, err = run(*command)
    assert code == 73 and "has changed since it was made. Add --overwrite" in err
    assert target.read_bytes() == b"edited"


def test_two_jobs_do_not_write_one_film(run, words, tmp_path):
    """The second one is refused while the first runs."""
    source, target = media.recording(tmp_path / "in.mp4", count=3), tmp_path / "out.mp4"
    other = subprocess.Popen(["sleep", "60"])
    (tmp_path / f"out.mp4.{other.pid}.part").touch()
    command = ("video", source, "-o", target, *words, "--resume")
    code, _, err = run(*command)
    assert code == 73 and "is being written by another process" in err
    other.kill(), other.wait()
    assert run(*command)[0] == 0


def test_a_film_appears_after_all_that_stands_beside_it(monkeypatch, run, words, tmp_path):
    """The manifest, then sidecar, maps and summary, the film last."""
    source, target = media.recording(tmp_path / "in.mp4", count=3), tmp_path / "out.mp4"
    beside = ("--sidecar", "--summary", "--maps", tmp_path)
    command = ("video", source, "-o", target, *words, *beside, "--overwrite")
    assert run(*command)[0] == 0
    placed, replace = [], os.replace

    def noted(part, name):
        placed.append(Path(name).name)
        replace(part, name)

    monkeypatch.setattr(os, "replace", noted)
    assert run(*command)[0] == 0
    assert (placed[0], placed[-1]) == (".out.mp4.resume.json", "out.mp4")
    assert sorted(placed[1:-1]) == ["out.jsonl", "out.summary.png"]


def test_what_a_killed_run_left_is_named(run, words, tmp_path):
    """The part of a process that has ended is reported; that of a running one is not."""
    source = media.recording(tmp_path / "in.mp4", count=2)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for number in (gone.pid, os.getpid()):
        (tmp_path / f"out.mp4.{number}.part").touch()
    code, _, err = run("video", source, "-o", tmp_path / "out.mp4", *words)
    assert code == 0
    assert f"out.mp4.{gone.pid}.part was left" in err and f".{os.getpid()}.part was left" not in err


def test_a_setting_counts_for_resume_where_it_shapes_the_film(tmp_path):
    """Each such section of the configuration, and nothing that only the live view shows."""
    source = media.recording(tmp_path / "in.mp4", count=2)

    def print_of(*sets):
        return fingerprint(source, config.load(sets=sets, command="video").config, {})

    for setting in ("model.preprocess=none", "lrp.target=red", "input.fit=squash",
                    "input.mirror=true", "overlay.opacity=0.1", "video.quality=30",
                    "video.codec=hevc"):  # fmt: skip
        assert print_of(setting) != print_of(), setting
    for setting in ("video.batch=3", "overlay.average=0.5", "live.camera_fps=15"):
        assert print_of(setting) == print_of(), setting


CALLS = "rename,renameat,renameat2,link,linkat"


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
    "stats": ["stats.json"], "npz": ["out.npz"],
    "maps": ["maps", "maps/out", "maps/out/maps_000000.npz"],
}  # fmt: skip
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
