"""What the outputs of an ONNX file are taken for: boxes, classes, or nothing that is known."""

from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_files import node, written

from realtime_lrp import Explainer, load_network
from realtime_lrp.errors import DamagedInputError
from realtime_lrp.video.reader import VideoReader

F = np.float32
PLACES, CLASSES = 48, 3
SHAPE = [1, 3, 12, 16]
FOLDERS = (one / "shared" / "models" for one in Path(__file__).resolve().parents)
SHARED = next(filter(Path.is_dir, FOLDERS), None)
needs_files = pytest.mark.skipif(SHARED is None, reason="real files are not beside the checkout")


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(F)


def begin(classes=CLASSES):
    """Nodes and constants of middles, sizes, corners in pixels and logits at 48 places."""
    rows, columns = np.mgrid[:6, :8].reshape(2, 1, PLACES, 1)
    arrays = {
        "w": numbers(8, 3, 2, 2), "head": numbers(4 + classes, 8, 1, 1, seed=1),
        "bias": np.zeros(4 + classes, F),
        "grid": np.concatenate([columns, rows], -1).astype(F) * 2 + 1, "half": F(0.5),
        "flat": np.array([1, 4 + classes, PLACES]), "parts": np.array([2, 2, classes]),
        "extent": F([16, 12, 16, 12]), "many": np.array([9]), "third": F([0.3]), "wide": F(4),
        "one": np.array([1]), "two": np.array([2]), "to": np.array([1, 9, 4]),
    }  # fmt: skip
    nodes = [
        node("Conv", "x w", "a", strides=[2, 2]), node("Relu", "a", "b"),
        node("Conv", "b head bias", "c"), node("Reshape", "c flat", "d"),
        node("Transpose", "d", "e", perm=[0, 2, 1]), node("Split", "e parts", "m s logits", axis=2),
        node("Tanh", "m", "m1"), node("Add", "m1 grid", "middle"), node("Sigmoid", "s", "s1"),
        node("Mul", "s1 wide", "size"), node("Mul", "size half", "r"),
        node("Sub", "middle r", "low"), node("Add", "middle r", "high"),
        node("Concat", "low high", "corners", axis=2), node("Sigmoid", "logits", "scores"),
    ]  # fmt: skip
    return nodes, arrays


LAST = {
    "corners": ([node("Identity", "corners", "boxes")], {"boxes": [1, PLACES, 4], "scores": None}),
    "middle": (
        [node("Concat", "middle size", "z", axis=2), node("Div", "z extent", "pred_boxes")],
        {"logits": None, "pred_boxes": [1, PLACES, 4]},
    ),
    "yolov5": ([node("Concat", "middle size scores", axis=2)], {"out": [1, PLACES, 7]}),
    "yolo and angles": (
        [node("Concat", "middle size scores m1", "y", axis=2),
         node("Transpose", "y", "out", perm=[0, 2, 1])],
        {"out": [1, 9, PLACES]},
    ),
    "end to end": (
        [node("ReduceMax", "scores two", "best", keepdims=0), node("TopK", "best many", "v i"),
         node("Unsqueeze", "i two", "i1"), node("Expand", "i1 to", "i4"),
         node("GatherElements", "corners i4", "near", axis=1), node("Unsqueeze", "v two", "v1"),
         node("ArgMax", "scores", "n", axis=2, keepdims=0),
         node("GatherElements", "n i", "n1", axis=1),
         node("Cast", "n1", "n2", to=1), node("Unsqueeze", "n2 two", "n3"),
         node("Concat", "near v1 n3", axis=2)],
        {"out": [1, 9, 6]},
    ),
    "suppressed": (
        [node("Transpose", "scores", "t", perm=[0, 2, 1]),
         node("NonMaxSuppression", "corners t many third", "kept")],
        {"kept": ["n", 3]},
    ),
}  # fmt: skip
"""Form -> its last nodes and its outputs."""


