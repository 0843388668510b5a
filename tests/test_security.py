"""What a stranger's input, a look over the shoulder and a curious library must not get."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from base64 import b64encode
from pathlib import Path

import media
import numpy as np
import pytest
from faults.server import MjpegServer
from web import sends, serving

from realtime_lrp import config
from realtime_lrp.commands.inspect import run_name
from realtime_lrp.errors import OutputError, UnavailableError, masked
from realtime_lrp.video.cameras import Camera
from realtime_lrp.video.files import outputs_for
from realtime_lrp.video.picture_process import ChildSource
from realtime_lrp.video.sources import open_source

pytestmark = pytest.mark.usefixtures("new_processes")

PACKAGE = Path(__file__).parents[1] / "realtime_lrp"
FILES = sorted(PACKAGE.rglob("*.py"))


def option(call, name):
    return next((ast.unparse(word.value) for word in call.keywords if word.arg == name), None)


def test_nothing_here_can_run_what_it_reads():
    for file, text in ((file, file.read_text()) for file in FILES):
        if not re.search(r"allow_pickle|safe_mode|compile\(|__import__", text):
            continue
        for call in (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call)):
            assert option(call, "allow_pickle") in (None, "False"), (file, call.lineno)
            assert option(call, "safe_mode") in (None, "True"), (file, call.lineno)
            called = getattr(call.func, "id", "")
            assert called not in ("compile", "__import__"), (file, call.lineno)
    assert len(FILES) > 80


SECRETS = ("s3cret", "s3%63ret", "t0ken", b64encode(b"me:s3cret").decode())
"""A password as it is, percent-encoded, in a query, and as the HTTP header has it."""


def secret_in(folder, *texts):
    found = [text for text in texts if any(secret in text for secret in SECRETS)]
    for file in (path for path in folder.rglob("*") if path.is_file()):
        data = file.read_bytes() + str(file).encode()
        if file.suffix == ".npz":
            with np.load(file) as arrays:
                data += b"".join(arrays[name].astype("U").tobytes() for name in arrays
                                 if arrays[name].dtype.kind == "U")  # fmt: skip
            data = data.replace(b"\0", b"")
        found += [str(file) for secret in SECRETS if secret.encode() in data]
    return found


def address(port, user="me:s3cret"):
    """A camera on this machine, with all that may be secret."""
    return f"http://{user}@127.0.0.1:{port}/camera.mjpg?user=me&pwd=t0ken"


def refused(handler):
    handler.send_response(401, "wrong: me:s3cret")
    handler.send_header("WWW-Authenticate", 'Basic realm="me:s3cret"')
    handler.end_headers()


def traced(file, *command):
    """The command with a record of the connections of all its processes, where strace works."""
    strace = shutil.which("strace")
    if (
        strace
        and not subprocess.run([strace, "-o", os.devnull, "true"], capture_output=True).returncode
    ):
        return [strace, "-f", "-qq", "--seccomp-bpf", "-e", "trace=connect,sendto,sendmsg", "-o",
                str(file), *command]  # fmt: skip
    return list(command)


def reached(file):
    """The internet addresses in such a record, or None where there is none."""
    pattern = r'sin_port=htons\((\d+)\), sin_addr=inet_addr\("([\d.]+)"\)|AF_INET6.*'
    if not file.exists():
        return None
    return {found.group(2, 1) for found in re.finditer(pattern, file.read_text())}


def test_what_is_secret_in_a_source_stands_nowhere(run, tiny_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = ("--model", tiny_model, "--preprocess", "tf", "--display", "none", "-vv")
    with MjpegServer(fps=30, size=(120, 160)) as server:
        code, *texts = run(
            "live", "--source", address(server.port), "--set", f"live.sources=['{address(9)}']",
            "--duration", 1, "--record", "film.mkv", "--stats", "stats.json", *model,
        )  # fmt: skip
    assert code == 0, texts
    assert (tmp_path / "film.mkv").stat().st_size > 1000
    assert json.loads((tmp_path / "stats.json").read_text())["maps"] > 0
    assert secret_in(tmp_path, *texts) == []


def test_what_is_secret_in_a_source_that_refuses_stands_nowhere(run, tmp_path, tiny_model):
    words = ("--display", "none", "--model", tiny_model, "--preprocess", "none")
    with serving(refused) as (web, asked):
        for source in (address(web.split(":")[-1], "me:s3%63ret"), address(9)):
            code, *texts = run("live", "--source", source, *words, "-vv")
            assert code == 69
            assert "***@127.0.0.1" in texts[1]
            assert secret_in(tmp_path, *texts) == []
    assert asked


@pytest.mark.parametrize(
    "words",
    [
        ("image", "{}", "-o", "o.png"), ("video", "{}", "-o", "o.mp4"),
        ("image", "p.png", "-o", "o.png", "--model", "shapes", "--labels", "{}"),
        ("live", "--display", "none", "--model", "shapes", "--record", "{}.mkv"),
        ("live", "--display", "none", "--model", "shapes", "--source", "no {}"),
        ("image", "p.png", "-o", "o.png", "--model", "shapes", "--weights", "{}"),
        ("kiosk", "--print-unit", "--source", "{}"),
        ("evaluate", "--images", "{}", "--boxes", "{}"), ("config", "--set", "live.sources=['{}']"),
    ],
    ids=lambda words: " ".join(words[:4]),
)  # fmt: skip
def test_an_address_in_any_place_of_the_command_line_is_masked(run, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    media.write_picture(tmp_path / "p.png", media.plain())
    code, out, err = run(*(word.format(*[address(9)] * 2) for word in words), "-vv")
    assert (code == 0) == (words[0] == "config"), err
    assert secret_in(tmp_path, out, err) == []


ALL = """
import sys
from realtime_lrp.cli import main
for words in {commands!r}:
    sys.argv = ["realtime-lrp", *words]
    try:
        main()
    except SystemExit as ended:
        print(words[0], ended.code, flush=True)
