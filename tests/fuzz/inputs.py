"""What damage begins with, and what is no file at all.

A case is known by its kind, its number and the seed: number 0 is the valid input itself.
"""

import io
import json
import os
import random
import resource
import socket
import zipfile
from collections.abc import Callable
from pathlib import Path

import media
import numpy as np

from fuzz.mutations import mutated, mutated_json
from realtime_lrp.video.libraries import cv2

PICTURES = ("png", "jpg", "webp", "bmp", "tiff", "gif")
VIDEOS = ("mp4", "mkv", "avi", "webm", "ts")
DESCRIPTIONS = ("config.json", "scene.npy")
"""Of what is in an archive, more often damaged than the rest."""
NAMES = ["circle", "square", "star", "nothing"]
"""Of the tiny network's four classes."""

TURNED = (
    bytes.fromhex("ffe10022") + b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0"
)
"""A JPEG segment with an EXIF orientation: a quarter turn."""


def picture(kind: str) -> bytes:
    """A small noisy picture of a format."""
    noise = np.random.default_rng(1).integers(0, 255, (40, 48, 3), np.uint8)
    data = cv2.imencode(f".{kind}", cv2.GaussianBlur(noise, (5, 5), 0))[1].tobytes()
    return data[:2] + TURNED + b"\0\0\0\0" + data[2:] if kind == "jpg" else data


def video(kind: str, folder: Path) -> bytes:
    """Eight frames and a tone."""
    path = folder / f"made.{kind}"
    codec, pixels = {"avi": ("mpeg4", "yuv420p"), "webm": ("libvpx-vp9", "yuv420p")}.get(
        kind, ("libx264", "yuv420p")
    )
    sound = {"mkv": "libopus", "webm": "libopus", "avi": "pcm_s16le"}.get(kind, "aac")
    options = {"bf": "2"} if codec == "libx264" else {"g": "4"}
    turned = 90 if kind == "mp4" else 0
    media.recording(path, 8, (40, 48), codec, pixels, sound=sound, rotation=turned, options=options)
    data = path.read_bytes()
    path.unlink()
    return data


def labels(style: int) -> bytes:
    """Names one a line, as a JSON list, or as Keras's class index."""
    index = {str(number): [f"n{number:08d}", name] for number, name in enumerate(NAMES)}
    return ["\n".join(NAMES), json.dumps(NAMES), json.dumps(index)][style].encode()


def mjpeg() -> bytes:
    """What a camera answers: a head, and four pictures."""
    head = (b"HTTP/1.1 200 OK\r\nServer: camera\r\n"
            b"Content-Type: multipart/x-mixed-replace; boundary=frame\r\n\r\n")  # fmt: skip
    one = b""
    for shown in media.numbered(4):
        data = cv2.imencode(".jpg", shown)[1].tobytes()
        size = f"Content-Length: {len(data)}\r\n\r\n".encode()
        one += b"--frame\r\nContent-Type: image/jpeg\r\n" + size + data + b"\r\n"
    return head + one


def network(folder: Path) -> None:
    """Saves a tiny network as tiny.keras, and its weights in both formats of HDF5."""
    import keras

    layers = keras.layers
    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [
            keras.Input((32, 32, 3)),
            layers.Rescaling(1 / 255),
            layers.Conv2D(6, 3, padding="same", activation="relu"),
            layers.BatchNormalization(),
            layers.MaxPooling2D(4),
            layers.Flatten(),
            layers.Dense(len(NAMES), activation="softmax"),
        ],
        name="tiny",
    )
    model.save(folder / "tiny.keras")
    model.save_weights(folder / "tiny.weights.h5")
    model.save(folder / "tiny.h5")


class Cases:
    """The inputs of a seed."""

    def __init__(self, folder: Path, seed: int):
        self._folder, self._seed = folder, seed
        folder.mkdir(exist_ok=True)

    def bytes_of(self, kind: str, number: int) -> bytes:
        """The content of a case."""
        chance = random.Random(f"{self._seed} {kind} {number}")
        if kind == "labels":
            return self._labels(number, chance)
        valid = self._valid(kind)
        if number == 0:
            return valid
        if kind == "keras" and chance.random() < 0.8:
            return _repacked(valid, chance)
        others = [picture("png"), picture("jpg"), labels(1), mjpeg()]
        if kind in (*PICTURES, *VIDEOS):
            others.append(self._valid("mp4" if kind != "mp4" else "avi"))
        return mutated(valid, chance, others)

    def _valid(self, kind: str) -> bytes:
        path = self._folder / f"tiny.{kind}"
        if not path.exists():
            if kind in ("keras", "h5", "weights.h5"):
                network(self._folder)
            else:
                data = (
                    picture(kind)
                    if kind in PICTURES
                    else mjpeg() if kind == "mjpeg" else video(kind, self._folder)
                )  # fmt: skip
                path.write_bytes(data)
        return path.read_bytes()

    def _labels(self, number: int, chance: random.Random) -> bytes:
        style = number % 3
        if number < 3:
            return labels(style)
        if style and chance.random() < 0.6:
            return mutated_json(labels(style).decode(), chance).encode(errors="surrogatepass")
        return mutated(labels(style), chance, [picture("png")])


def _repacked(valid: bytes, chance: random.Random) -> bytes:
    """A whole archive with a file in it that is damaged, missing or too much."""
    archive = zipfile.ZipFile(io.BytesIO(valid))
    files = {name: archive.read(name) for name in archive.namelist()}
    name = chance.choice([*files, *(one for one in files if one in DESCRIPTIONS)])
    files[name] = _damaged(name, files[name], chance)
    if chance.random() < 0.05:
        files.pop(chance.choice(list(files)))
    if chance.random() < 0.05:
        files["../../escaped.txt"] = b"outside"
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", chance.choice([0, 0, 8])) as new:
        for name, data in files.items():
            new.writestr(name, data)
    return made.getvalue()


def _damaged(name: str, data: bytes, chance: random.Random) -> bytes:
    if name.endswith(".json"):
        return mutated_json(data.decode(), chance).encode(errors="surrogatepass")
    if name == "scene.npy":
        changed = io.BytesIO()
        np.save(changed, np.array(mutated_json(str(np.load(io.BytesIO(data))), chance)))
        return changed.getvalue()
    return mutated(data, chance)


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.relpath(path))


def _sparse(path: Path) -> None:
    """64 GiB that take no room; nobody else here may write as much."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (before[1], before[1]))
    with path.open("wb") as file:
        file.truncate(64 << 30)
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _unended(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def _circle(path: Path) -> None:
    path.symlink_to(path.name)


NO_FILES: dict[str, Callable[[Path], None]] = {
    "fifo": _fifo, "folder": Path.mkdir, "socket": _socket, "sparse": _sparse,
    "unended": _unended, "dangling": _dangling, "circle": _circle, "empty": Path.touch,
    "missing": lambda path: None,
}  # fmt: skip
"""What stands in the place of a file, and how it is made."""

ODD_NAMES = (
    b"a\nb", b"\xff\xfe\x80", b"-o", b"--help", b"x" * 245, b"\x1b[31mred\x07", b"[a]*?", b"%03d",
    b"12:30", b"file:a", b" ", b"a'b\"c", "ｆ\u202eü".encode(), b".hidden", b"..dots..", b"~",
    b"$HOME", b"pipe|cat", b"concat:a",
)  # fmt: skip
"""Names of files, without their endings, which hold what they should."""
