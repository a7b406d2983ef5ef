"""The lines on incidents in `attention`: one for each definition, part and type of error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from narval.agent.agent import AgentState
from narval.agent.incidents import FILE, RUN, Incident, IncidentRow
from narval.agent.relying import undone_run
from narval.agent.run_error import remedy_of
from narval.ask.attention.sentence import LONGEST, SHOWN, item
from narval.ask.registry import Form
from narval.ask.text import counted, shortened
from narval.ask.withholding import withheld_error
from narval.core.definitions.telling.words import listed
from narval.core.engines.engine import Retryable
from narval.core.engines.registry import engine_of_run
from narval.core.kinds import UNDOING
from narval.core.trust.origins import secrets_of

WITHDRAWN = "withdrawn"
"""The error of a step whose item was withdrawn with a reason: it needs no one's attention."""

LONGEST_MESSAGE = 240
"""The most characters of an error's message."""


def incident_lines(agent: AgentState, rows: dict[str, IncidentRow]) -> Iterator[Form]:
    """The lines on all incidents except faults of files: one for each definition, part and type of error, the
    newest first.
    """
    of_one_cause: dict[tuple[str, ...], list[tuple[str, IncidentRow]]] = {}
    for id, row in rows.items():
        newest = row.newest
        if newest.what != FILE and newest.type != WITHDRAWN:
            cause = newest.what, newest.kind, newest.definition, newest.part, newest.type
            of_one_cause.setdefault(cause, []).append((id, row))
    lines = [_of_one_cause(agent, alike) for alike in of_one_cause.values()]
    lines.sort(key=lambda line: -line[0])
    for since, link, text in lines[:SHOWN]:
        yield item("incident", "high", text, link, since)
    if len(lines) > SHOWN:
        more = counted(len(lines) - SHOWN, "more sort")
        yield item("incident", "high", f"{more} of errors: `narval errors` lists them", {"page": "errors"})


def _of_one_cause(agent: AgentState, alike: list[tuple[str, IncidentRow]]) -> tuple[float, Form, str]:
    """The moment of the first incident of one cause, the link to the incidents, and a sentence."""
    of = {eid: told for _, row in alike for eid, told in row.of.items()}
    _, latest = max(alike, key=lambda pair: max(pair[1].of))
    again = {run.retry_of: run.eid for run in agent.runs.retrying.values()}
    retries = [again[run] for _, run in of.values() if run in again]
    more = f"; begun again as {listed(list(map(str, retries[:SHOWN])))}, under way" if retries else ""
    link: Form = {"incident": alike[0][0]} if len(alike) == 1 else {"page": "errors"}
    newest = latest.newest
    is_final = newest.what == RUN and not isinstance(engine_of_run(newest.kind), Retryable)
    if is_final and newest.kind not in UNDOING:
        ends = f"narval errors acknowledge {newest.id}{agent.option} --reason TEXT"
        more = f"{more}; once it is dealt with: {ends}"
    return min(of.values())[0], link, f"{_sentence(agent, newest, of)}{more}"


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
