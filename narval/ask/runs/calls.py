"""The operations `timeline`, `part` and `gantt`: calls and waits, of a run, of one part, of the last hour.

A timeline is read from the journal of its run. A part has everything about it, as `why` has of what it waits
for.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from typing import Any

from narval.agent.agent import AgentState
from narval.agent.run import Run
from narval.ask import json_forms
from narval.ask.json_forms import moment
from narval.ask.lookup import definition_and_state, find_run
from narval.ask.registry import Form, operation
from narval.ask.runs.drawing import arc_rows, graph_of, part_row
from narval.ask.runs.figures import RunEnds
from narval.ask.runs.notices import is_notice
from narval.ask.titles import title
from narval.ask.turn_index import up_to_date
from narval.ask.why import why
from narval.core.engines.engine import Retryable
from narval.core.engines.graph import GraphEdge, GraphNode
from narval.core.engines.registry import listed_kinds
from narval.core.errors import RequestError, UnreadableError
from narval.core.kinds import KINDS
from narval.core.source.secrets import without_secrets
from narval.daemon.daemon import Daemon
from narval.store import codec
from narval.store.store import ALL
from narval.system.long_work import TimeSlice


@operation("read")
async def timeline(daemon: Daemon, run: int, limit: int | None = None) -> dict[str, Any]:
    """The calls of a run over time, one row for each attempt, and its waits for elements and moments, in
    order of their beginning; with `limit` the newest.

    `at_work` is the seconds in which a call of the run itself was active, without those in which it only
    waited or other runs worked for it.
    """
    the_run = find_run(daemon, run)
    rows = await tries_and_waits(daemon, the_run)
    cut = max(0, len(rows) - limit) if limit is not None else 0
    return {
        "run": run,
        "started": moment(the_run.started),
        "ended": moment(the_run.ended),
        "at_work": seconds_at_work(rows, the_run.ended or daemon.rounds.clock.now()),
        "left_out": cut,
        "rows": [form(row) for row in rows[cut:]],
    }


def seconds_at_work(rows: list[Form], until: float) -> float:
    """The seconds in which at least one call of code was active, until a moment."""
    seconds, reached = 0.0, 0.0
    calls = (row for row in rows if row["for"] == "call" and row["child"] is None)
    for begun, ended in sorted((row["begun"] or row["asked"], row["ended"] or until) for row in calls):
        seconds += max(0.0, ended - max(begun, reached))
        reached = max(reached, ended)
    return round(seconds, 3)


async def tries_and_waits(daemon: Daemon, run: Run, most: int | None = None) -> list[Form]:
    """The tries of calls, and the waits, in order of their beginning, from the entries that can be read; with
    `most` those in the newest entries, without calls from earlier ones.
    """
    store, time_slice = daemon.agent.store, TimeSlice()
    newest = [*store.journal(run.eid, before=ALL, most=most)][::-1] if most is not None else None
    teller = _Teller(daemon.agent, run)
    for row in newest if newest is not None else store.journal(run.eid):
        await time_slice.yield_if_due()
        with suppress(UnreadableError):
            teller.hear(row.seq, codec.describe_entry(row.data, None, row.seq))
    for open in teller.open.values():
        teller.leave_open(open, daemon)
    return teller.rows


class _Teller:
    """The rows built from a run's lines, one entry after another."""

    def __init__(self, agent: AgentState, run: Run) -> None:
        self._agent, self._run = agent, run
        children = (agent.runs[eid] for eid in agent.runs.children.get(run.eid, ()))
        self._children = {call: child for child in children if child.caller for call in child.caller.calls}
        self.rows: list[Form] = []
        self.open: dict[str, Form] = {}

    def hear(self, seq: int, lines: list[Form]) -> None:
        """Process one entry: its event, and what followed."""
        event, *facts = lines
        match event["what"]:
            case "Returned" if not event.get("late"):
                self._end(event["call"], event, _outcome(event), event.get("problem"))
            case "CallStarting" | "CallApproved" if (row := self.open.get(event["call"])) is not None:
                row["begun"] = event["at"]
            case "Matched":
                self._stop(event["watch"], event, "came", gave=[event["eid"]])
            case "TimerFired":
                self._stop(event["wake"], event, "came")
        for line in facts:
            match line["what"]:
                case "Call":
                    self._ask(seq, line)
                case "Watch":
                    self._begin(seq, line["watch"], line, "element", self._part(line["watch"], facts))
                case "SetTimer" if line["wake"] not in self.open:
                    tried = self._last(line["wake"])
                    what = "back-off" if tried is not None else "moment"
                    place = tried["part"] if tried is not None else self._part(line["wake"], facts)
                    self._begin(seq, line["wake"], line, what, place)["until"] = line["due"]
                case "Unwatch" | "CancelTimer":
                    self._stop(line.get("watch") or line["wake"], line, "given up")

    def _last(self, call: str) -> Form | None:
        """The last try of a call, if any: a timer with its name is its back-off."""
        return next((row for row in reversed(self.rows) if row["call"] == call), None)

    def _part(self, id: str, facts: list[Form]) -> str:
        """The part that a watch or timer is for: the first other name in the change that sets it."""
        for line in facts:
            if id in line.values() and line["what"] not in ("Watch", "SetTimer"):
                named = (line.get(key) for key in ("transition", "step", "state", "node"))
                return next((str(name) for name in named if name), "")
        return ""

    def _begin(self, seq: int, id: str, line: Form, what: str, part: str) -> Form:
        self._end(id, line, "given up")
        row: Form = dict.fromkeys(
            ("call", "kind", "target", "agent", "try", "begun", "ended", "error", "child", "until")
        )
        row |= {"seq": seq, "for": what, "part": part, "asked": line["at"], "outcome": "under way"}
        row |= {"inputs": [], "gave": []}
        self.rows.append(row)
        self.open[id] = row
        return row

    def _ask(self, seq: int, line: Form) -> None:
        asks = line["kind"] in KINDS and KINDS[line["kind"]].asks
        row = self._begin(seq, line["call"], line, "person" if asks else "call", line["step"])
        row |= {"call": line["call"], "kind": line["kind"], "target": line["name"]}
        row |= {"agent": line.get("agent"), "try": line.get("attempt", 1)}
        slots = [{"input": slot, "elements": eids} for slot, eids in line.get("inputs", ())]
        others = line.get("elements", ())
        row["inputs"] = [*slots, *([{"input": None, "elements": others}] if others else [])]
        row["nearby"] = line.get("nearby", ())
        child = self._children.get(line["call"])
        if child is not None:
            row |= {"child": child.eid, "begun": child.started}

    def _stop(self, id: str, line: Form, outcome: str, gave: list[int] | None = None) -> None:
        """End a wait; a timer with the name of an active call is its time limit."""
        if id in self.open and self.open[id]["call"] is None:
            self._end(id, line, outcome, gave=gave)

    def _end(
        self, id: str, line: Form, outcome: str, problem: Form | None = None, gave: list[int] | None = None
    ) -> None:
        row = self.open.pop(id, None)
        if row is None:
            return
        row |= {"ended": line["at"], "outcome": outcome, "gave": gave or line.get("eids", [])}
        if problem is not None:
            row["error"] = {"type": problem["kind"], "message": without_secrets(problem["message"])}

    def leave_open(self, row: Form, daemon: Daemon) -> None:
        """Mark a row that nothing has ended: given up if its run has ended, else active."""
        if not self._run.active:
            row |= {"ended": self._run.ended, "outcome": "given up"}
        elif row["call"] is not None and (place := daemon.host.dispatcher.waits_for(row["call"])):
            row |= {"for": "place", "place": place}


