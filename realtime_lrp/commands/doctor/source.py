"""The source that the user named."""

from collections.abc import Iterator

from realtime_lrp.commands.doctor.measuring import described, measured, trouble
from realtime_lrp.commands.doctor.rows import Check, Row
from realtime_lrp.config import Settings
from realtime_lrp.errors import masked


def source(settings: Settings) -> Iterator[Row]:
    """What it gives."""
    words = settings.config.live.source
    taken = measured(words, settings)
    mark, advice = trouble(taken, settings)
    yield Row(mark, "source", f"{masked(words)}: {described(taken)}", advice)


CHECKS: dict[str, Check] = {"source": source}
