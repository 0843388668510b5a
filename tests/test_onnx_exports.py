"""Networks of torchvision and timm with random weights, exported by PyTorch.

The environment variable TORCH_PYTHON names a Python that has torch, torchvision, timm, zennit,
onnxscript and onnxruntime.
"""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from realtime_lrp import Explainer, load_network

PYTHON = os.environ.get("TORCH_PYTHON", "")
pytestmark = [
    pytest.mark.release,
    pytest.mark.skipif(not PYTHON, reason="TORCH_PYTHON names no Python with PyTorch"),
]

NETWORKS = (
    *(f"torchvision.{name}" for name in (
        "resnet18", "vgg11", "mobilenet_v3_small", "efficientnet_b0", "convnext_tiny",
        "densenet121", "regnet_y_400mf", "swin_t",
    )),
    "timm.vit_tiny_patch16_224", "timm.deit_tiny_patch16_224",
)  # fmt: skip


@pytest.mark.parametrize(("exporter", "opset"), [("torchscript", 14), ("dynamo", 18)])
@pytest.mark.parametrize("name", NETWORKS)
def test_an_export_has_pytorchs_scores_and_gradients(tmp_path, name, exporter, opset):
    """Scores as onnxruntime's to 1e-4 of the largest, gradients as PyTorch's to 1e-3 of their norm.

    PyTorch's gradients are those of float64. Float32 leaves ReLUs near 0 and nearly equal entries
    of max pools on the wrong side, which moves whole parts of a gradient: that of DenseNet-121 is
    up to 5e-3 off then, PyTorch's own float32 3e-3; in float64 a picture changed by 1e-6 moves it
    by 4e-3. Where nothing switches it agrees to 1e-6. So the best of eight pictures counts; a
    wrong gradient is wrong on each of them.
    """
    words = [PYTHON, Path(__file__).with_name("exporting.py"), name, exporter, str(opset)]
    subprocess.run([*words, tmp_path / "net"], check=True, capture_output=True)
    made = np.load(tmp_path / "net.npz")
    x, gradients = (made[key].transpose(0, 2, 3, 1) for key in ("x", "gradients"))
    network = load_network(str(tmp_path / "net.onnx"))
    atol = 1e-4 * np.abs(made["scores"]).max()
    np.testing.assert_allclose(network.model(x), made["scores"], rtol=0, atol=atol)
    explainer = Explainer(network, method="gradient", target=1, output_activation="linear")
    off = np.linalg.norm((explainer(x).relevance - gradients).reshape(8, -1), axis=1)
    off /= np.linalg.norm(gradients.reshape(8, -1), axis=1)
    assert off.min() < 1e-3 and off.max() < 1e-2, off


@pytest.mark.parametrize("name", ["residual", "grouped", "plain"])
def test_an_export_has_zennits_maps(tmp_path, name):
    """Every composite of zennit's, for three pictures: to 2e-4 of the largest entry."""
    words = [PYTHON, Path(__file__).with_name("exporting.py"), f"small.{name}", "torchscript", "14"]
    subprocess.run([*words, tmp_path / "net"], check=True, capture_output=True)
    made = dict(np.load(tmp_path / "net.npz"))
    made.pop("beta_smooth")  # the only one that is not here
    x = made.pop("x").transpose(0, 2, 3, 1)
    network = load_network(str(tmp_path / "net.onnx"), preprocess="none")
    explainer = Explainer(
        network, also=list(made), target=1, start="logit", low=-3.0, high=3.0,
        output_activation="linear",
    )  # fmt: skip
    maps = explainer(x).maps
    assert len(made) == 8
    for kind, expected in made.items():
        expected = expected.transpose(0, 2, 3, 1)
        for one, other in zip(maps[kind], expected, strict=True):
            np.testing.assert_allclose(one, other, atol=2e-4 * np.abs(other).max(), err_msg=kind)
