"""Weight files from other people: what is refused, what fits, and what is never computed."""

import copy
import json
import re

import h5py
import keras
import numpy as np
import psutil
import pytest
import tensorflow as tf
from keras import layers
from keras2_files import archive, function, functional, hdf5, layer, pictures, read, sequential
from model_files import archived, dense, members
from naive import assert_near
from test_model_files import FORBIDDEN, guarded  # noqa: F401

from realtime_lrp import Explainer
from realtime_lrp.errors import DamagedInputError, UnavailableError, UsageError
from realtime_lrp.models import memory
from realtime_lrp.models.networks import load_network
from realtime_lrp.models.untrusted import loading
from realtime_lrp.models.untrusted.loading import load_model, load_weights


def virtual(file, name):
    layout = h5py.VirtualLayout((3, 2), "f4")
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", (3, 2))
    file.create_virtual_dataset(name, layout)


HOSTILE = {
    "an external link": lambda file, name: file.__setitem__(name, h5py.ExternalLink("/x.h5", "/d")),
    "a soft link": lambda file, name: file.__setitem__(name, h5py.SoftLink("/layers/dense/vars/1")),
    "external storage": lambda file, name: file.create_dataset(
        name, (3, 2), "f4", external=[("/etc/passwd", 0, 24)]
    ),
    "virtual data": virtual,
    "text": lambda file, name: file.create_dataset(name, data=np.array(["a"] * 6, "S5")),
    "references": lambda file, name: file.create_dataset(name, (3, 2), h5py.ref_dtype),
    "a claim of 4 TB": lambda file, name: file.create_dataset(name, (10**6, 10**6), "f4"),
    "a packed claim": lambda file, name: file.create_dataset(
        name, (10**5, 10**5), "f4", chunks=(1000, 1000), compression="gzip"
    ),
    "two claims that are small": lambda file, name: (
        [file.create_dataset(one, (10**7,), "f4") for one in ("one", "two")]
        and file.create_dataset(name, (3, 2), "f4")
    ),
    "another shape": lambda file, name: file.create_dataset(name, (2, 3), "f4"),
    "a group": lambda file, name: file.create_group(name),
    "nothing": lambda file, name: None,
}


@pytest.mark.parametrize(("kind", "wrapped"), [
    *((kind, False) for kind in HOSTILE), ("external storage", True), ("another shape", True),
])  # fmt: skip
def test_hostile_weights_are_refused(tmp_path, temporary_folder, kind, wrapped):
    path = tmp_path / "w.weights.h5"
    dense().save_weights(path)
    with h5py.File(path, "r+") as file:
        del file["layers/dense/vars/0"]
        HOSTILE[kind](file, "layers/dense/vars/0")
    used = psutil.Process().memory_info().rss
    if wrapped:
        dense().save(tmp_path / "m.keras")
        content = {**members(tmp_path / "m.keras"), "model.weights.h5": path.read_bytes()}
        with pytest.raises(DamagedInputError, match=r"m\.keras"):
            load_model(archived(tmp_path / "m.keras", content))
    else:
        with pytest.raises(DamagedInputError, match=r"w\.weights\.h5"):
            load_weights(dense(), path)
    assert psutil.Process().memory_info().rss - used < 64 << 20


def test_groups_that_hold_each_other_do_not_hang(tmp_path):
    path = tmp_path / "w.weights.h5"
    dense().save_weights(path)
    with h5py.File(path, "r+") as file:
        file["layers/dense/again"] = file["layers"]
    load_weights(dense(), path)


def test_single_whole_numbers_are_read(tmp_path):
    adapted = layers.Normalization()
    adapted.adapt(np.random.default_rng(0).random((8, 4, 4, 3), np.float32))
    model = keras.Sequential([keras.Input((4, 4, 3)), adapted, layers.Flatten(), layers.Dense(2)])
    model.save(path := tmp_path / "adapted.keras")
    for before, after in zip(model.get_weights(), load_model(path).get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)


def test_weights_that_do_not_fit_are_refused(tiny_model, tmp_path):
    (tmp_path / "bad.h5").write_bytes(b"nothing")
    with pytest.raises(DamagedInputError, match=r"bad\.h5"):
        load_network(str(tiny_model), str(tmp_path / "bad.h5"), preprocess="tf")
    with pytest.raises(UnavailableError, match="no weights"):
        load_network(str(tiny_model), str(tmp_path / "none.h5"), preprocess="tf")
    with pytest.raises(UsageError, match="imagenet"):
        load_network(str(tiny_model), "imagenet", preprocess="tf")


