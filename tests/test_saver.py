"""What the live view saves by key."""

import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from realtime_lrp import config
from realtime_lrp.commands.live.saver import Saver
from realtime_lrp.engine.engine import Engine
from realtime_lrp.realtime.explaining import ExplainedFrame, first_request
from realtime_lrp.realtime.latest import Item
from realtime_lrp.realtime.viewer.state import first_state
from realtime_lrp.results.provenance import provenance_of_file


def test_a_snapshot_has_the_configuration_of_its_maps(tmp_path):
    """While another method is prepared the maps are still those of the one before."""
    options = {"--model": "shapes", "--composite": "zplus", "--opacity": 0.5}
    chosen = config.load(None, [f"live.folder={tmp_path}"], options, command="live").config
    engine = Engine(chosen)
    picture = np.random.default_rng(0).integers(0, 256, (128, 128, 3), np.uint8)
    request = first_request(chosen)
    wanted = replace(request.choice, method="gradient", composite="epsilon", channels="rgb")
    explained = ExplainedFrame(
        frame=Item(picture, 1, time.monotonic()),
        picture=picture,
        request=replace(request, choice=replace(wanted, random=True), target="2"),
        engine=engine,
        result=engine.explain([picture])[0],
    )
    state = first_state(chosen, replace(request, choice=wanted, target="3"))
    network = SimpleNamespace(
        scene=SimpleNamespace(picture=picture), explained=explained, has_map=True
    )
    view = SimpleNamespace(
        state=replace(
            state,
            mirror=True,
            tiled=True,
            panels=("gradient",),
            look=replace(state.look, opacity=0.25),
        ),
        networks=[network],
        canvas=picture,
    )
    saver = Saver(chosen, None, False)
    assert saver.snapshot(view).startswith("saving ")
    assert len(saver.finish()) == 1
    (npz,) = tmp_path.glob("*.npz")
    written = tmp_path / "again.yaml"
    with np.load(npz) as data:
        written.write_text(str(data["config"]))
        assert list(data["names"]) == ["zplus"]
    saved = config.load(str(written)).config
    assert (saved.lrp.method, saved.lrp.composite, saved.lrp.target) == ("lrp", "zplus", "2")
    assert saved.lrp.precision == chosen.lrp.precision
    assert saved.overlay.map == "grey" and saved.model == chosen.model
    assert saved.live.panels == [], "the map of gradient was not ready"
    assert saved.input.mirror and saved.overlay.opacity == 0.25
    made = provenance_of_file(npz)
    assert made == provenance_of_file(npz.with_suffix(".png"))
    again = config.load(config.settings_tree(made.settings, "snapshot"), command="live").config
    same = ("model", "lrp", "input", "overlay")
    assert [getattr(again, name) for name in same] == [getattr(saved, name) for name in same]
    assert again.live.panels == [] and again.live.folder == "."
