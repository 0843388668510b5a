"""The page as the live viewer uses it: the server's start and end, its side of the render loop."""

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from realtime_lrp.commands.serve.access import Role, Tokens, print_address, read_token, tls_of
from realtime_lrp.commands.serve.app import App
from realtime_lrp.commands.serve.exchange import Exchange
from realtime_lrp.commands.serve.messages import QUALITY, choices, concepts_message, event_of, news
from realtime_lrp.commands.serve.server import Guard, Server, listen
from realtime_lrp.commands.serve.visitors import Visitors
from realtime_lrp.config.schema import Serve
from realtime_lrp.errors import UnavailableError
from realtime_lrp.realtime.viewer.events import Event, NoticeGiven
from realtime_lrp.realtime.viewer.view import View
from realtime_lrp.results.companions import Snapshot
from realtime_lrp.system.geometry import Box
from realtime_lrp.video.pictures import encode_picture
from realtime_lrp.view.concepts import ConceptPanel
from realtime_lrp.view.scene import SplitArtist

LARGEST = 720, 1280  # rows and columns of the largest picture that is sent, and of tiles
NEWS_S = 0.2  # how often pages get news, at most: faster figures cannot be read
UNWATCHED_NEWS_S = 1.0  # while nobody watches the view, but visitors use their own cameras

ENDED = "the web page has ended; start again for a new one"

log = logging.getLogger(__name__)


class WebPage:
    """Shows a view: listens from the start on, answers while it is entered.

    `snapshot` keeps what is shown; `new` makes other token and certificate; `teacher` is the
    `Teacher` of a lesson, whose module imports TensorFlow.
    """

    def __init__(
        self, serve: Serve, view: View, snapshot: Callable[[], Snapshot | None], new: bool,
        teacher: Any = None,
    ):  # fmt: skip
        self._view = view
        self._relevance = view.first.relevance
        self._teacher = teacher
        self._exchange = Exchange()
        tokens = Tokens(read_token(serve.token_file, new))
        with ExitStack() as stack:
            listening = stack.enter_context(listen(serve.host, serve.port))
            tls, fingerprint = tls_of(serve, new)  # it warns, so it comes after what may fail
            self._entered = stack.pop_all()
        self._visitors = Visitors(
            self._relevance, lambda: view.state, lambda: self._exchange.view_watched
        )
        app = App(
            self._exchange, tokens, fingerprint, view.figures, snapshot, self._visitors,
            lambda: getattr(self._relevance.engine, "gallery", None), view.state.words,
        )  # fmt: skip
        port = listening.getsockname()[1]
        self._server = Server(Guard(app.routes(), tokens, serve.names, port), listening, tls)
        self._print_address = partial(print_address, serve, port, tokens[Role.CONTROL])
        self._is_printed = False
        self._concepts: ConceptPanel | None = None
        self._artist = SplitArtist()
        self._boxes: tuple[Box, ...] = ()  # if the pictures lie elsewhere in the window
        self._offered: tuple[str, ...] = ()  # classes that pages know of
        self._is_new = False  # whether something was drawn that is not published
        self._news_due = 0.0
        self._ended = False

    def __enter__(self) -> "WebPage":
        self._entered.enter_context(self._visitors)
        self._entered.enter_context(self._server)
        return self

    def __exit__(self, *exception: object) -> None:
        self._entered.close()

    @staticmethod
    def canvas_size(view: View) -> tuple[int, int]:
        """Rows and columns of what is sent: the picture's, unless that is too large."""
        if view.frame is None or view.state.tiled or len(view.networks) > 1:
            return LARGEST
        rows, columns = view.frame.value.shape[:2]
        scale = min(1.0, LARGEST[0] / rows, LARGEST[1] / columns)
        return max(1, round(scale * rows)), max(1, round(scale * columns))

    def events(self) -> list[Event]:
        """Pages' events; UnavailableError if the server has ended and nothing else shows it."""
        self._exchange.turned = time.monotonic()
        messages = self._exchange.messages()
        if messages:
            self._news_due = 0.0
        found = (event_of(message, self._relevance, self._boxes) for message in messages)
        events = list(filter(None, found))
        if not (self._server.alive or self._ended):
            if not self._view.figures_in_picture:
                raise UnavailableError("The web server has ended. Start it again; see -vv for why.")
            self._ended = True
            log.error(ENDED)
            events.append(NoticeGiven(ENDED))
        return events

    def wants_picture(self) -> bool:
        """Whether somebody waits for a picture, or the news are due."""
        begins = self._view.frame is None
        return begins or self._exchange.picture_wanted or time.monotonic() >= self._news_due

    def publish(self, drawn: bool) -> None:
        """Encodes what was drawn if somebody waits, renews the news, prints the address once."""
        view = self._view
        exchange = self._exchange
        if view.frame and not self._is_printed:
            self._print_address()
            self._is_printed = True
        self._is_new |= drawn
        exchange.run_jobs()
        self._publish_news(time.monotonic())
        wanted = exchange.picture_wanted and (self._is_new or exchange.picture is None)
        if not wanted or view.frame is None:
            return
        canvas = view.canvas
        if view.figures_in_picture and view.split:  # the page draws the figures itself
            scene = view.split.pictures_alone(WebPage.canvas_size(view))
            self._boxes = scene.pictures
            canvas = self._artist.draw(scene)
        if canvas is not None:
            exchange.publish(encode_picture(".jpg", canvas, quality=QUALITY), view.frame.time)
            self._is_new = False

    def _publish_news(self, now: float) -> None:
        view = self._view
        exchange = self._exchange
        if now < self._news_due:
            return
        self._news_due = now + (NEWS_S if exchange.view_watched else UNWATCHED_NEWS_S)
        if not exchange.viewers:
            return
        exchange.say("news", news(view, self._teacher and self._teacher.fields()))
        labels = view.state.facts.labels
        if labels != self._offered:
            self._offered = labels
            exchange.say("choices", choices(view.state))
        engine = self._relevance.engine
        panel = view.concepts
        if panel is None or engine is None:
            exchange.say("concepts", concepts_message())
            self._concepts = None
        elif panel is not self._concepts and exchange.view_watched:
            layers = engine.concepts.layers
            exchange.say("concepts", concepts_message(panel, engine.gallery, layers))
            self._concepts = panel
