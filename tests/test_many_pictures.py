"""`image` with many pictures: one file never costs another, and an interrupted run goes on."""

import sys

import cv2
import media
import numpy as np
import pytest

from realtime_lrp.errors import DamagedInputError, InternalError, OutputError, UnavailableError
from realtime_lrp.results.resume import Journal
from realtime_lrp.results.tally import Tally
from realtime_lrp.video import picture_process, untrusted
from realtime_lrp.video.files import PICTURES
from realtime_lrp.video.pictures import first_pages, read_picture
from realtime_lrp.video.untrusted import read_pictures

pytestmark = pytest.mark.usefixtures("light_scripts")


@pytest.fixture
def folders(tmp_path):
    """A folder of inputs with two pictures, and an empty one for outputs."""
    source, target = tmp_path / "in", tmp_path / "out"
    source.mkdir(), target.mkdir()
    for name in ("a.png", "z.png"):
        media.write_picture(source / name, media.plain(size=(40, 40)))
    return source, target


def shown(folder):
    return sorted(path.name for path in folder.glob("[!.]*"))


FAULTY = """
import os, signal, time
from realtime_lrp.video import picture_process, untrusted
read = untrusted.first_pages
def crash(): os.kill(os.getpid(), signal.SIGSEGV)
def killed(): os.kill(os.getpid(), signal.SIGKILL)
def bug(): raise TypeError("odd")
def hangs(): time.sleep(60)
def faulty(path):
    globals().get(path.stem, int)()
    return read(path)
untrusted.first_pages = faulty
picture_process.main()
"""


def test_whatever_a_decoder_does_costs_one_picture(monkeypatch, folders):
    source, _ = folders
    paths = [source / f"{name}.png" for name in ("a", "crash", "killed", "bug", "hangs", "z")]
    command = [sys.executable, "-P", "-c", FAULTY]
    monkeypatch.setattr(picture_process, "module_command", lambda _, *words: [*command, *words])
    outcomes = {}
    for path, outcome in read_pictures(paths):
        outcomes[path] = outcome
        # the next one hangs, in a process that has started
        monkeypatch.setattr(untrusted, "HANGS_S", 0.5 if path.stem == "bug" else 60.0)
    (first,), *failed, (last,) = [outcomes[path] for path in paths]
    assert (first == media.plain(size=(40, 40))).all() and (last == first).all()
    kinds = [DamagedInputError, UnavailableError, InternalError, DamagedInputError]
    assert [type(error) for error in failed] == kinds
    told = ("crash (SIGSEGV)", "killed (SIGKILL)", "unexpected TypeError: odd", "hang: nothing in")
    for path, error, text in zip(paths[1:], failed, told, strict=False):
        assert text in str(error) and path.name in str(error)
    assert "in faulty" in failed[2].__notes__[0], "the child's traceback"


def test_the_worst_failure_decides_the_exit_code(caplog, tmp_path):
    errors = [DamagedInputError("d"), UnavailableError("u"), OutputError("o"), TypeError("t")]
    for count, code in enumerate((65, 69, 73, 70), 1):
        tally = Tally(9, "pictures explained")
        tally.finished = 9 - count
        for error in errors[:count]:
            tally.failed(tmp_path / "x.png", error)
        with pytest.raises(Exception, match=f"{9 - count} of 9 .* {count} failed") as raised:
            tally.raise_worst()
        assert raised.value.exit_code == code
    assert "x.png: d" in caplog.messages and "x.png: unexpected TypeError: t" in caplog.text
    Tally(9, "pictures explained").raise_worst()


