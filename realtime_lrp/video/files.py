"""Finds the files that INPUT and -o name."""

import glob
import os
from collections.abc import Sequence
from pathlib import Path

from realtime_lrp.errors import MissingInputError, OutputError, UsageError, masked
from realtime_lrp.system.atomic import check_output, refuse_link

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff")
VIDEOS = (".mp4", ".mkv", ".mov", ".avi", ".webm", ".m4v", ".mpg", ".mpeg", ".ts", ".wmv")


def inputs_of(words: Sequence[str], suffixes: Sequence[str], kind: str) -> list[Path]:
    """The files that INPUT... names: files, folders (their files with a known ending) and globs.

    Args:
      words: what the user wrote.
      suffixes: the known endings, lower case, with the dot.
      kind: what the files are, for messages, for example "picture".

    Raises:
      MissingInputError: a word names no file.
    """
    files: list[Path] = []
    for word in words:
        try:
            found = _named(word, suffixes)
        except OSError:
            found = []
        if not found:
            raise MissingInputError(
                f"There is no {kind} {masked(word)!r}: no such file, folder or match."
            )
        files += found
    return files


def _named(word: str, suffixes: Sequence[str]) -> list[Path]:
    path = Path(word)
    if path.is_dir():
        return sorted(p for p in path.iterdir() if p.is_file() and p.suffix.lower() in suffixes)
    if path.exists():
        return [path]
    return sorted(Path(p) for p in glob.glob(word, recursive=True) if Path(p).is_file())


def outputs_for(
    inputs: Sequence[Path], output: str, suffix: str, suffixes: Sequence[str], overwrite: bool
) -> list[Path]:
    """One output for each input, all checked before any work is done.

    Args:
      inputs: the files to read.
      output: what the user wrote after -o: a file, or a folder that exists.
      suffix: the ending of outputs in a folder.
      suffixes: the endings that an output may have.
      overwrite: whether existing files may be replaced.

    Raises:
      UsageError: the output has an unknown ending.
      OutputError: an output cannot be made, is an input, or belongs to several inputs.
    """
    target = Path(output)
    if os.path.isdir(target):
        targets = [target / (source.stem + suffix) for source in inputs]
        for made in targets:
            refuse_link(made)
    elif output.endswith(("/", os.sep)) or len(inputs) > 1:
        raise OutputError(
            f"There is no folder {output!r}. Several inputs go into a folder; make it first."
        )
    elif target.suffix.lower() not in suffixes:
        raise UsageError(f"{output!r} has no known ending. Expected one of {', '.join(suffixes)}.")
    else:
        targets = [target]
    for source, made in zip(inputs, targets, strict=True):
        if os.path.exists(made) and any(made.samefile(other) for other in inputs):
            raise OutputError(f"{str(made)!r} is an input. Choose another name or folder.")
        if targets.count(made) > 1:
            raise OutputError(f"Two inputs would be written to {str(made)!r}. Rename {source}.")
        check_output(made, overwrite)
    return targets
