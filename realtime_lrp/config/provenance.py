"""How an output was made: the fields that every output holds, as JSON.

`Engine.provenance` fills them in, `results.provenance` finds them in files. No time, no name of a
user or a machine: the same run writes the same bytes.
"""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from realtime_lrp.config.keys import COMMAND_KEYS, FIELDS
from realtime_lrp.config.schema import Config, as_setting
from realtime_lrp.errors import DamagedInputError

FORMAT = 1  # version of the fields: raised when the meaning of one changes, not when one is added
KEY = "provenance"  # the key in JSON files, and the name of the array in .npz files
MAX_BYTES = 1 << 20  # longest JSON text that is read
MAX_WRITTEN_BYTES = 60_000  # JPEG holds no more; a longer text goes without `layers`
TAUGHT = "realtime_lrp.json"  # the member of a taught network's .keras archive
SECTIONS = ("model", "lrp", "input", "overlay")  # those that shape every output

LIVE_KEYS = ("live.panels", "live.also_models", "live.text", "live.text_size")
"""Settings that shape the live view; cameras' addresses and local folders are not recorded."""


class ModelProvenance(msgspec.Struct, frozen=True, kw_only=True):
    """Which network: its name or file, and the SHA-256 of each file that was read."""

    name: str
    weights: str | None = None  # None: its own
    preprocess: str | None = None  # None where pictures came prepared, from Python
    labels: str | None = None  # None: its own
    sha256: dict[str, str] = {}


class Provenance(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="program", tag="realtime_lrp"
):
    """How an output was made; docs/outputs.md explains the fields."""

    format: int = FORMAT
    version: str
    tensorflow: str
    keras: str
    python: str
    model: ModelProvenance
    method: str | None
    composite: str | None
    layers: dict[str, str] | None
    target: str | None
    device: str | None
    precision: str
    settings: dict[str, Any]

    def as_json(self) -> str:
        """The JSON text that outputs hold, in one line."""
        text = msgspec.json.encode(self)
        if len(text) > MAX_WRITTEN_BYTES:
            text = msgspec.json.encode(msgspec.structs.replace(self, layers=None))
        return text.decode()


_UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)


class _Format(msgspec.Struct, tag_field="program", tag="realtime_lrp"):
    format: int


def read_provenance(text: str | bytes) -> Provenance | None:
    """Reads an output's JSON; None of another program, DamagedInputError of a later version."""
    if len(text) > MAX_BYTES:
        return None
    try:
        number = msgspec.json.decode(text, type=_Format).format
    except _UNREADABLE:
        return None
    if number != FORMAT:
        raise DamagedInputError(
            f"a later version of realtime-lrp wrote it (format {number}, expected {FORMAT})"
        )
    try:
        return msgspec.json.decode(text, type=Provenance)
    except _UNREADABLE as error:
        raise DamagedInputError(f"its provenance is damaged ({error})") from None


def figures_json(figures: Mapping[str, Any], made: Provenance) -> str:
    """The text of a JSON file of figures, which says how they were made."""
    return json.dumps({**figures, KEY: msgspec.to_builtins(made)}, indent=1) + "\n"


def recorded_settings(config: Config, *further: str) -> dict[str, Any]:
    """The settings of `SECTIONS` and `further` ones that are not at the default of all commands."""
    settings = {}
    for section in (*SECTIONS, *further):
        for name, value in getattr(config, section):
            key = f"{section}.{name}"
            changed = key not in FIELDS or value != FIELDS[key].default
            shapes = section != "live" or key in LIVE_KEYS
            unused = key == "lrp.composite" and config.lrp.method != "lrp"
            if shapes and not unused and (changed or key in COMMAND_KEYS):
                settings[key] = as_setting(value)
    return settings
