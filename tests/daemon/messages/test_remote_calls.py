"""Calls of definitions at other agents: one `Returned` each, whatever is killed (G33 to G36)."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from narval.agent.agent import AgentState
from narval.ask.asker import PROGRAM
from narval.ask.operations import invoke
from narval.daemon.daemon import Daemon
from narval.daemon.messages import remote_calls
from tests.daemon.at_work import Killed, Scene, in_a_loop, outcome, watched_commits

STEP = '<step id="{0}" type="{1}" target="{2}" {3}>{4}</step>'


def step(id: str, target: str, more: str = "", inside: str = "", type: str = "recipe") -> str:
    return STEP.format(id, type, target, more, inside)


def recipe(name: str, *parts: str, end: str = "a") -> str:
    group, _, short = name.partition(".")
    return f'<recipe group="{group}" name="{short}" start_step="a" end_step="{end}">{"".join(parts)}</recipe>'


def transition(inside: str = "") -> str:
    return f'<transition id="t"><in idref="a"/><out idref="b"/>{inside}</transition>'


ORDER = '<input id="order"><match>order</match></input>'
RECIPES = f"""<cookbook>
{recipe("c.asks", step("a", "s.invoice", 'agent="shop" timeout="100"', ORDER))}
{recipe("c.each", step("a", "s.invoice", 'agent="shop" timeout="100" foreach="order" max-parallel="2"'))}
{recipe("c.again", step("a", "s.fails", 'agent="shop" timeout="100" retries="1" backoff="5"', ORDER))}
{recipe("c.hangs", step("a", "s.hangs", 'agent="shop" timeout="100"', ORDER))}
{recipe("c.calls_hangs", step("a", "c.hangs"))}
{recipe("c.unknown", step("a", "s.gone", 'agent="shop" timeout="100"'))}
{recipe("c.secret", step("a", "s.secret", 'agent="shop" timeout="100"'))}
{recipe("c.nobody", step("a", "s.invoice", 'agent="nobody" timeout="100"', ORDER))}
{recipe("s.invoice", step("a", "m.invoice", type="action"))}
{recipe("s.secret", step("a", "m.nothing", type="action"))}
{recipe("s.fails", step("a", "m.fails", type="action"))}
{
    recipe(
        "s.hangs",
        step("a", "m.nothing", type="action"),
        step("b", "m.nothing", type="action"),
        transition("<condition><match>go</match></condition>"),
        end="b",
    )
}
{
    recipe(
        "s.circle",
        step("a", "m.nothing", type="action"),
        step("b", "s.circle", 'agent="shop" timeout="9"'),
        transition(),
        end="b",
    )
}
</cookbook>"""
MODULE = """
from narval import Input, Output, action

@action(inputs=[Input("order", "order")], outputs=[Output("invoice", "invoice")], runs="inline")
def invoice(order):
    return f"<invoice of='{order.attributes.get('n')}'/>"

@action(runs="inline")
def nothing():
    pass

@action(runs="inline")
def fails():
    raise ValueError("no paper")