def _outcome(event: Form) -> str:
    if event.get("abandoned"):
        return "given up"
    return "failed" if event.get("problem") is not None else "done"


def form(row: Form) -> Form:
    """A row with its moments as ISO 8601."""
    times = {key: moment(row[key]) for key in ("asked", "begun", "ended", "until")}
    return {key: value for key, value in {**row, **times}.items() if key != "nearby"}


# --- one part -----------------------------------------------------------------------------------------------


_UNTOLD: Form = {"reason": None, "said": [], "waiting": []}

TRIES = 100
"""The most tries of the calls of a part in the answer, the newest."""


@operation("read")
async def part(daemon: Daemon, run: int, id: str) -> dict[str, Any]:
    """Everything about one part of a run, or about an arc: its drawn form, the reason for its state and what
    it waits for, in the form of `why`, and the attempts of its calls with their inputs and results. For calls
    that no part of the graph makes, only the tries.
    """
    the_run = find_run(daemon, run)
    graph = graph_of(the_run.engine, *definition_and_state(daemon, the_run))
    nodes = {node.id: node for node in graph.parts if isinstance(node, GraphNode)}
    edges = [edge for edge in graph.parts if isinstance(edge, GraphEdge)]
    if id not in nodes:
        arc = next((row for row in arc_rows(edges) if row["id"] == id), None)
        if arc is not None:
            ends = [part_row(nodes[end]) for end in (arc["from"], arc["to"])]
            words = arc["told"]
            return {"run": run, "arc": arc, "ends": ends, "reason": words or None, "said": [words]}
    calls = [row for row in await tries_and_waits(daemon, the_run) if row["part"] == id]
    is_call_alone = id not in nodes and any(row["call"] for row in calls)
    last = {row["call"]: row for row in calls}  # the results of a call belong to its last try
    reasons = {**_UNTOLD, "state": the_run.status} if is_call_alone else await why(daemon, run, id)
    return {
        "run": run,
        "state": reasons["state"],
        "part": part_row(nodes[id]) if id in nodes else None,
        "reason": reasons["reason"],
        "said": reasons["said"],
        "waiting": reasons["waiting"],
        "arcs": [row for row in arc_rows(edges) if id in (row["from"], row["to"])],
        "calls": [
            _with_elements(daemon.agent, the_run, row, is_last=last[row["call"]] is row)
            for row in calls[-TRIES:]
        ],
        "left_out": max(0, len(calls) - TRIES),
        "retryable": not the_run.active
        and isinstance(the_run.engine, Retryable)
        and id in nodes
        and bool(nodes[id].target),
    }


