"""Channels on the web page: their message, the gallery's pictures, and who may change them."""

import json
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from galleries import gallery_of
from served import Role, serving_pages
from viewer import LOOK

from realtime_lrp.commands.serve.messages import SetValue, concepts_message, event_of, read_message
from realtime_lrp.realtime.viewer import events
from realtime_lrp.system.scale import FULL
from realtime_lrp.view.concepts import ConceptPanel, ConceptRow
from realtime_lrp.view.painting import Drawn


@pytest.fixture(scope="module")
def served():
    """A server with pictures for the channel 5 of 16."""
    with serving_pages() as one:
        one.gallery = gallery_of("conv", 16)
        yield one


def panel_of(*rows, note=""):
    """A panel over a grey picture; rows are (channel, share, column that the map looks at)."""
    made = []
    for channel, share, column in rows:
        strength = np.zeros((12, 16), np.int8)
        strength[:, column] = FULL
        words = (f"channel {channel}", share, f"{share:.0%}")
        made.append(ConceptRow(channel, *words, Drawn(strength, 1.0), (), False))
    picture = np.full((60, 80, 3), 90, np.uint8)
    return ConceptPanel("conv", picture, tuple(made), LOOK, note)


def parts_of(message):
    """The fields of a message, and its picture, uint8 [H, W, 3] BGR, or None."""
    length = int.from_bytes(message[1:5], "little")
    fields, data = json.loads(message[5 : 5 + length]), message[5 + length :]
    return fields, cv2.imdecode(np.frombuffer(data, np.uint8), 1) if data else None


def test_a_message_has_every_channel_with_its_own_map():
    """The maps stand side by side in the order of the rows; a free row is left out."""
    panel = panel_of((5, 0.125, 2), (9, -0.5, 13))
    fields, maps = parts_of(concepts_message(panel, gallery_of("conv", 16), ("first", "conv")))
    assert (fields["layer"], fields["layers"], fields["why"]) == ("conv", ["first", "conv"], "")
    assert fields["without_pictures"] == ["first"]
    assert [
        (row["channel"], row["bar"], row["against"], row["examples"]) for row in fields["rows"]
    ] == [(5, 0.125, False, True), (9, 0.5, True, False)]
    assert maps.shape == (144, 2 * 192, 3)
    bright = [maps[:, 192 * n : 192 * (n + 1), 2].mean(0).argmax() / 192 for n in (0, 1)]
    assert bright == pytest.approx([2.5 / 16, 13.5 / 16], abs=0.05)
    without, _ = parts_of(concepts_message(panel, None, ("first", "conv")))
    assert without["without_pictures"] == [], "without a gallery no layer stands out"
    assert len(concepts_message(panel, None, ())) < 40_000


def test_the_pictures_of_a_channel_are_answered_to_all_who_have_a_token(served):
    """Six side by side; nothing else is there, whatever is asked for."""
    for role in (Role.CONTROL, Role.WATCH):
        token = served.tokens[role]
        status, headers, body = served.get("/gallery.jpg?layer=conv&channel=5", token)
        assert (status, headers["Content-Type"]) == (200, "image/jpeg")
        shown = cv2.imdecode(np.frombuffer(body, np.uint8), 1)
        assert shown.shape == (96, 6 * 100, 3)
        assert shown[48, 48::100, 0].tolist() == pytest.approx([30, 60, 90, 120, 150, 180], abs=3)
    assert served.get("/gallery.jpg?layer=conv&channel=5", token="")[0] == 401
    for query in ("", "layer=conv", "layer=conv&channel=6", "layer=conv&channel=-5",
                  "layer=conv&channel=5.0", "layer=conv&channel=99999999999999999999",
                  "layer=../conv&channel=5", "layer=/etc/passwd&channel=5"):  # fmt: skip
        status, _, body = served.get(f"/gallery.jpg?{query}")
        assert (status, body[:4]) == (404, b"404:"), query


def test_a_row_and_a_layer_that_are_chosen_are_events():
    """Numbers that no channel has are no message."""
    explainer = SimpleNamespace(channel_counts=lambda: {"conv": 18, "top": 8})
    relevance = SimpleNamespace(
        engine=SimpleNamespace(
            concepts=SimpleNamespace(layers=("conv", "top")),
            concept_layer="top",
            explainer=explainer,
        ),
        request=SimpleNamespace(concepts=SimpleNamespace(layer="conv")),
    )

    def followed(channel):
        message = f'{{"type": "choice", "what": "channel", "value": {channel}}}'
        return event_of(read_message(message), relevance)

    assert followed(17).value == 17
    assert "'conv' has 18" in followed(18).text and "no channel -1:" in followed(-1).text
    relevance.request.concepts = None
    assert "'top' has 8" in followed(8).text
    chosen = event_of(SetValue("layer", "conv"), relevance)
    assert (chosen.what, chosen.value) == ("layer", "conv")
    wrong = event_of(SetValue("layer", "cond"), relevance)
    assert isinstance(wrong, events.NoticeGiven) and "'conv'" in wrong.text
    loading = event_of(SetValue("layer", "conv"), SimpleNamespace(engine=None))
    assert "not loaded yet" in loading.text
    assert followed('"5"') is followed("true") is None and "no channel 5.5:" in followed(5.5).text
