"""Concepts in sidecars of films."""

import json

import media
import numpy as np

from realtime_lrp import Explainer
from realtime_lrp.models.networks import load_network
from realtime_lrp.results.records import TOP_CONCEPTS
from realtime_lrp.video.reader import VideoReader
from realtime_lrp.video.region import region_of


def sidecar_of(film):
    """The lines of the sidecar beside a film."""
    return [json.loads(line) for line in film.with_suffix(".jsonl").read_text().splitlines()]


def test_a_sidecar_has_the_channels_that_the_explainer_gives(run, words, tiny_model, tmp_path):
    """The four largest shares of each frame, of all magnitudes; the same in batches of any size."""
    source = media.recording(tmp_path / "in.mp4", count=5, size=(48, 80))
    options = ("--sidecar", "--target", "top1")
    for batch in (1, 4):
        film = tmp_path / f"{batch}.mp4"
        code, _, err = run("video", source, "-o", film, *words, *options, "--batch", batch)
        assert (code, err) == (0, "")
    rows = sidecar_of(film)
    concepts = [
        [row["concepts"] for row in sidecar_of(tmp_path / name)] for name in ("1.mp4", "4.mp4")
    ]
    assert concepts[0] == concepts[1]
    network = load_network(str(tiny_model), preprocess="none")
    explainer = Explainer(network.model, target="top1")
    with VideoReader(source) as reader:
        region = region_of((48, 80), (32, 32), "crop")
        views = np.stack([region.extract(frame.picture) for frame in reader])
    found = explainer.concepts(network.prepare(views), explainer.concept_layers[-1], TOP_CONCEPTS)
    shares = found.shares / np.abs(found.by_channel).sum(1, keepdims=True)
    for number, row in enumerate(rows):
        assert [one["channel"] for one in row["concepts"]] == found.channels[number].tolist()
        written = [one["share"] for one in row["concepts"]]
        np.testing.assert_allclose(written, shares[number], atol=2e-6)
