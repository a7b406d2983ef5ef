"""The clocks, and the moments waited for."""

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narval.errors import RequestError
from narval.runtime.clock import Moments, SimulatedClock, SystemClock

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_the_system_clock_tells_seconds_since_1970() -> None:
    assert abs(SystemClock().now() - time.time()) < 60


@pytest.mark.parametrize(
    "start",
    [
        NOON.timestamp(),
        NOON,
        NOON.replace(tzinfo=None),
        NOON.astimezone(timezone(timedelta(hours=-5))),
        "2026-03-01T12:00:00Z",
        "2026-03-01 12:00",
        "2026-03-01T13:00+01:00",
    ],
)
def test_a_simulated_clock_starts_at_a_moment_in_any_form(start: float | datetime | str) -> None:
    assert SimulatedClock(start).now() == NOON.timestamp()


def test_a_simulated_clock_stands_still_until_it_is_moved() -> None:
    clock = SimulatedClock(NOON)
    assert clock.now() == clock.now() == NOON.timestamp()
    clock.advance(90)
    assert clock.now() == NOON.timestamp() + 90
    clock.set("2026-03-02T00:00:00Z")
    assert clock.now() == NOON.timestamp() + 12 * 3600


@pytest.mark.parametrize("seconds", [-1, float("nan")])
def test_a_simulated_clock_never_goes_back(seconds: float) -> None:
    clock = SimulatedClock(NOON)
    with pytest.raises(RequestError, match="not before 2026-03-01T12:00:00"):
        clock.advance(seconds)
    assert clock.now() == NOON.timestamp()


def test_a_text_that_is_no_date_is_refused() -> None:
    with pytest.raises(RequestError, match="got 'tomorrow'"):
        SimulatedClock("tomorrow")


def test_moments_come_in_order_of_time_and_then_of_arrival() -> None:
    moments: Moments[str, int] = Moments()
    for key, at in (("late", 9.0), ("a", 5.0), ("b", 5.0), ("first", 1.0)):
        moments.push(at, key, len(moments))
    assert moments.next() == 1.0
    assert moments.due(5.0) == [(1.0, "first", 3), (5.0, "a", 1), (5.0, "b", 2)]
    assert moments.due(5.0) == []
    assert (moments.next(), len(moments)) == (9.0, 1)


def test_a_moment_given_up_does_not_come() -> None:
    moments: Moments[str, None] = Moments()
    moments.push(1.0, "a", None)
    moments.push(2.0, "b", None)
    moments.discard("a")
    moments.discard("never pushed")
    assert moments.next() == 2.0
    assert moments.due(10.0) == [(2.0, "b", None)]
    assert moments.next() is None


def test_a_moment_pushed_again_replaces_the_one_before() -> None:
    moments: Moments[str, str] = Moments()
    moments.push(1.0, "a", "old")
    moments.push(3.0, "a", "new")
    assert moments.due(2.0) == []
    assert moments.due(3.0) == [(3.0, "a", "new")]


def test_values_need_no_order() -> None:
    moments: Moments[str, object] = Moments()
    moments.push(1.0, "a", object())
    moments.push(1.0, "b", object())
    assert [key for _, key, _ in moments.due(1.0)] == ["a", "b"]


def test_moments_given_up_leave_nothing_behind() -> None:
    moments: Moments[int, None] = Moments()
    moments.push(1e9, -1, None)
    for key in range(10_000):
        moments.push(1e8 + key, key, None)
        moments.discard(key)
    assert len(moments) == 1
    assert len(moments._heap) < 100


@given(st.lists(st.tuples(st.sampled_from("+-?"), st.integers(0, 5), st.integers(0, 9))))
def test_moments_agree_with_a_sorted_list(steps: list[tuple[str, int, int]]) -> None:
    moments: Moments[int, int] = Moments()
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
            assert moments.due(at) == [(when, k, order) for when, order, k in come]
            expected = {k: entry for k, entry in expected.items() if entry[0] > at}
        assert moments.next() == min((when for when, _ in expected.values()), default=None)
        assert len(moments) == len(expected)
        waiting = sorted((when, order, k) for k, (when, order) in expected.items())
        assert sorted((when, order, k) for when, k, order in moments.waiting()) == waiting
