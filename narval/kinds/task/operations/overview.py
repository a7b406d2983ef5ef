"""The overview of task types and cases: waiting objects, who takes them, open windows (K62, K67)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from narval.ask.json_forms import moment
from narval.ask.paging import check_limit, gathered
from narval.ask.registry import Form, operation
from narval.ask.titles import title_now
from narval.core.errors import RequestError
from narval.core.memory.lineage import current
from narval.daemon.daemon import Daemon
from narval.kinds.task.engine.case.state import PHASES, CaseState, where
from narval.kinds.task.engine.server.state import TaskServerState
from narval.kinds.task.language.definition import TaskDefinition
from narval.kinds.task.operations.queries import QUEUES, window_of
from narval.kinds.task.operations.signals import KIND, type_of

STATES = ("active", "held", "aborting", "blocked")
"""The states of the cases that have not ended."""


@operation("read")
async def task_types(daemon: Daemon, limit: int | None = None, after: str | None = None) -> list[Form]:
    """The task types and global events, by name: how many objects wait at each, since when the first waits,
    who takes them, how many tasks are at work, and its events by queue (K62) and window.

    `limit` and `after` (a name) select a page. `waiting` is None for a global event, which has no queue, and
    for a type whose service run has not begun.
    """
    check_limit(limit)
    if after is not None:
        type_of(daemon, after)
    names = sorted(definition.full_name for definition in daemon.agent.library.of(KIND).values())
    behind = (name for name in names if after is None or name > after)
    return await gathered((_type(daemon, type_of(daemon, name)) for name in behind), limit)


def _type(daemon: Daemon, definition: TaskDefinition) -> Form:
    run = daemon.agent.runs.get(daemon.agent.signals.standing.get(definition.full_name, 0))
    state = run.state if run is not None else None
    now = daemon.rounds.clock.now()
    row: Form = {
        "type": definition.full_name,
        "run": run.eid if run is not None else None,
        "global": definition.is_global,
        "takes": _takers(definition),
        "waiting": None,
        "oldest": None,
        "parts": 0,
        "at_work": 0,
        "busy": 0,
        "events": dict.fromkeys(("registered", "awaiting-condition", "awaiting-action"), 0),
        "windows": {"open": 0, "shut": 0},
        "next": None,
    }
    if not isinstance(state, TaskServerState):
        return row
    rules = [rule for event in state.events.values() for rule in event.rules.values()]
    windows = Counter(window_of(rule, now) for rule in rules)
    first = next(iter(state.queue), None)
    wakes = [rule.wake for rule in rules if rule.wake is not None]
    return row | {
        "waiting": None if definition.is_global else len(state.queue),
        "oldest": moment(state.objects[first].at) if first is not None else None,
        "parts": sum(map(len, state.parts.values())),
        "at_work": len(state.at_work),
        "busy": sum(bool(entry.object) for entry in state.at_work.values()),
        "events": row["events"] | Counter(QUEUES[rule.stage] for rule in rules),
        "windows": {word: windows[word] for word in ("open", "shut")},
        "next": moment(min(wakes)) if wakes else moment(state.due),
    }


def _takers(definition: TaskDefinition) -> str:
    """The takers of the objects of a type: people, code, a command, its scripts, or programs."""
    if definition.is_global:
        return "its rule"
    if definition.code is not None:
        return ":".join(definition.code)
    if definition.program:
        return f"exec: {' '.join(definition.program)}"
    if definition.users or definition.roles:
        return ", ".join((*definition.users, *definition.roles))
    return "its scripts" if definition.invocation != "manual" else "programs"


@operation("read")
async def task_cases(
    daemon: Daemon, state: str | None = None, limit: int | None = None, before: int | None = None
) -> list[Form]:
    """The cases that have not ended: each with its first object, where that is, and since when.

    All, oldest first; with `limit` the newest `limit`, newest first; with `before` only those of lower eids.
    With a `state` only those in it: active, held (an object of it cannot continue by itself), aborting, or
    blocked (a compensator failed).
    """
    check_limit(limit)
    if state is not None and state not in STATES:
        raise RequestError(f"expected a state of cases, one of {', '.join(STATES)}, got {state!r:.40}")
    active = daemon.agent.runs.active
    eids = sorted((eid for eid in active if before is None or eid < before), reverse=limit is not None)
    return await gathered((_case(daemon, active[eid], state) for eid in eids if eid in active), limit)


def _case(daemon: Daemon, run: Any, state: str | None) -> Form | None:
    case = run.state
    if not isinstance(case, CaseState) or case.status in PHASES or state not in (None, case.status):
        return None
    identity = next(iter(case.members), None)
    if identity is None:
        return None
    member = case.members[identity]
    return {
        "case": run.eid,
        "state": case.status,
        "object": identity,
        "now": current(daemon.agent.memory, member.now) or member.now,
        "title": title_now(daemon.agent, member.now),
        "where": where(member),
        "type": member.type or None,
        "since": moment(member.since) if member.since else None,
        "why": next((one.why for one in case.members.values() if one.why and not one.is_over), None),
        "objects": sum(not one.is_over for one in case.members.values()),
        "started": moment(run.started),
    }