def test_bad_pictures_are_named_and_the_rest_is_done(run, words, folders):
    source, target = folders
    (source / "b.jpg").touch()
    whole = (source / "a.png").read_bytes()
    (source / "c.png").write_bytes(whole[: len(whole) // 2])
    (source / "d.webp").write_text("no picture")
    (source / "list.txt").write_text("no picture either")
    code, out, err = run("image", source, "-o", target, *words, "-q")
    assert (code, out) == (65, "") and shown(target) == ["a.png", "z.png"]
    assert all(f"{name}' is no picture" in err for name in ("b.jpg", "c.png", "d.webp"))
    assert "2 of 5 pictures explained, 3 failed: see above." in err and "skipped" not in err
    (source / "a.png").unlink(), (source / "z.png").unlink()
    code, _, err = run("image", source, "-o", target, *words, "--sidecar", "--overwrite")
    assert code == 65 and "0 of 3 pictures explained" in err
    assert "1 skipped in" in err and "(1 .txt)" in err
    assert shown(target) == ["a.png", "z.png"], "no sidecar of nothing"


def test_an_interrupted_folder_goes_on(run, words, folders, monkeypatch):
    source, target = folders
    for name in "bc":
        media.write_picture(source / f"{name}.png", media.plain(size=(40, 40)))
    add = Journal.add

    def interrupted(self, path, manifest):
        add(self, path, manifest)
        if path.name == "c.png":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "add", interrupted)
        code, _, err = run("image", source, "-o", target, *words)
    assert code == 130 and "interrupted: 2 of 4 pictures explained" in err
    made = {path: path.stat().st_mtime_ns for path in target.glob("[!.]*.png")}
    journal = target / ".pictures.resume.jsonl"
    journal.write_bytes(journal.read_bytes()[:-9])  # as if it was killed while it wrote the line
    command = ("image", source, "-o", target, *words, "--resume")
    code, out, err = run(*command)
    assert code == 0 and out.count("finished before") == len(made) == 2, err
    assert all(path.stat().st_mtime_ns == time for path, time in made.items())
    assert shown(target) == ["a.png", "b.png", "c.png", "z.png"]
    (target / "b.png").unlink()
    (target / "c.png").write_bytes(b"edited")
    code, out, err = run(*command)
    assert code == 73 and out.count("finished before") == 2 and "b.png: " in out
    assert "c.png' has changed since it was made. Add --overwrite" in err
    assert (target / "c.png").read_bytes() == b"edited"
    code, out, _ = run(*command, "--overwrite")
    assert code == 0 and out.count("finished before") == 3
    code, _, err = run(*command, "--sidecar")
    assert code == 2 and "--resume does not go with --sidecar" in err


def test_of_several_pages_the_first_is_explained(run, words, tmp_path):
    pages = media.numbered(3, (40, 40))
    path = tmp_path / "scan.tif"
    assert cv2.imwritemulti(str(path), [page[..., ::-1] for page in pages])
    for read, page in zip(first_pages(path), pages[:2], strict=True):
        np.testing.assert_array_equal(read, page)
    code, _, err = run("image", path, "-o", tmp_path / "o.npz", *words)
    assert code == 0 and "scan.tif' holds several pictures, and only the first" in err
    media.write_picture(tmp_path / "page.png", pages[0])
    assert run("image", tmp_path / "page.png", "-o", tmp_path / "p.npz", *words)[0] == 0
    maps = [np.load(tmp_path / name)["relevance"] for name in ("o.npz", "p.npz")]
    np.testing.assert_array_equal(*maps)


@pytest.mark.parametrize("suffix", [s for s in PICTURES if s not in (".jfif", ".j2k", ".apng")])
def test_every_ending_of_the_list_is_read(suffix, tmp_path):
    picture = np.repeat(np.arange(0, 240, 5, np.uint8)[None], 32, 0)
    grey = suffix in (".pgm", ".pbm")
    data = picture if grey else cv2.merge([picture] * 3)
    path = tmp_path / f"x{suffix}"
    assert cv2.imwrite(str(path), data / np.float32(255) if suffix in (".hdr", ".pic") else data)
    read = read_picture(path)
    assert read.shape == (32, 48, 3)
    if suffix != ".pbm":
        assert np.abs(read[..., 0].astype(int) - picture).mean() < 12
    for start in (b"P7\n", b"PF\n", b"Pf\n"):  # red and blue would be swapped, or all nearly black
        path.write_bytes(start + b"1 1\n-1.0\n" + bytes(12))
        with pytest.raises(DamagedInputError, match="no picture"):
            read_picture(path)


def test_an_empty_word_is_wrong_words(run):
    for words in ("image|", "image|x|-o|y|--labels=", "image|x|-o|y|--maps|", "kiosk|--config|"):
        code, out, err = run(*words.split("|"))
        option = [word for word in words.split("|") if word.startswith("-")] or ["INPUT"]
        assert (code, out) == (2, "") and "is a variable of the shell not set? See " in err
        assert option[-1].rstrip("=") in err
