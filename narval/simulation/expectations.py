"""What a scenario expects, counted: elements that nothing has replaced, runs, calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from narval.memory.memory import Memory
from narval.simulation.executor import RecordedCall, is_meant, takes
from narval.simulation.scenario import Expectation

Phases = Mapping[int, tuple[str, str]]
"""What each run follows, and its phase."""


def count(wish: Expectation, memory: Memory, runs: Phases, calls: Sequence[RecordedCall]) -> int:
    """How many there are now of what is wished for."""
    return _COUNT[wish.what](wish, memory, runs, calls)


def _elements(wish: Expectation, memory: Memory, runs: Phases, calls: Sequence[RecordedCall]) -> int:
    if wish.condition is None:
        return 0
    found = memory.select(wish.condition.bind())
    return sum(eid not in memory.outdated for eid in found)


def _runs(wish: Expectation, memory: Memory, runs: Phases, calls: Sequence[RecordedCall]) -> int:
    return sum(name == wish.recipe and wish.phase in ("", phase) for name, phase in runs.values())


def _calls(wish: Expectation, memory: Memory, runs: Phases, calls: Sequence[RecordedCall]) -> int:
    return sum(
        is_meant(wish.action, wish.recipe, wish.step, met) and takes(wish.condition, met) for met in calls
    )


_COUNT: Mapping[str, Callable[[Expectation, Memory, Phases, Sequence[RecordedCall]], int]] = {
    "element": _elements,
    "run": _runs,
    "call": _calls,
}
