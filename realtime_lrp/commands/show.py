"""`show`: prints how outputs were made. Files may come from anybody: all is printed as one line."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import msgspec

from realtime_lrp.config.provenance import KEY, Provenance
from realtime_lrp.errors import DamagedInputError, Error
from realtime_lrp.results.provenance import find_provenance, outputs_in, provenance_of_file
from realtime_lrp.results.tally import Tally


def run(files: Sequence[Path], as_json: bool) -> Iterator[str]:
    """Says how outputs, or folders of outputs, were made: a line of each, a few of a single one."""
    if len(files) == 1 and not as_json and (found := find_provenance(files[0])):
        yield from _lines(found)
        return
    tally = Tally(len(files), "shown")
    for path in files:
        try:
            for output, found in _outputs(path):
                yield _json(output, found) if as_json else _summary(output, found)
        except Error as error:
            tally.failed(path, error)
        else:
            tally.finished += 1
    tally.raise_worst()


def _outputs(path: Path) -> Iterator[tuple[Path, Provenance]]:
    """The outputs in a folder; a file, or a folder that is one output, is the only one."""
    if not path.is_dir() or find_provenance(path):
        yield path, provenance_of_file(path)
        return
    outputs = outputs_in(path)
    first = next(outputs, None)
    if first is None:
        raise DamagedInputError(
            f"Nothing in {str(path)!r} says how it was made. Expected outputs of realtime-lrp."
        )
    yield from chain([first], outputs)


def _json(path: Path, one: Provenance) -> str:
    return json.dumps({"file": str(path), KEY: msgspec.to_builtins(one)})


def _summary(path: Path, one: Provenance) -> str:
    method = one.composite or one.method or "several methods"
    target = "" if one.target is None else f", target {one.target}"
    made = f"{one.model.name}, {method}{target}, {one.precision}, version {one.version}"
    return _shown(f"{path}: {made}")


def _lines(one: Provenance) -> Iterator[str]:
    shown = ""
    for heading, text in _rows(one):
        yield f"{'' if heading == shown else heading:10} {_shown(text)}"
        shown = heading


def _rows(one: Provenance) -> Iterator[tuple[str, str]]:
    model = one.model
    libraries = {"TensorFlow": one.tensorflow, "Keras": one.keras, "Python": one.python}
    yield "made by", ", ".join([f"realtime_lrp {one.version}", *_named(libraries)])
    used = {"weights": model.weights, "preprocessing": model.preprocess, "labels": model.labels}
    yield "network", ", ".join([model.name, *_named(used)])
    for kind, value in model.sha256.items():
        yield "SHA-256", f"{kind} {value}"
    explained = {"composite": one.composite, "target": one.target}
    yield "explained", ", ".join([one.method or "several methods", *_named(explained)])
    yield "computed", one.precision + (f" on {one.device}" if one.device else "")
    for key, setting in one.settings.items():
        text = setting if isinstance(setting, str) else json.dumps(setting, ensure_ascii=False)
        yield "settings", f"{key}: {text}"
    for rule, layers in _by_rule(one.layers or {}).items():
        yield "layers", f"{rule}: {', '.join(layers)}"


def _named(values: Mapping[str, str | None]) -> list[str]:
    return [f"{name} {value}" for name, value in values.items() if value is not None]


def _shown(text: str) -> str:
    """The text in one line."""
    return text.replace("\n", " ")


def _by_rule(layers: dict[str, str]) -> dict[str, list[str]]:
    by_rule: dict[str, list[str]] = {}
    for layer, rule in layers.items():
        by_rule.setdefault(rule, []).append(layer)
    return by_rule
