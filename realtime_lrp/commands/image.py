"""`image`: explains pictures and writes overlaid pictures or raw maps, and files beside them."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from realtime_lrp.config import Config
from realtime_lrp.engine import wording
from realtime_lrp.engine.boxes import painted
from realtime_lrp.engine.opening import engine_for
from realtime_lrp.errors import Error, OutputError, TransferError, UsageError
from realtime_lrp.relevance.maps.account import State
from realtime_lrp.results.companions import (
    Companions,
    check_companions,
    companions_of,
    map_record,
    raw_map_arrays,
)
from realtime_lrp.results.resume import Journal, Manifest, fingerprint, refuse_unknown, state_of
from realtime_lrp.results.tally import Tally
from realtime_lrp.system.files import atomic_file
from realtime_lrp.video.files import PICTURES, inputs_of, outputs_for, skipped_in
from realtime_lrp.video.pictures import encode_picture, first_pages, mirrored
from realtime_lrp.video.untrusted import read_pictures
from realtime_lrp.view.tiles import lay_out

log = logging.getLogger(__name__)

OUTPUTS = (".png", ".jpg", ".jpeg", ".npz")
COMPANION_NAME = "pictures"  # name of the files beside several pictures, without ending


@dataclass(frozen=True)
class ImageOptions:
    """The command's own options."""

    inputs: Sequence[str]  # files, folders or glob patterns
    output: str  # a .png, .jpg or .npz file, or a folder for PNG files
    overwrite: bool = False
    resume: bool = False  # outputs of the same source with the same settings are kept
    sidecar: bool = False  # JSON lines beside the outputs
    maps: Path | None = None  # the folder in which a folder of raw maps is created


def run(config: Config, options: ImageOptions) -> Iterator[str]:
    """Explains each picture and yields a line; names those that fail, then raises the worst."""
    if options.resume and (options.sidecar or options.maps):
        raise UsageError(
            "--resume does not go with --sidecar and --maps: each of these is one file or folder "
            "for all pictures. Leave --resume out."
        )
    sources = inputs_of(options.inputs, PICTURES, "picture")
    if skipped := skipped_in(options.inputs, PICTURES):
        log.warning("%s", skipped)
    may_exist = options.overwrite or options.resume
    targets = outputs_for(sources, options.output, ".png", OUTPUTS, may_exist)
    name = targets[0].parent / COMPANION_NAME if len(targets) > 1 else targets[0]
    beside = companions_of(name, options.sidecar, summary=False, maps=options.maps)
    check_companions(beside, options.overwrite)
    for path in beside.values():
        if path in targets:
            raise OutputError(f"{str(path)!r} is also the output of a picture. Rename the picture.")
    with ExitStack() as stack:
        companions = Companions(beside, stack, options.overwrite)
        batch = PictureRun(config, options, dict(zip(sources, targets, strict=True)), companions)
        yield from batch.run()
        companions.finish()
    batch.tally.raise_worst()


