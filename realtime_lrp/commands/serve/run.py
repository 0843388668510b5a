"""The web page from start to end: connects the parts and runs the render loop.

Each turn makes events of what pages have sent, lets the view draw, and publishes picture and news.
"""

import logging
import socket
import ssl
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import psutil

from realtime_lrp.commands.live.saver import snapshot_of
from realtime_lrp.commands.live.sources import Mirror, SourceControl, SourceList
from realtime_lrp.commands.serve.exchange import Exchange
from realtime_lrp.commands.serve.messages import event_of
from realtime_lrp.commands.serve.news import choices, news
from realtime_lrp.commands.serve.tokens import Role, Tokens, read_token
from realtime_lrp.commands.serve.visitors import Visitors
from realtime_lrp.config import Config, check_names
from realtime_lrp.config.schema import Serve
from realtime_lrp.engine.provenance import provenance_of
from realtime_lrp.errors import Error, UnavailableError, first_line
from realtime_lrp.realtime.capture import Capture
from realtime_lrp.realtime.explaining import RelevanceThread, first_request
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.realtime.viewer.events import ChoiceRefused, NoticeGiven
from realtime_lrp.realtime.viewer.state import Command, LoopFiles, SeekTo, first_state
from realtime_lrp.realtime.viewer.view import View
from realtime_lrp.system import memory
from realtime_lrp.system.atomic import check_output
from realtime_lrp.system.program import print_lines
from realtime_lrp.system.signals import stop_signals
from realtime_lrp.video.libraries import draw_in_one_thread
from realtime_lrp.video.pictures import encode_picture

LARGEST = 720, 1280
"""Rows and columns of the largest picture that is sent; several maps side by side have this size"""

QUALITY = 80
"""Of the JPEGs."""

NEWS_S = 0.2
"""How often pages get news, at most: faster figures cannot be read."""

log = logging.getLogger(__name__)


def run(config: Config, duration_s: float | None = None, stats: Path | None = None) -> list[str]:
    """Serves the page until SIGINT, SIGTERM or the end of the duration.

    Args:
      config: the effective configuration.
      duration_s: seconds from the first map, or None.
      stats: the file that gets the figures, or None.

    Returns:
      A line of figures if there was a map.

    Raises:
      UsageError: a name that is not known.
      ConfigError: the token cannot be used, or certificate or key are missing.
      MissingInputError: there is no token file, certificate or key.
      DamagedInputError: certificate and key cannot be used.
      UnavailableError: the server cannot listen there or is not installed, or the source cannot be
        opened.
      OutputError: the figures cannot be written there.
    """
    web = _server_modules()
    memory.limit_kept_memory()
    draw_in_one_thread()
    check_names(config)
    if stats:
        check_output(stats, overwrite=True)
    tokens, tls = Tokens(read_token(config.serve.token_file)), _tls(web, config.serve)
    with stop_signals() as stopped, ExitStack() as stack:
        listening = stack.enter_context(web.server.listen(config.serve.host, config.serve.port))
        parts = Parts(config)
        app = web.app.App(
            parts.exchange,
            tokens,
            parts.figures_now,
            lambda: snapshot_of(parts.view),
            parts.visitors,
        )
        port = listening.getsockname()[1]
        guard = web.guard.Guard(app.routes(), tokens, config.serve.names, port)
        stack.callback(parts.finish, stats)
        stack.enter_context(parts.capture)
        stack.enter_context(parts.relevance)
        stack.enter_context(parts.visitors)
        server = stack.enter_context(web.server.Server(guard, listening, tls))
        _print_address(config.serve, port, tokens, web)
        while not stopped.is_set():
            server.check()
            parts.loop.turn()
            if duration_s is not None and parts.figures.seconds() >= duration_s:
                break
    return [parts.figures.summary()] if parts.relevance.engine else []


def _server_modules() -> SimpleNamespace:
    """The modules that need the server's libraries.

    Raises:
      UnavailableError: these are not installed.
    """
    try:
        from realtime_lrp.commands.serve import app, certificate, guard, qr, server
    except ModuleNotFoundError as error:
        raise UnavailableError(
            f"The web page needs the library {error.name!r}, which is not installed. "
            'Run: pip install "realtime-lrp[serve]"'
        ) from None
    return SimpleNamespace(app=app, certificate=certificate, guard=guard, qr=qr, server=server)


class Parts:
    """The viewer and what is shared with the server.

    Args:
      config: the effective configuration.
    """

    def __init__(self, config: Config):
        self.figures, self.exchange = Stats("", "", reconnects=0), Exchange()
        state = first_state(config, first_request(config))
        sources, mirror = SourceList(config), Mirror(state.mirror)
        self.capture = Capture(sources.opener(), mirror)
        self.relevance = RelevanceThread(
            config, self.capture.frames, state.request, self.figures, changeable=True
        )
        self.view = View(
            state, self.capture, self.relevance, self.figures, _show_nowhere,
            lambda: canvas_size(self.view), figures_in_picture=False,
        )  # fmt: skip
        self.visitors = Visitors(self.relevance, lambda: self.view.state)
        control = SourceControl(self.capture, sources, self.view.send)
        self.loop = Loop(
            self.view, self.capture, self.relevance, self.exchange, control, mirror
        )  # fmt: skip

    def figures_now(self) -> dict[str, object]:
        """The figures until now; for the render loop's thread."""
        figures, capture = self.figures, self.capture
        figures.frames_captured, figures.reconnects = capture.frames.count, capture.reconnects
        if engine := self.relevance.engine:
            figures.device, figures.precision = engine.device, engine.precision
            figures.traces = engine.explainer.traces
        return figures.as_dict(live=True)

    def finish(self, stats: Path | None) -> None:
        """Closes the account when all parts have ended, and writes it.

        Raises:
          OutputError: the file cannot be made.
        """
        self.view.finish()
        self.figures_now()
        if stats and (engine := self.relevance.engine):
            self.figures.write(stats, live=True, provenance=provenance_of(engine, None, "live"))


