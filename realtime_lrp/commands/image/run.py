"""`image`: explains pictures and writes overlaid pictures or raw maps, and files beside them.

`batch` goes through the files and decides what is done with each, `job` explains a picture and
writes it.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from realtime_lrp.commands.image.batch import Batch, ImageOptions
from realtime_lrp.config import Config
from realtime_lrp.errors import OutputError, UsageError
from realtime_lrp.results.companions import Companions
from realtime_lrp.video.files import PICTURES, inputs_of, outputs_for, skipped_in

OUTPUTS = (".png", ".jpg", ".jpeg", ".npz")
COMPANION_NAME = "pictures"
"""The name, without ending, of the files beside several pictures."""

log = logging.getLogger(__name__)


def run(config: Config, options: ImageOptions) -> Iterator[str]:
    """Explains each picture. Of several, those that fail are named; the rest is done.

    Yields:
      One line for each picture: its name, its best labels, where the output is.

    Raises:
      UsageError: options contradict each other.
      OutputError: an output cannot be written; then nothing is done.
      TransferError: the disk is full; pictures that were finished before stay.
      Error: a single picture failed, or some of several, with the exit code of the worst failure.
    """
    if options.resume and (options.sidecar or options.summary or options.maps):
        raise UsageError(
            "--resume does not go with --sidecar, --summary and --maps: each of these is one file "
            "or folder for all pictures. Leave --resume out."
        )
    sources = inputs_of(options.inputs, PICTURES, "picture")
    if skipped := skipped_in(options.inputs, PICTURES):
        log.warning("%s", skipped)
    may_exist = options.overwrite or options.resume or options.all_pages
    targets = outputs_for(sources, options.output, ".png", OUTPUTS, may_exist)
    companions = _checked_companions(options, targets)
    with ExitStack() as stack:
        open_companions = companions.open(stack, options.overwrite)
        batch = Batch(config, options, dict(zip(sources, targets, strict=True)), open_companions)
        yield from batch.run()
    batch.raise_worst()


def _checked_companions(options: ImageOptions, targets: Sequence[Path]) -> Companions:
    """The files beside the pictures, after checking that they can be written.

    Raises:
      OutputError: one of them cannot be written, or is the output of a picture.
    """
    name = targets[0].parent / COMPANION_NAME if len(targets) > 1 else targets[0]
    companions = Companions.named_after(name, options.sidecar, options.summary, options.maps)
    companions.check(options.overwrite)
    for path in companions.paths:
        if path in targets:
            raise OutputError(f"{str(path)!r} is also the output of a picture. Rename the picture.")
    return companions
