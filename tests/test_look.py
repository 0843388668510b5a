"""How maps are drawn: one value, and a row for each setting of it that keys and pages change."""

import re
from dataclasses import fields, replace
from pathlib import Path

import pytest
from viewer import LOOK

import realtime_lrp
from realtime_lrp import config
from realtime_lrp.config.keys import SECTIONS, legal_keys
from realtime_lrp.view.look import LOOK_SETTINGS, Look

SOURCES = Path(realtime_lrp.__file__).parent
OF_LOOK = {field.name for field in fields(Look)}
TEXT = "\n".join(
    path.read_text().replace("self.", "look." if path.name == "look.py" else "self.")
    for path in SOURCES.rglob("*.py")
    if path.name != "schema.py"
)


def test_a_look_is_what_the_configuration_says():
    """Every field comes from a key of its name."""
    chosen = config.load(sets=("overlay.style=contour", "overlay.average=0.3")).config
    look = Look.of(chosen.overlay)
    assert (look.style, look.average, look.follow, look.colormap) == ("contour", 0.3, "flow", None)
    assert chosen.overlay.model_copy(update=vars(look)) == chosen.overlay


@pytest.mark.parametrize("setting", LOOK_SETTINGS, ids=lambda one: one.name)
def test_a_setting_goes_through_values_that_the_configuration_takes(setting):
    """Forwards and back again to where it began."""
    look, values = LOOK, setting.values() or range(10)
    for by in (1, -1):
        for _ in values:
            value = setting.moved(getattr(look, setting.name), by)
            assert setting.accepts(value)
            look = replace(look, **{setting.name: value})
            config.load(sets=(f"overlay.{setting.name}={'null' if value is None else value}",))
            assert setting.says(value)
    assert getattr(look, setting.name) == getattr(LOOK, setting.name) or not setting.values()


@pytest.mark.parametrize("key", legal_keys())
def test_every_setting_is_read(key):
    """Somewhere in the program: `config.section.key`, or the section by its name, or a `Look`."""
    section, name = key.split(".")
    value = "look" if section == "overlay" and name in OF_LOOK else section
    assert re.search(rf"\b{value}\.{name}\b", TEXT), SECTIONS[section]
