"""The tokens: one lets control the view, another one, made from it, lets watch."""

import hashlib
import hmac
import os
import re
import secrets
import stat
from enum import Enum
from pathlib import Path

from realtime_lrp.errors import ConfigError, MissingInputError

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
        right = [role for role, token in self._tokens.items() if _same(token, given)]
        return right[0] if right else None


def _same(token: str, given: str) -> bool:
    return hmac.compare_digest(token.encode(), given.encode(errors="replace"))


def read_token(file: str | None) -> str:
    """The token out of the file or the environment variable, else a new one; removes the variable.

    Args:
      file: its name, or None.

    Raises:
      MissingInputError: there is no such file.
      ConfigError: others can read it, or it holds no token.
    """
    given = os.environ.pop(VARIABLE, None)  # child processes must not know it
    if file is not None:
        return _checked(_read(Path(file)), repr(file))
    if given:
        return _checked(given.strip(), VARIABLE)
    return secrets.token_urlsafe(24)


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
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
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
