"""The moments waited for: in order, however many, and gone when they are given up (N25)."""

from collections.abc import Hashable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from narval.runtime.agent.timers import TimerQueue


def due(moments: TimerQueue[Any, Any], now: float) -> list[tuple[float, Hashable, Any]]:
    """All that have come."""
    come = []
    while (found := moments.take(now)) is not None:
        come.append(found)
    return come


def test_moments_come_in_order_of_time_and_then_of_arrival() -> None:
    moments: TimerQueue[str, int] = TimerQueue()
    for key, at in (("late", 9.0), ("a", 5.0), ("b", 5.0), ("first", 1.0)):
        moments.push(at, key, len(moments))
    assert moments.next() == 1.0
    assert due(moments, 5.0) == [(1.0, "first", 3), (5.0, "a", 1), (5.0, "b", 2)]
    assert due(moments, 5.0) == []
    assert (moments.next(), len(moments)) == (9.0, 1)


def test_a_moment_given_up_does_not_come() -> None:
    moments: TimerQueue[str, None] = TimerQueue()
    moments.push(1.0, "a", None)
    moments.push(2.0, "b", None)
    moments.discard("a")
    moments.discard("never pushed")
    assert moments.next() == 2.0
    assert due(moments, 10.0) == [(2.0, "b", None)]
    assert moments.next() is None


def test_a_moment_pushed_again_replaces_the_one_before() -> None:
    moments: TimerQueue[str, str] = TimerQueue()
    moments.push(1.0, "a", "old")
    moments.push(3.0, "a", "new")
    assert due(moments, 2.0) == []
    assert due(moments, 3.0) == [(3.0, "a", "new")]


def test_values_need_no_order() -> None:
    moments: TimerQueue[str, object] = TimerQueue()
    moments.push(1.0, "a", object())
    moments.push(1.0, "b", object())
    assert [key for _, key, _ in due(moments, 1.0)] == ["a", "b"]


def test_moments_given_up_leave_nothing_behind() -> None:
    moments: TimerQueue[int, None] = TimerQueue()
    moments.push(1e9, -1, None)
    for key in range(10_000):
        moments.push(1e8 + key, key, None)
        moments.discard(key)
    assert len(moments) == 1
    assert len(moments._heap) < 100


@given(st.lists(st.tuples(st.sampled_from("+-?"), st.integers(0, 5), st.integers(0, 9))))
def test_moments_agree_with_a_sorted_list(steps: list[tuple[str, int, int]]) -> None:
    moments: TimerQueue[int, int] = TimerQueue()
    expected: dict[int, tuple[int, int]] = {}
    for count, (what, key, at) in enumerate(steps):
        if what == "+":
            moments.push(at, key, count)
            expected[key] = (at, count)
        elif what == "-":
            moments.discard(key)
            expected.pop(key, None)
        else:
            come = sorted((when, order, k) for k, (when, order) in expected.items() if when <= at)
            assert due(moments, at) == [(when, k, order) for when, order, k in come]
            expected = {k: entry for k, entry in expected.items() if entry[0] > at}
        assert moments.next() == min((when for when, _ in expected.values()), default=None)
        assert len(moments) == len(expected)
        waiting = sorted((when, order, k) for k, (when, order) in expected.items())
        assert sorted((when, order, k) for when, k, order in moments.waiting()) == waiting


def test_a_moment_that_many_wait_for_is_in_the_heap_once() -> None:
    moments: TimerQueue[int, None] = TimerQueue()
    for key in range(10_000):
        moments.push(7.0, key, None)
    assert len(moments._heap) == 1
    assert [key for _, key, _ in due(moments, 7.0)] == list(range(10_000))
    assert (moments.next(), len(moments)) == (None, 0)


def test_what_is_given_up_or_replaced_while_a_moment_is_being_taken_does_not_come() -> None:
    moments: TimerQueue[str, int] = TimerQueue()
    for key in "abcd":
        moments.push(1.0, key, 0)
    assert moments.take(1.0) == (1.0, "a", 0)
    moments.discard("b")
    moments.push(2.0, "c", 1)
    moments.push(0.5, "e", 0)
    assert due(moments, 1.5) == [(1.0, "d", 0), (0.5, "e", 0)]
    assert due(moments, 2.0) == [(2.0, "c", 1)]


def test_some_moments_may_be_moved_along_and_others_stay() -> None:
    moments: TimerQueue[str, bool] = TimerQueue()
    for at, key, moves in ((1.0, "a", True), (2.0, "b", False), (3.0, "c", True)):
        moments.push(at, key, moves)
    moments.shift(-2.0, lambda key, value: value)
    assert due(moments, 9.0) == [(-1.0, "a", True), (1.0, "c", True), (2.0, "b", False)]
