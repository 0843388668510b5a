"""Makes the files in `assets/`, and what is printed or stored elsewhere.

`python assets/make/make_assets.py STEP...` runs steps, `all` every one of them; `--only NAME` makes
one entry of `gallery`, `golden` or `notebooks`. Some steps read what earlier ones have made.
"""

import argparse
import logging
from importlib import import_module
from pathlib import Path

from realtime_lrp.config import ASSETS

STEPS = {
    "network": ("embedded", "make_network"),
    "transformer": ("embedded", "make_transformer"),
    "detector": ("detecting", "make_detector"),
    "measure": ("measuring", "measure_networks"),
    "drawings": ("embedded", "make_drawings"),
    "concepts": ("embedded", "make_galleries"),
    "clip": ("embedded", "make_clip"),
    "animation": ("screens", "film_viewer"),
    "views": ("screens", "photograph_viewer"),
    "panel": ("screens", "photograph_panel"),
    "kiosk": ("screens", "photograph_exhibit"),
    "boxes": ("detecting", "draw_boxes"),
    "page": ("pages", "photograph_page"),
    "lesson": ("lesson", "make_picture"),
    "gallery": ("gallery", "make_strips"),
    "golden": ("golden", "write"),
    "notebooks": ("notebooks", "run_all"),
    "printed": ("printed", "write"),
}
"""Step -> the file beside this one and its function."""

NAMED = ("gallery", "golden", "notebooks")
"""Steps that can make one entry alone."""


def main(arguments: list[str] | None = None) -> None:
    """The command line: which steps to run, and the folder to write to."""
    parser = argparse.ArgumentParser(prog="make_assets", description=__doc__.split("\n\n")[0])
    parser.add_argument("steps", nargs="+", metavar="STEP", help=f"all, or {', '.join(STEPS)}")
    parser.add_argument("--only", metavar="NAME", help=f"one entry of {', '.join(NAMED)}")
    parser.add_argument("-o", "--output", type=Path, default=ASSETS, help="folder to write to")
    options = parser.parse_args(arguments)
    steps = [*STEPS] if options.steps == ["all"] else options.steps
    if unknown := {*steps} - {*STEPS}:
        parser.error(f"unknown step: {', '.join(sorted(unknown))} (known: {', '.join(STEPS)})")
    if options.only and not {*steps} <= {*NAMED}:
        parser.error(f"--only goes with {', '.join(NAMED)}")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    for name in STEPS:
        if name in steps:
            module, function = STEPS[name]
            names = {"only": options.only} if name in NAMED else {}
            getattr(import_module(module), function)(options.output, **names)


if __name__ == "__main__":
    main()
