"""The tokens: one lets control the view, another one, made from it, lets watch."""

import hashlib
import hmac
import os
import re
import secrets
import stat
from contextlib import suppress
from enum import Enum
from pathlib import Path

from realtime_lrp.commands.serve.kept import TOKEN, is_private, kept_folder, write_private
from realtime_lrp.errors import ConfigError, Error, MissingInputError, UsageError

VARIABLE = "REALTIME_LRP_TOKEN"
"""The environment variable that may hold the token."""

LEAST, MOST = 22, 200
"""Letters of a token; 22 of 64 different ones are 132 bits."""

_LEGAL = re.compile(rf"[A-Za-z0-9_~.-]{{{LEAST},{MOST}}}")


class Role(Enum):
    """What a viewer may do."""

    CONTROL = "control"
    WATCH = "watch"


class Tokens:
    """The token of each role.

    Args:
      control: the token that lets control the view. The other one is made from it and does not
        give it away.
    """

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
    """The token out of the file or the environment variable, else the one that is kept.

    The variable is removed: child processes must not know it.

    Args:
      file: its name, or None.
      new: whether another one is made and kept.

    Raises:
      UsageError: a new one is wanted, and one is given.
      MissingInputError: there is no such file.
      ConfigError: others can read it, or it holds no token.
      Error: the new one cannot be written.
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
                return _checked(_read(folder / TOKEN), "")
        made = secrets.token_urlsafe(24)
        write_private(folder / TOKEN, made.encode())
        return made


def _read(file: Path) -> str:
    try:
        number = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # a pipe would wait
        with os.fdopen(number, "rb") as opened:
            mode = os.fstat(number).st_mode
            if not stat.S_ISREG(mode):
                raise ValueError("it is no regular file")
            text = opened.read(2 * MOST).decode(errors="replace").strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise MissingInputError(
            f"The token file {str(file)!r} cannot be read ({reason}). Make one: "
            "openssl rand -hex 24 > FILE && chmod 600 FILE"
        ) from None
    if not is_private(mode):
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
