"""A part of a recording, in seconds and in the times of its stream."""

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Span:
    """A part of a recording, seconds since its first frame.

    Attributes:
      start: earlier frames are left out.
      end: this frame and later ones are left out; None is the end of the file.
      with_shown: begin with the frame that is on the screen at `start`; after the end of the file
        that is its last frame. Times then count from the first frame of the file.
    """

    start: float = 0.0
    end: float | None = None
    with_shown: bool = False


@dataclass(frozen=True)
class Limits:
    """A span in the times of the stream.

    Attributes:
      start: seconds.
      end: seconds.
      zero: the time that becomes 0, in units of the stream's time base.
    """

    start: Fraction | float
    end: Fraction | float
    zero: int


def exact_seconds(seconds: float) -> Fraction:
    """The exact fraction that a user meant: 0.1 is 1 / 10."""
    return Fraction(seconds).limit_denominator(1_000_000)
