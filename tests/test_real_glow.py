"""Real networks glow in every door: the same map, as bright. The long tests of test_view.py.

The named networks have random weights, and biases as training leaves them; real weights are used
where they lie beside the checkout.
"""

import subprocess
from urllib.request import urlopen

import av
import cv2
import keras
import numpy as np
import pytest
from faults.clock import until
from media import SHARED, needs_files
from program import screenshot, start

from realtime_lrp import Network, config
from realtime_lrp.config.applications import APPLICATIONS
from realtime_lrp.engine import engine as engines
from realtime_lrp.engine.boxes import painted
from realtime_lrp.engine.result import ConceptRequest
from realtime_lrp.relevance.maps.account import State
from realtime_lrp.relevance.reading.building import build_graph
from realtime_lrp.relevance.rules.composites import COMPOSITES
from realtime_lrp.view.painting import lay_over

pytestmark = pytest.mark.release


SIDE = 96  # pixels of the input, so that a network takes seconds
MOST_MB = 600  # of weights; explaining takes about three times as much, and NASNetLarge minutes

SQUEEZENET = 199.0  # how bright the map of SqueezeNet 1.0 is on a photo of a cat, see `brightness`


def brightness(picture):
    """The mean colour of the most colourful hundredth of a grey picture with a map: 0 to 255."""
    colours = np.sort(np.ptp(picture.astype(int), axis=-1), axis=None)
    return colours[-len(colours) // 100 :].mean()


def drawn(engine, picture):
    """The explanation of a picture, and the picture with its map."""
    (result,) = engine.explain([picture])
    return result, lay_over(picture, painted(engine, picture, result).overlays[0])


def blurred_noise():
    noise = np.random.default_rng(0).integers(0, 256, (12, 12), np.uint8)
    return np.dstack([cv2.resize(noise, (4 * SIDE, 4 * SIDE))] * 3)


def with_strong_biases(name):
    """A named network of random weights, whose norms and biases are as those of trained ones."""
    application = APPLICATIONS[name]
    keras.utils.set_random_seed(1)
    options = {**application.options, "input_shape": (SIDE, SIDE, 3)}
    model = getattr(keras.applications, application.builder)(weights=None, **options)
    rng = np.random.default_rng(0)
    for layer in model._flatten_layers():
        for part in ("beta", "bias"):
            values = getattr(layer, part, None)
            if values is not None and layer is not model.layers[-1]:
                values.assign(np.abs(rng.standard_normal(values.shape)) + 0.3)
        if getattr(layer, "gamma", None) is not None:
            layer.gamma.assign(rng.uniform(0.7, 1.3, layer.gamma.shape))
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = 0.0
    network = Network(name, model, application.preprocess)
    picture = cv2.resize(blurred_noise(), (SIDE, SIDE))
    model(network.prepare(np.stack([picture, picture[::-1]])), training=True)
    return network


@pytest.mark.parametrize("name", APPLICATIONS)
def test_each_named_network_glows_with_strong_biases(name, monkeypatch, caplog):
    """As SqueezeNet, but for a third; in bfloat16 the same map, unless a warning says otherwise."""
    if APPLICATIONS[name].megabytes > MOST_MB:
        pytest.skip(f"{name} is not tried: it needs more than 3 GB")
    network, maps = with_strong_biases(name), []
    monkeypatch.setattr(engines, "load", lambda *_: (network, build_graph(network.model)))
    for precision in ("float32", "bfloat16"):
        words = {"--precision": precision, "--composite": "epsilon_plus_flat", "--target": "top1"}
        engine = engines.Engine(config.load(options=words, command="live").config)
        result, shown = drawn(engine, blurred_noise())
        maps.append(result.relevance.sum(-1, dtype=np.float64).ravel())
        assert brightness(shown) > 2 / 3 * SQUEEZENET
    assert np.corrcoef(*maps)[0, 1] >= 0.999 or "bfloat16 is not good" in caplog.text


def options_of(name, **more):
    models = SHARED / "models"
    words = {
        "SqueezeNet": {"model": models / "squeezenet_v1_0.keras", "preprocess": "caffe"},
        "MobileNetV2": {
            "model": "mobilenet_v2", "weights": models / "mobilenet_v2_imagenet.weights.h5"
        },
        "MobileNetV1": {"model": models / "mobilenet_v1_0.25_128_quant.tflite"},
        "DeepLab": {
            "model": models / "deeplab_v3_mobilenet_v2_voc.keras", "preprocess": "tf",
            "labels": models / "voc_labels.txt", "at": "0.48,0.43",
        },
    }[name]  # fmt: skip
    if name in ("SqueezeNet", "MobileNetV2"):
        words["labels"] = models / "imagenet_labels.json"
    words |= {"composite": "epsilon_plus_flat", "target": "top1", "precision": "float32"} | more
    return {f"--{key}": str(value) for key, value in words.items()}


def engine_of(name, **more):
    """A real network as `live` runs it."""
    return engines.Engine(config.load(options=options_of(name, **more), command="live").config)


def grey(source, target, *words, size="480:480", square="crop='min(iw,ih)':'min(iw,ih)'"):
    """A picture or film in grey, lossless, so that all colours are those of the map."""
    filters = f"{square},scale={size},format=gray,format=bgr0"
    coder = "ffv1" if target.suffix == ".mkv" else "png"
    words = ("ffmpeg", "-v", "error", "-i", source, *words, "-vf", filters, "-c:v", coder, target)
    subprocess.run(words, check=True)
    return target


def run(*words, **options):
    with start(*words, *(one for pair in options.items() for one in pair)) as program:
        _, errors = program.communicate(timeout=1800)
        assert program.returncode == 0, errors


def frames(path):
    """The frames of a film, RGB."""
    with av.open(path) as container:
        return [one.to_ndarray(format="rgb24") for one in container.decode(video=0)]


def served(options, photo):
    words = ("serve", "--source", photo, "--port", 0, "--set", "live.text=none")
    with start(*words, *(one for pair in options.items() for one in pair)) as program:
        address = program.stdout.readline().strip().replace("/?", "/view.mjpg?")
        data = b""
        with urlopen(address, timeout=1800) as film:
            while True:
                data += film.read1()
                begin, end = data.find(b"\xff\xd8"), data.find(b"\xff\xd9")
                if begin < 0 or end < begin:
                    continue
                found = cv2.imdecode(np.frombuffer(data[begin : end + 2], np.uint8), 1)[..., ::-1]
                if np.ptp(found.astype(int), axis=-1).max() > 100:
                    return found
                data = data[end + 2 :]


@needs_files
@pytest.mark.parametrize("name", ["MobileNetV2", "MobileNetV1", "DeepLab"])
def test_the_same_picture_is_the_same_in_every_door(name, tmp_path):
    """`image`, `video`, `live` and `serve`; JPEG and H.264 have colours for each second pixel."""
    photo = grey(SHARED / "media" / "cat.jpg", tmp_path / "cat.png")
    film = grey(photo, tmp_path / "film.mkv")
    options = options_of(name)
    image, video, live = (tmp_path / one for one in ("image.png", "video.mkv", "live.mkv"))
    run("image", photo, "-o", image, **options)
    run("video", film, "-o", video, **options)
    words = ("--display", "none", "--set", "live.text=none", "--duration", "2")
    run("live", "--source", photo, "--record", live, *words, **options)
    saved = cv2.imread(str(image))[..., ::-1]
    assert brightness(saved) > 2 / 3 * SQUEEZENET
    free = slice(2, 380), slice(2, -2)  # without caption and outline
    shown = {"video": frames(video)[0], "live": frames(live)[-1], "serve": served(options, photo)}
    for door, other in shown.items():
        assert other.shape == saved.shape, door
        smooth = [cv2.blur(one[free], (5, 5)).astype(int) for one in (other, saved)]
        assert np.abs(smooth[0] - smooth[1]).mean() < 3, door
        assert brightness(smooth[0]) == pytest.approx(brightness(smooth[1]), rel=0.05), door


@needs_files
@pytest.mark.parametrize("film", ["person.mkv", "bottles.mp4"])
def test_nearly_every_frame_of_a_recorded_view_glows(film, tmp_path):
    """From the first map on, 95 % of the frames are two thirds as bright as SqueezeNet's."""
    source, found = tmp_path / "grey.mkv", {}
    grey(SHARED / "media" / film, source, "-t", "6", square="null", size="iw:ih")
    for name in ("SqueezeNet", "MobileNetV2"):
        recorded = tmp_path / f"{name}.mkv"
        words = ("--display", "none", "--set", "live.text=none", "--duration", "12")
        run("live", "--source", source, "--record", recorded, *words, **options_of(name))
        every = np.array([brightness(one) for one in frames(recorded)])
        found[name] = every[np.argmax(every > 30) :]
        assert len(found[name]) > 20 and every.max() > 30
    least = 2 / 3 * np.median(found["SqueezeNet"])
    assert np.mean(found["MobileNetV2"] > least) >= 0.95


@needs_files
@pytest.mark.gui
def test_the_exhibit_glows_on_a_person(display, tmp_path):
    """The clip of the attract page is in colour all over, this recording is grey."""
    source = grey(
        SHARED / "media" / "person.mkv", tmp_path / "grey.mkv", square="null", size="iw:ih"
    )

    def glows():
        screen = screenshot(display, tmp_path / "screen.png")[:, :800]
        is_grey = np.median(np.ptp(screen.astype(int), axis=-1)) < 10
        return is_grey and brightness(screen) > 2 / 3 * SQUEEZENET

    words = (one for pair in options_of("MobileNetV2").items() for one in pair)
    with start("kiosk", "--source", source, *words, DISPLAY=display):
        until(glows)


@needs_files
@pytest.mark.parametrize("name", ["SqueezeNet", "MobileNetV2"])
def test_a_map_that_glows_is_never_called_empty(name, tmp_path):
    """Every composite: maps are full or, where z+ loses nearly all, have vanished; none is zero."""
    picture = cv2.imread(str(grey(SHARED / "media" / "cat.jpg", tmp_path / "cat.png")))
    for composite in COMPOSITES:
        engine = engine_of(name, composite=composite)
        result, shown = drawn(engine, picture)
        expected = (State.FULL, State.VANISHED) if composite == "zplus" else (State.FULL,)
        assert result.maps[0].state in expected, composite
        assert result.maps[0].fade == 1, composite
        assert brightness(shown) > 2 / 3 * SQUEEZENET, composite


@needs_files
def test_the_channels_of_a_real_network_have_maps():
    """However little of their relevance biases leave: the four largest in each of three layers."""
    picture = cv2.imread(str(SHARED / "media" / "cat.jpg"))[..., ::-1]
    engine = engine_of("MobileNetV2")
    layers = engine.concepts.layers
    for layer in (engine.concept_layer, layers[0], layers[len(layers) // 2]):
        found = engine.begin([picture], concepts=ConceptRequest(layer))()[0].concepts
        assert len(found.maps) == 4
        assert not any(map(found.without_map, found.maps)), layer