class PictureRun:
    """Pictures, source -> output, with one engine, which is loaded once the first one is read."""

    def __init__(
        self, config: Config, options: ImageOptions, targets: Mapping[Path, Path],
        companions: Companions,
    ):  # fmt: skip
        self._config = config
        self._options = options
        self._targets = targets
        self._companions = companions
        self._single = len(targets) == 1
        with_journal = options.resume or not self._single
        self._journal = Journal(next(iter(targets.values())).parent) if with_journal else None
        self.tally = Tally(len(targets), "pictures explained")
        self._with_pages: list[Path] = []
        self._job: Explaining | None = None

    def run(self) -> Iterator[str]:
        sources: list[Path] = []
        try:
            for source, target in self._targets.items():
                try:
                    finished = self._is_finished(source, target)
                except Error as error:
                    self.tally.failed(source, error)
                    continue
                if finished:
                    self.tally.finished += 1
                    yield f"{source.name}: finished before -> {target}"
                else:
                    sources.append(source)
            # if one picture alone makes the decoder crash, no other suffers
            alone = ((source, first_pages(source)) for source in sources)
            for source, pages in alone if self._single else read_pictures(sources):
                yield from self._explained(source, pages)
        except (KeyboardInterrupt, TransferError) as stop:
            self.tally.log_stop(stop)
            raise
        if files := self._with_pages:
            many = f"{len(files)} files ({files[0].name}, ...) hold"
            named = many if len(files) > 1 else f"{str(files[0])!r} holds"
            log.warning("%s several pictures, and only the first is explained.", named)
        if not self.tally.finished:
            self.tally.raise_worst()
        for note in self._job.losses.notes if self._job else ():
            log.warning("%s", note)

    def _is_finished(self, source: Path, target: Path) -> bool:
        """Whether `--resume` keeps an output; an unknown one may not be replaced."""
        if not (self._options.resume and self._journal and target.exists()):
            return False
        manifest = self._journal.manifest(target)
        state = {"picture": state_of(target)}
        known = fingerprint(source, self._config, {})
        if not self._options.overwrite:
            refuse_unknown(str(target), manifest, known, state)
        return bool(manifest and manifest.fingerprint == known and not manifest.changed(state))

    def _explained(self, source: Path, pages: list[np.ndarray] | Exception) -> Iterator[str]:
        if isinstance(pages, Exception):
            self.tally.failed(source, pages)
            return
        # what is wrong with the network is wrong for all pictures
        self._job = self._job or Explaining(self._config, self._companions)
        self._with_pages += [source] * (len(pages) > 1)
        target = self._targets[source]
        try:
            with atomic_file(target, self._options.overwrite) as part:
                line = self._job.process(source, target, pages[0], part)
                if self._journal:
                    known = fingerprint(source, self._config, {})
                    self._journal.add(target, Manifest(known, {"picture": state_of(part)}))
            yield line
        except TransferError:
            raise
        except Exception as error:
            self.tally.failed(source, error)
        else:
            self.tally.finished += 1


class Explaining:
    """A network that explains pictures, with the files beside them."""

    def __init__(self, config: Config, companions: Companions):
        self._config = config
        self._companions = companions
        self._engine = engine_for(config)
        self._provenance = self._engine.provenance()
        companions.describe(self._provenance)
        self.losses = wording.Losses(self._engine)

    def process(self, source: Path, target: Path, picture: np.ndarray, part: Path) -> str:
        """Explains a picture, writes its output to `part` and returns the line that reports it."""
        picture = mirrored(picture, self._config.input.mirror)
        (result,) = self._engine.explain([picture])
        lost_in = self.losses.add(result.region.extract(picture), result)
        note = wording.map_note(result.maps[0])
        if result.maps[0].state is State.ZERO:
            if result.found == ():
                note = wording.nothing_found(result.target, self._engine.label)
            log.warning("%s: %s; nothing is drawn", target.name, note)
            note = ""
        if (suffix := target.suffix.lower()) == ".npz":
            arrays = raw_map_arrays(self._engine, self._config.lrp.target, result, self._provenance)
            with part.open("wb") as file:
                np.savez_compressed(file, **arrays)
        else:
            overlaid = lay_out(painted(self._engine, picture, result))
            part.write_bytes(encode_picture(suffix, overlaid, self._provenance.as_json()))
        if self._companions.parts:
            record = map_record(self._engine, self._config.lrp.target, result)
            record["lost_in"] = lost_in
            self._companions.write({"file": str(source), **record})
            self._companions.keep(result, record, str(source))
        best = wording.score_list(self._engine, result)
        note = f"({note})" if note else wording.passes_note(self._engine, result)
        seen = f"({seen})" if (seen := wording.sight_note(result)) else ""
        return " ".join(filter(None, (f"{source.name}: {best} -> {target}", note, seen)))
