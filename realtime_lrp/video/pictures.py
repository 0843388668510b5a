"""Still pictures: reading to RGB and writing from it."""

from pathlib import Path

import numpy as np

from realtime_lrp.errors import DamagedInputError, MissingInputError, OutputError
from realtime_lrp.video.files import completed
from realtime_lrp.video.libraries import cv2


def read_picture(path: Path) -> np.ndarray:
    """A picture as uint8 [H, W, 3] RGB; turned upright as its EXIF says, transparency dropped.

    Raises:
      MissingInputError: there is no such file, or it cannot be read.
      DamagedInputError: it holds no picture.
    """
    try:
        data = np.fromfile(path, np.uint8)
    except OSError as error:
        raise MissingInputError(f"{str(path)!r} cannot be read ({error.strerror}).") from None
    try:
        picture = cv2.imdecode(data, cv2.IMREAD_COLOR_RGB) if data.size else None
    except cv2.error:
        picture = None
    if picture is None:
        raise DamagedInputError(
            f"{str(path)!r} is no picture that can be read. Expected PNG, JPEG, WebP, BMP or TIFF."
        )
    return picture


def write_picture(path: Path, picture: np.ndarray, overwrite: bool = False) -> None:
    """Writes uint8 [H, W, 3] RGB; the format follows the ending.

    Raises:
      OutputError: the file cannot be made.
      TransferError: the write failed.
    """
    with completed(path, overwrite) as part:
        jpeg = path.suffix.lower() in (".jpg", ".jpeg")
        quality = [cv2.IMWRITE_JPEG_QUALITY, 95] if jpeg else []
        done, data = cv2.imencode(path.suffix, cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), quality)
        if not done:
            raise OutputError(f"{str(path)!r} cannot be encoded as {path.suffix}.")
        part.write_bytes(data.tobytes())
