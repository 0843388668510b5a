"""docs/mathematics.md names functions that exist, and covers every rule and method."""

import importlib
import operator
import re
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers

from realtime_lrp import METHODS, RULES, Explainer

HOME = Path(__file__).parents[1]
PAGE = (HOME / "docs" / "mathematics.md").read_text(encoding="utf-8")
REFERENCES = sorted(set(re.findall(r"`([a-z]+)\.(?!py`|md)([A-Za-z_.]+)`", PAGE)))


@pytest.mark.parametrize(("module", "name"), REFERENCES, ids=lambda part: part)
def test_the_functions_that_it_names_exist(module, name):
    """Every `file.name` on the page, whatever the room of the file, can be imported."""
    files = (HOME / "realtime_lrp" / "relevance").rglob(f"{module}.py")
    file = min(files, key=lambda one: len(one.parts))
    found = importlib.import_module(".".join(file.relative_to(HOME).with_suffix("").parts))
    assert operator.attrgetter(name)(found) is not None


@pytest.mark.parametrize("name", [*RULES, *(method for method in METHODS if method != "lrp")])
def test_every_rule_and_method_has_its_formula(name):
    """Rules also name their class."""
    section = re.split(rf"^### `{name}`$", PAGE, flags=re.M)[1].split("\n##")[0]
    if "See `" not in section:
        assert "$" in section or "```math" in section
    if name in RULES:
        assert f"`rules.{RULES[name].__name__}`" in section


def test_every_source_is_cited_and_every_citation_has_its_source():
    """By name and year."""
    listed = re.findall(r"^- \*\*(\w+ \d{4})\*\*: ", PAGE, re.M)
    text = PAGE.split("## Sources")[0]
    assert listed == sorted(set(listed))
    assert set(re.findall(r"\b([A-Z]\w+ (?:19|20)\d\d)\b", text)) == set(listed)


def test_input_times_gradient_is_epsilon_with_biases_from_the_logit(rng):
    """For ReLU networks; a single linear output starts from its value, the logit."""
    keras.utils.set_random_seed(5)
    model = keras.Sequential(
        [
            keras.Input((12, 12, 2)),
            layers.Conv2D(6, 3, activation="relu", bias_initializer="normal"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(8, activation="relu", bias_initializer="normal"),
            layers.Dense(1, bias_initializer="normal"),
        ]
    )
    x = rng.normal(size=(3, 12, 12, 2)).astype(np.float32)
    epsilon = Explainer(model, layers={"*": "epsilon(1e-9)"}, absorb_bias=True)(x).relevance
    gradient = Explainer(model, "input_x_gradient")(x).relevance
    np.testing.assert_allclose(epsilon, gradient, rtol=1e-3, atol=1e-5 * np.abs(gradient).max())
