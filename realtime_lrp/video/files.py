"""Finds the files that INPUT and -o name, and says what one holds that cannot be read."""

import glob
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from realtime_lrp.errors import MissingInputError, OutputError, UsageError, masked
from realtime_lrp.system.files import MOST_NAME, check_output, refuse_link

PICTURES = (
    ".png", ".apng", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".avif", ".gif", ".jp2", ".j2k",
    ".tif", ".tiff", ".bmp", ".dib", ".ppm", ".pgm", ".pbm", ".pnm", ".hdr", ".pic", ".ras", ".sr",
)  # fmt: skip
"""Endings of pictures that OpenCV's wheel reads."""
MOST_NAMED = 4  # how many inputs or outputs are named that collide
VIDEOS = (
    ".mp4", ".mkv", ".mov", ".avi", ".webm", ".m4v", ".mpg", ".mpeg", ".ts", ".wmv", ".m2ts",
    ".mts", ".m2t", ".m2v", ".mpe", ".vob", ".mod", ".tod", ".trp", ".3gp", ".3g2", ".flv", ".f4v",
    ".asf", ".ogv", ".mxf", ".gxf", ".dv", ".dav", ".divx", ".qt", ".nut", ".rm", ".rmvb", ".wtv",
    ".mjpg", ".mjpeg", ".h264", ".264", ".h265", ".265", ".hevc", ".ivf", ".y4m",
)  # fmt: skip


KNOWN = (
    (0, b"\x89PNG\r\n\x1a\n", "PNG", "picture"),
    (0, b"\xff\xd8\xff", "JPEG", "picture"),
    (0, b"GIF8", "GIF", "picture"),
    (8, b"WEBP", "WebP", "picture"),
    (4, b"ftypavi", "AVIF", "picture"),
    (4, b"ftyphei", "a HEIC picture", ""),  # of phones; OpenCV's wheel does not read it
    (4, b"ftyp", "MP4 or MOV", "video"),
    (0, b"\x1a\x45\xdf\xa3", "MKV or WebM", "video"),
    (0, b"%PDF", "a PDF document", ""),
    (0, b"PK\x03\x04", "a ZIP archive", ""),
)
"""Offset, bytes, what they mean, and whether that is read: as a picture or a video."""

HEAD = 1024  # bytes that are looked at


def inputs_of(words: Sequence[str], suffixes: Sequence[str], kind: str) -> list[Path]:
    """The files that INPUT... names: files, folders (their files with a known ending) and globs.

    Suffixes are in lower case with the dot; `kind` is for messages, for example "picture".
    """
    files: list[Path] = []
    for word in words:
        why = "no such file, folder or match"
        found: list[Path] = []
        try:
            path = Path(word)
            if word and path.is_dir():
                found = sorted(p for p in path.iterdir() if not _why_skipped(p, suffixes))
                why = skipped_in([word], suffixes) or "the folder is empty"
            elif word and path.exists():
                found = [path]
            elif path.is_symlink():
                why = "a link to nothing"
            else:
                matches = map(Path, glob.glob(word, recursive=True))
                found = sorted(match for match in matches if match.is_file())
        except OSError as error:
            if isinstance(error, PermissionError):
                why = error.strerror or why
        if not found:
            raise MissingInputError(f"There is no {kind} {masked(word)!r}: {why}.")
        files += found
    return files


def skipped_in(words: Sequence[str], suffixes: Sequence[str]) -> str:
    """The files in folders that `inputs_of` omits, in words; "" if none."""
    folders = [Path(word) for word in words if word and os.path.isdir(word)]
    reasons = (_why_skipped(path, suffixes) for folder in folders for path in folder.iterdir())
    counts = Counter(filter(None, reasons))
    if not counts:
        return ""
    shown = ", ".join(f"{count} {why}" for why, count in counts.most_common())
    where = repr(str(folders[0])) if len(folders) == 1 else f"{len(folders)} folders"
    return f"{counts.total()} skipped in {where} ({shown})"


