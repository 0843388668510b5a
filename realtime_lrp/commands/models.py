"""`realtime-lrp models`: lists the networks that --model knows by name, and what else it takes."""

from realtime_lrp.models.names import NETWORKS

OTHERS = {
    "FILE.keras": "a file that model.save('name.keras') wrote",
    "FOLDER": "a SavedModel, as model.export(folder) writes it",
    "hub:NAME": "an image classifier of KerasHub, such as hub:vit_base_patch16_224_imagenet",
    "hub:FOLDER": "one that classifier.save_to_preset(folder) of KerasHub wrote",
}


def run() -> list[str]:
    """One line for each network."""
    rows = {name: network.description for name, network in NETWORKS.items()} | OTHERS
    width = max(map(len, rows))
    return [f"{name:{width}} {description}" for name, description in rows.items()]
