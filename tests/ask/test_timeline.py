"""A run looked at closely: its calls over time, one part of it, the newest page of its history."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.ask.runs import calls
from narval.core.errors import RequestError
from tests.surfaces.cli.command_line import data, well

MODULE = """
from narval import action, Input

@action(runs="inline")
def fails(): raise ValueError("no ground below")

@action(runs="inline", inputs=[Input("order", "order")])
def reads(order): pass
"""
RECIPES = """<cookbook group="r">
<recipe name="outer" start_step="bad" end_step="last">
<step id="bad" type="action" target="m.fails" retries="1" backoff="1"/>
<step id="inner" type="recipe" target="r.inner"/>
<step id="last" type="action" target="m.reads"/>
<transition id="on"><in idref="bad" on-error="yes"/><out idref="inner"/></transition>
<transition id="then"><in idref="inner"/><out idref="last"/></transition></recipe>
<recipe name="inner" start_step="first" end_step="last">
<step id="first" type="action" target="basic.nothing"/><step id="last" type="action" target="basic.nothing"/>
<transition id="order"><in idref="first"/><out idref="last"/>
<condition><match>order</match></condition></transition></recipe></cookbook>"""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Any]:
    (tmp_path / "m.py").write_text(MODULE)
    with narval.open(clock=narval.SimulatedClock("2026-03-01T07:00:00Z")) as opened:
        opened.load(tmp_path / "m.py")
        opened.load(RECIPES)
        yield opened


def told(agent: Any, run: int) -> list[tuple[Any, ...]]:
    rows = agent.ask("timeline", run=run)["rows"]
    return [(row["part"], row["for"], row["try"], row["outcome"]) for row in rows]


def test_M36_each_try_and_each_wait_is_a_row(agent: Any) -> None:
    run = agent.start("r.outer")
    agent.until_idle()
    assert told(agent, run) == [("bad", "call", 1, "failed"), ("bad", "back-off", None, "under way")]
    agent.elapse(seconds=5)
    failed, rest, again, called = agent.ask("timeline", run=run)["rows"]
    assert failed["error"] == {"type": "ValueError", "message": "no ground below"}
    assert (rest["outcome"], rest["asked"], rest["ended"]) == ("came", failed["ended"], again["asked"])
    assert (again["try"], again["call"]) == (2, failed["call"])
    assert (called["target"], called["ended"], agent.run(called["child"])["parent"]["step"]) == (
        "r.inner",
        None,
        "inner",
    )
    assert told(agent, called["child"]) == [
        ("first", "call", 1, "done"),
        ("order", "element", None, "under way"),
    ]
    order = agent.add("<order/>")
    agent.until_idle()
    waited = agent.ask("timeline", run=called["child"])["rows"][1]
    assert (waited["outcome"], waited["gave"]) == ("came", [order])
    assert [row["outcome"] for row in agent.ask("timeline", run=run)["rows"][3:]] == ["done", "done"]


def test_M36_a_try_of_a_node_is_the_same_call(agent: Any) -> None:
    custom = "<custom><target>m.fails</target><retries>1</retries><backoff>1</backoff></custom>"
    node = f'<node name="bad" type="action" isStart="true">{custom}</node>'
    agent.load(f'<process-definition group="p" name="pay">{node}</process-definition>')
    run = agent.start("p.pay")
    agent.elapse(seconds=5)
    rows = [row for row in agent.ask("timeline", run=run)["rows"] if row["for"] == "call"]
    assert [row["try"] for row in rows] == [1, 2]
    assert rows[0]["call"] == rows[1]["call"]


def test_M36_what_a_run_left_open_was_given_up_and_old_rows_are_counted(agent: Any) -> None:
    run = agent.start("r.outer")
    agent.elapse(seconds=5)
    agent.cancel(run)
    last = agent.ask("timeline", run=run, limit=1)
    assert (last["left_out"], last["rows"][0]["outcome"]) == (3, "given up")
    assert last["rows"][0]["ended"] == last["ended"]


def test_the_time_at_work_is_that_of_calls_and_not_of_waits(agent: Any) -> None:
    rows = [("call", 1.0, 5.0), ("call", 3.0, 4.0), ("person", 6.0, 90.0), ("call", 7.0, None)]
    keys = {"asked": 0.0, "child": None}
    own = [{**keys, "for": what, "begun": begun, "ended": ended} for what, begun, ended in rows]
    called = {**own[-1], "child": 12}
    assert calls.seconds_at_work([*own, called], 9.0) == 6.0
    run = agent.start("r.outer")
    agent.elapse(seconds=5)
    agent.cancel(run)
    answer = agent.ask("timeline", run=run)
    assert answer["at_work"] == 0.0  # it waited: for its next try, and for another run


def test_M32_a_part_tells_its_tries_what_they_were_given_and_the_run_that_answered(agent: Any) -> None:
    run = agent.start("r.outer")
    agent.elapse(seconds=5)
    child = agent.ask("part", run=run, id="inner")["calls"][0]["child"]
    waits = agent.ask("part", run=child, id="order")
    assert waits["part"]["tone"] == "waiting"
    assert waits["waiting"][0]["conditions"][0]["failed"] == "an element named order"
    order = agent.add("<order/>")
    agent.until_idle()
    (last,) = agent.ask("part", run=run, id="last")["calls"]
    assert last["inputs"][0]["input"] == "order"
    assert last["inputs"][0]["elements"][0].items() >= {"eid": order, "name": "order"}.items()
    bad = agent.ask("part", run=run, id="bad")
    assert [row["outcome"] for row in bad["calls"]] == ["failed", "came", "failed"]
    assert bad["calls"][0]["gave"] == []  # the error is of the last try
    assert bad["calls"][-1]["gave"][0]["name"] == "error"
    assert bad["retryable"]
    assert bad["reason"] == agent.why(run, "bad")["reason"]


def test_M32_an_arc_is_known_by_its_ends_and_what_is_not_there_is_named(agent: Any) -> None:
    run = agent.start("r.outer")
    agent.elapse(seconds=5)
    arc = agent.ask("part", run=run, id="bad>on")
    assert (arc["arc"]["state"], [end["id"] for end in arc["ends"]]) == ("taken", ["bad", "on"])
    with pytest.raises(RequestError, match="it has bad, inner, last"):
        agent.ask("part", run=run, id="bad>off")


def test_M86_a_page_of_history_is_the_newest_first(agent: Any) -> None:
    run = agent.start("r.outer")
    agent.elapse(seconds=5)
    every = agent.history(run)
    newest = agent.ask("history", run=run, limit=4)
    assert newest == every[::-1][:4]
    assert agent.ask("history", run=run, limit=3, before=newest[-1]["seq"]) == every[::-1][4:7]
    assert agent.ask("history", run=run, before=every[2]["seq"]) == every[1::-1]
    for wrong in ({"limit": 0}, {"limit": 3, "after": 2}):
        with pytest.raises(RequestError, match="expected limit to be 1 or more"):
            agent.ask("history", run=run, **wrong)


def make_home(place: Path) -> None:
    for folder in ("recipes", "modules"):
        (place / folder).mkdir(parents=True)
    (place / "modules" / "m.py").write_text(MODULE)
    (place / "recipes" / "r.xml").write_text(RECIPES)


def test_M86_the_newest_page_of_a_history_on_disk_is_that_of_the_whole(tmp_path: Path) -> None:
    home = tmp_path / "home"
    make_home(home)
    with narval.open(home) as agent:
        run = agent.start("r.inner")
        agent.until_idle()
        for number in range(700):
            agent.ask("signal", run=run, name=f"s{number}")
        page = agent.ask("history", run=run, limit=50)
        assert [line["what"] for line in page].count("Signalled") >= 1
        assert len(page) == 50
        assert page == agent.history(run)[::-1][:50]


def test_M32_M36_M86_the_command_line_has_them(tmp_path: Path) -> None:
    home = tmp_path / "home"
    make_home(home)
    run = data(home, "start", "r.inner")["eid"]
    well(home, "run", "--until-idle")
    assert "order  element" in well(home, "timeline", run)
    assert data(home, "timeline", run)["rows"][0]["part"] == "first"
    assert "not met  order" in well(home, "part", run, "order")
    assert data(home, "part", run, "first>order")["arc"]["to"] == "order"
    assert "arc first>order" in well(home, "part", run, "first>order")
    assert "action basic.nothing: done" in well(home, "part", run, "first")
    newest = data(home, "history", run, "--limit", "2")
    assert newest == data(home, "history", run)[:-3:-1]
    assert data(home, "history", run, "--before", newest[-1]["seq"])[0]["seq"] == newest[-1]["seq"] - 1


def test_the_time_of_a_state_that_waits_goes_on() -> None:
    waits = """<automaton group="a" name="waits">
      <state name="start" command="true"><wait signal="go"/></state></automaton>"""
    with narval.open(clock=narval.SimulatedClock("2026-03-01T07:00:00Z")) as agent:
        agent.load(waits)
        run = agent.start("a.waits")
        agent.elapse(seconds=20)
        (state,) = agent.run(run)["states"]
        assert (state["state"], state["seconds"]) == ("held: signal", {"held": 20, "running": 0})


def test_the_time_of_a_state_is_that_of_then_though_its_run_has_ended() -> None:
    waits = """<automaton group="a" name="waits">
      <state name="start" command="true"/>
      <state name="one" command="true"><wait signal="go"/></state>
      <state name="other" command="true"><wait signal="come"/></state>
      <transition from="start" label="0" to="one"/><transition from="start" label="0" to="other"/>
      </automaton>"""
    with narval.open(clock=narval.SimulatedClock("2026-03-01T07:00:00Z")) as agent:
        agent.load(waits)
        run = agent.start("a.waits")
        agent.elapse(seconds=20)
        agent.signal(run, "go")
        agent.until_idle()
        last = agent.ask("history", run=run)[-1]["seq"]
        agent.cancel(run)
        states = {state["id"]: state for state in agent.ask("show", run=run, at=last)["states"]}
        assert states["other"]["seconds"]["held"] == 20
