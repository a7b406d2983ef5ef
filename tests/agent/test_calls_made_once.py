"""Calls that must not be made twice: the next daemon knows whether they had begun (N29, N35)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from narval.agent.loop import Delivery
from narval.agent.run import Run
from narval.ask.asker import Asker
from narval.ask.operations import invoke
from narval.ask.runs import history
from narval.calls.record import CallRecord
from narval.core.engines.events import Cancelled
from narval.daemon.daemon import Daemon
from tests.daemon.at_work import Killed, Scene, watched_commits

MODULE = """
import asyncio
import time
import narval
from narval import action

def noted():
    call = narval.call()
    with (call.home / "made").open("a") as file:
        file.write(call.step)

@action(runs="inline")
def inline(): noted()

@action
def thread(): noted()

@action(runs="worker")
def worker(): noted()

@action
async def coroutine(): noted()

@action
def busy():
    while not (narval.call().home / "go").exists():
        time.sleep(0.01)
"""
PLACES = ["inline", "thread", "worker", "coroutine"]


def _recipe(name: str, more: str = "") -> str:
    return (
        f'<recipe group="w" name="{name}{"" if more else "-again"}" start_step="s" end_step="s">'
        f'<step id="s" type="action" target="w.{name}" {more}/></recipe>'
    )


ANN = Asker("ann")
WORK = '<work group="w" name="allow"><title>?</title><outcome name="approve"/><outcome name="no"/></work>'
PEOPLE = """
[people.ann]
login = "ann"

