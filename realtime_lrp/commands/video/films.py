"""Makes films with one network, in the process of the command or in a worker's."""

from dataclasses import dataclass, field

from realtime_lrp.commands.video.overlay import overlay_file
from realtime_lrp.commands.video.recoding import Report
from realtime_lrp.commands.video.task import Task, VideoOptions
from realtime_lrp.config import Config
from realtime_lrp.config.provenance import Provenance
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.gallery import channel_names
from realtime_lrp.engine.hashes import begin_hashing
from realtime_lrp.engine.provenance import provenance_of
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.system.channel import Failed
from realtime_lrp.system.progress import Progress


@dataclass
class Outcome:
    """What became of a recording.

    Without a report there is an error, or a worker that was lost has finished the film. A worker
    sends `Failed` instead of exceptions, as not every one can be sent. An error `for_all`
    recordings is that the network cannot be loaded. `computed` is for example "float32 on CPU".
    """

    report: Report | None = None
    error: Exception | Failed | None = None
    for_all: bool = False
    computed: str = ""
    stats: Stats | None = None
    provenance: Provenance | None = None
    log: list[str] = field(default_factory=list)


class Films:
    """Makes films one after the other; the network is loaded for the first."""

    def __init__(self, config: Config, options: VideoOptions):
        self._config, self._options = config, options
        self._loaded: Engine | None = None

    def make(
        self, task: Task, stats: Stats | None = None, progress: Progress | None = None
    ) -> Outcome:
        try:
            engine = self._engine()
        except Exception as error:
            return Outcome(error=error, for_all=True)
        stats = stats or Stats(engine.device, engine.precision)
        report = None
        try:
            with task.at_hand() as film:
                if not film.made_by_lost_worker():
                    report = overlay_file(engine, self._config, film, stats, progress)
        except Exception as error:
            return Outcome(error=error)
        stats.note_engine(engine)
        made = provenance_of(engine, self._config, "video")
        return Outcome(report, computed=engine.computed, stats=stats, provenance=made)

    def _engine(self) -> Engine:
        if self._loaded is None:
            options = self._options
            engine = Engine(self._config, moving=not options.exact, by_channel=options.sidecar)
            channel_names(engine)  # wrong names would be wrong for every file
            begin_hashing(engine.files)  # not before: loading refuses files that are too large
            self._loaded = engine
        return self._loaded
