"""Every command of the documentation: understood by the program, and run where that can be."""

import copy
import glob
import json
import os
import re
import shlex
import shutil
import zipfile
from itertools import groupby, takewhile
from pathlib import Path

import av
import click
import keras
import media
import msgspec
import numpy as np
import pytest
from media import plain, recording, write_picture

from realtime_lrp import COLORMAPS, COMPOSITES, METHODS, RULES, config
from realtime_lrp.cli import cli
from realtime_lrp.cli.options import recorded_in
from realtime_lrp.config import legal_values
from realtime_lrp.config.provenance import TAUGHT, ModelProvenance, Provenance
from realtime_lrp.models.names import NETWORKS
from realtime_lrp.models.taught_file import About
from realtime_lrp.models.untrusted.allowlist import ALLOWED_CLASSES
from realtime_lrp.relevance.reading.layers import ACTIVATIONS, LAYERS
from realtime_lrp.relevance.reading.operations import OPERATIONS
from realtime_lrp.system.program import __version__
from realtime_lrp.video import pictures
from realtime_lrp.video.sources import SOURCES

HOME = Path(__file__).parents[1]
DOCUMENTS = [HOME / "README.md", HOME / "CONTRIBUTING.md", *sorted((HOME / "docs").glob("*.md"))]


def commands_in(document):
    """The program's commands in a document, each a list of words: of blocks and of the text."""
    text = document.read_text(encoding="utf-8")
    blocks = re.findall(r"^ *```(?:sh|bash)\n(.*?)^ *```", text, re.M | re.S)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    without_blocks = re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S)
    spans = (" ".join(span.split()) for span in re.findall("`([^`]+)`", without_blocks))
    lines += [span for span in spans if span.startswith("realtime-lrp ")]
    for line in lines:
        lexer = shlex.shlex(line, posix=True, punctuation_chars="&;>")
        lexer.whitespace_split = True
        for chained, words in groupby(lexer, lambda word: word in ("&&", ";")):
            if not chained:
                first, *others = takewhile(lambda word: word != ">", words)
                if first.rpartition("/bin/")[2] == "realtime-lrp":
                    yield others


def needs_more(name, *words):
    """Whether a command is only spoken of: alone, it would say what it lacks."""
    return not words and any(one.required for one in cli.commands[name].params)


def check(name, *options):
    """The command and its options exist, and the values are legal."""
    if not name.startswith("-"):
        assert name in INSTEAD, "say in INSTEAD how it is run"
        if needs_more(name, *options):
            return
    try:
        if name.startswith("-"):
            context = cli.make_context("realtime-lrp", [name, *options])
        else:
            context = cli.commands[name].make_context(name, list(options))
    except click.exceptions.Exit as ended:  # --help and what else prints and ends
        assert ended.exit_code == 0
        return
    given = context.params
    if "sets" in given:
        options = {
            f"--{name.removeprefix('key_').replace('_', '-')}": value
            for name, value in given.items()
            if name.startswith("key_") and value is not None
        }
        file = given["config_file"]
        recorded = recorded_in(file) if file else None
        tree = config.settings_tree(recorded.settings, file) if recorded else file
        config.load(tree, given["sets"], options)


COMMANDS = sorted({tuple(words) for file in DOCUMENTS for words in commands_in(file)})


@pytest.fixture(scope="module")
def furnished(tmp_path_factory, tiny_model):
    """A folder with every file that the documentation names."""
    tmp_path = tmp_path_factory.mktemp("workshop")
    write_picture(tmp_path / "cat.jpg", plain((200, 120, 40)))
    recording(tmp_path / "talk.mp4", count=6)
    for name in ("folder", "films", "recordings", "photos", "found", "mine", "my_classifier"):
        (tmp_path / name).mkdir()
    recording(tmp_path / "recordings" / "one.mp4", count=6)
    write_picture(tmp_path / "photos" / "cat.jpg", plain((200, 120, 40)))
    write_picture(tmp_path / "photos" / "dog.jpg", plain((80, 60, 40)))
    for number in range(10):
        (folder := tmp_path / "things" / f"{number % 2}").mkdir(parents=True, exist_ok=True)
        write_picture(folder / f"{number}.png", plain((20 * number, 80, 20)))
    box = {"cat.jpg": {"box": [10, 10, 30, 30]}}
    (tmp_path / "boxes.json").write_text(json.dumps(box))
    shutil.copy(tiny_model, tmp_path / "mine.keras")
    for name in ("mine.onnx", "mine.tflite", "faces.onnx", "cert.pem", "key.pem"):
        (tmp_path / name).touch()
    settings = {"model.name": "mine.keras", "model.preprocess": "tf", "lrp.samples": 5}
    made = Provenance(
        version=__version__, tensorflow="", keras="", python="", settings=settings, layers={},
        model=ModelProvenance(name="mine.keras"), method="lrp", composite="zplus", target="all",
        device="CPU", precision="float32",
    )  # fmt: skip
    pictures.write_picture(tmp_path / "owl.png", plain(), description=made.as_json())
    shutil.copy(tiny_model, tmp_path / "cups.keras")
    about = About(("cup", "pen", "hand", "nothing"), "tf", made)
    with zipfile.ZipFile(tmp_path / "cups.keras", "a") as archive:
        archive.writestr(TAUGHT, msgspec.json.encode(about))
    found = [{"channel": 44, "share": 0.2, "name": "houses"}]
    settings = {"provenance": {"settings": {"concepts.layer": "block5_conv2"}}}
    (tmp_path / "out.jsonl").write_text(json.dumps({"time": 0.5, "concepts": found} | settings))
    for name in ("vgg16.concepts", "my.concepts", "vit.concepts"):
        shutil.copy(HOME / "assets" / "shapes.concepts", tmp_path / name)
    (tmp_path / "names.txt").write_text("tabby\ntiger cat\ncock\nhen\n")
    (tmp_path / "token").write_text("0123456789abcdef0123456789abcdef\n")
    (tmp_path / "token").chmod(0o600)
    (tmp_path / "my.yaml").write_text("overlay: {opacity: 0.5}\n")
    (tmp_path / "found" / "settings.yaml").write_text("lrp: {composite: epsilon}\n")
    (tmp_path / "exhibit.yaml").write_text("model: {name: shapes}\n")
    return tmp_path


