"""The calls that are blocked now: sources in trouble, calls waiting for a retry, programs that keep crashing,
and calls that wait for what a person must provide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from narval.agent.agent import AgentState
from narval.agent.run import Run
from narval.ask.attention.sentence import SHOWN, item
from narval.ask.lookup import newer_code
from narval.ask.registry import Form
from narval.ask.text import counted, older_code
from narval.ask.turn_index import TurnIndex, up_to_date
from narval.ask.withholding import is_withheld, withheld_error
from narval.core.definitions.wall import in_zone
from narval.core.engines.engine import Wait
from narval.daemon.agents.news import Changes
from narval.daemon.daemon import Daemon
from narval.system.time_slice import TimeSlice


async def calls_that_wait(daemon: Daemon) -> list[Form]:
    """Sentences on all of them, each with its link."""
    tries = (await up_to_date(daemon, RunsToTryAgain)).waits
    dying = _dying(daemon.agent, tries, daemon.rounds.clock.now())
    return [*_sources(daemon), *_to_try_again(daemon.agent, tries), *dying, *_in_vain(daemon)]


def _sources(daemon: Daemon) -> Iterator[Form]:
    """Sources that cannot work now."""
    troubles, dispatcher = daemon.calls.executor.troubles, daemon.host.dispatcher
    records = map(dispatcher.calls.find, troubles.calls)
    active = daemon.agent.runs.active
    runs = (active.get(eid) for eid in sorted({record.call.run for record in records if record is not None}))
    for run in runs:
        for call in run.calls.values() if run is not None else ():
            trouble = troubles.of(dispatcher.external_id(call.call))
            if run is not None and trouble is not None and dispatcher.find(call.call) is not None:
                text = f"{call.name} in run {run.eid} of {run.name} tells of trouble"
                said = f"{trouble.kind}: {trouble.message}"
                said = withheld_error(trouble.kind) if is_withheld(daemon.agent, run.eid, ()) else said
                yield item("source", "middle", f"{text}: {said}", {"run": run.eid}, trouble.since)


class RunsToTryAgain(TurnIndex):
    """The parts of active runs that wait for a retry, or crashed and were started again."""

    def __init__(self, agent: AgentState) -> None:
        super().__init__(agent)
        self.waits: dict[int, tuple[Wait, ...]] = {}
        """The retries that each run waits for, and its parts that crashed."""

    async def follow(self, changes: Changes) -> None:
        """Update the runs that changed."""
        active, time_slice = self._agent.runs.active, TimeSlice()
        for eid in {*self.waits, *active} if changes.lost else changes.runs:
            await time_slice.yield_if_due()
            run = active.get(eid)
            if run is not None and (tries := tuple(_tries(run))):
                self.waits[eid] = tries
            else:
                self.waits.pop(eid, None)


def _tries(run: Run) -> Iterator[Wait]:
    """The retries that a run waits for, and its parts that crashed; a wait only for dates costs nothing."""
    state = run.state
    if state is not None and (state.dies_again or not all(timer.calendar for timer in run.wakes.values())):
        for wait in run.engine.waiting_for(run.definition, state, run.watches):
            if wait.what == "try" or wait.deaths is not None:
                yield wait


def _to_try_again(agent: AgentState, tries: Mapping[int, tuple[Wait, ...]]) -> Iterator[Form]:
    """Failed calls that wait for a retry."""
    active = agent.runs.active
    resting: dict[tuple[str, str], list[tuple[Run, Wait]]] = {}
    for eid in sorted(tries.keys() & active.keys()):
        run = active[eid]
        for wait in tries[eid]:
            if wait.deaths is None:
                resting.setdefault((run.name, wait.id), []).append((run, wait))
    for (name, part), waits in islice(resting.items(), SHOWN):
        run, wait = waits[0]
        more = f" (the first of {len(waits)} runs)" if len(waits) > 1 else ""
        at = f" at {in_zone(wait.until, agent.clockwork.zone)}" if wait.until is not None else ""
        said = withheld_error(wait.after) if is_withheld(agent, run.eid, ()) else wait.text
        text = f"{part} in run {run.eid} of {name}{more} is to be tried again{at}: {said}"
        if code := older_code(newer_code(agent, run), run.eid):
            text = f"{text}; it {code}"
        yield item("source", "middle", text, {"run": run.eid})
    if len(resting) > SHOWN:
        more = counted(len(resting) - SHOWN, "more step is", "more steps are")
        yield item("source", "middle", f"{more} to be tried again: `narval why RUN` tells", {"page": "runs"})


def _dying(agent: AgentState, tries: Mapping[int, tuple[Wait, ...]], now: float) -> Iterator[Form]:
    """The programs meant to run always that keep crashing, until they have stayed up for a while."""
    active, zone = agent.runs.active, agent.clockwork.zone
    dying = [
        (active[eid], wait.id, wait.deaths)
        for eid in sorted(tries.keys() & active.keys())
        for wait in tries[eid]
        if wait.deaths is not None and now < wait.deaths.until
    ]
    for run, part, deaths in dying[:SHOWN]:
        often = f"died {deaths.times} times in a row, the last time at {in_zone(deaths.last, zone)}"
        text = f"{part} in run {run.eid} of {run.name} {often}, and was started again"
        said = "its last words are secret" if is_withheld(agent, run.eid, ()) else deaths.text
        text = f"{text}; {said}" if deaths.text else text
        yield item("source", "middle", text, {"run": run.eid}, deaths.first)
    if len(dying) > SHOWN:
        more = f"{counted(len(dying) - SHOWN, 'more program')} died again and again, and were started again"
        yield item("source", "middle", more, {"page": "runs"})


def _in_vain(daemon: Daemon) -> Iterator[Form]:
    """Calls that wait for a cluster that stays unreachable until a person intervenes."""
    cluster = daemon.calls.executor.cluster
    if cluster is None or not cluster.connection.missing:
        return
    records = [one for one in daemon.host.dispatcher.calls.records.values() if cluster.waits_in_vain(one)]
    for record in records[:1]:
        call = record.call
        run = daemon.agent.runs.get(call.run)
        more = f" (the first of {len(records)} calls)" if len(records) > 1 else ""
        of = f" of {run.name}" if run is not None else ""
        text = f"{call.step} in run {call.run}{of}{more} waits: {cluster.waits_for(record)}"
        yield item("source", "middle", text, {"run": call.run}, record.since)
