"""The forms of answers: plain data with stable keys (surfaces, "JSON forms")."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from narval.agent.agent import AgentState
from narval.agent.history import RunAt
from narval.agent.incidents import error_of
from narval.agent.run import Run
from narval.agent.timers import ForgetRun, GiveUpCall, Job, StartRun
from narval.ask.lookup import stays
from narval.ask.registry import Form
from narval.ask.runs.waiting import about, asked_in, waits_for
from narval.ask.titles import place_of, title_in, titles
from narval.core.definitions.action.definition import Action
from narval.core.definitions.action.tool import Tool
from narval.core.definitions.action.tool_arguments import arguments_declared
from narval.core.definitions.prototype import Input, Output, Prototype
from narval.core.elements.changes import MarkScope
from narval.core.elements.element import Element, Origin
from narval.core.elements.names import is_sending
from narval.core.engines.commands import Call
from narval.core.engines.engine import Retryable, resumed_from
from narval.core.engines.events import Caller
from narval.core.errors import Fault
from narval.core.memory.labels import WHETHER, endorsement
from narval.core.memory.memory import Memory
from narval.core.source.secrets import without_secrets
from narval.files.agents.senders import HOOK_ORIGIN
from narval.system.clock import utc

_QUARTER = 900
_QUARTERS_SINCE, _QUARTERS_UNTIL = 1_000_000_000, 10_000_000_000
"""The moments between which a zone changes its offset only at a full quarter of an hour."""


def moment(at: float | None, zone: str | None = None) -> str | None:
    """A moment as ISO 8601 to the millisecond, in a zone, by default that of the machine."""
    if at is None:
        return None
    there = ZoneInfo(zone) if zone is not None else None
    return utc(at).astimezone(there).isoformat(timespec="milliseconds")


class Moments:
    """Moments in the form of `moment`, for many: the zone's offset is looked up once a quarter of an hour."""

    def __init__(self) -> None:
        self._shifts: dict[float, tzinfo | None] = {}
        self._last: tuple[float | None, str | None] = None, None

    def form(self, at: float) -> str | None:
        """A moment as ISO 8601 with the zone of the machine, to the millisecond."""
        if at != self._last[0]:  # elements added in one turn have the same moment
            self._last = at, self._form(at)
        return self._last[1]

    def _form(self, at: float) -> str | None:
        if not _QUARTERS_SINCE <= at <= _QUARTERS_UNTIL:
            return moment(at)
        quarter = at // _QUARTER
        if quarter not in self._shifts:
            self._shifts[quarter] = utc(at).astimezone().tzinfo
        return datetime.fromtimestamp(at, self._shifts[quarter]).isoformat(timespec="milliseconds")


def fault(fault: Fault) -> dict[str, Any]:
    """A fault in a file."""
    return {"path": fault.path, "line": fault.line, "column": fault.column, "message": fault.message}


def run_of(agent: AgentState, eid: int | None) -> dict[str, Any]:
    """The definition and the state of a run, or None if it is forgotten or there is none."""
    run = agent.runs.get(eid) if eid else None
    return {"run_of": run.name if run is not None else None, "state": run.status if run is not None else None}


def run(agent: AgentState, run: Run) -> dict[str, Any]:
    """A run. The run that it retries is named if that is known without reading its history: for one that was
    active since the daemon began. `run_in_full` always names it.
    """
    again = run.retry_of or (run.past[1] if run.past is not None else 0)
    return {
        "eid": run.eid,
        "kind": run.kind,
        "name": run.name,
        "state": run.status,
        "phase": run.phase,
        "waits_for": waits_for(agent, run),
        **({"asks": asks} if run.active and (asks := asked_in(agent, run)) else {}),
        **(
            {"agents": agents}
            if (agents := sorted({call.agent for call in run.calls.values()} - {""}))
            else {}
        ),
        "started": moment(run.started),
        "ended": moment(run.ended),
        "parent": _parent(run.caller),
        **_person(run),
        "definition": run.digest,
        "error": _error(agent, run),
        "retry_of": {"run": again} if again else None,
        **newer(agent, run),
    }


def forgotten_run(eid: int, name: str) -> Form:
    """A run of which only the number and the definition are known."""
    state = {"state": "forgotten", "phase": "forgotten"}
    return {"eid": eid, "name": name, **state, "started": None, "ended": None, "error": None}


def newer(agent: AgentState, run: Run) -> Form:
    """The current version of an active run's file, the moment of the one that the run keeps (N31), and why it
    stays; nothing if they are the same.
    """
    newest = agent.library.get(run.engine.definition_kind, run.name) if run.active else None
    if newest is None or newest.digest == run.digest:
        return {}
    own = agent.store.definition(run.digest)
    since = moment(own.loaded) if own is not None else None
    return {"newer": {"definition": newest.digest, "since": since, "stays": stays(run)}}


