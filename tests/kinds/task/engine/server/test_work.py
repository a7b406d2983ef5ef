"""The work of a standing run, in calls of functions: it does not grow with what waits (K21, K62)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from narval.core.engines import commands
from narval.core.engines.events import Event, Returned, Signalled, Started, TimerFired
from narval.kinds.task.engine.server import engine
from narval.kinds.task.language.definition import TaskDefinition
from tests.core.engines.dialogue import decided
from tests.counting import CountedCalls
from tests.kinds.task.engine.server.hall import after, before, both, rule, state, task

FEW, MANY = 10, 2000


class Nobody:
    """A view of a memory in which each object is there."""

    zone, up_since, next_eid = "UTC", 0.0, 1_000_000

    def apply(self, run: int, command: Any) -> None:
        """Nothing takes effect."""

    def current(self, eid: int) -> int:
        return eid

    def element(self, eid: int) -> int:
        return eid

    def caller(self, run: int) -> None:
        return None

    def was_missed(self, moment: float) -> bool:
        return False


class Server:
    """A standing run that is told events, and how much work the last was."""

    def __init__(self, definition: TaskDefinition) -> None:
        self.definition, self.state = definition, engine.state_type.blank(1, definition)
        self.now, self.calls, self.event = 100.0, 0, 0
        self.commands: list[Any] = []
        self.tell(Started, ())

    def tell(self, kind: Callable[..., Event], arguments: tuple[Any, ...], **more: Any) -> list[Any]:
        self.event += 1
        event = kind(self.event, self.now, *arguments, **more)
        with CountedCalls("call") as calls:
            _, self.commands = decided(engine, self.definition, self.state, event, Nobody())
        self.calls = calls.number
        return self.commands

    def says(self, name: str, **arguments: Any) -> None:
        self.tell(Signalled, (f"s{self.event}", name, (), arguments), sender=5)

    def put(self, eid: int) -> None:
        self.says("put", object=eid, case=7, parent=0, ordinal=0, count=0)

    def call(self) -> str:
        """The call that followed last."""
        return next(command.call for command in self.commands if isinstance(command, commands.Call))


def with_few_and_many(work: Callable[[int], int]) -> None:
    few, many = work(FEW), work(MANY)
    assert few > 0
    assert many <= few * 1.05  # caches may turn over


def test_K57_the_next_object_costs_the_same_in_a_long_queue() -> None:
    def take(count: int) -> int:
        server = Server(task("scan"))
        for eid in range(10, 10 + count):
            server.put(eid)
        server.says("join", instance=3)
        server.says("withdraw", object=12, why="w")
        server.says("take", instance=3)
        server.says("take", instance=3)
        assert server.state.at_work[3].object == 11
        return server.calls

    with_few_and_many(take)


def test_K21_putting_and_giving_back_cost_the_same_in_a_long_queue() -> None:
    def put(count: int) -> int:
        server = Server(task("scan"))
        server.says("join", instance=3)
        for eid in range(10, 10 + count):
            server.put(eid)
        put = server.calls
        server.says("take", instance=3)
        server.says("down", instance=3, object=10, front=True)
        return put + server.calls

    with_few_and_many(put)


def test_K33_a_window_costs_the_same_whatever_else_waits() -> None:
    def fire(count: int) -> int:
        spec = both(after(3600), before(7200))
        server = Server(task("check", state("busy", rule(before_condition=spec))))
        for _ in range(count):
            server.says("raise", event="ev", parameters=[])
        raised, event = server.calls, server.event
        server.says("join", instance=3)
        server.says("at", instance=3, state="busy")
        server.now = 3700.0
        raised += server.calls
        server.tell(TimerFired, (f"1/{event}/1",))
        raised += server.calls
        server.tell(Returned, (server.call(),), value={"result": "done"})
        assert event not in server.state.events
        return raised + server.calls

    with_few_and_many(fire)


def test_KA7_a_receiver_costs_the_same_however_many_events_wait_for_it() -> None:
    def act(count: int) -> int:
        server = Server(task("check", state("busy", rule())))
        for _ in range(count):
            server.says("raise", event="ev", parameters=[])
        server.says("join", instance=3)
        server.says("at", instance=3, state="busy")
        asked = server.calls
        for _ in range(3):
            server.tell(Returned, (server.call(),), value={"result": "done"})
        return asked + server.calls

    with_few_and_many(act)


def test_KA8_an_event_costs_the_same_however_many_could_receive_it() -> None:
    def raises(count: int) -> int:
        server = Server(task("check", state("busy", rule())))
        for instance in range(10, 10 + count):
            server.says("join", instance=instance)
            server.says("at", instance=instance, state="busy")
        server.says("raise", event="ev", parameters=[])
        return server.calls

    with_few_and_many(raises)
