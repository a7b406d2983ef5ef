"""Runs that relied on what is withdrawn are told, fail, or are undone; a run is undone by hand (F14)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.core.errors import RequestError
from narval.surfaces.python.agent import Agent
from tests.daemon.at_work import Scene
from tests.surfaces.cli.command_line import well

MODULE = """
import asyncio
from narval import Input, Output, action

DONE = []

@action(inputs=[Input("order", "order")], outputs=[Output("receipt", "receipt")], undo="s.refund",
        runs="inline")
def pay(order):
    return "<receipt/>"

@action(inputs=[Input("receipt", "receipt"), Input("order", "order")], outputs=[Output("refund", "refund")],
        runs="inline")
def refund(receipt, order):
    return "<refund n='%s'/>" % order.attributes["n"]

@action(inputs=[Input("order", "order")], outputs=[Output("parcel", "parcel")], runs="inline")
def ship(order):
    return "<parcel/>"

@action(inputs=[Input("parcel", "parcel")], outputs=[Output("back", "back")], runs="inline")
def fetch(parcel):
    return "<back/>"

@action(inputs=[Input("parcel", "parcel")], runs="inline")
def breaks(parcel):
    raise ValueError("it is gone")

@action(inputs=[Input("order", "order")], runs="inline")
def call_up(order):
    pass

@action(inputs=[Input("order", "order")], runs="inline", outside=False)
def book(order):
    pass

@action(runs="inline", pure=True)
def nothing():
    pass

@action(inputs=[Input("order", "order")])
async def waits(order):
    await asyncio.sleep(3600)
"""


def recipe(name: str, first: str = "", ship: str = 'undo="s.fetch"', last: str = "s.nothing") -> str:
    return f"""<recipe group="s" name="{name}" start_step="pay" end_step="last" {first}>
  <step id="pay" type="action" target="s.pay"/>
  <step id="ship" type="action" target="s.ship" {ship}/>
  <step id="say" type="action" target="s.call_up"/>
  <step id="last" type="action" target="{last}"/>
  <transition id="a"><in idref="pay"/><out idref="ship"/></transition>
  <transition id="b"><in idref="ship"/><out idref="say"/></transition>
  <transition id="c"><in idref="say"/><out idref="last"/></transition>
</recipe>"""


RECIPES = f"""<cookbook>
{recipe("plain")}
{recipe("undone", 'on-withdraw="undo"')}
{recipe("slow", 'on-withdraw="undo"', last="s.waits")}
{recipe("broken", 'on-withdraw="undo"', 'undo="s.breaks"')}
{recipe("failing", 'on-withdraw="fail"', last="s.waits")}
{recipe("step", 'on-withdraw="ignore"', 'undo="s.fetch" on-withdraw="undo"')}
{recipe("ignoring", 'on-withdraw="ignore"', last="s.waits")}
<recipe group="s" name="hears" start_step="a" end_step="b">
  <step id="a" type="action" target="s.call_up"/><step id="b" type="action" target="s.nothing"/>
  <transition id="t"><in idref="a"/><out idref="b"/>
    <condition><match>signal[@name='withdrawn' and @named='order']</match></condition></transition>
</recipe>
<recipe group="s" name="books" start_step="a" end_step="b">
  <step id="a" type="action" target="s.book"/><step id="b" type="action" target="s.nothing"/>
  <transition id="t"><in idref="a"/><out idref="b"/></transition>
</recipe>
<recipe group="s" name="outer" start_step="a" end_step="b" on-withdraw="undo">
  <step id="a" type="recipe" target="s.plain"/><step id="b" type="action" target="s.nothing"/>
  <transition id="t"><in idref="a"/><out idref="b"/></transition>