def _why_skipped(path: Path, suffixes: Sequence[str]) -> str:
    """Why a folder's entry is left out: for example "hidden" or ".txt"; "" if it is not."""
    if path.name.startswith("."):  # among them the "._x.jpg" of macOS, which are no pictures
        return "hidden"
    if not path.is_file():
        return "folder" if path.is_dir() else "no file"
    suffix = path.suffix.lower()
    return "" if suffix in suffixes else suffix or "without ending"


def outputs_for(
    inputs: Sequence[Path], output: str, suffix: str, suffixes: Sequence[str], overwrite: bool
) -> list[Path]:
    """One output for each input, all checked before any work is done; makes their folder."""
    target = Path(output)
    known = Path(output).suffix.lower() in suffixes
    in_folder = os.path.isdir(target) or output.endswith(("/", os.sep))
    if in_folder or (len(inputs) > 1 and not known):
        targets = [target / name for name in output_names(inputs, suffix)]
    elif len(inputs) > 1:
        raise OutputError(f"Several inputs go into a folder, and {output!r} is the name of a file.")
    elif not known:
        raise UsageError(f"{output!r} has no known ending. Expected one of {', '.join(suffixes)}.")
    else:
        targets = [target]
    refuse_repeated(inputs)
    # one whose name is too long fails alone, the others are made
    checked = [made for made in targets if len(os.fsencode(made.name)) <= MOST_NAME]
    refuse_inputs(inputs, checked)
    if targets != [target]:
        try:
            target.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(
                f"The folder {str(target)!r} for several outputs cannot be made ({error.strerror})."
            ) from None
        for made in checked:
            refuse_link(made)
    for made in checked:
        check_output(made, overwrite)
    return targets


def output_names(inputs: Sequence[Path], suffix: str) -> list[str]:
    """One name for each input, "a.mp4" for "a.mov".

    Inputs whose outputs would have the same name keep their ending in it ("a.mov.mp4"), if need be
    with the folder's name before it, or their number.
    """
    names = [path.stem for path in inputs]
    for form in ("{0.name}", "{0.parent.name}_{0.name}", "{1}_{0.name}"):
        counts = Counter(names)
        names = [
            form.format(path, number) if counts[name] > 1 else name
            for number, (path, name) in enumerate(zip(inputs, names, strict=True), 1)
        ]
    return [name + suffix for name in names]


def refuse_inputs(inputs: Iterable[Path], targets: Iterable[Path]) -> None:
    """Refuses outputs that are inputs, by whatever name."""
    inputs_read = {_file_number(source) for source in inputs} - {None}
    for made in targets:
        if _file_number(made) in inputs_read:
            raise OutputError(f"{str(made)!r} is an input. Choose another name or folder.")


def same_file(one: Path, other: Path) -> bool:
    """Whether two paths name one file, which need not exist."""
    number = _file_number(one)
    if number:
        return number == _file_number(other)
    return os.path.realpath(one) == os.path.realpath(other)


def _file_number(path: Path) -> tuple[int, int] | None:
    """Device and number, which all names of a file share, links too; None if it is gone."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def refuse_repeated(inputs: Sequence[Path]) -> None:
    """Refuses inputs that are given twice."""
    if twice := [repr(str(path)) for path, count in Counter(inputs).items() if count > 1]:
        raise OutputError(f"Given twice: {listed(twice)}. Give each input once.")


def listed(texts: Sequence[str], most: int = MOST_NAMED) -> str:
    """The first texts, at `most`, and how many more there are: "a, b and 3 more"."""
    more = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {more} more" if more > 0 else "")


def why_unreadable(path: Path, kind: str) -> str:
    """Why a file is no "picture" or "video", such as ": it is empty"; "" if that is unclear."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
    except OSError:
        return ""
    if not head:
        return ": it is empty"
    if not any(head):
        return ": it begins with nothing but zeros"
    for at, begin, name, held in KNOWN:
        if head[at:].startswith(begin):
            if held == kind:
                return f": it begins as {name}, but ends early or is damaged"
            return f": it is a {held} ({name})" if held else f": it is {name}"
    text = head.decode("utf-8", "replace").rstrip("\ufffd")  # a letter that is cut off at the end
    shown = all(letter.isprintable() or letter in "\t\n\r\f\ufeff" for letter in text)
    return ": it is text" if text and shown and "\ufffd" not in text else ""
