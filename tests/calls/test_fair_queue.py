"""Calls that wait for a place take turns by agent and by family (N29, N33, G14)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from narval.calls.backend import FairQueue
from narval.calls.context import CallContext
from narval.calls.record import CallListener, CallRecord


def running(family: int, number: int, agent: str = "") -> CallRecord:
    call = CallContext(f"{agent}{family}.{number}", family, "s", family=family, agent=agent)
    return CallRecord(call, CallListener(lambda outcome: None))


def names(waiting: FairQueue) -> list[str]:
    return [waiting.next().call.id for _ in range(len(waiting))]


def test_families_take_turns_and_within_one_it_is_first_come_first_served() -> None:
    waiting = FairQueue()
    for family, number in [(1, 1), (1, 2), (1, 3), (2, 1), (3, 1), (3, 2)]:
        waiting.add(running(family, number))
    assert names(waiting) == ["1.1", "2.1", "3.1", "1.2", "3.2", "1.3"]


def test_a_family_that_comes_late_waits_for_one_call_of_each_other() -> None:
    waiting = FairQueue()
    for number in range(10_000):
        waiting.add(running(1, number))
    assert waiting.next().call.id == "1.0"
    waiting.add(running(2, 0))
    assert [waiting.next().call.id for _ in range(2)] == ["1.1", "2.0"]


def test_G14_agents_take_turns_and_within_one_its_families() -> None:
    waiting = FairQueue()
    for agent, family, number in [
        ("ada", 1, 1), ("ada", 1, 2), ("ada", 2, 1), ("ada", 3, 1), ("bob", 1, 1), ("bob", 1, 2),
    ]:  # fmt: skip
        waiting.add(running(family, number, agent))
    assert names(waiting) == ["ada1.1", "bob1.1", "ada2.1", "bob1.2", "ada3.1", "ada1.2"]


def test_G14_agents_that_have_all_their_places_are_passed_over() -> None:
    waiting = FairQueue()
    for agent in ("ada", "bob", "ada"):
        waiting.add(running(1, len(waiting), agent))
    assert waiting.next(but={"ada"}).call.agent == "bob"
    assert (waiting.has_but({"ada"}), waiting.has_but({"bob"}), len(waiting)) == (False, True, 2)


@given(st.lists(st.tuples(st.sampled_from(["add", "next", "remove"]), st.integers(1, 4)), max_size=60))
def test_nothing_is_lost_and_nobody_is_passed_over_twice(steps: list[tuple[str, int]]) -> None:
    waiting, there, served, number = FairQueue(), [], [], 0
    for what, family in steps:
        if what == "add":
            number += 1
            there.append(running(family, number))
            waiting.add(there[-1])
        elif there and what == "next":
            taken = waiting.next()
            mine = [mate for mate in there if mate.call.family == taken.call.family]
            assert mine[0] is taken
            there.remove(taken)
            served.append(taken.call.family)
        elif there:
            waiting.remove(there.pop(family % len(there)))
        assert len(waiting) == len(there)
    assert sorted(names(waiting)) == sorted(left.call.id for left in there)


def test_N29_one_run_with_ten_thousand_calls_does_not_starve_another(
    make_calls: Callable[..., Any],
) -> None:
    calls = make_calls(threads=1)
    gate, order = threading.Event(), []

    def act() -> None:
        gate.wait()
        order.append(threading.current_thread().name)

    flood = [calls.start(calls.context(act, run=1, family=1)) for _ in range(10_000)]
    other = calls.start(calls.context(act, run=2, family=2))
    assert calls.book.counts.queued == 10_000
    gate.set()
    calls.outcome(other)
    assert sum(outcome.done() for outcome in flood) < 10
