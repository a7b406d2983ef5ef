"""Several agents in one daemon: their states, who is at work, and what one's fault costs (G1 to G9, G18)."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import weakref
from collections.abc import Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from narval.agent.loop import Request
from narval.ask.asker import PROGRAM
from narval.ask.daemon.requests import work
from narval.ask.operations import invoke
from narval.core.errors import NarvalError, RequestError, SettingsError
from narval.daemon.daemon import Daemon
from narval.store.batch import AgentRow
from narval.system.clock import SimulatedClock
from tests.daemon.at_work import Killed, Scene, in_a_loop, watched_commits

MODULE = """
import narval
from narval import Input, Output, action

@action(inputs=[Input("mail", "mail", use=True)], outputs=[Output("ack", "ack")], runs="inline")
def take(mail):
    return f"<ack of='{mail.attributes['n']}' by='{narval.call().agent}'/>"

@action(runs="inline")
def begin():
    pass

@action(outputs=[Output("late", "late")])
async def wait():
    await narval.sleep(200)
    return "<late/>"
"""
RECIPES = """<cookbook>
<recipe group="w" name="takes" start_step="a" end_step="b">
  <step id="a" type="action" target="w.begin"/><step id="b" type="action" target="w.take"/>
  <transition id="t"><in idref="a"/><out idref="b"/><condition><match>mail</match></condition></transition>
</recipe>
<recipe group="w" name="calls" start_step="a" end_step="a">
  <step id="a" type="action" target="w.wait"/>
</recipe>
<recipe group="w" name="later" start_step="a" end_step="b">
  <step id="a" type="action" target="w.begin"/><step id="b" type="action" target="w.begin"/>
  <transition id="t"><in idref="a"/><out idref="b"/>
    <time years="1970" months="1" monthdays="20" hours="0" minutes="0" seconds="0"/></transition>
