"""Models with several outputs, and segmentations, whose output has classes for every place."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from naive import assert_near, gradient_of
from uncompiled import compiled

from realtime_lrp import Explainer, load_network
from realtime_lrp.config.names import COMPOSITES
from realtime_lrp.errors import DamagedInputError, NotFiniteError, UsageError
from realtime_lrp.models.names import NETWORKS
from realtime_lrp.models.network import Network
from realtime_lrp.relevance.explainer import NOWHERE
from realtime_lrp.relevance.maps import detections
from realtime_lrp.relevance.maps.targets import TargetResolver
from realtime_lrp.relevance.network.graph import Ends
from realtime_lrp.relevance.reading.building import build_graph


@pytest.fixture(scope="module")
def detector():
    """A network with a segmentation, a detector's boxes and classes, and one vector."""
    keras.utils.set_random_seed(4)
    x = keras.Input((8, 8, 3))
    a = layers.Conv2D(4, 3, padding="same", activation="relu", name="body")(x)
    regions = layers.Conv2D(3, 1, name="regions", bias_initializer="random_normal")(a)
    outputs = {
        "regions": layers.Softmax(name="softmax")(regions),
        "boxes": layers.Dense(4, name="corners")(layers.Reshape((16, 16), name="anchors")(a)),
        "vector": layers.Dense(5, name="answer")(layers.GlobalAveragePooling2D()(a)),
    }
    return keras.Model(x, outputs, name="detector")


@pytest.fixture
def x(rng):
    return rng.normal(size=(2, 8, 8, 3)).astype(np.float32)


MASK = np.zeros((16, 16), bool)
MASK[3:5, 4:9] = MASK[15, 14] = True


def segmentation(stride=1, resize="", classes=3, size=16):
    """A network [B, size, size, 3] -> [B, h, w, classes], without its last activation."""
    keras.utils.set_random_seed(4)
    x = keras.Input((size, size, 3))
    a = layers.Conv2D(4, 3, stride, padding="same", activation="relu")(x)
    if resize == "transposed":
        a = layers.Conv2DTranspose(4, 4, 4, activation="relu", bias_initializer="random_normal")(a)
    a = layers.Conv2D(classes, 1, bias_initializer="random_normal")(a)
    if resize in ("bilinear", "nearest"):
        a = layers.UpSampling2D(4, interpolation=resize)(a)
    return keras.Model(x, a)


