"""Definitions: how they do, all that is known of one, and its versions (M40, M41, M43)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.agent.run import Run
from narval.agent.run_table import RunTable
from narval.ask.definitions.listing import LAST, RUNS_LOOKED_AT
from narval.core.errors import RequestError
from narval.surfaces.python.agent import Agent
from narval.system.clock import SimulatedClock
from tests.daemon.at_work import Scene

MODULE = """
from narval import Input, Output, action

@action(inputs=[Input("mail", "mail", use=True)], outputs=[Output("card", "card")], runs="inline")
def write(mail):
    return "<card/>"

@action(runs="inline")
def nothing():
    return None
"""
RECIPES = """<cookbook>
<recipe group="w" name="card" start_step="s" end_step="s" decay="3600">
  <step id="s" type="action" target="w.write"/></recipe>
<recipe group="w" name="daily" start_step="s" end_step="e" restart="yes">
  <step id="s" type="action" target="w.nothing"/><step id="e" type="recipe" target="w.card"/>
  <transition id="at"><in idref="s"/><out idref="e"/>
    <time hours="7" minutes="0" seconds="0"/></transition>
</recipe></cookbook>"""
PATH = "recipes/w.xml"


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path / "home")
    scene.write("modules/w.py", MODULE)
    scene.write(PATH, RECIPES)
    return scene


@pytest.fixture
def agent(scene: Scene) -> Iterator[Agent]:
    with narval.open(scene.home.path, clock=SimulatedClock(0)) as agent:
        yield agent


def done(agent: Agent, *given: str) -> int:
    run = agent.start("w.card", *given)
    agent.until_idle()
    return run


def row(agent: Agent, name: str) -> dict[str, Any]:
    rows = agent.ask("definitions")["definitions"]
    (found,) = (row for row in rows if row["name"] == name)
    return dict(found)


def test_M40_a_listing_says_how_runs_do(agent: Agent) -> None:
    done(agent, "<mail/>")
    done(agent)  # nothing is left for it
    agent.start("w.daily")
    agent.until_idle()
    assert (row(agent, "w.card")["active"], row(agent, "w.card")["ended"]) == (0, {"failed": 1, "done": 1})
    assert (row(agent, "w.daily")["active"], row(agent, "w.daily")["ended"]) == (1, {})
    assert (row(agent, "w.write")["active"], row(agent, "w.write")["ended"]) == (0, {})


def test_M40_of_many_runs_the_last_are_counted_and_so_many_looked_at(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.ask("start", name="w.card", elements=[b"<mail/>"] * 3, each=True)
    agent.until_idle()
    for _ in range(LAST):
        done(agent)
    looked_at: list[int] = []
    get = RunTable.get

    def counted(self: RunTable, eid: int) -> Run | None:
        looked_at.append(eid)
        return get(self, eid)

    monkeypatch.setattr(RunTable, "get", counted)
    assert row(agent, "w.card")["ended"] == {"failed": LAST}
    assert len(looked_at) == LAST + 3 < RUNS_LOOKED_AT


def test_M40_the_last_good_version_of_a_faulty_file_is_marked(scene: Scene, agent: Agent) -> None:
    assert row(agent, "w.card")["faulty"] is False
    scene.write(PATH, RECIPES.replace('target="w.write"', 'target="w.wrote"'))
    agent.ask("reload")
    listed = agent.ask("definitions")
    assert [fault["path"] for fault in listed["faults"]] == [PATH]
    assert row(agent, "w.card")["faulty"] is True
    one = agent.ask("definition", name="w.card")
    assert 'target="w.write"' in one["source"]
    assert 'target="w.wrote"' in one["file"]["text"]
    assert [(fault["line"], fault["message"][:9]) for fault in one["file"]["faults"]] == [(3, "step 's':")]


def test_M41_one_definition(agent: Agent) -> None:
    run = done(agent, "<mail/>")
    one = agent.ask("definition", name="w.card")
    assert one.items() >= row(agent, "w.card").items()
    assert one["source"].startswith('<recipe group="w" name="card"')
    assert one["file"] == {"text": RECIPES, "faults": []}
    assert one["settings"] == {"decay": 3600.0, "restart": "no"}
    assert [(call["kind"], call["name"], call["what"], call["line"]) for call in one["calls"]] == [
        ("action", "w.write", "step 's'", 3)
    ]
    assert [(caller["kind"], caller["name"], caller["line"]) for caller in one["called_by"]] == [
        ("recipe", "w.daily", 5)
    ]
    assert [row["eid"] for row in one["lately"]] == [run]
    assert (one["prototype"], one["dates"]) == (None, [])


def test_M41_an_action_has_a_prototype_and_its_module(agent: Agent) -> None:
    one = agent.ask("definition", name="w.write")
    assert [slot["id"] for slot in one["prototype"]["inputs"]] == ["mail"]
    assert [slot["id"] for slot in one["prototype"]["outputs"]] == ["card"]
    assert one["file"]["text"] == MODULE
    assert [caller["name"] for caller in one["called_by"]] == ["w.card"]


def test_M41_dates_to_come(agent: Agent) -> None:
    run = agent.start("w.daily")
    agent.until_idle()
    (date,) = agent.ask("definition", name="w.daily")["dates"]
    assert (date["run"], date["part"]) == (run, "at")
    (waits,) = agent.ask("why", run=run)["waiting"]
    assert datetime.fromisoformat(date["at"]) == datetime.fromisoformat(waits["until"])


def test_M41_what_is_not_there_is_told(agent: Agent) -> None:
    with pytest.raises(RequestError, match=r"there is no definition w\.cart; did you mean w\.card"):
        agent.ask("definition", name="w.cart")
    with pytest.raises(RequestError, match=r"there is no task w\.card; `narval definitions` lists"):
        agent.ask("definition", name="w.card", kind="task")


def altered(scene: Scene, agent: Agent) -> None:
    scene.write(PATH, RECIPES.replace('decay="3600"', 'decay="60"'))
    agent.ask("reload")


def test_M43_versions_and_how_many_runs_follow_each(scene: Scene, agent: Agent) -> None:
    done(agent, "<mail/>")
    altered(scene, agent)
    done(agent, "<mail/>")
    done(agent, "<mail/>")
    new, old = agent.ask("versions", name="w.card")
    assert (new["current"], new["runs"], new["active"]) == (True, 2, 0)
    assert (old["current"], old["runs"], old["path"]) == (False, 1, PATH)
    assert ('decay="60"' in new["source"], 'decay="3600"' in old["source"]) == (True, True)
    assert new["digest"] == row(agent, "w.card")["digest"] != old["digest"]


def test_M43_the_difference_of_two(scene: Scene, agent: Agent) -> None:
    done(agent, "<mail/>")
    altered(scene, agent)
    new, old = agent.ask("versions", name="w.card")
    found = agent.ask("difference", name="w.card", old=old["digest"][:6])
    assert (found["old"], found["new"]) == (old["digest"], new["digest"])
    changed = [line for line in found["diff"].splitlines() if line[:1] in "+-"]
    assert [line.split("decay=")[1] for line in changed[2:]] == ['"3600">', '"60">']
    assert changed[0] == f"--- {PATH} {old['digest'][:12]}"
    back = agent.ask("difference", name="w.card", old=new["digest"], new=old["digest"])
    assert (back["old"], back["new"]) == (new["digest"], old["digest"])
    with pytest.raises(
        RequestError, match=r"expected the digest of a version of w\.card, .*got 'x'; there are"
    ):
        agent.ask("difference", name="w.card", old="x")


def test_M43_of_an_action_the_versions_of_its_module(scene: Scene, agent: Agent) -> None:
    scene.write("modules/w.py", MODULE.replace("<card/>", "<card kind='new'/>"))
    agent.ask("reload")
    current = next(version for version in agent.ask("versions", name="w.write") if version["current"])
    assert (current["kind"], current["path"]) == ("module", "modules/w.py")
    assert "<card kind='new'/>" in current["source"]


TAKES = """<cookbook>
<recipe group="t" name="inner" start_step="s" end_step="s">
  <step id="s" type="action" target="w.write"/></recipe>
