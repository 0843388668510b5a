"""Makes what is drawn out of explained frames: their maps, scaled, and the panel of concepts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from realtime_lrp.engine.boxes import drawable, drawn_map, outlines_of
from realtime_lrp.engine.result import ConceptMap, ConceptResult
from realtime_lrp.engine.segments import why
from realtime_lrp.engine.wording import nothing_found
from realtime_lrp.realtime.explaining import ExplainedFrame
from realtime_lrp.realtime.viewer.lecture import Words
from realtime_lrp.realtime.viewer.state import ViewerState
from realtime_lrp.relevance.maps.targets import tidied
from realtime_lrp.view.concepts import ConceptPanel, ConceptRow
from realtime_lrp.view.hud import percent
from realtime_lrp.view.look import Look
from realtime_lrp.view.painting import Drawn, Outline, Painted, Series, paint

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine

FIGURES_S = 0.25  # how often the figures change, at most: faster ones cannot be read
SWAPPED = 1.2  # how many times larger a channel has to be than the one above for its place
NAMED = 1000.0  # how many times more a share counts where the channel has a name
UNPICTURED = "realtime-lrp concepts makes pictures of what they answer to"  # without a gallery


class ConceptView:
    """The panel of the first network: which channel has which row, and its averaged share."""

    def __init__(self, network: str = "") -> None:
        self._network = network
        self._panel: ConceptPanel | None = None
        self._made_of: tuple[object, ...] = ()
        self._start_over(())

    def _start_over(self, series: tuple[object, ...]) -> None:
        self._series = series
        self._channels: list[int] = []
        self._figures: dict[int, str] = {}
        self._figures_at = 0.0

    def panel(
        self, state: ViewerState, explained: ExplainedFrame | None, old: str = ""
    ) -> ConceptPanel | None:
        """The panel, the same object while nothing changes, or None; `old` replaces its heading."""
        wanted = state.request.concepts
        if wanted is None:
            self._made_of = ()
            self._panel = None
            return None
        if explained is None:
            return None
        made_of = explained, wanted, state.look, self._holds_answer(state)
        if made_of != self._made_of:
            self._made_of = made_of
            self._panel = self._new_panel(state, explained)
        if self._panel and self._panel.old != state.words(old):
            self._panel = replace(self._panel, old=state.words(old))
        return self._panel

    def _holds_answer(self, state: ViewerState) -> bool:
        """Whether the answer stands in the panel, so that the picture keeps its width."""
        others = (self._network and not state.alone) or state.about or state.request.probe
        return not others and state.text == "presenter" and state.request.target == "top1"

    def _new_panel(self, state: ViewerState, explained: ExplainedFrame) -> ConceptPanel:
        engine = explained.engine
        gallery = engine.gallery
        wanted = state.request.concepts
        layer = (wanted and wanted.layer) or engine.concept_layer or ""
        found = explained.result.concepts
        x0, y0, x1, y1 = explained.result.region.box
        boxes = explained.boxes
        figure = note = ""
        rows: tuple[ConceptRow, ...] = ()
        if boxes == ():
            name = note = nothing_found(explained.result.target, engine.label)
        else:
            name, share = explained.answers[0]
            figure = f"{share:.4g}" if engine.explainer.classes == 1 else percent(share)
            if found is None or found.layer not in ("", layer):
                note = f"preparing {layer or 'channels'}"
            elif not (note := found.problem):
                rows = self._rows(explained, found, state.words)
        in_panel = self._holds_answer(state)
        other = gallery.other_network if gallery else ""
        pictured = bool(gallery and gallery.layers)
        warning = (
            f"Pictures made with {other}: they may mislead"
            if other
            else ""
            if pictured
            else UNPICTURED
        )
        return ConceptPanel(
            title=layer,
            picture=explained.picture[y0:y1, x0:x1],
            rows=rows,
            look=state.look,
            note=state.words(note),
            with_pictures=pictured,
            network=self._network,
            thing=name if boxes and not in_panel else "",
            warning=state.words(warning),
            answer=(state.words(name), figure) if in_panel else ("", ""),
            words=state.words,
        )

    def _rows(
        self, explained: ExplainedFrame, found: ConceptResult, words: Words
    ) -> tuple[ConceptRow, ...]:
        request = explained.request
        engine = explained.engine
        gallery = engine.gallery
        series = engine, request.target, found.layer, explained.frame.source, request.box
        if series != self._series:
            self._start_over(series)
        frozen = request.frame is not None
        steady = explained.shares
        now = time.monotonic()
        maps = {one.channel: one for one in found.maps}
        shares = {
            channel: one.share if steady is None else float(steady[channel])
            for channel, one in maps.items()
        }
        if frozen or now - self._figures_at > FIGURES_S:
            self._figures = {}
            self._figures_at = now
        self._figures = {one: percent(share) for one, share in shares.items()} | self._figures
        ranks = {
            channel: abs(share) * (NAMED if gallery and gallery.name(found.layer, channel) else 1)
            for channel, share in shares.items()
        }
        self._channels = sorted_rows([] if frozen else self._channels, ranks)
        followed = request.concepts and request.concepts.channel
        signed = explained.maps[0].signed

        def row(channel: int) -> ConceptRow:
            one = maps[channel]
            name = name_of(engine, found.layer, channel)
            return ConceptRow(
                channel=channel,
                name=words(f"no map: {name}" if found.without_map(one) else name),
                share=shares[channel],
                figure=self._figures[channel],
                drawn=drawable(one, explained.result, one.scale / (found.scale or 1.0), signed),
                pictures=gallery.pictures(found.layer, channel) if gallery else (),
                followed=channel == followed,
            )

        return tuple(map(row, self._channels))


def sorted_rows(before: Sequence[int], ranks: Mapping[int, float]) -> list[int]:
    """The channels, largest rank first; none moves past one that is not `SWAPPED` times smaller."""
    order = [one for one in before if one in ranks]
    order += [rank for rank in ranks if rank not in before]
    for _ in order:
        for n in range(1, len(order)):
            if ranks[order[n]] > SWAPPED * ranks[order[n - 1]]:
                order[n - 1 : n + 1] = order[n], order[n - 1]
    return order


def name_of(engine: Engine, layer: str, channel: int) -> str:
    """A channel's name; without one, the classes that it speaks for most."""
    gallery = engine.gallery
    number = f"channel {channel}"
    if gallery is None:
        return number
    known = gallery.channels(layer).get(channel)
    (first, most), *others = (known and known.classes) or [("", 0.0)]
    second = [name for name, part in others[:1] if part > most / 2]
    classes = " and ".join(f"“{tidied(name)}”" for name in [first, *second])
    return gallery.name(layer, channel) or (f"for {classes} ({number})" if first else number)


