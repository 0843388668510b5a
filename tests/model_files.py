"""Small models, and archives whose members are changed, for tests of model files."""

import zipfile

import keras
from keras import layers


def members(path):
    """What an archive holds, by name."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archived(path, contents, packing=zipfile.ZIP_STORED):
    """Writes an archive of (name, data) pairs or a dictionary."""
    pairs = contents.items() if isinstance(contents, dict) else contents
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, data in pairs:
            archive.writestr(name, data)
    return path


def dense(units=2, inputs=3):
    """A network of one Dense layer, `d`."""
    return keras.Sequential([keras.Input((inputs,)), layers.Dense(units, name="d")], name="net")


def serialise(one):
    """What Keras writes of a layer."""
    return keras.saving.serialize_keras_object(one)
