"""What it means for the file that a child process reads if that process fails or ends."""

from realtime_lrp.errors import DamagedInputError, Error, InternalError, UnavailableError
from realtime_lrp.system.channel import Failed

ENDED_FROM_OUTSIDE = ("SIGKILL", "SIGTERM", "SIGHUP", "SIGINT")
"""What the system or a person ends a process with; no library does."""


def failure(file: str, failed: Failed) -> Exception:
    """The exception for what a child reports, with the child's traceback as a note.

    Args:
      file: the name of the file that it reads.
      failed: what it reports.

    Returns:
      An `Error`, or an `OSError` of the system.
    """
    error = failed.error()
    if isinstance(error, Error | OSError):
        return error
    if failed.kind == "bug":
        return failed.noted(InternalError(f"{file!r}: unexpected {error}"))
    if failed.kind == "memory":
        return failed.noted(
            UnavailableError(
                f"The memory does not suffice to decode {file!r} ({error}). Close other programs."
            )
        )
    return failed.noted(DamagedInputError(f"{file!r} makes the decoder fail ({error})."))


def death(file: str, ended: str) -> Error:
    """The error for a child that ended without a report.

    Args:
      file: the name of the file that it reads.
      ended: how it ended, see `Child.death`.
    """
    if ended in ENDED_FROM_OUTSIDE:
        what_to_do = "Try again."
        if ended == "SIGKILL":  # what Linux sends where the memory runs out
            what_to_do = "The memory may have run out: close other programs and try again."
        return UnavailableError(
            f"The process that decodes {file!r} was killed ({ended}). {what_to_do}"
        )
    if ended.startswith("exit code"):  # whatever it raises is reported
        return InternalError(f"The process that decodes {file!r} ended early ({ended}).")
    return DamagedInputError(f"{file!r} makes the decoder crash ({ended}).")


def hang(file: str, seconds: float) -> Error:
    """The error for a child that was killed because it gave no sign of life."""
    return DamagedInputError(f"{file!r} makes the decoder hang: nothing in {seconds:g} s.")
