"""`narval trust`: the rules as a table, while their file is broken too; the names of what has a number."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import narval as library
from tests.surfaces.cli.command_line import make_home, narval, well

RULES = """[secret]
health = "note"

[[rule]]
from = "mail"
part = "where"
action = "mail.*"
then = "ask"
why = "a stranger may have said where it goes"

[[rule]]
secret = "health"
then = "refuse"
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = make_home(tmp_path / "home")
    (place / "etc/trust.toml").write_text(RULES)
    return place


def test_F10_rules_are_a_table_with_the_place_of_each(home: Path) -> None:
    secret, title, first, second, counted = well(home, "trust").splitlines()
    assert secret == "secret health: note"
    assert title.split() == ["rule", "decides", "label", "part", "why", "only", "for"]
    assert first.split()[:4] == ["etc/trust.toml:4", "ask", "mail", "where"]
    assert first.split("  ")[-1] == "action mail.*"
    assert second.split() == ["etc/trust.toml:11", "refuse", "secret:health", "any"]
    assert counted == "calls are counted only while a daemon runs"
    only, _ = well(home, "trust", "talk.say").splitlines()[2:]
    assert only.split()[0] == "etc/trust.toml:11"
    assert json.loads(well(home, "trust", "--json"))["faults"] == []


def test_F10_while_the_file_is_broken_its_faults_are_told(home: Path) -> None:
    broken = RULES.replace('"ask"', '"aks"')
    fault = "etc/trust.toml:8:8: rule.then: expected allow, ask or refuse, found 'aks'"
    with library.open(home) as agent:  # the last good one counts for a daemon
        (home / "etc/trust.toml").write_text(broken)
        agent.ask("reload")
        answer = agent.ask("rules")
        assert [rule["then"] for rule in answer["rules"]] == ["ask", "refuse"]
        assert [(row["line"], row["column"]) for row in answer["faults"]] == [(8, 8)]
    for options in ((), ("--json",)):
        result = narval(home, "trust", *options)
        assert (result.exit_code, result.stdout) == (1, "")
        first, *faults = result.stderr.splitlines()
        assert "no daemon starts on it; correct it, and check: narval check" in first
        assert faults == [fault]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (("tell", "recipes/nope.xml"), "there is no file or folder recipes/nope.xml, seen from "),
        (("tell", "nope.xml"), "`narval definitions` lists those that are loaded, each with its file"),
        (
            ("why", "demo.slow"),
            "expected the number of a run or an element, got 'demo.slow'; `narval runs --name NAME` and "
            "`narval memory NAME` list those of a name",
        ),
        (("cancel", "x"), "expected the number of a run, got 'x'; `narval runs --name NAME` lists those"),
        (("element", "x"), "expected the number of an element, got 'x'; `narval memory NAME` lists those"),
        (
            ("grants", "talk.say"),
            "talk.say is an action: what it needs is granted to the definitions that call it; `narval",
        ),
        (("grants", "mail.send"), "mail.send is an action: what it needs is granted to the definitions"),
        (("grant", "recipes/demo.xml"), "a folder is granted by `narval grant --folder DIR`"),
        (("grants", "demo.slwo"), "did you mean demo.slow?"),
    ],
)
def test_what_is_not_there_is_told_with_the_next_step(
    home: Path, line: tuple[str, ...], message: str
) -> None:
    result = narval(home, *line)
    assert result.exit_code > 0
    assert message in result.stderr


def test_a_bare_home_takes_the_rules_that_ship_without_a_warning(tmp_path: Path) -> None:
    home = tmp_path / "home"
    well(home, "init", home, "--bare")
    told = well(home, "trust")
    commands = [line.split()[1:] for line in told.partition("that ship: ")[2].split("&&")]
    assert commands == [["take", "etc/trust.toml"], ["take", "recipes/trust.xml"]]
    for line in commands:
        well(home, *line)
    assert narval(home, "check").output == "no faults\n"
    assert "etc/trust.toml:18  allow" in well(home, "trust")
