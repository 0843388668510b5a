"""`--config OUTPUT`: the settings of an output become the configuration, which repeats the run."""

import logging
import os
from pathlib import Path

from realtime_lrp import config
from realtime_lrp.config.provenance import Provenance
from realtime_lrp.errors import ConfigError, DamagedInputError
from realtime_lrp.system.program import __version__

KEYS = {"model": "model.name", "weights": "model.weights", "labels": "model.labels"}
"""Kind of a file -> the key that names it."""

log = logging.getLogger(__name__)


def recorded_in(file: str) -> Provenance | None:
    """How the output was made that stands for a configuration; None if it is a configuration."""
    path = Path(file)
    suffix = path.suffix.lower()
    if suffix in (".yaml", ".yml"):
        return None
    from realtime_lrp.results.provenance import READERS, find_provenance

    if not (suffix in READERS or os.path.isdir(path)):
        return None
    try:
        found = find_provenance(path)
    except DamagedInputError as error:
        raise ConfigError(str(error)) from None
    if found is None and suffix in READERS and suffix != ".json":  # which may be a configuration
        raise ConfigError(
            f"{file!r} holds no settings. Expected a YAML file, or an output of realtime-lrp that "
            "says how it was made: see realtime-lrp show."
        )
    if found and found.version != __version__:
        log.warning(
            "%s was made by version %s; this is %s, whose defaults may differ",
            file, found.version, __version__,
        )  # fmt: skip
    return found


def check_files(file: str, recorded: Provenance, settings: config.Settings) -> None:
    """Refuses to repeat a run with other files than it was made with, unless they were named."""
    from realtime_lrp.models.names import hashes, network_files

    chosen = {key for key in KEYS.values() if settings.origins[key].startswith("--")}
    if "model.name" in chosen:
        return
    if "model.name" not in recorded.settings:
        raise ConfigError(f"{file!r} was made in Python. Say with --model which model it was.")
    now = hashes(network_files(settings.config))
    for kind, key in KEYS.items():
        then = recorded.model.sha256.get(kind)
        if key not in chosen and then and now.get(kind, then) != then:
            raise ConfigError(_changed(file, kind, then, now[kind], settings))


def warn_of_precision(
    file: str, recorded: Provenance, settings: config.Settings, exact: bool
) -> None:
    """Says that the numbers will differ where `auto` takes another precision than it took then.

    An `exact` run writes numbers, for which `auto` is float32.
    """
    if exact and settings.config.lrp.precision == "auto" and recorded.precision != "float32":
        log.warning(
            "%s was computed in %s; --sidecar and --maps compute in float32, so the output will "
            "not be the same: leave them out to repeat it",
            file, recorded.precision,
        )  # fmt: skip


def _changed(file: str, kind: str, then: str, now: str, settings: config.Settings) -> str:
    model = settings.config.model
    named = {"model": model.name, "weights": model.weights, "labels": model.labels}[kind]
    choose = f"--{kind} {named}" if named else f"--model {model.name}"
    return (
        f"The {kind} of {named or model.name!r} changed since {file!r} was made: SHA-256 "
        f"{then[:12]}..., now {now[:12]}...\n"
        f"To repeat the run, put the old file back. To use the new one, add {choose}."
    )
