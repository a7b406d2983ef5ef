"""Calls that are tried again and runs with a time limit, through the real loop and store (N29, N35)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from narval.agent.loop import Delivery
from narval.core.elements.element import Element
from narval.core.engines.events import Cancelled
from narval.daemon.daemon import Daemon
from tests.daemon.at_work import Killed, Scene, portrait, watched_commits

MODULE = """
import asyncio
import os
import threading
import time
import narval
from narval import ActionError, Input, Output, action

made = []
goes_on = threading.Event()

@action(inputs=[Input("at", "well-at")], outputs=[Output("note", "note")], runs="inline")
def stubborn(at):
    call = narval.call()
    made.append((call.id, call.attempt))
    if call.attempt < int(at.attributes["try"]):
        raise OSError("no line")
    return f"<note try='{call.attempt}'/>"

@action(outputs=[Output("note", "note")])
def in_a_thread():
    return once_slow()

@action(outputs=[Output("note", "note")], runs="worker")
def in_a_worker():
    if narval.call().attempt == 1:
        time.sleep(60)
    return f"<note try='{narval.call().attempt}'/>"

def once_slow():
    if narval.call().attempt == 1:
        goes_on.wait()
    return f"<note try='{narval.call().attempt}'/>"

@action(outputs=[Output("note", "note")])
async def in_the_loop():
    if narval.call().attempt == 1:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(3600)
    return f"<note try='{narval.call().attempt}'/>"

@action(runs="worker", outputs=[Output("note", "note")])
def dies():
    if narval.call().attempt == 1:
        os._exit(3)
    return "<note try='2'/>"

@action(runs="inline")
def hopeless():
    made.append(narval.call().attempt)
    raise ActionError("no such mailbox", "gone", final=True)

@action(outputs=[Output("tick", "tick", list=True)], source=True)
async def ticks():
    yield f"<tick try='{narval.call().attempt}'/>"
    raise OSError("no line")

@action
async def sleeps():
    await asyncio.sleep(3600)
