"""The forms of what operations answer: plain data with stable keys (surfaces, "JSON forms")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from narval.definitions.action.definition import Action
from narval.errors import Fault
from narval.memory.elements.changes import MarkScope
from narval.memory.elements.element import Element, Origin
from narval.memory.elements.error_element import read_error
from narval.runtime.agent.agent import AgentState
from narval.runtime.agent.history import RunAt
from narval.runtime.agent.jobs import ForgetRun, Job, StartRun
from narval.runtime.agent.run import Run


def moment(at: float | None, zone: str | None = None) -> str | None:
    """A moment as ISO 8601 with its zone, that of the machine if none is named, to the millisecond."""
    if at is None:
        return None
    there = ZoneInfo(zone) if zone is not None else None
    return datetime.fromtimestamp(at, UTC).astimezone(there).isoformat(timespec="milliseconds")


def fault(each: Fault) -> dict[str, Any]:
    """One thing wrong in a file."""
    return {"path": each.path, "line": each.line, "column": each.column, "message": each.message}


def run(agent: AgentState, each: Run) -> dict[str, Any]:
    """A run."""
    caller = each.caller
    return {
        "eid": each.eid,
        "kind": each.kind,
        "name": each.name,
        "state": each.status,
        "phase": each.phase,
        "started": moment(each.started),
        "ended": moment(each.ended),
        "parent": {"run": caller.run, "step": caller.step} if caller is not None else None,
        "definition": each.digest,
        "error": _error(agent, each),
    }


def shown(
    agent: AgentState, each: Run, definition: Any, state: Any, context: Iterable[int]
) -> dict[str, Any]:
    """A run with its parts and what it holds; and from which run it was begun again, or null."""
    again = each.engine.resumed(state)
    parts = each.engine.parts(definition, state)
    for part in (part for listed in parts.values() for part in listed if "until" in part):
        part["until"] = moment(part["until"])
    return {
        **run(agent, each),
        **parts,
        "context": list(context),
        "retry_of": {"run": again[0], "step": again[1]} if again is not None else None,
    }


def past(agent: AgentState, each: Run, then: RunAt) -> dict[str, Any]:
    """A run as it was, in the form of `show`; and after which line of its history, and when that was."""
    finish = then.finish or {}
    return {
        **shown(agent, each, then.definition, then.state, then.context),
        "state": each.engine.status(then.state),
        "phase": finish.get("phase", "active"),
        "ended": moment(then.ended),
        "error": _error(agent, each) if finish.get("error") is not None else None,
        "seq": then.seq,
        "at": moment(then.at),
    }


def _error(agent: AgentState, each: Run) -> dict[str, Any] | None:
    if each.error is None:
        return None
    element = agent.memory.element(each.error)
    if element is None:
        return {"type": "error", "message": "the error element was forgotten", "step": "", "eid": each.error}
    kind, message, step = read_error(element)
    origin = element.origin
    if not step and origin is not None and origin.run == each.eid:
        step = origin.step  # an action's own error element does not say which step had called it
    return {"type": kind, "message": message, "step": step, "eid": each.error}


def element(agent: AgentState, each: Element) -> dict[str, Any]:
    """An element of memory."""
    origin = each.origin
    return {
        "eid": each.eid,
        "name": each.name,
        "xml": each.with_eid().decode("utf-8"),
        "added": moment(each.added),
        "origin": _origin(origin),
        "used_by": [_use(scope) for scope in agent.memory.used_by(each.eid)],
        "outdated": each.eid in agent.memory.outdated,
    }


def _use(scope: MarkScope) -> dict[str, str]:
    definition, place, slot = scope
    if slot.startswith("#"):
        return {"definition": definition, "transition": place, "condition": slot[1:]}
    return {"definition": definition, "step": place, "input": slot}


def deed(agent: AgentState, run: int, identifier: str, what: Job | None) -> str:
    """What is to be done at a moment, for people."""
    if isinstance(what, StartRun):
        return f"start {what.name} again"
    if isinstance(what, ForgetRun):
        return f"forget run {what.run}"
    return f"wake run {run} of {agent.runs[run].name}"


def description(by_language: Mapping[str, str]) -> str:
    """What something does, in English if that is said."""
    return by_language.get("en") or next(iter(by_language.values()), "")


def action(each: Action) -> dict[str, Any]:
    """An action, with what it takes and gives."""
    return {
        "name": each.full_name,
        "path": each.path,
        "line": each.line,
        "runs": each.where,
        "inputs": [
            {
                "id": one.id,
                "match": list(one.match),
                "use": one.use,
                "list": one.list,
                "optional": one.optional,
                "outdates": one.outdates,
            }
            for one in each.prototype.inputs
        ],
        "outputs": [
            {
                "id": one.id,
                "match": list(one.match),
                "list": one.list,
                "optional": one.optional,
                "unique": one.unique,
            }
            for one in each.prototype.outputs
        ],
        "description": description(each.descriptions),
    }


def _origin(origin: Origin | None) -> dict[str, Any] | None:
    """The step that made an element, or the file that it was dropped in; None when somebody added it."""
    if origin is None:
        return None
    if not origin.run:
        return {"run": None, "step": None, "file": origin.step}
    return {"run": origin.run, "step": origin.step}
