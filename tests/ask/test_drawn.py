"""Runs of every kind as graphs: what each part of a drawing promises, whatever the kind (M30, M31, M80)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.core.engines.registry import run_kinds, runnable_kinds
from narval.core.errors import RequestError
from narval.core.kinds import KINDS
from narval.surfaces.cli.history import sentence
from tests.ask.work_home import MODULE, PURCHASE, home_with
from tests.house.countdown import WITH_DESKS
from tests.surfaces.cli.command_line import data, well

TONES = {"waiting", "active", "done", "failed", "cancelled", "idle"}
SLOW = "\n@action()\nasync def slow():\n    import asyncio\n    await asyncio.sleep(3600)\n"
FILES = {
    "c.countdown": "waits from 5 call m.slow\n",
    "s.task": (
        "TASK TYPE scan\n  INITIAL scanning\n  STATE scanning EXPOSED\n    ON EVENT done GOTO FORWARD\n"
        "  ON FORWARD\n    route(book);\n\nTASK TYPE book\n  INITIAL booking\n  STATE booking EXPOSED\n"
        "    ON EVENT done GOTO COMMIT\n"
    ),
    "d.plan": (
        "PLAN Cheap {\n  INPUT: Relation homes, Number most\n  OUTPUT: cheap\n  BODY {\n"
        '    sprintf("price < %s", (most) : condition)\n    select(condition, homes : cheap)\n  }\n}\n'
    ),
    "l.xml": (
        '<automaton group="l" name="lamp"><state name="start" command="sleep 3600"/>'
        '<state name="end" command="true"/>'
        '<transition from="start" label="0" to="end"/></automaton>'
    ),
    "p.xml": (
        "<process-definition group='p' name='pass' xmlns='http://sarasvati.googlecode.com/ProcessDefinition'>"
        "<node name='a' type='wait' isStart='true'><arc to='b'/><arc to='b' name='or'/></node>"
        "<node name='b' type='wait'/></process-definition>"
    ),
    "r.xml": (
        "<cookbook group='r'><recipe name='same' start_step='s' end_step='e'>"
        "<step id='s' type='action' target='m.buy'/><step id='e' type='action' target='m.slow'/>"
        "<transition id='s'><in idref='s'/><out idref='e'/></transition></recipe></cookbook>"
    ),
}
STARTED = ("c.waits", "l.lamp", "p.pass", "purchase.buy", "r.same")


@pytest.fixture(autouse=True)
def a_toy_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "countdown", WITH_DESKS)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = home_with(tmp_path / "home", PURCHASE)
    (place / "modules" / "m.py").write_text(MODULE + SLOW)
    for name, text in FILES.items():
        (place / "recipes" / name).write_text(text)
    return place


@pytest.fixture
def agent(home: Path) -> Iterator[Any]:
    """An agent with a run of every kind under way."""
    with narval.open(home) as opened:
        opened.add("<request what='lamp'/>")
        for name in STARTED:
            opened.start(name)
        session = (
            "<session><value name='most'>900</value><relation name='homes'><tuple>"
            "<price type='Number'>700</price></tuple></relation></session>"
        )
        opened.start("d.Cheap", f"<plan_input>{session}</plan_input>")
        opened.task_put("s.scan", ["<sheet/>"])
        task = opened.task_init("s.scan")["task"]
        opened.task_get(task, wait=5.0)
        yield opened


UNDOING = "plan-undo"
"""The kind of what undoes a run, which has no drawing of its own to show here."""


def runs_of(agent: Any) -> dict[str, int]:
    """A run of each kind there is, by kind."""
    found = {
        kind: [run["eid"] for run in agent.ask("runs", kind=kind)] for kind in run_kinds() if kind != UNDOING
    }
    assert [kind for kind, runs in found.items() if not runs] == [], "this test is to have a run of each kind"
    return {kind: runs[-1] for kind, runs in found.items()}


def test_M30_each_kind_draws_itself_and_each_part_can_say_why(agent: Any) -> None:
    for kind, run in runs_of(agent).items():
        drawn = agent.ask("drawn", run=run)
        parts, arcs = drawn["parts"], drawn["arcs"]
        ids = [part["id"] for part in parts]
        assert parts, kind
        assert len({*ids}) == len(ids), kind
        assert len({arc["id"] for arc in arcs}) == len(arcs), kind
        assert {end for arc in arcs for end in (arc["from"], arc["to"])} <= {*ids}, kind
        for part in parts:
            assert part["tone"] in TONES, kind
            assert part["text"][0], kind
            assert agent.why(run, part["id"])["reason"], (kind, part["id"])


def test_M31_of_a_run_that_is_over_nothing_is_under_way(agent: Any) -> None:
    before, kinds = {}, runs_of(agent)
    for kind, run in kinds.items():
        before[kind] = {part["tone"] for part in agent.ask("drawn", run=run)["parts"]}
    assert any("active" in tones for tones in before.values())
    for kind, run in kinds.items():
        if agent.run(run)["phase"] == "active" and kind not in ("task-server", "countdown-desk"):
            agent.cancel(run)
    agent.until_idle()
    for kind, run in kinds.items():
        drawn, phase = agent.ask("drawn", run=run), agent.run(run)["phase"]
        if phase != "active":
            assert not {part["tone"] for part in drawn["parts"]} & {"active", "waiting"}, kind
            assert not {arc["state"] for arc in drawn["arcs"]} & {"waiting", "turning"}, kind
            assert not {part["state"] for part in drawn["parts"]} & {"running", "active"}, kind
    over = [kind for kind, run in kinds.items() if agent.run(run)["phase"] != "active"]
    assert {"plan", "process", "automaton", "work", "task", "countdown-run"} <= {*over}


def test_M31_a_part_given_up_says_so_where_it_ran(agent: Any) -> None:
    (run,) = [run["eid"] for run in agent.runs(name="r.same")]
    agent.cancel(run)
    parts = {part["id"]: part["state"] for part in agent.ask("drawn", run=run)["parts"]}
    assert parts == {"s": "history", "e": "given up", "transition s": "fired"}
    assert "transition s is fired" in agent.why(run, "transition s")["reason"]
    lines = agent.history(run)
    then = next(line["seq"] for line in lines if line["what"] == "StepRan" or line.get("step") == "e")
    again = {part["id"]: part["tone"] for part in agent.ask("drawn", run=run, at=then)["parts"]}
    assert again["e"] in ("active", "waiting"), "as it was then"


def test_M80_the_layout_is_that_of_the_definition_whatever_the_state(agent: Any) -> None:
    of_cases = {kind.cases for kind in KINDS.values()}
    beside = {run for kind in KINDS.values() for run in kind.besides}
    for kind, run in runs_of(agent).items():
        name = agent.run(run)["name"]
        first = agent.ask("drawn", run=run)["layout"]
        lines = [line["seq"] for line in agent.history(run)]
        layouts = {agent.ask("drawn", run=run, at=seq)["layout"] for seq in lines}
        assert kind in of_cases or layouts <= {first}, kind
        if kind not in beside:
            assert agent.ask("drawn", definition=name)["layout"] == first, kind
    other = agent.ask("drawn", definition="purchase.buy")["layout"]
    assert other != agent.ask("drawn", definition="r.same")["layout"]


def test_M30_a_definition_that_has_no_run_is_drawn_and_a_wrong_question_says_what_is_right(
    agent: Any,
) -> None:
    drawn = agent.ask("drawn", definition="r.same")
    assert [(part["id"], part["kind"], part["target"], part["tone"]) for part in drawn["parts"]] == [
        ("s", "step", "m.buy", "idle"),
        ("e", "step", "m.slow", "idle"),
        ("transition s", "transition", "", "idle"),
    ]
    assert [arc["id"] for arc in drawn["arcs"]] == ["s>transition s", "transition s>e"]
    named = {definition.kind for definition in agent.daemon.agent.library}
    assert {*runnable_kinds()} <= named
    for wrong in ({}, {"run": 1, "definition": "r.same"}, {"definition": "r.same", "at": 3}):
        with pytest.raises(RequestError, match="expected"):
            agent.ask("drawn", **wrong)
    with pytest.raises(RequestError, match=r"did you mean r\.same"):
        agent.ask("drawn", definition="r.sam")


def test_M30_the_command_line_has_the_graph_as_a_table_as_data_and_for_graphviz(home: Path) -> None:
    run = data(home, "start", "r.same")["eid"]
    told = well(home, "show", run, "--graph").splitlines()
    assert told[0].split() == ["part", "kind", "state", "target", "leads", "to"]
    assert told[1].split()[:2] == ["s", "step"]
    drawn = data(home, "show", "r.same", "--graph")
    assert drawn == json.loads(well(home, "show", "r.same", "--graph", "--json"))
    assert drawn["layout"] == data(home, "show", run, "--graph")["layout"]
    assert '"transition s" -> "e"' in well(home, "show", "r.same", "--dot")


SAID = {
    "plan": "It began: transition s fired.",
    "automaton": "It ran sleep 3600; it is under way.",
    "process": "Token 1 comes to it.",
    "work": "It is offered: Approve lamp, to ann",
    "task": "It is entered with sheet",
    "task-server": "of the task is loaded.",
    "task-case": " goes to s.scan.",
    "dataflow": "The session is done, with relation",
    "countdown-run": "It called m.slow; it is under way.",
    "countdown-desk": "It began.",
}
"""Something that the story of a run of each kind says."""


def test_M29_a_run_of_each_kind_is_told_in_sentences(agent: Any) -> None:
    runs = runs_of(agent)
    agent.wait(runs["dataflow"])
    for kind, run in runs.items():
        groups = agent.ask("story", run=run)["groups"]
        sentences = [sentence(entry["said"]) for group in groups for entry in group["entries"]]
        assert SAID[kind] in "\n".join(sentences), kind
        assert [text for text in sentences if not text.endswith(".") or "{" in text] == [], kind
