"""All workers of a home share one budget, whatever they are confined to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from narval.calls import executor as executors
from narval.calls.context import CallContext, Target
from narval.calls.executor import Executor
from narval.calls.programs.reaper_client import ReaperClient
from narval.calls.record import CallListener, CallRecord, Outcome
from narval.calls.workers import pool
from narval.calls.workers.confined import Confined
from narval.calls.workers.frames import Answered, Ready
from narval.calls.workers.pool import Workers
from narval.core.definitions.action.needs import Needs
from narval.files.settings import CallLimits
from narval.system.confinement import Confinement


class FakeChild:
    """A worker without a program: it is ready, and answers, when it is told to."""

    pid = started = 0
    is_stale = is_ready = False
    record: CallRecord | None = None

    def __init__(self, living: list[FakeChild], loop: Any, workers: Workers, *program: Any) -> None:
        self.workers, self._living = workers, living
        living.append(self)
        FakeChild.started += 1

    def take(self, record: CallRecord | None) -> None:
        self.record = record

    def retire(self) -> None:
        self._living.remove(self)

    def get_on(self) -> None:
        """Be ready, or answer the call."""
        if self.record is not None:
            answer = Answered(self.record.call.id, Outcome())
            self.workers.child_said(self, answer)  # type: ignore[arg-type]
        elif not self.is_ready:
            self.is_ready = True
            self.workers.child_said(self, Ready())  # type: ignore[arg-type]

    after = stop_timer = end = kill = lambda *_: None
    requests = SimpleNamespace(send=lambda frame: None)


class Scene:
    """An executor with so many workers, in a test's loop; calls by their ids, with the place they reach."""

    def __init__(self, workers: int, living: list[FakeChild]) -> None:
        self.is_shared = False
        self.executor = Executor(CallLimits(workers=workers), is_shared=lambda: self.is_shared)
        self.living = living
        self.answered: list[str] = []

    def call(self, id: str, host: str = "", agent: str = "narval") -> CallRecord:
        target = Target(where="worker", needs=Needs(hosts=(host,)), limits=bool(host))
        call = CallContext(id, 1, "s", target=target, agent=agent)
        record = CallRecord(call, CallListener(lambda _: self.answered.append(id)))
        self.executor.start(record)
        return record

    @property
    def at_work(self) -> int:
        """The workers that have a call, or start for one."""
        return sum(child.record is not None or not child.is_ready for child in self.living)

    def get_on(self, but: Iterable[FakeChild] = ()) -> None:
        for child in tuple(self.living):
            if child in self.living and child not in but:
                child.get_on()


Play = Callable[[int, Callable[[Scene], None]], None]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    living: list[FakeChild] = []

    def confined_to(call: CallContext) -> Confined:
        return Confined(Confinement(), call.target.needs.hosts if call.target.needs else ())

    monkeypatch.setattr(executors, "confined_to", confined_to)
    monkeypatch.setattr(pool, "Child", partial(FakeChild, living))
    monkeypatch.setattr(FakeChild, "started", 0)
    monkeypatch.setattr(ReaperClient, "guard", lambda *_: None)

    def play(workers: int, story: Callable[[Scene], None]) -> None:
        async def scene() -> None:
            story(Scene(workers, living))

        asyncio.run(scene())

    return play


def test_there_are_no_more_workers_than_allowed_for_however_many_places(play: Play) -> None:
    def story(scene: Scene) -> None:
        for number in range(9):
            scene.call(f"1.{number}", f"host-{number}")
        for _ in range(40):
            assert scene.at_work <= 2
            assert len(scene.living) <= 2 + pool.SPARE
            scene.get_on()
        assert sorted(scene.answered) == [f"1.{number}" for number in range(9)]

    play(2, story)


def test_calls_to_a_place_wait_for_none_of_the_calls_that_came_before_to_another(play: Play) -> None:
    def story(scene: Scene) -> None:
        for number in range(20):
            scene.call(f"plain.{number}")
        scene.get_on()
        scene.call("other", "host")
        while "other" not in scene.answered:
            scene.get_on()
        assert len(scene.answered) < 10
        assert scene.at_work <= 3

    play(3, story)


