"""A daemon: how it opens, works, stops and ends, and how long what it does survives."""

from __future__ import annotations

import asyncio
import gc
import io
import pdb
import sys
import time
import weakref
from copy import copy
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.agent.forgetting import forget
from narval.agent.loop import Delivery
from narval.core.elements.changes import Forgotten
from narval.core.engines.events import Cancelled
from narval.core.errors import DaemonGoneError, RequestError, StoreError
from narval.daemon.daemon import Daemon
from narval.files.home import Home
from narval.store.batch import Batch
from tests.daemon.at_work import Scene, portrait, watched_commits

MODULE = """
import asyncio
import narval
from narval import Input, Output, action

@action(runs="inline")
def nothing():
    print("a word from an action")

@action(runs="inline")
def fails():
    raise ValueError("never well")

@action(inputs=[Input("gift", "gift"), Input("toy", "toy")])
async def admire(gift, toy):
    await asyncio.sleep(3600)

@action(inputs=[Input("counter", "counter", outdates=True)], outputs=[Output("counter", "counter")])
async def count(counter):
    await asyncio.sleep(0.01)
    return f"<counter value='{int(counter.attributes['value']) + 1}'/>"
"""


def _recipe(name: str, target: str, more: str = "") -> str:
    return (
        f'<recipe group="w" name="{name}" start_step="s" end_step="s" {more}>'
        f'<step id="s" type="action" target="{target}"/></recipe>'
    )


RECIPES = f"""<cookbook>
{_recipe("nothing", "w.nothing")}
{_recipe("count", "w.count")}
{_recipe("again", "w.fails", 'restart="yes"')}
{_recipe("short", "w.nothing", 'decay="60"')}
{_recipe("admire", "w.admire")}
</cookbook>"""


def scene_in(folder: Path, **options: Any) -> Scene:
    scene = Scene(folder / "home", **options)
    scene.write("modules/w.py", MODULE)
    scene.write("recipes/w.xml", RECIPES)
    return scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return scene_in(tmp_path)


# --- durability -----------------------------------------------------------------------------------------


def test_power_durability_answers_after_the_commit_and_gathers_requests_meanwhile(tmp_path: Path) -> None:
    scene = scene_in(tmp_path, settings='durability = "power"\n')
    batches: list[int] = []

    async def story() -> None:
        daemon = await scene.open()
        commit = daemon.store.commit
        committed: set[int] = set()

        def slow(*given: Batch) -> None:
            time.sleep(0.02)
            commit(*given)
            batches.append(len(given[0].elements))
            committed.update(added.element.eid for batch in given for added in batch.elements)

        daemon.store.commit = slow  # type: ignore[method-assign]
        work = asyncio.create_task(daemon.main_loop.run())

        async def add(number: int) -> None:
            await asyncio.sleep(0.002 * number)
            eid = await daemon.host.submit(lambda turn: turn.add(b"<note/>"))
            assert eid in committed

        await asyncio.gather(*(add(number) for number in range(40)))
        daemon.stop.request()
        await work
        await scene.end()

    asyncio.run(story())
    assert sum(batches) == 40
    assert len(batches) < 20  # they gathered while a commit was under way
    assert max(batches) > 1


def test_power_durability_shows_nothing_that_is_not_recorded(tmp_path: Path) -> None:
    scene = scene_in(tmp_path, settings='durability = "power"\n')

    async def story() -> None:
        daemon = await scene.open()
        commit = daemon.store.commit

        def failing(*given: Batch) -> None:
            time.sleep(0.1)
            raise StoreError("the disk is full")

        daemon.store.commit = failing  # type: ignore[method-assign]
        work = asyncio.create_task(daemon.main_loop.run())
        adding = asyncio.create_task(daemon.host.submit(lambda turn: turn.add(b"<note/>")))
        await asyncio.sleep(0.05)
        with pytest.raises(StoreError, match="full"):
            await daemon.rounds.recorded()  # raises what came of the commit
        for task in (adding, work):
            with pytest.raises(StoreError, match="full"):
                await task
        daemon.store.commit = commit  # type: ignore[method-assign]
        await scene.end()

    asyncio.run(story())


@pytest.mark.parametrize("durability", ["crash", "power"])
def test_N18_a_counter_in_memory_loses_no_update_at_either_durability(
    tmp_path: Path, durability: str
) -> None:
    scene = scene_in(tmp_path, settings=f'durability = "{durability}"\n')
    scene.write("data/memory.xml", "<memory><counter value='0'/></memory>")

    async def story() -> None:
        daemon = await scene.open()
        for _ in range(12):
            await daemon.host.submit(lambda turn: turn.start("w.count"))
        await daemon.main_loop.until_idle()
        await scene.end()
        daemon = await scene.open()
        memory = daemon.agent.memory
        (left,) = (eid for eid in memory.named(["counter"]) if eid not in memory.outdated)
        element = memory.element(left)
        assert element is not None
        assert element.attributes["value"] == "12"
        assert not memory.reserved
        await scene.end()

    asyncio.run(story())


