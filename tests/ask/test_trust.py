"""Labels are told, and the owner of the home may say that an element needs none."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

import narval
from narval.ask.asker import WEB
from narval.ask.memory import trust
from narval.core.errors import RequestError
from narval.core.trust.reach import Reach
from narval.files.mcp_clients import McpClient
from narval.files.snapshot import Snapshot
from narval.surfaces.python.agent import Agent
from tests.calls.test_labels import MODULE, PROMPT, WRITES

ANSWERS = """<recipe group="a" name="answers" start_step="wait" end_step="note">
  <step id="wait" type="action" target="m.nothing"/>
  <step id="note" type="action" target="m.note"/>
  <transition id="then"><in idref="wait"/><out idref="note"/>
    <condition use="yes"><match>go</match></condition></transition></recipe>"""
NOTE = """
@action(outputs=[Output("noted", "noted")], runs="inline", pure=True)
def note():
    return "<noted/>"
"""
WHY = "I have read it"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "modules").mkdir()
    (tmp_path / "recipes").mkdir()
    (tmp_path / "modules/m.py").write_text(MODULE + NOTE)
    (tmp_path / "recipes/w.xml").write_text(f'<cookbook group="w">{WRITES}</cookbook>')
    return tmp_path


def labelled(agent: Agent) -> int:
    """The eid of an element that a model has led to."""
    agent.start("w.writes", PROMPT)
    agent.until_idle()
    (go,) = agent.memory("go")
    return go.eid


def test_labels_are_told_with_what_they_came_by(home: Path) -> None:
    with narval.open(home) as agent:
        go = labelled(agent)
        told = agent.ask("trust", eid=go)
        (run,) = told.pop("by")
        assert told == {
            "eid": go,
            "name": "go",
            "labels": [],
            "parts": {},
            "decided_by": ["model:*"],
            "hearsay": True,
            "endorsed": "",
        }
        assert (run["name"], run["labels"]) == ("w.writes", ["model:*"])
        assert agent.ask("trust", eid=run["eid"])["labels"] == ["model:*"]
        with pytest.raises(RequestError, match="there is no element or run 999"):
            agent.ask("trust", eid=999)


def test_an_endorsed_element_takes_the_place_of_one_with_labels_and_has_none(home: Path) -> None:
    with narval.open(home, by="ann") as agent:
        go = labelled(agent)
        endorsed = agent.ask("endorse", eid=go, why=f" {WHY}\n")
        assert (endorsed["labels"], endorsed["had"], endorsed["in_place_of"]) == ([], [], go)
        assert (endorsed["hearsay"], endorsed["decided_by"]) == (False, [])
        assert endorsed["origin"]["endorsed"] == WHY
        assert (endorsed["origin"]["by"], endorsed["origin"]["inputs"]) == ("ann", [go])
        assert agent.ask("element", eid=go)["outdated"]
        assert agent.ask("trust", eid=go)["decided_by"] == ["model:*"], "the old one keeps them"
    with narval.open(home) as agent:
        told = agent.ask("trust", eid=endorsed["eid"])
        assert (told["labels"], told["endorsed"]) == ([], WHY)
        assert "endorsed" not in agent.ask("element", eid=go)["origin"]


def test_what_used_an_element_does_not_use_it_again_when_it_is_endorsed(home: Path) -> None:
    (home / "recipes/a.xml").write_text(ANSWERS)
    with narval.open(home, by="ann") as agent:
        go = labelled(agent)
        agent.start("a.answers")
        agent.until_idle()
        assert len(agent.memory("go")) == 1
        first = len(agent.memory("noted"))
        assert first == 1
        eid = agent.ask("endorse", eid=go, why=WHY)["eid"]
        agent.start("a.answers")
        agent.until_idle()
        assert len(agent.memory("noted")) == first, "it was used before"
    with narval.open(home, by="ann") as agent:
        agent.start("a.answers")
        agent.until_idle()
        assert len(agent.memory("noted")) == first, "after a restart too"
        assert agent.ask("element", eid=eid)["origin"]["endorsed"] == WHY
        agent.add("<go/>")
        agent.until_idle()
        assert len(agent.memory("noted")) == first + 1, "another one is used"


def test_what_is_not_to_be_endorsed_is_refused(home: Path) -> None:
    with narval.open(home) as agent:
        go, plain = labelled(agent), agent.add("<plain/>")
        with pytest.raises(RequestError, match="has no labels"):
            agent.ask("endorse", eid=plain, why=WHY)
        with pytest.raises(RequestError, match="expected a reason"):
            agent.ask("endorse", eid=go, why=" ")
        agent.ask("endorse", eid=go, why=WHY)
        with pytest.raises(RequestError, match="was replaced before"):
            agent.ask("endorse", eid=go, why=WHY)


@pytest.mark.parametrize("asker", [{"actor": "bob"}, {"way": WEB}, {"uid": 54321}], ids=str)
def test_nobody_endorses_but_the_owner_in_their_own_name(home: Path, asker: dict[str, object]) -> None:
    with narval.open(home) as agent:
        go = labelled(agent)
        agent.asker = replace(agent.asker, **asker)
        with pytest.raises(RequestError, match="may not endorse an element: that is for the owner"):
            agent.ask("endorse", eid=go, why=WHY)


def test_what_can_come_where_is_found_while_the_loop_goes_on(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    reach_of = trust.reach_of

    def noting(snapshot: Snapshot, clients: tuple[McpClient, ...]) -> Reach:
        threads.append(threading.current_thread())
        return reach_of(snapshot, clients)

    monkeypatch.setattr(trust, "reach_of", noting)
    with narval.open(home) as agent:
        rows = agent.ask("reach")
        assert [row["calls"] for row in agent.ask("reach", name="w.writes")] == [
            row["calls"] for row in rows if row["definition"] == "w.writes"
        ]
    assert len(threads) == 2
    assert threading.main_thread() not in threads
