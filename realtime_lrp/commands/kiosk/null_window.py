"""Stands in for the window when nothing is shown (`--display none`)."""

import numpy as np

from realtime_lrp.view.window.window import Mouse


class NullWindow:
    """Has the methods of `FullScreen`, shows nothing and reports no events."""

    size = (720, 1280)
    held: frozenset[str] = frozenset()
    screen_fault = ""

    def events(self) -> list[str | Mouse]:
        """No keys and no mouse."""
        return []

    def show(self, picture: np.ndarray) -> None:
        """Ignores the picture."""

    def tend(self) -> None:
        """Does nothing."""

    def switch_screen(self, off: bool) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""