[[approval]]
action = "w.busy"
work = "w.allow"
"""
RECIPES = "".join(_recipe(name, 'on-restart="error"') + _recipe(name) for name in [*PLACES, "busy"])


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path / "home", settings="threads = 1\n")
    scene.write("modules/w.py", MODULE)
    scene.write("recipes/w.xml", f"<cookbook>{RECIPES}</cookbook>")
    return scene


def told(scene: Scene, story: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    with watched_commits(scene):
        asyncio.run(story(scene))


def made(scene: Scene) -> int:
    file = scene.home.path / "made"
    return len(file.read_text()) if file.exists() else 0


def begun(daemon: Daemon, run: int) -> int:
    return [line["what"] for line in history.lines(daemon.agent.store, run)].count("CallStarting")


@pytest.mark.parametrize("place", PLACES)
def test_N29_only_a_call_that_must_not_be_made_twice_is_announced(scene: Scene, place: str) -> None:
    async def story(scene: Scene) -> None:
        daemon = await scene.open()
        for name, announced in ((f"w.{place}", 1), (f"w.{place}-again", 0)):
            run = await daemon.host.submit(lambda turn, name=name: turn.start(name))
            await daemon.host.ended(run, 60.0)
            assert (run.status, begun(daemon, run.eid)) == ("done", announced)
        assert made(scene) == 2
        await scene.end()

    told(scene, story)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("after", [True, False])
def test_N35_a_call_that_had_not_begun_is_begun_and_one_that_had_is_interrupted(
    scene: Scene, place: str, after: bool
) -> None:
    async def story(scene: Scene) -> None:
        words = []
        for kill in range(1, 12):
            before, scene.kill_at = made(scene), None
            daemon = await scene.open()
            scene.kill_at = (scene.commits + kill, after)
            run = None
            with suppress(Killed):
                run = await daemon.host.submit(lambda turn: turn.start(f"w.{place}"))
                await daemon.host.ended(run, 60.0)
            alive = scene.commits < scene.kill_at[0]
            await scene.end()
            scene.kill_at = None
            daemon = await scene.open()
            await daemon.main_loop.until_idle()
            if run is not None:
                again = daemon.agent.runs[run.eid]
                await daemon.host.ended(again, 60.0)
                words.append(again.status)
                # at most once; and if it never was, nobody says that it might have been
                assert made(scene) - before == 1 if again.status == "done" else made(scene) - before <= 1
            await scene.end()
            if alive:
                assert "failed" in words
                assert words[-1] == "done"
                return
        raise AssertionError("the story is longer than expected")

    told(scene, story)


def test_N35_a_call_that_waited_for_a_place_when_the_daemon_died_is_begun_by_the_next(scene: Scene) -> None:
    async def story(scene: Scene) -> None:
        daemon = await scene.open()
        busy = await daemon.host.submit(lambda turn: turn.start("w.busy"))
        await daemon.main_loop.work_until(
            lambda: daemon.calls.counts.running > 0 and begun(daemon, busy.eid) > 0
        )
        waits = await daemon.host.submit(lambda turn: turn.start("w.thread"))
        await daemon.main_loop.work_until(lambda: daemon.calls.counts.queued > 0)
        scene.kill(daemon)
        await scene.end()
        daemon = await scene.open()
        await daemon.host.ended(daemon.agent.runs[waits.eid], 60.0)
        assert daemon.agent.runs[waits.eid].status == "done"
        assert daemon.agent.runs[busy.eid].status == "failed"
        assert made(scene) == 1
        scene.write("go", "")
        await scene.end()

    told(scene, story)


async def killed_while_busy(scene: Scene) -> Run:
    """A run whose call, which may be made again, was under way as the daemon was killed."""
    daemon = await scene.open()
    run: Run = await daemon.host.submit(lambda turn: turn.start("w.busy-again"))
    await daemon.main_loop.work_until(lambda: daemon.calls.counts.running > 0)
    scene.kill(daemon)
    await scene.end()
    scene.write("go", "")
    return run


@pytest.mark.parametrize("granted", [True, False])
def test_N35_a_call_that_is_refused_after_a_kill_is_not_said_to_have_begun_again(
    scene: Scene, granted: bool
) -> None:
    async def story(scene: Scene) -> None:
        run = await killed_while_busy(scene)
        if not granted:
            scene.write("etc/narval.toml", 'grants = "ask"\n')
        daemon = await scene.open()
        again = daemon.agent.runs[run.eid]
        await daemon.host.ended(again, 60.0)
        assert (again.status, begun(daemon, run.eid)) == (("done", 1) if granted else ("failed", 0))
        await scene.end()

    told(scene, story)


def test_N35_a_call_that_a_new_rule_asks_about_after_a_kill_is_said_to_have_begun_again(scene: Scene) -> None:
    async def story(scene: Scene) -> None:
        run = await killed_while_busy(scene)
        scene.write("recipes/ask.xml", WORK)
        scene.write("etc/people.toml", PEOPLE)
        daemon = await scene.open()
        await daemon.main_loop.until_idle()
        assert begun(daemon, run.eid) == 0
        (item,) = await invoke(daemon, ANN, "worklist", {})
        await invoke(daemon, ANN, "answer", {"item": item["item"], "outcome": "approve"})
        again = daemon.agent.runs[run.eid]
        await daemon.host.ended(again, 60.0)
        assert (again.status, begun(daemon, run.eid)) == ("done", 1)
        await scene.end()

    told(scene, story)


@pytest.mark.parametrize("place", PLACES)
def test_a_run_that_is_cancelled_while_its_call_is_announced_makes_none(scene: Scene, place: str) -> None:
    async def story(scene: Scene) -> None:
        daemon = await scene.open()
        calls = daemon.host.dispatcher.calls
        announce = calls.announce

        def cancel_first(record: CallRecord) -> None:
            daemon.host.post(Delivery(record.call.run, Cancelled(0, 0.0)))
            announce(record)

        calls.announce = cancel_first  # type: ignore[method-assign]
        run = await daemon.host.submit(lambda turn: turn.start(f"w.{place}"))
        await daemon.host.ended(run, 60.0)
        await daemon.main_loop.until_idle()
        assert run.status == "cancelled"
        assert made(scene) == 0
        assert (daemon.calls.counts.running, daemon.calls.counts.given_up) == (0, 0)
        await scene.end()

    told(scene, story)
