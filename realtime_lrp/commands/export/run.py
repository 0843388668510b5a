"""`export`: writes the explanation of one network and method as an ONNX file or a web page.

The page is the one in `page/`; what `serve`'s page has too comes from there. The constants of the
painter and the colours are written into it from where they are defined.
"""

import base64
import hashlib
import html
import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from realtime_lrp.config import ASSETS, Config
from realtime_lrp.config.names import EMBEDDED, VIEWER_COMPOSITE
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.exported import ExportedExplainer
from realtime_lrp.errors import DamagedInputError, UnavailableError, UsageError
from realtime_lrp.models.exported import Exported, session_of
from realtime_lrp.relevance.maps import scale
from realtime_lrp.relevance.maps.account import TINY
from realtime_lrp.relevance.maps.targets import class_label, target_words, tidied
from realtime_lrp.system import files
from realtime_lrp.system.program import __version__
from realtime_lrp.video.pictures import encode_picture
from realtime_lrp.video.reader import VideoReader
from realtime_lrp.view import painting
from realtime_lrp.view.look import Look

VERSION = "1.30.0"  # onnxruntime-web's

CDN = f"https://cdn.jsdelivr.net/npm/onnxruntime-web@{VERSION}/dist/"
LOCAL = "runtime/"

RUNTIME: dict[str, dict[str, str]] = {
    "wasm": {
        "ort.wasm.min.mjs": "SfFfy/pvthiOsgaw3KX0bV5TfQ6Iq+oY9KutMe4SxIuHH4cl+DCSD4rTsYOoG1tJ",
        "ort-wasm-simd-threaded.mjs": (
            "XcXA/MtAf0WpB8e023xQH9CM7RIjiugakT7x99DIwpFf7k56BIFFcAPerIF7FDad"
        ),
        "ort-wasm-simd-threaded.wasm": (
            "vjBJ1z7qrhkTyYsNqKeF6c7N+nOJSU94czEo+tvZcu8G75JparGq9kB+kTnEUNVM"
        ),
    },
    "webgpu": {
        "ort.webgpu.min.mjs": "FPQBMbud8ICuP0Ii+Gr95KWEX9pKHtUC3lacIp0aPI8WYluKvTsEGQ3AE2Ze3QlL",
        "ort-wasm-simd-threaded.asyncify.mjs": (
            "qViEcCGzsR/m8nlQwIsbYh7afN4thuraqFYDQY6huvmoLVoZq/eYawQ1wrv8nnhA"
        ),
        "ort-wasm-simd-threaded.asyncify.wasm": (
            "EPVDLTxuO663dkZO/pcKJF6vOyyfq/5z9FY1oksN0UWFX2ABH4wDDZQHeNoUleWR"
        ),
    },
}
"""The files of onnxruntime-web by what computes, library first: name -> SHA-384."""
CHECKSUMS = RUNTIME["wasm"] | RUNTIME["webgpu"]

LARGEST = 64 << 20  # bytes of a file of onnxruntime-web
MEGABYTES = 14  # a visitor loads at least so much of it

GRAPH = "explanation.onnx"
PARTS = "worker.js", "offline.js"
STYLES = "page.css"
EXAMPLE = "example.jpg"
EXAMPLE_AT = 45  # the frame of the included clip that is shown first
FILES = {"index.html", "page.js", STYLES, "icon.svg", GRAPH, EXAMPLE, LOCAL.strip("/"), *PARTS}

OWN = resources.files("realtime_lrp.commands.export") / "page"
SERVE = resources.files("realtime_lrp.commands.serve") / "page"

IMPORT = re.compile(r'^import \{(.*?)\} from "\./(\w+\.js)";\n', re.M)
EXPORT = re.compile(r"^export ((?:async )?function|const) (\w+)", re.M)


