"""The web page, instead of the window or beside it: `live` with a page."""

from pathlib import Path

from realtime_lrp.commands.live.run import run as run_live
from realtime_lrp.config import Config
from realtime_lrp.errors import UnavailableError


def run(
    config: Config,
    duration_s: float | None = None,
    stats: Path | None = None,
    record: Path | None = None,
    overwrite: bool = False,
    window: type | None = None,
    new_token: bool = False,
) -> list[str]:
    """Serves the page until the viewer ends; for the arguments see `live.run.run`.

    Without a `window` there is the page alone, and the viewer ends with the server.
    """
    try:
        from realtime_lrp.commands.serve.web_page import WebPage
    except ModuleNotFoundError as error:
        raise UnavailableError(
            f"The web page needs the library {error.name!r}, which is not installed. "
            'Run: pip install "realtime-lrp[serve]"'
        ) from None
    with WebPage(config.serve, required=window is None, new=new_token) as page:
        return run_live(config, duration_s, stats, record, overwrite, window, page)
