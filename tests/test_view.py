"""The picture: colours, where the map lies, what stays untouched."""

import inspect
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import cv2
import keras
import numpy as np
import pytest
from keras import layers
from viewer import LOOK, found_box

import realtime_lrp
from realtime_lrp import Explainer, config
from realtime_lrp.config.keys import FIELDS, SECTIONS
from realtime_lrp.engine.boxes import REMEMBERED, BoxNumbers, drawn_map, outlines_of
from realtime_lrp.engine.result import MapKind, Result, ResultMap
from realtime_lrp.relevance.maps import strength as strengths
from realtime_lrp.relevance.maps.strength import strength
from realtime_lrp.relevance.maps.targets import Target
from realtime_lrp.system.scale import FULL, SOFTNESS
from realtime_lrp.video.pictures import mirrored
from realtime_lrp.video.region import region_of
from realtime_lrp.view import painting
from realtime_lrp.view.look import COLORMAPS, LOOK_SETTINGS, Colormap, colormap_named
from realtime_lrp.view.motion import Follower
from realtime_lrp.view.painting import COLOURS, Outline, draw_outlines
from realtime_lrp.view.text import WHITE

BOX, INNER = (40, 0, 100, 60), (0, 0, 30, 30)


def picture_of(rng):
    return rng.integers(0, 256, (60, 140, 3), np.uint8)


def test_a_colour_string_is_compiled_to_equal_steps():
    table = Colormap.of("000 f00 fff").table
    np.testing.assert_array_equal(table[[0, 255]], [[0, 0, 0], [255, 255, 255]])
    np.testing.assert_array_equal(table[[64, 191]], [[128, 0, 0], [255, 127, 127]])


@pytest.mark.parametrize("name", COLORMAPS)
def test_signed_maps_have_zero_in_the_middle(name):
    colours = COLORMAPS[name](np.array([-1.0, 0.0, 1.0]))
    assert (colours[0] != colours[1]).any() == COLORMAPS[name].signed
    assert (colours[1] != colours[2]).any()


def painted(relevance, colormap, opacity, box, inner, by_channel=False):
    drawn, scale = (part.numpy()[0] for part in strength(relevance[None], by_channel))
    look, (x0, y0, x1, y1) = replace(LOOK, colormap=colormap, opacity=opacity), inner
    one = painting.Drawn(drawn[y0:y1, x0:x1], float(scale))
    return painting.paint(np.zeros((60, 140, 3), np.uint8), [one], look, box).overlays[0]


@pytest.mark.parametrize("style", ["grey", "rgb"])
@pytest.mark.parametrize("colormap", COLORMAPS)
def test_zero_relevance_leaves_the_picture_untouched(style, colormap, rng):
    picture = picture_of(rng)
    overlay = painted(np.zeros((30, 30, 3), np.float32), colormap, 1.0, BOX, INNER, style == "rgb")
    drawn = painting.lay_over(picture, overlay)
    np.testing.assert_array_equal(drawn[1:-1, 41:99], picture[1:-1, 41:99])
    np.testing.assert_array_equal(drawn[:, :40], picture[:, :40])
    np.testing.assert_array_equal(drawn[:, 100:], picture[:, 100:])


def test_relevance_lies_where_it_belongs(rng):
    picture = np.full((60, 140, 3), 90, np.uint8)
    relevance = np.zeros((30, 30, 3), np.float32)
    relevance[19:22, 9:12] = 1
    drawn = painting.lay_over(picture, painted(relevance, "fire", 1.0, BOX, INNER))
    changed = np.argwhere(np.ptp(drawn, axis=-1)[1:-1, 41:99] > 0) + np.array([1, 41])
    np.testing.assert_allclose(changed.mean(0), [20 * 2 + 0.5, 40 + 10 * 2 + 0.5], atol=0.6)
    assert (drawn[40, 60] == COLORMAPS["fire"].table[255]).all(-1)
    assert np.ptp(changed[:, 0]) <= 8
    np.testing.assert_allclose(
        drawn[5, 90], 90 * (1 - painting.MUTED * (1 - painting.GREY)), atol=1.5
    )


def test_a_letterboxed_map_loses_its_borders(rng):
    relevance = np.zeros((30, 30, 3), np.float32)
    relevance[:6] = 1
    picture = picture_of(rng)
    whole = (0, 0, 140, 60)
    drawn = painting.lay_over(picture, painted(relevance, "fire", 1.0, whole, (0, 6, 30, 24)))
    np.testing.assert_array_equal(drawn, picture)


