"""Concepts in sidecars of films."""

import json
import re
from pathlib import Path

import duckdb
import media
import numpy as np
import pytest

from realtime_lrp import Explainer
from realtime_lrp.models.networks import load_network
from realtime_lrp.results.records import TOP_CONCEPTS
from realtime_lrp.video.reader import VideoReader
from realtime_lrp.video.region import region_of

pytestmark = pytest.mark.usefixtures("uncompiled")

HOME = Path(__file__).parents[1]


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


def test_a_sidecar_has_names_and_can_be_searched(run, words, tmp_path, monkeypatch):
    """The layer is in the settings; a repeat is equal; DuckDB as documented finds the frames."""
    monkeypatch.chdir(tmp_path)
    source = media.recording(tmp_path / "in.mp4", count=6)
    assert run("video", source, "-o", "out.mp4", *words, "--sidecar")[0] == 0
    rows = sidecar_of(tmp_path / "out.mp4")
    first = rows[0]
    layer = first["provenance"]["settings"]["concepts.layer"]
    channel = first["concepts"][0]["channel"]
    assert not any("name" in one for row in rows for one in row["concepts"])
    (tmp_path / "names.yaml").write_text(f"{layer}:\n  {channel}: bar\n")
    again = ("video", source, "-o", "out.mp4", *words, "--sidecar", "--names", "names.yaml")
    code, _, err = run(*again, "--resume")
    assert code == 73 and "other settings" in err
    assert run(*again, "--overwrite")[0] == 0
    named = sidecar_of(tmp_path / "out.mp4")
    assert [one.get("name") for one in named[0]["concepts"]] == ["bar", None, None, None]
    repeat = ("video", source, "-o", "repeat.mp4", "--sidecar", "--config", "out.jsonl")
    assert run(*repeat)[0] == 0
    texts = [(tmp_path / name).read_text() for name in ("out.jsonl", "repeat.jsonl")]
    assert texts[0] == texts[1]
    (tmp_path / "repeat.jsonl").unlink()
    text = (HOME / "docs" / "concepts.md").read_text()
    (query,) = re.findall(r'duckdb\.sql\("""(.*?)"""\)', text, re.S)
    query = re.sub(r"channel = \d+", f"channel = {channel}", query).replace("> 0.1", "> 0")
    found = duckdb.sql(query).fetchall()
    shares = [(row["time"], one["share"]) for row in named for one in row["concepts"]
              if one["channel"] == channel]  # fmt: skip
    assert [row[1:] for row in found] == shares and shares
