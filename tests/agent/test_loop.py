"""The loop: what waits is taken in bounds, recorded before it is performed, and answered after that."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from narval.agent import agent as agents
from narval.agent.loop import Delivery, Request
from narval.agent.run import Run
from narval.calls.dispatcher import Dispatcher
from narval.core.engines.commands import Outer
from narval.core.engines.events import Cancelled, Event
from narval.core.errors import InternalError, RequestError, StoreError
from narval.store.batch import Batch
from narval.system import stopwatch
from tests.daemon.at_work import Killed, Scene, watched_commits

MODULE = """
from narval import action

@action(runs="inline")
def nothing():
    return None
"""
WAITS = """<recipe group="w" name="waits" start_step="s" end_step="e">
  <step id="s" type="action" target="w.nothing"/><step id="e" type="action" target="w.nothing"/>
  <transition id="t"><in idref="s"/><out idref="e"/>
    <condition use="yes"><match>mail</match></condition></transition>
</recipe>"""


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return _scene(tmp_path)


def _scene(folder: Path, **options: Any) -> Scene:
    scene = Scene(folder / "home", **options)
    scene.write("modules/w.py", MODULE)
    scene.write("recipes/w.xml", WAITS)
    return scene


def test_nothing_is_performed_and_nobody_is_answered_before_the_commit(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    dispatch = Dispatcher.dispatch

    def noted_dispatch(dispatcher: Dispatcher, run: Run, command: Outer) -> Event | None:
        order.append("perform")
        return dispatch(dispatcher, run, command)

    monkeypatch.setattr(Dispatcher, "dispatch", noted_dispatch)

    async def story() -> None:
        daemon = await scene.open()
        commit = daemon.store.commit

        def noted_commit(*batches: Batch) -> None:
            commit(*batches)
            order.append("commit")

        daemon.store.commit = noted_commit  # type: ignore[method-assign]
        daemon.host.post(
            Request(lambda turn: turn.start("w.waits"), lambda result, error: order.append("answer"))
        )
        await daemon.main_loop.until_idle()
        await scene.end()

    asyncio.run(story())
    assert order[:3] == ["commit", "perform", "answer"]


PURE = """
from narval import Input, Output, action

noted = []

@action(inputs=[Input("x", "x")], outputs=[Output("x", "x")], runs="inline", pure=True)
def more(x):
    noted.append("pure")
    return f"<x n='{int(x.attributes['n']) + 1}'/>"

@action(inputs=[Input("x", "x")], runs="inline")
def tell(x):
    noted.append("tell " + x.attributes["n"])
"""
COUNTS = """<recipe group="p" name="counts" start_step="a" end_step="d">
  <step id="a" type="action" target="p.more"/><step id="b" type="action" target="p.more"/>
  <step id="c" type="action" target="p.tell"/><step id="d" type="action" target="p.more"/>
  <transition id="ab"><in idref="a"/><out idref="b"/></transition>
  <transition id="bc"><in idref="b"/><out idref="c"/></transition>
  <transition id="cd"><in idref="c"/><out idref="d"/></transition>
