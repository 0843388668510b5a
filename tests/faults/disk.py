"""A disk that is full: a file system in memory that only a child process sees."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

SIZE = 1 << 20  # bytes of the whole disk


def missing():
    """Why there cannot be such a disk here; "" if there can."""
    try:
        words = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stderr.strip()


def on_a_full_disk(folder, free, commands):
    """Runs commands that write to a disk with this many free bytes."""
    folder.mkdir()
    mount = f'mount -t tmpfs -o size={SIZE} none {folder} && exec "$@"'
    child = [sys.executable, "-c", "from faults.disk import main; main()"]
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", mount, "sh", *child],
        input=json.dumps([str(folder), free, [list(map(str, words)) for words in commands]]),
        capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def main():
    """The child process: runs one command after the other; the network is loaded once."""
    folder, free, commands = json.loads(sys.stdin.read())
    print(json.dumps([_tried(Path(folder), free, words) for words in commands]), flush=True)
    os._exit(0)


def _tried(folder, free, words):
    import tempfile

    from realtime_lrp.cli import main as program

    for left in folder.iterdir():
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    (folder / "filler").write_bytes(bytes(SIZE - free))
    words = [word.replace("DISK", str(folder)) for word in words]
    code, stderr = None, os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        sys.argv = ["realtime-lrp", *words]
        try:
            program()
        except SystemExit as ended:
            code = ended.code
        sys.stderr.flush()
        os.dup2(stderr, 2)
        held.seek(0)
        printed = held.read().decode()
    left = sorted(str(one.relative_to(folder)) for one in folder.rglob("*"))
    return code, printed, [name for name in left if name != "filler"]
