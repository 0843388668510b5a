"""`--model FILE.tflite`: files are read as data; a network has the maps that it has in Keras."""

import warnings
import zipfile

import cv2
import flatbuffers
import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from media import SHARED, needs_files
from naive import assert_near
from tensorflow.lite.python import schema_py_generated as schema

from realtime_lrp import Explainer, load_network
from realtime_lrp.errors import DamagedInputError, Error, UsageError
from realtime_lrp.relevance.reading.building import build_graph

with warnings.catch_warnings(action="ignore"):  # both move to the package ai_edge_litert
    Interpreter, Converter = tf.lite.Interpreter, tf.lite.TFLiteConverter


def converted(path, source, kind="float32", pictures=()):
    """Converts a Keras model, or a function with its shape, and writes the file; returns its path.

    Whole numbers of a quantised file have the ranges that they have for `pictures`.
    """
    if isinstance(source, tuple):
        function, shape = source
        traced = tf.function(function).get_concrete_function(tf.TensorSpec(shape, tf.float32))
        converter = Converter.from_concrete_functions([traced], tf.Module())
    else:
        converter = Converter.from_keras_model(source)
    if kind != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if kind == "float16":
        converter.target_spec.supported_types = [tf.float16]
    if kind in ("int8", "uint8"):
        converter.representative_dataset = lambda: ([one[None]] for one in pictures)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = tf.as_dtype(kind)
    with warnings.catch_warnings(action="ignore"):
        path.write_bytes(converter.convert())
    return str(path)


def interpreted(path, pictures):
    """What TensorFlow Lite computes, [pictures, entries], as floating numbers."""
    with warnings.catch_warnings(action="ignore"):
        interpreter = Interpreter(str(path))
    interpreter.allocate_tensors()
    (read,), made = interpreter.get_input_details(), interpreter.get_output_details()[0]
    found = []
    for one in pictures:
        value = one[None]
        if read["dtype"] != np.float32:
            (scale, zero), ends = read["quantization"], np.iinfo(read["dtype"])
            value = np.clip(np.round(value / scale + zero), ends.min, ends.max)
        interpreter.set_tensor(read["index"], value.astype(read["dtype"]))
        interpreter.invoke()
        value = interpreter.get_tensor(made["index"]).ravel().astype(np.float32)
        scale, zero = made["quantization"]
        found.append((value - zero) * scale if scale else value)
    return np.array(found)


def changed(path, change, to=None):
    """Writes the file again, or another one, after a change of its object; returns the path."""
    with open(path, "rb") as file:
        model = schema.ModelT.InitFromPackedBuf(file.read())
    change(model)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    with open(to or path, "wb") as file:
        file.write(builder.Output())
    return str(to or path)


def _table(builder, **fields):
    """A table of a flatbuffer: `a3=offset` has a table or list in field 3, `b0=1` a byte in 0."""
    builder.StartObject(8)
    for name, value in fields.items():
        slot = int(name[1:])
        if name[0] == "a":
            builder.PrependUOffsetTRelativeSlot(slot, value, 0)
        else:
            builder.PrependByteSlot(slot, value, 0)
    return builder.EndObject()


def _tables(builder, *tables):
    builder.StartVector(4, len(tables), 4)
    for one in reversed(tables):
        builder.PrependUOffsetTRelative(one)
    return builder.EndVector()


def with_normalisation(path, mean, deviation):
    """Adds the metadata that TensorFlow's tools write: (picture - mean) / deviation."""
    b = flatbuffers.Builder(256)
    numbers = [b.CreateNumpyVector(np.float32(one)) for one in (mean, deviation)]
    tensor = _table(b, a4=_tables(b, _table(b, b0=1, a1=_table(b, a0=numbers[0], a1=numbers[1]))))
    b.Finish(_table(b, a3=_tables(b, _table(b, a2=_tables(b, tensor)))), file_identifier=b"M001")

    def add(model):
        model.buffers.append(schema.BufferT(data=np.frombuffer(b.Output(), np.uint8)))
        found = schema.MetadataT(name="TFLITE_METADATA", buffer=len(model.buffers) - 1)
        model.metadata = [*(model.metadata or []), found]

    return changed(path, add)


