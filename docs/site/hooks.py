"""What MkDocs lacks to build this site: pages of notebooks, formulas, a last check.

MkDocs calls the functions named `on_...`. README.md is the first page. Every file keeps its path in
the repository, so that links work here as they do on GitHub. A notebook is a page with the outputs
that are stored in it, and a file to download.
"""

import functools
import os
import re
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import nbformat
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from nbconvert import MarkdownExporter

HOME = Path(__file__).parents[2]
SOURCES = (
    "*.md", "LICENSE", "config.yaml", "docs/**/*.md", "docs/notebooks/*.ipynb",
    "docs/site/site.css", "assets/**/*.*",
)  # fmt: skip
"""Globs of the pages, and of the files that pages show or link to."""

MATH_FONT = Path(find_spec("ziamath").origin).parent / "fonts" / "STIXTwoMath-Regular.ttf"
"""The font for formulas: it has tall brackets and large sums, and few systems bring one."""

FOR_BROWSERS = {
    "<mi>&#x02032;</mi>": '<mi class="prime">&#x02032;</mi>',
    "<mi>&#x000B1;</mi>": "<mo>&#x000B1;</mo>",  # plus-minus, with the space of an operator
    '<mn mathvariant="double-struck">1</mn>': "<mn>&#x1D7D9;</mn>",
    '<mi mathvariant="script">N</mi>': "<mi>&#x1D4A9;</mi>",
}
"""What latex2mathml writes -> what browsers draw: they know no `mathvariant`."""

TRY = """
[**Try it now**](../try/index.html): hold a drawing up to the camera, such as a star. This page
is what `realtime-lrp export --model shapes -o try/` wrote when this site was built.
"""

NOT_SHOWN = {".py", ".keras", ".mp4"}

