"""The clocks: what they tell, and what they tell of having been set, and of sleep (N25)."""

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from narval.core.errors import RequestError
from narval.system.clock import SET, Jump, SimulatedClock, SystemClock

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


class Machine:
    """The three clocks of a machine that sleeps, and whose clock on the wall is set."""

    def __init__(self) -> None:
        self.wall, self.always, self.awake = NOON.timestamp(), 500.0, 400.0
        self.clock = SystemClock(lambda: self.wall, lambda: self.always, lambda: self.awake)

    def works(self, seconds: float) -> None:
        self.wall, self.always, self.awake = self.wall + seconds, self.always + seconds, self.awake + seconds

    def sleeps(self, seconds: float) -> None:
        self.wall, self.always = self.wall + seconds, self.always + seconds


def test_N25_time_that_passes_is_no_jump() -> None:
    machine = Machine()
    for _ in range(100):
        machine.works(3600)
        assert machine.clock.jump() is None


@pytest.mark.parametrize("by", [86400.0, -86400.0, 3600.0, -3600.0, SET, -SET])
def test_N25_a_clock_that_was_set_tells_by_how_much_and_once(by: float) -> None:
    machine = Machine()
    machine.works(10)
    machine.wall += by
    assert machine.clock.jump() == Jump(pytest.approx(by), 0.0)
    assert machine.clock.jump() is None
    assert machine.clock.now() == machine.wall


def test_N25_sleep_is_not_a_clock_that_was_set() -> None:
    machine = Machine()
    machine.sleeps(30000)
    assert machine.clock.jump() == Jump(0.0, pytest.approx(30000))
    machine.sleeps(600)
    machine.wall += 7200
    assert machine.clock.jump() == Jump(pytest.approx(7200), pytest.approx(600))


def test_N25_set_back_a_little_the_clock_stands_still_until_the_time_is_made_up_for() -> None:
    machine = Machine()
    before = machine.clock.now()
    machine.wall -= 2
    assert (machine.clock.now(), machine.clock.jump()) == (before, None)
    machine.works(1.5)
    assert machine.clock.now() == before
    machine.works(1.5)
    assert machine.clock.now() == before + 1


def test_N25_a_clock_that_is_put_right_little_by_little_never_jumps() -> None:
    machine = Machine()
    for _ in range(1000):
        machine.works(64)
        machine.wall += 0.03
        assert machine.clock.jump() is None


def test_N25_a_simulated_clock_may_be_set_and_may_sleep() -> None:
    clock = SimulatedClock(NOON)
    assert clock.jump() is None
    clock.step(-86400)
    assert clock.now() == NOON.timestamp() - 86400
    clock.step(3600)
    assert (clock.jump(), clock.jump()) == (Jump(-82800, 0.0), None)
    clock.sleep(60)
    assert clock.jump() == Jump(0.0, 60)
