"""What a process costs: work is counted, in changes and in calls of functions, and never in seconds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narval.core.definitions.parsing import parse
from narval.core.engines.events import Event, Returned, Signalled, Started, TimerFired
from narval.core.source.text import Source
from narval.kinds.process.engine import engine
from narval.kinds.process.engine.state import Line
from narval.kinds.process.engine.tokens.flow import LAPS, MOVED_AT_ONCE
from tests.core.engines.dialogue import decided
from tests.counting import CountedCalls


class Nobody:
    """A view of a memory where nothing is, and of a home where nobody has written any code but one class."""

    zone, since, next_eid = "UTC", 0.0, 1_000_000
    listeners: ClassVar[dict[str, int]] = {}

    class Maker:
        hooks = frozenset({"execute"})

    def definition(self, kind: str, name: str) -> Any:
        return self.Maker if (kind, name) == ("node-type", "maker") else None

    def apply(self, run: int, command: Any) -> None:
        """Nothing takes effect."""


class Run:
    """A process that is told events, and how much work that was; to count all calls doubles its time."""

    def __init__(self, text: str, *, counts: bool = True) -> None:
        self.counts = counts
        (self.definition,) = parse(Source("test.xml", text.encode())).checked()
        self.state = engine.state_type.blank(1, self.definition)
        self.commands: list[Any] = []
        self.changes = self.calls = self.event = 0
        self.tell(Started, ())

    def tell(self, kind: Callable[..., Event], arguments: tuple[Any, ...]) -> None:
        self.event += 1
        event = kind(self.event, 100.0, *arguments)
        with CountedCalls("call") if self.counts else nullcontext() as calls:
            changes, commands = decided(engine, self.definition, self.state, event, Nobody())
        self.calls += calls.number if calls else 0
        self.changes += len(changes)
        self.commands += commands

    def go_on(self) -> None:
        """Until the queue is empty."""
        while self.state.paused:
            self.tell(TimerFired, (self.state.paused,))

    def says(self, name: str, **arguments: Any) -> None:
        self.tell(Signalled, (f"s{self.event}", name, (), arguments))
        self.go_on()


def linear(count: int) -> Run:
    """So many nodes in a line."""
    start = '<node name="n0" isStart="true"><arc to="n1"/></node>'
    others = (f'<node name="n{at}"><arc to="n{at + 1}"/></node>' for at in range(1, count - 1))
    nodes = f'{start}{"".join(others)}<node name="n{count - 1}"/>'
    run = Run(f'<process-definition name="p">{nodes}</process-definition>')
    run.go_on()
    return run


def made(text: str, count: int) -> Run:
    """A set of so many members is made by the node `s`."""
    run = Run(f'<process-definition name="p"><node name="s" type="maker" isStart="true">{text}')
    (call,) = run.state.calls
    wish = {"do": "complete-with-new-token-set", "arcs": [""], "name": "set", "count": count}
    run.tell(Returned, (call, (), (), None, False, {"effects": [wish]}))
    run.go_on()
    return run


def joined(count: int) -> Run:
    """All members pass two nodes and join."""
    return made(
        '<arc to="a"/></node><node name="a"><arc to="z"/></node>'
        '<node name="z" joinType="tokenSet"/></process-definition>',
        count,
    )


def in_pairs(count: int) -> Run:
    """Each member is split, and joins again with its own other half."""
    return made(
        '<arc to="a"/><arc to="b"/></node><node name="a"><arc to="z"/></node>'
        '<node name="b"><arc to="z"/></node><node name="z" joinType="labelAnd"/></process-definition>',
        count,
    )


def ending_on_the_way(count: int) -> Run:
    """No member comes to the join, but each would have it looked at."""
    return made(
        '<arc to="a"/></node><node name="a"><guard>Discard</guard><arc to="z"/></node>'
        '<node name="z" joinType="tokenSet"/></process-definition>',
        count,
    )


def waiting_in_line(count: int) -> Run:
    """Many wait on one arc for those that come on the other, one at a time."""
    run = Run(
        '<process-definition name="p"><node name="a" type="wait" isStart="true"><arc to="z"/></node>'
        '<node name="b" type="wait" isStart="true"><arc to="z"/></node>'
        '<node name="z" joinType="and"/></process-definition>'
    )
    for node in ("a", "b"):
        run.says("complete", node=node, set={"name": "set", "count": count}, arcs=[""])
    run.says("execute")
    return run


SHAPES = [linear, joined, in_pairs, ending_on_the_way, waiting_in_line]


@pytest.mark.parametrize("shape", SHAPES)
def test_twice_the_tokens_are_twice_the_work(shape: Callable[[int], Run]) -> None:
    small, large = shape(200), shape(400)
    assert small.changes > 200
    assert large.changes <= 2 * small.changes
    assert large.calls <= 2.1 * small.calls


def test_a_step_of_a_line_is_seven_changes_and_few_calls() -> None:
    run = linear(1000)
    assert run.state.status == "completed"
    assert run.changes <= 7 * 1000 + 10
    assert run.calls <= 32 * 1000


def test_ten_thousand_tokens_are_moved_a_thousand_at_a_time() -> None:
    run = joined(5000)
    assert run.state.status == "completed"
    assert len(run.state.nodes) == 5002
    assert run.event > 5000 // MOVED_AT_ONCE


LOOP = """<process-definition name="p">
  <node name="a" isStart="true"><arc to="a"/></node>
</process-definition>"""


def test_a_loop_that_never_waits_lets_others_have_their_turn_and_fails_in_the_end() -> None:
    run = Run(LOOP, counts=False)
    assert run.state.paused
    assert len(run.state.nodes) == MOVED_AT_ONCE + 1
    run.go_on()
    assert run.state.status == "failed"
    assert len(run.state.nodes) == MOVED_AT_ONCE * (LAPS + 1) + 1
    (error,) = (command.element for command in run.commands if type(command).__name__ == "Add")
    assert error.attributes["type"] == "endless"


def test_what_is_asked_of_a_process_that_has_not_come_to_the_end_of_its_queue_is_done() -> None:
    run = Run(LOOP)
    run.tell(Signalled, ("s", "cancel", (), {}))
    assert run.state.status == "cancelled"
    assert not run.state.paused


# --- lines ------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 300)), max_size=300))
def test_a_line_knows_its_first_and_all_that_stand_in_it(moves: list[tuple[bool, int]]) -> None:
    line, model, there, number = Line(), [], set(), 0
    for joins, which in moves:
        if joins or not model:
            number += 1
            line.join(number)
            model.append(number)
            there.add(number)
        else:
            gone = model.pop(which % len(model))
            there.discard(gone)
            line.leave(gone, there.__contains__)
        assert line.first == (model[0] if model else None)
        assert list(line.all(there.__contains__)) == model
        assert len(line.tokens) <= 4 * len(model) + 100
