"""What is shipped: the files of the wheel and of the source distribution, the lock, the version."""

import ast
import inspect
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib.metadata import version
from pathlib import Path

import cv2
import numpy as np
import pytest

import realtime_lrp
from realtime_lrp import Colormap, Explainer, Network, fit, load_network, overlay
from realtime_lrp.errors import UsageError
from realtime_lrp.video import libraries

HOME = Path(__file__).parents[1]
PROJECT = tomllib.loads((HOME / "pyproject.toml").read_text())["project"]
NAME = f"realtime_lrp-{PROJECT['version']}"
READ = {  # what the program reads of assets
    "config.schema.json", "demo.mp4", "drawings.npz", "scenes.mp4", "realtime-lrp.service.in",
    "shapes.concepts", "shapes.keras", "shapes.names.yaml",
    "shapes_detector.keras", "shapes_vit.concepts", "shapes_vit.keras",
    *(f"captions/{code}.yaml" for code in ("de", "en", "es", "fr", "zh")),
    "lecture/de.yaml", "lecture/en.yaml", "words/de.yaml",
}  # fmt: skip


def modules():
    return {
        str(file.relative_to(HOME))
        for file in (HOME / "realtime_lrp").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


def files_below(*folders):
    found = (file for folder in folders for file in (HOME / folder).rglob("*"))
    return {
        str(file.relative_to(HOME)) for file in found if file.is_file() and file.suffix != ".pyc"
    }


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    pytest.importorskip("hatchling")
    return build(HOME, "wheel", tmp_path_factory.mktemp("dist"))


def build(source, kind, folder):
    code = f"import sys, hatchling.build as b; print(b.build_{kind}(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, folder], cwd=source, capture_output=True, text=True,
        check=True, timeout=120,
    )  # fmt: skip
    return folder / done.stdout.strip()


def test_the_wheel_holds_the_package_and_what_it_reads_and_nothing_else(built):
    with zipfile.ZipFile(built) as wheel:
        names = set(wheel.namelist())
        metadata = wheel.read(f"{NAME}.dist-info/METADATA").decode()
        commands = wheel.read(f"{NAME}.dist-info/entry_points.txt").decode()
    own = {name for name in names if not name.startswith(f"{NAME}.dist-info/")}
    assert own == modules() | {f"realtime_lrp/assets/{name}" for name in READ}
    assert {"realtime_lrp/py.typed", "realtime_lrp/__main__.py"} <= own
    assert f"{NAME}.dist-info/licenses/LICENSE" in names
    assert f"\nVersion: {PROJECT['version']}\n" in metadata
    assert "\nRequires-Python: >=3.11\n" in metadata
    assert {line for line in metadata.splitlines() if line.startswith("Provides-Extra")} == {
        f"Provides-Extra: {extra}" for extra in PROJECT["optional-dependencies"]
    }
    assert "realtime-lrp = realtime_lrp.__main__:main" in commands


@pytest.mark.release
def test_the_source_distribution_holds_what_the_readme_needs_and_makes_the_wheel(built, tmp_path):
    with tarfile.open(build(HOME, "sdist", tmp_path)) as archive:
        names = {name.removeprefix(f"{NAME}/") for name in archive.getnames()}
        archive.extractall(
            tmp_path, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {})
        )
    single = {
        "LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "SECURITY.md",
        "config.yaml", "pyproject.toml",
        "uv.lock", "PKG-INFO", ".gitignore", ".pre-commit-config.yaml",
    }  # fmt: skip
    assert names == single | modules() | files_below("assets", "docs", "tests")
    again = build(tmp_path / NAME, "wheel", tmp_path)
    with zipfile.ZipFile(again) as one, zipfile.ZipFile(built) as other:
        assert {i.filename: i.CRC for i in one.filelist} == {
            i.filename: i.CRC for i in other.filelist
        }


def test_the_version_stands_in_one_place():
    assert version("realtime-lrp") == PROJECT["version"]
    for file in (HOME / "realtime_lrp").rglob("*.py"):
        assert PROJECT["version"] not in file.read_text(encoding="utf-8"), file
    assert f"## {PROJECT['version']}" in (HOME / "CHANGELOG.md").read_text()


def test_the_lock_names_public_places_and_is_of_this_project():
    lock = tomllib.loads((HOME / "uv.lock").read_text())
    (own,) = (one for one in lock["package"] if one["name"] == "realtime-lrp")
    others = [one for one in lock["package"] if one is not own]
    assert own["version"] == PROJECT["version"] and own["source"] == {"editable": "."}
    assert lock["requires-python"] == PROJECT["requires-python"]
    assert len(others) > 50
    for one in others:
        assert one["source"] == {"registry": "https://pypi.org/simple"}, one["name"]
        for file in (*one["wheels"], *([one["sdist"]] if "sdist" in one else ())):
            assert file["url"].startswith("https://files.pythonhosted.org/packages/"), file
            assert file["hash"].startswith("sha256:"), file


