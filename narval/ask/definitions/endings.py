"""Runs of definitions: how many are active, and how the last ones ended, at a bounded cost (M40)."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import islice
from typing import NamedTuple

from narval.agent.agent import AgentState
from narval.agent.run import Run
from narval.core.engines.registry import run_kinds, standing_kinds
from narval.system.time_slice import TimeSlice

LAST = 20
"""The most ended runs of a definition that are counted, the last ones."""
RUNS_LOOKED_AT = 5000
"""The most runs, newest first, that are searched for them."""

Key = tuple[str, str]
"""The kind and the full name of a definition."""


class Endings(NamedTuple):
    """The active runs, counted, and the last ended ones, newest first, by definition."""

    active: Counter[Key]
    over: dict[Key, list[Run]]

    def phases(self, key: Key) -> dict[str, int]:
        """The number of the last runs of a definition that ended in each phase."""
        return dict(Counter(run.phase for run in self.over.get(key, ())))


async def endings(agent: AgentState, only: Key | None = None) -> Endings:
    """The runs of all definitions, or of one; without service runs."""
    standing, time_slice = set(standing_kinds().values()), TimeSlice()
    active = Counter(key(run) for run in agent.runs.active.values() if run.kind not in standing)
    over: defaultdict[Key, list[Run]] = defaultdict(list)
    kinds = [kind for kind in run_kinds() if kind not in standing]
    for eid in islice(agent.memory.index.newest_named(kinds), RUNS_LOOKED_AT):
        await time_slice.yield_if_due()
        run = agent.runs.get(eid)
        if run is None or run.active or only not in (None, key(run)):
            continue
        found = over[key(run)]
        if len(found) < LAST:
            found.append(run)
        elif only is not None:
            break
    return Endings(active, dict(over))


def key(run: Run) -> Key:
    """The kind and name of the definition that a run follows."""
    return run.engine.definition_kind, run.name
