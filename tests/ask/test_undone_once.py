"""What undoing does outside: each payment is refunded once, and none that was not made (F14)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.core.errors import RequestError
from narval.surfaces.python.agent import Agent
from tests.ask.processes import nodes
from tests.ask.test_undoing import undoing
from tests.calls.test_rules import asked
from tests.daemon.at_work import Scene

MODULE = """
import asyncio
from narval import Input, Output, action, call

@action(inputs=[Input("order", "order")], outputs=[Output("receipt", "receipt")], undo="s.refund",
        runs="inline")
def pay(order):
    return "<receipt/>"

@action(inputs=[Input("order", "order")], outputs=[Output("receipt", "receipt")], undo="s.refund")
async def pay_slowly(order):
    await asyncio.sleep(3600)

@action(inputs=[Input("order", "order")], outputs=[Output("receipt", "receipt")], undo="s.refund")
async def pay_late_and_in_vain(order):
    if call().attempt > 1:
        raise ValueError("no money")
    await asyncio.sleep(3600)

@action(inputs=[Input("order", "order")], outputs=[Output("receipt", "receipt")], undo="s.refund",
        runs="inline")
def pay_in_vain(order):
    raise ValueError("no money")

@action(inputs=[Input("order", "order")], outputs=[Output("refund", "refund")], runs="inline")
def refund(order):
    return "<refund/>"

@action(outputs=[Output("refund", "refund")], runs="inline")
def give_back():
    return "<refund/>"

@action(runs="inline")
def breaks():
    raise ValueError("it breaks")

@action(runs="inline", pure=True)
def nothing():
    pass
"""


def recipe(name: str, step: str, first: str = "", then: str = 's.nothing"') -> str:
    return f"""<recipe group="s" name="{name}" start_step="a" end_step="b" {first}>
  <step id="a" {step}/><step id="b" type="action" target="{then}/>
  <transition id="t"><in idref="a"/><out idref="b"/></transition></recipe>"""


PAY, UNDO = 'type="action" target="s.pay"', 'on-withdraw="undo"'
LATE = recipe("late", 'type="action" target="s.pay_slowly" timeout="1s"', UNDO).replace(
    '<in idref="a"/>', '<in idref="a" on-error="yes"/>'
)
RECIPES = f"""<cookbook>
{recipe("plain", PAY)}
{recipe("inner", PAY, UNDO)}
{recipe("outer", 'type="recipe" target="s.inner"', UNDO)}
{recipe("above", 'type="recipe" target="s.inner"')}
{recipe("whole", 'type="recipe" target="s.inner" undo="s.give_back"', UNDO)}
{recipe("loop", 'type="recipe" target="s.plain" until="stop" every="1s"', UNDO)}
{recipe("broken", PAY, then='s.breaks"')}
{recipe("calls-broken", 'type="recipe" target="s.broken"')}
{LATE}
{recipe("vain", 'type="action" target="s.pay_in_vain"', UNDO)}
{recipe("vain-again", 'type="action" target="s.pay_late_and_in_vain" timeout="1s" retries="1"', UNDO)}
{recipe("asked", PAY + ' approve="s.agree"', UNDO)}
<work group="s" name="agree"><title>Pay?</title><for roles="approver"/>
  <outcome name="approve"/><outcome name="no"/></work>
