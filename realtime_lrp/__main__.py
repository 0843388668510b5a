"""`realtime-lrp` and `python -m realtime_lrp`."""

import os
import signal


def main() -> None:
    """Runs the program; Ctrl-C while it is being loaded ends it at once, without a traceback."""
    _open_missing_streams()
    interrupts = signal.getsignal(signal.SIGINT)
    if interrupts is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from realtime_lrp.cli import process

    signal.signal(signal.SIGINT, interrupts)
    process()


def _open_missing_streams() -> None:
    """Else a file that is opened later takes their place, and gets what libraries print."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one


if __name__ == "__main__":
    main()
