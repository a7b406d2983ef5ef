"""What must hold of several daemons that share a store (G96, G97): fresh seeds, many by `make soak`."""

from __future__ import annotations

import re
from random import SystemRandom

import pytest

from narval.daemon.fleet.holding import LeaseGate
from tests.simulator.daemons import Daemons, Stopped
from tests.simulator.server import Server
from tests.simulator.shared_store import SharedStore
from tests.simulator.simulation import BrokenError, run
from tests.simulator.test_simulator import SOAK

FRESH = 5
TRIED = 40
"""So many seeds, of which at least one breaks where a safeguard is missing."""


def test_G97_what_must_hold_of_several_daemons_holds() -> None:
    for seed in range(50_000, 50_000 + FRESH):
        run(seed, Daemons)


def test_the_seed_of_several_daemons_is_one_run_and_always_the_same() -> None:
    assert run(7, Daemons) == run(7, Daemons)


def is_found_out(what: str, kind: type[Daemons] = Daemons, *, likely: int = 0) -> bool:
    """True if one of the first seeds breaks, and says that; the one that last did is tried first."""
    for seed in sorted(range(TRIED), key=lambda seed: seed != likely):
        try:
            run(seed, kind)
        except BrokenError as error:
            if re.match(f"seed {seed}: AssertionError: {what}", str(error)):
                return True
    return False


def test_G47_a_missing_fence_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "is_at", lambda *given: True)
    assert is_found_out(r"daemon \d+ commits for agent \d+, which \d+ has", Stopped, likely=27)


def test_G48_a_gate_that_is_always_open_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LeaseGate, "is_open", lambda gate: True)
    assert is_found_out(r"daemon \d+ performs for agent \d+", likely=2)


def test_G51_a_commit_that_is_taken_for_recorded_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SharedStore, "is_recorded", lambda store, marks: store.link.wait() is None)
    assert is_found_out("", likely=36)


@pytest.mark.soak
def test_G97_what_must_hold_holds_for_thousands_of_seeds_of_several_daemons() -> None:
    first = SystemRandom().randrange(10**6, 10**9)
    for seed in range(first, first + SOAK):
        run(seed, Daemons)