def followed_map(explained: ExplainedFrame) -> ConceptMap | None:
    """The map of the followed channel; None if the whole map is shown."""
    wanted = explained.request.concepts
    found = explained.result.concepts
    return found.of(wanted.channel) if wanted and found else None


def followed_caption(explained: ExplainedFrame) -> str:
    """Its name, and whether the picture has nothing of that channel; "" where there is none."""
    one = followed_map(explained)
    found = explained.result.concepts
    if not (one and found):
        return ""
    title = f"{name_of(explained.engine, found.layer, one.channel)} of {found.layer}"
    return f"{title}: this picture has nothing of it" if found.lacks(one) else title


class MapPainter:
    """Paints the maps of one explained frame after the other.

    Scale and average follow the last maps of the same engine, target, file (or camera), followed
    channel and box that is shown alone; a change starts anew.
    """

    def __init__(self) -> None:
        self._key: tuple[object, ...] | None = None
        self._series = Series()
        self._maps: tuple[ExplainedFrame, list[Drawn]] | None = None
        self._last: tuple[tuple[object, ...], Painted] | None = None

    def __call__(
        self, explained: ExplainedFrame | None, look: Look,
        outlined: Callable[..., tuple[Outline, ...]] = outlines_of,
    ) -> Painted | None:  # fmt: skip
        """The maps to draw; the same object as long as the arguments stay the same.

        `outlined` is `outlines_of`, or that in another language.
        """
        if explained is None:
            self._key = self._maps = self._last = None  # so that the engine can be freed
            return None
        one = followed_map(explained)
        key = (
            explained.engine, explained.request.target, explained.frame.source,
            one and (explained.request.concepts, one.channel), look.average,
            explained.request.box, look.colormap, explained.result.segments and why(
                explained.engine, explained.result.segments
            ),
        )  # fmt: skip
        if key != self._key:
            self._key = key
            self._maps = None
            self._series = Series()
        if self._maps is None or self._maps[0] is not explained:
            self._maps = (explained, _drawn_maps(explained, look))
            self._last = None
        if self._last is None or self._last[0] != (look, outlined):
            result = explained.result
            outlines = outlined(explained.engine, result, explained.request.box)
            maps = self._maps[1]
            box = result.region.box
            painted = paint(explained.picture, maps, look, box, outlines, self._series)
            self._last = (look, outlined), painted
        return self._last[1]


def _drawn_maps(explained: ExplainedFrame, look: Look) -> list[Drawn]:
    """The maps of a frame; a followed channel's map replaces the first."""
    result = explained.result
    shown = explained.shown
    maps = [drawn_map(shown, look, n) for n in range(len(shown.maps))]
    one = followed_map(explained)
    found = result.concepts
    if one and found:
        fade = one.scale / found.scale if found.lacks(one) else 1.0  # noise is no map
        caption = followed_caption(explained)
        maps[0] = drawable(one, result, fade, maps[0].signed, caption)
    return maps