F = np.float32
COMPOSITES = ["zplus", "epsilon_plus_flat", "gradient"]


def numbers(*shape, seed=0):
    return tf.constant(np.random.default_rng(seed).normal(size=shape).astype(F))


def tokens(x):
    """[B, 6, 8, 3] -> [B, 48, 3]."""
    return tf.reshape(x, [-1, 48, 3])


CASES = {
    "activations": lambda x: tf.stack([
        tf.nn.relu(x), tf.nn.relu6(4 * x), tf.nn.elu(x), tf.nn.leaky_relu(x, 0.3), tf.tanh(x),
        tf.sigmoid(x), 0.5 * x * (1 + tf.math.erf(x * 0.70710678)), x * tf.nn.relu6(x + 3) / 6,
        tf.clip_by_value(x, -1.0, 1.0), tf.nn.relu(x) - [[[1.0, 2, 0.5]]] * tf.nn.relu(-x),
    ], -1),
    "entries": lambda x: tf.concat([
        tf.abs(x), tf.exp(x), tf.square(x), tf.sqrt(tf.abs(x)), tf.math.rsqrt(tf.abs(x) + 1),
        tf.math.log(tf.abs(x) + 1), tf.sin(x), tf.cos(x), -x, tf.floor(x), tf.pow(tf.abs(x), 1.5),
        tf.maximum(x, 0.1), tf.minimum(x, x[:, ::-1]), x / (1 + tf.abs(x)), x - x[:, :1],
        tf.math.squared_difference(x, 0.3), tf.where(x > 0, x, 0.2 * x), tf.add_n([x, x, x]),
    ], 3),
    "convolutions": lambda x: [
        tf.nn.conv2d(x, numbers(3, 2, 3, 4), 2, "SAME") + numbers(4),
        tf.nn.relu(tf.nn.conv2d(x, numbers(2, 3, 3, 4), [1, 2], "VALID")),
        tf.nn.conv2d(x, numbers(3, 3, 3, 4), 1, "SAME", dilations=2),
        tf.nn.depthwise_conv2d(x, numbers(3, 3, 3, 2), [1, 2, 2, 1], "SAME"),
        tf.nn.conv2d(tf.concat([x, x], 3), numbers(3, 3, 2, 6), 1, "SAME") + numbers(6),
        tf.nn.conv2d_transpose(x, numbers(3, 3, 4, 3), [1, 12, 16, 4], 2, "SAME"),
    ],
    "pools": lambda x: [
        tf.nn.max_pool2d(x, 3, 2, "SAME"), tf.nn.avg_pool2d(x, [2, 3], 1, "SAME"),
        tf.reduce_mean(x, [1, 2]), tf.reduce_max(x, 3, keepdims=True), tf.reduce_sum(x, 1),
        tf.reduce_min(x, [1, 2]),
    ],
    "products": lambda x: [
        tf.matmul(tokens(x), numbers(3, 5)), tf.matmul(tokens(x), tokens(x), transpose_b=True),
        tf.nn.softmax(tf.matmul(tf.reshape(x, [-1, 144]), numbers(144, 4))),
        tf.nn.l2_normalize(tf.reduce_mean(x, [1, 2]), -1), tf.nn.log_softmax(x),
    ],
    "moves": lambda x: [
        tf.transpose(x, [0, 3, 1, 2]), tf.pad(x, [[0, 0], [1, 2], [0, 1], [0, 0]]),
        tf.pad(x, [[0, 0], [1, 2], [0, 1], [0, 0]], constant_values=0.5),
        tf.pad(x, [[0, 0], [1, 2], [0, 1], [0, 0]], "REFLECT"), tf.gather(x, [2, 0], axis=3),
        tf.pad(x, [[0, 0], [1, 2], [0, 1], [0, 0]], "SYMMETRIC"), x[:, 1:5:2, ::-1, 1:],
        tf.slice(x, [0, 1, 2, 0], [1, 4, 3, 2]), *tf.split(x, 2, 2), *tf.split(x, [1, 2], 3),
        *tf.unstack(x, axis=3), tf.tile(x, [1, 2, 1, 1]), tf.reverse(x, [1]),
        tf.nn.depth_to_space(tf.nn.space_to_depth(x, 2), 2), tf.cumsum(x, 1), x[:, 0],
        tf.concat([tf.broadcast_to(numbers(1, 1, 3), [1, 1, 3]), tokens(x)], 1),
        tf.squeeze(x[:, :1], 1), tf.expand_dims(x, 2),
    ],
    "resizes": lambda x: [
        tf.compat.v1.image.resize(x, [9, 10], method, align_corners=align)
        for method in ("bilinear", "nearest") for align in (False, True)
    ] + [tf.image.resize(x, [12, 16]), tf.image.resize(x, [12, 16], "nearest")],
    "several in blocks": lambda x: tf.batch_to_space(
        tf.nn.conv2d(tf.nn.relu(tf.nn.conv2d(
            tf.space_to_batch(x, [2, 2], [[4, 4], [4, 4]]) - 0.1, numbers(3, 3, 3, 4), 1, "VALID",
        )), numbers(3, 3, 4, 4), 1, "VALID"),
        [2, 2], [[0, 0], [0, 0]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_operation_computes_what_tensorflow_computes(tmp_path, rng, name):
    def together(x):
        found = CASES[name](x)
        found = found if isinstance(found, list) else [found]
        return tf.concat([tf.reshape(one, [1, -1]) for one in found], 1)

    x = rng.normal(size=(3, 6, 8, 3)).astype(F)
    expected = np.concatenate([together(one[None]) for one in x])
    network = load_network(converted(tmp_path / "a.tflite", (together, [1, 6, 8, 3])))
    np.testing.assert_allclose(network.model(x), expected, 1e-5, 1e-5)
    graph = build_graph(network.model)
    np.testing.assert_allclose(graph.forward(tf.constant(x))[graph.output], expected, 1e-5, 1e-5)


def network(classes, activation):
    """A small network with a residual, a depthwise convolution, both kinds of pools."""
    keras.utils.set_random_seed(classes)
    x = keras.Input((16, 20, 3))
    c = layers.Conv2D(6, 3, 2, "same", use_bias=False)(x)
    c = layers.ReLU(6)(layers.BatchNormalization()(c))
    d = layers.DepthwiseConv2D(3, padding="same", bias_initializer="normal")(c)
    d = layers.ReLU()(layers.BatchNormalization()(d))
    d = layers.Add()([d, layers.Conv2D(6, 1, activation="relu")(c)])
    h = layers.Concatenate()([layers.MaxPooling2D(2)(d), layers.AveragePooling2D(2)(c)])
    h = layers.Conv2D(24, 3, padding="same", activation="relu", bias_initializer="normal")(h)
    h = layers.GlobalAveragePooling2D()(h)
    head = layers.Dense(classes, activation=activation, bias_initializer="normal")
    return keras.Model(x, head(h))


@pytest.fixture(scope="module")
def pictures():
    """From -1 to 1, so that quantised files have this range."""
    x = np.random.default_rng(3).uniform(-1, 1, (8, 16, 20, 3)).astype(F)
    x[0, 0, 0], x[0, 0, 1] = -1, 1
    return x


@pytest.fixture(scope="module")
def quantised(tmp_path_factory, pictures):
    path = tmp_path_factory.mktemp("tflite") / "a.tflite"
    return converted(path, network(5, "softmax"), "uint8", pictures)


LONG = pytest.mark.release  # further examples of a kind


@pytest.mark.parametrize(("classes", "activation"), [
    (1, "sigmoid"), (5, None), pytest.param(2, "softmax", marks=LONG),
    pytest.param(5, "sigmoid", marks=LONG),
])  # fmt: skip
def test_a_network_has_the_maps_that_it_has_in_keras(tmp_path, pictures, classes, activation):
    model = network(classes, activation)
    file = load_network(converted(tmp_path / "a.tflite", model))
    ours, expected = (
        Explainer(one, also=COMPOSITES, target="top1", low=-1.0, high=1.0)(pictures)
        for one in (file.model, model)
    )
    np.testing.assert_allclose(ours.scores, expected.scores, atol=1e-5)
    for name in COMPOSITES:
        assert np.abs(expected.maps[name]).max() > 0
        assert_near(ours.maps[name], expected.maps[name], 1e-4, name)


@pytest.mark.parametrize("kind", [
    "float32", "dynamic", "uint8", *(pytest.param(one, marks=LONG) for one in ("float16", "int8")),
])  # fmt: skip
def test_quantised_files_score_as_their_interpreter(tmp_path, pictures, kind):
    """Floating numbers exactly; of whole ones a step of 1/256 is a rounding."""
    path = converted(tmp_path / "a.tflite", network(5, "softmax"), kind, pictures)
    file = load_network(path)
    close = {"float32": 1e-6, "float16": 1e-6, "dynamic": 5e-3}.get(kind, 1e-2)
    np.testing.assert_allclose(file.model(pictures), interpreted(path, pictures), atol=close)
    assert file.preprocess == "tf"


def test_a_relu_that_only_a_quantised_range_says_is_computed(tmp_path, pictures, quantised):
    """Older converters leave it out where numbers begin at 0: they are cut there anyway."""
    expected = load_network(quantised).model(pictures).numpy()

    def without_relus(model):
        for one in model.subgraphs[0].operators:
            if getattr(one.builtinOptions, "fusedActivationFunction", 0) == 1:  # a ReLU
                one.builtinOptions.fusedActivationFunction = 0

    path = changed(quantised, without_relus, tmp_path / "b.tflite")
    np.testing.assert_allclose(load_network(path).model(pictures), expected, atol=1e-6)
    np.testing.assert_allclose(interpreted(path, pictures), expected, atol=1e-2)


@pytest.mark.parametrize(("mode", "quantisation"), [
    ("tf", (1 / 128, 128)), ("tf", (1 / 127.5, 127)), ("rescale", (1 / 255, 0)), ("none", (1, 0)),
    ("torch", (0.01865845, 114)), ("-2..1.98438", (1 / 64, 128)),
])  # fmt: skip
def test_a_quantised_input_says_how_pictures_are_prepared(tmp_path, quantised, mode, quantisation):
    def quantise(model):
        graph = model.subgraphs[0]
        found = graph.tensors[graph.inputs[0]].quantization
        found.scale, found.zeroPoint = [F([one]) for one in quantisation]
        found.zeroPoint = found.zeroPoint.astype(np.int64)

    file = load_network(changed(quantised, quantise, tmp_path / "b.tflite"))
    assert file.preprocess == mode
    if ".." in mode:
        ends = file.prepare(np.array([[[[0] * 3, [255] * 3]]], np.uint8)).numpy()[0, 0, :, 0]
        np.testing.assert_allclose(ends, [-2, 127 / 64], atol=1e-5)


def test_a_file_of_floating_numbers_says_it_in_its_metadata(tmp_path, caplog):
    path = converted(tmp_path / "a.tflite", network(2, "softmax"))
    assert load_network(path).preprocess == "tf"
    assert "a guess" in caplog.text
    caplog.clear()
    for mean, deviation, mode in (
        ([0], [255], "rescale"), ([127.5] * 3, [127.5] * 3, "tf"), ([0], [1], "none"),
        ([123.675, 116.28, 103.53], [58.395, 57.12, 57.375], "torch"),
    ):  # fmt: skip
        assert load_network(with_normalisation(path, mean, deviation)).preprocess == mode
        changed(path, lambda model: setattr(model, "metadata", None))
    assert "a guess" not in caplog.text
    x = keras.Input((8, 8, 3))
    scaled = keras.Model(x, layers.GlobalAveragePooling2D()(layers.Rescaling(1 / 127.5, -1)(x)))
    file = load_network(converted(tmp_path / "b.tflite", scaled))
    assert file.preprocess == "none"
    np.testing.assert_allclose(file.model(np.full((1, 8, 8, 3), 255, F)), [[1, 1, 1]], atol=1e-6)


def test_class_names_are_those_that_are_packed_into_the_file(tmp_path):
    path = converted(tmp_path / "a.tflite", network(5, "softmax"))
    names = ["cat", "dog", "owl", "cup", "moon"]
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("about.txt", "one line")
        archive.writestr("labels.txt", "\n".join(names))
    assert load_network(path).labels == names
    assert load_network(path, labels=names[::-1]).labels == names[::-1]


def test_pictures_of_other_layouts_are_read(tmp_path, rng):
    x = rng.normal(size=(2, 8, 10, 3)).astype(F)
    kernel = numbers(3, 3, 3, 4)

    def first(x):
        c = tf.nn.conv2d(tf.transpose(x, [0, 2, 3, 1]), kernel, 1, "SAME")
        return tf.reduce_mean(tf.nn.relu(c), [1, 2])

    file = load_network(converted(tmp_path / "a.tflite", (first, [1, 3, 8, 10])))
    expected = np.concatenate([first(one[None].transpose(0, 3, 1, 2)) for one in x])
    np.testing.assert_allclose(file.model(x), expected, atol=1e-5)
    maps = Explainer(file.model, composite="epsilon_plus_flat", target=1)(x).relevance
    assert maps.shape == x.shape
    dense = keras.Sequential([keras.Input((8, 10)), layers.Flatten(), layers.Dense(3)])
    file = load_network(converted(tmp_path / "b.tflite", dense))
    np.testing.assert_allclose(file.model(x[..., :1]), dense(x[..., 0]), atol=1e-5)
    pixels = keras.Input((None, None, 3))
    c = layers.GlobalAveragePooling2D()(layers.Conv2D(4, 3)(pixels))
    path = converted(tmp_path / "c.tflite", keras.Model(pixels, layers.Dense(3)(c)))
    with pytest.raises(UsageError, match="--size"):
        load_network(path)
    assert load_network(path, size=(8, 10)).model(x).shape == (2, 3)


def test_dilated_convolutions_that_are_divided_in_blocks_compute_the_same(tmp_path, rng):
    """As the converter writes them, with borders and of single channels too."""
    x = keras.Input((17, 15, 3))
    h = layers.Conv2D(8, 3, dilation_rate=2, padding="same", activation="relu")(x)
    h = layers.DepthwiseConv2D(3, dilation_rate=3, padding="same", activation="relu")(h)
    model = keras.Model(x, layers.GlobalAveragePooling2D()(layers.Conv2D(4, 3)(h)))
    path = converted(tmp_path / "net.tflite", model)
    pictures = rng.normal(size=(2, 17, 15, 3)).astype(np.float32)
    found = load_network(path, preprocess="none")
    np.testing.assert_allclose(found.model(pictures), model(pictures), atol=1e-5)
    ours, wanted = (Explainer(one, composite="epsilon")(pictures) for one in (found, model))
    assert_near(ours.relevance, wanted.relevance, 1e-4)


def test_what_cannot_be_read_is_refused_by_name(tmp_path):
    x = keras.Input((8, 8, 3))
    h = layers.Conv2D(2, 3)(x)
    two = {"mean": layers.GlobalAveragePooling2D()(h), "most": layers.GlobalMaxPooling2D()(h)}
    path = converted(tmp_path / "two.tflite", keras.Model(x, two))
    assert load_network(path, output="most").model.output.shape == (None, 2)
    with pytest.raises(UsageError, match="other"):
        load_network(path, output="other")
    with pytest.raises(UsageError, match="its own weights"):
        load_network(path, weights="random")

    def strange(model):
        model.operatorCodes[0].builtinCode = model.operatorCodes[0].deprecatedBuiltinCode = 32
        model.operatorCodes[0].customCode = "MediaPipeThing"

    with pytest.raises(DamagedInputError, match=r"MediaPipeThing.*has no rule"):
        load_network(changed(path, strange, tmp_path / "b.tflite"), output="most")
    four = lambda x: tf.reduce_mean(tf.nn.relu(x), [1, 2])  # noqa: E731
    with pytest.raises(DamagedInputError, match="4, 8, 8, 3"):
        load_network(converted(tmp_path / "c.tflite", (four, [4, 8, 8, 3])))


def damages(path):
    """Fifty damaged files: cut, with flipped bytes, with huge sizes, in circles."""
    with open(path, "rb") as file:
        data = file.read()
    yield from (data[: len(data) * n // 10] for n in range(10))
    for seed in range(28):
        wrong, random = bytearray(data), np.random.default_rng(seed)
        for place in random.integers(8, len(data), 1 + 4 * (seed % 8)):
            wrong[place] ^= 1 << random.integers(8)
        yield bytes(wrong)

    def sizes(number, *shape):
        return lambda graph: vars(graph.tensors[number]).update(shape=shape)

    def operation(number, **wrong):
        return lambda graph: vars(graph.operators[number]).update(wrong)

    for change in (
        lambda graph: graph.operators.reverse(), lambda graph: graph.operators.clear(),
        lambda graph: vars(graph).update(inputs=[]),
        lambda graph: vars(graph).update(outputs=[4000]),
        lambda graph: vars(graph.tensors[1]).update(buffer=0), sizes(0, 1, 1 << 30, 1 << 30, 3),
        sizes(1, *[1 << 20] * 4), operation(0, inputs=[5]), operation(0, inputs=[-7]),
        operation(0, opcodeIndex=99), operation(1, inputs=[1 << 30, 0, 1]),
        lambda graph: operation(2, outputs=graph.operators[1].outputs)(graph),
    ):  # fmt: skip
        with open(
            changed(path, lambda model, do=change: do(model.subgraphs[0]), f"{path}.wrong"), "rb"
        ) as file:
            yield file.read()


def test_damaged_files_are_refused(tmp_path):
    """By an error of ours, or read where the damage is in numbers; TensorFlow Lite never runs."""
    path, read = converted(tmp_path / "a.tflite", network(2, "softmax")), 0
    files = list(damages(path))
    assert len(files) == 50
    for data in files:
        wrong = tmp_path / "wrong.tflite"
        wrong.write_bytes(data)
        try:
            load_network(str(wrong))
        except Error as error:
            assert len(str(error).splitlines()) <= 2, error
        else:
            read += 1
    assert read < 25


@needs_files
@pytest.mark.parametrize(
    ("photo", "answers"), [("cat", {286: 0.617, 283: 0.246}), ("parrot", {89: 0.750})]
)
def test_a_published_network_answers_as_its_interpreter(photo, answers):
    network = load_network(str(SHARED / "models" / "mobilenet_v1_0.25_128_quant.tflite"))
    assert network.preprocess == "tf"
    assert (network.labels[286], network.labels[89]) == ("Egyptian cat", "macaw")
    picture = cv2.imread(str(SHARED / "media" / f"{photo}.jpg"))[..., ::-1]
    rows, columns = picture.shape[:2]
    side = min(rows, columns)
    top, left = (rows - side) // 2, (columns - side) // 2
    picture = cv2.resize(
        picture[top : top + side, left : left + side], (128, 128), interpolation=cv2.INTER_AREA
    )
    scores = Explainer(network)(network.prepare(picture[None])).scores[0]
    for number, score in answers.items():
        assert abs(float(scores[number]) - score) < 0.03


@pytest.mark.release
@pytest.mark.parametrize("name", ["MobileNetV3Small", "EfficientNetB0", "transformer"])
def test_architectures_have_the_scores_and_gradients_that_they_have_in_keras(tmp_path, rng, name):
    if name == "transformer":
        x = keras.Input((32, 32, 3))
        h = layers.Reshape((16, 8))(layers.Conv2D(8, 8, 8)(x))
        a = layers.LayerNormalization()(h)
        h = layers.Dense(16, activation="relu")(h + layers.MultiHeadAttention(2, 4)(a, a))
        model = keras.Model(x, layers.Dense(5, activation="softmax")(h[:, 0]))
    else:
        model = getattr(keras.applications, name)(weights=None, input_shape=(64, 64, 3), classes=5)
    x = rng.uniform(0, 255, (2, *model.input_shape[1:])).astype(F)
    file = load_network(converted(tmp_path / "a.tflite", model))
    ours, expected = (Explainer(one, method="gradient", target=1)(x) for one in (file.model, model))
    np.testing.assert_allclose(ours.scores, expected.scores, atol=1e-5)
    assert_near(ours.relevance, expected.relevance, 1e-4)
