"""The lines of `attention`: open incidents, and calls that are blocked now.

Incidents have one line for each definition, part and type of error. Blocked calls are sources in trouble,
calls waiting for a retry, programs that keep crashing, and calls that wait for what a person must provide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from narval.agent.agent import AgentState
from narval.agent.incidents import ERROR, FILE, RUN, Incident, IncidentRow, remedy_of
from narval.agent.relying import undone_run
from narval.agent.run import Run
from narval.agent.runs import NOT_GRANTED
from narval.ask import json_forms
from narval.ask.lookup import newer_code
from narval.ask.registry import Form
from narval.ask.text import counted, older_code, shortened
from narval.ask.turn_index import TurnIndex, up_to_date
from narval.ask.withholding import is_withheld, withheld_error
from narval.core.definitions.telling.sentence import listed
from narval.core.definitions.wall import in_zone
from narval.core.engines.engine import Retryable, Wait
from narval.core.engines.registry import engine_of_run
from narval.core.kinds import UNDOING
from narval.core.trust.origins import secrets_of
from narval.daemon.daemon import Daemon
from narval.daemon.news import Changes
from narval.system.long_work import TimeSlice

SHOWN = 10
"""The most of one sort that get a sentence each."""

LONGEST = 300
"""The most characters of a sentence."""


def item(what: str, grave: str, text: str, link: Form, since: float | None = None) -> Form:
    """One thing that needs attention, in a sentence."""
    return {
        "what": what,
        "grave": grave,
        "text": shortened(text, LONGEST),
        "link": link,
        "since": json_forms.moment(since),
    }


WITHDRAWN = "withdrawn"
"""The error of a step whose item was withdrawn with a reason: it needs no one's attention."""

LONGEST_MESSAGE = 240
"""The most characters of an error's message."""


def incident_lines(agent: AgentState, rows: dict[str, IncidentRow]) -> Iterator[Form]:
    """The lines on all incidents, one for each definition, part and type of error, newest first. Faults of
    files, and starts that wait for a grant, have lines of their own.
    """
    of_one_cause: dict[tuple[str, ...], list[tuple[str, IncidentRow]]] = {}
    for id, row in rows.items():
        newest = row.newest
        if newest.what != FILE and newest.type != WITHDRAWN and not _waits_for_grant(agent, row):
            cause = newest.what, newest.kind, newest.definition, newest.part, newest.type
            of_one_cause.setdefault(cause, []).append((id, row))
    lines = [_of_one_cause(agent, alike) for alike in of_one_cause.values()]
    lines.sort(key=lambda line: -line[0])
    for since, link, text in lines[:SHOWN]:
        yield item("incident", "high", text, link, since)
    if len(lines) > SHOWN:
        more = counted(len(lines) - SHOWN, "more sort")
        yield item("incident", "high", f"{more} of errors: `narval errors` lists them", {"page": "errors"})


def _waits_for_grant(agent: AgentState, row: IncidentRow) -> bool:
    """True for starts that wait for a grant, not for a part of a run to which something was not granted."""
    if row.newest.what != ERROR or row.newest.type != NOT_GRANTED:
        return False
    errors = map(agent.memory.element, row.of)
    return all(error is None or "start" in error.attributes for error in errors)


def _of_one_cause(agent: AgentState, alike: list[tuple[str, IncidentRow]]) -> tuple[float, Form, str]:
    """The moment of the first incident of one cause, the link to the incidents, and a sentence."""
    of = {eid: line for _, row in alike for eid, line in row.of.items()}
    _, latest = max(alike, key=lambda pair: max(pair[1].of))
    again = {run.retry_of: run.eid for run in agent.runs.retrying.values()}
    retries = [again[run] for _, run in of.values() if run in again]
    more = f"; begun again as {listed(list(map(str, retries[:SHOWN])))}, under way" if retries else ""
    link: Form = {"incident": alike[0][0]} if len(alike) == 1 else {"page": "errors"}
    newest = latest.newest
    is_final = newest.what == RUN and not isinstance(engine_of_run(newest.kind), Retryable)
    if is_final and newest.kind not in UNDOING:
        ends = f"narval errors acknowledge {newest.id}{agent.option} --reason TEXT"
        more = f"{more}; when it is settled: {ends}"
    said = shortened(_sentence(agent, newest, of), LONGEST - len(more))  # never the commands
    return min(of.values())[0], link, f"{said}{more}"


def _sentence(agent: AgentState, newest: Incident, of: Mapping[int, tuple[float, int]]) -> str:
    """A sentence on incidents of one cause, based on the newest."""
    count, last = len(of), ", the last" if len(of) > 1 else ""
    said = f"{newest.type}: {shortened(newest.message, LONGEST_MESSAGE)}"
    if any(secrets_of(agent.memory.labels, eid) for eid in of):
        said = withheld_error(newest.type)
    if newest.what != RUN:
        times = f"{counted(count, 'error')} " if count > 1 else ""
        about = f"{newest.definition}{last}: " if newest.definition else ""
        element = agent.memory.element(max(of))
        run = element.origin.run if element is not None and element.origin is not None else 0
        if element is not None and (remedy := remedy_of(agent, element.eid, run)):
            about = f"{newest.definition} at {newest.part}{last}: "
            left = LONGEST - len(f"{times}{about}; {remedy}")  # the message is cut, never the commands
            return f"{times}{about}{shortened(said, max(left, 1))}; {remedy}"
        return f"{times}{about}{said}"
    [*_, (_, run)] = of.values()
    runs = f"{counted(count, 'run')} of" if count > 1 else f"run {run} of"
    at = f" at {newest.part}" if newest.part else ""
    if newest.kind in UNDOING and (undone := undone_run(agent, run)):
        failed = f"run {run} was to undo run {undone} of {newest.definition} and failed{at}"
        times = f"{counted(count, 'run')} that undo, the last: " if count > 1 else ""
        return f"{times}{failed}: {said}; what could not be undone stays done"
    return f"{runs} {newest.definition} failed{at}{last}: {said}"


# --- blocked calls --------------------------------------------------------------------------------------


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
        text = f"{part} in run {run.eid} of {name}{more} will be tried again{at}: {said}"
        if code := older_code(newer_code(agent, run), run.eid):
            text = f"{text}; it {code}"
        yield item("source", "middle", text, {"run": run.eid})
    if len(resting) > SHOWN:
        more = counted(len(resting) - SHOWN, "more step is", "more steps are")
        yield item("source", "middle", f"{more} will be tried again; see `narval why RUN`", {"page": "runs"})


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
