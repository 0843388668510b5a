"""By what a finished file is known again: its source and everything that shaped it."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from realtime_lrp import __version__
from realtime_lrp.config import Config
from realtime_lrp.errors import MissingInputError
from realtime_lrp.video.libraries import av

SAMPLE = 2**20
"""Bytes at the beginning, in the middle and at the end of a file that stand for all of it."""

SECTIONS = ("model", "lrp", "input", "overlay", "video")


def fingerprint(source: Path, config: Config, further: Mapping[str, Any]) -> str:
    """32 hexadecimal digits for a source, the settings, the files that these name, our version."""
    settings = config.model_dump(mode="json", include=set(SECTIONS))
    settings["video"].pop("batch")
    for shown_live in ("follow", "style", "average"):
        settings["overlay"].pop(shown_live)
    files = [source]
    for named in (config.model.name, config.model.weights, config.model.labels):
        if named and Path(named).is_file():
            files.append(Path(named))
    facts = [__version__, settings, dict(further), [_sampled(file) for file in files]]
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:32]


def _sampled(file: Path) -> str:
    try:
        size = file.stat().st_size
        digest = hashlib.sha256(str(size).encode())
        with file.open("rb") as stream:
            for place in (0, max(0, size // 2 - SAMPLE // 2), max(0, size - SAMPLE)):
                stream.seek(place)
                digest.update(stream.read(SAMPLE))
    except OSError as error:
        raise MissingInputError(f"{str(file)!r} cannot be read ({error.strerror}).") from None
    return digest.hexdigest()


def noted_beside(target: Path, mark: str) -> str | None:
    """What was made beside a video, as its comment says behind our fingerprint.

    Returns:
      The letters that were given with the mark; None where the video has another mark or none.
    """
    try:
        with av.open(os.path.abspath(target)) as container:
            tags = {key.lower(): value for key, value in container.metadata.items()}
    except (av.FFmpegError, ValueError, OSError):
        return None
    ours = tags.get("comment", "").splitlines()[-1:]
    _, found, letters = ours[0].partition(mark) if ours else ("", "", "")
    return letters if found else None