class Loop:
    """The render loop: sends what pages sent to the state, and publishes what they show.

    Args:
      view: holds the state and draws it.
      capture: says what is wrong with the source.
      relevance: says which engines could not be prepared.
      exchange: what the server gets.
      source_control: carries out commands to the source.
      mirror: mirrors what is captured.
    """

    def __init__(
        self,
        view: View,
        capture: Capture,
        relevance: RelevanceThread,
        exchange: Exchange,
        source_control: SourceControl,
        mirror: Mirror,
    ):
        self._view, self._capture, self._relevance = view, capture, relevance
        self._exchange, self._source_control, self._mirror = exchange, source_control, mirror
        self._encoded, self._drawn = 0, 0
        self._news_due = 0.0

    def turn(self) -> None:
        """One turn.

        Raises:
          Error: capture or relevance thread cannot go on.
        """
        self._capture.check()
        self._relevance.check()
        exchange = self._exchange
        exchange.turned = time.monotonic()
        for message in exchange.messages():
            if event := event_of(message, self._relevance):
                for command in self._view.send(event):
                    self._perform(command)
        self._mirror.on = self._view.state.mirror
        self._drawn += self._view.step() is not None
        cache = self._relevance.engine_cache
        if refused := cache and cache.refused():
            self._view.send(ChoiceRefused(*refused, self._relevance.choice))
        exchange.run_jobs()
        self._publish()

    def _publish(self) -> None:
        """Encodes what was drawn if somebody waits for it, and renews the news."""
        view, exchange, now = self._view, self._exchange, time.monotonic()
        if not exchange.watched:
            return
        new = self._encoded != self._drawn or exchange.picture is None
        if new and exchange.picture_wanted and view.frame and view.canvas is not None:
            jpeg = encode_picture(".jpg", view.canvas, quality=QUALITY)
            exchange.publish(jpeg, view.frame.time)
            self._encoded = self._drawn
        if now >= self._news_due:
            self._news_due = now + NEWS_S
            exchange.publish_news(news(view, self._relevance, self._capture.trouble, now))
            answer = view.state.answer
            if answer and not exchange.labels:
                exchange.labels = choices(answer.labels)

    def _perform(self, command: Command | SeekTo | LoopFiles) -> None:
        """Carries out a command; an error becomes a notice."""
        try:
            self._source_control.perform(command)
        except Error as error:
            self._view.send(NoticeGiven(first_line(error)))


def canvas_size(view: View) -> tuple[int, int]:
    """Rows and columns of what is sent: those of the picture, if that is not too large."""
    if view.frame is None or view.state.tiled:
        return LARGEST
    rows, columns = view.frame.value.shape[:2]
    scale = min(1.0, LARGEST[0] / rows, LARGEST[1] / columns)
    return max(1, round(scale * rows)), max(1, round(scale * columns))


def _tls(web: SimpleNamespace, serve: Serve) -> ssl.SSLContext | None:
    """What the server speaks HTTPS with; None for HTTP.

    Raises:
      Error: what `context_of_files` raises.
    """
    if serve.cert or serve.key:
        return web.certificate.context_of_files(serve.cert, serve.key)
    if not serve.https:
        if not _is_loopback(serve.host):
            log.warning(
                "pictures and token go over the network unencrypted, and phones do not give their "
                "camera; see --https"
            )
        return None
    context, fingerprint = web.certificate.own_context([*_addresses(serve), *serve.names])
    log.warning(
        "browsers will say that the connection is not private, because this machine made the "
        "certificate itself: choose Advanced, then Proceed. Its SHA-256 fingerprint is %s",
        fingerprint,
    )
    return context


def _print_address(serve: Serve, port: int, tokens: Tokens, web: SimpleNamespace) -> None:
    """Prints the address to open; at a terminal also its QR code, if phones can reach it."""
    host = _addresses(serve)[0]
    host = f"[{host}]" if ":" in host else host
    scheme = "https" if serve.https or serve.cert else "http"
    address = f"{scheme}://{host}:{port}/?token={tokens[Role.CONTROL]}"
    print_lines([address], secrets=True)
    if sys.stdout.isatty() and not _is_loopback(serve.host):
        print_lines(web.qr.lines(address), secrets=True)


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _addresses(serve: Serve) -> list[str]:
    """The addresses that the server has: those of this machine in its networks, or the one."""
    if serve.host not in ("0.0.0.0", "::", ""):
        return [serve.host]
    up = {name for name, one in psutil.net_if_stats().items() if one.isup}
    addresses = [
        one.address
        for name, ones in psutil.net_if_addrs().items()
        if name in up
        for one in ones
        if one.family == socket.AF_INET and not one.address.startswith("127.")
    ]
    return addresses or ["127.0.0.1"]


def _show_nowhere(picture: object) -> None:
    """Stands for the window: pages get the canvas without menus."""
