"""Forgetting at scale: slice by slice, across crashes, and nothing is left behind (N5)."""

from __future__ import annotations

import asyncio
import gc
import resource
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from narval.agent import loop
from narval.agent.forgetting import FORGOTTEN_AT_ONCE
from narval.agent.timers import ForgetRun, TimerQueue
from narval.agent.turn import Turn
from narval.ask.asker import PROGRAM
from narval.ask.operations import invoke
from narval.ask.runs.acts import cancel, start
from narval.core.elements import changes
from narval.core.elements.element import Origin
from narval.daemon.daemon import Daemon
from narval.store.batch import Batch
from narval.system import stopwatch
from tests.daemon.at_work import Scene, in_a_loop, portrait, watched_commits

MODULE = """
from narval import action

@action(runs="inline")
def nothing():
    return []
"""
RECIPES = """<cookbook>
<recipe group="w" name="calls" decay="60" start_step="a" end_step="b">
  <step id="a" type="recipe" target="w.ends"/><step id="b" type="recipe" target="w.ends"/>
  <transition id="t"><in idref="a"/><out idref="b"/></transition>
</recipe>
<recipe group="w" name="ends" start_step="a" end_step="a">
  <step id="a" type="action" target="w.nothing"/>
</recipe>
<recipe group="w" name="decays" decay="864000" start_step="a" end_step="a">
  <step id="a" type="action" target="w.nothing"/>
</recipe>
<recipe group="w" name="waits" start_step="a" end_step="b">
  <step id="a" type="recipe" target="w.ends"/><step id="b" type="action" target="w.nothing"/>
  <transition id="t"><in idref="a"/><out idref="b"/>
    <condition><match>never</match></condition></transition>
</recipe>
</cookbook>"""


def scene_in(folder: Path, settings: str = "") -> Scene:
    scene = Scene(folder / "home", settings=settings)
    scene.write("modules/w.py", MODULE)
    scene.write("recipes/w.xml", RECIPES)
    return scene


def filled(turn: Turn, count: int, run: int | None = None, text: bytes = b"<mail/>") -> list[int]:
    """So many elements, held by a run."""
    eids = [turn.add(text, Origin(run) if run is not None else None) for _ in range(count)]
    if run is not None:
        turn.transaction.change(changes.Held(run, tuple(eids)))
    return eids


def rows(scene: Scene, table: str) -> int:
    with sqlite3.connect(scene.home.store) as database:
        (count,) = database.execute(f"SELECT count(*) FROM {table}").fetchone()
    database.close()
    return int(count)


async def ended(daemon: Daemon, name: str) -> int:
    """A run that is over."""
    run = await start(daemon, name, wait=True)
    assert run["phase"] == "done"
    return int(run["eid"])


@in_a_loop
async def test_N5_much_that_is_forgotten_goes_in_slices_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopwatch, "seconds", time.perf_counter)
    scene = scene_in(tmp_path)
    slices: list[int] = []

    def note(write: Any, store: Any, batches: tuple[Batch, ...]) -> None:
        slices.extend(len(batch.forgotten_elements) for batch in batches)
        write(store, *batches)

    scene.commit = note  # type: ignore[method-assign]
    with watched_commits(scene):
        daemon = await scene.open()
        before = {table: rows(scene, table) for table in ("elements", "contexts", "marks", "runs", "journal")}
        run = await ended(daemon, "w.calls")
        eids = await daemon.host.submit(lambda turn: filled(turn, 20 * FORGOTTEN_AT_ONCE, run))
        scope = ("w", "s", "i")
        await daemon.host.submit(lambda turn: turn.transaction.change(changes.Used(scope, tuple(eids[::2]))))
        scene.clock.advance(61.0)
        await daemon.main_loop.until_idle()
        assert sum(slices) == len(eids)
        assert 0 < max(slices) < len(eids)
        assert not daemon.agent.runs
        assert not daemon.agent.memory.marks[scope]
        assert list(daemon.agent.memory.named(["mail"])) == []
        await scene.end()
    assert before == {table: rows(scene, table) for table in before}
    assert rows(scene, "moments") == 0


@in_a_loop
async def test_N5_a_run_is_forgotten_without_a_look_at_all_that_is_to_be_done_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = scene_in(tmp_path)
    daemon = await scene.open()
    await ended(daemon, "w.calls")
    looked: list[TimerQueue[Any, Any]] = []
    monkeypatch.setattr(TimerQueue, "waiting", lambda queue: looked.append(queue) or [])
    scene.clock.advance(61.0)
    await daemon.main_loop.until_idle()
    assert not daemon.agent.runs
    assert looked == []
    await scene.end()


class RoomForOne:
    """Room for one event: the first."""

    def __init__(self, events: int, seconds: float = 0.0) -> None:
        self._is_free, self.is_over = True, False

    def spend(self) -> bool:
        self.is_over, self._is_free = not self._is_free, False
        return not self.is_over