@pytest.fixture
def workshop(tmp_path, furnished, monkeypatch):
    shutil.copytree(furnished, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("click.prompt", lambda *words, **how: "2718")
    return tmp_path


def filled_in(words):
    """The words with what a shell would make of them, and with names in the place of blanks."""
    for word in words:
        word = os.path.expanduser("live" if word == "COMMAND" else word)
        yield from sorted(glob.glob(word)) or [word]


TINY = ("--model", "mine.keras", "--preprocess", "tf")
NO_CAMERA = ("--source", "synthetic", "--display", "none", "--duration", "0.2")
INSTEAD = {
    "bench": (*TINY[:2], "--quick"), "concepts": (), "export": TINY, "config": (),
    "demo": ("-o", "film.mp4"), "doctor": NO_CAMERA[:4], "evaluate": ("--count", "1"),
    "image": (*TINY, "--labels", "names.txt"), "inspect": TINY,
    "kiosk": ("--model", "shapes", *NO_CAMERA), "live": (*TINY, *NO_CAMERA), "models": (),
    "serve": (*TINY, "--source", "synthetic", "--port", "0", "--duration", "0.2"), "show": (),
    "teach": (*TINY, "--overwrite"), "video": TINY,
}  # fmt: skip
"""Command -> further words that replace those that need a camera, a download or much time."""

LONG = {
    "bench", "concepts", "demo", "doctor", "evaluate", "export", "kiosk", "live", "serve",
    "--sheet", "--workers", "shapes_vit",
}  # fmt: skip
"""Commands, options and networks that take long."""


def runs(words):
    """Whether a command runs here: it is not only spoken of, and needs no cluster and no store."""
    return words[0] in INSTEAD and not (
        needs_more(*words) or "--ray" in words or any("s3://" in word for word in words)
    )


RUN = [words for words in COMMANDS if runs(words)]
NOT_RUN = [words for words in COMMANDS if words not in RUN or LONG & {*words}]


@pytest.mark.parametrize("words", NOT_RUN, ids=" ".join)
def test_every_command_that_is_not_run_is_understood(words, workshop):
    check(*filled_in(words))


@pytest.mark.parametrize(
    "words",
    [pytest.param(w, marks=[pytest.mark.release] if LONG & set(w) else []) for w in RUN],
    ids=" ".join,
)
def test_every_command_of_the_program_runs(words, workshop, run):
    further = () if {"--help", "--print-unit"} & set(words) else INSTEAD[words[0]]
    if words[0] == "concepts" and {"shapes", "shapes_vit"} & set(words):
        further = ("--count", "1", "--overwrite")
    elif words[0] == "concepts":
        further = () if "--names" in words else (*TINY, "--overwrite")
    elif "--gallery" in words:
        further = ("--model", "shapes", *NO_CAMERA)
    elif "--images" in words:
        further = (*TINY, "--overwrite") if words[0] == "evaluate" else (*further, *TINY)
    elif words[0] == "teach" and "things" not in words:
        further = (*further, *NO_CAMERA)
    elif "--sidecar" in words and "--overwrite" not in words:
        further = (*further, "--overwrite")
    code, printed, told = run(*filled_in((*words, *further)))
    assert code == 0, told
    assert printed or told


nbformat = pytest.importorskip("nbformat", reason="the extra test is not installed")
pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
import notebooks  # noqa: E402, from assets/make

STORED = sorted(notebooks.NOTEBOOKS.glob("*.ipynb"))


@pytest.fixture(autouse=True)
def _own_folders(tmp_path, monkeypatch):
    """A kernel leaves nothing in the home folder, and TensorFlow may say all that it has to."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")


def outputs(notebook, kind):
    cells = (cell for cell in notebook.cells if cell.cell_type == "code")
    return [one for cell in cells for one in cell.outputs if one.output_type == kind]


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_notebook_is_stored_with_its_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not outputs(notebook, "error")
    assert {one.name for one in outputs(notebook, "stream")} <= {"stdout"}
    shown = outputs(notebook, "execute_result") + outputs(notebook, "display_data")
    assert sum("image/png" in one.data for one in shown) >= 3
    assert path.stat().st_size < 1_000_000 and str(Path.home()) not in path.read_text()


@pytest.mark.release
@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_notebook_runs(path):
    done = notebooks.execute(nbformat.read(path, as_version=4))
    assert {one.name for one in outputs(done, "stream")} <= {"stdout"}
    if path.stem == "explain_your_own_network":
        printed = "".join(one.text for one in outputs(done, "stream"))
        share = int(printed.split("without sticker: ")[1].split("%")[0])
        assert share < 30  # the shortcut is what its text says


PAGE = (Path(__file__).parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")
TITLES = re.findall(r"^## (.*)$", PAGE, re.M)
SCRIPTED = "With the commands"
TABLES = {
    "RULES": RULES, "COMPOSITES": COMPOSITES, "LAYERS": LAYERS, "ACTIVATIONS": ACTIVATIONS,
    "OPERATIONS": OPERATIONS, "METHODS": METHODS, "NETWORKS": NETWORKS, "SOURCES": SOURCES,
    "COLORMAPS": COLORMAPS,
}  # fmt: skip


def blocks(title, language="python"):
    section = re.split(rf"^## {title}$", PAGE, flags=re.M)[1].split("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", section, re.M | re.S)


@pytest.fixture(autouse=True)
def tables():
    changed = (*TABLES.values(), keras.saving.get_custom_objects(), ALLOWED_CLASSES["keras.layers"])
    before = [copy.copy(table) for table in changed]
    yield
    for table, rows in zip(changed, before, strict=True):
        table.clear()
        table.update(rows)


def executed(title):
    namespace = {"__name__": "extending"}
    for block in blocks(title):
        exec(compile(block, f"extending.md: {title}", "exec"), namespace)


def test_every_block_is_run_by_one_of_these_tests():
    everywhere = re.findall(r"^```(\w*)$", PAGE, re.M)
    assert len([one for one in everywhere if one == "python"]) == sum(map(len, map(blocks, TITLES)))
    assert set(everywhere) == {"python", "sh", ""}
    assert [name for name in TABLES if f"| `{name}`" not in PAGE] == []


@pytest.mark.parametrize("title", [title for title in TITLES if title != SCRIPTED])
def test_a_section_runs_and_finds_what_it_asserts(title):
    before = {name: len(table) for name, table in TABLES.items()}
    assert any("assert" in block for block in blocks(title))
    executed(title)
    assert any(len(table) > before[name] for name, table in TABLES.items())


def words_of(command):
    (line,) = [one for one in blocks(SCRIPTED, "sh")[0].splitlines() if f"mine.py {command}" in one]
    return shlex.split(line, comments=True)[1:]


def test_a_script_is_the_program_with_its_own_rows(run, tmp_path):
    executed(SCRIPTED)
    assert blocks(SCRIPTED)[0].endswith('if __name__ == "__main__":\n    main()\n')
    _, *words = words_of("live")
    words += ["--display", "none", "--duration", "0.1", "--stats", tmp_path / "stats.json"]
    code, _, err = run(*words)
    assert code == 0, err
    assert json.loads((tmp_path / "stats.json").read_text())["maps"] >= 1


def test_recordings_are_drawn_with_its_rows(run, tmp_path, monkeypatch):
    executed(SCRIPTED)
    monkeypatch.chdir(tmp_path)
    media.recording(tmp_path / "talk.mp4", count=4)
    _, command, *words = words_of("video")
    code, _, err = run(command, *words, "--set", "overlay.opacity=1", "--layout", "map")
    assert code == 0, err
    with av.open(str(tmp_path / "out.mp4")) as film:
        pictures = [frame.to_ndarray(format="rgb24") for frame in film.decode(video=0)]
    red, green, blue = np.float32(pictures).reshape(-1, 3).T
    pink = (red > 1.2 * green) & (blue > 1.2 * green) & (red + blue > 250)
    assert pink.sum() > 5  # no included colour map has red and blue at one place


def test_a_configuration_may_name_its_rows(run, tmp_path):
    executed(SCRIPTED)
    _, command, *words = words_of("config")
    code, out, err = run(command, *words)
    assert code == 0 and "composite: mine" in out, err
    assert "mine" in legal_values("lrp.composite")
    code, _, err = run("config", "--set", "lrp.composite=mime")
    assert code == 78 and "Did you mean 'mine'?" in err
    code, _, err = run("config", "--set", "overlay.colormap=violett")
    assert code == 78 and "Did you mean 'violet'?" in err
