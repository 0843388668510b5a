"""The documentation site's own steps; `.ci/run` builds the whole site."""

import re
import sys
from pathlib import Path

import pytest

import realtime_lrp

pytest.importorskip("mkdocs", reason="the dependency group docs is not installed")
pytest.importorskip("latex2mathml")
pytest.importorskip("nbconvert")
SITE = Path(__file__).parents[1] / "docs" / "site"


@pytest.fixture
def hooks(monkeypatch):
    """The module that MkDocs calls."""
    monkeypatch.syspath_prepend(SITE)
    yield __import__("hooks")
    sys.modules.pop("hooks")


def test_formulas_become_mathml_and_code_stays(hooks):
    """In the text and as blocks; a dollar in code is none."""
    page = "of $a_i$ and `$HOME`\n\n```math\n\\frac{a}{b}\n```\n\n```sh\necho $A $B\n```\n"
    text, (inline, block) = hooks.without_formulas(page)
    assert text == (
        f"of {hooks.mark(0)} and `$HOME`\n\n{hooks.mark(1)}\n\n```sh\necho $A $B\n```\n"
    )
    assert "<msub><mi>a</mi><mi>i</mi></msub>" in inline and 'display="inline"' in inline
    assert "<mfrac>" in block and 'display="block"' in block


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://cdn.example/x.js"></script>',
        "@font-face { src: url('http://fonts.example/a.woff2') }",
    ],
)
def test_what_a_page_loads_from_another_server_is_found(text, hooks):
    """Scripts, pictures, style sheets and fonts."""
    assert len(hooks.loaded_from_elsewhere(text)) == 1


def test_the_reference_has_every_public_name_once():
    """In docs/site/api.md."""
    listed = re.findall(r"^::: realtime_lrp\.(\w+)$", (SITE / "api.md").read_text(), re.M)
    assert sorted(listed) == sorted(realtime_lrp.__all__)


def test_a_notebook_becomes_a_page(hooks):
    """With its code, its outputs and a link to the file."""
    files = hooks.notebook_page(SITE.parent / "notebooks" / "study_recordings.ipynb")
    page = files.pop("study_recordings.md")
    title, _, link = page.splitlines()[:3]
    assert title == "# Study a folder of recordings"
    assert link == "[Download this notebook](study_recordings.ipynb)"
    assert "```python" in page and "load_network(" in page and "<td>" in page
    assert len(files) >= 3
    for name, content in files.items():
        assert name in page and content.startswith(b"\x89PNG")