def test_workers_that_are_idle_end_for_those_of_another_place_and_else_are_used_again(play: Play) -> None:
    def story(scene: Scene) -> None:
        for number in range(2):
            scene.call(f"plain.{number}")
        for _ in range(2):
            scene.get_on()
        before = [*scene.living]
        scene.call("plain.2")
        assert scene.living == before
        scene.get_on()
        for host in ("host", "another host"):
            scene.call(host, host)
        assert [child in before for child in scene.living] == [True, False, False]

    play(2, story)


@pytest.mark.parametrize("workers", [1, 2])
def test_calls_that_alternate_between_places_end_no_workers(play: Play, workers: int) -> None:
    def story(scene: Scene) -> None:
        places = ["", "host", "another host"][: workers + 1]
        for number in range(20):
            for place in places:
                scene.call(f"{place}.{number}", place)
                for _ in range(2):
                    scene.get_on()
        assert len(scene.answered) == 20 * len(places)
        assert FakeChild.started == len(places)

    play(workers, story)


def test_places_that_wait_for_one_worker_have_it_in_turn(play: Play) -> None:
    def story(scene: Scene) -> None:
        for number in range(10):
            scene.call(f"plain.{number}")
            scene.call(f"other.{number}", "host")
        for _ in range(22):
            assert scene.at_work <= 1
            scene.get_on()
        assert len(scene.answered) == 20
        assert FakeChild.started == 2
        firsts = [id.partition(".")[0] for id in scene.answered[:10]]
        assert abs(firsts.count("plain") - firsts.count("other")) <= 2

    play(1, story)


def test_one_agent_gets_not_all_workers_though_its_calls_reach_several_places(play: Play) -> None:
    def story(scene: Scene) -> None:
        scene.is_shared = True
        calls = [scene.call(f"ada.{number}", f"host-{number}", "ada") for number in range(3)]
        for _ in range(3):
            for child in tuple(scene.living):
                if not child.is_ready:
                    child.get_on()
        assert [call.has_room for call in calls] == [True, False, False]
        why = "1 of 1 workers that an agent may have are taken by calls of ada"
        assert scene.executor.waits_for(calls[1]) == why
        assert scene.call("bob.1", "host-1", "bob").has_room
        while len(scene.answered) < 4:
            scene.get_on()

    play(2, story)


def test_a_place_uses_its_worker_again_while_long_calls_to_another_have_all_others(play: Play) -> None:
    def story(scene: Scene) -> None:
        long = begin_long(scene, 3)
        for number in range(20):
            scene.call(f"plain.{number}")
        while len(scene.answered) < 20:
            scene.get_on(but=long)
        assert FakeChild.started == 4

    play(4, story)


def test_two_places_share_what_long_calls_to_another_leave_without_ending_workers(play: Play) -> None:
    def story(scene: Scene) -> None:
        long = begin_long(scene, 2)
        for number in range(20):
            scene.call(f"plain.{number}")
            scene.call(f"other.{number}", "other")
        for _ in range(21):
            scene.get_on(but=long)
        assert FakeChild.started == 4
        assert sorted(scene.answered) == sorted(
            f"{place}.{number}" for place in ("plain", "other") for number in range(20)
        )

    play(4, story)


def test_one_worker_that_is_left_goes_to_a_place_that_has_none(play: Play) -> None:
    def story(scene: Scene) -> None:
        long = begin_long(scene, 3)
        for number in range(20):
            scene.call(f"plain.{number}")
        scene.get_on(but=long)
        scene.call("other", "other")
        while "other" not in scene.answered:
            scene.get_on(but=long)
        assert len(scene.answered) < 4

    play(4, story)


def test_an_idle_worker_is_used_though_calls_of_an_agent_that_may_have_no_more_wait(play: Play) -> None:
    def story(scene: Scene) -> None:
        scene.is_shared = True
        long = begin_long(scene, 1, "ada")
        for number in range(3):
            scene.call(f"ada.{number}", agent="ada")
        for number in range(3):
            scene.call(f"bob.{number}", agent="bob")
            for _ in range(2):
                scene.get_on(but=long)
        assert scene.answered == ["bob.0", "bob.1", "bob.2"]
        assert FakeChild.started == 2

    play(2, story)


def begin_long(scene: Scene, calls: int, agent: str = "narval") -> list[FakeChild]:
    """Begin long calls to a host; their workers."""
    for number in range(calls):
        scene.call(f"long.{number}", "host", agent)
    scene.get_on()
    assert len(scene.living) == calls
    return [*scene.living]
