"""What must hold of each of several agents in one daemon (G9, G96, G97): fresh seeds, many by `make soak`."""

from __future__ import annotations

from random import SystemRandom

import pytest

from narval.core.elements.changes import Added
from narval.store.batch import HOME_AGENT, Batch
from tests.simulator.boundaries import every_boundary
from tests.simulator.many_agents import AgentsBoundary, ManyAgents
from tests.simulator.simulation import BrokenError, run
from tests.simulator.test_simulator import SOAK

FRESH = 4


def test_G97_what_must_hold_of_each_of_many_agents_holds() -> None:
    for seed in range(40_000, 40_000 + FRESH):
        run(seed, ManyAgents)


def test_G96_the_daemon_of_many_agents_may_be_killed_before_and_after_each_commit() -> None:
    whole, *killed = every_boundary(8, AgentsBoundary)
    assert len(killed) == 2 * whole.commits
    assert sum(each.crashes for each in killed) == len(killed)


def test_the_seed_of_many_agents_is_one_run_and_always_the_same() -> None:
    assert run(7, ManyAgents) == run(7, ManyAgents)


def test_it_is_seen_what_a_store_loses_of_one_of_many_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    """The invariants are no ornament: a store that forgets elements of one agent is found out."""
    record = Batch.record

    def forgetful(batch: Batch, change: object) -> None:
        if batch.agent == HOME_AGENT or type(change) is not Added:
            record(batch, change)  # type: ignore[arg-type]

    monkeypatch.setattr(Batch, "record", forgetful)
    with pytest.raises(BrokenError, match=r"again: python -m tests.simulator 1 --agents --verbose"):
        run(1, ManyAgents, often=1.0)


@pytest.mark.soak
def test_G97_what_must_hold_holds_for_thousands_of_homes_with_many_agents() -> None:
    first = SystemRandom().randrange(10**6, 10**9)
    for seed in range(first, first + SOAK):
        run(seed, ManyAgents)


@pytest.mark.soak
def test_G96_each_commit_of_many_agents_may_be_the_last() -> None:
    first = SystemRandom().randrange(10**6, 10**9)
    for seed in range(first, first + SOAK // 300):
        assert list(every_boundary(seed, AgentsBoundary))