def _parent(caller: Caller | None) -> dict[str, Any] | None:
    """The step that called a run; for another agent only its name."""
    if caller is None:
        return None
    return {"run": caller.run, "step": caller.step} if caller.run else {"agent": caller.agent}


def run_in_full(
    agent: AgentState,
    the_run: Run,
    definition: Any,
    state: Any,
    context: Collection[int],
    at: float | None,
    under_way: Iterable[Call] = (),
) -> Form:
    """A run with its parts, context and calls, and what it retries; `at` a moment, None if it has ended."""
    again, parts = resumed_from(the_run.engine, state), the_run.engine.parts(definition, state)
    for part in (part for listed in parts.values() for part in listed):
        seconds, now = part.get("seconds", {}), str(part.get("state")).partition(":")[0]
        if at is not None and now in seconds and part["since"]:
            seconds[now] = round(seconds[now] + max(0.0, at - part["since"]), 3)
        part |= {key: moment(part[key]) for key in ("at", "since", "until", "succeeded") if key in part}
    return {
        **run(agent, the_run),
        **parts,
        "context": list(context),
        "titles": titles(agent, context),
        "calls": _calls(agent, the_run, context, under_way),
        "retryable": not the_run.active and isinstance(the_run.engine, Retryable),
        "retry_of": {"run": again[0], "step": again[1]} if again is not None else None,
    }


def _calls(agent: AgentState, run: Run, context: Iterable[int], under_way: Iterable[Call]) -> list[Form]:
    """The calls of a run whose results it holds, and those under way, with their inputs."""
    rows: dict[str, Form] = {}
    for eid in context:
        made = agent.memory.element(eid)
        origin = made.origin if made is not None else None
        if origin is not None and origin.run == run.eid and origin.call:
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


def past(agent: AgentState, run: Run, then: RunAt) -> dict[str, Any]:
    """A run after line `seq` of its history, in the form of `show`, with the moment of that line."""
    finish = then.finish or {}
    at = then.at if then.finish is None else None
    return {
        **run_in_full(agent, run, then.definition, then.state, then.context, at),
        "state": then.state.status,
        "phase": finish.get("phase", "active"),
        "ended": moment(then.ended),
        "error": _error(agent, run) if finish.get("error") is not None else None,
        "seq": then.seq,
        "at": moment(then.at),
    }


def _error(agent: AgentState, run: Run) -> dict[str, Any] | None:
    if run.error is None:
        return None
    error = error_of(agent, run)
    if error is None:
        forgotten = "the error element was forgotten"
        return {"type": "error", "message": forgotten, "step": "", "eid": run.error, "place": None}
    return {
        "type": error.kind,
        "message": without_secrets(error.message),
        "step": error.step,
        "eid": run.error,
        "place": place_of(agent, error.element) or None,
    }


def element(agent: AgentState, element: Element) -> dict[str, Any]:
    """An element of memory."""
    labels = agent.memory.labels
    own = labels.of((element.eid,))
    said, deciding = labels.told(own)
    return {
        "eid": element.eid,
        "name": element.name,
        "title": title_in(element),
        "xml": element.with_eid().decode("utf-8"),
        "added": moment(element.added),
        "origin": origin(element.origin),
        "labels": said,
        "parts": labels_of_parts(agent, element.eid),
        "decided_by": deciding,
        "hearsay": labels.is_hearsay(own),
        **uses_of(agent.memory.used_by(element.eid)),
        "outdated": element.eid in agent.memory.outdated,
        "withdrawn": agent.memory.withdrawn.get(element.eid),
        "doubtful": element.eid in agent.memory.doubtful,
    }


CURRENT = "current"
"""The standing of an element that conditions and inputs may take."""


def stands(memory: Memory, eid: int) -> str:
    """The standing of an element, as one word."""
    if eid in memory.withdrawn:
        return "withdrawn"
    if eid in memory.outdated:
        return "outdated"
    return "doubtful" if eid in memory.doubtful else CURRENT


def uses_of(marks: Iterable[tuple[MarkScope, int]]) -> Form:
    """The inputs and conditions that have used an element, and the agents that it was sent to."""
    used: list[Form] = []
    sent: list[Form] = []
    for scope, run in marks:
        if is_sending(scope):
            sent.append(sending(scope, run))
        else:
            used.append(use(scope, run))
    return {"used_by": used, "sent_to": sent}


def labels_of_parts(agent: AgentState, eid: int) -> dict[str, list[str]]:
    """The labels of the parts of an element that have their own, by path; "" is the rest of it. {} if all
    parts have the same.
    """
    labels = agent.memory.labels
    own = labels.own(eid)
    paths = sorted(labels.paths(own))
    return {path: sorted(labels.told_of(eid, path)) for path in paths} | (
        {"": [name for name in sorted(labels.rest(own)) if name[-1] != WHETHER]} if paths else {}
    )


