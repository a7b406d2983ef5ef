"""Why a run waits, and for what: each condition, the nearest element, what fails on it (N11)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from narval.engines.engine import Wait
from narval.errors import RequestError
from narval.memory.elements.changes import MarkScope
from narval.memory.elements.element import parse
from narval.memory.elements.error_element import read_error
from narval.memory.memory import Memory
from narval.memory.patterns.pattern import Bound
from narval.operations.json_forms import moment
from narval.runtime.agent.agent import AgentState
from narval.runtime.agent.jobs import StartRun
from narval.runtime.agent.run import Run

STUCK = "stuck"
"""The type of the error of a run of which nothing could go on (N27): its detail tells what could not."""
LOOKED_AT = 500
"""The newest elements of the right name that are looked at to find the nearest."""


def explain(
    agent: AgentState, now: float, run: Run, definition: Any, state: Any, identifier: str | None
) -> dict[str, Any]:
    """What a run waits for; with an identifier, that part alone, and the reason it did not go on.

    What a part does not wait for any more is judged as if it did: that tells why it was not done.
    """
    waits = list(run.engine.waiting_for(definition, state, run.watches)) if run.active else []
    judged = list(run.engine.diagnose(definition, state, identifier, agent.memory.element, agent.library.get))
    answer: dict[str, Any] = {"run": run.eid, "state": run.status}
    if identifier is not None:
        reason = run.engine.explain(definition, state, identifier)
        if reason is None:
            parts = run.engine.parts(definition, state)
            known = ", ".join(each["id"] for part in parts.values() for each in part)
            raise RequestError(f"run {run.eid} of {run.name} has no {identifier!r}; it has {known}")
        waits = judged or [wait for wait in waits if wait.id == identifier]
        answer["reason"] = reason
    else:
        known_by_now = {wait.id for wait in waits}
        waits += [wait for wait in judged if wait.id not in known_by_now]
        told = [run.engine.explain(definition, state, None), _again(agent, run)]
        outcome = _outcome(agent.memory, run, "; ".join(filter(None, told)))
        if outcome:
            answer["reason"] = outcome
    answer["waiting"] = [_waiting(agent, now, run, wait) for wait in waits]
    return answer


def _again(agent: AgentState, run: Run) -> str:
    """When what failed begins again, while that is still to come (N28)."""
    if run.phase != "failed":
        return ""
    for at, _, deed in agent.timers.waiting():
        if isinstance(deed, StartRun) and (deed.name, deed.attempt) == (run.name, run.attempt + 1):
            failures = f"{deed.attempt} failures in a row" if deed.attempt > 1 else "a failure"
            return f"{run.name} begins again at {moment(at)}, after {failures}"
    return ""


def _outcome(memory: Memory, run: Run, told: str | None) -> str:
    """How a run ended, or is about to: the error of one that failed, and what its engine tells of it."""
    texts = []
    if run.error is not None:
        texts.append(_error(memory, run.error))
    if told:
        texts.append(told)
    if not run.active:
        texts = texts or [f"it was {run.status}" if run.status == "cancelled" else f"it is {run.status}"]
        texts.append(f"it ended at {moment(run.ended)}")
    return "; ".join(texts)


def _error(memory: Memory, eid: int) -> str:
    """An error in one sentence; of a plan that was stuck, each transition that could not fire as well."""
    element = memory.element(eid)
    if element is None:
        return f"failed: the error, element {eid}, has been forgotten"
    kind, message, step = read_error(element)
    if not step and element.origin is not None:
        step = element.origin.step
    where = f"failed in step {step}" if step else "failed"
    text = f"{where}: {kind}: {message} (element {eid})"
    detail = parse(element.xml).findtext("detail") if kind == STUCK else None
    return "; ".join([text, *(detail or "").splitlines()])


def _waiting(agent: AgentState, now: float, run: Run, wait: Wait) -> dict[str, Any]:
    lasting = wait.lasting or (None,) * len(wait.conditions)
    conditions = [
        _condition(agent, run, bound, scope)
        if seconds is None
        else _lasting(agent, now, run, bound, scope, seconds)
        for bound, scope, seconds in zip(wait.conditions, wait.scopes, lasting, strict=True)
    ]
    line: dict[str, Any] = {
        "id": wait.id,
        "for": wait.what,
        "until": moment(wait.until),
        "conditions": conditions,
    }
    if wait.text:
        line["text"] = wait.text
    if wait.what == "time":
        line["until"], line["zone"] = moment(wait.until, agent.zone), agent.zone
    children = [child for call in wait.calls if (child := agent.by_call.get(call)) is not None]
    if children:
        line["runs"] = children
    return line


def _condition(agent: AgentState, run: Run, bound: Bound, scope: MarkScope | None) -> dict[str, Any]:
    line: dict[str, Any] = {
        "pattern": bound.text,
        "met": False,
        "nearest": None,
        "failed": None,
        "value": None,
    }
    found = next(_satisfying(agent, run, bound, scope), None)
    if found is not None:
        return {**line, "met": True, "nearest": found}
    return {**line, **_nearest(agent.memory, run.eid, bound, scope)}


def _lasting(
    agent: AgentState, now: float, run: Run, bound: Bound, scope: MarkScope | None, seconds: float
) -> dict[str, Any]:
    """A condition that must last (N38): since when it does, and when it will have done so for long enough."""
    memory = agent.memory
    found = ((memory.fits_since(eid, bound, scope), eid) for eid in _satisfying(agent, run, bound, scope))
    since, eid = min(found, default=(None, None))
    if since is None or eid is None:
        return {**_condition(agent, run, bound, scope), "lasting": seconds, "since": None, "until": None}
    return {
        "pattern": bound.text,
        "met": since + seconds <= now,
        "nearest": eid,
        "failed": None,
        "value": None,
        "lasting": seconds,
        "since": moment(since),
        "until": moment(since + seconds),
    }


def _satisfying(agent: AgentState, run: Run, bound: Bound, scope: MarkScope | None) -> Iterator[int]:
    """What satisfies a condition, nearest first: what the run and its callers hold, then all of memory."""
    memory = agent.memory
    each: Run | None = run
    while each is not None:
        yield from memory.among(memory.contexts.of(each.eid), bound, scope)
        each = agent.runs.get(each.caller.run) if each.caller is not None else None
    yield from memory.matching(bound, scope)


def _nearest(memory: Memory, run: int, bound: Bound, scope: MarkScope | None) -> dict[str, Any]:
    """The element that satisfies most of the pattern, the newest of equals, and what fails on it.

    Those that the run holds are nearer than all others (N15).
    """
    best: tuple[int, int, str, str] | None = None
    eids = sorted(memory.named(bound.names), reverse=True)
    own = [eid for eid in eids if memory.contexts.holds(run, eid)]
    for eid in islice(own or eids, LOOKED_AT):
        element = memory.element(eid)
        if element is None or (element.addressed and not own):
            continue
        mismatch = bound.explain(memory.tree(element))
        if mismatch is None:
            held = _taken(memory, eid, scope)
            return {"nearest": eid, "failed": held[0], "value": held[1]}
        if best is None or mismatch.satisfied > best[0]:
            best = (mismatch.satisfied, eid, mismatch.predicate, mismatch.value)
    if best is None:
        names = " or ".join(sorted(bound.names)) if bound.names else "any"
        return {"failed": f"an element named {names}", "value": "none in memory"}
    return {"nearest": best[1], "failed": best[2], "value": best[3]}


def _taken(memory: Memory, eid: int, scope: MarkScope | None) -> tuple[str, str]:
    """Why an element that matches may not be taken."""
    if eid in memory.outdated:
        return "not outdated", "replaced by a newer version"
    if eid in memory.reserved:
        return "not reserved", "a call under way is replacing it"
    where = " ".join(scope) if scope is not None else "it"
    return "one not used before", f"used by {where}"