def test_negative_relevance_is_drawn_by_signed_maps_only():
    relevance = -np.ones((30, 30, 3), np.float32)
    black = np.zeros((60, 140, 3), np.uint8)
    hidden = painting.lay_over(black, painted(relevance, "fire", 1.0, BOX, INNER))
    assert (hidden[10:50, 50:90] == 0).all()
    cold = painting.lay_over(black, painted(relevance, "coldnhot", 1.0, BOX, INNER))
    np.testing.assert_array_equal(cold[30, 70], [0, 255, 255])


def test_rgb_maps_show_each_channel_by_itself():
    relevance = np.zeros((30, 30, 3), np.float32)
    relevance[..., 1] = 1
    black = np.zeros((60, 140, 3), np.uint8)
    drawn = painting.lay_over(black, painted(relevance, "fire", 1.0, BOX, INNER, by_channel=True))
    np.testing.assert_array_equal(drawn[30, 70], [0, 255, 0])


def test_one_map_with_a_far_larger_peak_does_not_blank_those_after_it():
    scale = painting.Scale()
    assert scale(1.0) == 1.0
    assert scale(1000.0) == 2.0
    after = [scale(1.0) for _ in range(40)]
    assert after[0] == 0.5 and after == sorted(after) and after[-1] > 0.95
    assert scale(0.0) == 0.0 and scale(1.0) > 0.95


def test_a_map_is_drawn_at_the_peak_of_the_maps_before_it():
    series, picture = painting.Series(), np.zeros((60, 140, 3), np.uint8)

    def alpha(one, look, series=None):
        return painting.paint(picture, [one], look, BOX, series=series).overlays[0].alpha

    half = np.full((30, 30), round(FULL * 0.5**SOFTNESS), np.int8)
    for peak, share in ((1.0, 0.5), (0.8, 0.4 / 0.98), (0.1, 0.25), (100.0, 1.0)):
        drawn = alpha(painting.Drawn(half, peak), replace(LOOK, opacity=1.0), series)
        np.testing.assert_allclose(drawn, share**SOFTNESS, atol=0.005)
    np.testing.assert_allclose(
        alpha(painting.Drawn(half, 1.0, fade=0.1), LOOK), LOOK.opacity * 0.05**SOFTNESS, atol=0.005
    )


def test_strengths_by_hand():
    relevance = np.zeros((2, 20, 20, 3), np.float32)
    relevance[0, :10, :, 0] = 4
    relevance[0, 0, 0] = 1000, 0, 0
    relevance[0, 10, :, 1] = -2
    relevance[0, 11, :] = 5, -3, -1  # 1 in all
    drawn, scale = (part.numpy() for part in strength(relevance))
    np.testing.assert_array_equal(scale, [4, 0])
    assert drawn.dtype == np.int8 and not drawn[1].any()
    assert (drawn[0, :10] == FULL).all()
    assert (drawn[0, 10] == -round(FULL * 0.5**SOFTNESS)).all()
    assert (drawn[0, 11] == round(FULL * 0.25**SOFTNESS)).all()
    assert not drawn[0, 12:].any()
    by_channel, scale = (part.numpy() for part in strength(relevance, by_channel=True))
    assert by_channel.shape == relevance.shape and scale[0] == 5
    np.testing.assert_array_equal(np.sign(by_channel), np.sign(relevance))
    single = np.zeros((1, 20, 20, 1), np.float32)
    single[0, 3, 3] = 7  # fewer entries than the percentile leaves out
    drawn, scale = (part.numpy() for part in strength(single))
    assert scale == 7 and drawn[0, 3, 3] == FULL and drawn.sum() == FULL