def detector_file(path, form, background=""):
    nodes, arrays = begin(2 if background else CLASSES)
    last, outputs = LAST[form]
    if background:
        nodes[-1] = node("Softmax", "logits", "scores", axis=2)
        arrays["bias"][4 if background == "first" else 5] = 1
    return written(path, [*nodes, *last], arrays, SHAPE, outputs, opset=18)


@pytest.mark.parametrize(
    ("form", "background"),
    [*((one, "") for one in LAST), ("corners", "first"), ("corners", "last")],
)
def test_boxes_and_scores_are_found(tmp_path, rng, form, background, caplog):
    """In each form that exporters write: as ONNX computes them; relevance adds up to the score."""
    path = detector_file(tmp_path / "net.onnx", form, background)
    network = load_network(path, preprocess="none")
    assert "a detector" in caplog.text
    x = rng.normal(size=(1, 12, 16, 3)).astype(F)
    model = onnx.load(path)
    del model.graph.output[:]
    model.graph.output.extend(
        onnx.helper.make_tensor_value_info(name, 1, None) for name in ("corners", "scores")
    )
    boxes, scores = ReferenceEvaluator(model).run(None, {"x": x.transpose(0, 3, 1, 2)})
    if form == "yolov5":
        scores = scores[..., :1] * scores[..., 1:]
    if background:
        scores = scores[..., 1:] if background == "first" else scores[..., :1]
    found = network.model(x)
    np.testing.assert_allclose(found["boxes"], boxes[..., [1, 0, 3, 2]], atol=1e-4)
    np.testing.assert_allclose(found["scores"], scores, atol=1e-5)
    best = Explainer(network, composite="epsilon").detections(x, top=1, threshold=0)
    place, label = divmod(scores[0].argmax(), scores.shape[2])
    assert (best.places[0, 0], best.labels[0, 0]) == (place, label)
    assert best.maps.sum() + best.taken[0, 0] == pytest.approx(scores.max(), rel=0.02)
    names = load_network(path, preprocess="none", labels=["none", "face"]).labels
    assert names == {"first": ["face"], "last": ["none"]}.get(background, ["none", "face"])


def test_yolo_of_a_single_class_is_a_detector(tmp_path):
    """The most usual network that people train themselves; with columns behind the scores."""
    nodes, arrays = begin(1)
    path = written(
        tmp_path / "net.onnx", [*nodes, *LAST["yolo and angles"][0]], arrays, SHAPE,
        {"out": [1, 7, PLACES]}, opset=18,
    )  # fmt: skip
    assert load_network(path, preprocess="none").model.output["scores"].shape == (None, PLACES, 1)


