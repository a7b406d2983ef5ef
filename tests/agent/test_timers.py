"""The moments waited for: in order, however many, and gone when they are given up (N25)."""

from collections.abc import Hashable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from narval.agent.timers import ForgetRun, Job, StartRun, TimerQueue


def due(moments: TimerQueue[Any, Any], now: float) -> list[tuple[float, Hashable, Any]]:
    """All that have come."""
    come = []
    while (found := moments.pop_due(now)) is not None:
        come.append(found)
    return come


def test_the_soonest_are_those_that_do_more_than_forget() -> None:
    timers: TimerQueue[int, Job | None] = TimerQueue()
    for at in range(1000):
        timers.push(float(at), at, ForgetRun(at))
    timers.push(500.0, 1000, None)
    timers.push(700.5, 1001, StartRun("a.b"))
    timers.push(900.0, 1002, None)
    timers.discard(1002)
    assert [key for _, key, _ in timers.soonest(5)] == [1000, 1001]
    timers.shift(10.0, lambda key, _: key == 1001)
    assert [at for at, _, _ in timers.soonest(5)] == [500.0, 710.5]
    while (due := timers.pop_due(500.0)) is not None and due[1] != 500:
        pass
    assert [key for _, key, _ in timers.soonest(5)] == [1000, 1001], "what has come stands first"
    timers.pop_due(500.0)
    assert [key for _, key, _ in timers.soonest(5)] == [1001]


def test_moments_come_in_order_of_time_and_then_of_arrival() -> None:
    timers: TimerQueue[str, int] = TimerQueue()
    for key, at in (("late", 9.0), ("a", 5.0), ("b", 5.0), ("first", 1.0)):
        timers.push(at, key, len(timers))
    assert timers.next() == 1.0
    assert due(timers, 5.0) == [(1.0, "first", 3), (5.0, "a", 1), (5.0, "b", 2)]
    assert due(timers, 5.0) == []
    assert (timers.next(), len(timers)) == (9.0, 1)


def test_a_moment_given_up_does_not_come() -> None:
    timers: TimerQueue[str, None] = TimerQueue()
    timers.push(1.0, "a", None)
    timers.push(2.0, "b", None)
    timers.discard("a")
    timers.discard("never pushed")
    assert timers.next() == 2.0
    assert due(timers, 10.0) == [(2.0, "b", None)]
    assert timers.next() is None


def test_a_moment_pushed_again_replaces_the_one_before() -> None:
    timers: TimerQueue[str, str] = TimerQueue()
    timers.push(1.0, "a", "old")
    timers.push(3.0, "a", "new")
    assert due(timers, 2.0) == []
    assert due(timers, 3.0) == [(3.0, "a", "new")]


def test_values_need_no_order() -> None:
    timers: TimerQueue[str, object] = TimerQueue()
    timers.push(1.0, "a", object())
    timers.push(1.0, "b", object())
    assert [key for _, key, _ in due(timers, 1.0)] == ["a", "b"]


def test_moments_given_up_leave_nothing_behind() -> None:
    timers: TimerQueue[int, None] = TimerQueue()
    timers.push(1e9, -1, None)
    for key in range(10_000):
        timers.push(1e8 + key, key, None)
        timers.discard(key)
    assert len(timers) == 1
    assert timers.moments < 100


@given(st.lists(st.tuples(st.sampled_from("+-?"), st.integers(0, 5), st.integers(0, 9))))
def test_moments_agree_with_a_sorted_list(steps: list[tuple[str, int, int]]) -> None:
    timers: TimerQueue[int, int] = TimerQueue()
    expected: dict[int, tuple[int, int]] = {}
    for count, (what, key, at) in enumerate(steps):
        if what == "+":
            timers.push(at, key, count)
            expected[key] = (at, count)
        elif what == "-":
            timers.discard(key)
            expected.pop(key, None)
        else:
            come = sorted((when, order, k) for k, (when, order) in expected.items() if when <= at)
            assert due(timers, at) == [(when, k, order) for when, order, k in come]
            expected = {k: entry for k, entry in expected.items() if entry[0] > at}
        assert timers.next() == min((when for when, _ in expected.values()), default=None)
        assert len(timers) == len(expected)
        waiting = sorted((when, order, k) for k, (when, order) in expected.items())
        assert sorted((when, order, k) for when, k, order in timers.waiting()) == waiting


def test_a_moment_that_many_wait_for_is_in_the_heap_once() -> None:
    timers: TimerQueue[int, None] = TimerQueue()
    for key in range(10_000):
        timers.push(7.0, key, None)
    assert timers.moments == 1
    assert [key for _, key, _ in due(timers, 7.0)] == list(range(10_000))
    assert (timers.next(), len(timers)) == (None, 0)


def test_what_is_given_up_or_replaced_while_a_moment_is_being_taken_does_not_come() -> None:
    timers: TimerQueue[str, int] = TimerQueue()
    for key in "abcd":
        timers.push(1.0, key, 0)
    assert timers.pop_due(1.0) == (1.0, "a", 0)
    timers.discard("b")
    timers.push(2.0, "c", 1)
    timers.push(0.5, "e", 0)
    assert due(timers, 1.5) == [(1.0, "d", 0), (0.5, "e", 0)]
    assert due(timers, 2.0) == [(2.0, "c", 1)]


def test_some_moments_may_be_moved_along_and_others_stay() -> None:
    timers: TimerQueue[str, bool] = TimerQueue()
    for at, key, moves in ((1.0, "a", True), (2.0, "b", False), (3.0, "c", True)):
        timers.push(at, key, moves)
    timers.shift(-2.0, lambda key, value: value)
    assert due(timers, 9.0) == [(-1.0, "a", True), (1.0, "c", True), (2.0, "b", False)]