<recipe group="t" name="outer" start_step="make" end_step="file">
  <step id="make" type="action" target="w.write"><arguments><mail/></arguments></step>
  <step id="file" type="action" target="w.file"/>
  <step id="in" type="recipe" target="t.inner"/>
  <transition id="a"><in idref="make"/><out idref="file"/></transition>
  <transition id="b"><in idref="make"/><out idref="in"/></transition>
</recipe></cookbook>"""
FILE = (
    MODULE
    + """
BOXES = Input("boxes", ["box", "box[@open]"], list=True, optional=True)

@action(inputs=[Input("card", "card"), BOXES], runs="inline")
def file(card, boxes):
    return None
"""
)
PRINT = """<automaton group="t" name="print">
<state name="start" command="lp"><input><match>page</match></input></state></automaton>"""
SIGN = """<work group="t" name="sign"><title>Sign?</title>
<input id="contract"><match>contract[@who]</match></input><outcome name="yes"/></work>"""


def test_M39_a_definition_says_what_it_takes_that_nothing_within_it_gives(scene: Scene) -> None:
    scene.write("modules/w.py", FILE)
    scene.write("recipes/t.xml", TAKES)
    with narval.open(scene.home.path) as agent:
        (mail,) = agent.ask("definition", name="t.inner")["takes"]
        boxes, inner = agent.ask("definition", name="t.outer")["takes"]
    parts = [{"part": "s", "input": "mail"}]
    assert mail == {"match": ["mail"], "list": False, "optional": False, "parts": parts}
    parts = [{"part": "file", "input": "boxes"}]
    assert boxes == {"match": ["box", "box[@open]"], "list": True, "optional": True, "parts": parts}
    assert inner["parts"] == [{"part": "in/s", "input": "mail"}], "cards are given by the step before"


VOTE = """<recipe group="t" name="vote" start_step="wait" end_step="ask">
<step id="wait" type="action" target="w.nothing"/>
<transition id="t"><in idref="wait"/><out idref="ask"/>
  <condition as="w" use="yes"><match>want[@what]</match></condition></transition>
<step id="ask" type="work"><work><title>Buy it?</title>
  <input id="w"><match>want[@eid=$w/@eid]</match></input><outcome name="yes"/></work></step></recipe>"""


def test_M39_what_depends_on_the_run_is_told_by_what_leads_to_it(scene: Scene) -> None:
    scene.write("recipes/vote.xml", VOTE)
    with narval.open(scene.home.path) as agent:
        (want,) = agent.ask("definition", name="t.vote")["takes"]
    assert want["match"] == ["want[@what]"], "which can be tried before there is a run"
    assert want["parts"] == [{"part": "ask", "input": "w"}]


def test_M39_each_kind_says_what_it_takes(scene: Scene) -> None:
    scene.write("recipes/print.xml", PRINT)
    scene.write("recipes/sign.xml", SIGN)
    with narval.open(scene.home.path) as agent:
        takes = {name: agent.ask("definition", name=name) for name in ("t.print", "t.sign", "w.write")}
    assert [row["match"] for row in takes["t.print"]["takes"]] == [["page"]]
    assert [row["match"] for row in takes["t.sign"]["takes"]] == [["contract[@who]"]]
    assert takes["w.write"]["takes"] == [], "an action is not started"
    assert not any(each["has_environment"] for each in takes.values())
