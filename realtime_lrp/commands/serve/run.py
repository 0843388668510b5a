"""The web page, instead of the window or beside it: `live` with a page."""

from pathlib import Path

from realtime_lrp.commands.live.run import run as run_live
from realtime_lrp.config import Config
from realtime_lrp.errors import UnavailableError
from realtime_lrp.view.window.display import require_display
from realtime_lrp.view.window.window import Window


def run(
    config: Config,
    duration_s: float | None = None,
    stats: Path | None = None,
) -> list[str]:
    """Serves the page until SIGINT, SIGTERM or the end of the duration.

    Args:
      config: the effective configuration.
      duration_s: seconds from the first map, or None.
      stats: the file that gets the figures, or None.

    Returns:
      A line of figures if there was a map.

    Raises:
      UsageError: a name that is not known.
      UnavailableError: the server cannot listen there or is not installed, or the source cannot be
        opened.
      OutputError: the figures cannot be written there.
      Error: what `WebPage` raises.
    """
    page = _page_class()
    with page(config.serve, required=True) as remote:
        return run_live(config, duration_s, stats, window=None, remote=remote)


def run_with_window(
    config: Config,
    duration_s: float | None = None,
    stats: Path | None = None,
    record: Path | None = None,
    overwrite: bool = False,
    window: type = Window,
) -> list[str]:
    """Runs the live viewer with a window and the page: see `live.run.run`.

    When the server ends by itself the window goes on.

    Raises:
      Error: what `run` raises, and `live.run.run`.
    """
    page = _page_class()
    if config.live.display == "window" and window is Window:
        require_display()
    with page(config.serve, required=False) as remote:
        return run_live(config, duration_s, stats, record, overwrite, window, remote)


def _page_class() -> type:
    """The class `WebPage`, which needs the server's libraries.

    Raises:
      UnavailableError: these are not installed.
    """
    try:
        from realtime_lrp.commands.serve.web_page import WebPage
    except ModuleNotFoundError as error:
        raise UnavailableError(
            f"The web page needs the library {error.name!r}, which is not installed. "
            'Run: pip install "realtime-lrp[serve]"'
        ) from None
    return WebPage
