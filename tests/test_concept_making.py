"""Galleries of concepts: the file, names of channels, how they are made, and what is refused."""

import hashlib
from itertools import pairwise
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from realtime_lrp import config
from realtime_lrp.errors import ConfigError, DamagedInputError, UsageError
from realtime_lrp.models.gallery import (
    ChannelContents,
    Contents,
    Gallery,
    LayerContents,
    decode_picture,
    encode_picture,
    load_gallery,
    names_text,
    parse_gallery,
    read_gallery_file,
    read_names,
    write_gallery,
)

import cv2  # isort: skip
import media

from realtime_lrp.commands.concepts import ConceptOptions
from realtime_lrp.commands.concepts import run as make
from realtime_lrp.concepts.making import BATCH, HELD, RELEVANT, SIDE, Best, Making, crop, crop_box
from realtime_lrp.concepts.pictures import FilePictures
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.gallery import gallery_of

COUNT = 21


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Pictures of random patches, each another one, and one that is no picture."""
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(5)
    for number in range(COUNT):
        patches = rng.integers(0, 256, (6, 8, 3), np.uint8)
        picture = cv2.resize(patches, (64, 48), interpolation=cv2.INTER_CUBIC)
        cv2.imwrite(str(folder / f"{number:02d}.png"), picture)
    (folder / "broken.png").write_bytes(b"\x89PNG nothing")
    return folder


@pytest.fixture(scope="module")
def settings(tiny_model):
    sets = (f"model.name={tiny_model}", "model.preprocess=tf", "lrp.composite=epsilon_plus")
    return config.load(None, sets, command="concepts").config


@pytest.fixture(scope="module")
def engine(settings):
    return Engine(settings)


def test_the_best_pictures_are_those_of_a_naive_ranking(engine, photos, tmp_path):
    layer = engine.concept_layer
    making = Making(engine, FilePictures([], photos, 1.0), [layer])
    making.run()
    pictures = [cv2.imread(str(photos / f"{n:02d}.png"))[..., ::-1] for n in range(COUNT)]
    x = engine.network.prepare(
        np.stack([engine.region(one.shape[:2]).extract(one) for one in pictures])
    )
    shares = engine.explainer.concepts(x, layer, 1).by_channel
    shares = shares / np.abs(shares).sum(1, keepdims=True)
    record = next(one for one in engine.explainer.layers(x) if one.name == layer)
    active = record.output.reshape(COUNT, -1, shares.shape[1]).max(1)
    ranking = making.rankings[layer]
    for values, best in ((shares, ranking.relevant), (active, ranking.activating)):
        for channel in range(values.shape[1]):
            order = np.argsort(-values[:, channel], kind="stable").tolist()
            expected = [number for number in order if values[number, channel] > 0]
            kept = best.found["value"][channel]
            assert best.found["picture"][channel, : len(expected)].tolist() == expected
            np.testing.assert_allclose(kept[: len(expected)], values[expected, channel], rtol=1e-4)
            assert (kept[len(expected) :] <= 0).all()
    assert (making.looked, ranking.often.sum()) == (COUNT, COUNT * min(4, shares.shape[1]))
    np.testing.assert_allclose(ranking.by_class.sum(0), np.maximum(shares, 0).sum(0), rtol=1e-4)
    for neuron, (encoded, _) in [*making.crops.items()][::7]:
        picture = pictures[neuron.place[0]]
        seen = engine.region(picture.shape[:2]).extract(picture)
        at = [neuron.channel], [neuron.position]
        (relevance,) = engine.on_device(engine.explainer.position_maps, seen[None], layer, *at)
        difference = decode_picture(encoded).astype(int) - crop(seen, relevance)
        assert np.abs(difference).mean() < 6, "the crop is of this neuron"


def row_of(engine, thumbnails, places, apart=0, values=None):
    """The numbers of the pictures that a channel shows, for pictures known by their thumbnails."""
    making = Making(engine, SimpleNamespace(apart=apart), [engine.concept_layer])
    making._places, making._thumbnails = places, list(thumbnails)
    best, count = Best(2), len(places)
    values = np.arange(1, count + 1) if values is None else np.asarray(values)
    for first in range(0, count, BATCH):
        part = values[first : first + BATCH, None] * np.float32([1, -1])
        best.add(first, part.astype(np.float32), np.zeros(part.shape, np.int32))
    best.keep()
    assert making._row(0, 1, best, RELEVANT) == []  # only values above 0 count
    return [places.index(one.place) for one in making._row(0, 0, best, RELEVANT)]


def test_of_pictures_that_are_alike_only_the_best_is_shown(engine, rng):
    still = rng.integers(40, 200, 64).astype(np.uint8)
    thumbnails = [still + number % 2 for number in range(100)]
    assert row_of(engine, thumbnails, [(0, n) for n in range(100)]) == [99]
    others = rng.integers(0, 256, (20, 64)).astype(np.uint8)
    places = [(n, 0) for n in range(120)]
    assert row_of(engine, [*others, *thumbnails], places) == [119, 19, 18, 17, 16, 15]


@pytest.mark.parametrize("backwards", [False, True])
def test_of_frames_that_are_near_only_the_best_is_shown(engine, rng, backwards):
    noise = rng.integers(0, 256, (40, 64)).astype(np.uint8)
    places = [(7, n) for n in range(40)]
    values = np.zeros(40)
    values[[3, 6, 11, 20, 22, 24]] = 5, 3, 4, 1, 2, 0.5
    if backwards:
        places, values = places[::-1], values[::-1]
    assert [places[n][1] for n in row_of(engine, noise, places, 5, values)] == [3, 11, 22]
    assert len(row_of(engine, noise, [(n, 0) for n in range(40)], 5, values)) == 6
    fade = np.linspace(noise[0], noise[1], 200).astype(np.uint8)
    fade = fade[::-1] if backwards else fade
    assert len(row_of(engine, fade, [(0, n) for n in range(200)])) >= 4


def test_crops_lie_where_relevance_is():
    strength = np.zeros((60, 80), np.float32)
    strength[10:30, 40:55] = 1
    assert crop_box(strength) == (38, 10, 58, 30)  # as wide as high
    strength[0:20, 70:80] = 0
    everywhere = np.full((60, 80), 1e-4, np.float32)
    everywhere[2:12, 60:76] = 1
    x0, y0, x1, y1 = crop_box(everywhere)
    assert everywhere[y0:y1, x0:x1].sum() >= HELD * everywhere.sum()
    assert x1 - x0 == y1 - y0 < 30 and y0 == 0
    assert crop_box(np.zeros((60, 80), np.float32)) == (10, 0, 70, 60)
    everywhere = np.full((60, 60), 1e-7, np.float32)
    everywhere[11:17, 20:26] = 1  # its centre is at 14, 23
    assert crop_box(everywhere) == (18, 9, 28, 19)


@pytest.fixture(scope="module")
def uninterrupted(settings, photos, tmp_path_factory):
    target = tmp_path_factory.mktemp("whole") / "whole.concepts"
    list(make(settings, ConceptOptions(images=photos, output=target)))
    return target.read_bytes()


def test_recordings_photos_names_and_a_sheet(run, settings, photos, tmp_path):
    film, target, names = tmp_path / "f.mp4", tmp_path / "g.concepts", tmp_path / "n.yaml"
    media.write_video(film, media.numbered(25), fps=10)
    network = ("--model", settings.model.name, "--preprocess", "tf")
    code, printed, told = run(
        "concepts", *network, film, photos / "0*.png", "-o", target, "--names", names
    )
    assert code == 0, told
    assert "from 13 pictures" in printed  # 10 photos, frames at 0, 1 and 2 s
    gallery = Gallery(*read_gallery_file(target))
    (layer,) = gallery.layers
    channel = next(iter(gallery.channels(layer)))
    shown = gallery.pictures(layer, channel) or gallery.activating(layer, channel)
    assert shown[0].shape == (SIDE, SIDE, 3)
    assert gallery.contents.provenance["composite"] == "epsilon_plus_flat"
    code, printed, told = run("show", target)
    assert code == 0 and "epsilon_plus_flat" in printed, told
    names.write_text(names.read_text().replace(f"  {channel}: ", f"  {channel}: wheel rim", 1))
    sheet = tmp_path / "sheet.png"
    code, printed, told = run("concepts", "--gallery", target, "--names", names, "--sheet", sheet)
    assert code == 0 and "1 of them named" in printed, told
    assert f'  {channel}: "wheel rim"' in names.read_text()
    names.write_text("conf1:\n  0: wheel\n")
    _, _, told = run("concepts", "--gallery", target, "--names", names)
    assert "layers that the gallery does not have: conf1" in told
    assert len(cv2.imread(str(sheet))) >= 64


@pytest.mark.parametrize(("changes", "told"), [
    ({}, ""), ({"network": "theirs", "sha256": {}}, "the network 'theirs'"),
    ({"sha256": {"model": "0"}}, "other weights of tiny"),
    ({"provenance": {"model": {"weights": "random"}}}, "other weights of tiny"),
])  # fmt: skip
def test_a_gallery_of_another_network_is_told_or_refused(
    uninterrupted, settings, engine, run, tmp_path, caplog, monkeypatch, changes, told
):
    contents, data = parse_gallery(uninterrupted)
    assert (contents.network, [*contents.sha256]) == ("tiny", ["model"])
    changed = msgspec.structs.replace(contents, **changes)
    file, ends = tmp_path / "g.concepts", [0, *np.cumsum(contents.sizes).tolist()]
    write_gallery(file, changed, [data[a:b] for a, b in pairwise(ends)])
    concepts = settings.concepts.model_copy(update={"gallery": str(file)})
    monkeypatch.setattr(engine, "config", settings.model_copy(update={"concepts": concepts}))
    gallery_of(engine)
    found = [one.getMessage() for one in caplog.records]
    assert [f"the gallery was made with {told}, " in one for one in found] == [True] * bool(told)
    network, sheet = ("--model", settings.model.name), tmp_path / "s.png"
    code, _, said = run("concepts", "--gallery", file, *network, "--sheet", sheet)
    assert (code, f"was made with {told}. Expected" in said) == ((2, True) if told else (0, False))
    assert sheet.exists() == (not told)
    if told:
        assert run("concepts", "--gallery", file, "--sheet", sheet)[0] == 0


def test_a_gallery_that_is_stopped_has_what_was_cut_out(
    uninterrupted, settings, photos, tmp_path, monkeypatch
):
    part, cut_out, left = tmp_path / "part.concepts", Making._crops_of, 0

    def stopping(self, picture, neurons):
        for found in cut_out(self, picture, neurons):
            if len(self.crops) == left:
                raise KeyboardInterrupt
            yield found

    monkeypatch.setattr(Making, "_crops_of", stopping)
    with pytest.raises(KeyboardInterrupt):
        list(make(settings, ConceptOptions(images=photos, output=part)))
    assert not part.exists()
    left = 5
    with pytest.raises(KeyboardInterrupt):
        list(make(settings, ConceptOptions(images=photos, output=part)))
    found, complete = Gallery(*read_gallery_file(part)), Gallery(*parse_gallery(uninterrupted))
    numbers = set()
    for layer in found.layers:
        for channel, known in found.channels(layer).items():
            numbers |= {*known.relevant, *known.activating}
            others = complete.pictures(layer, channel)
            for crop_of_part in found.pictures(layer, channel):
                assert any(np.array_equal(crop_of_part, one) for one in others)
    assert numbers == {*range(left)}


def test_wrong_words_are_refused(run, settings, photos, tmp_path):
    network = ("--model", settings.model.name, "--preprocess", "tf")
    target = tmp_path / "g.concepts"
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "x.png").write_bytes(b"no picture")
    photo = photos / "00.png"
    before = photo.read_bytes()
    for words, code, message in (
        (("-o", target, photo, "--sheet", photo, "--overwrite"), 73, "is an input"),
        (("-o", target, photo, "--names", target), 73, "-o and --names name the same file"),
        (("-o", tmp_path / "x.mp4", photos), 2, "ends as another kind"), ((), 2, "nothing to do"),
        (("--images", photos), 2, "-o FILE"), (("-o", target), 2, "drawn pictures suit only"),
        (("--names", tmp_path / "n.yaml"), 2, "There is no gallery"),
        (("-o", tmp_path / "no" / "g.concepts", photos), 73, "There is no folder"),
        (("-o", target, tmp_path / "nothing.jpg"), 66, "nothing.jpg"),
        (("-o", target, tmp_path / "empty"), 66, "empty"),
        (("-o", target, tmp_path / "bad"), 65, "x.png"),
        (("-o", target, photos, "--layers", "conf1"), 2, "There is no layer 'conf1'"),
        (("-o", target, photos, "--set", "lrp.method=gradient"), 78, "relevance propagation only"),
        (("-o", target, photos, "--count", "3"), 2, "--count is for drawn"),
        (("-o", target, photos, "--sheet", tmp_path / "s.txt"), 2, "no known ending"),
    ):  # fmt: skip
        found, _, told = run("concepts", *network, *words)
        assert (found, message in told) == (code, True), (words, found, told)
    assert not target.exists()
    assert photo.read_bytes() == before
    run("concepts", *network, photo, "-o", target)
    whole = target.read_bytes()
    for option in ("--sheet", "--names"):
        found, _, told = run("concepts", "--gallery", target, option, target, "--overwrite")
        assert (found, f"{option} and --gallery name the same file" in told) == (73, True), told
    assert target.read_bytes() == whole


def plain_pictures(count: int) -> list[np.ndarray]:
    return [np.full((16, 16, 3), [20 * n, 100, 200 - 20 * n], np.uint8) for n in range(count)]


def contents(**changes) -> Contents:
    """Two channels of one layer, with three pictures between them."""
    entries = {
        3: ChannelContents((0, 1), (1, 2), (("cat", 0.75),), often=5),
        7: ChannelContents((2,), ()),
    }
    layers = (LayerContents("block/conv", 8, entries),)
    return Contents(network="mine", side=16, layers=layers, pictures=9, **changes)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.concepts"
    write_gallery(path, contents(), [encode_picture(p, 90) for p in plain_pictures(3)])
    return path


def test_a_gallery_is_read_as_it_was_written(file):
    gallery = Gallery(*read_gallery_file(file))
    assert (gallery.network, gallery.layers) == ("mine", ("block/conv",))
    shown = gallery.pictures("block/conv", 3)
    assert len(shown) == 2 and shown[0].dtype == np.uint8
    for picture, expected in zip(shown, plain_pictures(2), strict=True):
        assert np.abs(picture.astype(int) - expected).max() < 12
    assert len(gallery.activating("block/conv", 3)) == 2
    assert list(gallery.activating("block/conv", 7)) == []
    assert list(gallery.pictures("block/conv", 0)) == list(gallery.pictures("other", 3)) == []
    assert gallery.name("block/conv", 3) == ""


def test_every_damaged_byte_is_noticed(file):
    whole = file.read_bytes()
    before, data = parse_gallery(whole)
    for at in range(len(whole) - len(data), len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 1
        file.write_bytes(changed)
        with pytest.raises(DamagedInputError, match="no gallery, or it is damaged"):
            read_gallery_file(file)
    for at in range(0, len(whole), 7):
        file.write_bytes(whole[:at])
        with pytest.raises(DamagedInputError):
            read_gallery_file(file)
    assert before.layers[0].entries[3].classes == (("cat", 0.75),)


def test_contents_that_contradict_themselves_are_refused(tmp_path):
    path, pictures = tmp_path / "x.concepts", [encode_picture(p, 90) for p in plain_pictures(3)]
    twice, too_much = (LayerContents("a", 2, {}),) * 2, ChannelContents((0,), (), (("cat", 1e308),))
    layers = [
        (LayerContents("a", 2, {number: one}),)
        for number, one in ((5, ChannelContents((0,), ())), (1, ChannelContents((3,), ())),
                            (1, too_much))
    ]  # fmt: skip
    for change in [*({"layers": one} for one in (*layers, twice)), {"side": 8000}, {"side": 24}]:
        write_gallery(path, msgspec.structs.replace(contents(), **change), pictures)
        with pytest.raises(DamagedInputError, match="Expected a file that realtime-lrp concepts"):
            read_gallery_file(path)
    large = encode_picture(np.zeros((4000, 4000, 3), np.uint8), 50)
    for data in (large, b"\x89PNG\r\n\x1a\n" + bytes(100), b""):
        write_gallery(path, contents(), [data] * 3)
        with pytest.raises(DamagedInputError, match="another format or size"):
            read_gallery_file(path)


def test_a_gallery_of_another_network_is_refused(file):
    gallery = Gallery(*read_gallery_file(file))
    gallery.check({"block/conv": 8, "more": 3})
    for layers, why in (({"conv": 8}, "no such layer"), ({"block/conv": 9}, "has 9 channels")):
        with pytest.raises(UsageError, match=why):
            gallery.check(layers)


def of_model(name):
    return config.Config(model={"name": name})


def test_names_lie_over_a_gallery(file, tmp_path):
    names = tmp_path / "names.yaml"
    comments = {"block/conv": {7: "cat 75 %", 3: ""}}
    text = names_text(
        {"block/conv": {3: 'wheel: "rim"'}, "a b": {0: "x"}}, comments, "About.\nMore"
    )
    assert text.splitlines()[0] == "# About." and "  7:  # cat 75 %" in text.splitlines()
    names.write_text(text, encoding="utf-8")
    chosen = config.load(None, (f"concepts.gallery={file}", f"concepts.names={names}")).config
    gallery = load_gallery(chosen)
    assert gallery.name("block/conv", 3) == 'wheel: "rim"'
    assert gallery.name("block/conv", 7) == ""
    assert gallery.names == {"block/conv": {3: 'wheel: "rim"'}, "a b": {0: "x"}}
    with pytest.raises(ConfigError, match=r"names\.yaml:\d+: the network has no layer 'a b'"):
        gallery.check({"block/conv": 8})
    read_names(names).check({"block/conv": 8}, partly=True)
    with pytest.raises(ConfigError, match="has the channels 0 to 2; there is no 3"):
        read_names(names).check({"block/conv": 3}, partly=True)
    assert names_text({}, {"a": {1: "b\nc:\n  2: d"}}, "").splitlines()[-1] == "  1:  # b c: 2: d"


def test_the_embedded_gallery_is_of_the_embedded_network():
    gallery = load_gallery(of_model("Shapes"))
    network = (config.ASSETS / "shapes.keras").read_bytes()
    assert gallery.contents.sha256 == {"model": hashlib.sha256(network).hexdigest()}
    assert gallery.layers == ("block3_conv2", "block4_conv2", "block5_conv2")
    assert (config.ASSETS / "shapes.concepts").stat().st_size <= 10**6
    for layer in gallery.layers:
        whole = [n for n in gallery.channels(layer) if len(gallery.pictures(layer, n)) == 6]
        assert len(whole) > 0.8 * gallery.contents.layers[-1].channels or layer == "block3_conv2"
    named = gallery.names["block5_conv2"]
    assert list(gallery.names) == ["block5_conv2"] and len(named) == 37 and named[44] == "houses"
    assert set(named) <= set(gallery.channels("block5_conv2"))
    random = config.load(None, ("model.name=shapes", "model.weights=random")).config
    assert load_gallery(random).layers == load_gallery(of_model("vgg16")).layers == ()
    assert load_gallery(of_model("./shapes.keras")).layers == (), "a user's own network"


def test_wrong_names_are_refused_with_their_line(tmp_path):
    file = tmp_path / "names.yaml"
    for text, message in {
        "- 3": "expected layers",
        "conv:\n  eye: 3": "names.yaml:2: conv.eye: expected the number of a channel",
        f"conv:\n  3: {'a' * 61}": "names.yaml:2: conv.3: expected at most 60",
        'conv:\n  3: "a\\u202Eb"': "letters that can be shown",
        "conv:\n  3: a\n  3: b": "is set twice", "conv: {3: &a b}": "anchors",
    }.items():  # fmt: skip
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match=message):
            read_names(file).check({"conv": 8})
