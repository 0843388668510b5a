"""`realtime-lrp` and `python -m realtime_lrp`."""

import os
import signal


def main() -> None:
    """Runs the program; Ctrl-C while it loads ends it at once, without a traceback."""
    _open_missing_streams()
    # NumPy's threads spin while they wait; beside the network's they make products slower.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    interrupts = signal.getsignal(signal.SIGINT)
    if interrupts is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from realtime_lrp.cli import process

    signal.signal(signal.SIGINT, interrupts)
    process()


def _open_missing_streams() -> None:
    """Opens /dev/null for stdin, stdout or stderr where they are closed.

    Otherwise a file that is opened later gets their number, and with it what libraries print.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number: this one


if __name__ == "__main__":
    main()
