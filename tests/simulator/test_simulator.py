"""Nothing confirmed is lost, whatever comes together (N35): kept seeds, fresh ones, many by `make soak`."""

from __future__ import annotations

import os
from pathlib import Path
from random import SystemRandom

import pytest

from tests.simulator.simulation import BrokenError, run

KEPT = [
    int(line.split("#")[0])
    for line in Path(__file__).with_name("seeds.txt").read_text().splitlines()
    if line.split("#")[0].strip()
]
FRESH, AT_ONCE = 48, 8
"""So many seeds beyond the kept ones, so many in a test."""
SOAK = int(os.environ.get("NARVAL_SEEDS", "3000"))


@pytest.mark.parametrize("seed", KEPT)
def test_N35_what_a_kept_seed_once_broke_holds(seed: int) -> None:
    run(seed)


@pytest.mark.parametrize("first", range(10_000, 10_000 + FRESH, AT_ONCE))
def test_N35_what_must_hold_holds_for_fresh_seeds(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        run(seed)


@pytest.mark.soak
def test_N35_what_must_hold_holds_for_thousands_of_seeds() -> None:
    first = SystemRandom().randrange(10**6, 10**9)
    for seed in range(first, first + SOAK):
        run(seed)


def test_a_seed_is_one_run_and_always_the_same() -> None:
    assert run(7) == run(7)


@pytest.mark.parametrize("lost", ["element", "mark"])
def test_a_simulation_sees_what_a_store_loses(lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The invariants are no ornament: a store that forgets one kind of row is found out."""
    from narval.runtime.store import Batch

    take = Batch.take

    def forgetful(batch: Batch, change: object) -> None:
        if type(change).__name__ != {"element": "Added", "mark": "Used"}[lost]:
            take(batch, change)  # type: ignore[arg-type]

    monkeypatch.setattr(Batch, "take", forgetful)
    with pytest.raises(BrokenError, match=r"again: python -m tests.simulator 2 --verbose"):
        run(2, often=1.0)
