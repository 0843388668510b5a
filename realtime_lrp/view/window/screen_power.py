"""Power of the screen, off while an exhibit is closed: DPMS of the X server, by the tool xset."""

import subprocess

CANNOT, OFF = "the screen cannot be switched off: ", "Monitor is Off"


class ScreenPower:
    """Switches the screen off and on."""

    def __init__(self) -> None:
        self.off = False  # whether the screen is to be off; `apply` obeys
        self.fault = ""  # why it could not be switched off
        self._switched_off = False

    def apply(self) -> None:
        """Switches the screen as wanted; input that woke it has no lasting effect."""
        self.fault = ""
        if not self.off:
            self.restore()
            return
        state, problem = _xset("q")
        if "does not have the DPMS" in state:
            problem = "the X server has no DPMS"
        elif state and OFF not in state:
            self._switched_off = True
            _, problem = _xset("+dpms", "dpms", "force", "off")
            if not problem and OFF not in _xset("q")[0]:
                problem = "DPMS has no effect"
        self.fault = problem and CANNOT + problem

    def restore(self) -> None:
        if self._switched_off:
            _xset("dpms", "force", "on", "-dpms")
        self._switched_off = False


def _xset(*words: str) -> tuple[str, str]:
    """What xset prints, and why it could not be used, or ""."""
    try:
        done = subprocess.run(["xset", *words], capture_output=True, text=True, timeout=5)
    except FileNotFoundError:
        return "", "the tool xset is not installed"
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", f"xset does not work: {error}"
    return done.stdout, done.stderr.strip().splitlines()[-1] if done.returncode else ""
