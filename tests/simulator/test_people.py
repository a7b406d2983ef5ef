"""What must hold of items that people act on at random (P76, P84, P85): fresh seeds, many by `make soak`."""

from __future__ import annotations

from random import SystemRandom

import pytest

from narval.kinds.work.engine import acts
from narval.kinds.work.engine.table import ACTS_ON_ITEMS
from tests.simulator.boundaries import every_boundary
from tests.simulator.people import Peopled, PeopledBoundary
from tests.simulator.simulation import BrokenError, run
from tests.simulator.test_simulator import SOAK

FRESH = 4


def test_P84_what_must_hold_of_items_holds_whatever_people_do() -> None:
    for seed in range(50_000, 50_000 + FRESH):
        run(seed, Peopled)


def test_P76_P85_a_daemon_may_be_killed_before_and_after_each_commit_of_items() -> None:
    whole, *killed = every_boundary(29, PeopledBoundary)
    assert len(killed) == 2 * whole.commits
    assert sum(each.crashes for each in killed) == len(killed)


def test_the_seed_of_a_home_that_asks_people_is_one_run_and_always_the_same() -> None:
    assert run(3, Peopled) == run(3, Peopled)


def test_a_simulation_sees_a_claim_that_is_not_exclusive(monkeypatch: pytest.MonkeyPatch) -> None:
    """The invariants are no ornament: two who have an item are found out."""
    claim = ACTS_ON_ITEMS["claim"]._replace(other="claimed")
    monkeypatch.setattr(acts, "ACTS_ON_ITEMS", {**ACTS_ON_ITEMS, "claim": claim})
    with pytest.raises(BrokenError, match="is renewed by"):
        run(50_022, Peopled)


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
