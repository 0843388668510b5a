"""The outputs of an evaluation, and how `--resume` knows finished ones: by a hash in the report."""

import hashlib
import json
from collections.abc import Collection, Sequence
from pathlib import Path

from realtime_lrp.commands.evaluate.folder import REPORT_FILE, check_report_folder
from realtime_lrp.commands.evaluate.kept import Facts
from realtime_lrp.commands.evaluate.options import EvaluateOptions
from realtime_lrp.config import Config
from realtime_lrp.system.atomic import check_output

FINGERPRINT = "fingerprint"
"""The key of the hash in a report."""


def fingerprint_of(facts: Facts, rows: Sequence[str], config: Config) -> str:
    """Hash of everything that an evaluation's files depend on, 32 hexadecimal digits.

    Args:
      facts: what the values of rows depend on.
      rows: the names of the rows that are measured, in their order.
      config: how maps are drawn is taken from it.
    """
    drawing = config.overlay.model_dump(mode="json")
    text = json.dumps([dict(facts), [*rows], drawing], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def fingerprint_in(report: Path) -> str | None:
    """The hash in a report; None if the file is missing or is no report."""
    try:
        found = json.loads(report.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found.get(FINGERPRINT) if isinstance(found, dict) else None


def reports(options: EvaluateOptions) -> list[Path]:
    """The JSON files that are asked for."""
    in_folder = options.output / REPORT_FILE if options.output else None
    return [*filter(None, (in_folder, options.json))]


def is_finished(options: EvaluateOptions, fingerprint: str, names: Collection[str]) -> bool:
    """Whether all files exist, and come from the same network, pictures and settings.

    Args:
      options: which files are asked for.
      fingerprint: see `fingerprint_of`.
      names: of the files in the folder.
    """
    files = [options.output / name for name in names] if options.output else []
    files += [options.picture] if options.picture else []
    same = [fingerprint_in(report) == fingerprint for report in reports(options)]
    return any(same) and all(same) and all(file.is_file() for file in files)


def check_outputs(options: EvaluateOptions, names: Collection[str]) -> None:
    """Refuses outputs that cannot be made, before any work is done.

    Args:
      options: which files are asked for.
      names: of the files in the folder.

    Raises:
      OutputError: a file or the folder cannot be made.
    """
    if options.output:
        check_report_folder(options.output, options.overwrite, names)
    for target in filter(None, (options.json, options.picture)):
        check_output(target, options.overwrite)