def run(
    config: Config, target: Path, fixed: bool, overwrite: bool, runtime: Path | None = None
) -> Iterator[str]:
    """Writes the file, or the folder of a page; yields a line that names it.

    With a `fixed` target it explains nothing else. `runtime`: a folder with onnxruntime-web, which
    is copied into the page.

    Raises:
      Error: what `make` raises.
      OutputError: the output cannot be made, or the folder holds other files.
      TransferError: writing failed.
    """
    page = target.is_dir() or target.suffix.lower() != ".onnx"
    if runtime and not page:
        raise UsageError("--runtime is for a web page. Expected the name of a folder in -o.")
    if page:
        files.check_folder(target, overwrite, FILES)
        of_runtime = _runtime_files(runtime) if runtime else {}
    else:
        files.check_output(target, overwrite)
    data, about = make(config, fixed)
    if page:
        with files.atomic_folder(target, overwrite, FILES) as folder:
            if runtime:
                (folder / LOCAL).mkdir()
            made = page_files(data, about, config, runtime is not None) | of_runtime
            for name, content in made.items():
                (folder / name).write_bytes(content)
    else:
        with files.atomic_file(target, overwrite) as part:
            part.write_bytes(data)
    yield (
        f"{about.name}, {about.composite or about.method}, {len(data) / 1e6:.1f} MB, differs by "
        f"{about.largest_difference:.0e} of a map's largest entry -> {target}"
    )


def make(config: Config, fixed: bool) -> tuple[bytes, Exported]:
    """The ONNX file of the configured explanation, and its metadata.

    Raises:
      Error: what `Engine` and `exported` raise; UnavailableError where ONNX is not installed.
    """
    try:
        import onnxruntime  # noqa: F401 - compares what was made, after a while

        from realtime_lrp.export.file import exported
    except ImportError as error:
        raise UnavailableError(
            f"Exporting needs {error.name}: pip install 'realtime-lrp[export]'"
        ) from None
    return exported(Engine(config, otherwise=VIEWER_COMPOSITE), fixed)


def _runtime_files(runtime: Path) -> dict[str, bytes]:
    """The files of onnxruntime-web in a folder; refuses those of another version."""
    found = {}
    for name, checksum in CHECKSUMS.items():
        content = files.read_limited(runtime / name, LARGEST, f"onnxruntime-web {VERSION}")
        if sha384(content) != checksum:
            raise DamagedInputError(
                f"{str(runtime / name)!r} is not the file of onnxruntime-web {VERSION}. Expected "
                f"the folder `dist` of that version: npm pack onnxruntime-web@{VERSION}"
            )
        found[LOCAL + name] = content
    return found


def page_files(data: bytes, about: Exported, config: Config, local: bool) -> dict[str, bytes]:
    """The files of the page by name; `local`: onnxruntime-web lies beside them."""
    spec = described(data, about, config, local)
    policy = (
        "default-src 'none'; script-src 'self' blob: 'wasm-unsafe-eval'; worker-src 'self' blob:; "
        f"connect-src 'self'{'' if local else ' ' + CDN.split('/npm')[0]}; style-src 'self'; "
        "img-src 'self' blob:; media-src 'self' blob:; base-uri 'none'; form-action 'none'"
    )
    method = about.composite or about.method
    written = {
        "policy": html.escape(policy),
        "title": html.escape(f"What {about.name} looks at"),
        "explanation": json.dumps(spec, separators=(",", ":")).replace("<", "\\u003c"),
        "made": html.escape(f"{about.name}, {method}; realtime_lrp {__version__}."),
    }
    texts = {
        "index.html": re.sub(r"\{(\w+)\}", lambda one: written[one[1]], _text(OWN / "index.html")),
        "page.js": bundled("page.js"),
        STYLES: _text(SERVE / STYLES) + _text(OWN / "own.css"),
        "icon.svg": _text(SERVE / "icon.svg"),
        **{name: _text(OWN / name) for name in PARTS},
    }
    made = {GRAPH: data, **{name: text.encode() for name, text in texts.items()}}
    if "example" in spec:
        with VideoReader(ASSETS / "demo.mp4") as reader:
            example = next(islice(reader, EXAMPLE_AT, None)).picture
        made[EXAMPLE] = encode_picture(".jpg", example)
    return made


