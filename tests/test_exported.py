"""An exported explanation runs in the commands without TensorFlow, and gives the same maps."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest

from realtime_lrp.commands.export.run import make
from realtime_lrp.config import Config
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.exported import ExportedEngine
from realtime_lrp.errors import DamagedInputError, UnavailableError, UsageError
from realtime_lrp.export.file import exported, pictures
from realtime_lrp.models.networks import load_network
from realtime_lrp.relevance.maps.scale import strength_of
from realtime_lrp.relevance.maps.strength import strength

BLOCKED = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tensorflow", "keras", "h5py", "onnx"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Missing())
from realtime_lrp.cli import cli
for words in sys.argv[1].split(";"):
    cli.main(words.split(), standalone_mode=False)
"""


@pytest.fixture(scope="module")
def engine():
    return Engine(Config().changed(model={"name": "shapes"}, lrp={"composite": "epsilon_plus"}))


@pytest.fixture(scope="module")
def file(engine, tmp_path_factory):
    path = tmp_path_factory.mktemp("exported") / "shapes.onnx"
    path.write_bytes(exported(engine, fixed=False)[0])
    return path


def config_of(file, **changes):
    return Config().changed(model={"name": str(file)}, **changes)


def test_the_commands_run_without_tensorflow(file, engine, tmp_path):
    """image, video, live and kiosk with TensorFlow, Keras, h5py and onnx blocked."""
    picture = pictures()[0]
    cv2.imwrite(str(tmp_path / "in.png"), picture[..., ::-1])
    live = "--source synthetic --display none --duration 0.2"
    words = [
        f"image in.png -o out.npz --model {file} --target top1",
        f"live {live} --stats live.json --model {file}",
        f"kiosk {live} --stats kiosk.json --model {file}",
        f"video in.mkv -o out.mp4 --model {file}",
    ]
    film = cv2.VideoWriter(str(tmp_path / "in.mkv"), cv2.VideoWriter.fourcc(*"MJPG"), 5, (64, 48))
    for _ in range(3):
        film.write(np.full((48, 64, 3), 90, np.uint8))
    film.release()
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, ";".join(words)],
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for name in ("live.json", "kiosk.json"):
        assert json.loads((tmp_path / name).read_text())["maps"] > 0
    assert (tmp_path / "out.mp4").stat().st_size
    (expected,) = engine.explain([picture], ["top1"])
    with np.load(tmp_path / "out.npz") as made:
        np.testing.assert_allclose(made["scores"], expected.scores, atol=1e-5)
        summed = expected.relevance.sum(-1)
        np.testing.assert_allclose(
            made["relevance"].sum(-1), summed, atol=1e-4 * np.abs(summed).max()
        )


@pytest.mark.parametrize("target", ["all", "top1", "top3", 4, "4 - 2", "4 - rest"])
def test_every_target_gives_the_engines_result(file, engine, target):
    """Map, strength, account and what is explained are those of the engine with TensorFlow."""
    picture = pictures()[1]
    (ours,) = ExportedEngine(config_of(file)).explain([picture], [target])
    (theirs,) = engine.explain([picture], [target])
    one, other = ours.maps[0], theirs.maps[0]
    np.testing.assert_allclose(
        one.relevance[..., 0], other.relevance.sum(-1), atol=1e-4 * np.abs(other.relevance).max()
    )
    assert np.abs(one.strength.astype(int) - other.strength).max() <= 1
    for name in ("scale", "total", "magnitude", "started", "started_magnitude", "taken_by_biases"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-3, abs=1e-5), name
    assert ours.explained == pytest.approx(theirs.explained, abs=1e-5)
    assert (ours.region, one.signed, one.name) == (theirs.region, other.signed, other.name)


@pytest.mark.parametrize("stride", [(1, 1), (2, 2), (3, 4)])
def test_strength_of_arrays_is_that_of_compiled_functions(stride):
    """The same bytes and the same scale, give or take rounding."""
    relevance = np.random.default_rng(1).normal(size=(21, 24)).astype(np.float32)
    ours, scale = strength_of(relevance, stride)
    theirs, expected = strength(relevance[None, ..., None], stride=stride)
    assert np.abs(ours.astype(int) - theirs[0].numpy()).max() <= 1
    assert scale == pytest.approx(float(expected[0]), rel=1e-5)
    assert not strength_of(0 * relevance, stride)[0].any()


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"lrp": {"composite": "zplus"}}, "zplus"),
        ({"lrp": {"method": "gradient"}}, "gradient"),
        ({"overlay": {"map": "rgb"}}, "colours"),
    ],
)
def test_what_needs_the_network_says_so(file, changes, word):
    """In one sentence that names what was asked for."""
    with pytest.raises(UsageError, match=f"{word}.* needs the network itself"):
        ExportedEngine(config_of(file, **changes))


def test_other_commands_ask_for_the_network(file, tmp_path):
    """The network's loader knows such a file; a damaged one is named."""
    with pytest.raises(UsageError, match="network itself"):
        load_network(str(file))
    damaged = tmp_path / "a.onnx"
    damaged.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(DamagedInputError, match="damaged"):
        ExportedEngine(config_of(damaged))


def test_the_documented_program_computes_the_same(file, engine, tmp_path, monkeypatch):
    """The lines of Python in the documents, on a frame of the included clip."""
    document = Path(__file__).parents[1] / "docs" / "anywhere.md"
    code = re.search(r"```python\n(.*?)```", document.read_text(), re.S)[1]
    picture = pictures()[1][:, 80:560]
    cv2.imwrite(str(tmp_path / "heart.jpg"), picture[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 100])
    shutil.copy(file, tmp_path / "shapes.onnx")
    monkeypatch.chdir(tmp_path)
    found = {}
    exec(code, found)
    (expected,) = engine.explain([picture], ["top1"])
    np.testing.assert_allclose(found["scores"][0], expected.scores, atol=0.01)
    maps = found["relevance"].ravel(), expected.relevance.sum(-1).ravel()
    assert np.corrcoef(*maps)[0, 1] > 0.99


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("size", "[64, 64]"),
        ("classes", "7"),
        ("labels", '["a"]'),
        ("fit", "other"),
        ("target", "3"),
        ("map", "{}"),
    ],
)
def test_metadata_that_are_not_true_of_the_file_are_refused(file, tmp_path, name, text):
    """Each entry is checked against its type and the graph."""
    model = onnx.load(file)
    (entry,) = (one for one in model.metadata_props if one.key == name)
    entry.value = text
    onnx.save(model, tmp_path / "a.onnx")
    with pytest.raises(DamagedInputError, match="metadata"):
        ExportedEngine(config_of(tmp_path / "a.onnx"))


def test_a_missing_library_is_named_before_anything_is_made(monkeypatch):
    """Of the two that an export needs the runtime is used last."""
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UnavailableError, match=r"needs onnxruntime.*realtime-lrp\[export\]"):
        make(Config(), False)
