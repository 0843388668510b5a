"""Damaged files for each reader: `python -m fuzz.files KIND COUNT SEED` prints numbers."""

import faulthandler
import io
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import threading
import zipfile
from pathlib import Path

import h5py
import media
import numpy as np
from keras2_files import archive, layer, pictures, sequential
from onnx_files import convolutional, convolutional_file

from fuzz.damage import mutated, mutated_json
from fuzz.streams import serving
from realtime_lrp.errors import Error
from realtime_lrp.models.labels import read_labels
from realtime_lrp.video.libraries import cv2
from realtime_lrp.video.pictures import read_picture
from realtime_lrp.video.reader import VideoReader
from realtime_lrp.video.streams import Stream

HANGS_S = 20.0  # how long a file may take
MORE_MEMORY = 4 << 30  # address space besides what the libraries take
PICTURES = ("png", "jpg", "webp", "bmp", "tiff", "gif")
VIDEOS = ("mp4", "mkv", "avi", "webm", "ts")
WHOLE = ("keras", "hdf5", "keras2")
NETWORKS = (*WHOLE, "weights.h5", "h5")
KINDS = (*PICTURES, *VIDEOS, *NETWORKS, "onnx", "labels", "mjpeg")
MOST_PICTURES = 2000
NAMES = ["circle", "square", "star", "nothing"]  # of the tiny network's four classes

TURNED = (
    bytes.fromhex("ffe10022") + b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0"
)  # a JPEG segment with an EXIF orientation: a quarter turn


def picture(kind: str) -> bytes:
    noise = np.random.default_rng(1).integers(0, 255, (40, 48, 3), np.uint8)
    data = cv2.imencode(f".{kind}", cv2.GaussianBlur(noise, (5, 5), 0))[1].tobytes()
    return data[:2] + TURNED + b"\0\0\0\0" + data[2:] if kind == "jpg" else data


def video(kind: str, folder: Path) -> bytes:
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


def network(folder: Path):
    """Saves a tiny network as tiny.keras, and its weights in both formats of HDF5."""
    import keras

    layers = keras.layers
    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [
            keras.Input((32, 32, 3)), layers.Rescaling(1 / 255),
            layers.Conv2D(6, 3, padding="same", activation="relu"), layers.BatchNormalization(),
            layers.MaxPooling2D(4), layers.Flatten(),
            layers.Dense(len(NAMES), activation="softmax"),
        ],
        name="tiny",
    )  # fmt: skip
    model.save(folder / "tiny.h5")
    model.save(folder / "tiny.hdf5")
    described = sequential(
        pictures(8, 8, 3), layer("Conv2D", "c", filters=2, kernel_size=[3, 3]), layer("ReLU", "r")
    )
    weights = {f"layers/conv2d/vars/{n}": np.zeros(s) for n, s in enumerate([(3, 3, 3, 2), (2,)])}
    archive(folder / "tiny.keras", described, weights).rename(folder / "tiny.keras2")
    model.save(folder / "tiny.keras")
    model.save_weights(folder / "tiny.weights.h5")  # the archive above has used this name
    return model


class Cases:
    """The files of a kind and a seed: number 0 is the valid one."""

    def __init__(self, kind: str, seed: int, folder: Path):
        self._kind, self._seed, self.model = kind, seed, None
        if kind in NETWORKS:
            self.model = network(folder)
            self._valid = (folder / f"tiny.{kind}").read_bytes()
        elif kind == "onnx":
            weights = convolutional(np.random.default_rng(3))
            self._valid = Path(convolutional_file(folder / "tiny.onnx", weights)).read_bytes()
        elif kind == "mjpeg":
            self._valid = mjpeg()
        elif kind != "labels":
            self._valid = picture(kind) if kind in PICTURES else video(kind, folder)

    def __call__(self, number: int) -> bytes:
        chance = random.Random(f"{self._seed} {self._kind} {number}")
        if self._kind == "labels":
            valid = labels(number % 3)
            if number > 2 and number % 3 and chance.random() < 0.6:
                return mutated_json(valid.decode(), chance).encode(errors="surrogatepass")
            return valid if number < 3 else mutated(valid, chance, [picture("png")])
        if number == 0:
            return self._valid
        if self._kind in ("keras", "keras2") and chance.random() < 0.8:
            return _repacked(self._valid, chance)
        if self._kind == "hdf5" and chance.random() < 0.6:
            return _described_anew(self._valid, chance)
        return mutated(self._valid, chance, [picture("png"), picture("jpg"), labels(1), mjpeg()])


