"""What tests share. OpenCV comes before PyAV here, as it does in the package."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import cv2  # noqa: F401
import keras
import numpy as np
import pytest
from keras import layers


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers, the same in every run."""
    return np.random.default_rng(20)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """A saved network of random weights: 32 x 32 pictures, four classes."""
    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [
            keras.Input((32, 32, 3)),
            layers.Conv2D(6, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(4),
            layers.Flatten(),
            layers.Dense(4, activation="softmax"),
        ],
        name="tiny",
    )
    path = tmp_path_factory.mktemp("model") / "tiny.keras"
    model.save(path)
    return path


@pytest.fixture
def run(monkeypatch, capfd):
    """Runs a command in this process; gives (exit code, stdout, stderr)."""
    from realtime_lrp.cli import main

    def run_command(*words):
        monkeypatch.setattr("sys.argv", ["realtime-lrp", *map(str, words)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        return (ended.value.code, *capfd.readouterr())

    return run_command