CODE_OR_FORMULA = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<block>.*?)^ *```$"
    r"|`[^`]+`"
    r"|\$(?P<inline>[^$]+)\$",
    re.M | re.S,
)
LOADED = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed)\b[^>]*?\ssrc=[\"']?(?:https?:)?//[^>]*>"
    r"|<link\b(?![^>]*rel=[\"']?canonical)[^>]*?\shref=[\"']?(?:https?:)?//[^>]*>"
    r"|@import\s+[^;]*//|url\([\"']?(?:https?:)?//[^)]*\)",
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The pages and pictures of the repository, each under its path there."""
    kept = [file for file in files if not (HOME / "docs" / file.src_uri).exists()]  # the theme's
    for pattern in SOURCES:
        for path in sorted(HOME.glob(pattern)):
            if path.suffix not in NOT_SHOWN:
                name = path.relative_to(HOME).as_posix()
                kept.append(File.generated(config, name, abs_src_path=str(path)))
            if path.suffix == ".ipynb":
                folder = path.parent.relative_to(HOME).as_posix()
                for name, content in notebook_page(path).items():
                    kept.append(File.generated(config, f"{folder}/{name}", content=content))
    page = exported_page()
    for path in sorted(Path(page.name).rglob("*.*")):
        name = f"try/{path.relative_to(page.name).as_posix()}"
        kept.append(File.generated(config, name, abs_src_path=str(path)))
    kept.append(
        File.generated(config, f"assets/fonts/{MATH_FONT.name}", abs_src_path=str(MATH_FONT))
    )
    return Files(kept)


@functools.cache
def exported_page() -> tempfile.TemporaryDirectory[str]:
    """The folder of the embedded network's page, which computes on the visitor's device.

    onnxruntime-web is copied from the folder that ONNXRUNTIME_WEB names; without this variable the
    page loads it from its CDN.
    """
    folder = tempfile.TemporaryDirectory()
    words = ["--model", "shapes", "-o", folder.name, "--overwrite", "-q"]
    if runtime := os.environ.get("ONNXRUNTIME_WEB"):
        words += ["--runtime", runtime]
    command = [sys.executable, "-m", "realtime_lrp", "export", *words]
    if subprocess.run(command, cwd=HOME, check=False).returncode:
        raise PluginError("The page of the embedded network needs: pip install -e '.[export]'")
    return folder


def notebook_page(path: Path) -> dict[str, str | bytes]:
    """The page of a notebook, and the pictures on it: file name in its folder -> content."""
    notebook = nbformat.read(path, as_version=4)
    kept = {"output_files_dir": path.stem, "unique_key": path.stem}
    text, resources = MarkdownExporter().from_notebook_node(notebook, kept)
    title, rest = text.lstrip().split("\n", 1)
    page = f"{title}\n\n[Download this notebook]({path.name})\n{rest}"
    return {f"{path.stem}.md": page, **resources["outputs"]}


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Replaces formulas by marks, because Markdown would take them apart.

    Links to notebooks lead to their pages, and the page on settings ends with config.yaml.
    """
    markdown = re.sub(r"(\]\([^)\s]*\bnotebooks/\w+)\.ipynb\)", r"\1.md)", markdown)
    text, page.meta["formulas"] = without_formulas(with_tables_for_diagrams(markdown))
    if page.file.src_uri == "docs/anywhere.md":
        title, rest = text.split("\n", 1)
        text = f"{title}\n{TRY}\n{rest}"
    if page.file.src_uri == "docs/configuration.md":
        settings = (HOME / "config.yaml").read_text(encoding="utf-8")
        text += f"\n## config.yaml\n\n```{{.yaml .settings}}\n{settings}```\n"
    return text


def on_page_content(html: str, page: Page, **_: object) -> str:
    """Puts the formulas back."""
    for number, formula in enumerate(page.meta["formulas"]):
        html = html.replace(mark(number), formula)
    return html


def without_formulas(markdown: str) -> tuple[str, list[str]]:
    """Markdown with a mark in place of each formula, and the formulas as MathML.

    Formulas are `$...$` and blocks of the language math, as on GitHub. Browsers typeset MathML
    without a script.
    """
    formulas: list[str] = []

    def replaced(found: re.Match[str]) -> str:
        block = found["language"] == "math"
        latex = found["block"] if block else found["inline"]
        if latex is None:  # code
            return found[0]
        formulas.append(mathml(latex, "block" if block else "inline"))
        return (found["indent"] or "") + mark(len(formulas) - 1)

    return CODE_OR_FORMULA.sub(replaced, markdown), formulas


def mathml(latex: str, display: str) -> str:
    """A formula as MathML; `display` is "inline" or "block"."""
    text = convert(latex.strip(), display=display)
    for written, drawn in FOR_BROWSERS.items():
        text = text.replace(written, drawn)
    return text


def with_tables_for_diagrams(markdown: str) -> str:
    """Markdown with a table in place of each Mermaid diagram of states.

    GitHub draws these diagrams; here a script from another server would have to.
    """

    def table(found: re.Match[str]) -> str:
        rows = re.findall(r"^ *(\S+) --> (\S+?)(?:: (.*))?$", found[1], re.M)
        names = {"[*]": "start"}
        cells = [f"| {names.get(a, a)} | {names.get(b, b)} | {when} |" for a, b, when in rows]
        return "\n".join(["| from | to | when |", "|---|---|---|", *cells])

    return re.sub(r"^```mermaid\nstateDiagram-v2\n(.*?)^```$", table, markdown, flags=re.M | re.S)


def mark(number: int) -> str:
    """What stands for a formula while Markdown is converted."""
    return f"FORMULA{number}END"


def on_post_build(config: MkDocsConfig) -> None:
    """Fails where a page or a style sheet loads something from another server."""
    site = Path(config.site_dir)
    for file in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        for found in loaded_from_elsewhere(file.read_text(encoding="utf-8")):
            raise PluginError(f"{file.relative_to(site)} loads from another server: {found}")


def loaded_from_elsewhere(text: str) -> list[str]:
    """What a page or style sheet makes a browser fetch from another server; links are fine."""
    return [found[0] for found in LOADED.finditer(text)]