def _repacked(valid: bytes, chance: random.Random) -> bytes:
    """A whole archive with a file in it that is damaged, missing or too much."""
    archive = zipfile.ZipFile(io.BytesIO(valid))
    files = {name: archive.read(name) for name in archive.namelist()}
    name = chance.choice([*files, "config.json"])
    if name.endswith(".json"):
        files[name] = mutated_json(files[name].decode(), chance).encode(errors="surrogatepass")
    else:
        files[name] = mutated(files[name], chance)
    if chance.random() < 0.05:
        files.pop(chance.choice(list(files)))
    if chance.random() < 0.05:
        files["../../escaped.txt"] = b"outside"
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", chance.choice([0, 0, 8])) as new:
        for name, data in files.items():
            new.writestr(name, data)
    return made.getvalue()


def _described_anew(valid: bytes, chance: random.Random) -> bytes:
    """A whole HDF5 file with a damaged description."""
    held = io.BytesIO(valid)
    with h5py.File(held, "r+") as file:
        text = mutated_json(file.attrs["model_config"], chance)
        file.attrs["model_config"] = text.encode(errors="replace")
    return held.getvalue()


def reader_of(kind: str, model):
    if kind in NETWORKS:
        from realtime_lrp.models.untrusted.loading import load_model, load_weights

        return load_model if kind in WHOLE else lambda path: load_weights(model, path)
    if kind == "onnx":
        from realtime_lrp.models.onnx.reading import load_onnx

        return lambda path: load_onnx(path, None, None)
    if kind == "labels":
        return read_labels
    if kind == "mjpeg":
        return _streamed
    return read_picture if kind in PICTURES else _read


def _read(path: Path) -> None:
    with VideoReader(path) as reader:
        for count, _ in enumerate(reader.items(reader.sound)):
            assert count < MOST_PICTURES


def _streamed(path: Path) -> None:
    with serving(path.read_bytes()) as server, Stream(server.url, threading.Event()) as source:
        assert any(source.read() is None for _ in range(MOST_PICTURES))


def main(kind: str, count: int, seed: int) -> None:
    """Tries files; prints each number before, and at the end how many were taken and refused."""
    with tempfile.TemporaryDirectory() as folder:
        cases = Cases(kind, seed, Path(folder))
        read, path, ends = reader_of(kind, cases.model), Path(folder, f"input.{kind}"), [0, 0]
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + MORE_MEMORY
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for number in range(count):
            path.write_bytes(cases(number))
            print(number, flush=True)
            faulthandler.dump_traceback_later(HANGS_S, exit=True)
            try:
                read(path)
                ends[0] += 1
            except Error as error:
                assert len(str(error).splitlines()) <= 2
                ends[1] += 1
            faulthandler.cancel_dump_traceback_later()
            if number == 0:  # what libraries open once is open from now on
                opened = len(os.listdir("/proc/self/fd"))
                resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            assert len(os.listdir("/proc/self/fd")) <= opened + 2, os.listdir("/proc/self/fd")
    print(json.dumps(ends), flush=True)
    os._exit(0)  # decoder threads of a damaged file may never end


def tried(kind: str, count: int, seed: int) -> tuple[int, int]:
    """How many files were taken and refused, by a process of its own."""
    words = [sys.executable, "-m", "fuzz.files", kind, str(count), str(seed)]
    variables = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        words, cwd=Path(__file__).parents[1], env=variables, capture_output=True, text=True
    )
    last = done.stdout.splitlines()[-1:]
    assert done.returncode == 0, f"{kind}, {last} of seed {seed}: {done.stderr[-3000:]}"
    return tuple(json.loads(last[0]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
