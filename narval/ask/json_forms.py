"""The forms of answers: plain data with stable keys (surfaces, "JSON forms")."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any
from zoneinfo import ZoneInfo

from narval.agent.agent import AgentState
from narval.agent.history import RunAt
from narval.agent.jobs import ForgetRun, GiveUpCall, Job, StartRun
from narval.agent.run import Run
from narval.ask.places import place_of
from narval.core.definitions.action.definition import Action
from narval.core.definitions.prototype import Input, Output, Prototype
from narval.core.elements.changes import MarkScope
from narval.core.elements.element import Element, Origin
from narval.core.elements.error_element import read_error
from narval.core.engines.commands import Call
from narval.core.engines.engine import resumed_from
from narval.core.engines.events import Caller
from narval.core.errors import Fault
from narval.core.memory.hearsay import is_hearsay
from narval.core.source.secrets import without_secrets
from narval.files.agents.webhooks import ORIGIN
from narval.system.clock import utc

Form = dict[str, Any]


def moment(at: float | None, zone: str | None = None) -> str | None:
    """A moment as ISO 8601 with its zone, that of the machine if none is named, to the millisecond."""
    if at is None:
        return None
    there = ZoneInfo(zone) if zone is not None else None
    return utc(at).astimezone(there).isoformat(timespec="milliseconds")


def fault(found: Fault) -> dict[str, Any]:
    """A fault in a file."""
    return {"path": found.path, "line": found.line, "column": found.column, "message": found.message}


def run(agent: AgentState, found: Run) -> dict[str, Any]:
    """A run. Which run it begins again is told where that is known without reading its history: of one that
    was under way since the daemon began; `shown` tells it always.
    """
    again = found.retry_of or (found.past[1] if found.past is not None else 0)
    return {
        "eid": found.eid,
        "kind": found.kind,
        "name": found.name,
        "state": found.status,
        "phase": found.phase,
        "started": moment(found.started),
        "ended": moment(found.ended),
        "parent": _parent(found.caller),
        **_person(found),
        "definition": found.digest,
        "error": _error(agent, found),
        "retry_of": {"run": again} if again else None,
        **newer(agent, found),
    }


def newer(agent: AgentState, found: Run) -> Form:
    """The version that a file has now, and the moment of that which a run under way keeps (N31); nothing
    where these are one.
    """
    newest = agent.library.get(found.engine.definition_kind, found.name) if found.active else None
    if newest is None or newest.digest == found.digest:
        return {}
    own = agent.store.definition(found.digest)
    return {"newer": {"definition": newest.digest, "since": moment(own.loaded) if own is not None else None}}


def _parent(caller: Caller | None) -> dict[str, Any] | None:
    """The step that called a run; of another agent its name alone (G33)."""
    if caller is None:
        return None
    return {"run": caller.run, "step": caller.step} if caller.run else {"agent": caller.agent}


_MOMENTS = ("at", "since", "until", "succeeded")
"""The keys of moments in the parts of runs."""


def shown(
    agent: AgentState,
    found: Run,
    definition: Any,
    state: Any,
    context: Collection[int],
    under_way: Iterable[Call] = (),
) -> Form:
    """A run with its parts, its context, its calls, and the run and step that it was begun again from, or
    None.
    """
    again = resumed_from(found.engine, state)
    parts = found.engine.parts(definition, state)
    for part in (part for listed in parts.values() for part in listed):
        part |= {key: moment(part[key]) for key in _MOMENTS if key in part}
    return {
        **run(agent, found),
        **parts,
        "context": list(context),
        "calls": _calls(agent, found, context, under_way),
        "retry_of": {"run": again[0], "step": again[1]} if again is not None else None,
    }


def _calls(agent: AgentState, found: Run, context: Iterable[int], under_way: Iterable[Call]) -> list[Form]:
    """The calls of a run that gave something that it holds, and those under way, with their inputs (N8)."""
    rows: dict[str, Form] = {}
    for eid in context:
        made = agent.memory.element(eid)
        origin = made.origin if made is not None else None
        if origin is not None and origin.run == found.eid and origin.call:
            row = rows.setdefault(origin.call, _call(origin.call, origin.step, origin.inputs, []))
            row["gave"].append(eid)
    for call in under_way:
        row = rows[call.call] = _call(call.call, call.step, given_to(call), None)
        if call.agent:
            row["agent"] = call.agent
    return list(rows.values())


def given_to(call: Call) -> tuple[int, ...]:
    """The elements that a call was given."""
    return (*(eid for _, eids in call.inputs for eid in eids), *call.elements)


def _call(call: str, step: str, inputs: Iterable[int], gave: list[int] | None) -> Form:
    return {"call": call, "step": step, "inputs": list(inputs), "gave": gave}


def past(agent: AgentState, found: Run, then: RunAt) -> dict[str, Any]:
    """A run after line `seq` of its history, in the form of `show`, with the moment of that line."""
    finish = then.finish or {}
    return {
        **shown(agent, found, then.definition, then.state, then.context),
        "state": then.state.status,
        "phase": finish.get("phase", "active"),
        "ended": moment(then.ended),
        "error": _error(agent, found) if finish.get("error") is not None else None,
        "seq": then.seq,
        "at": moment(then.at),
    }


def _error(agent: AgentState, run: Run) -> dict[str, Any] | None:
    if run.error is None:
        return None
    element = agent.memory.element(run.error)
    if element is None:
        forgotten = "the error element was forgotten"
        return {"type": "error", "message": forgotten, "step": "", "eid": run.error, "place": None}
    kind, message, step = read_error(element)
    origin = element.origin
    if not step and origin is not None and origin.run == run.eid:
        step = origin.step  # an action's own error element does not say which step had called it
    place, message = place_of(agent, element) or None, without_secrets(message)
    return {"type": kind, "message": message, "step": step, "eid": run.error, "place": place}


def element(agent: AgentState, found: Element) -> dict[str, Any]:
    """An element of memory."""
    return {
        "eid": found.eid,
        "name": found.name,
        "xml": found.with_eid().decode("utf-8"),
        "added": moment(found.added),
        "origin": origin(found.origin),
        "hearsay": is_hearsay(agent.memory, (found.eid,)),
        "used_by": [_use(*use) for use in agent.memory.used_by(found.eid)],
        "outdated": found.eid in agent.memory.outdated,
    }


def _use(scope: MarkScope, run: int) -> dict[str, Any]:
    definition, place, slot = scope
    if slot.startswith("#"):
        by: dict[str, Any] = {"definition": definition, "transition": place, "condition": slot[1:]}
    else:
        by = {"definition": definition, "step": place, "input": slot}
    return {**by, "run": run or None}


def later(agent: AgentState, at: float, key: tuple[int, str], job: Job | None) -> dict[str, Any]:
    """A timer: its moment, and what is done then, for people."""
    return {"at": moment(at), "what": _job(agent, key[0], job)}


def _job(agent: AgentState, run: int, job: Job | None) -> str:
    if isinstance(job, StartRun):
        return f"start {job.name} again"
    if isinstance(job, ForgetRun):
        return f"forget run {job.run}"
    if isinstance(job, GiveUpCall):
        return f"wait no more for what run {job.run} gave up"
    return f"wake run {run} of {agent.runs[run].name}"


def description(by_language: Mapping[str, str]) -> str:
    """A description in English if there is one, else in the first language given."""
    return by_language.get("en") or next(iter(by_language.values()), "")


def action(found: Action) -> dict[str, Any]:
    """An action with its inputs and outputs."""
    return {
        "name": found.full_name,
        "path": found.path,
        "line": found.line,
        "runs": found.where,
        "outside": found.outside,
        **prototype(found.prototype),
        "description": description(found.descriptions),
    }


def prototype(found: Prototype) -> dict[str, Any]:
    """The inputs and outputs of a prototype."""
    return {
        "inputs": [_slot(slot, "use", "list", "optional", "outdates", "newest") for slot in found.inputs],
        "outputs": [_slot(slot, "list", "optional", "unique", "replaces") for slot in found.outputs],
    }


def _slot(slot: Input | Output, *fields: str) -> dict[str, Any]:
    return {"id": slot.id, "match": list(slot.match), **{name: getattr(slot, name) for name in fields}}


def origin(found: Origin | None) -> dict[str, Any] | None:
    """The step, call and inputs, or the file or webhook, that an element came from, and who gave it (N8);
    None if nothing of that is known.
    """
    if found is None:
        return None
    sent = {"from": found.agent, "message": found.message} if found.agent else {}
    if not found.run:
        hook = {"hook": found.step.removeprefix(ORIGIN)} if found.step.startswith(ORIGIN) else {}
        file = hook or ({"file": found.step} if found.step else {})
        return {"run": None, "step": None, **file, **sent, **_person(found)}
    made = {"call": found.call or None, "inputs": list(found.inputs)}
    return {"run": found.run, "step": found.step, **made, **sent, **_person(found)}


def _person(found: Run | Origin) -> Form:
    """By whom something is, if that is known, and who acted in that person's name, if somebody did; of an
    element that came by the monitor also the way and the session (M67).
    """
    actor = {"actor": found.actor} if found.actor else {}
    how = {"way": found.way, "session": found.session} if isinstance(found, Origin) and found.way else {}
    return {"by": found.by or None, **actor, **how}