# --- stopping -------------------------------------------------------------------------------------------


def test_requests_that_wait_when_the_daemon_closes_are_answered(scene: Scene) -> None:
    async def story() -> None:
        daemon = await scene.open()
        work = asyncio.create_task(daemon.main_loop.run())
        await asyncio.sleep(0.01)
        waiting = asyncio.create_task(daemon.host.submit(lambda turn: None))
        await asyncio.sleep(0)
        await scene.end()
        for task in (waiting, asyncio.create_task(daemon.host.submit(lambda turn: None))):
            with pytest.raises(DaemonGoneError):
                await asyncio.wait_for(task, 60.0)
        work.cancel()

    asyncio.run(story())


def test_a_daemon_that_does_not_open_lets_the_home_go(scene: Scene) -> None:
    scene.write("etc/narval.toml", "nonsense = 1\n")
    for _ in range(2):
        with pytest.raises(narval.NarvalError, match="nonsense"):
            narval.open(scene.home.path)
    scene.write("etc/narval.toml", "")
    with narval.open(scene.home.path) as agent:
        assert agent.ask("status")["faults"] == []


def test_in_a_program_what_an_action_prints_is_printed(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    with narval.open(scene.home.path) as agent:
        agent.wait(agent.start("w.nothing"), 20)
        assert not [line for line in agent.ask("log") if line["logger"] == "narval.action"]
    assert capsys.readouterr().out == "a word from an action\n"


def test_breakpoint_in_an_action_asks_on_the_terminal_of_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "stops.py"
    module.write_text("from narval import action\n\n@action\ndef at():\n    here = 6\n    breakpoint()\n")
    answered = io.StringIO()
    monkeypatch.setattr("sys.stdout", answered)
    monkeypatch.setattr("sys.stdin", io.StringIO("p here * 7\nc\n"))
    monkeypatch.setattr("sys.breakpointhook", lambda: pdb.Pdb().set_trace(sys._getframe(1)))
    with narval.open() as agent:
        agent.load(module)
        agent.load(
            "<recipe group='r' name='r' start_step='a' end_step='a'>"
            "<step id='a' type='action' target='stops.at'/></recipe>"
        )
        assert agent.wait(agent.start("r.r"))["phase"] == "done"
    assert "stops.py(6)at()" in answered.getvalue()
    assert "42" in answered.getvalue()


def test_a_program_that_works_on_a_home_cannot_be_asked_twice_at_once(scene: Scene) -> None:
    async def story() -> None:
        daemon = await scene.open()
        work = asyncio.create_task(daemon.main_loop.run())
        await asyncio.sleep(0)
        with pytest.raises(RequestError, match="already running"):
            await daemon.main_loop.until_idle()
        daemon.stop.request()
        await work
        await scene.end()

    asyncio.run(story())


def test_an_idle_daemon_makes_no_turns(scene: Scene) -> None:
    async def story() -> None:
        daemon = await scene.open()
        await daemon.main_loop.until_idle()
        work = asyncio.create_task(daemon.main_loop.run())
        await asyncio.sleep(0.05)
        turns, used = daemon.host.loop.turns, time.thread_time()
        await asyncio.sleep(0.5)
        assert daemon.host.loop.turns == turns
        assert time.thread_time() - used < 0.05
        daemon.stop.request()
        await work
        await scene.end()

    asyncio.run(story())


# --- moments --------------------------------------------------------------------------------------------


def test_N28_a_restart_waits_longer_after_each_failure_in_a_row_across_kills(scene: Scene) -> None:
    async def story() -> None:
        daemon = await scene.open()
        await daemon.host.submit(lambda turn: turn.start("w.again"))
        moments = []
        for _ in range(5):
            await daemon.main_loop.until_idle()
            due = daemon.agent.clockwork.next_moment()
            assert due is not None
            moments.append(due - scene.clock.now())
            known = portrait(daemon.agent)
            scene.kill(daemon)
            await scene.end()
            daemon = await scene.open()
            assert portrait(daemon.agent)["moments"] == known["moments"]
            await daemon.main_loop.elapse(moments[-1])
        assert moments == [1.0, 2.0, 4.0, 8.0, 16.0]
        assert len(daemon.agent.runs) == 6
        await scene.end()

    with watched_commits(scene):
        asyncio.run(story())


def test_N5_a_plan_and_what_it_alone_holds_are_forgotten_after_its_decay(scene: Scene) -> None:
    async def story() -> None:
        daemon = await scene.open()
        shared, own = [await daemon.host.submit(lambda turn: turn.add(b"<gift/>")) for _ in range(2)]
        run = await daemon.host.submit(lambda turn: turn.start("w.short", (shared, own)))
        await daemon.host.submit(lambda turn: turn.start("w.nothing", (shared,)))
        await daemon.main_loop.until_idle()
        await daemon.main_loop.elapse(59.0)
        assert own in daemon.agent.memory
        scene.kill(daemon)
        await scene.end()
        daemon = await scene.open()
        await daemon.main_loop.elapse(2.0)
        assert run.eid not in daemon.agent.memory
        assert own not in daemon.agent.memory
        assert shared in daemon.agent.memory
        known = portrait(daemon.agent)
        scene.kill(daemon)
        await scene.end()
        daemon = await scene.open()
        assert portrait(daemon.agent) == known
        await scene.end()

    with watched_commits(scene):
        asyncio.run(story())


def test_N2_a_run_that_is_over_is_not_shown_with_what_has_been_forgotten(tmp_path: Path) -> None:
    scene = scene_in(tmp_path)

    async def story() -> None:
        daemon = await scene.open()
        gift = await daemon.host.submit(lambda turn: turn.add(b"<gift/>"))
        run = await daemon.host.submit(lambda turn: turn.start("w.nothing", (gift,)))
        await daemon.main_loop.until_idle()
        shown = daemon.agent.memory.element(run.eid)
        assert f'eid="{gift}"'.encode() in shown.xml
        await daemon.host.submit(lambda turn: forget(turn.transaction, Forgotten((gift,))))
        assert gift not in daemon.agent.memory
        shown = daemon.agent.memory.element(run.eid)
        assert f'eid="{gift}"'.encode() not in shown.xml
        await scene.end()

    with watched_commits(scene):
        asyncio.run(story())


def test_N5_forget_after_forgets_elements_unused_for_that_long(tmp_path: Path) -> None:
    scene = scene_in(tmp_path, settings='forget_after = "1h"\n')
    scene.write("data/memory.xml", "<memory><rule/></memory>")

    async def story() -> None:
        daemon = await scene.open()
        idle, held = [await daemon.host.submit(lambda turn: turn.add(b"<gift/>")) for _ in range(2)]
        await daemon.main_loop.elapse(1800.0)
        await daemon.host.submit(lambda turn: turn.start("w.nothing", (held,)))
        await daemon.main_loop.elapse(1801.0)
        memory = daemon.agent.memory
        assert (idle in memory, held in memory) == (False, True)
        assert list(memory.named(["rule"]))
        assert list(memory.named(["recipe"]))
        scene.kill(daemon)
        await scene.end()
        daemon = await scene.open()
        await daemon.main_loop.elapse(1800.0)
        assert held not in daemon.agent.memory
        await scene.end()

    with watched_commits(scene):
        asyncio.run(story())


def test_N5_what_a_call_under_way_was_given_is_not_forgotten(tmp_path: Path) -> None:
    scene = scene_in(tmp_path, settings='forget_after = "2h"\n')

    async def story() -> None:
        daemon = await scene.open()
        held, idle = [
            await daemon.host.submit(lambda turn, name=name: turn.add(f"<{name}/>".encode()))
            for name in ("gift", "toy")
        ]
        await daemon.host.submit(lambda turn: turn.start("w.short", (held,)))
        await daemon.host.submit(lambda turn: turn.start("w.admire"))
        await asyncio.wait_for(daemon.main_loop.work_until(lambda: daemon.calls.counts.running), 20.0)
        scene.clock.advance(8000.0)
        await asyncio.wait_for(daemon.main_loop.work_until(lambda: not daemon.host.loop.has_work()), 20.0)
        assert held in daemon.agent.memory
        assert idle in daemon.agent.memory
        scene.kill(daemon)
        await scene.end()
        daemon = await scene.open()
        await asyncio.wait_for(daemon.main_loop.work_until(lambda: daemon.calls.counts.running), 20.0)
        (run,) = daemon.agent.runs.active.values()
        daemon.host.post(Delivery(run.eid, Cancelled(0, 0.0)))
        await daemon.main_loop.elapse(8000.0)
        assert held not in daemon.agent.memory
        assert idle not in daemon.agent.memory
        await scene.end()

    with watched_commits(scene):
        asyncio.run(story())


# --- versions -------------------------------------------------------------------------------------------


def test_N13_a_run_keeps_the_version_it_began_with_though_the_file_changes_between_starts(
    tmp_path: Path,
) -> None:
    wait = (
        '<recipe group="v" name="v" start_step="s" end_step="e">'
        '<step id="s" type="action" target="w.nothing"/>'
        '<step id="e" type="action" target="w.nothing"/><transition id="t"><in idref="s"/><out idref="e"/>'
        "<condition><match>{}</match></condition></transition></recipe>"
    )
    scene = scene_in(tmp_path)
    scene.write("recipes/v.xml", wait.format("old"))
    with narval.open(scene.home.path) as agent:
        before = agent.start("v.v")
        agent.until_idle()
    scene.write("recipes/v.xml", wait.format("new"))
    for _ in range(2):
        with narval.open(scene.home.path) as agent:
            assert agent.why(before)["waiting"][0]["conditions"][0]["pattern"] == "old"
    scene.write("recipes/v.xml", "<recipe/>")
    with pytest.warns(narval.FaultWarning, match="v.xml:1") as warned:
        opened = narval.open(scene.home.path)
    assert str(copy(warned[0].message)) == str(warned[0].message), "as runners of tests hand it on"
    with opened as agent:
        after = agent.start("v.v")  # the last good version
        agent.until_idle()
        assert agent.why(after)["waiting"][0]["conditions"][0]["pattern"] == "new"
        agent.add("<old/>")
        agent.until_idle()
        assert [agent.run(run)["state"] for run in (before, after)] == ["done", "running"]


def test_a_stub_is_called_instead_of_an_action(scene: Scene) -> None:
    with narval.open(scene.home.path) as agent:
        agent.stub("w.fails", lambda: None)
        assert agent.wait(agent.start("w.again"), 20)["state"] == "done"
        with pytest.raises(RequestError, match=r"w\.unheard"):
            agent.stub("w.unheard", lambda: None)


def test_G1_the_store_has_the_name_that_the_settings_give(scene: Scene) -> None:
    async def story() -> None:
        for name in ("narval", "ada"):
            if name != "narval":
                scene.write("etc/narval.toml", f"name = '{name}'\n")
            daemon = await scene.open()
            assert daemon.agent.store.identity().name == name
            await scene.end()

    asyncio.run(story())


def test_a_home_in_memory_needs_no_disk() -> None:
    async def story() -> None:
        daemon = await Daemon.open(None)
        assert await daemon.host.submit(lambda turn: turn.add(b"<note/>")) == 1
        await daemon.close()

    asyncio.run(story())


def test_a_home_is_held_by_one_daemon(scene: Scene) -> None:
    async def story() -> None:
        await scene.open()
        with pytest.raises(narval.NarvalError, match="held"):
            await Daemon.open(Home(scene.home.path))
        await scene.end()

    asyncio.run(story())


# --- daemons of one program, one after the other ----------------------------------------------------------

BUSY = """
import asyncio, time
import narval
from narval import Output, action

@action(source=True, outputs=[Output("drop", "drop", list=True)])
async def drops():
    yield "<drop/>"
    narval.call().caught_up()
    await asyncio.sleep(3600)

@action()
async def sleeps():
    await asyncio.sleep(3600)

@action()
def thread():
    pass

@action(runs="worker")
def worker():
    raise ValueError("in a program of its own")
"""
BUSY_STEPS = "\n".join(
    f'<recipe group="busy" name="{name}" start_step="s" end_step="s">'
    f'<step id="s" type="action" target="busy.{name}" {limit}/></recipe>'
    for name, limit in (("drops", ""), ("sleeps", 'timeout="0.05"'), ("thread", ""), ("worker", ""))
)


@pytest.mark.parametrize("is_killed", [False, True])
def test_nothing_holds_a_daemon_that_has_ended(tmp_path: Path, is_killed: bool) -> None:
    scene = scene_in(tmp_path)
    scene.write("modules/busy.py", BUSY)
    scene.write("recipes/busy.xml", f"<cookbook>{BUSY_STEPS}</cookbook>")

    async def work() -> weakref.ref[Daemon]:
        daemon = await scene.open()
        daemon.follow_files()
        for name in ("drops", "sleeps", "thread", "worker"):
            await daemon.host.submit(lambda turn, name=name: turn.start(f"busy.{name}").eid)
        await daemon.main_loop.until_idle()
        assert {run.name for run in daemon.agent.runs.active.values()} == {"busy.drops"}
        if is_killed:
            scene.kill(daemon)
        await scene.end()
        return weakref.ref(daemon)

    async def one_after_the_other() -> list[Daemon | None]:
        ended = [await work() for _ in range(2)]
        gc.collect()
        return [reference() for reference in ended]

    assert asyncio.run(one_after_the_other()) == [None, None]
