"""Who may do what: one token lets control the view, another one, made from it, lets watch.

Token and certificate are kept for this user, so that phones come back after a restart.
"""

import hashlib
import hmac
import logging
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path

from platformdirs import user_state_path

from realtime_lrp.errors import ConfigError, Error, UsageError
from realtime_lrp.system.files import atomic_file, read_limited, temporary_folder

VARIABLE = "REALTIME_LRP_TOKEN"
LEAST, MOST = 22, 200
"""Letters of a token; 22 of 64 different ones are 132 bits."""

_LEGAL = re.compile(rf"[A-Za-z0-9_~.-]{{{LEAST},{MOST}}}")
_FILE = "token"

log = logging.getLogger(__name__)


class Role(Enum):
    """What a viewer may do."""

    CONTROL = "control"
    WATCH = "watch"


class Tokens:
    """The token of each role; that for watching does not give away the other one."""

    def __init__(self, control: str):
        made = hmac.new(control.encode(), b"watch", hashlib.sha256)
        self._tokens = {Role.CONTROL: control, Role.WATCH: made.hexdigest()[:32]}

    def __getitem__(self, role: Role) -> str:
        return self._tokens[role]

    def role(self, given: str) -> Role | None:
        """The role of a token, None of a wrong one. Takes as long for every token."""
        wanted = given.encode(errors="replace")
        found = [
            role
            for role, token in self._tokens.items()
            if hmac.compare_digest(token.encode(), wanted)
        ]
        return found[0] if found else None


def read_token(file: str | None, new: bool = False) -> str:
    """The token out of a file or the environment variable, else the kept one, made anew if `new`.

    The variable is removed: child processes must not know it.
    """
    given = os.environ.pop(VARIABLE, None)
    if new and (file is not None or given):
        source = VARIABLE if file is None else "--token-file"
        raise UsageError(f"--new-token replaces the kept token, but {source} gives one. Drop one.")
    if file is not None:
        return _checked(_read(Path(file)), repr(file))
    if given:
        return _checked(given.strip(), VARIABLE)
    with kept_folder() as folder:
        if not new:
            with suppress(Error):  # there is none, or it is one no more
                return _checked(_read(folder / _FILE), "")
        made = secrets.token_urlsafe(24)
        write_private(folder / _FILE, made.encode())
        return made


def _read(file: Path) -> str:
    expected = "a token, as made by: openssl rand -hex 24 > FILE && chmod 600 FILE"
    text = read_limited(file, 1 << 20, expected).decode(errors="replace").strip()
    if not is_private(file.stat().st_mode):
        raise ConfigError(
            f"Others can read the token file {str(file)!r}. Run: chmod 600 {str(file)!r}"
        )
    return text


def _checked(token: str, source: str) -> str:
    if not _LEGAL.fullmatch(token):
        raise ConfigError(
            f"The token in {source} has {len(token)} characters or some that are not allowed. "
            f"Expected {LEAST} to {MOST} letters, digits, '-', '_', '.' or '~'."
        )
    return token


@contextmanager
def kept_folder() -> Iterator[Path]:
    """The folder of what is kept; where there can be none, one that is gone afterwards."""
    try:
        folder = user_state_path("realtime-lrp") / "serve"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = os.access(folder, os.W_OK | os.X_OK)
    except (OSError, RuntimeError):  # also a user without a home
        kept = False
    if kept:
        yield folder
        return
    log.warning("token and certificate cannot be kept: after a restart they are others")
    with temporary_folder() as folder:
        yield Path(folder)


def write_private(file: Path, data: bytes) -> None:
    """Writes a file that nobody else can read."""
    with atomic_file(file, overwrite=True) as part:
        part.touch(mode=0o600)
        part.write_bytes(data)


def is_private(mode: int) -> bool:
    """Whether a file's mode lets only its user read it."""
    return os.name != "posix" or not stat.S_IMODE(mode) & 0o077
