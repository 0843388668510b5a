"""`show`: prints how an output was made. It may come from anybody: all is printed as one line."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from realtime_lrp.config.provenance import Provenance
from realtime_lrp.results.provenance import provenance_of_file


def run(file: Path) -> Iterator[str]:
    """Says how an output was made, a few lines."""
    shown = ""
    for heading, text in _rows(provenance_of_file(file)):
        yield f"{'' if heading == shown else heading:10} {text}".replace("\n", " ")
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
    by_rule: dict[str, list[str]] = {}
    for layer, rule in (one.layers or {}).items():
        by_rule.setdefault(rule, []).append(layer)
    for rule, layers in by_rule.items():
        yield "layers", f"{rule}: {', '.join(layers)}"


def _named(values: Mapping[str, str | None]) -> list[str]:
    return [f"{name} {value}" for name, value in values.items() if value is not None]