def _with_elements(agent: AgentState, run: Run, row: Form, *, is_last: bool) -> Form:
    """A try with the names and ranks of its inputs, and its stored results."""
    ranks = {eid: rank for rank, eids in enumerate(row.get("nearby", ())) for eid in eids}
    inputs = [
        {**slot, "elements": [_named(agent, eid) | {"rank": ranks.get(eid)} for eid in slot["elements"]]}
        for slot in row["inputs"]
    ]
    made = [
        eid for eid in agent.memory.contexts.of(run.eid) if _made_by(agent, eid) == (run.eid, row["call"])
    ]
    gave = dict.fromkeys([*row["gave"], *(made if row["call"] and is_last else [])])
    return {**form(row), "inputs": inputs, "gave": [_named(agent, eid) for eid in gave]}


def _made_by(agent: AgentState, eid: int) -> tuple[int, str] | None:
    element = agent.memory.element(eid)
    origin = element.origin if element is not None else None
    return (origin.run, origin.call) if origin is not None else None


def _named(agent: AgentState, eid: int) -> Form:
    element = agent.memory.element(eid)
    name = element.name if element is not None else None
    return {"eid": eid, "name": name, "title": title(agent, eid)}


# --- the last hour ------------------------------------------------------------------------------------------


HOUR, MOST_MINUTES = 60, 1440
"""The default number of minutes, and the most."""

USUAL, MOST_RUNS = 60, 200
"""The default number of runs, and the most: the history of each is read."""

ENTRIES, CALLS = 200, 50
"""The most entries of a run, the newest, that are read for its calls, and the most calls in the answer."""


@operation("read")
async def gantt(
    daemon: Daemon, minutes: int = HOUR, limit: int = USUAL, notices: bool = True
) -> dict[str, Any]:
    """The runs that were active at any time in the last minutes, in order of their beginning, each with the
    calls that it made in that time, in the form of `timeline`.

    If there are more runs than `limit`, the newest are returned, and `left_out` counts the others; for each
    run at most the newest 50 calls. Without `notices`, runs that only report failures are left out, and the
    answer counts them. Raises RequestError.
    """
    for name, number, most in (("minutes", minutes, MOST_MINUTES), ("limit", limit, MOST_RUNS)):
        if not 1 <= number <= most:
            raise RequestError(f"expected {name} to be from 1 to {most}, got {number}")
    until = daemon.rounds.clock.now()
    since = until - minutes * 60
    eids = await _under_way(daemon, since)
    rows, left, time_slice = list[dict[str, Any]](), 0, TimeSlice()
    for eid in sorted(eids, reverse=True):
        await time_slice.yield_if_due()
        if (run := daemon.agent.runs.get(eid)) is None:
            continue
        if not notices and is_notice(run.name, run.phase):
            left += 1
        elif len(rows) < limit:
            rows.append(await _row(daemon, run, since))
    return {
        "since": moment(since),
        "until": moment(until),
        "left_out": len(eids) - left - len(rows),
        "notices": left,
        "runs": sorted(rows, key=lambda row: (row["started"], row["eid"])),
    }


async def _under_way(daemon: Daemon, since: float) -> set[int]:
    """The listed runs that are active, or were after a moment."""
    listed, agent = frozenset(listed_kinds()), daemon.agent
    ended = (await up_to_date(daemon, RunEnds)).listed
    active = [eid for eid, run in agent.runs.active.items() if run.kind in listed]
    return {*active, *(end.run for end in ended[bisect_left(ended, (since,)) :])}


async def _row(daemon: Daemon, run: Run, since: float) -> dict[str, Any]:
    """A run in the form of `runs`, with its calls after a moment."""
    tries = await tries_and_waits(daemon, run, ENTRIES)
    calls = [
        row for row in tries if row["call"] is not None and (row["ended"] is None or row["ended"] >= since)
    ]
    return {
        **json_forms.run(daemon.agent, run),
        "calls": [form(row) for row in calls[-CALLS:]],
        "calls_left_out": max(0, len(calls) - CALLS),
    }
