"""What a scenario expects, counted: elements that nothing has replaced, runs, calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from narval.memory.memory import Memory
from narval.simulation.executor import Met, is_meant, takes
from narval.simulation.scenario import Wish

Phases = Mapping[int, tuple[str, str]]
"""What each run follows, and its phase."""


def count(wish: Wish, memory: Memory, runs: Phases, calls: Sequence[Met]) -> int:
    """How many there are now of what is wished for."""
    return _COUNT[wish.what](wish, memory, runs, calls)


def _elements(wish: Wish, memory: Memory, runs: Phases, calls: Sequence[Met]) -> int:
    if wish.condition is None:
        return 0
    found = memory.select(wish.condition.bind())
    return sum(eid not in memory.outdated for eid in found)


def _runs(wish: Wish, memory: Memory, runs: Phases, calls: Sequence[Met]) -> int:
    return sum(name == wish.recipe and wish.phase in ("", phase) for name, phase in runs.values())


def _calls(wish: Wish, memory: Memory, runs: Phases, calls: Sequence[Met]) -> int:
    return sum(
        is_meant(wish.action, wish.recipe, wish.step, met) and takes(wish.condition, met) for met in calls
    )


_COUNT: Mapping[str, Callable[[Wish, Memory, Phases, Sequence[Met]], int]] = {
    "element": _elements,
    "run": _runs,
    "call": _calls,
}
