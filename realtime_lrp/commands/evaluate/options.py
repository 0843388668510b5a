"""The options of `evaluate` that are not configuration, and which of them go together."""

from dataclasses import dataclass
from pathlib import Path

from realtime_lrp.errors import UsageError

DRAWN_PICTURES = 60
"""How many drawn pictures are used unless --count says otherwise: four of each symbol."""


@dataclass(frozen=True)
class EvaluateOptions:
    """The command's own options.

    Attributes:
      images: a folder of photos; None for drawn pictures. Goes together with `boxes`.
      boxes: the JSON file that says where the objects on the photos are, or None.
      count: how many drawn pictures are used; None for `DRAWN_PICTURES`.
      photos: how many photos are taken, chosen at random; None for all.
      seed: random seed of the drawn pictures, the chosen photos and the measures.
      only: the rows to measure, separated by commas; None for all.
      forgetting: whether maps are compared with those of randomised networks.
      output: the folder to write with figures, tables and plots, or None.
      json: the JSON file to write, or None.
      picture: the picture of all maps to write, or None.
      overwrite: whether existing files may be replaced.
      search: how many composites to try instead of measuring the known ones, or None.
    """

    images: Path | None = None
    boxes: Path | None = None
    count: int | None = None
    photos: int | None = None
    seed: int = 0
    only: str | None = None
    forgetting: bool = True
    output: Path | None = None
    json: Path | None = None
    picture: Path | None = None
    overwrite: bool = False
    search: int | None = None


def check_options(options: EvaluateOptions) -> None:
    """Refuses options that do not go together.

    Raises:
      UsageError: it says which ones, and what to give instead.
    """
    if options.picture and options.picture.suffix.lower() not in (".png", ".jpg", ".jpeg"):
        raise UsageError(f"{str(options.picture)!r}: expected a name that ends in .png or .jpg.")
    if options.search and (options.json or options.picture):
        raise UsageError("--search writes no --json or --picture. Give it a folder with -o.")
    if options.search and options.only:
        raise UsageError("--search has no rows: leave --only out.")
    optional = options.search and not options.boxes  # it makes no difference where the object is
    if (options.images is None) != (options.boxes is None) and not (optional and options.images):
        raise UsageError("--images DIR and --boxes FILE.json belong together. Give both or none.")
    if options.images and options.count:
        raise UsageError("--count N is for drawn symbols. Choose among photos with --photos N.")
    if options.photos and not options.images:
        raise UsageError("--photos N goes with --images. For drawn symbols give --count N.")
