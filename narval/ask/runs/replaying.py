"""The operation `replay`: a run as it was after each entry of its journal (M34)."""

from __future__ import annotations

from datetime import datetime
from itertools import zip_longest
from zoneinfo import ZoneInfo

from narval.agent.history import replayed_entries, snapshot_before
from narval.ask.lookup import find_run
from narval.ask.registry import Form, operation
from narval.ask.runs.drawing import LONGEST, arc_ids, graph_of
from narval.ask.runs.history import concealed, lines_of
from narval.ask.runs.story import Teller, in_words
from narval.ask.text import moment_there
from narval.core.engines.graph import GraphEdge, GraphNode, clipped
from narval.core.errors import RequestError, UnreadableError
from narval.daemon.daemon import Daemon
from narval.system.time_slice import TimeSlice

MOST = 1000
"""The most entries in one answer."""

SAID = 5
"""The most sentences on one entry."""

Parts = tuple[GraphNode | GraphEdge, ...]


@operation("read")
async def replay(daemon: Daemon, run: int, after: int = 0, limit: int = MOST) -> Form:
    """The entries of a run's journal after line `after`, at most `limit` and 1,000. Each has its last line,
    its moment, what happened in the words of `story` with moments in the zone of the home, a mark for errors
    and signals, and the parts and arcs that changed, in their new state; if the run migrated, also its new
    `version`.

    `parts` and `arcs` have all of them before the first entry returned. The run can be shown from line
    `first` on, which is its beginning if it is `whole`; `more` says that entries follow, `fault` why no more
    can be read.
    """
    found = find_run(daemon, run)
    if limit < 1:
        raise RequestError(f"expected limit to be 1 or more, got {limit}")
    answer: Form = {"run": run, "first": None, "whole": True, "more": False, "fault": None}
    entries, time_slice = list[Form](), TimeSlice()
    base: Parts = ()
    zone = ZoneInfo(daemon.agents.own.agent.clockwork.zone)

    def when(moment: str) -> str:
        return moment_there(datetime.fromisoformat(moment).astimezone(zone).isoformat())

    try:
        begun = snapshot_before(daemon.agent, found, after)
        answer |= {"first": begun.first, "whole": begun.whole}
        state, definition, is_told = begun.state, begun.definition, False
        teller = Teller(daemon.agent, found, SAID, pairs=False)
        for entry in replayed_entries(daemon.agent, found, begun.reached, after):
            await time_slice.yield_if_due()
            if entry.row is not None and not is_told:
                base = then = graph_of(found.engine, definition, state).parts
                is_told = True
            if len(entries) == min(limit, MOST):
                answer["more"] = True
                break
            for change in entry.changes:
                change.apply(state)
            definition = entry.definition or definition
            if entry.row is None:
                continue
            before = then
            if entry.changes:
                await time_slice.yield_if_due()
                then = graph_of(found.engine, definition, state).parts
            event, *facts = concealed(found, lines_of(entry.row))
            what = in_words(teller.hear(entry.row, event, facts), when)
            row = _summary(event, facts, what) | _differences(before, then)
            version = {} if entry.definition is None else {"version": entry.definition.digest}
            entries.append(row | version)
        if not is_told:
            base = graph_of(found.engine, definition, state).parts
    except UnreadableError as error:
        answer["fault"] = str(error)
    return {**answer, **_differences((), base), "entries": entries}


def _differences(before: Parts, then: Parts) -> Form:
    """The parts and arcs that changed, each with its id and its state."""
    differences: Form = {"parts": [], "arcs": []}
    arcs = arc_ids([part for part in then if isinstance(part, GraphEdge)])
    for old, new in zip_longest(before, then):
        arc = next(arcs) if isinstance(new, GraphEdge) else ""
        if new == old:
            continue
        if isinstance(new, GraphEdge):
            differences["arcs"].append([arc, new.kind, new.badge])
        elif new is not None and (not isinstance(old, GraphNode) or _stands(old) != _stands(new)):
            differences["parts"].append(_stands(new))
    return differences


def _stands(node: GraphNode) -> list[str]:
    return [node.id, node.status, node.tone, clipped(node.badge, LONGEST)]


def _summary(event: Form, facts: list[Form], what: str) -> Form:
    """An entry in words, with its last line, its moment and its mark."""
    mark = "signal" if event["what"] in ("Signalled", "Cancelled") else ""
    if event.get("problem") or any(line["what"] == "Finish" and line["phase"] == "failed" for line in facts):
        mark = "error"
    what = what or "A call begins."  # only such an entry has no sentence
    return {"seq": event["seq"] + len(facts), "at": event["at"], "what": what, "mark": mark}