"""

OFFLINE = (
    ("config",), ("models",), ("image", "p.png", "-o", "o.png", "--model", "shapes"),
    ("image", "p.png", "-o", "vgg.png", "--model", "vgg16", "--weights", "random"),
    ("inspect", "p.png", "--logdir", "runs", "--model", "shapes"),
    ("video", "v.mp4", "-o", "o.mp4", "--model", "shapes"),
    ("evaluate", "--count", "1", "--model", "shapes"), ("demo", "-o", "demo.mp4"),
    ("bench", "--quick", "--model", "shapes"),
    ("live", "--source", "synthetic", "--display", "none", "--model", "shapes", "--duration", "2"),
)  # fmt: skip
"""Commands that need no network: all that they need comes with the package."""


@pytest.mark.release
def test_nothing_reaches_out_by_itself(tmp_path):
    media.write_picture(tmp_path / "p.png", media.plain())
    media.write_video(tmp_path / "v.mp4", media.numbered(4))
    trace = tmp_path / "calls"
    command = [sys.executable, "-c", ALL.format(commands=OFFLINE)]
    done = subprocess.run(
        traced(trace, *command), cwd=tmp_path, capture_output=True, text=True, timeout=400,
        env={**os.environ, "DISPLAY": ""},
    )  # fmt: skip
    assert [line for line in done.stdout.splitlines() if re.fullmatch(r"[a-z]+ \d+", line)] == [
        f"{words[0]} 0" for words in OFFLINE
    ], done.stdout + done.stderr
    if reached(trace) is None:
        pytest.skip("strace is not there or not allowed")
    assert reached(trace) == set()


@pytest.mark.parametrize(
    "name",
    ["..png", "...png", ".png", "-o.png", "a\nb.png", "%2e%2e%2fx.png", "~.png", "$HOME.png"],
)
def test_a_name_in_a_folder_stays_in_it(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "out"
    folder.mkdir()
    for source in (Path(name), tmp_path / "in" / ".." / name, Path("/") / name):
        (target,) = outputs_for([source], str(folder), ".mp4", (".mp4",), False)
        assert target.parent == folder
        assert target.resolve().parent == folder.resolve()


@pytest.mark.parametrize("exists", [True, False], ids=["a file", "nothing yet"])
def test_a_link_in_a_folder_does_not_lead_out_of_it(tmp_path, exists):
    folder, outside = tmp_path / "out", tmp_path / "outside.mp4"
    folder.mkdir()
    if exists:
        outside.write_text("precious")
    (folder / "p.mp4").symlink_to(outside)
    picture = media.write_picture(tmp_path / "p.png", media.plain())
    with pytest.raises(OutputError, match="may point anywhere"):
        outputs_for([picture], str(folder), ".mp4", (".mp4",), True)


def test_a_run_stays_in_its_folder(tmp_path):
    far = "../../out"
    options = {"--model": f"{far}/m.keras", "--target": far, "--weights": "/etc/w.h5"}
    layers = "lrp.layers={'/a/*': epsilon(0.5)}"
    chosen = config.load(sets=(layers,), options=options, check=None).config
    for name in ("..png", "...png", "a\nb.png", "\x00.png", "/etc/..", ".."):
        made = tmp_path / run_name(chosen, Path(name))
        assert made.resolve().parent == tmp_path.resolve()
        assert made.name not in ("", ".", "..")
        assert made.name.isprintable()


def test_no_process_takes_modules_from_the_current_folder(run, tiny_model, tmp_path, monkeypatch):
    """A download called json.py is not run, by those that read HDF5, films and cameras."""
    trap = "import pathlib; pathlib.Path(__file__).with_name('ran').touch()"
    for name in ("json", "h5py", "numpy", "msgspec", "runpy", "realtime_lrp"):
        (tmp_path / f"{name}.py").write_text(trap)
    media.recording(tmp_path / "in.mp4", count=3)
    monkeypatch.chdir(tmp_path)
    words = ("--model", tiny_model, "--preprocess", "none")
    assert run("video", "in.mp4", "-o", "out.mp4", *words)[0] == 0
    with pytest.raises(UnavailableError, match="Camera 97 cannot be opened"):
        ChildSource(Camera, [97, {}], threading.Event())
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("way", ["playlist", "redirection"])
def test_a_camera_does_not_say_whom_else_to_ask(way):
    with serving(lambda handler: handler.send_error(404)) as (other, asked_there):
        playlist = f"#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:5,\n{other}/a.ts\n#EXT-X-ENDLIST\n"

        def redirects(handler):
            handler.send_response(302)
            handler.send_header("Location", f"{other}/a.mjpg")
            handler.end_headers()

        answer = redirects if way == "redirection" else sends(playlist.encode())
        refused = pytest.raises(UnavailableError, match="cannot be opened")
        with serving(answer) as (address, asked), refused:
            open_source(f"{address}/camera.mjpg", threading.Event())
        assert asked and not asked_there


def test_what_is_masked():
    for text, shown in (
        ("rtsp://me:s3cret@cam/x failed", "rtsp://***@cam/x failed"),
        ("'http://a:b@h/x?p=a s3cret' (why). Check.", "'http://***@h/x?***' (why). Check."),
        ("rtsp://h/user=admin&password=s3cret&ch=1", "rtsp://h/user=***&password=***&ch=1"),
        ("http://h/a b?pwd=s3cret", "http://h/a b?***"),
        ("http://h/#tok=s3cret", "http://h/#***"),
        ("x://me:s3cret@h", "x://***@h"),
        ("'s3://b/why? #1.mp4': no http://h/?a=s3cret", "'s3://b/why? #1.mp4': no http://h/?***"),
        ("s3://me:s3cret@b/a?token=s3cret", "s3://***@b/a?token=***"),
        ("rtsp://me:s3@cret@cam/x", "rtsp://***@cam/x"),
        ("one\nhttp://me:s3cret@h\nwhy?", "one\nhttp://***@h\nwhy?"),
        ("C:/a@b: is it there?", "C:/a@b: is it there?"),
    ):
        assert masked(text) == shown


def test_masking_a_long_text_ends():
    text = "a" * 21 + ":/"
    assert masked(text * 90_000) == text * 90_000


@pytest.mark.parametrize(
    ("words", "beside", "exists"),
    [
        (("video", "in.mp4", "-o", "out", "--summary"), "in.summary.png", True),
        (("video", "in.mp4", "-o", "out", "--sidecar"), "in.jsonl", False),
        (("image", "a.png", "b.png", "-o", "out", "--sidecar"), "pictures.jsonl", True),
        (("image", "a.png", "-o", "out", "--maps", "out"), "a", True),
    ],
)
def test_companions_follow_no_links(run, tiny_model, tmp_path, monkeypatch, words, beside, exists):
    monkeypatch.chdir(tmp_path)
    media.recording(tmp_path / "in.mp4", count=3)
    for name in ("a.png", "b.png"):
        media.write_picture(tmp_path / name, media.plain())
    (tmp_path / "out").mkdir()
    victim = tmp_path / "victim"
    if exists:
        victim.write_text("precious")
    (tmp_path / "out" / beside).symlink_to(victim)
    code, _, err = run(*words, "--overwrite", "--model", tiny_model, "--preprocess", "none")
    assert code == 73 and "is a link" in err
    assert not exists or victim.read_text() == "precious"
    assert victim.exists() == exists


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("config | true; exit ${PIPESTATUS[0]}", 74),
        pytest.param("--help | true; exit ${PIPESTATUS[0]}", 74, marks=pytest.mark.release),
        pytest.param("image none.png -o o.png 2>/dev/full", 66, marks=pytest.mark.release),
        pytest.param("image none.png -o o.png >&- 2>&-", 66, marks=pytest.mark.release),
    ],
)
def test_exit_codes_hold_where_nobody_listens(line, code):
    words = ["bash", "-c", f"{sys.executable} -m realtime_lrp {line}"]
    assert subprocess.run(words, capture_output=True, timeout=240).returncode == code


def test_ctrl_c_while_it_is_loaded_ends_it_without_a_traceback(tmp_path):
    (tmp_path / "click.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(5)"
    )
    done = subprocess.run(
        [sys.executable, "-m", "realtime_lrp", "models"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, timeout=240,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (-2, b"", b"")
