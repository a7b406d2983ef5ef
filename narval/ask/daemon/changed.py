"""The operation `changed`: what changed since a turn, for programs that show an agent (M6)."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from narval.agent.agent import AgentState
from narval.ask.registry import operation
from narval.core.engines.registry import asking_kinds
from narval.daemon.agents.news import Changes
from narval.daemon.daemon import Daemon


@operation("read")
async def changed(
    daemon: Daemon, after: int = 0, wait: float = 0.0, run: int | None = None, files: bool = False
) -> dict[str, Any]:
    """The runs that changed after a turn, by eid; and whether elements were added or removed, work of people
    changed, other files became active, jobs made progress. Waits `wait` seconds for a turn that changes
    something.

    `turn` is the `after` of the next request. The last 1,024 turns are remembered while somebody asks, and
    for a minute after. `lost` says that `after` is not among them, so anything may have changed: begin with
    it, and then read everything to be displayed. With `run`, waits only for changes of that run; with
    `files`, only for other files.
    """
    news, clock, deadline = daemon.host.waiters.news, daemon.rounds.clock, time.monotonic() + wait
    if wait > 0:
        await news.rest(wait)
    last, changes = after, news.since(after, clock.now())
    while changes is None or not (changes.lost or _is_asked_for(changes, run, files=files)):
        last = changes.turn if changes is not None else last
        left = deadline - time.monotonic()
        if left <= 0:
            break
        await news.more(left)
        if run is not None:
            await news.rest(deadline - time.monotonic())
        changes = news.since(last, clock.now())
    if changes is None:
        changes = Changes(last)
    elif not changes.lost:
        changes = changes._replace(work=_are_of_people(daemon.agent, changes.runs))
    return changes._asdict() | {"runs": list(changes.runs)}


def _is_asked_for(changes: Changes, run: int | None, *, files: bool) -> bool:
    return (run is None or run in changes.runs) and (not files or changes.faults)


def _are_of_people(agent: AgentState, eids: Iterable[int]) -> bool:
    """True if any of these runs asks people something, or if a forgotten one may have."""
    kinds = frozenset(asking_kinds())
    runs = map(agent.runs.get, eids)
    return any(run is None or run.kind in kinds for run in runs)
