"""The colour tags of a video, which are kept from the source to the film that is written."""

from dataclasses import dataclass

from realtime_lrp.video.libraries import av

UNSPECIFIED = 2
LIMITED, FULL = 1, 2
HIGH_DEFINITION_ROWS = 720
_MATRICES = {1: 1, 4: 4, 5: 5, 6: 5, 7: 7, 9: 9, 10: 9}
"""Matrix coefficients (ITU-T H.273) -> swscale's table for them."""


@dataclass(frozen=True)
class Colour:
    """The colour tags of a video (ITU-T H.273 numbers).

    Attributes:
      primaries, transfer, matrix: as tagged; `UNSPECIFIED` if the file says nothing.
      range: LIMITED (16 to 235) or FULL (0 to 255).
      table: the matrix that is used for computing; if the file says nothing, BT.709 from 720 rows
        on, else BT.601.
    """

    primaries: int = 1
    transfer: int = 1
    matrix: int = 1
    range: int = LIMITED
    table: int = 1


def colour_of(frame: "av.VideoFrame") -> Colour:
    """The colour tags of a decoded frame; BT.709 in limited range if it holds RGB."""
    if frame.format.is_rgb:
        return Colour()
    matrix = frame.colorspace
    untagged = 1 if frame.height >= HIGH_DEFINITION_ROWS else 5
    return Colour(
        primaries=frame.color_primaries,
        transfer=frame.color_trc,
        matrix=matrix if matrix in _MATRICES else UNSPECIFIED,
        range=FULL if "yuvj" in frame.format.name or frame.color_range == FULL else LIMITED,
        table=_MATRICES.get(matrix, untagged),
    )


def range_read(frame: "av.VideoFrame", colour: Colour) -> int:
    """The range of a frame's numbers; untagged grey has full range, as in FFmpeg."""
    grey = frame.format.name.startswith("gray") and frame.color_range != LIMITED
    return FULL if grey or frame.format.is_rgb else colour.range