</recipe>
</cookbook>"""


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path, settings="timezone = 'UTC'\n")
    scene.write("modules/w.py", MODULE)
    scene.write("recipes/w.xml", RECIPES)
    return scene


async def ask(daemon: Daemon, agent: str, operation: str, **arguments: Any) -> Any:
    return await invoke(daemon, PROGRAM.asking(agent), operation, arguments)


async def at_once(daemon: Daemon, *asked: Coroutine[Any, Any, Any]) -> list[Any]:
    """What each is told, all asked of a daemon at work, so that they come into one turn."""
    over = asyncio.Event()
    work = asyncio.create_task(daemon.main_loop.work_until(over.is_set))
    await asyncio.sleep(0)
    done = await asyncio.gather(*asked, return_exceptions=True)
    over.set()
    daemon.main_loop.wake()
    await work
    return done


async def opened(scene: Scene, *names: str) -> Daemon:
    daemon = await scene.open()
    for name in names:
        await ask(daemon, "", "add_agent", name=name)
    return daemon


async def states(daemon: Daemon) -> dict[str, str]:
    return {row["name"]: row["state"] for row in await ask(daemon, "", "agents")}


async def acks(daemon: Daemon, agent: str) -> list[str]:
    return [row["xml"] for row in await ask(daemon, agent, "memory", xpath="ack")]


@in_a_loop
async def test_G1_agents_have_names_and_ids_of_their_own(scene: Scene) -> None:
    daemon = await opened(scene, "ada", "bob")
    rows = {row.name: row for row in daemon.store.agents()}
    assert list(rows) == ["narval", "ada", "bob"]
    assert len({row.id for row in rows.values()}) == 3
    for name in ("", "Ada", "9lives", "a" * 64, "a b"):
        with pytest.raises(RequestError, match="expected the name of an agent"):
            await ask(daemon, "", "add_agent", name=name)
    for name in ("ada", "narval"):
        with pytest.raises(RequestError, match=f"there is an agent {name} already"):
            await ask(daemon, "", "add_agent", name=name)
    with pytest.raises(RequestError, match=r"no agent 'adda' here \(did you mean .*ada.*narval, ada, bob"):
        await ask(daemon, "adda", "status")
    await ask(daemon, "", "remove_agent", name="ada")
    assert (await ask(daemon, "", "add_agent", name="ada"))["state"] == "passive"
    assert next(row.id for row in daemon.store.agents() if row.name == "ada") != rows["ada"].id
    await scene.end()


@in_a_loop
async def test_G1_the_homes_own_may_not_take_the_name_of_another(scene: Scene) -> None:
    await opened(scene, "ada")
    await scene.end()
    scene.write("etc/narval.toml", "name = 'ada'\n")
    with pytest.raises(SettingsError, match="a name that no other agent of this home has"):
        await scene.open()


@in_a_loop
async def test_G15_two_agents_follow_one_recipe_and_wait_for_elements_of_their_own(scene: Scene) -> None:
    daemon = await opened(scene, "ada", "bob")
    runs = {name: (await ask(daemon, name, "start", name="w.takes"))["eid"] for name in ("ada", "bob")}
    assert runs["ada"] == runs["bob"], "numbers begin anew for each"
    await ask(daemon, "ada", "add", elements=[b"<mail n='1'/>"])
    await daemon.main_loop.until_idle()
    assert (await ask(daemon, "ada", "show", run=runs["ada"]))["state"] == "done"
    assert (await ask(daemon, "bob", "show", run=runs["bob"]))["state"] == "running"
    await ask(daemon, "bob", "add", elements=[b"<mail n='2'/>"])
    await daemon.main_loop.until_idle()
    assert ['of="1" by="ada"' in xml for xml in await acks(daemon, "ada")] == [True]
    assert ['of="2" by="bob"' in xml for xml in await acks(daemon, "bob")] == [True]
    assert await acks(daemon, "") == []
    await scene.end()


@in_a_loop
async def test_G21_answers_say_of_what_agent_they_are_unless_it_is_the_homes_own(scene: Scene) -> None:
    daemon = await opened(scene, "ada")
    assert (await ask(daemon, "ada", "start", name="w.takes"))["agent"] == "ada"
    assert {row["agent"] for row in await ask(daemon, "ada", "runs")} == {"ada"}
    own = await ask(daemon, "", "start", name="w.takes")
    assert "agent" not in own
    assert await ask(daemon, "narval", "show", run=own["eid"]) == await ask(
        daemon, "", "show", run=own["eid"]
    )
    assert (await ask(daemon, "ada", "status"))["name"] == "ada"
    assert (await ask(daemon, "", "status"))["agents"] == {"active": 2, "passive": 0, "suspended": 0}
    await scene.end()


@in_a_loop
async def test_G6_an_agent_that_has_nothing_to_do_becomes_passive_and_comes_back(scene: Scene) -> None:
    daemon = await opened(scene, "ada")
    run = (await ask(daemon, "ada", "start", name="w.takes"))["eid"]
    await daemon.main_loop.elapse(59.0)
    assert await states(daemon) == {"narval": "active", "ada": "active"}
    await daemon.main_loop.elapse(61.0)
    assert await states(daemon) == {"narval": "active", "ada": "passive"}
    assert daemon.store.of(2).identity().state == "passive"
    assert len(daemon.rounds.participants) == 1
    asked = [ask(daemon, "ada", "show", run=run) for _ in range(3)]
    assert [answer["state"] for answer in await asyncio.gather(*asked[:1])] == ["running"]
    for waiting in asked[1:]:
        assert (await waiting)["state"] == "running"
    assert len(daemon.rounds.participants) == 2
    assert daemon.store.of(2).identity().state == "active"
    await ask(daemon, "ada", "add", elements=[b"<mail n='1'/>"])
    await daemon.main_loop.until_idle()
    assert len(await acks(daemon, "ada")) == 1
    await scene.end()


@in_a_loop
async def test_G6_those_not_used_for_longest_become_passive_when_memory_is_short(scene: Scene) -> None:
    scene.write("etc/narval.toml", "timezone = 'UTC'\nactive_memory = '60K'\n")
    names = ("ada", "bob", "cat", "dan")
    daemon = await opened(scene, *names)
    for name in ("ada", "bob", "ada", "cat"):
        await daemon.main_loop.elapse(1.0)
        await ask(daemon, name, "count")
    await daemon.main_loop.until_idle()
    assert await states(daemon) == {
        "narval": "active", "ada": "active", "bob": "passive", "cat": "active", "dan": "passive",
    }  # fmt: skip
    await ask(daemon, "ada", "add", elements=[b"<mail n='1'/>"] * 300)
    async with daemon.of("ada"):
        await ask(daemon, "bob", "count")
        await daemon.main_loop.until_idle()
        assert (await states(daemon))["ada"] == "active", "it is in use"
    await scene.end()


@in_a_loop
async def test_G6_an_agent_of_a_home_in_memory_is_never_passive() -> None:
    daemon = await Daemon.open(None, clock=SimulatedClock(1_000_000.0))
    await ask(daemon, "", "add_agent", name="ada")
    await ask(daemon, "ada", "add", elements=[b"<mail n='1'/>"])
    await daemon.main_loop.elapse(3600.0)
    assert len(await ask(daemon, "ada", "memory", xpath="mail")) == 1
    with pytest.raises(RequestError, match="ada still has work"):
        await ask(daemon, "", "passivate", name="ada")
    await daemon.close()


@in_a_loop
async def test_G20_agents_are_listed_with_what_they_hold_active_or_passive(scene: Scene) -> None:
    daemon = await opened(scene, "ada", "bob")
    await ask(daemon, "ada", "start", name="w.calls")
    await ask(daemon, "ada", "start", name="w.later")
    await daemon.main_loop.elapse(1.0)
    (_, active, bob) = await ask(daemon, "", "agents")
    assert (active["runs"], active["calls"], bob["elements"]) == (2, 1, 0)
    assert active["resident"] > 30_000
    await ask(daemon, "", "passivate", name="ada")
    (_, passive, _) = await ask(daemon, "", "agents")
    unknown = {"failed": None, "asked": None, "faults": None}  # M58
    assert passive == {**active, "state": "passive", "resident": 0, **unknown}
    await scene.end()


@in_a_loop
async def test_G8_of_a_passive_agent_nothing_is_left_in_memory_but_its_row(scene: Scene) -> None:
    daemon = await opened(scene, "ada")
    for name in ("w.takes", "w.later"):
        await ask(daemon, "ada", "start", name=name)
    await ask(daemon, "ada", "add", elements=[b"<mail/>"])  # without a number: the run fails
    (failed,) = (await work(daemon, until_idle=True))["failed"]
    assert (failed["agent"], failed["name"]) == ("ada", "w.takes")
    assert failed["error"]["type"] == "KeyError"
    async with daemon.of("ada") as seen:
        left = [weakref.ref(seen.host), weakref.ref(seen.agent)]
    del seen
    assert (await ask(daemon, "", "passivate", name="ada"))["state"] == "passive"
    gc.collect()
    assert [found() for found in left] == [None, None]
    await scene.end()


@in_a_loop
async def test_G8_a_daemon_keeps_of_passive_agents_their_names_and_looks_up_the_rest(scene: Scene) -> None:
    daemon = await opened(scene, "ada", "bob", "cat")
    await ask(daemon, "bob", "start", name="w.later")
    await ask(daemon, "", "passivate", name="bob")
    await ask(daemon, "", "suspend", name="cat")
    before = daemon.agents.rows.all()
    assert [row.name for row in daemon.agents.rows.in_full()] == ["cat"]
    await scene.end()
    daemon = await scene.open()
    assert [row.name for row in daemon.agents.rows.in_full()] == ["cat"]
    assert daemon.agents.rows.all() == before
    assert daemon.agents.rows["bob"].wake_at == 19 * 86_400.0
    assert (await ask(daemon, "", "agents"))[2]["next"] == "1970-01-20T00:00:00.000+00:00"
    assert daemon.rounds.next_moment() == 19 * 86_400.0, "nobody wakes before"
    await scene.end()


@in_a_loop
async def test_G5_a_moment_activates_the_agent_that_waits_for_it(scene: Scene) -> None:
    daemon = await opened(scene, "ada", "bob")
    run = (await ask(daemon, "ada", "start", name="w.later"))["eid"]
    await ask(daemon, "bob", "start", name="w.takes")
    await daemon.main_loop.elapse(120.0)
    row = daemon.store.of(2).identity()
    assert (row.state, row.wake_at) == ("passive", 19 * 86_400.0)
    await daemon.main_loop.elapse(row.wake_at - daemon.rounds.clock.now() - 1.0)
    assert await states(daemon) == {"narval": "active", "ada": "passive", "bob": "passive"}
    await daemon.main_loop.elapse(2.0)
    assert await states(daemon) == {"narval": "active", "ada": "active", "bob": "passive"}
    shown = await ask(daemon, "ada", "show", run=run)
    assert (shown["state"], shown["ended"][:19]) == ("done", "1970-01-20T00:00:00")
    await scene.end()


@in_a_loop
async def test_G5_a_moment_that_came_while_no_daemon_ran_activates_its_agent_at_the_start(
    scene: Scene,
) -> None:
    daemon = await opened(scene, "ada", "bob")
    await ask(daemon, "ada", "start", name="w.later")
    await ask(daemon, "bob", "start", name="w.takes")
    await daemon.main_loop.elapse(120.0)
    await scene.end()
    daemon = await scene.open()
    assert len(daemon.rounds.participants) == 1
    await scene.end()
    scene.clock.set(30 * 86_400.0)
    daemon = await scene.open()
    assert await states(daemon) == {"narval": "active", "ada": "active", "bob": "passive"}
    await scene.end()


@in_a_loop
async def test_G4_what_changes_in_the_files_is_taken_over_by_active_and_passive_agents(scene: Scene) -> None:
    daemon = await opened(scene, "ada", "bob")
    await ask(daemon, "ada", "count")
    scene.write("recipes/new.xml", RECIPES.replace('group="w"', 'group="n"'))
    assert (await ask(daemon, "", "reload"))["changed"]
    await daemon.main_loop.until_idle()
    for name in ("ada", "bob"):
        assert (await ask(daemon, name, "start", name="n.takes"))["name"] == "n.takes"
    async with daemon.of("ada") as seen:
        assert seen.agent.library is daemon.agent.library
    await scene.end()


@in_a_loop
async def test_G4_the_bytes_of_a_definition_are_there_once_however_often_agents_come_back(
    scene: Scene,
) -> None:
    daemon = await opened(scene, "ada", "bob")
    for name in ("ada", "bob"):
        await ask(daemon, name, "count")
        await ask(daemon, "", "passivate", name=name)
    declared = {definition.xml: definition.xml for definition in daemon.agent.library}
    for name in ("ada", "bob"):
        async with daemon.of(name) as seen:
            elements = [seen.agent.memory.element(eid) for eid in seen.agent.memory.declared]
            assert elements
            assert all(found is not None and found.xml is declared[found.xml] for found in elements)
    await scene.end()


@in_a_loop
async def test_G20_a_suspended_agent_records_what_it_is_asked_and_acts_when_it_is_resumed(
    scene: Scene,
) -> None:
    daemon = await opened(scene, "ada")
    await ask(daemon, "ada", "start", name="w.takes")
    row = await ask(daemon, "", "suspend", name="ada", reason="on leave")
    assert (row["state"], row["why"]) == ("suspended", "on leave")
    await ask(daemon, "ada", "add", elements=[b"<mail n='1'/>"])
    await daemon.main_loop.until_idle()
    assert await acks(daemon, "ada") == []
    await scene.end()
    daemon = await scene.open()
    await daemon.main_loop.until_idle()
    assert (await states(daemon))["ada"] == "suspended"
    assert (await ask(daemon, "", "resume", name="ada"))["state"] == "active"
    await daemon.main_loop.until_idle()
    assert len(await acks(daemon, "ada")) == 1
    with pytest.raises(RequestError, match="expected an agent that is suspended"):
        await ask(daemon, "", "resume", name="ada")
    await scene.end()


@in_a_loop
async def test_G1_a_name_is_free_once_its_agent_is_gone_and_no_sooner(scene: Scene) -> None:
    daemon = await opened(scene, "ada")
    before = daemon.agents.rows["ada"].id
    done = await at_once(
        daemon,
        ask(daemon, "", "remove_agent", name="ada"),
        ask(daemon, "", "add_agent", name="ada"),
        ask(daemon, "", "add_agent", name="bob"),
    )
    assert str(done[1]) == "there is an agent ada already"
    await ask(daemon, "", "add_agent", name="ada")
    rows = [daemon.agents.rows[name] for name in ("ada", "bob")]
    assert rows[0].id != before
    assert len({row.agent for row in rows}) == 2
    await scene.end()
    daemon = await scene.open()
    assert sorted(await states(daemon)) == ["ada", "bob", daemon.name]
    await scene.end()


@in_a_loop
async def test_G18_a_turn_that_breaks_down_costs_its_agent_alone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = await opened(scene, "ada", "bob")
    for name in ("ada", "bob"):
        await ask(daemon, name, "start", name="w.takes")
    poison(daemon, monkeypatch, "ada")
    with pytest.raises(NarvalError, match="agent ada broke down"):
        await ask(daemon, "ada", "add", elements=[b"<mail n='1'/>"])
    with pytest.raises(RequestError, match="made again in 1 s"):
        await ask(daemon, "ada", "runs")
    await ask(daemon, "bob", "add", elements=[b"<mail n='1'/>"])
    await daemon.main_loop.until_idle()
    assert len(await acks(daemon, "bob")) == 1
    monkeypatch.undo()
    await daemon.main_loop.elapse(2.0)
    await ask(daemon, "ada", "add", elements=[b"<mail n='2'/>"])
    await daemon.main_loop.until_idle()
    assert ['of="2"' in xml for xml in await acks(daemon, "ada")] == [True]
    await scene.end()


@pytest.mark.parametrize("durability", ["crash", "power"])
@in_a_loop
async def test_G17_rows_that_the_store_refuses_cost_their_agent_alone(scene: Scene, durability: str) -> None:
    scene.write("etc/narval.toml", f"timezone = 'UTC'\ndurability = '{durability}'\n")
    daemon = await opened(scene, "ada", "bob")
    own = (await ask(daemon, "", "start", name="w.takes"))["eid"]
    runs = {name: (await ask(daemon, name, "start", name="w.takes"))["eid"] for name in ("ada", "bob")}
    with closing(sqlite3.connect(scene.home.store)) as other, other:
        other.execute(
            "INSERT INTO elements (agent, eid, name, xml, added, declared, outdated) "
            "VALUES (2, ?, 'thief', X'3c742f3e', 1.0, '', 0)",
            (runs["ada"] + 1,),
        )
    adding = [ask(daemon, name, "add", elements=[b"<mail n='1'/>"]) for name in ("", "ada", "bob")]
    told = await at_once(daemon, *adding)
    assert "agent ada broke down" in str(told[1])
    assert "UNIQUE" in str(told[1])
    await daemon.main_loop.until_idle()
    for name, run in (("", own), ("bob", runs["bob"])):
        assert (await ask(daemon, name, "show", run=run))["state"] == "done"
    await daemon.main_loop.elapse(2.0)
    await ask(daemon, "ada", "add", elements=[b"<mail n='2'/>"])
    await daemon.main_loop.until_idle()
    assert ['of="2"' in xml for xml in await acks(daemon, "ada")] == [True]
    await scene.end()


@in_a_loop
async def test_G18_an_agent_rests_as_long_though_the_clock_is_set_back(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = await opened(scene, "ada")
    with pytest.MonkeyPatch.context() as patch:
        poison(daemon, patch, "ada")
        with pytest.raises(NarvalError, match="agent ada broke down"):
            await ask(daemon, "ada", "count")
    scene.clock.step(-3_600.0)
    await daemon.main_loop.elapse(0.5)
    with pytest.raises(RequestError, match="made again in"):
        await ask(daemon, "ada", "count")
    await daemon.main_loop.elapse(1.0)
    assert (await states(daemon))["ada"] == "active"
    await scene.end()


@in_a_loop
async def test_G20_who_makes_an_agent_passive_waits_for_the_turn_that_does(scene: Scene) -> None:
    scene.write("etc/narval.toml", "timezone = 'UTC'\nturn_limit = 1\n")
    daemon = await opened(scene, "ada")
    await ask(daemon, "ada", "start", name="w.takes")
    async with daemon.of("ada") as seen:
        host = seen.host
    for n in range(5):
        host.post(Request(lambda turn, n=n: turn.add(f"<note n='{n}'/>".encode()), lambda *_: None))
    with pytest.raises(RequestError, match="still has work"):
        await ask(daemon, "", "passivate", name="ada")
    await daemon.main_loop.until_idle()
    async with daemon.of("ada"):
        with pytest.raises(RequestError, match="ada is in use: by another request"):
            await ask(daemon, "", "passivate", name="ada")
    assert (await ask(daemon, "", "passivate", name="ada"))["state"] == "passive"
    await scene.end()


@in_a_loop
async def test_G18_an_agent_that_breaks_down_again_and_again_is_suspended(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = await opened(scene, "ada")
    poison(daemon, monkeypatch, "ada")
    with pytest.raises(NarvalError, match="agent ada broke down"):
        await ask(daemon, "ada", "count")
    await daemon.main_loop.elapse(14.0)
    assert (await states(daemon))["ada"] == "passive"
    await daemon.main_loop.elapse(2.0)
    (_, row) = await ask(daemon, "", "agents")
    assert (row["state"], row["why"]) == ("suspended", "it broke down 5 times in 10 minutes: poisoned")
    assert daemon.store.of(2).identity().state == "suspended"
    await scene.end()


def poison(daemon: Daemon, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Have every turn of an agent break down from now on."""
    from narval.agent.loop import Loop

    decide = Loop.decide
    poisoned = next(row.agent for row in daemon.store.agents() if row.name == name)

    def decided(loop: Loop, now: float, share: float | None = None) -> Any:
        if loop.agent.store.agent == poisoned:
            raise ValueError("poisoned")
        return decide(loop, now, share)

    monkeypatch.setattr(Loop, "decide", decided)


