"""The two logs of tasks (K66), and times (K67): read from the journals of runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from heapq import nlargest
from typing import Any

import msgspec

from narval.agent.run import Run
from narval.ask.json_forms import moment
from narval.ask.paging import check_limit
from narval.ask.registry import Form, operation
from narval.core.errors import RequestError, UnreadableError
from narval.core.memory.lineage import current
from narval.daemon.daemon import Daemon
from narval.kinds.task.engine.case.state import CaseState
from narval.kinds.task.engine.state import InstanceState
from narval.kinds.task.operations.queries import case_of, is_task
from narval.kinds.task.operations.signals import type_of
from narval.store import codec
from narval.system.long_work import TimeSlice

_Span = tuple[float, float | None]
"""The time from one moment to another; None: until now."""

_ENDS = frozenset({"ObjectDone", "EndingBegan", "InstanceOver", "InstanceEnded"})
"""The facts with which an instance leaves its last state."""


@operation("read")
async def task_log(
    daemon: Daemon,
    object: int | None = None,
    name: str | None = None,
    limit: int | None = None,
    before: int | None = None,
) -> list[dict[str, Any]]:
    """The records of the two logs (K66), of one object, of one type, or of all: which object came to which
    task, which state a task entered, which events it raised, and the results of their conditions and actions.

    All, oldest first; with `limit` the newest `limit`, newest first; with `before` only those of lower `seq`.
    """
    check_limit(limit)
    if name is not None:
        type_of(daemon, name)
    versions = None if object is None else _Versions(daemon, object)
    lines: list[Form] = []
    time_slice = TimeSlice()
    for run in _runs(daemon, name, versions):
        await time_slice.yield_if_due()
        rows = _of_instance(daemon, run) if _is_instance(run) else _of_server(daemon, run)
        lines += (
            row
            for row in rows
            if (versions is None or versions.concerns(row)) and (before is None or row["seq"] < before)
        )
    ordered = nlargest(limit or len(lines), lines, key=lambda row: row["seq"])
    for row in ordered:
        row["at"] = moment(row["at"])
        row.pop("given", None)
    return ordered if limit is not None else ordered[::-1]


class _Versions:
    """The eids that an object has had, and the instances and types that had it."""

    def __init__(self, daemon: Daemon, object: int) -> None:
        self.case, state, self.identity = case_of(daemon, object)
        self.eids, self.instances, self.types = (
            {self.identity, state.members[self.identity].now},
            set[int](),
            set[str](),
        )
        self.came_to: dict[str, None] = {}
        """The types that it came to, in order."""
        for line in _facts(daemon, self.case):
            if line.get("object") != self.identity:
                continue
            if line["what"] == "ObjectPut":
                self.came_to[line["at_type"]] = None
            if line["what"] == "ObjectLeft":
                self.instances.add(line["instance"])
                self.eids |= {line["was"], line["now"]}
            elif line["what"] == "ObjectMoved":
                self.types.add(line["at_type"])
        if here := state.members[self.identity].instance:
            self.instances.add(here)
        for eid in (self.identity, current(daemon.agent.memory, self.identity) or 0):
            self.instances |= {
                holder
                for holder in daemon.agent.memory.contexts.holders(eid)
                if (run := daemon.agent.runs.get(holder)) is not None and _is_instance(run)
            }

    def concerns(self, row: Form) -> bool:
        return row.get("given", row.get("object")) in self.eids


def _is_instance(run: Run) -> bool:
    return run.engine.state_type is InstanceState


def _runs(daemon: Daemon, name: str | None, versions: _Versions | None) -> Iterator[Run]:
    """The runs whose journals have the records, the oldest first."""
    runs = daemon.agent.runs
    if versions is not None:
        yield from (runs[eid] for eid in sorted(versions.instances) if eid in runs)
        standing = daemon.agent.signals.standing
        yield from (runs[standing[of]] for of in sorted(versions.types) if of in standing)
        return
    for run in runs.values():
        if is_task(run) and run.engine.state_type is not CaseState and name in (None, run.name):
            yield run


def _of_instance(daemon: Daemon, run: Run) -> Iterator[Form]:
    """The records of an instance. `given` is the object as it was taken."""
    object_given = 0
    for line in _facts(daemon, run):
        head = {"seq": line["seq"], "at": line["at"], "task": run.eid, "type": run.name}
        if line["what"] == "ObjectTaken" and (object_given := line.get("object", 0)):
            yield {**head, "log": "object", "object": object_given, "given": object_given}
        elif line["what"] == "StateEntered":
            place = {"state": line["state"], "object": line.get("object") or None}
            yield {**head, "log": "task", **place, "given": object_given or None}


def _of_server(daemon: Daemon, run: Run) -> Iterator[Form]:
    """The records of the events of a type."""
    event_of: dict[int, Form] = {}
    receivers: dict[tuple[int, int], int] = {}
    for line in _facts(daemon, run):
        head = {"seq": line["seq"], "at": line["at"], "log": "task"}
        what, number = line["what"], line.get("event", 0)
        if what == "EventRaised":
            event_of[number] = {"event": line["name"], "number": number, "object": line.get("object") or None}
            by = {"task": line.get("raiser") or None, "type": line.get("raiser_type") or None}
            by["by"] = "narval" if line.get("own") else line.get("by") or None
            yield {**head, **by, "to": run.name, **event_of[number]}
        elif what in ("ConditionJudged", "RuleOver"):
            rule = (number, line.get("rule", 0))
            receivers[rule] = line.get("receiver", receivers.get(rule, 0))
            of = {
                "task": receivers[rule] or None,
                "type": run.name,
                **event_of.get(number, {"number": number}),
            }
            if what == "ConditionJudged":
                yield {**head, **of, "condition": line["held"]}
            elif line["result"] != "passed over":
                yield {**head, **of, "action": line["result"]}


# --- the path of an object ----------------------------------------------------------------------------------


@operation("read")
async def task_passed(daemon: Daemon, object: int) -> list[dict[str, Any]]:
    """The tasks that an object has passed (K67), in order, including those before it was split off.

    `compensation` is the progress of undoing the work of a task; None if it is not undone.
    """
    case, state, identity = case_of(daemon, object)
    family = {identity}
    while (parent := state.members[identity].parent) and parent in state.members:
        family.add(parent)
        identity = parent
    trail = {(step.object, step.instance): step for step in state.trail}
    passed = []
    for line in _facts(daemon, case):
        if line["what"] == "ObjectLeft" and line["object"] in family:
            step = trail.get((line["object"], line["instance"]))
            row = {"object": line["object"], "type": line["at_type"], "task": line["instance"]}
            row |= {"result": line["result"], "at": moment(line["at"]), "why": line.get("why") or None}
            row |= {"outputs": line.get("outputs", []), "compensator": line.get("compensator") or None}
            undone = step.state if step is not None and step.state not in ("forwarded", "committed") else None
            passed.append({**row, "compensation": undone})
    return passed


# --- times ------------------------------------------------------------------------------------------------


@operation("read")
async def task_time(
    daemon: Daemon, name: str, state: str | None = None, object: int | None = None
) -> dict[str, Any]:
    """The seconds that instances of a type were in a `state`, or that an `object` was at the type (K67).

    An object is at a task from when an instance takes it until the instance enters a terminal state; `waited`
    is the seconds that it spent in the queue before. `open` is the number of times that have not ended; these
    count until now.
    """
    definition = type_of(daemon, name)
    if (state is None) == (object is None):
        raise RequestError("expected a state of the type, or an object, and not both")
    if object is not None:
        return {
            "type": definition.full_name,
            "object": object,
            **_at_type(daemon, object, definition.full_name),
        }
    if state not in definition.states:
        raise RequestError(f"{name} has no state {state}; it has {', '.join(definition.states)}")
    now = daemon.rounds.clock.now()
    instances = filter(_is_instance, _runs(daemon, definition.full_name, None))
    spans = [
        span
        for run in instances
        for taking in _takings(daemon, run)
        for at, span in taking.states
        if at == state
    ]
    return {"type": definition.full_name, "state": state, **_sum(spans, now)}


@operation("read")
async def task_times(daemon: Daemon, object: int) -> list[dict[str, Any]]:
    """The times of an object (K67): a row for each type that it was at, with `waited`, its seconds in the
    queue of the type; below it a row for each state, in the order in which they were reached.

    `open` is the number of times that have not ended; these count until now.
    """
    versions, now = _Versions(daemon, object), daemon.rounds.clock.now()
    at_type: dict[str, list[_Span]] = {name: [] for name in versions.came_to}
    in_state: dict[str, dict[str, list[_Span]]] = {}
    for eid in sorted(versions.instances):
        run = daemon.agent.runs.get(eid)
        if run is None:
            continue
        for taking in (taking for taking in _takings(daemon, run) if taking.object in versions.eids):
            at_type.setdefault(run.name, []).append((taking.begin, taking.end))
            for state, span in taking.states:
                in_state.setdefault(run.name, {}).setdefault(state, []).append(span)
    rows: list[Form] = []
    for name, spans in at_type.items():
        waited = _waited(daemon, versions, name, [begin for begin, _ in spans], now)
        rows.append({"type": name, "state": None, **_sum(spans, now), "waited": round(waited, 3)})
        rows += (
            {"type": name, "state": state, **_sum(inner, now), "waited": None}
            for state, inner in in_state.get(name, {}).items()
        )
    return rows


def _sum(spans: Iterable[tuple[float, float | None]], now: float) -> Form:
    listed = list(spans)
    seconds = sum((now if end is None else end) - begin for begin, end in listed)
    return {
        "seconds": round(seconds, 3),
        "times": len(listed),
        "open": sum(end is None for _, end in listed),
    }


def _at_type(daemon: Daemon, object: int, name: str) -> Form:
    versions, now = _Versions(daemon, object), daemon.rounds.clock.now()
    runs = (daemon.agent.runs.get(eid) for eid in sorted(versions.instances))
    mine = (run for run in runs if run is not None and run.name == name)
    takings = (taking for run in mine for taking in _takings(daemon, run) if taking.object in versions.eids)
    spans = [(taking.begin, taking.end) for taking in takings]
    begins = [begin for begin, _ in spans]
    return {**_sum(spans, now), "waited": round(_waited(daemon, versions, name, begins, now), 3)}


class _Taking(msgspec.Struct):
    """The time in which an instance had an object, 0 for none, with the states that it was in."""

    object: int
    begin: float
    end: float | None = None
    states: list[tuple[str, _Span]] = []


def _takings(daemon: Daemon, run: Run) -> list[_Taking]:
    """The times of an instance: it has an object until it enters a terminal state or ends."""
    takings = [within := _Taking(0, run.started)]
    state, begin = "", 0.0
    for line in _facts(daemon, run):
        what, at = line["what"], line["at"]
        if what == "ObjectTaken":
            takings[-1].end = at
            takings.append(_Taking(line.get("object", 0), at))
        elif what == "StateEntered" or what in _ENDS:
            if state:
                within.states.append((state, (begin, at)))
            is_in = what == "StateEntered" and not line.get("terminal")
            within, state, begin = takings[-1], line["state"] if is_in else "", at
            if not is_in:
                within.end = at
                takings.append(_Taking(0, at))
    if state:
        within.states.append((state, (begin, run.ended)))
    takings[-1].end = run.ended
    return takings


def _waited(daemon: Daemon, versions: _Versions, name: str, begins: list[float], now: float) -> float:
    """The seconds that an object waited in the queue of a type before each time it was taken."""
    waited, begins = 0.0, sorted(begins)
    for line in _facts(daemon, versions.case):
        if (
            line["what"] == "ObjectPut"
            and line.get("object") == versions.identity
            and line["at_type"] == name
        ):
            taken = next((begin for begin in begins if begin >= line["at"]), now)
            waited += taken - line["at"]
    return waited


def _facts(daemon: Daemon, run: Run) -> Iterator[Form]:
    """The lines of a run's history, with moments in seconds; unreadable lines are left out."""
    for row in daemon.agent.store.journal(run.eid):
        with suppress(UnreadableError):
            yield from codec.describe_entry(row.data, row.run, row.seq)
