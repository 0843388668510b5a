"""What the live viewer asks of a second place that shows it and controls it, such as a web page."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from realtime_lrp.realtime.capture import Capture
from realtime_lrp.realtime.explaining import RelevanceThread
from realtime_lrp.realtime.viewer.events import Event
from realtime_lrp.realtime.viewer.view import View


class RemoteTurns(Protocol):
    """Its part of the render loop's turns."""

    def events(self) -> list[Event]:
        """What happened there since the last turn."""

    def wants_picture(self) -> bool:
        """Whether the view is to be drawn again for it. Asked where nothing else shows the view."""

    def publish(self, drawn: bool) -> None:
        """Shows the view there."""


class Remote(Protocol):
    """Where the view is shown and controlled besides the window, or instead of it."""

    def canvas_size(self, view: View) -> tuple[int, int]:
        """Rows and columns of the canvas where no window decides them."""

    def opened(
        self,
        view: View,
        capture: Capture,
        relevance: RelevanceThread,
        figures: Callable[[], dict[str, Any]],
    ) -> AbstractContextManager[RemoteTurns]:
        """Shows a view while the context lasts."""
