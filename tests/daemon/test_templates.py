"""Agents from a template: how many, from a file of rows, and all that can be wrong before any is made."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import narval as library
from narval.core.errors import ElementError, NarvalError, RequestError
from narval.files.agents.folders import read_template, template_names
from narval.surfaces.python.agent import Agent
from tests.surfaces.cli.command_line import data, narval, well

PLAIN = """\
name = "desk-{number}"
memory = ["<desk number='{number}' city='{city}'/>"]
[defaults]
city = "Rome"
"""
WITH_FOLDERS = """\
name = "{who}"
[agent]
weight = 20
timezone = "{zone}"
receives = [{from = "{boss}", elements = ["order"]}]
[defaults]
boss = "narval"
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "agents").mkdir()
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/narval.toml").touch()
    (tmp_path / "agents/desk.toml").write_text(PLAIN)
    (tmp_path / "agents/clerk.toml").write_text(WITH_FOLDERS)
    return tmp_path


@pytest.fixture
def agent(home: Path) -> Iterator[Agent]:
    with library.open(home) as agent:
        yield agent


def names(made: list[dict[str, Any]]) -> list[str]:
    return [one["name"] for one in made]


def test_agents_are_numbered_on_from_those_there_are(agent: Agent) -> None:
    assert names(agent.ask("add_agents", template="desk", count=2)) == ["desk-1", "desk-2"]
    agent.ask("add_agent", name="desk-3")
    rows = [{"city": "Bonn <&'\"{number}"}, {}]
    assert names(agent.ask("add_agents", template="desk", rows=rows)) == ["desk-4", "desk-5"]
    [first] = agent.other("desk-4").memory("desk")
    [second] = agent.other("desk-5").memory("desk")
    assert first.attributes["city"] == "Bonn <&'\"{number}", "what is filled in is text, and is not filled"
    assert (second.attributes["city"], second.attributes["number"]) == ("Rome", "5")


def test_whatever_a_value_holds_is_a_text_of_the_settings(home: Path) -> None:
    (home / "agents/._clerk.toml").write_bytes(b"\x00")
    boss = '\U0001f600\x7f\u2028"\\\n'
    settings = read_template(home, "clerk").filled(1, {"who": "ann", "zone": "UTC", "boss": boss}).settings
    assert tomllib.loads(settings)["receives"] == [{"from": boss, "elements": ["order"]}]
    assert template_names(home) == ["clerk", "desk"]


def test_settings_are_those_of_an_agent_toml(agent: Agent, home: Path) -> None:
    rows = [{"who": "ann", "zone": "Europe/Rome"}, {"who": "bob", "zone": "UTC", "boss": "ann"}]
    agent.ask("add_agents", template="clerk", rows=rows)
    shown = agent.ask("show_agent", name="bob")
    assert (shown["folder"], shown["settings"]["timezone"]) == ("agents/bob", "UTC")
    assert shown["settings"]["receives"] == [{"from": "ann", "elements": ("order",)}]
    assert not shown["faults"]
    assert agent.ask("show_agent", name="ann")["settings"]["weight"] == 20


@pytest.mark.parametrize(
    ("template", "rows", "message"),
    [
        ("dsk", [{}], "there is no template 'dsk' of agents; there are clerk, desk"),
        ("../etc", [{}], "there is no template"),
        ("desk", [{"town": "x"}], "has no parameter 'town', but city"),
        ("clerk", [{"who": "ann"}], "agents/clerk.toml needs a value of zone, or one in [defaults]"),
        ("clerk", [{"who": "Ann!", "zone": "UTC"}], "name: expected the name of an agent"),
        ("clerk", [{"who": "narval", "zone": "UTC"}], "there is an agent narval already"),
        ("clerk", [{"who": "ann", "zone": "UTC"}] * 2, "there is an agent ann already, or two rows name it"),
        ("clerk", [{"who": "ann", "zone": "Nowhere"}], "agents/clerk.toml: agent: timezone: expected"),
        ("clerk", [{"who": "ann", "zone": "UTC', x = '"}], "agents/clerk.toml: agent: timezone: expected"),
        ("desk", [{"city": "Bonn"}, {"city": "\x00"}], "not well-formed"),
        ("desk", [], "expected count or rows, of 1 to 1,000 agents"),
    ],
)
def test_what_is_wrong_is_said_before_any_agent_is_made(
    agent: Agent, home: Path, template: str, rows: list[dict[str, str]], message: str
) -> None:
    with pytest.raises(NarvalError) as caught:
        agent.ask("add_agents", template=template, rows=rows)
    assert message in str(caught.value) or isinstance(caught.value, ElementError)
    assert isinstance(caught.value, RequestError | ElementError)
    assert len(agent.ask("agents")) == 1
    assert sorted(path.name for path in (home / "agents").iterdir()) == ["clerk.toml", "desk.toml"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("memory = []\n", 'expected name = "…"'),
        ('name = "desk"\n', "agents/desk.toml:1:8: name: expected a parameter in it, such as {number}"),
        (
            'name = "{n}"\nmemry = []\n',
            "desk.toml:2:1: unknown setting 'memry'; did you mean 'memory'?",
        ),
        ('name = "{n}"\nmemory = "<a/>"\n', "agents/desk.toml:2:10: memory: expected a list of elements"),
    ],
)
def test_check_tells_the_faults_of_templates(home: Path, text: str, message: str) -> None:
    (home / "agents/desk.toml").write_text(text)
    result = narval(home, "check")
    assert result.exit_code == 1
    assert message in result.stdout


def test_the_command_makes_agents_by_number_and_by_rows(home: Path, tmp_path: Path) -> None:
    assert well(home, "agents", "add", "--from", "desk", "--count", 3) == "made 3 agents: desk-1 to desk-3\n"
    rows = 'who,zone\nann,UTC\n"bob",Europe/Rome\n'
    made = data(home, "agents", "add", "--from", "clerk", "--csv", "-", given=rows)
    assert made == [{"name": "ann", "number": 1}, {"name": "bob", "number": 2}]
    assert len(data(home, "agents")) == 6
    for given, message in (
        ("who,zone\nann\n", "line 2: expected 2 cells, found 1"),
        ("who,who\n", "line 1: expected the names of parameters, each once"),
        ("who,zone\n", "expected a row for each agent"),
        ('who,zone\n"ann\n', "expected CSV in UTF-8"),
    ):
        result = narval(home, "agents", "add", "--from", "clerk", "--csv", "-", given=given)
        assert (result.exit_code, message in result.stderr) == (1, True), result.stderr
    assert narval(home, "agents", "add", "x", "--from", "desk", "--count", 1).exit_code == 2
    assert narval(home, "agents", "add").exit_code == 2
