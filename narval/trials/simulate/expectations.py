"""The counts that expectations are compared with: of current elements, runs, calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from narval.core.memory.memory import Memory
from narval.trials.simulate.executor import RecordedCall, is_of
from narval.trials.simulate.scenario import Expectation

Phases = Mapping[int, tuple[str, str]]
"""The definition and the phase of each run, by its eid."""


def count(expectation: Expectation, memory: Memory, runs: Phases, calls: Sequence[RecordedCall]) -> int:
    """Count the elements, runs or calls of an expectation, of one agent."""
    if expectation.what == "run":
        wanted = (expectation.recipe, expectation.phase)
        return sum(wanted in ((name, ""), (name, phase)) for name, phase in runs.values())
    if expectation.what == "call":
        return sum(is_of(expectation, call) for call in calls)
    if expectation.condition is None:
        return 0
    found = memory.select(expectation.condition.bind())
    return sum(eid not in memory.outdated for eid in found)
