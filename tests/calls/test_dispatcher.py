"""Calls are made once and answered once: of actions and of runs, given up, taken up again, refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from narval.agent.agent import AgentState
from narval.agent.loop import Delivery
from narval.calls import dispatcher
from narval.calls.executor import Executor
from narval.core.engines.events import Cancelled
from narval.daemon.daemon import Daemon
from tests.daemon.at_work import Killed, Scene, watched_commits

MODULE = """
import asyncio
import narval
from narval import Input, Output, action

made = []

@action(runs="inline")
def nothing():
    made.append(narval.call().step)

@action
async def sleeps():
    made.append(narval.call().id)
    await asyncio.sleep(3600)

@action(outputs=[Output("note", "note")], runs="inline")
def note():
    return "<note/>"
"""


def _recipe(name: str, kind: str, target: str, more: str = "") -> str:
    return (
        f'<recipe group="w" name="{name}" start_step="s" end_step="s" {more}>'
        f'<step id="s" type="{kind}" target="{target}"/></recipe>'
    )


RECIPES = f"""<cookbook>
{_recipe("note", "action", "w.note")}
{_recipe("sleeps", "action", "w.sleeps")}
{_recipe("calls-note", "recipe", "w.note")}
{_recipe("calls-sleeps", "recipe", "w.sleeps")}
{_recipe("calls-calls-sleeps", "recipe", "w.calls-sleeps")}
</cookbook>"""


def scene_in(folder: Path, **options: Any) -> Scene:
    scene = Scene(folder / "home", **options)
    scene.write("modules/w.py", MODULE)
    scene.write("recipes/w.xml", RECIPES)
    return scene


def told(scene: Scene, story: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    with watched_commits(scene):
        asyncio.run(story(scene))


async def works(daemon: Daemon, fact: Callable[[], Any]) -> None:
    """Let the daemon work until something is so."""
    await asyncio.wait_for(daemon.main_loop.work_until(lambda: bool(fact())), 20.0)


def _words(agent: AgentState) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for run in agent.runs.values():
        found.setdefault(run.name, []).append(run.status)
    return found


# --- runs that answer calls -----------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 1000])
@pytest.mark.parametrize("after", [True, False])
def test_N35_a_call_is_answered_by_one_run_whenever_the_daemon_is_killed(
    tmp_path: Path, limit: int, after: bool
) -> None:
    async def story(scene: Scene) -> None:
        for kill in range(1, 30):
            scene.kill_at = None
            daemon = await scene.open()
            before = len(daemon.agent.runs)
            await daemon.host.submit(lambda turn: turn.start("w.calls-note"))
            scene.kill_at = (scene.commits + kill, after)
            with suppress(Killed):
                await daemon.main_loop.until_idle()
            alive = scene.commits < scene.kill_at[0]
            await scene.end()
            scene.kill_at = None
            daemon = await scene.open()
            await daemon.main_loop.until_idle()
            assert len(daemon.agent.runs) == before + 2
            assert {word for words in _words(daemon.agent).values() for word in words} == {"done"}
            await scene.end()
            if alive:
                return
        raise AssertionError("the story is longer than expected")

    told(scene_in(tmp_path, limit=limit), story)


def test_a_run_whose_caller_is_cancelled_is_cancelled_too(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        daemon = await scene.open()
        run = await daemon.host.submit(lambda turn: turn.start("w.calls-calls-sleeps"))
        await works(daemon, lambda: daemon.calls.counts.running)
        daemon.host.post(Delivery(run.eid, Cancelled(0, 0.0)))
        await daemon.main_loop.until_idle()
        assert {run.status for run in daemon.agent.runs.values()} == {"cancelled"}
        assert daemon.calls.counts.running == 0
        await scene.end()

    told(scene_in(tmp_path), story)


@pytest.mark.parametrize("quiet", [True, False])
def test_a_run_whose_caller_was_cancelled_just_before_a_kill_is_cancelled_by_the_next_daemon(
    tmp_path: Path, quiet: bool
) -> None:
    async def story(scene: Scene) -> None:
        daemon = await scene.open()
        run = await daemon.host.submit(lambda turn: turn.start("w.calls-calls-sleeps"))
        await works(daemon, lambda: daemon.calls.counts.running)
        if quiet:  # someone cancels it while no daemon runs
            scene.kill(daemon)
            await scene.end()
            daemon = await scene.open(record_only=True)
        else:
            scene.kill_at = (scene.commits + 1, True)
        daemon.host.post(Delivery(run.eid, Cancelled(0, 0.0)))
        with suppress(Killed):
            await daemon.host.submit(lambda turn: None)
        await scene.end()
        scene.kill_at = None
        daemon = await scene.open()
        await daemon.main_loop.until_idle()
        assert {run.status for run in daemon.agent.runs.values()} == {"cancelled"}
        await scene.end()

    told(scene_in(tmp_path), story)


def test_a_run_that_ends_in_the_turn_in_which_its_caller_is_cancelled_harms_nobody(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        daemon = await scene.open()
        run = await daemon.host.submit(lambda turn: turn.start("w.calls-sleeps"))
        await works(daemon, lambda: daemon.calls.counts.running)
        (child,) = daemon.agent.runs.children[run.eid]
        daemon.host.post(Delivery(child, Cancelled(0, 0.0)))  # its return is queued behind …
        daemon.host.post(Delivery(run.eid, Cancelled(0, 0.0)))  # … the end of its caller
        await daemon.main_loop.until_idle()
        assert {run.status for run in daemon.agent.runs.values()} == {"cancelled"}
        await scene.end()

    told(scene_in(tmp_path), story)


def test_runs_nest_200_deep_and_the_family_is_forgotten_whole(tmp_path: Path) -> None:
    depth = 200
    scene = scene_in(tmp_path)
    scene.write("etc/narval.toml", f"run_depth = {depth + 1}\n")
    deep = [
        _recipe(f"r{at}", "recipe", f"w.r{at + 1}", 'decay="5"' if at == 0 else "") for at in range(depth)
    ]
    scene.write(
        "recipes/deep.xml", f"<cookbook>{''.join(deep)}{_recipe(f'r{depth}', 'action', 'w.note')}</cookbook>"
    )

    async def story(scene: Scene) -> None:
        daemon = await scene.open()
        await daemon.host.submit(lambda turn: turn.start("w.r0"))
        await daemon.main_loop.until_idle()
        assert len(daemon.agent.runs) == depth + 1
        assert {run.status for run in daemon.agent.runs.values()} == {"done"}
        assert list(daemon.agent.memory.named(["note"]))
        last = daemon.agent.memory.next_eid
        await daemon.main_loop.elapse(6.0)
        assert not daemon.agent.runs
        assert not daemon.agent.runs.children
        assert not list(daemon.agent.memory.named(["note"]))
        scene.kill(daemon)
        await scene.end()
        daemon = await scene.open()
        assert daemon.agent.memory.next_eid >= last
        await scene.end()

    told(scene, story)


# --- calls of actions -----------------------------------------------------------------------------------


def test_a_call_of_what_is_not_there_any_more_comes_back_as_a_problem(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        daemon = await scene.open()
        await daemon.host.submit(lambda turn: turn.start("w.sleeps"))
        await works(daemon, lambda: daemon.calls.counts.running)
        scene.kill(daemon)
        await scene.end()
        scene.write("modules/w.py", "")
        daemon = await scene.open()
        await daemon.main_loop.until_idle()
        (run,) = daemon.agent.runs.values()
        assert run.status == "failed"
        await scene.end()

    told(scene_in(tmp_path), story)


@pytest.mark.parametrize("is_at_once", [True, False])
def test_a_call_that_cannot_be_made_costs_its_step_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_at_once: bool
) -> None:
    def refuse(*arguments: Any) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(Executor, "answers_inline_calls", is_at_once)
    monkeypatch.setattr(Executor, "start", refuse)
    monkeypatch.setattr(dispatcher, "answer_at_once", refuse)

    async def story(scene: Scene) -> None:
        daemon = await scene.open()
        run = await daemon.host.submit(lambda turn: turn.start("w.note"))
        await daemon.main_loop.until_idle()
        assert run.status == "failed"
        error = daemon.agent.memory.element(run.error)
        assert error is not None
        assert b"no room" in error.xml
        await scene.end()

    told(scene_in(tmp_path), story)
