"""A SavedModel gives what its explainer gave, without this package."""

import os
import stat
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from tensorflow.core.protobuf import saved_model_pb2
from test_relevance import largest_difference

from realtime_lrp import COMPOSITES, Explainer, config, rule_named
from realtime_lrp.cli.options import check_files
from realtime_lrp.errors import ConfigError, OutputError, TransferError, UsageError
from realtime_lrp.results.provenance import provenance_of_file

pytestmark = pytest.mark.usefixtures("compiled")

LABELS = ["cup", "tabby  cat", "crane", "café"]
ALONE = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "realtime_lrp":
            raise ImportError(name)

sys.meta_path.insert(0, Missing())
try:
    import realtime_lrp
except ImportError:
    pass
else:
    raise SystemExit("the package is there")

import numpy as np
import tensorflow as tf

folder, given, made = sys.argv[1:]
model = tf.saved_model.load(folder)
own, by_class = model.signatures["serving_default"], model.signatures["explain_class"]
x = np.load(given)["x"]
outputs = {}
for count in (1, 3):
    for name, tensor in own(x=tf.constant(x[:count])).items():
        outputs[f"{name} {count}"] = tensor
classes = tf.constant([3, 0, 2], tf.int32)
for name, tensor in by_class(x=tf.constant(x), target=classes).items():
    outputs[f"{name} of classes"] = tensor
