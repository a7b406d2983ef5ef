"""Nothing confirmed is lost, whatever comes together (N35): kept seeds, fresh ones, many by `make soak`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import SystemRandom

import pytest

from narval.core.definitions.schedule import schedule_of
from narval.core.engines import dates
from narval.store.batch import Batch, JournalRow
from narval.store.memory import VolatileAgent
from tests.simulator.boundaries import every_boundary
from tests.simulator.kinds import of
from tests.simulator.simulation import BrokenError, Simulation, run
from tests.simulator.wide import InMemory, Migrating, Wide

KEPT = [
    (int(words[0]), *words[1:])
    for line in Path(__file__).with_name("seeds.txt").read_text().splitlines()
    if (words := line.split("#")[0].split())
]
"""Seeds, with the kind of simulation where it is not the plain one."""
FRESH, FRESH_OF_A_KIND = 8, 2
"""So many seeds beyond the kept ones; `make soak` tries thousands."""
SOAK = int(os.environ.get("NARVAL_SEEDS", "3000"))


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: "-".join(map(str, kept)))
def test_N35_what_a_kept_seed_once_broke_holds(kept: tuple[int, *tuple[str, ...]]) -> None:
    seed, *kind = kept
    run(seed, of(*kind))


def test_N35_what_must_hold_holds_for_fresh_seeds() -> None:
    for seed in range(10_000, 10_000 + FRESH):
        run(seed)


@pytest.mark.soak
def test_N35_what_must_hold_holds_for_thousands_of_seeds() -> None:
    first = SystemRandom().randrange(10**6, 10**9)
    for seed in range(first, first + SOAK):
        run(seed)


def test_N25_N31_files_are_saved_and_clocks_are_set_for_summer_meanwhile() -> None:
    for seed in range(20_000, 20_000 + FRESH_OF_A_KIND):
        run(seed, Wide)


def test_what_must_hold_holds_while_runs_go_on_with_other_versions() -> None:
    for seed in range(40_000, 40_000 + FRESH_OF_A_KIND):
        run(seed, Migrating)


def test_what_must_hold_without_a_disk_holds() -> None:
    for seed in range(30_000, 30_000 + FRESH_OF_A_KIND):
        run(seed, InMemory)


def test_N35_a_daemon_may_be_killed_before_and_after_each_commit() -> None:
    whole, *killed = every_boundary(0)
    assert len(killed) == 2 * whole.commits
    assert sum(each.crashes for each in killed) == len(killed)


@pytest.mark.soak
@pytest.mark.parametrize("kind", [Wide, InMemory, Migrating])
def test_what_must_hold_holds_for_thousands_of_wide_seeds(kind: type[Simulation]) -> None:
    first = SystemRandom().randrange(10**6, 10**9)
    for seed in range(first, first + SOAK // 2):
        run(seed, kind)


@pytest.mark.soak
def test_N35_each_commit_of_many_seeds_may_be_the_last() -> None:
    first = SystemRandom().randrange(10**6, 10**9)
    for seed in range(first, first + SOAK // 100):
        assert list(every_boundary(seed))


def test_a_seed_is_one_run_and_always_the_same() -> None:
    assert run(7) == run(7)


@pytest.mark.parametrize("lost", ["element", "mark"])
def test_a_simulation_sees_what_a_store_loses(lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The invariants are no ornament: a store that forgets one kind of row is found out."""
    record = Batch.record

    def forgetful(batch: Batch, change: object) -> None:
        if type(change).__name__ != {"element": "Added", "mark": "Used"}[lost]:
            record(batch, change)  # type: ignore[arg-type]

    monkeypatch.setattr(Batch, "record", forgetful)
    with pytest.raises(BrokenError, match=r"again: python -m tests.simulator 2 --verbose"):
        run(2, often=1.0)


def test_a_simulation_sees_a_date_of_another_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dates, "schedule_of", lambda times, zone: schedule_of(times, "UTC"))
    with pytest.raises(BrokenError, match="waits for") as found:
        run(7, Wide)
    assert "again: python -m tests.simulator 7 --wide --verbose" in str(found.value)


def test_a_simulation_sees_what_a_store_in_memory_loses(monkeypatch: pytest.MonkeyPatch) -> None:
    journal = VolatileAgent.journal

    def forgetful(store: VolatileAgent, run: int, after: int = 0) -> Iterator[JournalRow]:
        return iter(list(journal(store, run, after))[:-1])

    monkeypatch.setattr(VolatileAgent, "journal", forgetful)
    with pytest.raises(BrokenError, match="is not what its journal says"):
        run(0, InMemory)