</recipe>
</cookbook>"""


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path / "home")
    scene.write("modules/s.py", MODULE)
    scene.write("recipes/s.xml", RECIPES)
    return scene


@pytest.fixture
def agent(scene: Scene) -> Iterator[Agent]:
    with narval.open(scene.home.path, by="ann") as agent:
        yield agent


def ordered(agent: Agent, name: str, *, ends: bool = True) -> tuple[int, int]:
    """An order, and a run that has taken it as far as it comes."""
    run = agent.start(name, "<order n='7'/>")
    if ends:
        agent.until_idle()
    else:
        agent.runner.run(agent.daemon.main_loop.work_until(lambda: len(agent.memory("parcel")) > 0))
        state = agent.daemon.agent.runs
        agent.runner.run(agent.daemon.main_loop.work_until(lambda: bool(state[run].calls)))
    return agent.memory("order")[-1].eid, run


def undoing(agent: Agent) -> list[tuple[Any, ...]]:
    agent.until_idle()
    runs = [agent.ask("show", run=row["eid"]) for row in agent.ask("runs", kind="plan-undo")]
    return [(run["phase"], [(step["id"], step["state"]) for step in run["steps"]]) for run in runs]


def test_F14_a_run_that_is_over_is_undone_where_its_recipe_says_so(agent: Agent) -> None:
    order, run = ordered(agent, "s.undone")
    dry = agent.ask("withdrawal", eid=order)
    (relied,) = dry["runs"]
    assert (relied["run"], relied["how"]) == (run, "undo")
    assert [(call["step"], call["undo"]) for call in relied["undo"]] == [
        ("say", None),
        ("ship", "s.fetch"),
        ("pay", "s.refund"),
    ]
    assert undoing(agent) == []
    agent.ask("withdraw", eid=order, why="a joke")
    assert undoing(agent) == [("done", [("say", "no undo"), ("ship", "undone"), ("pay", "undone")])]
    assert [element.attributes["n"] for element in agent.memory("refund")] == ["7"]
    assert len(agent.memory("back")) == 1


def test_F14_a_run_is_undone_once(agent: Agent) -> None:
    order, run = ordered(agent, "s.undone")
    receipt = agent.memory("receipt")[0].eid
    agent.ask("withdraw", eid=order, why="a joke")
    agent.until_idle()
    agent.ask("withdraw", eid=receipt, why="and this")
    assert len(undoing(agent)) == 1
    with pytest.raises(RequestError, match="was undone before"):
        agent.ask("undo", run=run, why="again")


def test_F14_a_run_under_way_is_cancelled_and_undone(agent: Agent) -> None:
    order, run = ordered(agent, "s.slow", ends=False)
    agent.ask("withdraw", eid=order, why="a joke")
    (undone,) = undoing(agent)
    assert undone[1][-2:] == [("ship", "undone"), ("pay", "undone")]
    assert agent.ask("show", run=run)["state"] == "cancelled"


def test_F14_what_cannot_be_undone_does_not_keep_the_rest(agent: Agent) -> None:
    order, _ = ordered(agent, "s.broken")
    agent.ask("withdraw", eid=order, why="a joke")
    assert undoing(agent) == [("failed", [("say", "no undo"), ("ship", "failed"), ("pay", "undone")])]
    assert len(agent.memory("error")) == 1


def test_F14_an_undo_that_failed_is_told_at_the_run_and_in_attention(agent: Agent) -> None:
    order, run = ordered(agent, "s.broken")
    assert "undoing" not in agent.ask("show", run=run)
    agent.ask("withdraw", eid=order, why="a joke")
    ((undoing_run, *_),) = [(row["eid"],) for row in agent.ask("runs", kind="plan-undo")]
    agent.until_idle()
    told = f"run {undoing_run} was to undo it and failed in step ship: ValueError: it is gone"
    assert agent.ask("show", run=run)["undoing"].startswith(told)
    assert told in agent.ask("why", run=run)["reason"]
    (line,) = [row for row in agent.ask("attention") if row["what"] == "incident"]
    assert f"run {undoing_run} was to undo run {run} of s.broken and failed at ship: " in line["text"]
    assert line["text"].endswith("what could not be undone stays done")


def test_F14_an_undo_that_is_done_is_told_at_the_run(agent: Agent, scene: Scene) -> None:
    _, run = ordered(agent, "s.plain")
    by = agent.ask("undo", run=run, why="it was a mistake")["undoing"]
    agent.until_idle()
    assert agent.ask("show", run=run)["undoing"] == f"run {by} has undone it"
    agent.close()
    assert f"undoing     run {by} has undone it" in well(scene.home.path, "show", str(run))
    assert f"run {by} has undone it" in well(scene.home.path, "why", str(run))


def test_F14_a_run_may_fail_or_go_on_untold(agent: Agent) -> None:
    order, run = ordered(agent, "s.failing", ends=False)
    agent.ask("withdraw", eid=order, why="a joke")
    agent.until_idle()
    failed = agent.ask("show", run=run)
    assert (failed["state"], failed["error"]["type"]) == ("failed", "withdrawn")
    assert "a joke" in failed["error"]["message"]
    again, other = ordered(agent, "s.ignoring", ends=False)
    agent.ask("withdraw", eid=again, why="a joke")
    assert agent.ask("show", run=other)["phase"] == "active"
    assert agent.memory("signal") == []


def test_F14_what_a_step_says_counts_for_what_it_was_given(agent: Agent) -> None:
    order, _ = ordered(agent, "s.step")
    parcel = agent.memory("parcel")[0].eid
    agent.ask("withdraw", eid=parcel, why="it is empty")
    assert undoing(agent) == []
    agent.ask("withdraw", eid=order, why="a joke")
    assert len(undoing(agent)) == 1


def test_F14_by_default_a_run_under_way_is_told_by_a_signal_and_others_are_left(agent: Agent) -> None:
    order, run = ordered(agent, "s.hears")
    done = agent.start("s.plain")
    agent.until_idle()
    told = agent.ask("withdraw", eid=order, why="a joke")
    assert {row["run"]: row["how"] for row in told["runs"]} == {run: "signal", done: None}
    agent.until_idle()
    assert agent.ask("show", run=run)["state"] == "done"
    assert undoing(agent) == []


def test_F14_what_called_runs_have_done_is_undone_too(agent: Agent) -> None:
    order, _ = ordered(agent, "s.outer")
    agent.ask("withdraw", eid=order, why="a joke")
    assert undoing(agent) == [("done", [("a/say", "no undo"), ("a/ship", "undone"), ("a/pay", "undone")])]


def test_F14_a_run_is_undone_by_hand(agent: Agent) -> None:
    _, run = ordered(agent, "s.plain")
    answer = agent.ask("undo", run=run, why="it was a mistake")
    assert [call["undo"] for call in answer["undo"]] == [None, "s.fetch", "s.refund"]
    assert undoing(agent) == [("done", [("say", "no undo"), ("ship", "undone"), ("pay", "undone")])]
    why = agent.ask("why", run=answer["undoing"])
    assert f"it undoes run {run}" in why["reason"]
    with pytest.raises(RequestError, match="is a plan-undo: only plans are undone"):
        agent.ask("undo", run=answer["undoing"], why="and back")


def test_F14_a_run_in_which_nothing_is_undone_names_what_stays_done(agent: Agent) -> None:
    run = agent.start("s.books", "<order n='7'/>")
    agent.until_idle()
    answer = agent.ask("undo", run=run, why="it was a mistake")
    assert (answer["undoing"], answer["undo"]) == (None, [])
    assert answer["stays"] == [{"step": "a", "target": "s.book"}]


def test_an_action_that_is_not_there_is_not_said_to_undo_anything(tmp_path: Path) -> None:
    module = tmp_path / "s.py"
    module.write_text(MODULE.replace('undo="s.refund"', 'undo="s.refnd"'))
    with narval.open() as agent:
        agent.load(module)
        agent.load(recipe("plain"))
        agent.add("<order n='1'/>")
        run = agent.start("s.plain")
        agent.until_idle()
        undone = agent.ask("undo", run=run, why="a mistake")
        assert [(call["step"], call["undo"]) for call in undone["undo"]][-1] == ("pay", None)
