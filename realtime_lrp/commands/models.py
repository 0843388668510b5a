"""`models`: lists the networks that --model takes, and how quick `bench` found them here."""

from realtime_lrp.engine.measured import pace_of
from realtime_lrp.models.names import NETWORKS, present_networks

OTHERS = {
    "FILE.keras": "a file that model.save('name.keras') wrote; FILE.h5 too, of Keras 3 and 2",
    "FILE.onnx": "a network of PyTorch and others, as torch.onnx.export writes it",
    "FILE.tflite": "a network of TensorFlow Lite, quantised or not",
    "FOLDER": "a SavedModel, as model.export(folder) writes it",
    "hub:NAME": "a network of KerasHub, such as hub:vit_base_patch16_224_imagenet",
    "hub:FOLDER": "one that classifier.save_to_preset(folder) of KerasHub wrote",
}


def run() -> list[str]:
    """One line for each network."""
    rows = {name: network.description for name, network in NETWORKS.items()} | OTHERS
    for name in present_networks():
        if pace := pace_of(name):
            rows[name] += f"; {pace.best:.0f} maps a second here"
    width = max(map(len, rows))
    return [f"{name:{width}} {description}" for name, description in rows.items()]
