"""The sorts of things that runs wait for: the sort of one run, and the active runs by sort."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from narval.agent.agent import AgentState
from narval.agent.run import Run
from narval.ask.titles import title
from narval.ask.turn_index import TurnIndex
from narval.core.definitions.action.definition import Action
from narval.core.engines.commands import SIGNAL, Call
from narval.core.engines.engine import Wait
from narval.core.engines.registry import listed_kinds
from narval.core.errors import RequestError
from narval.core.kinds import ASKING, KINDS
from narval.daemon.news import Changes
from narval.system.long_work import TimeSlice

PERSON, ELEMENT, MOMENT, CALL, ACT, NOTHING = "person", "element", "moment", "call", "act", "nothing"
"""The things that a run waits for: an act is a signal or a token to complete, nothing means it is working, or
will begin.
"""

SORTS = (PERSON, ACT, NOTHING, ELEMENT, MOMENT, CALL)
"""All of them, those that need a person first."""

_ANSWERED_BY_RUNS = frozenset((SIGNAL, *(name for name, kind in KINDS.items() if kind.engine)))
"""The kinds of calls that another run answers."""


def waits_for(agent: AgentState, run: Run) -> str | None:
    """The sort of thing that a run waits for, by its calls, watches and timers; None for an ended run."""
    if not run.active:
        return None
    kinds = {_kind_of(agent, call) for call in run.calls.values()}
    if run.kind in KINDS[ASKING].runs or ASKING in kinds:
        return PERSON
    works = kinds - _ANSWERED_BY_RUNS
    if works and not all(_is_source(agent, run, call) for call in run.calls.values() if call.kind in works):
        return NOTHING
    if works or any(watch.conditions for watch in run.watches.values()):
        return ELEMENT  # a watch without conditions waits for the element that a date was computed from
    if kinds:
        return CALL  # a moment beside a call may be only its time limit
    if run.status in ("ready", "created"):  # it has not begun
        return NOTHING
    return MOMENT if run.wakes else ACT


def asked_in(agent: AgentState, run: Run) -> str | None:
    """The first question that a run asks people, in a line, and the number of others; or None."""
    waits = (wait for item in items_of(agent, run) for wait in waits_of(item))
    asked = [wait.about for wait in waits if wait.about]
    return f"{asked[0]}{f' and {len(asked) - 1} more' if asked[1:] else ''}" if asked else None


def items_of(agent: AgentState, run: Run) -> list[Run]:
    """The work items by which a run asks people: itself, if it is one, or those that it has called."""
    if run.kind in KINDS[ASKING].runs:
        return [run]
    calls = (call for call in run.calls.values() if _kind_of(agent, call) == ASKING)
    return [item for call in calls if (item := _run_of(agent, call)) is not None]


def about(agent: AgentState, run: Run) -> str:
    """The subject of a run, in a line: the question that it asks people, or else the first undeclared element
    that it held; "" if there is none.
    """
    if asked := asked_in(agent, run):
        return asked
    first = next((eid for eid in agent.memory.contexts.of(run.eid) if eid not in agent.memory.declared), None)
    return title(agent, first) if first is not None else ""


def waits_of(run: Run) -> Iterator[Wait]:
    """The things that a run waits for; none after its end."""
    if run.active and run.state is not None:
        yield from run.engine.waiting_for(run.definition, run.state, run.watches)


def _kind_of(agent: AgentState, call: Call) -> str:
    """The kind of a call; for a call held until a person agrees, the kind of the work that asks."""
    asking = _run_of(agent, call)
    is_held = asking is not None and asking.caller is not None and asking.caller.held is not None
    return ASKING if is_held else call.kind


def _run_of(agent: AgentState, call: Call) -> Run | None:
    """The run that answers a call, or asks whether it may be made; None if there is none here."""
    return agent.runs.get(agent.runs.by_call.get(call.call, 0))


def _is_source(agent: AgentState, run: Run, call: Call) -> bool:
    """True for an action that runs on and yields elements from time to time."""
    action = agent.lookup.definition(run, call.kind, call.name)
    return isinstance(action, Action) and action.where == "source"


def check_sort(sort: str) -> None:
    """Raise RequestError unless runs can wait for such a thing."""
    if sort not in SORTS:
        raise RequestError(f"expected waiting_for to be one of {', '.join(SORTS)}, got {sort!r:.80}")


class WaitingRuns(TurnIndex):
    """The active runs of an agent, by their kind and what they wait for."""

    def __init__(self, agent: AgentState) -> None:
        super().__init__(agent)
        self._listed = frozenset(listed_kinds())
        self._of: dict[int, tuple[str, str]] = {}
        self._runs: dict[tuple[str, str], dict[int, None]] = {}

    async def follow(self, changes: Changes) -> None:
        """Refile the runs that changed."""
        active, time_slice = self._agent.runs.active, TimeSlice()
        for eid in {*self._of, *active} if changes.lost else changes.runs:
            await time_slice.yield_if_due()
            run = active.get(eid)
            self._put(eid, run)
            caller = run.caller.run if run is not None and run.caller is not None else 0
            if caller in active:  # the caller may wait for this run's question
                self._put(caller, active[caller])

    def _put(self, eid: int, run: Run | None) -> None:
        sort = waits_for(self._agent, run) if run is not None else None
        after = (run.kind, sort) if run is not None and sort is not None else None
        before = self._of.get(eid)
        if after == before:
            return
        if before is not None:
            del self._of[eid], self._runs[before][eid]
        if after is not None:
            self._of[eid] = after
            self._runs.setdefault(after, {})[eid] = None

    def of(self, sort: str, kinds: Iterable[str]) -> list[int]:
        """The runs of some kinds that wait for one sort of thing, oldest first."""
        return sorted(eid for kind in kinds for eid in self._runs.get((kind, sort), ()))

    def counts(self) -> dict[str, int]:
        """The number of listed runs, by what they wait for."""
        counts = dict.fromkeys(SORTS, 0)
        for (kind, sort), runs in self._runs.items():
            if kind in self._listed:
                counts[sort] += len(runs)
        return counts
