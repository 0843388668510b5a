"""The references in docs/ say what the program does: every setting, every message, every link."""

import ast
import importlib
import operator
import re
import sys
from functools import cache
from pathlib import Path

import keras
import media
import numpy as np
import pytest
from keras import layers

import realtime_lrp
from realtime_lrp import METHODS, RULES, Explainer, errors
from realtime_lrp.config import names

HOME = Path(__file__).parents[1]
DOCUMENTS = [HOME / "README.md", HOME / "CONTRIBUTING.md", *sorted((HOME / "docs").glob("*.md"))]
TROUBLES = (HOME / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
CODES = {
    name: kind.exit_code
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.Error) and kind is not errors.Error
}
OTHER_CODES = {0, 70, 129, 130, 143}  # those that no error has: done, a fault of ours, signals


def rows_of(text, header):
    """The rows, as lists of cells, of all tables that begin with this header."""
    found, inside = [], False
    for line in text.splitlines():
        inside = line == header or (inside and line.startswith("|"))
        if inside and line != header and not line.startswith("|---"):
            found.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return found


MESSAGES = rows_of(TROUBLES, "| message | why, and what to do | exit code |")


def texts(node, code=None):
    """(text, exit code of the error that it is given to, or None) of all texts but docstrings."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.Call) and getattr(node.func, "id", None) in CODES:
        code = CODES[node.func.id]
    if isinstance(node, ast.JoinedStr):
        parts = (getattr(part, "value", "…") for part in node.values)
        yield "".join(part if isinstance(part, str) else "…" for part in parts), code
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value, code
    for child in ast.iter_child_nodes(node):
        yield from texts(child, code)


@pytest.fixture(scope="module")
def said():
    """All that the program says: its texts, its web page's and the English captions."""
    found = [("\n".join((HOME / "assets" / "captions" / "en.yaml").read_text().splitlines()), None)]
    for file in (HOME / "realtime_lrp").rglob("*.py"):
        found += texts(ast.parse(file.read_text(encoding="utf-8")))
    for file in (HOME / "realtime_lrp").rglob("*.js"):
        found += [(text, None) for text in re.findall('"(.*?)"', file.read_text(encoding="utf-8"))]
    return found


@pytest.mark.parametrize("row", MESSAGES, ids=lambda row: row[0][:50])
def test_every_message_is_one_of_the_program_with_its_exit_code(row, said):
    assert len(row) == 3 and all(row[:2])
    told = int(row[2]) if row[2] else None
    for phrase in re.findall("`([^`]+)`", row[0]):
        parts = [part.strip() for part in phrase.split("…")]
        assert sum(map(len, parts)) >= 8, "too short to be found"
        in_order = re.compile(".*?".join(map(re.escape, parts)), re.S)
        codes = {code for text, code in said if in_order.search(text)}
        assert codes, f"{phrase!r} is said nowhere"
        if codes != {None}:
            assert told in codes, f"{phrase!r} ends with {codes}"


def test_every_exit_code_is_explained_and_has_a_message():
    rows = rows_of(TROUBLES, "| exit code | meaning |")
    listed = [int(code) for row in rows for code in row[0].split(", ")]
    assert sorted(listed) == sorted({*CODES.values(), *OTHER_CODES})
    assert {int(row[2]) for row in MESSAGES if row[2]} == {*CODES.values(), 70}


def anchors(text):
    for heading in re.findall(r"^#+ (.*)$", text, re.M):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: file.name)
def test_every_link_leads_somewhere(document):
    text = re.sub(r"^ *```.*?^ *```", "", document.read_text(encoding="utf-8"), flags=re.M | re.S)
    text = re.sub(r"`[^`\n]*`", "", text)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"\w+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (document.parent / name).resolve() if name else document
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file.read_text(encoding="utf-8")), target


def test_the_gallery_shows_every_composite_and_method():
    page = (HOME / "docs" / "gallery.md").read_text(encoding="utf-8")
    for name in [*names.COMPOSITES.included, *names.METHODS.included]:
        if name != "lrp":
            assert f"### `{name}`\n" in page and f"gallery/{name}.webp)" in page, name


ROWS = re.findall(r"^\| (?!fault|-).*", (HOME / "docs" / "faults.md").read_text(), re.M)


@cache
def defined():
    """Name of each test -> whether it is one of the long ones."""
    found = {}
    for file in (HOME / "tests").glob("test_*.py"):
        for marks, name in re.findall(
            r"((?:^@.*\n(?:^[ )\]].*\n)*)*)^def (test_\w+)", file.read_text(), re.M
        ):
            found[name] = "@pytest.mark.release" in marks
    return found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:40])
