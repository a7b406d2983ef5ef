"""What must hold of items that people act on at random (P76, P84, P85): fresh seeds, many by `make soak`."""

from __future__ import annotations

from random import SystemRandom

import pytest

from tests.simulator.boundaries import every_boundary
from tests.simulator.people import Peopled, PeopledBoundary
from tests.simulator.simulation import run
from tests.simulator.test_simulator import SOAK

FRESH, AT_ONCE = 12, 4


@pytest.mark.parametrize("first", range(50_000, 50_000 + FRESH, AT_ONCE))
def test_P84_what_must_hold_of_items_holds_whatever_people_do(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        run(seed, Peopled)


def test_the_seed_of_a_home_that_asks_people_is_one_run_and_always_the_same() -> None:
    assert run(3, Peopled) == run(3, Peopled)


@pytest.mark.soak
def test_P84_what_must_hold_holds_for_thousands_of_homes_that_ask_people() -> None:
    first = SystemRandom().randrange(10**6, 10**9)
    for seed in range(first, first + SOAK):
        run(seed, Peopled)


@pytest.mark.soak
def test_P76_P85_each_commit_of_many_homes_that_ask_people_may_be_the_last() -> None:
    first = SystemRandom().randrange(10**6, 10**9)
    for seed in range(first, first + SOAK // 300):
        assert list(every_boundary(seed, PeopledBoundary))
