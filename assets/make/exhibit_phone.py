"""Photographs the exhibit while it shows a visitor's phone: `kiosk_phone.webp`.

`python assets/make/exhibit_phone.py` writes it into `assets`, `-o FOLDER` elsewhere. It needs
Chromium and the extra `test`. A frame of the demo clip is before the phone's camera.
"""

import argparse
import tempfile
import threading
from pathlib import Path

import numpy as np
from pages import PHONE, browser, clip_frame, composed, photographed

from realtime_lrp import config
from realtime_lrp.commands.kiosk.captions import captions_of
from realtime_lrp.commands.kiosk.loop import Kiosk
from realtime_lrp.commands.kiosk.null_window import NullWindow
from realtime_lrp.config import ASSETS
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.video.libraries import cv2

ADDRESS = "127.0.0.1"
BEFORE_PHONE = 195
"""The frame of the clip that is before the phone's camera: a house."""

SETTLING_MS = 4000
"""Until the exhibit has shown the phone for a while."""


class Screen(NullWindow):
    """Keeps what the exhibit draws."""

    size = 1080, 1920
    canvas = np.zeros((*size, 3), np.uint8)

    def show(self, picture: np.ndarray) -> None:
        self.canvas = picture.copy()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="exhibit_phone", description=__doc__.split("\n\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=ASSETS, help="folder to write to")
    folder = parser.parse_args().output
    sets = ("kiosk.phones=true", f"kiosk.phone_address={ADDRESS}", "kiosk.language_seconds=0",
            "live.source=synthetic", "kiosk.languages=[en, de, fr]")  # fmt: skip
    settings = config.load(sets=sets, command="kiosk").config
    screen, ended = Screen(), threading.Event()
    kiosk = Kiosk(settings, captions_of(settings), screen, Stats("", ""))
    photographer = threading.Thread(target=photograph, args=(kiosk, screen, folder, ended))
    photographer.start()
    while not ended.is_set():
        kiosk.step()
    photographer.join()
    kiosk.end()


def photograph(kiosk: Kiosk, screen: Screen, folder: Path, ended: threading.Event) -> None:
    """Holds a phone up to the exhibit as soon as there is a code, and writes the picture."""
    try:
        address = ""
        while not address:
            canvas = cv2.cvtColor(screen.canvas, cv2.COLOR_RGB2BGR)
            address = cv2.QRCodeDetector().detectAndDecode(canvas)[0] if kiosk.answer else ""
            ended.wait(0.2)
        with tempfile.TemporaryDirectory() as name:
            film = Path(name) / "camera.mjpeg"
            film.write_bytes(cv2.imencode(".jpg", clip_frame(BEFORE_PHONE))[1].tobytes())
            with browser(film) as chromium:
                options = {**PHONE, "ignore_https_errors": True, "locale": "en"}
                page = chromium.new_context(**options).new_page()
                page.goto(address)
                page.tap("#start")
                page.wait_for_timeout(SETTLING_MS)
                shown = cv2.cvtColor(screen.canvas, cv2.COLOR_RGB2BGR)
                picture = composed(shown, photographed(page))
        data = cv2.imencode(".webp", picture, [cv2.IMWRITE_WEBP_QUALITY, 88])[1]
        (folder / "kiosk_phone.webp").write_bytes(data.tobytes())
    finally:
        ended.set()


if __name__ == "__main__":
    main()
