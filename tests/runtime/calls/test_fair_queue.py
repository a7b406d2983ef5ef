"""Calls that wait for a place take turns by family (N29, N33)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from narval.runtime.calls.backend import RunningCall
from narval.runtime.calls.context import CallContext
from narval.runtime.calls.fair_queue import FairQueue


async def _dropped(raws: Any) -> None:
    """Nothing is produced."""


def running(family: int, number: int) -> RunningCall:
    call = CallContext(f"{family}.{number}", family, "s", family=family)
    return RunningCall(call, lambda running, outcome: None, _dropped)


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
    assert calls.executor.counts.queued == 10_000
    gate.set()
    calls.outcome(other)
    assert sum(outcome.done() for outcome in flood) < 10
