"""How an explainer was built, as a record for what it exports."""

import hashlib
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import msgspec
import tensorflow as tf

from realtime_lrp.config import Config
from realtime_lrp.config.provenance import ModelProvenance, Provenance
from realtime_lrp.relevance.graph import Graph
from realtime_lrp.relevance.rules.composites import COMPOSITES, Composite
from realtime_lrp.relevance.rules.rules import Rule
from realtime_lrp.system.version import __version__

LRP = type(Config().lrp).model_fields
"""The keys of the section lrp; arguments of `Explainer` have the same names."""


def kept_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Those arguments of `Explainer` that are settings of the configuration too."""
    return {
        name: arguments[name] for name in (*LRP, "size", "output_activation") if name in arguments
    }


def layer_rules(graph: Graph, rules: Mapping[int, Rule]) -> dict[str, str]:
    """Layer -> its rule, as `rule_named` reads it; `rules` has them by output number."""
    names = {node.output: node.layer for node in graph.nodes}
    return {names[output]: str(rule) for output, rule in rules.items()}


def explainer_provenance(
    model: str,
    arguments: Mapping[str, Any],
    rules: Mapping[str, str],
    target: str | int,
    precision: str,
) -> Provenance:
    """The record of an explainer.

    Args:
      model: the name of its network.
      arguments: see `kept_arguments`.
      rules: the rule of each layer.
      target: what it explains at present.
      precision: in which layers with weights compute.
    """
    settings = _settings({**arguments, "target": str(target)})
    method = arguments["method"]
    return Provenance(
        version=__version__,
        tensorflow=tf.__version__,
        keras=keras.__version__,
        python=platform.python_version(),
        model=ModelProvenance(name=model),
        method=method,
        composite=settings["lrp.composite"] if method == "lrp" else None,
        layers=dict(rules),
        target=str(target),
        device=None,
        precision=precision,
        settings=settings,
    )


def _settings(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that are not at their defaults by their keys; the target in any case.

    So is the composite where the method is lrp; other methods do not use it.
    """
    settings = {
        f"lrp.{name}": _plain(value)
        for name, value in arguments.items()
        if name in LRP and value is not None and _plain(value) != LRP[name].default
    }
    if arguments["method"] == "lrp":
        settings["lrp.composite"] = _plain(arguments["composite"])
    else:
        settings.pop("lrp.composite", None)
    settings["lrp.target"] = arguments["target"]
    if size := arguments["size"]:
        settings["model.size"] = "x".join(map(str, size))
    if activation := arguments["output_activation"]:
        settings["model.output_activation"] = activation
    return settings


def with_weights_hash(provenance: Provenance, weights: Sequence[tf.Variable]) -> Provenance:
    """The record with the SHA-256 of all weights, one after the other."""
    digest = hashlib.sha256()
    for weight in weights:
        digest.update(weight.numpy().tobytes())
    model = msgspec.structs.replace(provenance.model, sha256={"weights": digest.hexdigest()})
    return msgspec.structs.replace(provenance, model=model)


def _plain(value: Any) -> Any:
    """A value as JSON holds it; a composite without a name is "custom", which `load` refuses."""
    if isinstance(value, Composite):
        return next((name for name, one in COMPOSITES.items() if one is value), "custom")
    if isinstance(value, Mapping):
        return {pattern: str(rule) for pattern, rule in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list(value)
    return value
