"""Exports networks with random weights by PyTorch, in a process of its own.

`python exporting.py NAME EXPORTER OPSET FILE` writes FILE.onnx, and FILE.npz with a picture, the
scores by onnxruntime, and PyTorch's gradient of the second one.
"""

import sys

import numpy as np
import onnxruntime
import timm
import torch
import torchvision


def network(name):
    """A network whose weights and statistics are all random."""
    torch.manual_seed(0)
    library, name = name.split(".")
    if library == "timm":
        model = timm.create_model(name, pretrained=False)
    else:
        model = getattr(torchvision.models, name)(weights=None)
    for layer in model.modules():
        if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm):
            layer.running_mean.normal_(0, 0.1)
            layer.running_var.uniform_(0.5, 1.5)
    return model.eval()


def main(name, exporter, opset, file):
    """Exports a network and writes what it computes."""
    model = network(name)
    x = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(1))
    torch.onnx.export(
        model, (x,), f"{file}.onnx", opset_version=int(opset), dynamo=exporter == "dynamo",
        input_names=["x"],
    )  # fmt: skip
    x.requires_grad_(True)
    model(x)[:, 1].sum().backward()
    picture = x.detach().numpy()
    (scores,) = onnxruntime.InferenceSession(f"{file}.onnx").run(None, {"x": picture})
    np.savez(f"{file}.npz", x=picture, scores=scores, gradient=x.grad.numpy())


if __name__ == "__main__":
    main(*sys.argv[1:])
