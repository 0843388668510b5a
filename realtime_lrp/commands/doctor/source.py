"""The source that the user chose."""

from collections.abc import Iterator

from realtime_lrp.commands.doctor.measuring import describe, judge, measure
from realtime_lrp.commands.doctor.rows import Check, Row
from realtime_lrp.config import Settings
from realtime_lrp.errors import masked


def source(settings: Settings) -> Iterator[Row]:
    """Opens and measures it."""
    name = settings.config.live.source
    measurement = measure(name, settings)
    mark, advice = judge(measurement, settings)
    yield Row(mark, "source", f"{masked(name)}: {describe(measurement)}", advice)


CHECKS: dict[str, Check] = {"source": source}
