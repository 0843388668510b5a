"""`image`: explains pictures and writes overlaid pictures or raw maps, and files beside them.

`Batch` goes through the files and decides what is done with each; `job` explains a picture and
writes it.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from realtime_lrp.commands.image.job import Job
from realtime_lrp.config import Config
from realtime_lrp.errors import Error, OutputError, TransferError, UsageError
from realtime_lrp.results.companions import Companions, OpenCompanions
from realtime_lrp.results.failures import Failures
from realtime_lrp.results.resume import Journal, Manifest, fingerprint, refuse_unknown
from realtime_lrp.system.atomic import refuse_link
from realtime_lrp.video.files import PICTURES, inputs_of, outputs_for, skipped_in
from realtime_lrp.video.picture_reader import PictureReader
from realtime_lrp.video.pictures import read_pages

log = logging.getLogger(__name__)

OUTPUTS = (".png", ".jpg", ".jpeg", ".npz")
COMPANION_NAME = "pictures"
"""The name, without ending, of the files beside several pictures."""


@dataclass(frozen=True)
class ImageOptions:
    """The command's own options.

    Attributes:
      inputs: files, folders or glob patterns.
      output: a .png, .jpg or .npz file, or a folder for PNG files.
      overwrite: whether existing files may be replaced.
      resume: whether outputs that were made from the same source with the same settings are kept.
      all_pages: whether each page of a file gets an output, or only the first.
      sidecar: whether JSON lines are written beside the outputs.
      summary: whether a picture of all results is written beside the outputs.
      maps: the folder in which a folder of raw maps is created, or None.
    """

    inputs: Sequence[str]
    output: str
    overwrite: bool = False
    resume: bool = False
    all_pages: bool = False
    sidecar: bool = False
    summary: bool = False
    maps: Path | None = None


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
        open_companions.finish()
    batch.raise_worst()


def _checked_companions(options: ImageOptions, targets: Sequence[Path]) -> Companions:
    """The files beside the pictures, after checking that they can be written.

    Raises:
      OutputError: one of them cannot be written, or is the output of a picture.
    """
    name = targets[0].parent / COMPANION_NAME if len(targets) > 1 else targets[0]
    companions = Companions.named_after(name, options.sidecar, options.summary, options.maps)
    companions.check(options.overwrite)
    for path in companions.by_kind.values():
        if path in targets:
            raise OutputError(f"{str(path)!r} is also the output of a picture. Rename the picture.")
    return companions


class Batch:
    """Pictures with one engine, which is loaded when the first of them has been read.

    Args:
      config: the configuration.
      options: of the command.
      targets: source -> output.
      companions: the files beside the outputs.
    """

    def __init__(
        self,
        config: Config,
        options: ImageOptions,
        targets: Mapping[Path, Path],
        companions: OpenCompanions,
    ):
        self._config, self._options, self._targets = config, options, targets
        self._companions = companions
        self._single = len(targets) == 1
        with_journal = options.resume or not self._single
        self._journal = Journal(next(iter(targets.values())).parent) if with_journal else None
        self._failures = Failures(len(targets), "pictures explained")
        self._finished = 0
        self._with_pages: list[Path] = []
        self._job: Job | None = None

    def run(self) -> Iterator[str]:
        """Yields a line for each picture.

        Raises:
          TransferError: the disk is full.
          Error: the only picture failed, or all of them.
        """
        try:
            sources: list[Path] = []
            for source in self._targets:
                yield from self._unless_finished(source, sources)
            for source, pages in self._read(sources):
                yield from self._explained(source, pages)
        except (KeyboardInterrupt, TransferError) as stop:
            self._failures.log_stop(stop, self._finished)
            raise
        if self._with_pages:
            log.warning("%s", _only_first(self._with_pages))
        if not self._finished:
            self.raise_worst()
        if self._job:
            self._job.warn_of_losses()
            self._job.write_summary()

    def raise_worst(self) -> None:
        """Raises an error with the total, if any picture failed."""
        self._failures.raise_worst(self._finished)

    def _unless_finished(self, source: Path, unfinished: list[Path]) -> Iterator[str]:
        """Appends a source that is not finished; yields a line for one that is."""
        target = self._targets[source]
        try:
            finished = not self._options.all_pages and self._is_finished(source, target, 1)
        except Error as error:
            self._note_failed(source, error)
            return
        if not finished:
            unfinished.append(source)
            return
        self._finished += 1
        yield f"{source.name}: finished before -> {target}"

    def _is_finished(self, source: Path, target: Path, page: int) -> bool:
        """Whether `--resume` keeps an output.

        Raises:
          OutputError: it is not known, and may not be replaced.
        """
        if not (self._options.resume and self._journal and target.exists()):
            return False
        manifest, made = self._journal.manifest(target), {"picture": target}
        known = self._fingerprint(source, page)
        if not self._options.overwrite:
            refuse_unknown(target, manifest, known, made)
        return bool(manifest and manifest.fingerprint == known and not manifest.changed(made))

    def _fingerprint(self, source: Path, page: int) -> str:
        return fingerprint(source, self._config, {"page": page})

    def _read(self, sources: list[Path]) -> Iterator[tuple[Path, list[np.ndarray] | Exception]]:
        """Yields each source with its pictures, or with the error that it causes."""
        first_only = not self._options.all_pages
        if self._single:  # if it makes the decoder crash, no other suffers
            yield from ((source, read_pages(source, first_only)) for source in sources)
            return
        with PictureReader(first_only) as reader:
            yield from reader.read(sources)

    def _explained(self, source: Path, pages: list[np.ndarray] | Exception) -> Iterator[str]:
        """Explains the pictures of a file and yields a line for each."""
        if isinstance(pages, Exception):
            self._note_failed(source, pages)
            return
        # what is wrong with the network is wrong for all pictures
        self._job = self._job or Job(self._config, self._options.overwrite, self._companions)
        try:
            all_pages = self._options.all_pages
            for number, (target, picture) in enumerate(self._outputs(source, pages), 1):
                if all_pages and self._is_finished(source, target, number):
                    yield f"{source.name}: finished before -> {target}"
                    continue
                name = f"{source}#page={number}" if all_pages and len(pages) > 1 else str(source)
                note = partial(self._note_finished, source, target, number)
                yield self._job.process(name, target, picture, note)
        except TransferError:
            raise
        except Exception as error:
            self._note_failed(source, error)
        else:
            self._finished += 1

    def _outputs(self, source: Path, pages: list[np.ndarray]) -> Iterator[tuple[Path, np.ndarray]]:
        """Each page that is wanted, with its output.

        Raises:
          OutputError: the output of a page is also that of another file, or a link.
        """
        target = self._targets[source]
        if len(pages) == 1 or not self._options.all_pages:
            self._with_pages += [source] * (len(pages) > 1)
            yield target, pages[0]
            return
        for number, page in enumerate(pages, 1):
            made = target.with_name(f"{target.stem}-page{number:03d}{target.suffix}")
            refuse_link(made)
            if made in self._targets.values():
                raise OutputError(f"{str(made)!r} is also the output of another file. Rename one.")
            yield made, page

    def _note_finished(self, source: Path, target: Path, page: int, part: Path) -> None:
        if self._journal:
            made = Manifest.of(self._fingerprint(source, page), {"picture": part})
            self._journal.add(target, made)

    def _note_failed(self, source: Path, error: Exception) -> None:
        if self._single:
            raise error
        self._failures.add(source, error)


def _only_first(files: Sequence[Path]) -> str:
    """Says which files hold several pictures."""
    if len(files) == 1:
        named = f"{str(files[0])!r} holds"
    else:
        named = f"{len(files)} files ({files[0].name}, ...) hold"
    return f"{named} several pictures, and only the first is explained. --all-pages takes all."