</cookbook>"""
PEOPLE = '[people.ann]\nroles = ["approver"]\n'


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path / "home")
    scene.write("modules/s.py", MODULE)
    scene.write("recipes/s.xml", RECIPES)
    scene.write("etc/people.toml", PEOPLE)
    return scene


@pytest.fixture
def agent(scene: Scene) -> Iterator[Agent]:
    with narval.open(scene.home.path, by="ann") as agent:
        yield agent


def ordered(agent: Agent, name: str) -> tuple[int, int]:
    run = agent.start(name, "<order/>")
    agent.until_idle()
    return agent.memory("order")[-1].eid, run


def paid_and_refunded(agent: Agent) -> tuple[int, int]:
    agent.until_idle()
    return len(agent.memory("receipt")), len(agent.memory("refund"))


def until(agent: Agent, is_so: Callable[[], bool]) -> None:
    """Work until something is so of which nobody tells the loop."""
    while not is_so():
        soon = time.monotonic() + 0.01
        agent.runner.run(agent.daemon.main_loop.work_until(lambda: False, deadline=soon))


def child_of(agent: Agent, run: int) -> int:
    (child,) = (row["eid"] for row in agent.ask("runs") if row["name"] == "s.inner" and row["eid"] > run)
    return int(child)


def listed(answer: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    return [(call["step"], call["state"], call["undo"]) for call in answer["undo"]]


def test_F14_each_run_that_a_step_called_again_and_again_is_undone_once(agent: Agent) -> None:
    run = agent.start("s.loop", "<order/>")
    agent.runner.run(agent.daemon.main_loop.work_until(lambda: len(agent.memory("receipt")) >= 3))
    agent.add("<stop/>")
    agent.until_idle()
    paid = len(agent.memory("receipt"))
    agent.ask("undo", run=run, why="x")
    assert paid_and_refunded(agent) == (paid, paid)


def test_F14_what_caller_and_called_would_both_undo_is_undone_once(agent: Agent) -> None:
    order, run = ordered(agent, "s.outer")
    for answer in (agent.ask("withdrawal", eid=order), agent.ask("withdraw", eid=order, why="x")):
        assert [(row["how"], listed(row)) for row in answer["runs"]] == [
            ("undo", [("a/a", "done", "s.refund")]),
            ("undo", []),
        ]
    assert paid_and_refunded(agent) == (1, 1)
    child = child_of(agent, run)
    with pytest.raises(RequestError, match=f"run {child} of s.inner was undone before"):
        agent.ask("undo", run=child, why="again")


@pytest.mark.parametrize("name", ["s.above", "s.whole"])
def test_F14_a_called_run_that_was_undone_is_not_undone_again_with_its_caller(
    agent: Agent, name: str
) -> None:
    _, run = ordered(agent, name)
    agent.ask("undo", run=child_of(agent, run), why="x")
    assert paid_and_refunded(agent) == (1, 1)
    assert agent.ask("undo", run=run, why="x") == {"run": run, "undoing": None, "undo": [], "stays": []}
    assert paid_and_refunded(agent) == (1, 1)


def test_F14_a_step_that_undoes_what_its_run_did_undoes_that_run(agent: Agent) -> None:
    order, run = ordered(agent, "s.whole")
    agent.ask("withdraw", eid=order, why="x")
    assert paid_and_refunded(agent) == (1, 1)
    with pytest.raises(RequestError, match="was undone before"):
        agent.ask("undo", run=child_of(agent, run), why="again")


@pytest.mark.parametrize("name", ["s.late", "s.vain-again"])
def test_F14_a_call_of_which_nobody_knows_what_it_did_is_undone(agent: Agent, name: str) -> None:
    order, _ = ordered(agent, name)
    (relied,) = agent.ask("withdrawal", eid=order)["runs"]
    assert listed(relied) == [("a", "unknown", "s.refund")]
    agent.ask("withdraw", eid=order, why="x")
    assert undoing(agent) == [("done", [("a", "undone")])]


def test_F14_a_call_that_failed_did_nothing(agent: Agent) -> None:
    order, _ = ordered(agent, "s.vain")
    agent.ask("withdraw", eid=order, why="x")
    assert undoing(agent) == []


def test_F14_what_a_called_run_did_before_it_failed_is_undone(agent: Agent) -> None:
    _, run = ordered(agent, "s.calls-broken")
    assert listed(agent.ask("undo", run=run, why="x")) == [("a/a", "done", "s.refund")]
    assert paid_and_refunded(agent) == (1, 1)


@pytest.mark.parametrize("ends", ["withdrawn", "cancelled", "cancelled, and restarted"])
def test_F14_a_call_that_nobody_has_agreed_to_is_not_undone(scene: Scene, ends: str) -> None:
    with narval.open(scene.home.path, by="ann") as agent:
        order, run = ordered(agent, "s.asked")
        assert len(asked(agent)) == 1
        dry = agent.ask("withdrawal", eid=order)["runs"]
        assert [(row["how"], listed(row), row["outside"]) for row in dry if row["run"] == run] == [
            ("undo", [], [])
        ]
        if ends != "withdrawn":
            agent.ask("cancel", run=run)
            agent.until_idle()
        if ends != "cancelled, and restarted":
            agent.ask("withdraw", eid=order, why="x")
            assert paid_and_refunded(agent) == (0, 0)
            assert undoing(agent) == []
    with narval.open(scene.home.path, by="ann") as agent:
        assert agent.ask("undo", run=run, why="x") == {"run": run, "undoing": None, "undo": [], "stays": []}


def test_F14_what_a_called_process_did_is_undone(scene: Scene) -> None:
    """Its calls are announced as those of a recipe are."""
    node = "<node name='a' type='action' isStart='true'><custom><target>s.pay</target></custom></node>"
    scene.write("recipes/proc.process.xml", nodes(node))
    scene.write("recipes/p.xml", recipe("by-process", 'type="process" target="proc.p"', UNDO))
    with narval.open(scene.home.path, by="ann") as agent:
        order, run = ordered(agent, "s.by-process")
        (called,) = (row["eid"] for row in agent.ask("runs", kind="process"))
        history = agent.ask("history", run=called)
        assert [line["what"] for line in history].count("CallStarting") == 1
        (relied,) = (row for row in agent.ask("withdraw", eid=order, why="x")["runs"] if row["run"] == run)
        assert listed(relied) == [("a/a", "done", "s.refund")]
        assert paid_and_refunded(agent) == (1, 1)


def test_F14_a_call_that_was_agreed_to_is_undone(agent: Agent) -> None:
    order, _ = ordered(agent, "s.asked")
    agent.answer(asked(agent)[0], "approve")
    agent.until_idle()
    agent.ask("withdraw", eid=order, why="x")
    assert paid_and_refunded(agent) == (1, 1)


def test_F14_what_undoes_is_asked_for_although_what_it_is_given_was_withdrawn(scene: Scene) -> None:
    rule = '[[approval]]\naction = "s.refund"\nwork = "s.agree"\n'
    scene.write("etc/people.toml", PEOPLE + rule)
    with narval.open(scene.home.path, by="ann") as agent:
        order, _ = ordered(agent, "s.inner")
        agent.ask("withdraw", eid=order, why="x")
        agent.until_idle()
        receipt = agent.memory("receipt")[0].eid
        agent.ask("withdraw", eid=receipt, why="and this")
        agent.until_idle()
        (item,) = asked(agent)
        assert paid_and_refunded(agent) == (1, 0)
        agent.answer(item, "approve")
        assert paid_and_refunded(agent) == (1, 1)


@pytest.mark.parametrize("change", ["revoked", "revoked and altered"])
def test_F14_what_is_granted_no_more_can_still_be_undone(scene: Scene, change: str) -> None:
    """Each call is held against what is granted now, whatever version the run followed: where nothing is, an
    error tells, and nothing breaks.
    """
    scene.write("etc/narval.toml", 'grants = "ask"\n')
    with narval.open(scene.home.path, by="ann") as agent:
        agent.ask("grant", name="s.inner")
        order, _ = ordered(agent, "s.inner")
        agent.ask("revoke", name="s.inner")
    if change == "revoked and altered":
        later = recipe("inner", PAY, UNDO, 's.breaks"')
        scene.write("recipes/s.xml", RECIPES.replace(recipe("inner", PAY, UNDO), later))
    with narval.open(scene.home.path, by="ann") as agent:
        agent.ask("withdraw", eid=order, why="x")
        assert undoing(agent) == [("failed", [("a", "failed")])]
        assert [error.attributes["type"] for error in agent.memory("error[@step='a']")] == ["not-granted"]


@pytest.mark.parametrize("ends", ["withdrawn", "cancelled, and restarted"])
def test_F14_a_call_that_never_began_is_not_undone(scene: Scene, ends: str) -> None:
    """One that waited for a thread when its run ended did nothing; the one before it had begun."""
    scene.write("etc/narval.toml", "threads = 1\n")
    scene.write("modules/slow.py", SLOW)
    scene.write("recipes/s.xml", RECIPES.replace(PAY, 'type="action" target="slow.thread"'))
    log, go = (scene.home.path / "modules" / file for file in ("log", "go"))
    with narval.open(scene.home.path, by="ann") as agent:
        calls = agent.daemon.main_loop.calls
        busy = agent.start("s.inner", "<order/>")
        until(agent, log.exists)
        run = agent.start("s.inner", "<order/>")
        until(agent, lambda: calls.counts.queued > 0)
        if ends == "withdrawn":
            order = agent.memory("order")[-1].eid
            (relied,) = agent.ask("withdraw", eid=order, why="x")["runs"]
            assert (relied["run"], relied["how"], listed(relied)) == (run, "undo", [])
        else:
            agent.ask("cancel", run=run)
        go.touch()
        agent.until_idle()
    with narval.open(scene.home.path, by="ann") as agent:
        assert agent.ask("undo", run=run, why="x") == {"run": run, "undoing": None, "undo": [], "stays": []}
        assert listed(agent.ask("undo", run=busy, why="x")) == [("a", "done", "slow.refund")]
        agent.until_idle()
    assert log.read_text() == "begins paid refunded "


SLOW = """
import asyncio
import time
from pathlib import Path
from narval import Input, Output, action, call

