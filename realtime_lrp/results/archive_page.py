"""The page of an archive: what was made, what failed, and a picture of each film.

    OUT/archive.html              totals, what failed, the first films
       /archive.files/page-2.html  further films, and so on

The pages hold no script and load nothing but the pictures beside them, and these when they come
into view, so that a page of ten thousand films opens at once. Names, labels and messages come from
files and are escaped.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from realtime_lrp.config.provenance import Provenance
from realtime_lrp.errors import OutputError
from realtime_lrp.notebook.html import escaped, facts
from realtime_lrp.results.overview import (
    FOLDER,
    WIDTH,
    FilmEntry,
    clock,
    files_of,
    label_text,
    link_to,
)
from realtime_lrp.system.atomic import atomic_file, check_output, refuse_link
from realtime_lrp.system.plain_text import plain

PAGE = "archive.html"
FILMS = 250
"""How many films a page shows."""

FAILED = 1000
"""How many failures the first page lists; further ones stand among the films."""

MARK = '<meta name="generator" content="realtime_lrp archive">'
MARK_WITHIN = 1024

CSS = """
:root { color-scheme: light dark }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 980px; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.5em } h2 { font-size: 1.15em; margin-top: 2em }
h3 { font-size: 1em; margin: 0 0 .2em; overflow-wrap: anywhere }
article { margin: 1.6em 0; content-visibility: auto; contain-intrinsic-size: auto 300px }
article p, li { margin: .15em 0; overflow-wrap: anywhere } small, th { color: GrayText }
img { width: 100%; height: auto; border: 1px solid #8884; background: #fff }
td, th { text-align: left; padding: 0 1em .15em 0; vertical-align: top; font-weight: normal }
nav a, nav b { margin-right: .6em }
"""


def check_page(folder: Path, replace: bool) -> None:
    """Refuses what lies in place of the page and is none of ours.

    Args:
      folder: the folder of the archive.
      replace: whether any file may be replaced.

    Raises:
      OutputError: there is a link, or a file of somebody else.
    """
    page = folder / PAGE
    refuse_link(page)
    refuse_link(folder / FOLDER)
    check_output(page, overwrite=True)
    if (folder / FOLDER).exists() and not (folder / FOLDER).is_dir():
        raise OutputError(f"{str(folder / FOLDER)!r} is a file. Choose another folder.")
    if replace or not page.exists():
        return
    with page.open("rb") as file:
        if MARK.encode() not in file.read(MARK_WITHIN):
            raise OutputError(
                f"{str(page)!r} is no page of an archive. Add --overwrite, or choose "
                "another folder."
            )


def write_pages(
    folder: Path,
    films: Mapping[str, FilmEntry],
    waiting: int = 0,
    provenance: Provenance | None = None,
) -> None:
    """Writes the page of an archive, and further ones if there are many films.

    Args:
      folder: the folder of the archive.
      films: name of each film that is finished or failed -> what is known of it.
      waiting: how many are not finished yet.
      provenance: how the films are made.

    Raises:
      OutputError: a page cannot be made.
      TransferError: the write failed.
    """
    (folder / FOLDER).mkdir(exist_ok=True)
    failed = sorted(name for name, entry in films.items() if entry.error)
    names = sorted(films.keys() - set(failed[:FAILED]))
    pages = [names[at : at + FILMS] for at in range(0, len(names), FILMS)] or [[]]
    for number, shown in reversed(list(enumerate(pages, 1))):  # the first leads to the others
        up = "" if number == 1 else "../"
        head = list(_head(films, failed, waiting, provenance)) if number == 1 else []
        body = [
            *head,
            _links(number, len(pages)),
            *(_article(name, films[name], up) for name in shown),
            _links(number, len(pages)),
        ]
        with atomic_file(folder / _path(number), overwrite=True) as part:
            part.write_text(_document("\n".join(body), number), encoding="utf-8")
    for stale in (folder / FOLDER).glob("page-*.html"):
        count = stale.stem.removeprefix("page-")
        if count.isdecimal() and int(count) > len(pages):
            stale.unlink(missing_ok=True)


def _path(number: int) -> str:
    return PAGE if number == 1 else f"{FOLDER}/page-{number}.html"


def _document(body: str, number: int) -> str:
    title = "Archive" if number == 1 else f"Archive, page {number}"
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n{MARK}\n'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; img-src 'self' file:; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{title}</title>\n<style>{CSS}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _head(
    films: Mapping[str, FilmEntry],
    failed: Sequence[str],
    waiting: int,
    provenance: Provenance | None,
) -> Iterator[str]:
    frames = sum(entry.frames for entry in films.values())
    seconds = sum(entry.seconds for entry in films.values())
    yield "<h1>Archive</h1>"
    values: dict[str, object] = {
        "films": len(films) - len(failed),
        "failed": len(failed) or None,
        "not finished": waiting or None,
        "frames": frames,
        "duration": clock(seconds),
    }
    if provenance:
        explained = [provenance.method, provenance.composite, f"target {provenance.target}"]
        values |= {
            "network": plain(provenance.model.name),
            "explained": plain(", ".join(filter(None, explained))),
            "computed": f"{provenance.precision} on {plain(provenance.device or '')}",
            "version": provenance.version,
        }
    yield facts("", values)
    if failed:
        yield "<h2>What failed</h2>\n<ul>"
        for name in failed[:FAILED]:
            yield f"<li>{_why(name, films[name])}</li>"
        yield "</ul>"
        if len(failed) > FAILED:
            yield f"<p>and {len(failed) - FAILED} more among the films</p>"
    yield "<h2>Films</h2>"


def _why(name: str, entry: FilmEntry) -> str:
    recording = escaped(plain(entry.source or name))
    return f"<strong>{recording}</strong>: {escaped(plain(entry.error))}"


def _links(number: int, count: int) -> str:
    """Leads to all pages, or to those nearby if there are many."""
    if count == 1:
        return ""
    near = {1, count, *range(max(1, number - 4), min(count, number + 4) + 1)}
    links = []
    for other in sorted(near):
        target = _path(other)
        if number > 1:
            target = f"../{PAGE}" if other == 1 else target.removeprefix(f"{FOLDER}/")
        links.append(f"<b>{other}</b>" if other == number else f'<a href="{target}">{other}</a>')
    return f"<nav>Page {''.join(links)}</nav>"


def _article(name: str, entry: FilmEntry, up: str) -> str:
    title = escaped(plain(name))
    if entry.error:
        return f"<article><h3>{title}</h3><p>Failed: {_why(name, entry)}</p></article>"
    film = f"{up}{link_to(name)}"
    about = [f"{entry.frames} frames", clock(entry.seconds)] if entry.frames != 1 else ["1 frame"]
    about += [f"{label_text(label)} {share:.0%}" for label, share in entry.answers]
    lines = [f'<h3><a href="{film}">{title}</a></h3>', f"<p>{escaped(', '.join(about))}</p>"]
    if entry.height:
        picture = f"{up}{link_to(files_of(name)[0])}"
        lines.append(
            f'<a href="{film}"><img src="{picture}" width="{WIDTH}" height="{entry.height}" '
            f'loading="lazy" alt="Frames and timeline of {title}"></a>'
        )
    lines += [f"<p><small>{escaped(plain(note))}</small></p>" for note in entry.notes]
    lines.append(f"<p><small>{_outputs(entry.outputs, up, entry.source)}</small></p>")
    return f"<article>{''.join(lines)}</article>"


def _outputs(outputs: Mapping[str, str], up: str, source: str) -> str:
    links: Sequence[str] = [
        f'<a href="{escaped(up + address)}">{escaped(kind)}</a>'
        for kind, address in outputs.items()
    ]
    made = f"from {escaped(plain(source))}" if source else ""
    return " · ".join([*filter(None, [made]), *links])
