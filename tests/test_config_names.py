"""The light lists of names agree with the tables that implement them; nothing heavy is loaded."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from realtime_lrp.config import legal_values, names
from realtime_lrp.errors import UsageError
from realtime_lrp.models.names import NETWORKS
from realtime_lrp.relevance.maps.methods import METHODS
from realtime_lrp.relevance.rules.composites import COMPOSITES
from realtime_lrp.relevance.rules.rules import RULES, rule_named
from realtime_lrp.video.sources import SOURCES
from realtime_lrp.view.colormaps import COLORMAPS
from realtime_lrp.view.window.keyboard import NAMED

ROOT = Path(__file__).parents[1]
TABLES = [
    (names.METHODS, METHODS),
    (names.COMPOSITES, COMPOSITES),
    (names.RULES, RULES),
    (names.MODELS, NETWORKS),
    (names.COLORMAPS, COLORMAPS),
    (names.SOURCES, SOURCES),
]


@pytest.mark.parametrize(("listed", "table"), TABLES, ids=[one.kind for one, _ in TABLES])
def test_each_list_agrees_with_its_table(listed, table):
    """The same names in the same order, and the module where the table is looked for is right."""
    assert list(listed.included) == list(table) == listed.known()
    module, attribute = listed.table
    assert getattr(sys.modules[module], attribute) is table
    assert set(listed.aliases.values()) <= {*table, "alpha_beta(1, 0)"}


def test_the_listed_keys_are_those_that_the_window_reports():
    """Those that write a character of Latin-1, and those with a name."""
    letters = {chr(code).lower() for code in (*range(0x21, 0x7F), *range(0xA0, 0x100))}
    reported = {*NAMED.values(), "space", *letters}
    assert set(names.KEYS.known()) == reported
    assert len(names.KEYS.known()) == len(reported)


def test_each_rule_takes_the_listed_numbers():
    """The parameters of its class, in their order, with the same defaults."""
    for name, parameters in names.RULE_PARAMETERS.items():
        rule = RULES[name]()
        assert tuple(vars(rule)) == parameters
        for parameter, default in names._DEFAULTS.get(name, {}).items():
            assert getattr(rule, parameter) == default


RULE_TEXTS = [
    "zplus", " flat ", "epsilon(0.01)", "alpha_beta(1, 0)", "alpha_beta(3)", "epsilon(-1)",
    "epsilon(1, 2)", "epsilon(x)", "epsilon(nan)", "zplus(1)", "flt", "w_square", "",
]  # fmt: skip


def outcome(check, text):
    """The message of a refusal, or None."""
    try:
        check(text)
    except UsageError as error:
        return str(error).replace("AlphaBeta", "alpha_beta").replace("Epsilon", "epsilon")
    return None


@pytest.mark.parametrize("text", RULE_TEXTS)
def test_rules_are_judged_alike_with_and_without_their_classes(text, monkeypatch):
    """The same ones are refused, in the same words."""
    expected = outcome(rule_named, text)
    monkeypatch.delitem(sys.modules, names.RULES.table[0])
    assert outcome(names.check_rule, text) == expected


def test_rows_that_a_program_adds_are_known(monkeypatch):
    """They may be configured and completed, and a slip is answered with them."""
    monkeypatch.setitem(COMPOSITES, "mine", COMPOSITES["zplus"])
    monkeypatch.setitem(RULES, "magnitude", RULES["zplus"])
    names.COMPOSITES.check("mine")
    names.PANELS.check("mine")
    names.check_rule("magnitude")
    assert "mine" in legal_values("lrp.composite")
    with pytest.raises(UsageError, match="Did you mean 'mine'"):
        names.COMPOSITES.check("mime")


SETS = ("--set", "lrp.layers={Dense: 'alpha_beta(1, 0)'}", "--set", "kiosk.languages=[en, zh]")


COMMANDS = [
    ("--help",),
    ("live", "--help"),
    ("config", "--config", str(ROOT / "config.yaml"), *SETS),
    ("config", "--schema"),
    ("config", "--composite", "z_plus", "--set", "kiosk.exit_key=esc"),
    ("models",),
]
COMPLETED = ["realtime-lrp live --method grad_", "realtime-lrp live --set lrp.composite=eps"]
EACH = """
import contextlib, io, json, os, sys
from realtime_lrp.cli import main

def said():
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        with contextlib.suppress(SystemExit):
            main()
    heavy = {"tensorflow", "keras", "cv2", "av"} & {*sys.modules}
    return sorted(heavy), out.getvalue() or err.getvalue()

commands, completed = json.loads(sys.argv[1])
answers = []
for words in commands:
    sys.argv = ["realtime-lrp", *words]
    answers.append(said())
for line in completed:
    words = line.split()
    os.environ |= {"_REALTIME_LRP_COMPLETE": "bash_complete", "COMP_WORDS": line}
    os.environ["COMP_CWORD"], sys.argv = str(len(words) - 1), ["realtime-lrp"]
    answers.append(said())
print(json.dumps(answers), file=sys.__stdout__)
"""


def test_checking_and_completing_load_nothing_heavy():
    """One after the other in a process of its own, right or wrong words alike."""
    given = json.dumps([COMMANDS, COMPLETED])
    done = subprocess.run(
        [sys.executable, "-c", EACH, given], capture_output=True, text=True, timeout=240, check=True
    )
    answers = json.loads(done.stdout)
    for command, (heavy, said) in zip([*COMMANDS, *COMPLETED], answers, strict=True):
        assert heavy == [], command
        assert "Did you mean" in said if "z_plus" in command else said, command
