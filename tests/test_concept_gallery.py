"""Galleries of concepts: the file, names of channels, and how they are made."""

import hashlib

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
    encode_picture,
    load_gallery,
    names_text,
    parse_gallery,
    read_gallery_file,
    read_names,
    write_gallery,
)


def plain_pictures(count: int) -> list[np.ndarray]:
    """Pictures of one colour each, of 16 x 16."""
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
    """Pictures in their order, nearly the same colours; nothing for channels without any."""
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
    """A flipped bit in a picture, or a file cut anywhere, is a DamagedInputError."""
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


@pytest.mark.parametrize(
    "changes",
    [
        {"layers": (LayerContents("a", 2, {5: ChannelContents((0,), ())}),)},
        {"layers": (LayerContents("a", 2, {1: ChannelContents((3,), ())}),)},
        {"layers": (LayerContents("a", 2, {}), LayerContents("a", 2, {}))},
        {"layers": (LayerContents("a", 2, {1: ChannelContents((0,), (), (("cat", 1e308),))}),)},
        {"side": 8000},
        {"side": 24},
    ],
)
def test_contents_that_contradict_themselves_are_refused(tmp_path, changes):
    """Channels and pictures that are not there, a layer twice, parts above 1, another size."""
    path, wrong = tmp_path / "x.concepts", msgspec.structs.replace(contents(), **changes)
    write_gallery(path, wrong, [encode_picture(p, 90) for p in plain_pictures(3)])
    with pytest.raises(DamagedInputError, match="Expected a file that realtime-lrp concepts"):
        read_gallery_file(path)


def test_a_large_picture_in_a_small_file_is_never_decoded(tmp_path):
    """A WebP whose header names another size is refused, and so is another format."""
    large = encode_picture(np.zeros((4000, 4000, 3), np.uint8), 50)
    for data in (large, b"\x89PNG\r\n\x1a\n" + bytes(100), b""):
        path = tmp_path / "x.concepts"
        write_gallery(path, contents(), [data] * 3)
        with pytest.raises(DamagedInputError, match="another format or size"):
            read_gallery_file(path)


def test_a_gallery_of_another_network_is_refused(file):
    """Its layers and their channels have to be there; further layers do not matter."""
    gallery = Gallery(*read_gallery_file(file))
    gallery.check({"block/conv": 8, "more": 3})
    for layers, why in (({"conv": 8}, "no such layer"), ({"block/conv": 9}, "has 9 channels")):
        with pytest.raises(UsageError, match=why):
            gallery.check(layers)


def of_model(name):
    """The configuration of a model alone."""
    return config.Config(model={"name": name})


def test_names_lie_over_a_gallery(file, tmp_path):
    """A name appears at its channel; the template keeps names and leaves others empty."""
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
    """Made with the present shapes.keras, at most 1 MB, with pictures for the last layers."""
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- 3", "expected layers"),
        ("conv:\n  eye: 3", "names.yaml:2: conv.eye: expected the number of a channel"),
        (f"conv:\n  3: {'a' * 61}", "names.yaml:2: conv.3: expected at most 60"),
        ('conv:\n  3: "a\\u202Eb"', "letters that can be shown"),
        ("conv:\n  3: a\n  3: b", "is set twice"),
        ("conv: {3: &a b}", "anchors"),
    ],
)
def test_wrong_names_are_refused_with_their_line(tmp_path, text, message):
    """Each message says where it stands and what was expected."""
    (tmp_path / "names.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        read_names(tmp_path / "names.yaml").check({"conv": 8})