@pytest.mark.parametrize(
    "form", [(1, ""), (4, ""), (8, ""), (4, "transposed"), (4, "bilinear"), (4, "nearest")]
)
def test_the_map_of_a_region_is_the_mean_of_its_pixels_maps(form, x):
    logits, x = segmentation(*form), x[:1].repeat(2, 1).repeat(2, 2)
    model = keras.Model(logits.input, layers.Softmax()(logits.output))
    scores = model(x)[0].numpy()
    stride = 16 // len(scores)
    for method, composite in (
        ("lrp", "zplus"), ("lrp", "epsilon"), ("lrp", "epsilon_plus_flat"),
        ("lrp", "epsilon_alpha2_beta1"), ("gradient", "auto"),
    ):  # fmt: skip
        explainer = Explainer(model, method, composite, target=1)
        whole = explainer(x, region=MASK)
        pixels = [explainer(x, at=(row, column)) for row, column in np.argwhere(MASK).tolist()]
        mean = np.mean([one.relevance for one in pixels], 0)
        atol = 1e-5 * np.abs(mean).max()
        np.testing.assert_allclose(whole.relevance, mean, atol=atol, rtol=0, err_msg=composite)
        np.testing.assert_allclose(
            whole.scores, np.mean([one.scores for one in pixels], 0), atol=1e-6
        )
        np.testing.assert_allclose(pixels[3].scores[0], scores[3 // stride, 7 // stride], atol=1e-6)
        if composite == "epsilon":
            (account,) = whole.accounts.values()
            assert account.reached + account.biases == pytest.approx(account.started, rel=1e-3)
    expected = gradient_of(lambda a: logits(a)[0, 3 // stride, 4 // stride, 1], x)
    ours = Explainer(model, "gradient", target=1)(x, at=(3, 4)).relevance
    assert_near(ours, expected, 1e-5)


@pytest.mark.parametrize("composite", COMPOSITES.known())
def test_every_composite_explains_a_region_by_the_mean_of_its_pixels(composite, rng):
    x = rng.normal(size=(1, 48, 48, 3)).astype(np.float32)
    region = np.zeros((48, 48), bool)
    region[10:20, 20] = region[40, 40] = True
    explainer = Explainer(
        segmentation(16, size=48), composite=composite, target=1, low=-6.0, high=6.0
    )
    whole = explainer(x, region=region)
    pixels = [explainer(x, at=at).relevance for at in ((10, 20), (16, 20), (40, 40))]
    mean = np.average(pixels, 0, weights=[6, 4, 1])
    np.testing.assert_allclose(whole.relevance, mean, atol=1e-5 * np.abs(mean).max(), rtol=0)
    # the others lose relevance, or add to it, at neurons with contributions of one sign
    if composite not in ("zplus", "epsilon_alpha2_beta1", "epsilon_alpha2_beta1_flat"):
        (account,) = whole.accounts.values()
        assert account.reached + account.biases == pytest.approx(account.started, rel=1e-3)


@compiled()
def test_places_regions_and_classes_do_not_retrace(x):
    explainer = Explainer(segmentation(), labels=["background", "cat", "dog"])
    x = x.repeat(2, 1).repeat(2, 2)
    for place in range(100):
        explainer(x, place % 3, at=divmod(place, 16))
    explainer(x, ["cat", "top1"], region=MASK)
    explainer(x)
    assert explainer.traces == 1
    several = explainer(x[:1], ["cat", "dog", "all"], at=(5, 5))
    for number, target in enumerate(("cat", "dog", "all")):
        expected = explainer(x[:1], target, at=(5, 5)).relevance[0]
        np.testing.assert_allclose(several.relevance[number], expected, atol=1e-6)


def flood(classes, start):
    """The places of the same class that are reached from one by their sides, as a mask."""
    found, left = np.zeros(classes.shape, bool), [start]
    while left:
        row, column = left.pop()
        found[row, column] = True
        for near in ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)):
            inside = all(0 <= n < size for n, size in zip(near, classes.shape, strict=True))
            if inside and not found[near] and classes[near] == classes[row, column]:
                left.append(near)
    return found


def test_without_a_place_the_largest_region_is_explained(rng):
    x = keras.Input((24, 20, 3))
    model = keras.Model(x, layers.Rescaling(4)(x))  # the colours are the logits
    batch = rng.normal(size=(3, 24, 20, 3)).astype(np.float32)
    batch[:, 3:20, 4:6, 2] += 5
    batch[:, 18:20, 4:16, 2] += 5
    batch[1:, ..., 0] += 9
    batch[1, 2:4, 7:12, 1] += 30
    explainer = Explainer(
        model, "gradient", labels=["background", "cat", "dog"], scores="probabilities"
    )
    found = explainer(batch)
    for picture, classes in enumerate(batch.argmax(-1)):
        regions, seen = [], np.zeros(classes.shape, bool)
        for place in np.ndindex(classes.shape):
            if not seen[place]:
                regions.append(flood(classes, place))
                seen |= regions[-1]
        largest = max([r for r in regions if classes[r][0] != 0] or regions, key=np.sum)
        assert (found.region[picture] == largest).all()
        mean = (4 * batch)[picture][largest].mean(0)
        np.testing.assert_allclose(found.scores[picture], mean, rtol=1e-4)
    assert (found.inside <= 1.0001).all() and (found[1:].region == found.region[1:]).all()
    np.testing.assert_allclose(explainer.scores(batch), found.scores, rtol=1e-5)


@pytest.mark.parametrize("shape", [(16, 16, 1), (16, 16)])
def test_a_mask_has_two_classes(x, shape):
    logits, x = segmentation(classes=1), x[:1].repeat(2, 1).repeat(2, 2)
    p = layers.Activation("sigmoid")(logits.output)
    model = keras.Model(logits.input, layers.Reshape(shape)(p))
    explainer = Explainer(model, "gradient", target="top1")
    expected = model(x)[0].numpy().reshape(16, 16)
    for at in ((2, 3), (9, 9)):
        found = explainer(x, at=at)
        np.testing.assert_allclose(found.scores[0], [1 - expected[at], expected[at]], atol=1e-6)
        slope = gradient_of(lambda a, at=at: logits(a)[0, at[0], at[1], 0], x)
        slope *= 1 if expected[at] > 0.5 else -1
        np.testing.assert_allclose(found.relevance, slope, atol=1e-5)
    assert (expected[explainer(x).region[0]] > 0.5).all()


def test_wrong_places_are_refused(x, detector):
    explainer, pictures = Explainer(segmentation()), x.repeat(2, 1).repeat(2, 2)
    for place, expected in (
        ({"at": (16, 0)}, "16 rows"), ({"at": (-1, 0)}, "no pixel"),
        ({"at": (1.5, 2)}, "whole numbers"), ({"at": 5}, "row, column"),
        ({"region": MASK[:4]}, "truth values .16, 16"), ({"region": ~MASK & MASK}, "no pixel"),
        ({"region": 255 * MASK.astype(np.uint8)}, "mask > 0"),
        ({"at": (1, 1), "region": MASK}, "both"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=expected):
            explainer(pictures, **place)
    with pytest.raises(UsageError, match="whole picture"):
        Explainer(detector, output="vector")(x, at=(1, 1))


def test_a_vector_among_several_outputs_is_explained_as_ever(detector, x):
    alone = keras.Model(detector.inputs, detector.output["vector"])
    ours, expected = Explainer(detector, output="vector")(x), Explainer(alone)(x)
    np.testing.assert_array_equal(Explainer(detector)(x).scores, ours.scores)
    np.testing.assert_allclose(ours.scores.sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(ours.relevance, expected.relevance, atol=1e-6)
    assert "corners" not in {node.layer for node in build_graph(detector, "vector").nodes}


def test_wrong_outputs_are_refused(detector):
    for options, kind, expected in (
        ({"output": "region"}, UsageError, "Did you mean 'regions'"),
        ({"output": 3}, UsageError, "Its outputs 0 to 2 are: 'boxes'"),
        ({"output": 1.5}, UsageError, "by name or position"),
        ({"output": "boxes"}, DamagedInputError, "classes for every place"),
    ):
        with pytest.raises(kind, match=expected):
            Explainer(detector, **options)


def test_a_loaded_network_has_the_output_that_is_named(detector, x, tmp_path):
    model = keras.Model(detector.inputs, detector.output)
    model.save(tmp_path / "net.keras")
    model.export(tmp_path / "net", verbose=False)
    expected = Explainer(detector, output="regions", target=1)(x, at=(3, 5))
    for name in ("net.keras", "net"):
        with pytest.raises(UsageError, match="Did you mean 'regions'"):
            load_network(str(tmp_path / name), output="region")
        network = load_network(str(tmp_path / name), preprocess="none", output="regions")
        found = Explainer(network.model, target=1)(x, at=(3, 5))
        np.testing.assert_allclose(found.scores, expected.scores, atol=1e-6)
        np.testing.assert_allclose(found.relevance, expected.relevance, atol=1e-5)


def test_labels_are_those_of_the_output_that_is_named():
    scores, boxes = (load_network("shapes_detector", output=one) for one in ("scores", "boxes"))
    assert len(scores.labels) == scores.model.output_shape[-1] and boxes.labels is None


def test_outputs_without_names_are_chosen_in_python(monkeypatch):
    own = type("Own", (keras.Model,), {})()
    monkeypatch.setitem(NETWORKS, "own", SimpleNamespace(load=lambda *_: Network("own", own)))
    assert load_network("own").model is own
    with pytest.raises(UsageError, match=r"subclassed .* Explainer\(model, output"):
        load_network("own", output="regions")


ROWS, COLUMNS, STRIDE, CLASSES = 4, 6, 4, 3


def boxes_detector():
    """A detector of random weights: a box and three scores in each of 4 x 6 cells."""
    keras.utils.set_random_seed(5)
    x = image = keras.Input((ROWS * STRIDE, COLUMNS * STRIDE, 3))
    for filters in (8, 12):
        x = layers.Conv2D(filters, 3, 2, "same", activation="relu", bias_initializer="ones")(x)
    x = layers.Conv2D(12, 3, padding="same", activation="relu")(x)
    logits = layers.Conv2D(CLASSES, 1, kernel_initializer="normal")(x)
    scores = layers.Activation("sigmoid")(layers.Reshape((-1, CLASSES))(logits))
    grid = np.stack(np.meshgrid(np.arange(ROWS), np.arange(COLUMNS), indexing="ij"), -1)
    middles = np.concatenate([grid, grid], -1) * STRIDE + STRIDE / 2
    sides = layers.Conv2D(4, 1, activation="softplus", bias_initializer="ones")(x)
    boxes = layers.Rescaling([-1, -1, 1, 1], middles.tolist())(sides)
    boxes = layers.Reshape((-1, 4))(boxes)
    return keras.Model(image, {"boxes": boxes, "scores": scores})


@pytest.fixture(scope="module")
def model():
    return boxes_detector()


@pytest.fixture
def pictures(rng):
    return rng.normal(size=(2, ROWS * STRIDE, COLUMNS * STRIDE, 3)).astype(np.float32)


def overlap(one, other):
    height = min(one[2], other[2]) - max(one[0], other[0])
    shared = max(height, 0) * max(min(one[3], other[3]) - max(one[1], other[1]), 0)
    area = lambda box: (box[2] - box[0]) * (box[3] - box[1])  # noqa: E731
    return shared / (area(one) + area(other) - shared)


def at_place(model, place, label, **options):
    """The explainer of the same network, which gives the scores at one place alone."""
    alone = keras.Model(model.inputs, model.output["scores"][:, place])
    return Explainer(alone, target=label, scores="probabilities", **options)


def chosen_by_hand(boxes, scores, top):
    kept = []
    for place in np.argsort(-scores.max(1), kind="stable"):
        if len(kept) < top and all(overlap(boxes[place], boxes[one]) <= 0.5 for one in kept):
            kept.append(place)
    return kept


def test_the_boxes_are_the_best_that_do_not_overlap(model, pictures):
    found = Explainer(model).detections(pictures, top=3, threshold=0)
    boxes, scores = (model(pictures)[name].numpy() for name in ("boxes", "scores"))
    for picture in range(2):
        places = chosen_by_hand(boxes[picture], scores[picture], 3)
        assert found.places[picture].tolist() == places
        np.testing.assert_allclose(found.boxes[picture], boxes[picture, places], rtol=1e-5)
        np.testing.assert_allclose(found.scores[picture], scores[picture, places].max(1), rtol=1e-5)
        assert found.labels[picture].tolist() == scores[picture, places].argmax(1).tolist()
    assert found.count.tolist() == [3, 3]


@pytest.mark.parametrize("composite", ["zplus", "epsilon", "epsilon_plus_flat"])
def test_a_map_is_that_of_its_place_alone(model, pictures, composite):
    found = Explainer(model, composite=composite).detections(pictures, top=2, threshold=0)
    for picture, box in ((0, 0), (0, 1), (1, 1)):
        place, label = int(found.places[picture, box]), int(found.labels[picture, box])
        alone = at_place(model, place, label, composite=composite)
        expected = alone(pictures[picture : picture + 1])
        np.testing.assert_allclose(found.maps[picture, box], expected.relevance[0], atol=1e-6)
        account = expected.accounts[composite]
        assert found.taken[picture, box] == pytest.approx(account.biases[0], abs=1e-6)
    signs = np.where(found.scores < 0.5, -1 if composite == "epsilon" else 1, 1)
    reached = found.maps.sum((2, 3, 4)) + found.taken
    np.testing.assert_allclose(reached, signs * found.scores, rtol=0.02)


def test_the_gradient_of_a_box_is_that_of_its_logit(model, pictures):
    found = Explainer(model, method="gradient").detections(pictures, top=2, threshold=0)
    for box in range(2):
        with tf.GradientTape() as tape:
            x = tf.constant(pictures)
            tape.watch(x)
            scores = tf.gather(model(x)["scores"], found.places[:, box], batch_dims=1)
            scores = tf.gather(scores, found.labels[:, box], batch_dims=1)
            logits = tf.math.log(scores / (1 - scores))
        np.testing.assert_allclose(found.maps[:, box], tape.gradient(logits, x), atol=1e-4)


def test_boxes_start_at_their_own_score_unless_classes_are_named():
    found = SimpleNamespace(pictures=tf.constant([0, 0]), labels=tf.constant([2, 1]))
    for name, weights in (("all", [[0, 0, 1], [0, 1, 0]]), ("1 - 0", [[-1, 1, 0]] * 2)):
        target = detections.target_of_drawn(found, TargetResolver(CLASSES)(name).tensors())
        np.testing.assert_array_equal(target.weights, weights)
        assert not target.rest.numpy().any() and not target.by_probability.numpy().any()


def test_grad_cam_weights_what_boxes_and_scores_share(model, pictures):
    """As Selvaraju et al. 2017 at the last convolution before both heads."""
    found = Explainer(model, method="grad_cam").detections(pictures, top=1, threshold=0)
    shared = [one for one in model.layers if one.output.shape[-1] == 12][-1].output
    with tf.GradientTape() as tape:
        maps, scores = keras.Model(model.input, [shared, model.output["scores"]])(pictures)
        score = tf.gather(scores, found.places[:, 0], batch_dims=1)
        score = tf.gather(score, found.labels[:, 0], batch_dims=1)
        logit = tf.math.log(score / (1 - score))
    weights = tf.reduce_mean(tape.gradient(logit, maps), [1, 2], keepdims=True)
    cam = tf.image.resize(tf.nn.relu(tf.reduce_sum(weights * maps, -1, True)), pictures.shape[1:3])
    np.testing.assert_allclose(found.maps[:, 0].sum(-1), cam[..., 0], atol=1e-5)
    assert cam.numpy().max() > 0


def best_cells(cells):
    """The six cells with the largest entries, of each picture."""
    best = keras.ops.top_k(keras.ops.max(cells, -1), 6)[1]
    first = 24 * keras.ops.arange(keras.ops.shape(cells)[0], dtype="int32")
    return keras.ops.take(keras.ops.reshape(cells, (-1, 8)), best + first[:, None], 0)


def test_boxes_of_a_network_that_picks_places_of_each_picture(pictures):
    """Where it picks is counted over the batch, which boxes and several targets make longer."""
    keras.utils.set_random_seed(5)
    image = keras.Input(pictures.shape[1:])
    cells = layers.Reshape((24, 8))(layers.Conv2D(8, STRIDE, STRIDE)(image))
    queries = layers.Lambda(best_cells, output_shape=(6, 8))(cells)
    scores = layers.Dense(CLASSES, "sigmoid", name="scores")(queries)
    apart = [[3, 4 * n, 13, 4 * n + 3] for n in range(6)]
    boxes = layers.Rescaling(0.1, apart)(layers.Dense(4)(queries))
    model = keras.Model(image, {"boxes": boxes, "scores": scores})
    found = Explainer(model, method="gradient").detections(pictures, top=2, threshold=0)
    for picture, box in ((0, 0), (0, 1), (1, 1)):
        place, label = int(found.places[picture, box]), int(found.labels[picture, box])
        alone = at_place(model, place, label, method="gradient")
        expected = alone(pictures[picture : picture + 1]).relevance[0]
        np.testing.assert_allclose(found.maps[picture, box], expected, atol=1e-6)
    targets = alone(pictures[:1], target=[0, label])
    np.testing.assert_allclose(targets.relevance[1], alone(pictures[:1]).relevance[0], atol=1e-6)


def test_a_call_explains_the_surest_box(model, pictures):
    explanation = Explainer(model, target="top1")(pictures)
    found = Explainer(model).detections(pictures, top=1, threshold=0)
    assert explanation.scores.argmax(1).tolist() == found.labels[:, 0].tolist()
    np.testing.assert_allclose(explanation.relevance, found.maps[:, 0], atol=1e-6)


def test_layers_scores_and_channels_of_one_box(model, pictures):
    explainer = Explainer(model, composite="zplus")
    found, layer = explainer.detections(pictures, top=2, threshold=0), explainer.concept_layer
    place, label = int(found.places[1, 1]), int(found.labels[1, 1])
    alone = at_place(model, place, label, composite="zplus")
    x = pictures[1:]
    np.testing.assert_allclose(
        explainer.layers(x, label, place=place)[-1].handed_down[0], alone(x).relevance, atol=1e-6
    )  # the first layer hands it to the picture
    np.testing.assert_allclose(explainer.scores(x, place), alone.scores(x), rtol=1e-5)

    def drawn(before, near):
        reduced = lambda maps: (maps[..., 0], *[tf.reduce_sum(maps, [1, 2, 3])] * 3)  # noqa: E731
        run = explainer.compile_pipeline(before, reduced, layer, 2)
        return run(np.zeros(x.shape, np.uint8), None, None, near).of_layer

    for near, box in ((found.boxes[1, 1:, [1, 0, 3, 2]].T, 1), (NOWHERE, 0)):
        of_layer = drawn(lambda _: tf.constant(x), near)
        own = int(found.places[1, box]), int(found.labels[1, box])
        alone = at_place(model, *own, composite="zplus")
        expected = alone.concepts(x, layer, 2)
        assert of_layer.channels.numpy().tolist() == expected.channels.tolist()
        np.testing.assert_allclose(of_layer.maps, expected.maps, atol=1e-6)


def test_concepts_are_channels_that_scores_depend_on(model):
    """So the last layer of the boxes is none: it was the default, and no sidecar was written."""
    layers = Explainer(model).concept_layers
    assert list(layers) == [one.name for one in model.layers if "conv2d" in one.name][:3]


def test_rows_below_the_threshold_are_zero(model, pictures):
    explainer = Explainer(model)
    all_of_them = explainer.detections(pictures, top=4, threshold=0)
    between = float(np.sort(all_of_them.scores.ravel())[3:5].mean())
    some = explainer.detections(pictures, top=4, threshold=between)
    kept = all_of_them.scores >= between
    assert some.count.tolist() == kept.sum(1).tolist() and 0 < kept.sum() < 8
    for name in ("boxes", "labels", "scores", "places", "maps", "taken", "inside"):
        one, whole = getattr(some, name), getattr(all_of_them, name)
        np.testing.assert_array_equal(one[kept], whole[kept])
        assert not one[~kept].any()
    assert [one.traces for one in explainer._functions.values()] == [1]


def test_boxes_outside_the_picture_and_nan_are_not_drawn():
    boxes = np.float32([[[-9, 0, -1, 8], [0, 70, 9, 80], [5, 5, 5, 9], [np.nan, 0, 9, 9],
                         [-5, -5, 3, 3], [20, 20, 40, 40]]])  # fmt: skip
    scores = np.float32([[[0.9], [0.8], [0.7], [0.9], [0.6], [0.5]]])
    tensors = dict(enumerate(map(tf.constant, (np.zeros((1, 48, 64, 3)), boxes, scores))))
    found = detections.drawn_of(tensors, Ends(1, 2, 3), TargetResolver(1)("all"))
    assert found.places.numpy().tolist() == [4, 5] and found.sure.numpy().all()
    np.testing.assert_allclose(found.scores.numpy(), [0.6, 0.5])


def test_fewer_boxes_than_asked_for(rng):
    boxes = tf.constant(np.tile([[[0, 0, 4, 4]]], (1, 5, 1)), tf.float32)
    places, values = detections.best_boxes(boxes, tf.constant([[0.1, 0.3, 0.9, 0.2, 0.4]]), 3)
    assert places.numpy()[0, 0] == 2
    np.testing.assert_allclose(values.numpy(), [[0.9, 0, 0]])
    boxes = tf.constant([[[0, 0, 10, 10], [0, 0, 6, 10], [0, 0, 4, 10]]], tf.float32)
    places, _ = detections.best_boxes(boxes, tf.constant([[0.9, 0.8, 0.7]]), 2)
    assert places.numpy().tolist() == [[0, 2]], "0.6 is more than half in common, 0.4 is not"


def test_the_share_inside_counts_positive_relevance_of_pixels():
    """By hand: channels are summed first; a pixel belongs to a box that covers its middle."""
    one = np.zeros((1, 4, 4, 2), np.float32)
    one[0, 1, 1] = 2, 1  # inside: 3
    one[0, 3, 3] = 1, 0  # outside: 1
    one[0, 0, 0] = 5, -6  # negative
    assert detections.share_inside(one, np.float32([[1.6, 0, 3, 4]])).numpy() == 0
    assert detections.share_inside(one, np.float32([[0.5, 0.5, 2, 2]])).numpy() == pytest.approx(
        [0.75]
    )
    assert detections.share_inside(one * 0, np.float32([[0, 0, 4, 4]])).numpy() == 0


def test_what_cannot_be_asked_is_refused(model, pictures):
    with pytest.raises(UsageError, match="top from 1 to 24"):
        Explainer(model).detections(pictures, top=25)
    with pytest.raises(UsageError, match="from 0 to 1"):
        Explainer(model).detections(pictures, threshold=1.5)
    with pytest.raises(UsageError, match="changed pictures"):
        Explainer(model, method="smoothgrad").detections(pictures)
    with pytest.raises(DamagedInputError, match=r"boxes .24, 5. and scores .24, 3. .*Expected"):
        far = layers.Dense(5)(model.output["boxes"])
        Explainer(keras.Model(model.input, model.output | {"boxes": far}))
    with pytest.raises(DamagedInputError, match=r"of a detector two outputs 'boxes' and 'scores'"):
        Explainer(keras.Model(model.input, dict(zip(("reg", "cls"), model.outputs, strict=True))))
    image = keras.Input((8, 8, 3))
    classifier = keras.Model(image, layers.Dense(2)(layers.Flatten()(image)))
    with pytest.raises(UsageError, match="no detector"):
        Explainer(classifier).detections(np.zeros((1, 8, 8, 3), np.float32))
    with pytest.raises(NotFiniteError):
        Explainer(model).detections(np.full_like(pictures, 3e38))