@in_a_loop
async def test_N5_N35_forgetting_that_is_interrupted_is_ended_by_the_next_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "TurnBudget", RoomForOne)
    scene = scene_in(tmp_path)
    with watched_commits(scene):
        daemon = await scene.open()
        run, other = await ended(daemon, "w.calls"), await ended(daemon, "w.ends")
        eids = await daemon.host.submit(lambda turn: filled(turn, 5 * FORGOTTEN_AT_ONCE, run))
        shared = tuple(eids[1 :: FORGOTTEN_AT_ONCE // 2])
        await daemon.host.submit(lambda turn: turn.transaction.change(changes.Held(other, shared)))
        await daemon.host.submit(lambda turn: turn.transaction.later(turn.at, ForgetRun(run)))
        while len(list(daemon.agent.memory.named(["mail"]))) == len(eids):
            daemon.store.commit(daemon.host.loop.decide(daemon.rounds.clock.now()).transaction.batch)
        assert run in daemon.agent.runs
        known = portrait(daemon.agent)
        scene.kill(daemon)
        await scene.end()
        assert portrait((await scene.open(record_only=True)).agent) == known
        await scene.end()
        daemon = await scene.open()
        await daemon.main_loop.until_idle()
        assert run not in daemon.agent.runs
        assert tuple(daemon.agent.memory.named(["mail"])) == shared
        assert tuple(daemon.agent.memory.contexts.of(other)) == shared
        await scene.end()
    assert rows(scene, "contexts") == len(shared)


@in_a_loop
async def test_N5_forget_after_forgets_runs_that_are_over(tmp_path: Path) -> None:
    scene = scene_in(tmp_path, 'forget_after = "1h"\n')
    daemon = await scene.open()
    quick, slow = await ended(daemon, "w.ends"), await ended(daemon, "w.decays")
    waits = (await start(daemon, "w.waits"))["eid"]
    await daemon.main_loop.until_idle()
    (called,) = (run.eid for run in daemon.agent.runs.values() if run.caller is not None)
    await daemon.main_loop.elapse(3599.0)
    assert {quick, slow, waits, called} == set(daemon.agent.runs)
    await scene.end()
    daemon = await scene.open()
    await daemon.main_loop.elapse(2.0)
    # one that decays has a time of its own, and one that was called stays while its caller goes on
    assert {slow, waits, called} == set(daemon.agent.runs)
    await cancel(daemon, waits)
    await daemon.main_loop.elapse(3 * 3600.0)
    assert {slow} == set(daemon.agent.runs)
    await daemon.main_loop.elapse(10 * 86400.0)
    assert not daemon.agent.runs
    await scene.end()
    assert rows(scene, "journal") == 0


# --- a million ------------------------------------------------------------------------------------------

TEXT = b'<mail from="ann@example.org" subject="Re: Monday" size="5120" list="dev" seen="no"/>'
MANY = 1_000_000


def resident() -> float:
    """Megabytes this program occupies."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


async def watched(daemon: Daemon, over: Callable[[], bool]) -> tuple[float, float, float]:
    """Work until something is so: seconds, the longest turn, the longest that `status` took meanwhile."""
    longest, slowest = 0.0, 0.0
    decide, commit, began = daemon.host.loop.decide, daemon.store.commit, 0.0

    def timed_decide(now: float) -> Turn:
        nonlocal began
        began = time.perf_counter()
        return decide(now)

    def timed_commit(*batches: Batch) -> None:
        nonlocal longest
        commit(*batches)
        longest = max(longest, time.perf_counter() - began)

    daemon.host.loop.decide, daemon.store.commit = timed_decide, timed_commit  # type: ignore[method-assign]
    start = time.perf_counter()
    work = asyncio.create_task(daemon.main_loop.work_until(over))
    while not work.done():
        before = time.perf_counter()
        await asyncio.sleep(0.0)
        await invoke(daemon, PROGRAM, "status", {})
        slowest = max(slowest, time.perf_counter() - before)
    await work
    daemon.host.loop.decide, daemon.store.commit = decide, commit  # type: ignore[method-assign]
    return time.perf_counter() - start, longest, slowest


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", ["idle", "decay"])
@in_a_loop
async def test_N5_a_million_elements_are_forgotten_without_a_pause(tmp_path: Path, how: str) -> None:
    scene = scene_in(tmp_path, 'forget_after = "1h"\n' if how == "idle" else "")
    daemon = await scene.open()
    run = await ended(daemon, "w.calls") if how == "decay" else None
    empty = resident()
    for _ in range(MANY // 10_000):
        await daemon.host.submit(lambda turn: filled(turn, 10_000, run, TEXT))
    full = resident()
    scene.clock.advance(4000.0)
    memory = daemon.agent.memory
    seconds, longest, slowest = await watched(daemon, lambda: not any(memory.named(["mail"])))
    gc.collect()
    left = resident()
    print(
        f"\n{how}: {MANY:,} elements in {seconds:.1f} s; longest turn {longest * 1e3:.0f} ms, "
        f"a status asked meanwhile {slowest * 1e3:.0f} ms; "
        f"{empty:.0f} MB empty, {full:.0f} MB full, {left:.0f} MB afterwards"
    )
    for _ in range(MANY // 10_000):
        await daemon.host.submit(lambda turn: filled(turn, 10_000, None, TEXT))
    print(f"filled again {resident():.0f} MB")
    assert resident() < 1.2 * full
    await scene.end()


@in_a_loop
async def test_ended_runs_share_their_empty_requests_also_after_a_start(tmp_path: Path) -> None:
    scene = scene_in(tmp_path)
    daemon = await scene.open()
    eids = [(await start(daemon, "w.ends"))["eid"] for _ in range(3)]
    await daemon.main_loop.until_idle()
    before = [daemon.agent.runs[eid] for eid in eids]
    await scene.end()
    daemon = await scene.open()
    after = [daemon.agent.runs[eid] for eid in eids]
    for runs in (before, after):
        assert len({id(requests) for run in runs for requests in (run.calls, run.reserved)}) == 1
    await scene.end()