NAMES = ("narval", "ada", "bob")


async def _work(scene: Scene) -> None:
    """Three agents take a mail each, one becomes passive in between; begun anew wherever it was killed."""
    daemon = await scene.open()
    there = await states(daemon)
    for name in NAMES:
        if name not in there:
            await ask(daemon, "", "add_agent", name=name)
    for name in NAMES:
        if not await ask(daemon, name, "runs"):
            await ask(daemon, name, "start", name="w.takes")
    await daemon.main_loop.elapse(120.0)
    for name in NAMES:
        if not await ask(daemon, name, "memory", xpath="mail"):
            await ask(daemon, name, "add", elements=[b"<mail n='1'/>"])
    await daemon.main_loop.until_idle()


async def _end(scene: Scene) -> list[tuple[list[str], list[str]]]:
    daemon = scene.alive or await scene.open()
    await daemon.main_loop.until_idle()
    found = []
    for name in NAMES:
        xml = [row["xml"].replace(name, "NAME") for row in await ask(daemon, name, "memory", xpath="ack")]
        found.append((xml, [run["state"] for run in await ask(daemon, name, "runs")]))
    await scene.end()
    return found


def test_G9_three_agents_killed_at_every_commit_end_as_without(tmp_path: Path) -> None:
    def made(folder: str) -> Scene:
        scene = Scene(tmp_path / folder, settings="timezone = 'UTC'\n")
        scene.write("modules/w.py", MODULE)
        scene.write("recipes/w.xml", RECIPES)
        return scene

    def story(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(work)

    async def undisturbed(scene: Scene) -> Any:
        await _work(scene)
        return await _end(scene)

    async def killed(scene: Scene) -> Any:
        try:
            await _work(scene)
        except Killed:
            await scene.end()
            await _work(scene)
        return await _end(scene)

    scene = made("whole")
    with watched_commits(scene):
        whole = story(undisturbed(scene))
    assert [len(xml) for xml, _ in whole] == [1, 1, 1]
    assert scene.commits > 10
    for commit in range(2, scene.commits + 1):
        for written in (False, True):
            other = made(f"{commit}-{written}")
            other.kill_at = (commit, written)
            with watched_commits(other):
                assert story(killed(other)) == whole, f"killed at commit {commit}, written: {written}"


def test_rows_are_as_the_store_has_them(tmp_path: Path) -> None:
    assert AgentRow(2, "a", "ada") == (2, "a", "ada", "active", "", None)