def described(data: bytes, about: Exported, config: Config, local: bool) -> dict[str, Any]:
    """The explanation as the page needs it: names, constants of the painter, files to load."""
    look = Look.of(config.overlay)
    known = ExportedExplainer(about, about.target or "top1")
    colours = look.colours(known.signs_for(known.target)[0])
    contrast = bool(about.target) and known.target.contrasts
    low, high = "no relevance", "most"
    if contrast:
        names = (tidied(class_label(index, about.labels)) for index in known.target.classes)
        high, low, *_ = *(f"for {name}" for name in names), "for rest"
    elif colours.signed:
        low, high = ("against", "for") if about.map.by_rules else ("lowers it", "raises it")
    shown = [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in colours.table[::17].tolist()]
    runtime = {
        way: [{"name": name, "integrity": f"sha384-{one}"} for name, one in parts.items()]
        for way, parts in RUNTIME.items()
    }
    return {
        "names": class_names(about),
        "size": about.size,
        "fit": about.fit,
        "target": about.target and target_words(known.target, about.labels),
        "fades": about.map.by_rules and about.classes > 1 and not contrast,
        "signed": colours.signed,
        "colours": colours.table.ravel().tolist(),
        "legend": {"low": low, "high": high, "colours": shown},
        "windows": [scale.centred_window(period).tolist() for period in about.map.stride],
        "outline": painting.OUTLINE,
        "painter": {
            "percentile": scale.PERCENTILE, "softness": scale.SOFTNESS, "tiny": TINY,
            "smoothing": painting.SMOOTHING, "most": painting.MAX_ABOVE, "opacity": look.opacity,
            "halo": painting.HALO, "needed": painting.NEEDED, "muted": painting.MUTED,
            "grey": painting.GREY,
        },
        "check": checked(data, about),
        "graph": {"name": GRAPH, "integrity": f"sha384-{sha384(data)}"},
        "megabytes": math.ceil(len(data) / 1e6) + MEGABYTES,
        "runtime": {"base": LOCAL if local else CDN, **runtime},
        **({"example": EXAMPLE} if about.name in EMBEDDED else {}),
    }  # fmt: skip


def class_names(about: Exported) -> list[str]:
    """The names of the classes as people read them; a name that occurs twice with its number."""
    names = [tidied(class_label(n, about.labels)) for n in range(about.classes)]
    counts = Counter(name.lower() for name in names)
    return [f"{name} ({n})" if counts[name.lower()] > 1 else name for n, name in enumerate(names)]


def checked(data: bytes, about: Exported) -> dict[str, float]:
    """The answer for a picture of a simple rule, which the page computes first to compare.

    Its bytes are n / 32, of 8 bits.
    """
    picture = np.arange(math.prod(about.size) * 3) >> 5
    inputs: dict[str, np.ndarray] = {"picture": picture.astype(np.uint8).reshape(1, *about.size, 3)}
    if not about.target:
        inputs["target"] = np.zeros(about.classes, np.float32)
    scores, relevance, _ = session_of(data).run(None, inputs)
    best = int(scores.argmax())
    magnitude = float(np.abs(relevance).sum(dtype=float))
    return {"best": best, "score": float(scores[0, best]), "magnitude": magnitude}


def bundled(name: str) -> str:
    """A script with all that it imports, as one script that needs no modules."""
    text = _text(OWN / name if (OWN / name).is_file() else SERVE / name)
    parts = []
    for names, file in IMPORT.findall(text):
        module = bundled(file)
        given = ", ".join(found for _, found in EXPORT.findall(_text(SERVE / file)))
        inner = EXPORT.sub(r"\1 \2", module)
        parts.append(f"const {{{names}}} = (() => {{\n{inner}\nreturn {{ {given} }};\n}})();\n")
    return "".join(parts) + IMPORT.sub("", text)


def sha384(data: bytes) -> str:
    """The checksum as browsers take it."""
    return base64.b64encode(hashlib.sha384(data).digest()).decode()


def _text(file: Any) -> str:
    text: str = file.read_text(encoding="utf-8")
    return text