"""


def _recipe(name: str, target: str, more: str = "", kind: str = "action", inside: str = "") -> str:
    return (
        f'<recipe group="w" name="{name}" start_step="s" end_step="s">'
        f'<step id="s" type="{kind}" target="{target}" {more}>{inside}</step></recipe>'
    )


AGAIN = 'retries="3" backoff="100"'
RECIPES = f"""<cookbook>
{_recipe("stubborn", "w.stubborn", AGAIN)}
{_recipe("hopeless", "w.hopeless", AGAIN)}
{_recipe("thread", "w.in_a_thread", 'timeout="0.5" retries="1" backoff="0"')}
{_recipe("worker", "w.in_a_worker", 'timeout="1" retries="1" backoff="0"')}
{_recipe("loop", "w.in_the_loop", 'timeout="0.5" retries="1" backoff="0"')}
{_recipe("dies", "w.dies", 'retries="1" backoff="0"')}
{_recipe("ticks", "w.ticks", 'retries="1" backoff="100"')}
{_recipe("once-stubborn", "w.stubborn")}
{_recipe("nested", "w.once-stubborn", AGAIN, "recipe")}
{_recipe("sleeps", "w.sleeps")}
{_recipe("limited", "w.sleeps", 'timeout="50" retries="1" backoff="100"', "recipe")}
</cookbook>"""


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path / "home")
    scene.write("modules/w.py", MODULE)
    scene.write("recipes/w.xml", RECIPES)
    return scene


def told(scene: Scene, story: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    with watched_commits(scene):
        asyncio.run(story(scene))


def of_module(daemon: Daemon, name: str) -> Any:
    """What has a name in the module of this daemon."""
    return daemon.files.loaded.functions["w.stubborn"].__globals__[name]


def made(daemon: Daemon) -> list[Any]:
    """The calls that the module of this daemon has answered."""
    calls: list[Any] = of_module(daemon, "made")
    return calls


def named(daemon: Daemon, name: str) -> list[Element]:
    memory = daemon.agent.memory
    found = [memory.element(eid) for eid in memory.named([name])]
    return [element for element in found if element is not None]


async def begin(daemon: Daemon, name: str, well_at: int = 2) -> Any:
    await daemon.host.submit(lambda turn: turn.add(b'<well-at try="%d"/>' % well_at))
    return await daemon.host.submit(lambda turn: turn.start(name))


def test_N29_a_call_is_tried_again_when_its_moment_comes_with_the_same_id(scene: Scene) -> None:
    async def story(scene: Scene) -> None:
        daemon = await scene.open()
        run = await begin(daemon, "w.stubborn", 3)
        await daemon.main_loop.until_idle()
        await daemon.main_loop.elapse(99)
        assert len(made(daemon)) == 1
        await daemon.main_loop.elapse(51)
        await daemon.main_loop.elapse(301)
        assert run.status == "done"
        assert [attempt for _, attempt in made(daemon)] == [1, 2, 3]
        assert len({call for call, _ in made(daemon)}) == 1
        assert [each.attributes["try"] for each in named(daemon, "note")] == ["3"]
        assert not named(daemon, "error")
        await scene.end()

    told(scene, story)


def test_N29_a_final_error_is_not_tried_again(scene: Scene) -> None:
    async def story(scene: Scene) -> None:
        daemon = await scene.open()
        run = await begin(daemon, "w.hopeless")
        await daemon.main_loop.until_idle()
        assert run.status == "failed"
        assert made(daemon) == [1]
        await scene.end()

    told(scene, story)


@pytest.mark.parametrize("name", ["w.thread", "w.worker", "w.loop", "w.dies"])
def test_N29_a_call_that_outlives_its_limit_or_kills_its_worker_is_tried_again(
    scene: Scene, name: str
) -> None:
    async def story(scene: Scene) -> None:
        daemon = await scene.open()
        run = await begin(daemon, name)
        await daemon.host.ended(run, 60.0)
        assert run.status == "done"
        assert [each.attributes["try"] for each in named(daemon, "note")] == ["2"]
        if name == "w.thread":  # what the first try brings late is dropped
            of_module(daemon, "goes_on").set()
            while daemon.calls.counts.given_up:
                await asyncio.sleep(0.005)
        await daemon.main_loop.until_idle()
        assert len(named(daemon, "note")) == 1
        await scene.end()

    told(scene, story)


def test_N36_a_source_that_breaks_is_begun_again_after_its_backoff(scene: Scene) -> None:
    async def story(scene: Scene) -> None:
        daemon = await scene.open()
        run = await begin(daemon, "w.ticks")
        for _ in range(3):
            await daemon.main_loop.until_idle()
            await daemon.main_loop.elapse(151)
        await daemon.main_loop.until_idle()
        assert run.active  # each time it gives something before it breaks
        assert [each.attributes["try"] for each in named(daemon, "tick")] == ["1", "2", "2", "2"]
        await scene.end()

    told(scene, story)


@pytest.mark.parametrize("name", ["w.stubborn", "w.nested"])
def test_N35_what_waits_for_its_next_try_is_the_same_after_a_restart_and_due_at_the_start(
    scene: Scene, name: str
) -> None:
    async def story(scene: Scene) -> None:
        daemon = await scene.open()
        run = await begin(daemon, name, 9 if name == "w.nested" else 2)
        await daemon.main_loop.until_idle()
        before = portrait(daemon.agent)
        await scene.end()
        daemon = await scene.open()
        await daemon.main_loop.until_idle()
        after = portrait(daemon.agent)
        assert {key: after[key] for key in before} == before
        await scene.end()
        scene.clock.advance(1000)
        daemon = await scene.open()
        await daemon.main_loop.until_idle()
        now = daemon.agent.runs[run.eid]
        if name == "w.stubborn":
            assert now.status == "done"
            assert [attempt for _, attempt in made(daemon)] == [2]
        else:
            assert [each.name for each in daemon.agent.runs.values()].count("w.once-stubborn") == 2
        await scene.end()

    told(scene, story)


@pytest.mark.parametrize("name", ["w.stubborn", "w.nested"])
@pytest.mark.parametrize("after", [True, False])
def test_N35_a_call_is_tried_as_often_as_its_step_says_whenever_the_daemon_is_killed(
    scene: Scene, name: str, after: bool
) -> None:
    async def story(scene: Scene) -> None:
        for kill in range(1, 40):
            scene.kill_at = None
            daemon = await scene.open()
            run = await begin(daemon, name, 9)
            scene.kill_at = (scene.commits + kill, after)
            with suppress(Killed):
                await daemon.main_loop.elapse(3000)
            alive = scene.commits < scene.kill_at[0]
            await scene.end()
            scene.kill_at = None
            daemon = await scene.open()
            await daemon.main_loop.elapse(3000)
            assert daemon.agent.runs[run.eid].status == "failed"
            await _check(scene, daemon, run.eid, name)
            await scene.end()
            if alive:
                return
        raise AssertionError("the story is longer than expected")

    told(scene, story)


async def _check(scene: Scene, daemon: Daemon, run: int, name: str) -> None:
    """Four tries were recorded, whatever happened in between."""
    history = [str(change) for row in daemon.agent.store.journal(run) for change in [row.data]]
    assert sum("TryFailed" in each for each in history) == 3
    assert sum("NextTryMade" in each for each in history) == 3
    if name == "w.nested":
        children = [each for each in daemon.agent.runs.values() if each.caller and each.caller.run == run]
        assert len(children) == 4


def test_N29_a_run_that_outlives_its_limit_is_cancelled_and_run_again(scene: Scene) -> None:
    async def story(scene: Scene) -> None:
        daemon = await scene.open()
        run = await begin(daemon, "w.limited")
        await daemon.main_loop.work_until(lambda: daemon.calls.counts.running > 0)
        scene.clock.advance(51)
        daemon.main_loop.wake()
        await daemon.main_loop.until_idle()
        (first,) = (each for each in daemon.agent.runs.values() if each.name == "w.sleeps")
        assert first.status == "cancelled"
        assert run.active
        scene.clock.advance(151)
        daemon.main_loop.wake()
        await daemon.main_loop.work_until(lambda: daemon.calls.counts.running > 0)
        await scene.end()
        scene.clock.advance(51)  # the limit holds across a restart
        daemon = await scene.open()
        await daemon.main_loop.until_idle()
        assert daemon.agent.runs[run.eid].status == "failed"
        (error,) = named(daemon, "error")
        assert (error.attributes["type"], error.attributes["tries"]) == ("timeout", "2")
        assert {each.status for each in daemon.agent.runs.values() if each.name == "w.sleeps"} == {
            "cancelled"
        }
        await scene.end()

    told(scene, story)


def test_N29_a_run_that_is_cancelled_while_a_call_waits_tries_nothing_again(scene: Scene) -> None:
    async def story(scene: Scene) -> None:
        daemon = await scene.open()
        run = await begin(daemon, "w.stubborn")
        await daemon.main_loop.until_idle()
        daemon.host.post(Delivery(run.eid, Cancelled(0, 0.0)))
        await daemon.main_loop.until_idle()
        assert run.status == "cancelled"
        assert daemon.agent.clockwork.timers.next() is None
        await daemon.main_loop.elapse(1000)
        assert len(made(daemon)) == 1
        await scene.end()

    told(scene, story)


def test_N5_what_a_call_will_be_given_again_is_not_forgotten_meanwhile(scene: Scene) -> None:
    scene.write("etc/narval.toml", 'forget_after = "20s"\n')

    async def story(scene: Scene) -> None:
        daemon = await scene.open()
        run = await begin(daemon, "w.stubborn", 3)
        await daemon.main_loop.elapse(600)
        assert run.status == "done"
        await daemon.main_loop.elapse(100)
        assert not named(daemon, "well-at")
        await scene.end()

    told(scene, story)