LOG = Path(__file__).parent / "log"

def log(text):
    with LOG.open("a") as file:
        file.write(text + " ")

def may_end():
    return LOG.with_name("go").exists()

@action(inputs=[Input("order", "order")], undo="slow.refund")
def thread(order):
    log("begins")
    while not may_end():
        time.sleep(0.01)
    log("paid")

@action(inputs=[Input("order", "order")], undo="slow.refund_inline")
async def coroutine(order):
    log("begins")
    while not may_end():
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            pass
    log("paid")

@action(inputs=[Input("order", "order")])
def refund(order):
    log("refunded")

@action(inputs=[Input("order", "order")], runs="inline")
def refund_inline(order):
    log("refunded")
"""


@pytest.mark.parametrize(
    ("name", "action", "ends"),
    [
        ("inner", "thread", "by itself"),
        ("inner", "coroutine", "by itself"),
        ("above", "thread", "by itself"),
        ("inner", "thread", "with its daemon"),
    ],
)
def test_F14_nothing_is_undone_while_it_is_being_done(
    scene: Scene, name: str, action: str, ends: str
) -> None:
    """A thread and a coroutine that refuses cannot be stopped: they are waited for, and `why` says so."""
    scene.write("modules/slow.py", SLOW)
    scene.write("recipes/s.xml", RECIPES.replace(PAY, f'type="action" target="slow.{action}"'))
    log, go = (scene.home.path / "modules" / file for file in ("log", "go"))
    with narval.open(scene.home.path, by="ann") as agent:
        calls = agent.daemon.main_loop.calls
        run = agent.start(f"s.{name}", "<order/>")
        until(agent, log.exists)
        undoing = agent.ask("undo", run=run, why="x")["undoing"]
        until(agent, lambda: calls.counts.given_up > 0)
        (wait,) = agent.ask("why", run=undoing)["waiting"]
        assert wait["calls"][0]["place"] == "a call of the run that it undoes has not ended"
        assert log.read_text() == "begins "
        if ends == "by itself":
            go.touch()
            agent.until_idle()
            assert log.read_text() == "begins paid refunded "
    if ends == "with its daemon":
        with narval.open(scene.home.path, by="ann") as agent:
            agent.until_idle()
        assert log.read_text() == "begins refunded "
        go.touch()


def test_F14_code_that_does_not_end_is_not_waited_for_longer_than_its_time_limit(scene: Scene) -> None:
    scene.write("etc/narval.toml", "call_timeout = 0.3\n")
    scene.write("modules/slow.py", SLOW)
    scene.write("recipes/s.xml", RECIPES.replace(PAY, 'type="action" target="slow.thread"'))
    log, go = (scene.home.path / "modules" / file for file in ("log", "go"))
    with narval.open(scene.home.path, by="ann") as agent:
        run = agent.start("s.inner", "<order/>")
        until(agent, log.exists)
        assert listed(agent.ask("undo", run=run, why="x"))[0][2] == "slow.refund"
        until(agent, lambda: "refunded" in log.read_text())
        until(agent, lambda: bool(agent.memory("error[@type='not-undone']")))
        (error,) = agent.memory("error[@type='not-undone']")
        assert f"slow.thread, which run {run} called in step a, has not ended 0.3 s after" in error.text
        go.touch()
        until(agent, lambda: "paid" in log.read_text())
        assert undoing(agent) == [("done", [("a", "undone")])]
    assert log.read_text() == "begins refunded paid "