def finest_detail(relevance):
    """The power of what changes from each row of [h, w] to the next and back."""
    power = np.abs(np.fft.fft2(relevance)) ** 2
    return power[len(power) // 2].sum()


@pytest.mark.parametrize("channels", [1, 3])
def test_the_grid_of_a_stride_is_smoothed_away(channels, rng):
    smooth = cv2.GaussianBlur(rng.random((48, 48)).astype(np.float32), (0, 0), 4) + 0.2
    grid = smooth * np.where(np.arange(48) % 2, 2, 1)[:, None]
    relevance = np.repeat(grid[None, ..., None], channels, axis=-1).astype(np.float32)
    drawn = strengths.smoothed(relevance, (2, 2)).numpy()
    assert finest_detail(drawn[0, ..., 0]) < finest_detail(relevance[0, ..., 0]) / 100
    np.testing.assert_allclose(drawn.sum((1, 2)), relevance.sum((1, 2)), rtol=1e-5)


@pytest.mark.parametrize("stride", [(3, 1), (1, 4), (16, 16)])
def test_smoothing_keeps_sums_and_uniform_maps(stride, rng):
    relevance = rng.standard_normal((2, 32, 20, 1)).astype(np.float32)
    drawn = strengths.smoothed(relevance, stride).numpy()
    np.testing.assert_allclose(drawn.sum((1, 2)), relevance.sum((1, 2)), atol=1e-3)
    uniform = np.ones((1, 32, 20, 1), np.float32)
    np.testing.assert_allclose(strengths.smoothed(uniform, stride), uniform, rtol=1e-5)
    spot = np.zeros((1, 32, 20, 1), np.float32)
    spot[0, 0, 0] = 1
    assert strengths.smoothed(spot, stride).numpy()[0, 0, 0, 0] > 0


EYES = {
    "usual": np.eye(3),
    "no red": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "no green": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "no blue": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}  # what is left of linear RGB (Machado et al. 2009, severity 1)


def as_seen(table, eyes):
    """CIELAB of colours for some eyes."""
    linear = np.where(table <= 10, table / 3295, ((table / 255 + 0.055) / 1.055) ** 2.4)
    left = np.clip(linear @ np.array(eyes).T, 0, 1)
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = left @ to_xyz.T / [0.9505, 1, 1.089]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116).T
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)


@pytest.mark.parametrize("eyes", EYES)
def test_colour_blind_eyes_read_the_maps(eyes):
    lightness = as_seen(colormap_named("fire").table, EYES[eyes])[:, 0]
    assert (np.diff(lightness) >= 0).all() and lightness[-1] - lightness[0] > 45
    seen = as_seen(colormap_named("icefire").table, EYES[eyes])
    apart = np.linalg.norm(seen[160:] - seen[95::-1], axis=1)  # from a quarter of the scale on
    assert apart.min() > 70


TEXT = "\n".join(
    path.read_text().replace("self.", "look." if path.name == "look.py" else "self.")
    for path in Path(realtime_lrp.__file__).parent.rglob("*.py")
    if path.name != "schema.py"
)


@pytest.mark.parametrize("setting", LOOK_SETTINGS, ids=lambda one: one.name)
def test_a_setting_goes_through_values_that_the_configuration_takes(setting):
    look, values = LOOK, setting.values() or range(10)
    for by in (1, -1):
        for _ in values:
            value = setting.moved(getattr(look, setting.name), by)
            assert setting.accepts(value)
            look = replace(look, **{setting.name: value})
            config.load(sets=(f"overlay.{setting.name}={'null' if value is None else value}",))
            assert setting.says(value)
    assert getattr(look, setting.name) == getattr(LOOK, setting.name) or not setting.values()


@pytest.mark.parametrize("key", FIELDS)
def test_every_setting_is_read(key):
    section, name = key.split(".")
    value = "look" if section == "overlay" and name in LOOK.__dataclass_fields__ else section
    if section == "lrp" and name in inspect.signature(Explainer).parameters:
        assert len(re.findall(rf"\b{name}\b", inspect.getsource(Explainer.__init__))) > 1
    else:
        of_page = rf"\bsetting\b.* = \"{name}\""  # a page of the exhibit names its own
        assert re.search(rf"\b{value}\.{name}\b|{of_page}", TEXT), SECTIONS[section]


def test_a_box_of_a_letterboxed_mirrored_picture():
    """200 x 400 pixels become 50 x 100, below 25 rows of grey: a pixel of the input is 4 wide."""
    region = region_of((200, 400), (100, 100), "letterbox")
    assert region.inner == (0, 25, 100, 75)
    assert region.in_picture((10, 30, 35, 55)) == (40, 20, 140, 120)

    picture = np.zeros((200, 400, 3), np.uint8)
    picture[20:120, 260:360] = 255  # x from 400 - 140 to 400 - 40
    seen = region.extract(mirrored(picture, True), border=0)
    expected = np.zeros((100, 100, 3), np.uint8)
    expected[30:55, 10:35] = 255
    np.testing.assert_array_equal(seen, expected)


