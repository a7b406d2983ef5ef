"""The operation `replay`: a run as it came about, for who moves along its journal (M34)."""

from __future__ import annotations

from typing import Any

from narval.engines.engine import Engine
from narval.engines.graph import GraphEdge, GraphNode, clipped
from narval.errors import RequestError, UnreadableError
from narval.operations.json_forms import moment
from narval.operations.lookup import find_run
from narval.operations.registry import operation
from narval.operations.runs.drawing import LONGEST, arc_ids, graph_of
from narval.runtime.agent.history import Unfolded, unfolding
from narval.runtime.daemon.daemon import Daemon
from narval.runtime.system.time_slice import TimeSlice
from narval.source.secrets import without_secrets

MOST = 1000
"""So many entries are told in one answer."""

Row = dict[str, Any]
Stands = dict[str, dict[str, list[Any]]]


@operation("read")
async def replay(daemon: Daemon, run: int, after: int = 0, limit: int = MOST) -> Row:
    """The entries of a run's journal after line `after`, at most `limit` and 1,000 (M34). Of each: its last
    line, its moment, what happened in words, a mark for errors and signals, and the parts and arcs that
    changed, with what they are then.

    `parts` and `arcs` have all of them before the first entry that is told. The run can be shown from line
    `first` on, which is its beginning where it is `whole`; `more` says that entries follow, `fault` why none
    can be read.
    """
    found = find_run(daemon, run)
    if limit < 1:
        raise RequestError(f"expected limit to be 1 or more, got {limit}")
    engine, time_slice, entries = found.engine, TimeSlice(), list[Row]()
    answer: Row = {"run": run, "first": None, "whole": True, "more": False, "fault": None}
    base: Stands = {"parts": {}, "arcs": {}}
    now = base
    try:
        for entry in unfolding(daemon.agent, found):
            await time_slice.yield_if_due()
            if answer["first"] is None:
                answer |= {"first": entry.first, "whole": entry.lines[0]["what"] == "Started"}
            if entry.lines[-1]["seq"] <= after:
                _apply(engine, entry)
                continue
            if len(entries) == min(limit, MOST):
                answer["more"] = True
                break
            if not entries:
                base = now = _stands(engine, entry)
            _apply(engine, entry)
            then = _stands(engine, entry) if entry.changes else now
            entries.append(_told(entry) | _differences(now, then))
            now = then
    except UnreadableError as error:
        answer["fault"] = str(error)
    return {**answer, **_differences({}, base), "entries": entries}


def _apply(engine: Engine, entry: Unfolded) -> None:
    for change in entry.changes:
        engine.apply(entry.state, change)


def _stands(engine: Engine, entry: Unfolded) -> Stands:
    """The way that each part and each arc stands, by its id."""
    graph = graph_of(engine, entry.definition, entry.state)
    nodes = (part for part in graph.parts if isinstance(part, GraphNode))
    edges = [part for part in graph.parts if isinstance(part, GraphEdge)]
    return {
        "parts": {node.id: [node.status, node.tone, clipped(node.badge, LONGEST)] for node in nodes},
        "arcs": {id: [edge.kind, edge.badge] for id, edge in zip(arc_ids(edges), edges, strict=True)},
    }


def _differences(before: Stands, then: Stands) -> Row:
    """The parts and arcs that stand otherwise than before, each with its id and how it stands."""
    return {
        key: [[id, *stand] for id, stand in stands.items() if before.get(key, {}).get(id) != stand]
        for key, stands in then.items()
    }


def _told(entry: Unfolded) -> Row:
    """An entry in a line of words, with its last line, its moment and its mark."""
    event = entry.lines[0]
    what, mark = _words(event), "signal" if event["what"] in ("Signalled", "Cancelled") else ""
    end = next((line for line in entry.lines[1:] if line["what"] == "Finish"), None)
    if end is not None:
        what += f"; the run is {end['state']}"
    if event.get("problem") or (end is not None and end["phase"] == "failed"):
        mark = "error"
    return {"seq": entry.lines[-1]["seq"], "at": moment(event["at"]), "what": what, "mark": mark}


def _words(event: Row) -> str:
    """The event in words: nothing of what somebody answered is told."""
    by = f" by {event['by']}" if event.get("by") else ""
    by += f" ({event['way']}, session {event['session']})" if event.get("way") else ""
    match event["what"]:
        case "Started":
            return f"started{by}"
        case "Returned" if event.get("problem"):
            problem = event["problem"]
            return without_secrets(f"call {event['call']} failed: {problem['kind']}: {problem['message']}")
        case "Returned":
            return f"call {event['call']} {'was given up' if event.get('abandoned') else 'came back'}"
        case "Produced":
            return f"call {event['call']} gave something"
        case "CallStarting":
            return f"call {event['call']} is about to be made"
        case "CallApproved":
            return f"call {event['call']} was agreed to"
        case "Matched":
            return f"element {event['eid']} came"
        case "TimerFired":
            return "a moment came"
        case "Signalled":
            return f"signal {event['name']}{by}"
        case "Cancelled":
            reason = f": {event['reason']}" if event.get("reason") else ""
            return without_secrets(f"cancelled{by}{reason}")
    return str(event["what"])