def test_every_fault_has_its_tests(row):
    tests = defined()
    named = re.findall(r"`(test_\w+)`(\*?)", row)
    assert named, "no test"
    for name, star in named:
        assert name in tests, f"{name} is not there"
        assert bool(star) == tests[name], name


@pytest.mark.parametrize(
    "left_out", ["## Exporting", pytest.param("nothing", marks=pytest.mark.release)]
)
def test_the_python_of_the_documentation_runs(left_out, tmp_path, monkeypatch):
    media.write_picture(tmp_path / "photo.jpg", media.plain((90, 90, 90), size=(120, 160)))
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for section in re.split("^(?=## )", (HOME / "docs/python.md").read_text(), flags=re.MULTILINE):
        for example in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
            if not section.startswith(left_out):
                exec(example, names)
    assert names["drawn"].shape == (120, 160, 3) and names["region"].box == (20, 0, 140, 120)
    maps = names["several"](names["x"]).maps
    assert set(maps) == {"guided_backprop", "grad_cam", "zplus"}  # beside .relevance
    assert all(map_.shape == names["x"].shape for map_ in maps.values())
    assert (tmp_path / "maps.png").read_bytes().startswith(b"\x89PNG")
    exported = {"serving_default", "explain_class"}
    assert left_out == "## Exporting" or set(names["exported"]) == exported


PAGE = (HOME / "docs" / "mathematics.md").read_text(encoding="utf-8")
REFERENCES = sorted(set(re.findall(r"`([a-z]+)\.(?!py`|md)([A-Za-z_.]+)`", PAGE)))


@pytest.mark.parametrize(("module", "name"), REFERENCES, ids=lambda part: part)
def test_the_functions_that_it_names_exist(module, name):
    files = (HOME / "realtime_lrp" / "relevance").rglob(f"{module}.py")
    file = min(files, key=lambda one: len(one.parts))
    found = importlib.import_module(".".join(file.relative_to(HOME).with_suffix("").parts))
    assert operator.attrgetter(name)(found) is not None


@pytest.mark.parametrize("name", [*RULES, *(method for method in METHODS if method != "lrp")])
def test_every_rule_and_method_has_its_formula(name):
    section = re.split(rf"^### `{name}`$", PAGE, flags=re.M)[1].split("\n##")[0]
    if "See `" not in section:
        assert "$" in section or "```math" in section
    if name in RULES:
        assert f"`rules.{RULES[name].__name__}`" in section


def test_every_source_is_cited_and_every_citation_has_its_source():
    listed = re.findall(r"^- \*\*(\w+ \d{4})\*\*: ", PAGE, re.M)
    text = PAGE.split("## Sources")[0]
    assert listed == sorted(set(listed))
    assert set(re.findall(r"\b([A-Z]\w+ (?:19|20)\d\d)\b", text)) == set(listed)


def test_input_times_gradient_is_epsilon_with_biases_from_the_logit(rng):
    """For ReLU networks; a single linear output starts from its value, the logit."""
    keras.utils.set_random_seed(5)
    model = keras.Sequential([
        keras.Input((12, 12, 2)), layers.Conv2D(6, 3, activation="relu", bias_initializer="normal"),
        layers.MaxPooling2D(2), layers.Flatten(),
        layers.Dense(8, activation="relu", bias_initializer="normal"),
        layers.Dense(1, bias_initializer="normal"),
    ])  # fmt: skip
    x = rng.normal(size=(3, 12, 12, 2)).astype(np.float32)
    epsilon = Explainer(model, layers={"*": "epsilon(1e-9)"}, absorb_bias=True)(x).relevance
    gradient = Explainer(model, "input_x_gradient")(x).relevance
    np.testing.assert_allclose(epsilon, gradient, rtol=1e-3, atol=1e-5 * np.abs(gradient).max())


SITE = HOME / "docs" / "site"


@pytest.fixture
def hooks(monkeypatch):
    for name in ("mkdocs", "latex2mathml", "nbconvert"):
        pytest.importorskip(name, reason="the dependency group docs is not installed")
    monkeypatch.syspath_prepend(SITE)
    yield __import__("hooks")
    sys.modules.pop("hooks")


def test_what_a_page_loads_from_another_server_is_found(hooks):
    for text in (
        '<script src="https://cdn.example/x.js"></script>',
        "@font-face { src: url('http://fonts.example/a.woff2') }",
    ):
        assert len(hooks.loaded_from_elsewhere(text)) == 1


def test_the_reference_has_every_public_name_once():
    listed = re.findall(r"^::: realtime_lrp\.(\w+)$", (SITE / "api.md").read_text(), re.M)
    assert sorted(listed) == sorted(realtime_lrp.__all__)
