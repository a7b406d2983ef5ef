"""The counts that expectations are compared with: of current elements, runs, calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from narval.memory.memory import Memory
from narval.simulation.executor import RecordedCall, is_meant, takes
from narval.simulation.scenario import Expectation

Phases = Mapping[int, tuple[str, str]]
"""The definition and the phase of each run, by its eid."""


def count(expectation: Expectation, memory: Memory, runs: Phases, calls: Sequence[RecordedCall]) -> int:
    """Count the elements, runs or calls of an expectation."""
    return _COUNT[expectation.what](expectation, memory, runs, calls)


def _elements(expectation: Expectation, memory: Memory, runs: Phases, calls: Sequence[RecordedCall]) -> int:
    if expectation.condition is None:
        return 0
    found = memory.select(expectation.condition.bind())
    return sum(eid not in memory.outdated for eid in found)


def _runs(expectation: Expectation, memory: Memory, runs: Phases, calls: Sequence[RecordedCall]) -> int:
    return sum(
        name == expectation.recipe and expectation.phase in ("", phase) for name, phase in runs.values()
    )


def _calls(expectation: Expectation, memory: Memory, runs: Phases, calls: Sequence[RecordedCall]) -> int:
    return sum(
        is_meant(expectation.action, expectation.recipe, expectation.step, call)
        and takes(expectation.condition, call)
        for call in calls
    )


_COUNT: Mapping[str, Callable[[Expectation, Memory, Phases, Sequence[RecordedCall]], int]] = {
    "element": _elements,
    "run": _runs,
    "call": _calls,
}
