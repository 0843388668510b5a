"""The references in docs/ say what the program does: every setting, every message, every link."""

import ast
import re
from pathlib import Path

import pytest

from realtime_lrp import errors
from realtime_lrp.config import names

HOME = Path(__file__).parents[1]
DOCUMENTS = [HOME / "README.md", HOME / "CONTRIBUTING.md", *sorted((HOME / "docs").glob("*.md"))]
TROUBLES = (HOME / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
CODES = {
    name: kind.exit_code
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.Error) and kind is not errors.Error
}
OTHER_CODES = {0, 70, 129, 130, 143}
"""Those that no error has: done, a fault of ours, signals."""


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


def holds(text, parts):
    """Whether parts stand in a text, one behind the other."""
    place = 0
    for part in parts:
        found = text.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return True


@pytest.mark.parametrize("row", MESSAGES, ids=lambda row: row[0][:50])
def test_every_message_is_one_of_the_program_with_its_exit_code(row, said):
    """The quoted words stand in the source, given to an error of that exit code."""
    assert len(row) == 3 and all(row[:2])
    told = int(row[2]) if row[2] else None
    for phrase in re.findall("`([^`]+)`", row[0]):
        parts = [part.strip() for part in phrase.split("…")]
        assert sum(map(len, parts)) >= 8, "too short to be found"
        codes = {code for text, code in said if holds(text, parts)}
        assert codes, f"{phrase!r} is said nowhere"
        if codes != {None}:
            assert told in codes, f"{phrase!r} ends with {codes}"


def test_every_exit_code_is_explained_and_has_a_message():
    """The table of exit codes has those of errors.py and the few others, once each."""
    rows = rows_of(TROUBLES, "| exit code | meaning |")
    listed = [int(code) for row in rows for code in row[0].split(", ")]
    assert sorted(listed) == sorted({*CODES.values(), *OTHER_CODES})
    assert {int(row[2]) for row in MESSAGES if row[2]} == {*CODES.values(), 70}


def anchors(text):
    """The names that headings can be linked by."""
    for heading in re.findall(r"^#+ (.*)$", text, re.M):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: file.name)
def test_every_link_leads_somewhere(document):
    """A file of this checkout, and a heading in it."""
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
    """A heading and a picture of each (`python assets/make/make_assets.py gallery` makes them)."""
    page = (HOME / "docs" / "gallery.md").read_text(encoding="utf-8")
    for name in [*names.COMPOSITES.included, *names.METHODS.included]:
        if name != "lrp":
            assert f"### `{name}`\n" in page and f"gallery/{name}.webp)" in page, name