"""
OFFERS = 'offers = {"s.invoice" = ["narval"], "s.fails" = ["*"], "s.hangs" = ["*"], "s.gone" = ["*"]}\n'


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path, settings="timezone = 'UTC'\n")
    scene.write("modules/m.py", MODULE)
    scene.write("recipes/m.xml", RECIPES)
    scene.write("agents/shop/agent.toml", OFFERS)
    return scene


async def ask(daemon: Daemon, agent: str, operation: str, **arguments: Any) -> Any:
    return await invoke(daemon, PROGRAM.asking(agent), operation, arguments)


async def opened(scene: Scene, *names: str) -> Daemon:
    daemon = await scene.open()
    for name in names or ("shop",):
        if name not in daemon.agents.rows:
            await ask(daemon, "", "add_agent", name=name)
    return daemon


async def started(daemon: Daemon, name: str, *elements: str, agent: str = "") -> int:
    given = [text.encode() for text in elements]
    run: int = (await ask(daemon, agent, "start", name=name, elements=given))["eid"]
    await daemon.main_loop.until_idle()
    return run


async def state(daemon: Daemon, run: int, agent: str = "") -> str:
    await daemon.main_loop.until_idle()
    return str((await ask(daemon, agent, "show", run=run))["state"])


async def elements(daemon: Daemon, agent: str, xpath: str) -> list[dict[str, Any]]:
    await daemon.main_loop.until_idle()
    return list(await ask(daemon, agent, "memory", xpath=xpath))


async def runs(daemon: Daemon, agent: str) -> list[tuple[str, str]]:
    await daemon.main_loop.until_idle()
    return [(run["name"], run["state"]) for run in await ask(daemon, agent, "runs")]


async def error(daemon: Daemon, agent: str = "") -> str:
    [found] = await elements(daemon, agent, "error")
    return str(found["xml"])


# --- asked and answered -------------------------------------------------------------------------------------


@in_a_loop
async def test_G33_a_run_of_the_other_agent_answers_with_elements_that_say_where_they_are_from(
    scene: Scene,
) -> None:
    daemon = await opened(scene)
    run = await started(daemon, "c.asks", "<order n='7'/>", "<note/>")
    assert await state(daemon, run) == "done"
    [invoice] = await elements(daemon, "", "invoice[@al:from='shop']")
    assert 'of="7"' in invoice["xml"]
    assert (invoice["origin"]["run"], invoice["origin"]["step"], invoice["origin"]["from"]) == (
        run,
        "a",
        "shop",
    )
    [order] = await elements(daemon, "shop", "order[@al:from='narval']")
    assert order["origin"]["from"] == "narval"
    assert await elements(daemon, "shop", "note") == [], "the context of the caller does not come along"
    assert await runs(daemon, "shop") == [("s.invoice", "done")]
    [there] = await ask(daemon, "shop", "runs")
    assert there["parent"] == {"agent": "narval"}
    await scene.end()


@in_a_loop
async def test_G33_a_call_for_each_element(scene: Scene) -> None:
    daemon = await opened(scene)
    for n in range(5):
        await ask(daemon, "", "add", elements=[f"<order n='{n}'/>".encode()])
    run = await started(daemon, "c.each")
    assert await state(daemon, run) == "done"
    assert len(await elements(daemon, "", "invoice")) == 5
    await scene.end()


@in_a_loop
async def test_G33_a_failure_comes_back_as_its_error_elements(scene: Scene) -> None:
    scene.write("recipes/m.xml", RECIPES.replace('target="s.invoice" agent', 'target="s.fails" agent'))
    daemon = await opened(scene)
    run = await started(daemon, "c.asks", "<order/>")
    assert await state(daemon, run) == "failed"
    told = await error(daemon)
    assert "no paper" in told
    assert 'from="shop"' in told
    assert await elements(daemon, "shop", "failure") == [], "the caller is told, so nobody else is"
    await scene.end()


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("c.unknown", "unknown-target", "there is no recipe named s.gone"),
        ("c.secret", "not-granted", "shop does not offer recipe s.secret to narval"),
        ("c.nobody", "undelivered", "there is no agent nobody here"),
    ],
)
def test_G34_what_cannot_be_answered_is_refused_in_a_sentence(
    scene: Scene, name: str, kind: str, message: str
) -> None:
    @in_a_loop
    async def said() -> None:
        daemon = await opened(scene)
        run = await started(daemon, name, "<order/>")
        assert await state(daemon, run) == "failed"
        told = await error(daemon)
        assert f'type="{kind}"' in told
        assert message in told
        assert await runs(daemon, "shop") == []
        await scene.end()

    said()


@in_a_loop
async def test_G34_an_agent_with_all_the_runs_it_may_have_answers_that_it_is_over_its_limit(
    scene: Scene,
) -> None:
    scene.write("agents/shop/agent.toml", f"runs = 1\n{OFFERS}")
    daemon = await opened(scene)
    first, second = [await started(daemon, "c.hangs", f"<order n='{n}'/>") for n in range(2)]
    assert (await state(daemon, first), await state(daemon, second)) == ("running", "failed")
    assert 'type="over-limit"' in await error(daemon)
    await scene.end()


@pytest.mark.parametrize("most", [3, 35])
def test_G33_what_is_too_large_is_refused_on_either_way(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(remote_calls, "MOST_BYTES", most)
    scene.write("modules/m.py", MODULE.replace("of='", "long='0123456789012345678901234567890' of='"))

    @in_a_loop
    async def said() -> None:
        daemon = await opened(scene)
        run = await started(daemon, "c.asks", "<order n='1'/>")
        assert await state(daemon, run) == "failed"
        assert 'type="too-large"' in await error(daemon)
        assert len(await runs(daemon, "shop")) == (most > 3)
        await scene.end()

    said()


@in_a_loop
async def test_G33_what_the_schema_of_the_other_side_refuses_is_refused(scene: Scene) -> None:
    scene.write("etc/schemas/invoice.dtd", "<!ELEMENT invoice EMPTY><!ATTLIST invoice to CDATA #REQUIRED>")
    scene.write("modules/m.py", MODULE.replace('Output("invoice", "invoice")', 'Output("i", "start-plan")'))
    daemon = await opened(scene)
    run = await started(daemon, "c.asks", "<order/>")
    assert await state(daemon, run) == "failed"
    await scene.end()


# --- from other kinds, and to them --------------------------------------------------------------------------

AUTOMATON = """<automaton group="c" name="auto">
<state name="start" type="recipe" target="s.invoice" agent="shop" timeout="50"/>
<state name="end" type="process" target="s.proc" agent="shop" timeout="50"/>
<transition from="start" label="0" to="end"/></automaton>"""
PROCESS = """<process-definition group="c" name="proc"><node name="n" type="process" isStart="true">
<custom><target>s.proc</target><agent>shop</agent><timeout>50</timeout></custom></node></process-definition>"""
THERE = """<process-definition group="s" name="proc"><node name="m" type="recipe" isStart="true">
<custom><target>s.secret</target></custom></node></process-definition>"""


@in_a_loop
async def test_G33_automata_and_processes_call_and_are_called(scene: Scene) -> None:
    scene.write("recipes/auto.xml", AUTOMATON)
    scene.write("recipes/proc.wf.xml", PROCESS)
    scene.write("recipes/there.wf.xml", THERE)
    scene.write("agents/shop/agent.toml", 'offers = {"s.invoice" = ["*"], "s.proc" = ["*"]}\n')
    daemon = await opened(scene)
    assert not daemon.files.faults
    automaton = await started(daemon, "c.auto", "<order n='3'/>")
    assert await state(daemon, automaton) == "done"
    assert len(await elements(daemon, "", "invoice[@of='3' and @al:from='shop']")) == 1
    run = (await ask(daemon, "", "start", name="c.proc", environment={"who": "Ada"}))["eid"]
    assert await state(daemon, run) == "completed"
    called = await runs(daemon, "shop")
    assert sorted(called) == [
        ("s.invoice", "done"),
        ("s.proc", "completed"),
        ("s.proc", "completed"),
        ("s.secret", "done"),
        ("s.secret", "done"),
    ]
    there = [row["eid"] for row in await ask(daemon, "shop", "runs") if row["name"] == "s.proc"]
    found = [await ask(daemon, "shop", "environment", run=eid) for eid in there]
    assert any("Ada" in str(given) for given in found)
    await scene.end()


@in_a_loop
async def test_G34_a_plan_that_is_begun_again_asks_again(scene: Scene) -> None:
    scene.write("agents/shop/agent.toml", "")
    daemon = await opened(scene)
    run = await started(daemon, "c.asks", "<order n='1'/>")
    assert await state(daemon, run) == "failed"
    scene.write("agents/shop/agent.toml", OFFERS)
    await daemon.reloader.reload()
    again = (await ask(daemon, "", "retry", run=run))["eid"]
    assert await state(daemon, again) == "done"
    assert await runs(daemon, "shop") == [("s.invoice", "done")]
    await scene.end()


# --- nobody is kept waiting (G36) ---------------------------------------------------------------------------


@in_a_loop
async def test_G36_agents_that_ask_one_another_go_on_until_they_are_too_deep(scene: Scene) -> None:
    scene.write("agents/shop/agent.toml", 'offers = {"s.circle" = ["*"]}\n')
    scene.write("agents/ada/agent.toml", 'offers = {"s.circle" = ["*"]}\n')
    daemon = await opened(scene, "shop", "ada")
    run = await started(daemon, "s.circle", agent="ada")
    assert await state(daemon, run, "ada") == "failed"
    assert len(await runs(daemon, "shop")) == remote_calls.MOST_DEEP
    assert 'type="too-deep"' in await error(daemon, "ada")
    await scene.end()


@in_a_loop
async def test_G36_a_waits_for_b_that_waits_for_a(scene: Scene) -> None:
    back = recipe(
        "s.invoice",
        step("a", "c.rate", 'agent="narval" timeout="50"'),
        step("b", "m.invoice", type="action"),
        transition(),
        end="b",
    )
    rate = recipe("c.rate", step("a", "m.rate", type="action"))
    old = recipe("s.invoice", step("a", "m.invoice", type="action"))
    scene.write("recipes/m.xml", RECIPES.replace(old, back + rate))
    scene.write(
        "modules/m.py",
        MODULE
        + '\n@action(outputs=[Output("rate", "rate")], runs="inline")\ndef rate():\n    return "<rate/>"\n',
    )
    scene.write("etc/narval.toml", 'timezone = \'UTC\'\n[agent]\noffers = {"c.rate" = ["shop"]}\n')
    daemon = await opened(scene)
    assert not daemon.files.faults
    run = await started(daemon, "c.asks", "<order n='1'/>")
    assert await state(daemon, run) == "done"
    assert len(await elements(daemon, "shop", "rate[@al:from='narval']")) == 1
    await scene.end()


@in_a_loop
async def test_G36_neither_side_stays_active_for_a_call_that_takes_long(scene: Scene) -> None:
    daemon = await opened(scene, "shop", "ada")
    scene.write("agents/ada/agent.toml", "")
    run = await started(daemon, "c.hangs", "<order/>", agent="ada")
    for name in ("ada", "shop"):
        assert await daemon.agents.supervisor.passivated(name)
    await ask(daemon, "shop", "add", elements=[b"<go/>"])
    assert await state(daemon, run, "ada") == "done"
    await scene.end()


@in_a_loop
async def test_G31_what_a_call_gives_comes_though_memory_has_no_room_for_elements(scene: Scene) -> None:
    scene.write("agents/ada/agent.toml", "elements = 30\nforget_after = '1h'\n")
    daemon = await opened(scene)
    run = await started(daemon, "c.hangs", "<order/>", agent="ada")
    notes = [b"<note/>" for _ in range(20)]
    await ask(daemon, "", "send", to="ada", elements=notes)
    assert 0 < len(await elements(daemon, "ada", "note")) < 20
    await ask(daemon, "shop", "add", elements=[b"<go/>"])
    assert await state(daemon, run, "ada") == "done"
    await daemon.main_loop.elapse(4000.0)
    async with daemon.of("ada") as seen:
        assert not seen.host.mail.mailbox.is_held, "all are taken in the end"
    await scene.end()


# --- given up (G35) -----------------------------------------------------------------------------------------


@in_a_loop
async def test_G35_a_cancelled_caller_cancels_the_run_there_and_all_above(scene: Scene) -> None:
    daemon = await opened(scene)
    run = await started(daemon, "c.calls_hangs", "<order/>")
    assert await runs(daemon, "shop") == [("s.hangs", "running")]
    await ask(daemon, "", "cancel", run=run)
    assert await runs(daemon, "shop") == [("s.hangs", "cancelled")]
    assert daemon.host.mail.calls.dropped == 1, "the plan was over at once"
    await scene.end()


@in_a_loop
async def test_G35_the_time_limit_counts_where_the_call_is_made(scene: Scene) -> None:
    daemon = await opened(scene)
    run = await started(daemon, "c.hangs", "<order/>")
    await daemon.main_loop.elapse(99)
    assert await state(daemon, run) == "running"
    await daemon.main_loop.elapse(2)
    assert await state(daemon, run) == "failed"
    assert "recipe s.hangs of shop did not come back within 100 s" in await error(daemon)
    assert await runs(daemon, "shop") == [("s.hangs", "cancelled")]
    await scene.end()


@in_a_loop
async def test_G35_who_cannot_be_reached_is_waited_for_half_a_minute_and_what_comes_later_is_dropped(
    scene: Scene,
) -> None:
    daemon = await opened(scene)
    await ask(daemon, "", "suspend", name="shop")
    run = await started(daemon, "c.hangs", "<order/>")
    await daemon.main_loop.elapse(101)
    assert await state(daemon, run) == "running"
    await daemon.main_loop.elapse(30)
    assert await state(daemon, run) == "failed"
    assert "did not come back within 100 s" in await error(daemon)
    await ask(daemon, "", "resume", name="shop")
    assert await runs(daemon, "shop") == [], "its time was over"
    await scene.end()


@in_a_loop
async def test_G35_a_reply_that_comes_too_late_is_counted_and_dropped(scene: Scene) -> None:
    daemon = await opened(scene, "shop", "ada")
    run = await started(daemon, "c.hangs", "<order/>", agent="ada")
    await ask(daemon, "", "suspend", name="ada")
    await ask(daemon, "shop", "add", elements=[b"<go/>"])
    assert await runs(daemon, "shop") == [("s.hangs", "done")]
    await daemon.main_loop.elapse(200)
    await ask(daemon, "", "resume", name="ada")
    assert await state(daemon, run, "ada") in ("done", "failed")
    await scene.end()


@in_a_loop
async def test_G34_a_call_is_tried_again_as_another_message(scene: Scene) -> None:
    daemon = await opened(scene)
    run = await started(daemon, "c.again", "<order/>")
    await daemon.main_loop.elapse(30)
    assert await state(daemon, run) == "failed"
    assert await runs(daemon, "shop") == [("s.fails", "failed")] * 2
    await scene.end()


# --- agents and definitions that go -------------------------------------------------------------------------


@in_a_loop
async def test_G34_an_agent_that_is_removed_answers_that_it_is_gone(scene: Scene) -> None:
    daemon = await opened(scene, "shop", "ada")
    waiting = await started(daemon, "c.hangs", "<order/>", agent="ada")
    await ask(daemon, "", "suspend", name="shop")
    untaken = await started(daemon, "c.hangs", "<order/>", agent="ada")
    shutil.rmtree(scene.home.path / "agents/shop")
    await daemon.reloader.reload()
    await ask(daemon, "", "remove_agent", name="shop", now=True)
    for run in (waiting, untaken):
        assert await state(daemon, run, "ada") == "failed"
    errors = await elements(daemon, "ada", "error[@type='undelivered']")
    assert len(errors) == 2
    await scene.end()


@in_a_loop
async def test_G34_what_comes_of_a_call_of_an_agent_that_is_gone_is_dropped(scene: Scene) -> None:
    daemon = await opened(scene, "shop", "ada")
    await started(daemon, "c.hangs", "<order/>", agent="ada")
    await ask(daemon, "", "remove_agent", name="ada", now=True)
    await ask(daemon, "", "add_agent", name="ada")
    await ask(daemon, "shop", "add", elements=[b"<go/>"])
    assert await runs(daemon, "shop") == [("s.hangs", "done")]
    assert await elements(daemon, "ada", "*[@al:from='shop']") == []
    await scene.end()


@in_a_loop
async def test_G34_a_caller_that_has_another_name_by_then_gets_its_answer(scene: Scene) -> None:
    daemon = await opened(scene)
    run = await started(daemon, "c.hangs", "<order/>")
    scene.write("etc/narval.toml", "name = 'desk'\n")
    await ask(daemon, "", "reload")
    await ask(daemon, "", "send", to="shop", elements=[b"<note/>"])
    assert await elements(daemon, "shop", "note[@al:from='desk']")
    await ask(daemon, "shop", "add", elements=[b"<go/>"])
    assert await runs(daemon, "shop") == [("s.hangs", "done")]
    assert await state(daemon, run) == "done"
    await scene.end()


@in_a_loop
async def test_G34_a_definition_that_changed_or_broke_is_that_of_the_moment_it_is_called(
    scene: Scene,
) -> None:
    daemon = await opened(scene)
    scene.write("recipes/m.xml", RECIPES.replace("<cookbook>", "<cookbook><nonsense/>"))
    await daemon.reloader.reload()
    run = await started(daemon, "c.asks", "<order n='1'/>")
    assert await state(daemon, run) == "done", "the last good version counts"
    await scene.end()


# --- killed at every commit (G34) ---------------------------------------------------------------------------


def came_to(*agents: AgentState) -> list[dict[str, Counter[str]]]:
    """What it came to at each agent, whatever the ids of messages; of runs that others called, the rows of
    those that are over do not have the step that did.
    """
    return [
        {
            part: Counter(
                _ID.sub("ID", str(found[:2] if part == "runs" else found)) for found in counted.elements()
            )
            for part, counted in outcome(agent).items()
        }
        for agent in agents
    ]


_ID = re.compile(r"[0-9a-f]{32}\.[0-9.~]+")


async def played(scene: Scene, name: str, agent: str = "") -> tuple[AgentState, AgentState]:
    """The caller and the other agent, when all that was asked is over."""
    daemon = await opened(scene)
    if not (await ask(daemon, "", "memory", xpath="order")):
        await ask(daemon, "", "add", elements=[b"<order n='1'/>"])
    if not await ask(daemon, "", "runs"):
        await ask(daemon, "", "start", name=name)
    await daemon.main_loop.elapse(300)
    async with daemon.agents.asked("shop") as shop:
        return daemon.agent, shop.agent


@pytest.mark.parametrize("name", ["c.asks", "c.again", "c.hangs", "c.secret"])
def test_G34_killed_at_every_commit_of_either_side_each_call_returns_once(tmp_path: Path, name: str) -> None:
    def fresh(number: str) -> Scene:
        scene = Scene(tmp_path / number, settings="timezone = 'UTC'\n")
        scene.write("modules/m.py", MODULE)
        scene.write("recipes/m.xml", RECIPES)
        scene.write("agents/shop/agent.toml", OFFERS)
        return scene

    async def whole() -> tuple[Any, int]:
        scene = fresh("whole")
        with watched_commits(scene):
            caller, other = await played(scene, name)
            found = came_to(caller, other)
            await scene.end()
            return found, scene.commits

    expected, commits = asyncio.run(whole())

    async def killed(at: int, written: bool) -> Any:
        scene = fresh(f"{at}-{written}")
        with watched_commits(scene):
            scene.kill_at = at, written
            found = None
            with suppress(Killed):
                found = came_to(*await played(scene, name))
            await scene.end()
            if found is None:  # not where it was caught: what fails now does not fail because of that
                scene.kill_at = None
                found = came_to(*await played(scene, name))
                await scene.end()
            return found

    for at in range(1, commits + 1):
        for written in (False, True):
            found = asyncio.run(killed(at, written))
            assert list(map(_differences, found, expected)) == [{}, {}], (at, written)


def _differences(found: dict[str, Counter[str]], expected: dict[str, Counter[str]]) -> dict[str, Any]:
    """The parts that differ: what is there in vain, and what is missing."""
    return {
        part: (found[part] - expected[part], expected[part] - found[part])
        for part in found
        if found[part] != expected[part]
    }
