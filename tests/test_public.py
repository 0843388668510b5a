"""What `from realtime_lrp import ...` gives, and that it says what it is."""

import ast
import inspect
import re
from pathlib import Path

import cv2
import numpy as np
import pytest

import realtime_lrp
from realtime_lrp import Colormap, Explainer, Network, fit, load_network, overlay
from realtime_lrp.errors import UsageError

NAMES = realtime_lrp.__all__
PACKAGE = Path(realtime_lrp.__file__).parent
CALLABLE = [name for name in NAMES if callable(getattr(realtime_lrp, name)) and name != "Error"]


def test_people_and_type_checkers_are_offered_the_same():
    """The names that are imported lazily, and those that type checkers see."""
    body = ast.parse((PACKAGE / "__init__.py").read_text()).body
    (block,) = (one for one in body if isinstance(one, ast.If) and len(one.body) > 1)
    seen = {(one.module, alias.asname) for one in block.body for alias in one.names}
    assert seen == {(module, name) for name, module in realtime_lrp._MODULE.items()}
    assert (PACKAGE / "py.typed").is_file()


def documented(thing):
    """A class or function and its public functions, each with its docstring."""
    yield thing.__name__, thing, inspect.getdoc(thing) or ""
    bases = reversed(inspect.getmro(thing)) if inspect.isclass(thing) else ()
    for name, one in {name: one for base in bases for name, one in vars(base).items()}.items():
        function = getattr(one, "__func__", one)
        if not name.startswith("_") and inspect.isfunction(function):
            yield f"{thing.__name__}.{name}", function, inspect.getdoc(getattr(thing, name)) or ""


@pytest.mark.parametrize("name", CALLABLE)
def test_every_parameter_is_described(name):
    for called, function, text in documented(getattr(realtime_lrp, name)):
        assert text.splitlines()[0].endswith((".", ";")), called
        parameters = set(inspect.signature(function).parameters) - {"self", "cls"}
        missing = [one for one in parameters if not re.search(rf"\b{one}\b", text)]
        assert not missing, called


def test_an_overlay_is_what_the_program_draws(run, tiny_model, rng, tmp_path):
    """Pixel by pixel, of a picture that is larger than the network's and not square."""
    picture = rng.integers(0, 256, (90, 120, 3), np.uint8)
    cv2.imwrite(str(tmp_path / "in.png"), picture[..., ::-1])
    words = ("--model", tiny_model, "--preprocess", "tf", "--target", "top1", "--precision")
    assert run("image", tmp_path / "in.png", "-o", tmp_path / "out.png", *words, "float32")[0] == 0
    network = load_network(str(tiny_model), preprocess="tf")
    x, region = fit(picture, network)
    assert region.box == (15, 0, 105, 90) and x.shape == (1, 32, 32, 3)
    explanation = Explainer(network.model, target="top1")(x)
    drawn = overlay(picture, explanation.relevance[0])
    np.testing.assert_array_equal(drawn, cv2.imread(str(tmp_path / "out.png"))[..., ::-1])
    assert not np.array_equal(drawn, picture)


def test_an_overlay_follows_its_words(rng):
    """Zero relevance, the region, opacity, a colour map of one's own, signs."""
    picture = rng.integers(0, 200, (40, 60, 3), np.uint8)
    relevance = np.zeros((10, 10, 3), np.float32)
    unchanged = overlay(picture, relevance, fit="squash")
    np.testing.assert_array_equal(unchanged, picture)
    relevance[4:7, 4:7] = 1
    spot = (slice(20, 24), slice(30, 36))
    white = overlay(picture, relevance, colormap=Colormap.of("fff fff"), opacity=1, fit="squash")
    assert white[spot].min() > 250 and white[:10].mean() < 0.8 * picture[:10].mean()
    cropped = overlay(picture, relevance)
    assert np.array_equal(cropped[:, :10], picture[:, :10])
    assert not np.array_equal(cropped, picture)
    against = overlay(picture, -relevance, opacity=1, fit="squash")[spot]
    assert against[..., 2].mean() > 200 > against[..., 0].mean()