def deep(count):
    return keras.Sequential([keras.Input((3,)), *(layers.Dense(2) for _ in range(count))])


def kept(model, path):
    """Saves the weights of a model, in the format that the ending says; returns the path."""
    (model.save_weights if path.name.endswith(".weights.h5") else model.save)(path)
    return path


@pytest.mark.parametrize("suffix", [".weights.h5", ".h5", ".keras"])
def test_weights_that_do_not_fit_are_refused_in_each_format(tmp_path, temporary_folder, suffix):
    path = kept(dense(units=5), tmp_path / f"w{suffix}")
    with pytest.raises(DamagedInputError) as refusal:
        load_weights(dense(), path)
    assert all(part in str(refusal.value) for part in (path.name, "(3, 2)", "(3, 5)"))
    assert re.search(r"named d\)|/d/kernel", str(refusal.value))
    assert len(str(refusal.value).splitlines()) == 1
    for there, wanted in ((1, 2), (2, 1)):
        with pytest.raises(DamagedInputError, match="do not fit"):
            load_weights(deep(wanted), kept(deep(there), path))
    data = kept(dense(), path).read_bytes()
    for quarter in range(4):
        path.write_bytes(data[: len(data) * quarter // 4])
        with pytest.raises(DamagedInputError, match=path.name):
            load_weights(dense(), path)


@pytest.mark.parametrize("suffix", [".weights.h5", ".h5", ".keras"])
def test_weights_that_a_file_holds_twice_fit(tmp_path, suffix):
    def network():
        shared = layers.Dense(4)
        inner = [keras.Sequential([keras.Input((4,)), shared]) for _ in range(2)]
        wrapped = layers.SpectralNormalization(layers.Dense(4))
        return keras.Sequential([keras.Input((3,)), wrapped, *inner])

    source, model = network(), network()
    load_weights(model, kept(source, tmp_path / f"w{suffix}"))
    for before, after in zip(source.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("suffix", [".weights.h5", ".h5"])
def test_far_more_weights_than_the_network_has_are_never_read(tmp_path, monkeypatch, suffix):
    """Keras would read them before it compares shapes; an .h5 may name the same data often."""
    monkeypatch.setattr(loading, "SMALL_VALUES", 0)
    read, directly = [], h5py.Dataset.read_direct
    monkeypatch.setattr(
        h5py.Dataset, "read_direct", lambda self, *to: (read.append(self.size), directly(self, *to))
    )
    path, model = tmp_path / f"w{suffix}", dense()
    if suffix == ".h5":
        model.save(path)
        with h5py.File(path, "r+") as file:
            attributes = file["model_weights/d"].attrs
            attributes["weight_names"] = list(attributes["weight_names"]) * 5
    else:
        dense(units=10).save_weights(path)
    with pytest.raises(DamagedInputError, match=r"far more values than the network"):
        load_weights(model, path)
    assert sum(read) <= 16


def test_the_content_of_a_file_says_how_it_is_read(tmp_path):
    """Published weights have a name of the old form, whatever a user puts there."""
    for written, named in (("w.weights.h5", "v.h5"), ("w.h5", "v.weights.h5")):
        model, other = dense(), dense()
        load_weights(other, kept(model, tmp_path / written).rename(tmp_path / named))
        np.testing.assert_array_equal(other.get_weights()[0], model.get_weights()[0])
    for name in ("w.weights.json", "w.npz", "w"):
        path = tmp_path / name
        path.write_text('{"weight_map": {"/layers/dense/vars": "../../secret.weights.h5"}}')
        with pytest.raises(DamagedInputError, match=r"Expected \.h5"):
            load_weights(dense(), path)


@pytest.fixture
def computed(monkeypatch):
    """Names of the initialisers that computed values, not only shapes."""
    names = []

    def watch(kind):
        before = kind.__call__

        def call(self, *words, **options):
            if tf.executing_eagerly():
                names.append(kind.__name__)
            return before(self, *words, **options)

        monkeypatch.setattr(kind, "__call__", call)

    for kind in vars(keras.initializers).values():
        if isinstance(kind, type) and "__call__" in vars(kind):
            watch(kind)
    zeros = memory._zeros

    def noted(shape, dtype=None):
        names.append("zeros")
        return zeros(shape, dtype)

    monkeypatch.setattr(memory, "_zeros", noted)
    return names


@keras.saving.register_keras_serializable("mine")
class Composite(layers.Layer):
    def __init__(self, units, **options):
        super().__init__(**options)
        self.inner = layers.Dense(units)

    def build(self, shape):
        self.inner.build(shape)
        self.scale = self.add_weight(shape=(), initializer="ones")

    def call(self, x):
        return self.scale * self.inner(x)

    def get_config(self):
        return {**super().get_config(), "units": self.inner.units}


def test_initialisers_in_a_file_never_compute(tmp_path, computed):
    """Their values would be replaced, and Orthogonal takes cubic time."""
    model = keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(4, 3, kernel_initializer="orthogonal", bias_initializer="normal"),
            layers.PReLU(alpha_initializer="he_normal"),
            layers.BatchNormalization(gamma_initializer=keras.initializers.Constant(3.0)),
            layers.Flatten(), Composite(5), layers.Dense(5, kernel_initializer="identity"),
        ]
    )  # fmt: skip
    model.save(tmp_path / "m.keras")
    assert "Orthogonal" in computed
    computed.clear()
    loaded = load_model(tmp_path / "m.keras")
    assert set(computed) == {"zeros"}
    for one, other in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(one, other)
    picture = np.random.default_rng(0).random((2, 8, 8, 3), np.float32)
    np.testing.assert_array_equal(model(picture), loaded(picture))
    assert isinstance(loaded.layers[0].kernel_initializer, keras.initializers.Orthogonal)


@pytest.mark.parametrize("kind", ["missing", "other", "within"])
def test_memory_is_taken_only_for_weights_in_the_file(tmp_path, computed, kind):
    made = Composite(3) if kind == "within" else layers.Dense(3, name="d")
    keras.Sequential([keras.Input((8,)), made], name="net").save(tmp_path / "m.keras")
    held = members(tmp_path / "m.keras")
    described = json.loads(held["config.json"])
    described["config"]["layers"][1]["config"]["units"] = 10**7
    held["config.json"] = json.dumps(described)
    if kind == "missing":
        keras.Sequential([keras.Input((8,)), layers.ReLU()]).save(tmp_path / "none.keras")
        held["model.weights.h5"] = members(tmp_path / "none.keras")["model.weights.h5"]
    computed.clear()
    count = {"missing": 0, "other": 27, "within": 28}[kind]
    with pytest.raises(DamagedInputError, match=rf"has 90,000,00\d values, the file {count}\)"):
        load_model(archived(tmp_path / "m.keras", held))
    assert computed == []


RNG = np.random.default_rng(5)


def values(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def norm(name, channels):
    """The weights of a batch norm, in the order of Keras 2 for a layer that was trained."""
    kinds = ("gamma", "beta", "moving_mean", "moving_variance")
    return {f"{name}/{kind}:0": np.abs(values(channels)) + 0.1 for kind in kinds}


def softmax(z):
    powers = np.exp(z - z.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def test_a_functional_network_of_keras_2_with_functions_of_tensorflow_computes_the_same(tmp_path):
    depthwise, mean = values(1, 1, 3, 1), [1.0, 2.0, 3.0]
    batch_norm, dense = norm("bn", 3), {"top/kernel:0": values(3, 2), "top/bias:0": values(2)}
    described = functional(
        pictures(5, 5, 3),
        layer("RandomFlip", "flip", read("pictures"), mode="horizontal", rng_type="stateful"),
        function("math.truediv", "tf.math.truediv", "flip", y=127.5),
        function("math.subtract", "tf.math.subtract", "tf.math.truediv", y=1.0),
        function("nn.bias_add", "tf.nn.bias_add", "tf.math.subtract", bias=mean),
        layer("DepthwiseConv2D", "dw", read("tf.nn.bias_add"), kernel_size=[1, 1], groups=1,
              use_bias=False, depthwise_initializer={"class_name": "GlorotUniform", "config": {}}),
        layer("BatchNormalizationV1", "bn", read("dw", training=False), axis=[3], epsilon=0.5),
        layer("LeakyReLU", "leaky", read("bn"), alpha={"type": "ndarray", "value": 0.2}),
        layer("GlobalAveragePooling2D", "pool", read("leaky"), data_format="channels_last"),
        layer("Dense", "top", read("pool"), units=2, activation="softmax"),
    )  # fmt: skip
    weights = {"dw": {"dw/depthwise_kernel:0": depthwise}, "bn": batch_norm, "top": dense}
    x = RNG.uniform(0, 255, (4, 5, 5, 3)).astype(np.float32)
    gamma, beta, moving_mean, variance = batch_norm.values()
    a = (x / 127.5 - 1 + mean) * depthwise[0, 0, :, 0]
    a = (a - moving_mean) / np.sqrt(variance + 0.5) * gamma + beta
    pooled = np.where(a > 0, a, 0.2 * a).mean((1, 2))
    wanted = softmax(pooled @ dense["top/kernel:0"] + dense["top/bias:0"])
    network = load_network(str(hdf5(tmp_path / "mine.h5", described, weights)), preprocess="none")
    np.testing.assert_allclose(Explainer(network)(x).scores, wanted, atol=1e-5)


def test_functions_that_compare_choose_and_pad_are_translated(tmp_path):
    described = functional(
        pictures(4, 4, 3),
        function("compat.v1.pad", "pad", "pictures", paddings=[[0, 0], [1, 0], [0, 0], [0, 0]],
                 mode="REFLECT", constant_values=0),
        function("math.greater", "greater", "pad", y=0.3),
        function("cast", "cast", "greater", dtype="float32"),
        function("nn.gelu", "gelu", "cast"),
        layer("GlobalAveragePooling2D", "pool", read("gelu"), data_format="channels_last"),
        layer("Dense", "top", read("pool"), units=2, activation="softmax"),
    )  # fmt: skip
    dense = {"top/kernel:0": values(3, 2), "top/bias:0": values(2)}
    x = RNG.uniform(-1, 1, (3, 4, 4, 3)).astype(np.float32)
    above = np.pad(x, [[0, 0], [1, 0], [0, 0], [0, 0]], "reflect") > 0.3
    pooled = above.mean((1, 2)) * 0.8413447  # gelu(1), not its approximation .8411920
    wanted = softmax(pooled @ dense["top/kernel:0"] + dense["top/bias:0"])
    path = hdf5(tmp_path / "mine.h5", described, {"top": dense})
    np.testing.assert_allclose(
        load_network(str(path), preprocess="none").model(x), wanted, atol=1e-5
    )


def test_sizes_pools_products_and_a_dictionary_of_outputs_are_translated(tmp_path):
    size = ["size", 0, 0]
    described = functional(
        pictures(4, 4, 4),
        function("math.reduce_mean", "mean", "pictures", axis=[1, 2], keepdims=True),
        function("tile", "tile", "mean", multiples=[1, 4, 4, 1]),
        function("math.add", "sum", "pictures", y=["tile", 0, 0]),
        function("nn.avg_pool2d", "pool", "sum", ksize=2, strides=[1, 2, 2, 1], padding="SAME"),
        function("nn.depth_to_space", "space", "pool", block_size=2),
        function("compat.v1.shape", "shape", "space", out_type="int32"),
        function("__operators__.getitem", "size", "shape", slice_spec=0),
        function("reshape", "rows", "space", shape=[size, -1, 1]),
        function("linalg.matmul", "alike", "rows", b=["rows", 0, 0], transpose_b=True),
        function("linalg.matmul", "mixed", "alike", b=["rows", 0, 0]),
        function("compat.v1.gather", "turned", "mixed", indices=[*range(15, -1, -1)], axis=1,
                 validate_indices=None, batch_dims=0),
        layer("Flatten", "flat", read("turned")),
        layer("Dense", "top", read("flat"), units=3, activation="softmax"),
        layer("Dense", "age", read("flat"), units=1),
    )  # fmt: skip
    described["config"]["output_layers"] = {"age": ["age", 0, 0], "race": ["top", 0, 0]}
    weights = {name: {f"{name}/kernel:0": values(16, n), f"{name}/bias:0": values(n)}
               for name, n in (("top", 3), ("age", 1))}  # fmt: skip
    x = RNG.uniform(-1, 1, (2, 4, 4, 4)).astype(np.float32)
    pooled = (x + x.mean((1, 2), keepdims=True)).reshape(2, 2, 2, 2, 2, 4).mean((2, 4))
    rows = pooled.reshape(2, 2, 2, 2, 2).transpose(0, 1, 3, 2, 4).reshape(2, 16, 1)
    turned = (rows @ rows.transpose(0, 2, 1) @ rows)[:, ::-1, 0]
    wanted = softmax(turned @ weights["top"]["top/kernel:0"] + weights["top"]["top/bias:0"])
    network = load_network(str(hdf5(tmp_path / "mine.h5", described, weights)), preprocess="none")
    np.testing.assert_allclose(Explainer(network.model)(x).scores, wanted, atol=1e-5)


def test_an_operation_as_a_layer_of_its_own_is_translated(tmp_path):
    kernel = values(12, 2)
    described = functional(
        pictures(2, 2, 3),
        layer("TensorFlowOpLayer", "less", read("pictures"), node_def='{"op": "Sub"}',
              constants={"0": 1.0}),
        layer("Flatten", "flat", read("less")),
        layer("Dense", "top", read("flat"), units=2, use_bias=False),
    )  # fmt: skip
    model = load_model(hdf5(tmp_path / "a.h5", described, {"top": {"top/kernel:0": kernel}}))
    x = values(2, 2, 2, 3)
    np.testing.assert_allclose(model(x), (1 - x).reshape(2, 12) @ kernel, atol=1e-5)


@keras.saving.register_keras_serializable("of_a_program")
class Halved(layers.Layer):
    def call(self, a):
        return a / 2


def test_a_layer_that_a_program_has_registered_is_read(tmp_path):
    kernel = {"top": {"top/kernel:0": values(12, 2)}}
    described = sequential(
        pictures(2, 2, 3), layer("of_a_program>Halved", "half"), layer("Flatten", "flat"),
        layer("Dense", "top", units=2, use_bias=False),
    )  # fmt: skip
    x = values(2, 2, 2, 3)
    model = load_model(hdf5(tmp_path / "a.h5", described, kernel))
    np.testing.assert_allclose(
        model(x), x.reshape(2, 12) / 2 @ kernel["top"]["top/kernel:0"], atol=1e-5
    )
    described["config"]["layers"][1]["class_name"] = "of_a_program>Unknown"
    with pytest.raises(DamagedInputError, match="Unknown"):
        load_model(hdf5(tmp_path / "b.h5", described, kernel))


def test_weights_of_a_network_that_was_trained_in_part_are_found_by_their_names(tmp_path):
    """Keras 2 lists what was trained first, by another rule than Keras 3; names may have a "/"."""
    first, second = norm("first/BatchNorm", 3), norm("second/BatchNorm", 3)
    second_trained = [name for name in second if "moving" not in name]
    order = [*second_trained, *first, *(name for name in second if "moving" in name)]
    backbone = {name: (first | second)[name] for name in reversed(order)}
    described = sequential(
        pictures(4, 4, 3),
        functional(
            pictures(4, 4, 3, name="inner"),
            layer("BatchNormalization", "first/BatchNorm", read("inner"), axis=[3],
                  trainable=False),
            layer("SpatialDropout2D", "drop", read("first/BatchNorm"), rate=0.5),
            layer("BatchNormalization", "second/BatchNorm", read("drop"), axis=[3]),
            name="backbone",
        ), layer("Flatten", "flat"),
    )  # fmt: skip
    model = load_model(hdf5(tmp_path / "half.hdf5", described, {"backbone": backbone}))
    for name, array in backbone.items():
        *path, kind = name.removesuffix(":0").split("/")
        of_layer = model.layers[0].get_layer("_".join(path))
        np.testing.assert_array_equal(getattr(of_layer, kind), array)


def test_a_keras_file_of_keras_2_from_windows_is_read_whatever_its_name(tmp_path):
    kernel, bias = values(12, 2), values(2)
    described = functional(
        pictures(2, 2, 3), layer("Flatten", "flat", read("pictures")),
        layer("Dense", "top", read("flat"), units=2, activation="softmax"),
    )  # fmt: skip
    prefix = "_layer_checkpoint_dependencies\\dense/vars"
    weights = {f"{prefix}/0": kernel, f"{prefix}/1": bias}
    x = values(3, 2, 2, 3)
    for name in ("mine.keras", "mine.h5"):
        model = load_model(archive(tmp_path / name, described, weights))
        wanted = softmax(x.reshape(3, 12) @ kernel + bias)
        np.testing.assert_allclose(model(x, training=False), wanted, atol=1e-6)


def test_a_model_inside_another_is_called_from_one_by_keras_2(tmp_path):
    kernel = values(3, 2)
    inner = functional(
        pictures(2, 2, 3, name="inner"),
        layer("GlobalMaxPooling2D", "pool", read("inner"), data_format="channels_last"),
        name="backbone",
    )
    described = functional(
        pictures(2, 2, 3),
        inner | {"name": "backbone", "inbound_nodes": [read("pictures")]},
        layer("Dense", "top", [["backbone", 1, 0, {}]], units=2, use_bias=False),
    )
    model = load_model(hdf5(tmp_path / "a.h5", described, {"top": {"top/kernel:0": kernel}}))
    x = values(2, 2, 2, 3)
    np.testing.assert_allclose(model(x, training=False), x.max((1, 2)) @ kernel, atol=1e-6)


def test_one_network_gives_the_same_scores_and_map_as_h5_and_as_keras(tmp_path):
    keras.utils.set_random_seed(2)
    normal = layers.Normalization()
    normal.adapt(np.random.default_rng(0).normal(3, 2, (4, 8, 8, 3)))
    seen = keras.Input((8, 8, 3))
    backbone = keras.Sequential([keras.Input((8, 8, 3)), layers.Conv2D(4, 3), layers.ReLU()])
    a = backbone(normal(layers.RandomFlip()(seen)))[:, 1:]
    a = keras.ops.mean(1 - a * 2.0, (1, 2))
    model = keras.Model(seen, layers.Dense(3, "softmax")(a))
    x = values(2, 8, 8, 3)
    found = []
    for name in ("one.keras", "one.h5", "h5.keras"):
        model.save(tmp_path / name.replace("h5.keras", "two.h5"))
        if name == "h5.keras":
            (tmp_path / "two.h5").rename(tmp_path / name)
        network = load_network(str(tmp_path / name), preprocess="none")
        found.append(Explainer(network, composite="epsilon_plus_flat", target=1)(x))
    np.testing.assert_allclose(found[0].scores, model(x, training=False), atol=1e-6)
    for other in found[1:]:
        np.testing.assert_allclose(other.scores, found[0].scores, atol=1e-6)
        assert_near(other.relevance, found[0].relevance, 1e-5)


SMALL = sequential(pictures(2, 2, 3), layer("Flatten", "flat"), layer("Dense", "top", units=2))
TOP = {"top": {"top/kernel:0": values(12, 2), "top/bias:0": values(2)}}


@pytest.mark.parametrize("kind", FORBIDDEN)
@pytest.mark.parametrize("door", ["h5", "keras"])
def test_what_is_not_on_the_list_is_never_built_from_these_files_either(
    tmp_path, temporary_folder, guarded, kind, door  # noqa: F811
):  # fmt: skip
    described = copy.deepcopy(SMALL)
    described["config"]["layers"].insert(2, copy.deepcopy(FORBIDDEN[kind]))
    path = tmp_path / f"bad.{door}"
    if door == "h5":
        hdf5(path, described, TOP)
    else:
        archive(path, described, {"layers/dense/vars/0": values(12, 2)})
    with pytest.raises(DamagedInputError, match=r"bad\.") as refusal:
        load_model(path)
    assert len(str(refusal.value).splitlines()) == 1


def test_hdf5_files_that_are_refused_say_why(tmp_path):
    for described, weights, why in (
        (None, TOP, "weights alone"),
        (SMALL, {}, "26 values, the file 0"),
        (SMALL, {"top": {"k": values(2, 12), "b": values(2)}}, "shape"),
        (SMALL, {"top": {"k": values(13, 2)}}, "1 weights of 'top', not 2"),
        (sequential(pictures(2, 2, 3), layer("Dense", "top", units=2**22)), TOP, "the file 26"),
        (functional(pictures(2, 2, 3), function("py_function", "f", "pictures")), TOP, "tf.py_fu"),
        (sequential(layer("Activation", "a", activation="hard_sigmoid")), TOP, "otherwise; load"),
        ([], TOP, "not a Keras model"),
        (sequential(layer("Dense", "top", units=2)), TOP, "the shape of its pictures"),
    ):
        path = hdf5(tmp_path / "bad.h5", described, weights)
        with pytest.raises(DamagedInputError, match=why) as refusal:
            load_model(path)
        assert len(str(refusal.value).splitlines()) <= 2


def test_an_hdf5_file_that_links_to_another_is_not_opened(tmp_path, temporary_folder):
    hdf5(tmp_path / "other.h5", SMALL, TOP)
    path = hdf5(tmp_path / "bad.h5", SMALL, {})
    with h5py.File(path, "r+") as file:
        file["model_weights/top"] = h5py.ExternalLink("other.h5", "model_weights/top")
    with pytest.raises(DamagedInputError, match="a link in place of"):
        load_model(path)
