"""Queries about tasks, answered from the states of runs (K61, K62, K67): instances, queues, events, and the
places of objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from narval.agent.agent import AgentState
from narval.agent.replay import state_of
from narval.agent.run import Run
from narval.ask.json_forms import moment
from narval.ask.lookup import command
from narval.ask.paging import check_limit, gathered
from narval.ask.registry import Form, operation
from narval.ask.titles import title_now
from narval.core.errors import TaskRefusedError
from narval.core.kinds import ASKING
from narval.core.memory.lineage import current
from narval.daemon.daemon import Daemon
from narval.kinds.task.engine.case.state import CaseState, Member, where
from narval.kinds.task.engine.engine import kind as instances
from narval.kinds.task.engine.server.state import EventRule, RaisedEvent, TaskServerState
from narval.kinds.task.engine.state import InstanceState
from narval.kinds.task.language.definition import TaskDefinition
from narval.kinds.task.language.windows import Interval
from narval.kinds.task.operations.signals import KIND, server_of, type_of


class TasksAtWork:
    """The instances that have not ended, kept up to date."""

    def __init__(self) -> None:
        self.eids: dict[int, None] = {}
        self.version = 0
        """A number that changes whenever an instance has changed."""

    def put(self, eid: int, definition: TaskDefinition, state: InstanceState) -> None:
        """Add or update an instance."""
        self.version += 1
        self.eids[eid] = None

    def drop(self, eid: int) -> None:
        """Forget an instance; an unknown one is ignored."""
        self.version += 1
        self.eids.pop(eid, None)


@operation("read")
async def tasks(
    daemon: Daemon,
    name: str | None = None,
    limit: int | None = None,
    before: int | None = None,
    known: list[list[Any]] | None = None,
    wait: float = 0.0,
) -> list[dict[str, Any]]:
    """The instances that are at work (K61), of one type or of all: state, object, person.

    All, oldest first; with `limit` the newest `limit`, newest first; with `before` only those of lower eids.
    It waits `wait` seconds for a list other than the `known` one: eid, state and object of each (K68).
    """
    if name is not None:
        type_of(daemon, name)
    check_limit(limit)
    at_work = daemon.host.listings.of(instances, TasksAtWork)
    rows = await _at_work(daemon, at_work, name, limit, before)
    while known is not None and wait > 0 and known_of(rows) == known:
        version, wait = at_work.version, await daemon.host.turned(wait)
        if daemon.host.listings.of(instances, TasksAtWork).version != version:
            rows = await _at_work(daemon, at_work, name, limit, before)
    return rows


def known_of(rows: Iterable[Form]) -> list[list[Any]]:
    """The eid, state and object of each instance in a list."""
    return [[row["eid"], row["state"], row["object"]] for row in rows]


def _who_works(daemon: Daemon, run: Run, state: InstanceState) -> Form:
    """The worker: the work item of the people asked, and the person who has claimed it; else the
    task's code.
    """
    call = next((call for call, purpose in state.calls.items() if purpose == "code"), "")
    asked = run.calls.get(call)
    called = daemon.agent.runs.get(daemon.agent.runs.by_call.get(call, 0))
    item = called if called is not None and called.engine.kind == ASKING else None
    element = daemon.agent.memory.element(item.eid) if item is not None else None
    attributes = element.attributes if element is not None else {}
    code = f"{asked.kind}:{asked.name}" if asked is not None and asked.kind != ASKING else None
    return {
        "item": item.eid if item is not None else None,
        "claimed_by": attributes.get("claimed") or None,
        "asked": attributes.get("for") or None,
        "code": code,
        "agent": (asked.agent or None) if asked is not None else None,
    }


async def _at_work(
    daemon: Daemon, at_work: TasksAtWork, name: str | None, limit: int | None, before: int | None
) -> list[Form]:
    active = daemon.agent.runs.active
    eids = sorted(at_work.eids, reverse=limit is not None)
    runs = (active[eid] for eid in eids if eid in active and (before is None or eid < before))
    return await gathered((_task(daemon, run) if name in (None, run.name) else None for run in runs), limit)


def _task(daemon: Daemon, run: Run) -> Form | None:
    state = run.state
    if not isinstance(state, InstanceState):
        return None  # the store could not restore it: `narval runs` says so
    return {
        "eid": run.eid,
        "type": run.name,
        "state": state.exposed or None,
        "since": moment(state.since) if state.since else None,
        "object": state.object or None,
        "title": title_now(daemon.agent, state.object),
        "case": state.case or None,
        "user": state.user or None,
        "role": state.role or None,
        "program": state.program,
        **_who_works(daemon, run, state),
        "started": moment(run.started),
    }


# --- queues and events ------------------------------------------------------------------------------------


@operation("read")
async def task_queue(
    daemon: Daemon, name: str, limit: int | None = None, after: int | None = None
) -> list[dict[str, Any]]:
    """The objects in the queue of a type (K21), the next one first; with COMPOSED FROM, also the parts that
    wait for others. `limit` and `after` (an object) select a page.
    """
    state = server_of(daemon, type_of(daemon, name)).state
    assert isinstance(state, TaskServerState), name
    check_limit(limit)
    waiting = [*state.queue, *(eid for parts in state.parts.values() for eid in parts.values())]
    if after is not None:
        if after not in waiting:
            raise TaskRefusedError("no-object", f"object {after} is no longer in the queue of {name}")
        waiting = waiting[waiting.index(after) + 1 :]
    return await gathered((_queued(daemon, state, eid) for eid in waiting), limit)


def _queued(daemon: Daemon, state: TaskServerState, eid: int) -> Form:
    entry = state.objects[eid]
    part = f"{entry.ordinal} of {entry.count}" if entry.count else None
    return {
        "object": eid,
        "now": current(daemon.agent.memory, eid),
        "title": title_now(daemon.agent, eid),
        "case": entry.case or None,
        "since": moment(entry.at),
        "part_of": entry.parent or None,
        "part": part,
        "waits_for_parts": eid not in state.queue,
    }


@operation("read")
async def task_events(
    daemon: Daemon,
    name: str | None = None,
    limit: int | None = None,
    before: int | None = None,
    object: int | None = None,
) -> list[dict[str, Any]]:
    """The events that have not ended, of one type or of all, in three queues (K62): registered,
    awaiting-condition, awaiting-action. An event that several rules may answer has a row for each, with its
    `window`: open, shut, or None for none.

    All, oldest first; with `limit` the newest `limit`, newest first; with `before` only those of lower
    numbers. With `object` only those that carry it, or that the task with that object has raised, receives,
    or may receive in its present state.
    """
    check_limit(limit)
    if name is None:
        servers: Iterable[int] = daemon.agent.signals.standing.values()
    else:
        servers = (server_of(daemon, type_of(daemon, name)).eid,)
    pairs = [
        (event, daemon.agent.runs[eid].name)
        for eid in servers
        if isinstance(state := daemon.agent.runs[eid].state, TaskServerState)
        for event in state.events.values()
        if before is None or event.id < before
    ]
    pairs.sort(key=lambda pair: pair[0].id, reverse=limit is not None)
    concerned = None if object is None else _Concerned(daemon, object)
    now = daemon.rounds.clock.now()
    rows = (
        _event(event, of, rule, now)
        for event, of in pairs
        for rule in event.rules.values()
        if concerned is None or concerned.has(of, event, rule)
    )
    return await gathered(rows, limit)


class _Concerned:
    """A filter for the events that concern an object, the task that has it, or the state of that task."""

    def __init__(self, daemon: Daemon, object: int) -> None:
        _, case, identity = case_of(daemon, object)
        member = case.members[identity]
        task = _worker(daemon, member)
        self._eids = {identity, member.now, task or identity}
        state = daemon.agent.runs[task].state if task is not None else None
        self._place = (member.type, state.state) if isinstance(state, InstanceState) else None

    def has(self, name: str, event: RaisedEvent, rule: EventRule) -> bool:
        """True if a rule of an event of a type concerns it."""
        if self._eids & {event.object, event.raiser, rule.receiver}:
            return True
        return not rule.receiver and self._place == (name, rule.state)


def _windows(rule: EventRule) -> tuple[Interval, ...] | None:
    """The windows that apply to a rule at its present stage."""
    return rule.before_action if rule.stage in ("due", "ready", "acting") else rule.before_condition


def window_of(rule: EventRule, now: float) -> str | None:
    """`open` or `shut`, for the window of a rule at a moment; None for a rule without one."""
    if (windows := _windows(rule)) is None:
        return None
    return "open" if any(one.start <= now <= one.end for one in windows) else "shut"


def _event(event: RaisedEvent, name: str, rule: EventRule, now: float) -> Form:
    """The row of a rule of an event that has not ended."""
    windows = _windows(rule)
    ends = max((window.end for window in windows), default=None) if windows else None
    return {
        "eid": event.id,
        "event": event.name,
        "type": name,
        "queue": QUEUES[rule.stage],
        "stage": rule.stage,
        "state": rule.state or None,
        "raised": moment(event.at),
        "parameters": list(event.parameters),
        "sync": event.sync,
        "object": event.object or None,
        "by": event.raiser or None,
        "receiver": rule.receiver or None,
        "window": window_of(rule, now),
        "next": moment(rule.wake),
        "until": moment(ends) if ends is not None and ends < _EVER else None,
    }


QUEUES = {
    "registered": "registered",
    "open": "awaiting-condition",
    "false": "awaiting-condition",
    "due": "awaiting-action",
    "ready": "awaiting-action",
    "acting": "awaiting-action",
}
"""The queue of events that a rule is in, by its stage."""

_EVER = 253402300800.0
"""The end of the year 9999: windows that end later are open."""


# --- objects ----------------------------------------------------------------------------------------------


@operation("read")
async def task_where(daemon: Daemon, object: int) -> dict[str, Any]:
    """The place of an object (K67), by the number of any version of it: its case, its type and instance, or
    the event that carries it; for a split object, also the places of its parts.
    """
    run, state, identity = case_of(daemon, object)
    return _place(daemon, run, state, identity)


def _place(daemon: Daemon, run: Run, state: CaseState, identity: int) -> Form:
    member = state.members[identity]
    task = _worker(daemon, member) if member.state == "task" else None
    return {
        "object": identity,
        "now": current(daemon.agent.memory, member.now) or member.now,  # its code may have replaced it
        "title": title_now(daemon.agent, member.now),
        "case": run.eid,
        "state": member.state,
        "where": where(member),
        "type": member.type or None,
        "task": task,
        "event": member.event or None,
        "since": moment(member.since) if member.since else None,
        "why": member.why or None,
        "part_of": member.parent or None,
        "parts": [_place(daemon, run, state, part) for part in member.parts if part in state.members],
    }


def _worker(daemon: Daemon, member: Member) -> int | None:
    """The instance that has an object now; None while it is in the queue."""
    for holder in daemon.agent.memory.contexts.holders(member.now):
        run = daemon.agent.runs.active.get(holder)
        state = run.state if run is not None and run.name == member.type else None
        if isinstance(state, InstanceState) and member.now in (state.object, state.given):
            return holder
    return None


def case_of(daemon: Daemon, eid: int) -> tuple[Run, CaseState, int]:
    """The case of an object, by any version of it, and its identity there. Raises TaskRefusedError."""
    agent = daemon.agent
    for version in _versions(agent, eid):
        for holder in sorted(agent.memory.contexts.holders(version)):
            run = agent.runs.get(holder)
            if run is not None and run.engine.state_type is CaseState:
                state = state_of(agent, run)
                assert isinstance(state, CaseState), holder
                identity = state.objects.get(version, version)
                if identity in state.members:
                    return run, state, identity
    run = agent.runs.get(eid)
    if run is not None and run.engine.state_type is CaseState:
        state = state_of(agent, run)
        return run, state, next(iter(state.members))
    about = f"`{command(daemon, f'why {eid}')}` tells what happened to it"
    is_there = eid in agent.memory
    what = "is no object of a task" if is_there else "is not in memory"
    raise TaskRefusedError("no-object", f"{eid} {what}{f'; {about}' if is_there else ''}")


def _versions(agent: AgentState, eid: int) -> Iterator[int]:
    """An element, and those that it replaced, back to the first."""
    seen, line = {eid}, [eid]
    for version in line:
        yield version
        element = agent.memory.element(version)
        origin = element.origin if element is not None else None
        earlier = {*origin.inputs} & agent.memory.outdated - seen if origin is not None else ()
        seen.update(earlier)
        line += sorted(earlier)


def is_task(run: Run) -> bool:
    """True for the runs of tasks: instances, service runs, cases."""
    return run.engine.definition_kind == KIND
