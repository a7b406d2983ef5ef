"""What must hold of objects on their way through tasks (K47, K69): fresh seeds, many by `make soak`."""

from __future__ import annotations

from random import SystemRandom

import pytest

from tests.simulator.boundaries import every_boundary
from tests.simulator.simulation import run
from tests.simulator.tasks import Tasked, TaskedBoundary
from tests.simulator.test_simulator import SOAK

FRESH = 4


def test_K69_an_object_is_in_one_place_and_an_event_ends_once() -> None:
    for seed in range(60_000, 60_000 + FRESH):
        run(seed, Tasked)


@pytest.mark.parametrize("seed", [4, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (2, 9))])
def test_K69_a_daemon_may_be_killed_before_and_after_each_commit_of_tasks(seed: int) -> None:
    whole, *killed = every_boundary(seed, TaskedBoundary)
    assert len(killed) == 2 * whole.commits
    assert sum(each.crashes for each in killed) == len(killed)


def test_the_seed_of_a_home_with_tasks_is_one_run_and_always_the_same() -> None:
    assert run(3, Tasked) == run(3, Tasked)


@pytest.mark.soak
def test_K69_what_must_hold_holds_for_thousands_of_homes_with_tasks() -> None:
    first = SystemRandom().randrange(10**6, 10**9)
    for seed in range(first, first + SOAK):
        run(seed, Tasked)


@pytest.mark.soak
def test_K69_each_commit_of_many_homes_with_tasks_may_be_the_last() -> None:
    first = SystemRandom().randrange(10**6, 10**9)
    for seed in range(first, first + SOAK // 300):
        assert list(every_boundary(seed, TaskedBoundary))
