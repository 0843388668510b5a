"""What the page reads is what the server sends."""

import re

import pytest

pytest.importorskip("uvicorn", reason="the extra serve is not installed")

from realtime_lrp.commands.serve import messages
from realtime_lrp.commands.serve.app import FILES
from realtime_lrp.view.look import LookSetting

READ_FROM = {
    "role": [messages.Role],
    "choices": [messages.Choices],
    "news": [messages.News],
    "latest": [messages.News],
    "fields": [messages.VisitorMap, messages.Concepts],
}
"""What a message is called in the scripts -> what it can be."""


@pytest.mark.parametrize("name", READ_FROM)
def test_every_field_that_the_page_reads_is_sent(name):
    """A field that is missing in one kind of answer would stop the page."""
    scripts = "\n".join(one.read_text() for one in FILES.values() if one.name.endswith(".js"))
    read = set(re.findall(rf"(?<![.\w]){name}\??\.([a-z_]\w*)\b(?!\()", scripts))
    for fields in re.findall(rf"{{([^{{}}]*)}} = {name}\b", scripts):
        read |= {field.split(":")[0].strip() for field in fields.split(",")}
    sent = {field for kind in READ_FROM[name] for field in kind.__struct_fields__}
    assert read and read <= {"type", *sent}


def test_an_answer_without_a_map_has_all_fields():
    """What the scripts read is there, whatever the answer is."""
    text = messages.join_message(messages.VisitorMap(3, "busy"))[5:]
    assert set(messages.VisitorMap.__struct_fields__) < set(messages.msgspec.json.decode(text))


def test_a_page_chooses_a_boolean_by_its_word():
    """Lists of a page have text; a number is no boolean, and no boolean a number."""
    setting = LookSetting("smooth", "smooth", values=lambda: (False, True))
    assert [setting.accepts(one) for one in ("true", "false", True, 1.0, "yes")] == [
        True, True, True, False, False
    ]  # fmt: skip
    assert setting.read("true") is True and LookSetting("a", "a").accepts(True) is False
