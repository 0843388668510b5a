"""What can be wrong with the section `kiosk` and the schema cannot see.

Imports neither TensorFlow nor OpenCV: `realtime-lrp config` checks the exhibit with it.
"""

from collections.abc import Iterator
from pathlib import Path

from realtime_lrp.commands.kiosk.captions import missing_in_font, wrong_captions
from realtime_lrp.config import Config, KeyPath, Problem, errors_of, wrong_names
from realtime_lrp.config.names import KEYS
from realtime_lrp.errors import Error
from realtime_lrp.models.concept_names import read_names
from realtime_lrp.video.files import PICTURES, VIDEOS, inputs_of


def wrong_settings(config: Config) -> Iterator[tuple[KeyPath, Error]]:
    """Yields what is wrong in any section: where it stands, and the error."""
    yield from wrong_names(config)
    yield from wrong_in_kiosk(config)


def wrong_in_kiosk(config: Config) -> Iterator[tuple[KeyPath, Error]]:
    """Yields what is wrong in the section `kiosk`: where it stands, and the error."""
    yield from errors_of(("kiosk", "exit_key"), KEYS.check, config.kiosk.exit_key)
    yield from wrong_captions(config)
    if config.kiosk.concepts and config.concepts.names:
        yield from errors_of(("concepts", "names"), _check_names, config.concepts.names)
    for number, clip in enumerate(config.kiosk.clips):
        where = ("kiosk", "clips", number)
        yield from errors_of(where, inputs_of, [clip], PICTURES + VIDEOS, "clip")


def _check_names(path: str) -> None:
    """Refuses names of channels that cannot be read, or drawn."""
    file = read_names(Path(path))
    file.refuse(
        Problem(
            file.locations[layer, str(channel)],
            f"{channel}: the font cannot draw {missing}; expected other characters",
        )
        for layer, names in file.names.items()
        for channel, name in names.items()
        if (missing := missing_in_font(name))
    )