def test_what_cannot_be_overlaid_or_fitted_is_refused():
    picture, maps = np.zeros((8, 8, 3), np.uint8), np.zeros((4, 4, 3))
    network, crob = Network("any", None), {"fit": "crob"}
    for words, expected in (
        ({"picture": np.zeros((4, 4, 3), np.float32)}, r"uint8 \[H, W, 3\]. Received float32"),
        ({"picture": np.zeros((4, 4), np.uint8)}, r"Received uint8 \[4, 4\]"),
        ({"relevance": maps[None]}, r"it is relevance\[0\]"),
        ({"relevance": np.full((4, 4, 3), np.nan)}, "finite"),
        ({"stride": (2, 5)}, r"no larger than the map. Received \(2, 5\)"),
        ({"opacity": float("nan")}, "opacity from 0 to 1. Received nan"),
        ({"opacity": 1.5}, "opacity from 0 to 1"), (crob, "Did you mean 'crop'"),
        ({"colormap": "fyre"}, "Did you mean 'fire'"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=expected):
            overlay(**{"picture": picture, "relevance": maps, **words})
    for words, expected in (
        ({"picture": maps}, r"uint8 \[H, W, 3\]. Received float64 \[4, 4, 3\]"),
        ({"picture": np.zeros((0, 4, 3), np.uint8)}, r"Received uint8 \[0, 4, 3\]"),
        ({"picture": np.zeros((4, 4, 4), np.uint8)}, r"Received uint8 \[4, 4, 4\]"),
        (crob, "Did you mean 'crop'"), ({"network": "shapes"}, r"Expected a Network.*Received 'sh"),
        ({"size": None}, r"no fixed input size. Say which.*size=\(224, 224\)"),
        ({"size": (8, 0)}, "above 0. Received"),
        ({"size": 8}, r"Expected the size as \(rows, columns\)"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=expected):
            fit(**{"picture": picture, "network": network, "size": (4, 4), **words})


@pytest.mark.parametrize("how", ["crop", "squash", "letterbox"])
def test_a_fitted_picture_keeps_its_place(how):
    """A bright spot of the picture is found again where region and box say."""
    picture = np.zeros((60, 120, 3), np.uint8)
    picture[24:36, 54:66] = 255
    network = Network("any", None, preprocess="rescale")
    x, region = fit(picture, network, fit=how, size=(30, 30))
    assert x.dtype == np.float32 and x.shape == (1, 30, 30, 3)
    x0, y0, x1, y1 = region.inner
    rows, columns = np.nonzero(x[0, y0:y1, x0:x1, 0] > 0.9)
    left, top, right, bottom = region.box
    assert top + (rows.mean() + 0.5) * (bottom - top) / (y1 - y0) == pytest.approx(30)
    assert left + (columns.mean() + 0.5) * (right - left) / (x1 - x0) == pytest.approx(60)


SCRIPT = """
import threading

import numpy as np

from realtime_lrp import (
    COLORMAPS, COMPOSITES, Answer, Colormap, Composite, Epsilon, Explainer, Explanation, Network,
    Rule, Source, fit, load_network, open_source, overlay, rule_named,
)
from realtime_lrp.errors import UsageError


class Black(Source):
    def read(self) -> np.ndarray | None:
        return np.zeros((4, 4, 3), np.uint8)


def explained(x: np.ndarray, network: Network) -> Explanation:
    try:
        return Explainer(network, composite=COMPOSITES["zplus"])(x, target=["top1"])
    except UsageError as error:
        raise SystemExit(error.exit_code) from error


rule: Rule = rule_named("epsilon(0.1)")
COLORMAPS["mine"] = Colormap.of("000 fff")
COMPOSITES["mine"] = Composite(((lambda node, place: True, Epsilon(0.1)),))
with open_source("synthetic", threading.Event()) as source:
    frame = source.read()
if frame is not None:
    network = load_network("shapes")
    x, region = fit(frame, network)
    explanation = explained(x, network)
    best: Answer = explanation[-1].top(1)[0][0]
    explanation.plot(colormap=COLORMAPS["mine"]).savefig(f"{best.label}.png")
    drawn: np.ndarray = overlay(frame, explanation.relevance[0], colormap="mine")
"""


@pytest.mark.release
def test_a_program_is_checked_by_its_types(tmp_path):
    """It passes mypy's strictest checks."""
    api = pytest.importorskip("mypy.api")
    (tmp_path / "right.py").write_text(SCRIPT)
    words = ["--strict", "--cache-dir", str(tmp_path / "cache"), "--follow-imports=silent"]
    out, err, code = api.run([*words, str(tmp_path / "right.py")])
    assert code == 0, out + err