np.savez(made, **{name: tensor.numpy() for name, tensor in outputs.items()})
"""


@pytest.fixture(scope="module")
def model():
    """Plain and grouped convolutions, a layer norm, whose copy holds variables, a dense layer."""
    keras.utils.set_random_seed(7)
    return keras.Sequential(
        [
            keras.Input((16, 16, 3)), layers.Conv2D(8, 3, padding="same", activation="relu"),
            layers.LayerNormalization(), layers.MaxPooling2D(2),
            layers.Conv2D(8, 3, padding="same", groups=2, activation="relu"), layers.Flatten(),
            layers.Dense(4, activation="softmax"),
        ],
        name="small",
    )  # fmt: skip


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    """An explainer of several maps, and the folder that it was exported to."""
    explainer = Explainer(
        model, composite="epsilon_plus_flat", target="top1", also=["smoothgrad", "zplus"],
        samples=2, labels=LABELS,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("export") / "saved"
    explainer.export(folder)
    return explainer, folder


@pytest.fixture(scope="module")
def plain():
    last = layers.Dense(4, activation="softmax")
    return Explainer(keras.Sequential([keras.Input((4, 4, 3)), layers.Flatten(), last]))


@pytest.fixture
def x(rng):
    return rng.normal(size=(3, 16, 16, 3)).astype(np.float32)


def same(got, explanation):
    """Whether the outputs of a signature agree with an explanation to 1e-5 of the largest entry."""
    expected = {
        "scores": explanation.scores, "relevance": explanation.relevance, **explanation.maps
    }  # fmt: skip
    return got.keys() == expected.keys() and all(
        largest_difference(got[name], expected[name]) <= 1e-5 for name in expected
    )


@pytest.mark.release
def test_a_process_without_this_package_gets_the_same_numbers(saved, x, tmp_path):
    explainer, folder = saved
    np.savez(tmp_path / "given.npz", x=x)
    words = [folder, tmp_path / "given.npz", tmp_path / "made.npz"]
    subprocess.run([sys.executable, "-P", "-c", ALONE, *words], check=True)
    file = np.load(tmp_path / "made.npz")
    made = {
        call: {n.removesuffix(call): file[n] for n in file.files if n.endswith(call)}
        for call in (" 1", " 3", " of classes")
    }
    assert same(made[" 1"], explainer(x[:1]))
    assert same(made[" 3"], explainer(x))
    for place, target in enumerate((3, 0, 2)):
        one = {name: values[place : place + 1] for name, values in made[" of classes"].items()}
        assert same(one, explainer(x[place : place + 1], target))


def test_a_saved_model_says_how_it_was_made(saved, model, tmp_path):
    _, folder = saved
    made = provenance_of_file(folder)
    assert (made.model.name, made.method, made.composite) == ("small", "lrp", "epsilon_plus_flat")
    assert (
        made.target == made.settings["lrp.target"] == "top1" and made.settings["lrp.samples"] == 2
    )
    assert [*made.layers.values()] == ["flat", "zplus", "epsilon(1e-06)"]
    custom = Explainer(model, composite=COMPOSITES["zplus"], layers={"Dense": rule_named("flat")})
    for name in ("one", "two"):
        custom.export(tmp_path / name)
    one, two = (provenance_of_file(tmp_path / name) for name in ("one", "two"))
    assert (
        one == two and one.composite == "zplus" and one.settings["lrp.layers"] == {"Dense": "flat"}
    )
    assert one.model.sha256["weights"] != made.model.sha256["weights"]
    with pytest.raises(ConfigError, match="in Python"):
        check_files("saved", one, config.load(config.settings_tree(one.settings, "saved")))


def test_the_graph_holds_public_operations_and_no_weights(saved):
    """It runs wherever TensorFlow does, and its file stays below the limit of 2 GB."""
    _, folder = saved
    graph = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    functions = graph.meta_graphs[0].graph_def.library.function
    nodes = [node for function in functions for node in function.node_def]
    operations = {node.op for node in nodes}
    assert {"Conv2D", "MaxPoolGrad", "ReadVariableOp"} <= operations
    assert not [name for name in operations if name.startswith("_")]
    constants = [node.attr["value"].tensor for node in nodes if node.op == "Const"]
    assert max(len(one.tensor_content) for one in constants) <= 512
    assert not [n.name for n in nodes if n.device and n.name.startswith("explainer/")]


def test_the_target_is_the_explainers_at_that_time(model, x, tmp_path):
    explainer = Explainer(model)
    explainer.set_target("1 - 2")
    explainer.export(tmp_path / "saved")
    explainer.set_target("top1")
    own = tf.saved_model.load(tmp_path / "saved").signatures["serving_default"]
    got = {name: tensor.numpy() for name, tensor in own(x=tf.constant(x)).items()}
    assert same(got, explainer(x, "1 - 2"))


def test_a_class_that_is_not_there_is_refused(saved, x):
    by_class = tf.saved_model.load(saved[1]).signatures["explain_class"]
    for index in (-1, 4):
        with pytest.raises(tf.errors.InvalidArgumentError, match="There is no such class"):
            by_class(x=tf.constant(x[:1]), target=tf.constant([index]))
    for count, classes in ((1, [0, 1, 2]), (3, [1])):
        with pytest.raises(tf.errors.InvalidArgumentError, match="a class for each picture"):
            by_class(x=tf.constant(x[:count]), target=tf.constant(classes))


def test_the_folder_is_new_or_empty(plain, tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("new", "empty"):
        plain.export(str(tmp_path / name))
    assert sorted(os.listdir(tmp_path)) == ["empty", "new"]
    (tmp_path / "other").mkdir()
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("new", "empty", "other")}
    assert len(modes) == 1
    (tmp_path / "file").write_text("mine")
    for name, told in (("new", "which this command does not replace"), ("file", "is a file")):
        with pytest.raises(OutputError, match=told):
            plain.export(tmp_path / name)
    with pytest.raises(OutputError, match="cannot be made"):
        plain.export(tmp_path / "missing" / "deeper" / "saved")
    assert (tmp_path / "file").read_text() == "mine"
    for name in ("", "a\0b", b"bytes"):
        with pytest.raises(UsageError, match="Expected the name of a folder"):
            plain.export(name)


def test_nothing_half_written_gets_the_name(plain, tmp_path, monkeypatch):
    def fail(module, folder, signatures):
        open(os.path.join(folder, "saved_model.pb"), "w").close()
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    (tmp_path / "saved").mkdir()
    monkeypatch.setattr(tf.saved_model, "save", fail)
    with pytest.raises(TransferError, match="No space left on device"):
        plain.export(tmp_path / "saved")
    assert os.listdir(tmp_path) == ["saved"]
    assert not os.listdir(tmp_path / "saved")