</recipe>"""


def test_pure_calls_do_not_wait_for_a_commit_and_no_other_goes_before_it(scene: Scene) -> None:
    scene.write("modules/p.py", PURE)
    scene.write("recipes/p.xml", COUNTS)

    async def story() -> None:
        daemon = await scene.open()
        noted = daemon.files.loaded.functions["p.more"].__globals__["noted"]
        commit = daemon.store.commit

        def noted_commit(*batches: Batch) -> None:
            commit(*batches)
            noted.append("commit")

        daemon.store.commit = noted_commit  # type: ignore[method-assign]
        await daemon.host.submit(lambda turn: (turn.add(b"<x n='0'/>"), turn.start("p.counts")))
        await daemon.main_loop.until_idle()
        assert noted == ["pure", "pure", "commit", "tell 2", "pure", "commit"]
        await scene.end()

    asyncio.run(story())


def test_a_request_that_breaks_down_is_answered_and_the_daemon_goes_on(scene: Scene) -> None:
    async def story() -> None:
        daemon = await scene.open()

        def on_engine_error(turn: Any) -> None:
            turn.add(b"<half/>")
            raise ZeroDivisionError("a bug")

        with pytest.raises(InternalError, match="a bug"):
            await daemon.host.submit(on_engine_error)
        with pytest.raises(RequestError, match="no"):
            await daemon.host.submit(lambda turn: (_ for _ in ()).throw(RequestError("no")))
        assert await daemon.host.submit(lambda turn: turn.add(b"<whole/>"))
        scene.kill(daemon)
        names = {element.name for eid in daemon.agent.memory if (element := daemon.agent.memory.element(eid))}
        await scene.end()
        daemon = await scene.open()
        again = {element.name for eid in daemon.agent.memory if (element := daemon.agent.memory.element(eid))}
        assert again == names
        await scene.end()

    asyncio.run(story())


def test_events_left_over_by_the_limit_are_recorded_and_taken_first(tmp_path: Path) -> None:
    scene = _scene(tmp_path, limit=1)

    async def story() -> None:
        daemon = await scene.open()
        runs = [await daemon.host.submit(lambda turn: turn.start("w.waits")) for _ in range(5)]
        await daemon.main_loop.until_idle()
        assert {run.status for run in runs} == {"running"}
        scene.kill_at = (scene.commits + 1, True)  # the mails are there, and nobody has been told
        with pytest.raises(Killed):
            await daemon.host.submit(lambda turn: [turn.add(b"<mail/>") for _ in range(5)])
        await scene.end()
        scene.kill_at = None
        daemon = await scene.open()
        assert len(daemon.agent.queue) > 1
        await daemon.main_loop.until_idle()
        assert {run.status for run in daemon.agent.runs.values()} == {"done"}
        assert not daemon.agent.store.queue()
        await scene.end()

    with watched_commits(scene):
        asyncio.run(story())


def test_a_quiet_opening_records_what_is_asked_and_tells_no_run(scene: Scene) -> None:
    async def story() -> None:
        daemon = await scene.open(record_only=True)
        run = await daemon.host.submit(lambda turn: turn.start("w.waits"))
        await daemon.host.submit(lambda turn: turn.add(b"<mail/>"))
        await daemon.main_loop.until_idle()
        assert run.status == "ready"
        await scene.end()
        daemon = await scene.open()
        await daemon.main_loop.until_idle()
        assert daemon.agent.runs[run.eid].status == "done"
        await scene.end()

    asyncio.run(story())


def test_N1_no_number_is_ever_given_twice_whatever_is_forgotten_and_whenever_it_is_killed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "SEQUENCE_BLOCK", 3)

    async def story() -> None:
        seen: set[int] = set()
        events: set[int] = set()
        for _ in range(6):
            daemon = await scene.open()
            eid = await daemon.host.submit(lambda turn: turn.add(b"<note/>"))
            run = await daemon.host.submit(lambda turn: turn.start("w.waits"))
            assert {eid, run.eid}.isdisjoint(seen)
            seen |= {eid, run.eid}
            await daemon.main_loop.until_idle()
            daemon.host.post(Delivery(run.eid, Cancelled(0, 0.0)))
            await daemon.main_loop.until_idle()
            rows = {row.seq for row in daemon.agent.store.journal(run.eid)}
            assert rows.isdisjoint(events)
            events |= rows
            await daemon.host.submit(lambda turn, gone=(eid, run.eid): _forget(turn, *gone))
            scene.kill(daemon)
            await scene.end()

    with watched_commits(scene):
        asyncio.run(story())


def _forget(turn: Any, eid: int, run: int) -> None:
    from narval.agent.forgetting import forget
    from narval.core.elements.changes import Forgotten

    forget(turn.transaction, Forgotten(eids=(eid,), runs=(run,)))


def test_a_commit_that_fails_tells_all_who_wait_and_performs_nothing(scene: Scene) -> None:
    async def story() -> None:
        daemon = await scene.open()
        waiting = await daemon.host.submit(lambda turn: turn.start("w.waits"))
        await daemon.main_loop.until_idle()
        work = asyncio.create_task(daemon.main_loop.run())
        over = asyncio.create_task(daemon.host.ended(waiting))
        await asyncio.sleep(0.01)
        daemon.store.commit = _full  # type: ignore[method-assign]
        adding = [
            asyncio.create_task(daemon.host.submit(lambda turn: turn.add(b"<mail/>"))) for _ in range(3)
        ]
        for task in (*adding, over, work):
            with pytest.raises(StoreError, match="full"):
                await asyncio.wait_for(task, 60.0)
        with pytest.raises(StoreError, match="full"):
            await daemon.host.submit(lambda turn: turn.add(b"<mail/>"))
        with pytest.raises(StoreError, match="full"):
            await daemon.rounds.recorded()
        assert daemon.calls.counts.running == 0
        await scene.end()

    asyncio.run(story())


def _full(*batches: Batch) -> None:
    raise StoreError("the disk is full")


def test_a_flood_is_taken_in_slices_so_that_who_asks_is_not_kept_waiting(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopwatch, "seconds", time.perf_counter)

    async def story() -> None:
        daemon = await scene.open()
        for _ in range(10):
            await daemon.host.submit(lambda turn: [turn.start("w.waits") for _ in range(100)])
        await daemon.main_loop.until_idle()
        work = asyncio.create_task(daemon.main_loop.run())
        flood = [
            asyncio.create_task(daemon.host.submit(lambda turn: [turn.add(b"<mail/>") for _ in range(100)]))
            for _ in range(10)
        ]
        longest, last = 0.0, time.perf_counter()
        turns = daemon.host.loop.turns
        while not all(task.done() for task in flood) or daemon.host.loop.has_work():
            await asyncio.sleep(0)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now
        assert daemon.host.loop.turns - turns > 10  # 2,000 events, and not in 2 turns
        assert {run.status for run in daemon.agent.runs.values()} == {"done"}
        print(f"longest silence {longest * 1000:.1f} ms")
        daemon.stop.request()
        await work
        await scene.end()

    asyncio.run(story())


def test_who_keeps_up_has_what_follows_told_in_the_turn_that_brings_it(scene: Scene) -> None:
    async def story() -> None:
        daemon = await scene.open()
        for _ in range(5):
            await daemon.host.submit(lambda turn: turn.start("w.waits"))
        await daemon.main_loop.until_idle()
        daemon.host.post(Request(lambda turn: [turn.add(b"<mail/>") for _ in range(5)]))
        turn = daemon.host.loop.decide(daemon.rounds.clock.now(), share=-1.0)  # its time is over
        assert len(turn.transaction.batch.journal) == 5
        assert turn.transaction.batch.queued == []
        daemon.store.commit(turn.transaction.batch)
        await scene.end()

    asyncio.run(story())