@pytest.mark.release
def test_the_lock_is_up_to_date():
    """What pyproject.toml asks for is what is locked. Needs uv and the registry."""
    if not (uv := shutil.which("uv")):
        pytest.skip("uv is not installed")
    done = subprocess.run(
        [uv, "lock", "--check", "--no-config"], cwd=HOME, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.release
def test_the_wheel_runs_in_a_clean_environment(built, tmp_path):
    home = tmp_path / "home"
    environment = {
        name: value for name, value in os.environ.items() if name not in ("DISPLAY", "PYTHONPATH")
    } | {"HOME": str(tmp_path)}
    venv.create(home, with_pip=True)

    def run(*words):
        done = subprocess.run(
            [str(home / "bin" / words[0]), *map(str, words[1:])], cwd=tmp_path, env=environment,
            capture_output=True, text=True, timeout=1800,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    run("pip", "install", "--quiet", "--no-cache-dir", built)
    assert run("realtime-lrp", "--version").split()[-1] == PROJECT["version"]
    assert (
        run("realtime-lrp", "config").splitlines()[1:]
        == ((HOME / "config.yaml").read_text().splitlines()[1:])
    )
    where = run("python", "-c", "import realtime_lrp; print(realtime_lrp.__file__)")
    assert Path(where.strip()).is_relative_to(home)
    run("realtime-lrp", "demo", "-o", "x.mp4")
    assert all(file.stat().st_size > 100_000 for file in [tmp_path / "x.mp4", tmp_path / "x.png"])


@pytest.mark.release
def test_the_lowest_versions_work(tmp_path):
    uv = shutil.which("uv")
    if not uv:
        pytest.skip("uv is not installed")
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["test"]]
    wanted = [re.sub("^tensorflow>=", "tensorflow-cpu>=", line) for line in wanted]
    lowest = tmp_path / "lowest"
    python = lowest / "bin" / "python"
    for words in (
        ("venv", "--python", sys.executable, lowest),
        ("pip", "install", "--resolution", "lowest-direct", "--python", python, *wanted),
    ):
        subprocess.run([uv, *map(str, words)], check=True, timeout=1200)
    done = subprocess.run(
        [str(python), "-m", "pytest", "-q", "-W", "ignore", "-p", "no:cacheprovider",
         "-m", "not release and not gui", str(HOME / "tests")],
        cwd=HOME, env={**os.environ, "PYTHONPATH": str(HOME)}, capture_output=True, text=True,
        timeout=3600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:]


def test_pyav_is_imported_after_opencv():
    """PyAV before OpenCV hangs the first window for ever."""
    with open(libraries.__file__) as file:
        lines = [line.split("#")[0].strip() for line in file]
    assert lines.index("import cv2") < lines.index("import av")


def loaded_after(statement):
    """The top-level modules that are loaded in a fresh interpreter after a statement."""
    code = f"{statement}\nimport sys; print(*{{n.split('.')[0] for n in sys.modules}})"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(out.stdout.split())


HEAVY = {"tensorflow", "keras", "cv2", "av", "rich"}


def test_heavy_libraries_are_imported_late():
    for statement, absent in (
        ("import realtime_lrp", HEAVY),
        ("import realtime_lrp.config", HEAVY),
        ("import realtime_lrp.cli", HEAVY),
        ("from realtime_lrp import COLORMAPS, Error, Source, open_source", {"tensorflow"}),
        ("import realtime_lrp.commands.live.run, realtime_lrp.commands.kiosk.start",
         {"tensorflow", "keras", "matplotlib"}),
    ):  # fmt: skip
        assert not loaded_after(statement) & absent


@pytest.mark.release
def test_keras_is_imported_without_matplotlib():
    statement = "import realtime_lrp.engine.tensorflow, sys; "
    statement += "assert 'matplotlib' not in sys.modules; import matplotlib.figure"
    assert "matplotlib" in loaded_after(statement)


PACKAGE = Path(realtime_lrp.__file__).parent
CALLABLE = {one for one in realtime_lrp.__all__ if callable(getattr(realtime_lrp, one))} - {"Error"}


def test_people_and_type_checkers_are_offered_the_same():
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


@pytest.mark.parametrize("name", sorted(CALLABLE))
def test_every_parameter_is_described(name):
    for called, function, text in documented(getattr(realtime_lrp, name)):
        assert text.splitlines()[0].endswith((".", ";")), called
        parameters = set(inspect.signature(function).parameters) - {"self", "cls"}
        assert not [one for one in parameters if not re.search(rf"\b{one}\b", text)], called


def test_an_overlay_is_what_the_program_draws(run, tiny_model, rng, tmp_path):
    picture = rng.integers(0, 256, (90, 120, 3), np.uint8)
    cv2.imwrite(str(tmp_path / "in.png"), picture[..., ::-1])
    words = ("--model", tiny_model, "--preprocess", "tf", "--target", "top1", "--precision")
    assert run("image", tmp_path / "in.png", "-o", tmp_path / "out.png", *words, "float32")[0] == 0
    network = load_network(str(tiny_model), preprocess="tf")
    x, region = fit(picture, network)
    assert region.box == (15, 0, 105, 90) and x.shape == (1, 32, 32, 3)
    drawn = overlay(picture, Explainer(network.model, target="top1")(x).relevance[0])
    np.testing.assert_array_equal(drawn, cv2.imread(str(tmp_path / "out.png"))[..., ::-1])
    assert not np.array_equal(drawn, picture)


def test_an_overlay_follows_its_words(rng):
    picture = rng.integers(0, 200, (40, 60, 3), np.uint8)
    relevance = np.zeros((10, 10, 3), np.float32)
    np.testing.assert_array_equal(overlay(picture, relevance, fit="squash"), picture)
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
    picture = np.zeros((60, 120, 3), np.uint8)
    picture[24:36, 54:66] = 255
    x, region = fit(picture, Network("any", None, preprocess="rescale"), fit=how, size=(30, 30))
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
    api = pytest.importorskip("mypy.api")
    (tmp_path / "right.py").write_text(SCRIPT)
    words = ["--strict", "--cache-dir", str(tmp_path / "cache"), "--follow-imports=silent"]
    out, err, code = api.run([*words, str(tmp_path / "right.py")])
    assert code == 0, out + err
