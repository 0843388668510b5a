"""Exports networks with random weights by PyTorch, in a process of its own.

`python exporting.py NAME EXPORTER OPSET FILE` writes FILE.onnx, and FILE.npz with pictures, their
scores by onnxruntime, and PyTorch's gradients of the second one, in float64. Of a name in `SMALL`,
FILE.npz has zennit's maps of the second score by the names of its composites instead.
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
    if library == "small":
        model = SMALL[name][0]()
    elif library == "timm":
        model = timm.create_model(name, pretrained=False)
    else:
        model = getattr(torchvision.models, name)(weights=None)
    for layer in model.modules():
        if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm):
            layer.running_mean.normal_(0, 0.1)
            layer.running_var.uniform_(0.5, 1.5)
    return model.eval()


def residual():
    """Blocks with residual connections, as torchvision makes ResNets of.

    The border of its max pool, -inf there and 0 here, would get what deconvnet hands to zeros.
    """
    block = torchvision.models.resnet.BasicBlock
    model = torchvision.models.ResNet(block, [1, 1, 1, 1], num_classes=10)
    model.maxpool.padding = 0
    return model


def grouped():
    """Groups, strides, both kinds of pools, batch norms and hidden dense layers."""
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1, groups=2, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 16, 3, stride=2, padding=1, groups=16), nn.ReLU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip


def plain():
    """Convolutions with batch norms and overlapping max pools."""
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 12, 5, stride=2), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(12, 12, 3), nn.ReLU(), nn.Conv2d(12, 16, 1), nn.ReLU(), nn.Flatten(),
        nn.Linear(256, 10),
    )  # fmt: skip


SMALL = {
    "residual": (residual, "ResNetCanonizer"),
    "grouped": (grouped, "SequentialMergeBatchNorm"),
    "plain": (plain, "SequentialMergeBatchNorm"),
}  # name -> how to make a network, and zennit's canonizer for it


def write_maps(model, canonizer, file):
    """Writes pictures and zennit's maps of the second score."""
    from zennit import attribution, canonizers, composites
    from zennit import torchvision as for_torchvision

    x = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(1)).clamp(-3, 3)
    options = {
        "epsilon_gamma_box": {"low": torch.full_like(x, -3), "high": torch.full_like(x, 3)},
        "excitation_backprop": {"zero_params": ["bias"]},  # as in its paper
    }
    kind = getattr(canonizers, canonizer, None) or getattr(for_torchvision, canonizer)
    made, second = {"x": x.numpy()}, torch.eye(10)[[1]]
    for name, composite in composites.COMPOSITES.items():
        rules = composite(canonizers=[kind()], **options.get(name, {}))
        # rules start at the logit, methods at 1
        start = [torch.ones_like, torch.clone]["epsilon" in name]
        with attribution.Gradient(model, rules) as attributor:
            made[name] = attributor(x, lambda out, start=start: start(out) * second)[1].numpy()
    np.savez(f"{file}.npz", **made)


def main(name, exporter, opset, file):
    """Exports a network and writes what it computes."""
    model = network(name)
    size = 32 if name.startswith("small.") else 224
    x = torch.randn(8, 3, size, size, generator=torch.Generator().manual_seed(1))
    torch.onnx.export(
        model, (x[:1],), f"{file}.onnx", opset_version=int(opset), dynamo=exporter == "dynamo",
        input_names=["x"],
    )  # fmt: skip
    if name.startswith("small."):
        return write_maps(model, SMALL[name.split(".")[1]][1], file)
    session, gradients = onnxruntime.InferenceSession(f"{file}.onnx"), []
    scores = [session.run(None, {"x": one.numpy()})[0] for one in x.split(1)]
    model.double()
    for one in x.double().split(1):
        exact = one.requires_grad_(True)
        model(exact)[:, 1].sum().backward()
        gradients.append(exact.grad.numpy())
    np.savez(f"{file}.npz", x=x.numpy(), scores=np.concatenate(scores),
             gradients=np.concatenate(gradients))  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