def test_a_box_of_a_cropped_or_squashed_picture():
    region = region_of((200, 400), (100, 100), "crop")
    assert region.in_picture((10, 30, 35, 55)) == (120, 60, 170, 110)
    region = region_of((200, 400), (100, 100), "squash")
    assert region.in_picture((10, 30, 35, 55)) == (40, 60, 140, 110)


def test_an_outline_changes_the_four_sides_alone():
    before = np.full((400, 600, 3), 128, np.uint8)
    tile = before.copy()
    draw_outlines(tile, [Outline((50, 60, 150, 160), "", "", (9, 200, 30))], (200, 300))
    changed = (tile != before).any(-1)
    near = np.zeros_like(changed)
    near[116:325, 96:305] = True  # the box is at 100, 120, 300, 320 there
    near[125:316, 105:296] = False
    assert not (changed & ~near).any()
    for side in (tile[120, 100:301], tile[320, 100:301], tile[120:321, 100], tile[120:321, 300]):
        assert (side == (9, 200, 30)).all()
    first, second = (Outline((50, 60, 150, 160), "", "", one) for one in COLOURS[:2])
    draw_outlines(tile, [first, second], (200, 300))
    assert (tile[120, 100:301] == COLOURS[0]).all(), "the first is on top"


def test_boxes_beyond_the_picture_are_closed_at_its_edge():
    tile = np.full((100, 100, 3), 128, np.uint8)
    draw_outlines(tile, [Outline((-20, -30, 140, 130), "star 93 %", "71 % inside", WHITE)])
    assert (tile[99, 90:] == 255).all() and (tile[30:60, 0] == 255).all()


def result_of(*boxes, strengths=None):
    """What a detector found: boxes of class 1, each with a map of its own."""
    kind = MapKind("zplus")
    drawn = strengths or [np.full((4, 6), 10 * n, np.int8) for n, _ in enumerate(boxes, 1)]
    maps = [ResultMap(one, 1.0, 0, 0, lambda: None, kind, False, 0, 0, 0) for one in drawn]
    region = region_of((40, 60), (4, 6), "squash")
    found = tuple(
        found_box(box, 1, 0.9, number, (one,), region)
        for number, (box, one) in enumerate(zip(boxes, maps, strict=True))
    )
    return Result(np.zeros(3), (0.9, 0.9), region, tuple(maps[:1]), Target(top=1), found=found)


def numbers_of(result):
    return [one.number for one in result.found]


def labelled(result, label):
    return replace(result, found=tuple(replace(one, label=label) for one in result.found))


def test_a_box_keeps_its_number_by_its_overlap():
    left, right, below = (10, 10, 30, 30), (100, 10, 120, 30), (10, 100, 40, 140)
    number = BoxNumbers()
    assert numbers_of(number(result_of(left, right))) == [0, 1]
    assert numbers_of(number(result_of((104, 12, 124, 32), (12, 10, 32, 30), below))) == [1, 0, 2]
    assert numbers_of(number(result_of(below))) == [2]
    assert numbers_of(number(result_of(left, below))) == [0, 2]
    other = labelled(result_of(right, below), 2)
    assert numbers_of(number(other)) == [3, 2]  # another class where the second box was
    assert number.place_of(2) == below and number.place_of(None) is number.place_of(9) is None


def test_a_box_that_was_lost_has_its_number_again_by_its_class():
    left, right, below = (10, 10, 30, 30), (100, 10, 120, 30), (10, 100, 40, 140)
    number = BoxNumbers()
    assert numbers_of(number(result_of(left), "a.mp4")) == [0]
    for _ in range(100):
        number(result_of(), "a.mp4")
    assert numbers_of(number(labelled(result_of(left), 2), "a.mp4")) == [1]
    assert numbers_of(number(result_of(right, below), "a.mp4")) == [0, 2]
    assert numbers_of(number(labelled(result_of(right, below), 2), "b.mp4")) == [1, 3]
    for label in range(3, REMEMBERED + 9):
        number(labelled(result_of((50 * label, 0, 50 * label + 9, 9)), label), "b.mp4")
    assert numbers_of(number(result_of(right), "b.mp4"))[0] > REMEMBERED