REFUSED = {
    "boxes that are chosen": (
        [node("ReduceMax", "scores two", "best", keepdims=0), node("Greater", "best third", "sure"),
         node("NonZero", "sure", "kept")],
        {"scores": [1, PLACES, 2], "kept": None}, "whose form is not known",
    ),
    "offsets": (
        [node("Transpose", "d", "q", perm=[0, 2, 1]), node("Slice", "q zero four two", "boxes")],
        {"boxes": [1, PLACES, 4], "scores": None}, "are offsets to places",
    ),
    "cells": (
        [node("Reshape", "d map", "q"), node("Split", "q some", "q1 q2", axis=1),
         node("Sigmoid", "q1", "q3"), node("Concat", "q3 q2", axis=1)],
        {"out": [1, 7, 6, 8]}, "made in several ways",
    ),
    "coarse cells": (
        [node("Conv", "x w", "out", strides=[16, 16])],
        {"out": [1, 8, 4, 4]}, "stands for 16 pixels or more",
    ),
    "two grids": (
        [node("Identity", "c", "large"), node("MaxPool", "c", "small", kernel_shape=[2, 2])],
        {"large": None, "small": None}, "grids of several sizes",
    ),
    "classes, objects and boxes": (
        [node("Slice", "scores zero one two", "obj")],
        {"scores": None, "obj": [1, PLACES, 1], "corners": None}, "the same 48 places",
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", REFUSED)
def test_what_may_be_a_detector_of_no_known_form_is_refused(tmp_path, form):
    """In one sentence; naming an output explains it, at a place."""
    nodes, arrays = begin()
    last, outputs, words = REFUSED[form]
    arrays |= {
        "zero": np.array([0]), "four": np.array([4]), "two": np.array([2]),
        "map": np.array([1, 7, 6, 8]), "some": np.array([2, 5]),
    }  # fmt: skip
    shape = [1, 3, 64, 64] if form == "coarse cells" else SHAPE
    path = written(tmp_path / "net.onnx", [*nodes, *last], arrays, shape, outputs, opset=18)
    with pytest.raises(DamagedInputError, match=words) as raised:
        load_network(path, preprocess="none")
    assert "--output" in str(raised.value) and len(str(raised.value).splitlines()) <= 2
    name = next(iter(outputs))
    assert not load_network(path, preprocess="none", output=name).detects


ANSWERS = {
    "best": ([node("Softmax", "v", "p"), node("TopK", "p three", "best which")],
             ["best", "which"], "p"),
    "winner": ([node("ArgMax", "v", "winner", axis=1)], ["winner"], "v"),
    "beside": ([node("Relu", "v", "features"), node("Identity", "v", "label_scores")],
               ["features", "label_scores"], "v"),
    "first": ([node("Relu", "v", "one"), node("Neg", "v", "other")], ["one", "other"], "one"),
    "odd": ([node("Reshape", "v odd", "out")], ["out"], "v"),
}  # fmt: skip


@pytest.mark.parametrize("form", ANSWERS)
def test_the_output_that_looks_like_the_answer_is_explained(tmp_path, rng, form, caplog):
    """Before the best are chosen; by its name; else the first. Which one is said."""
    last, outputs, answer = ANSWERS[form]
    arrays = {"w": numbers(5, 3, 2, 2), "three": np.array([3]), "odd": np.array([1, 1, 5, 1])}
    nodes = [
        node("Conv", "x w", "a"), node("GlobalAveragePool", "a", "b"), node("Flatten", "b", "v"),
        *last,
    ]  # fmt: skip
    outputs = dict.fromkeys(outputs)
    path = written(tmp_path / "net.onnx", nodes, arrays, SHAPE, outputs, opset=17)
    network = load_network(path, preprocess="none")
    assert ("is the output" in caplog.text) == (form != "odd")
    model = onnx.load(path)
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_tensor_value_info(answer, 1, None))
    x = rng.normal(size=(2, 12, 16, 3)).astype(F)
    for one, found in zip(x, network.model(x), strict=True):
        (expected,) = ReferenceEvaluator(model).run(None, {"x": one[None].transpose(0, 3, 1, 2)})
        np.testing.assert_allclose(found, expected[0], atol=1e-5)


@needs_files
def test_a_real_face_detector_finds_the_face():
    """Its boxes are corners from 0 to 1, the first of its two classes is the background."""
    network = load_network(str(SHARED / "face_slim_320.onnx"), preprocess="-1..1")
    explainer = Explainer(network, composite="epsilon_plus_flat")
    with VideoReader(SHARED.parent / "media" / "person.mkv") as frames:
        pictures = [cv2.resize(one.picture, (320, 240)) for one in frames][::10]
    for number, picture in enumerate(pictures):
        found = explainer.detections(network.prepare(picture[None]), top=1)
        assert found.count[0] == 1 and found.scores[0, 0] > 0.7
        if number == 3:
            assert found.scores[0, 0] == pytest.approx(0.995, abs=2e-3)
            y0, x0, y1, x1 = found.boxes[0, 0] / [240, 320, 240, 320]
            np.testing.assert_allclose([x0, x1, y0, y1], [0.428, 0.513, 0.210, 0.365], atol=3e-3)
            assert found.inside[0, 0] > 0.5


@needs_files
@pytest.mark.parametrize(
    ("name", "words"),
    [("face_slim_320_raw", "are offsets to places"), ("FastestDet", "Grid cells are not classes")],
)
def test_real_files_without_their_decoding_are_refused(name, words):
    """Nothing is drawn at wrong places."""
    with pytest.raises(DamagedInputError, match=words):
        load_network(str(SHARED / "guests" / f"{name}.onnx"))