def sending(scope: MarkScope, run: int) -> Form:
    """An agent that an element was sent to, and the run that sent it."""
    return {"agent": scope[2], "run": run or None}


def use(scope: MarkScope, run: int) -> Form:
    """An input or condition that has used an element, and the run that did."""
    definition, place, slot = scope
    if slot[:1] == "#":
        return {"definition": definition, "transition": place, "condition": slot[1:], "run": run or None}
    return {"definition": definition, "step": place, "input": slot, "run": run or None}


def later(agent: AgentState, at: float, key: tuple[int, str], job: Job | None) -> dict[str, Any]:
    """A timer: its moment, and what happens then, for people; with the run that wakes, and its subject."""
    form = {"at": moment(at), "what": _job(agent, key[0], job)}
    words = about(agent, agent.runs[key[0]]) if job is None else ""
    return form | ({"run": key[0]} if job is None else {}) | ({"about": words} if words else {})


def _job(agent: AgentState, run: int, job: Job | None) -> str:
    if isinstance(job, StartRun):
        return f"start {job.name} again" + (", late: it starts itself without end" if job.slowed else "")
    if isinstance(job, ForgetRun):
        return f"forget run {job.run}"
    if isinstance(job, GiveUpCall):
        return f"no longer wait for what run {job.run} gave up"
    return f"run {run} of {agent.runs[run].name} goes on"


def description(by_language: Mapping[str, str]) -> str:
    """A description in English if there is one, else in the first language given."""
    return by_language.get("en") or next(iter(by_language.values()), "")


def action(action: Action) -> dict[str, Any]:
    """An action with its inputs and outputs."""
    needs = action.needs.all if action.needs is not None else None
    return {
        "name": action.full_name,
        "path": action.path,
        "line": action.line,
        "runs": action.where,
        "outside": action.outside,
        "where": None if action.says_where is None else list(map(str, action.says_where)),
        "needs": None if needs is None else [f"{name.removesuffix('s')} {value}" for name, value in needs],
        "label": action.label or None,
        "undo": action.undo or None,
        **prototype(action.prototype),
        **({} if action.tool is None else tool(action.tool)),
        "description": description(action.descriptions),
    }


def tool(tool: Tool) -> dict[str, Any]:
    """The arguments of a tool of an MCP server, and whether it declares itself destructive."""
    return {"arguments": [one._asdict() for one in arguments_declared(tool)], "destroys": tool.destroys}


def prototype(prototype: Prototype) -> dict[str, Any]:
    """The inputs and outputs of a prototype, and the parts of outputs that are forwarded."""
    return {
        "inputs": [
            {
                **_slot(slot, "use", "list", "optional", "outdates", "newest"),
                "reads": list(slot.reads),
                "holds": {
                    name: what if isinstance(what, str) else list(what) for name, what in slot.holds.items()
                },
            }
            for slot in prototype.inputs
        ],
        "outputs": [
            {**_slot(slot, "list", "optional", "unique", "replaces"), "own": list(slot.own)}
            for slot in prototype.outputs
        ],
        "keeps": {str(keep.part): list(map(str, keep.sources)) for keep in prototype.keeps},
    }


def _slot(slot: Input | Output, *fields: str) -> dict[str, Any]:
    return {"id": slot.id, "match": list(slot.match), **{name: getattr(slot, name) for name in fields}}


def origin(origin: Origin | None) -> dict[str, Any] | None:
    """The step, call and inputs, or the file or webhook, that an element came from, and who gave it; None if
    nothing is known.
    """
    if origin is None:
        return None
    sent = {"from": origin.agent, "message": origin.message} if origin.agent else {}
    if not origin.run:
        if reason := endorsement(origin):
            return {
                "run": None,
                "step": None,
                "endorsed": reason,
                "inputs": [*origin.inputs],
                **_person(origin),
            }
        hook = {"hook": origin.step.removeprefix(HOOK_ORIGIN)} if origin.step.startswith(HOOK_ORIGIN) else {}
        file = hook or ({"file": origin.step} if origin.step else {})
        return {"run": None, "step": None, **file, **sent, **_person(origin)}
    form: Form = {"run": origin.run, "step": origin.step, "call": origin.call or None}
    form["inputs"] = list(origin.inputs)
    if sent or origin.actor or origin.way:
        return form | sent | _person(origin)
    form["by"] = origin.by or None
    return form


def _person(subject: Run | Origin) -> Form:
    """The person who made something, if known, and the person who acted in their name, if any; for an element
    added in the monitor also the way and the session.
    """
    form: Form = {"by": subject.by or None}
    if subject.actor:
        form["actor"] = subject.actor
    if isinstance(subject, Origin) and subject.way:
        form["way"], form["session"] = subject.way, subject.session
    return form