def test_each_box_has_its_colour_and_one_alone_the_usual_ones():
    one, other = np.zeros((2, 4, 6), np.int8)
    one[0, :2], other[0, 1:3], other[3, 3] = 100, (40, 127), -90
    result = result_of((0, 0, 9, 9), (20, 0, 30, 9), strengths=[one, other])
    drawn = drawn_map(result, LOOK).strength
    first, second = (np.array(COLOURS[n]) / 255 for n in range(2))
    np.testing.assert_allclose(drawn[0, 0], 100 * first, atol=0.5)
    np.testing.assert_allclose(drawn[0, 1], np.maximum(100 * first, 40 * second), atol=0.5)
    np.testing.assert_allclose(drawn[0, 2], 127 * second, atol=0.5)
    assert not drawn[3, 3].any()
    np.testing.assert_array_equal(drawn_map(result.found[1], LOOK).strength, other)
    of_all = drawn_map(result, replace(LOOK, colormap="fire")).strength
    np.testing.assert_array_equal(of_all, one, "of the whole result")
    texts = outlines_of(SimpleNamespace(label="abc".__getitem__), result, alone=1)
    assert [(text.above, text.below) for text in texts] == [("", ""), ("b 90 %", "71 % inside")]


def test_boxes_move_with_the_picture():
    rng = np.random.default_rng(4)
    texture = cv2.GaussianBlur(rng.integers(0, 256, (60, 60, 3), np.uint8), (0, 0), 2)

    def picture(x, y):
        result = np.full((240, 320, 3), 90, np.uint8)
        result[y : y + 60, x : x + 60] = texture
        return result

    blank = painting.ColouredMap(
        np.zeros((24, 32, 3), np.uint8), np.zeros((24, 32)), (0, 0, 320, 240), LOOK
    )
    outline = Outline((100, 80, 160, 140), "star", "", WHITE)
    follower = Follower(painting.Painted(picture(100, 80), (blank,), (outline,)))
    assert follower(picture(100, 80)).outlines == (outline,)
    later = follower(picture(114, 89))
    (moved,) = later.outlines
    assert moved.above == "star" and not later.lost
    np.testing.assert_allclose(moved.box, (114, 89, 174, 149), atol=2)
    elsewhere = follower(rng.integers(0, 256, (240, 320, 3), np.uint8))
    assert (elsewhere.outlines, elsewhere.lost) == ((), {0})


def deep_network(biases):
    """Random weights, 32 x 32; strong biases are |N(0, 1)| + .3, as batch norms leave them."""
    keras.utils.set_random_seed(2)
    given = keras.Input((32, 32, 3))
    x, small = given, keras.initializers.RandomNormal(0, 0.04)
    for _ in range(24):
        x = layers.Conv2D(
            12, 3, padding="same", activation="relu",
            kernel_initializer=small if biases else "he_normal",
        )(x)  # fmt: skip
    x = layers.GlobalAveragePooling2D()(x)
    model = keras.Model(given, layers.Dense(4, activation="softmax")(x))
    rng = np.random.default_rng(0)
    for layer in model.layers:
        if biases and isinstance(layer, layers.Conv2D):
            layer.bias.assign(np.abs(rng.standard_normal(12)) + 0.3)
    return model


def relevance_of(biases):
    return Explainer(deep_network(biases), composite="epsilon_plus_flat", target="top1")(
        np.random.default_rng(1).uniform(-1, 1, (1, 32, 32, 3)).astype(np.float32)
    ).relevance


def glow(relevance, series=None):
    """The mean colour of a map on a grey picture, drawn: 0 to 255."""
    drawn, scales = (one.numpy() for one in strength(relevance))
    peak = float(scales[0]) / float(np.abs(relevance).sum(dtype=np.float64))
    grey = np.full((64, 64, 3), 90, np.uint8)
    painted = painting.paint(
        grey, [painting.Drawn(drawn[0], peak)], LOOK, (0, 0, 64, 64), series=series
    )
    return np.ptp(painting.lay_over(grey, painted.overlays[0]), axis=-1).mean()


def test_a_map_glows_however_much_biases_take():
    strong, weak = relevance_of(True), relevance_of(False)
    assert 0 < np.abs(strong).sum() < 1e-4
    assert glow(strong) > 2 / 3 * glow(weak) > 0


@pytest.mark.parametrize("factor", [1 / 4, 4, 1e-12])
def test_a_series_whose_sums_change_stays_as_bright(factor):
    relevance, series = relevance_of(True), painting.Series()
    first = glow(relevance, series)
    assert glow(factor * relevance, series) == pytest.approx(first, rel=1e-3)
    assert glow(relevance, series) == pytest.approx(first, rel=1e-3)
