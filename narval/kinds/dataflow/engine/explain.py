"""A run of a dataflow for people: its element (N2), waits and parts, and the reasons for their state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lxml import etree
from msgspec.structs import asdict

from narval.core.engines.commands import Watch
from narval.core.engines.engine import Wait
from narval.core.engines.run_state import element_of, finished
from narval.core.engines.story import Fact, Story
from narval.kinds.dataflow.engine.state import DataflowState, FlowSession, OperatorCount
from narval.kinds.dataflow.language.definition import DataflowDefinition, OperatorCall


def render(definition: DataflowDefinition, state: DataflowState, context: Iterable[int]) -> bytes:
    """The `dataflow` element: its sessions, and the context by reference."""
    root = element_of("dataflow", definition, state, "parent_plan")
    for at, session in enumerate(state.sessions, 1):
        etree.SubElement(root, "session", id=f"session {at}", state=session.state)
    return finished(root, context)


def waiting_for(
    definition: DataflowDefinition, state: DataflowState, watches: dict[str, Watch]
) -> Iterator[Wait]:
    """The present waits of the run: its sessions, and more of them while its input is open."""
    for call, place in state.calls.items():
        yield Wait(f"session {place + 1}", "call", f"{definition.full_name}, to be done", calls=(call,))
    if state.open:
        yield Wait(definition.full_name, "signal", "session, or complete")


def parts(definition: DataflowDefinition, state: DataflowState) -> dict[str, list[dict[str, Any]]]:
    """The sessions, the operators and streams with counts of their tuples, the texts that were not numbers,
    and the printed lines.
    """
    return {
        "sessions": [_session(at, session) for at, session in enumerate(state.sessions, 1)],
        "operators": _operators(definition, state),
        "streams": [
            {"id": name, "tuples": tuples}
            for name in dict.fromkeys(name for session in state.sessions for name in session.streams)
            if (tuples := carried_by(state, name))
        ],
        "unread": [
            {"session": f"session {at}", **asdict(one), "texts": list(one.texts)}
            for at, session in enumerate(state.sessions, 1)
            for one in session.unread
        ],
        "printed": [
            {"session": f"session {at}", "line": line}
            for at, session in enumerate(state.sessions, 1)
            for line in session.printed
        ],
    }


def _session(at: int, session: FlowSession) -> dict[str, Any]:
    return {
        "id": f"session {at}",
        "state": session.state,
        "calls": [session.call] if session.state == "running" else [],
        "input": session.eid,
        "results": list(session.results),
        "error": session.error,
        "kept": session.kept,
    }


def _operators(definition: DataflowDefinition, state: DataflowState) -> list[dict[str, Any]]:
    counts = counted(state)
    return [
        {
            "id": call.key,
            "target": call.plan or call.operator.name,
            "line": call.line,
            **counts.get(call.key, IDLE),
        }
        for call in definition.graph.calls
    ]


IDLE: Mapping[str, Any] = {"state": "idle", "taken": 0, "given": 0, "requests": 0}
"""The counts of an operator that has not started in any session."""


def counted(state: DataflowState) -> dict[str, Mapping[str, Any]]:
    """The tuples each operator took and gave, its requests, and how it ended, by key, over all sessions."""
    of_keys: dict[str, list[OperatorCount]] = {}
    for session in state.sessions:
        for one in session.operators:
            of_keys.setdefault(one.key, []).append(one)
    return {
        key: {
            "state": ", ".join(dict.fromkeys(one.state for one in counts if one.state)) or "idle",
            "taken": sum(one.taken for one in counts),
            "given": sum(one.given for one in counts),
            "requests": sum(one.requests for one in counts),
        }
        for key, counts in of_keys.items()
    }


def carried_by(state: DataflowState, name: str) -> int:
    """The tuples that a stream or relation has carried, over all sessions."""
    return sum(session.streams.get(name, 0) for session in state.sessions)


def explain(definition: DataflowDefinition, state: DataflowState, identifier: str | None) -> str | None:
    """The reason for the state of a session or operator, without a name of the run; None if there is none."""
    if identifier is None:
        return _reason_of_run(state)
    for at, session in enumerate(state.sessions, 1):
        if identifier == f"session {at}":
            return _reason_of_session(session)
    for call in definition.graph.calls:
        if call.key == identifier:
            return _reason_of_operator(state, call)
    for datum in definition.graph.inputs:
        if identifier == f"input {datum.name}":
            return f"it is of type {datum.type}, and each of {len(state.sessions)} sessions is given it"
    for datum in definition.graph.outputs:
        if identifier == f"output {datum.name}":
            return f"it is of type {datum.type}; the sessions gave {len(state.results)} results"
    return None


def _reason_of_run(state: DataflowState) -> str | None:
    failed = [f"session {at}" for at, session in enumerate(state.sessions, 1) if session.state == "failed"]
    if state.status == "failed" and failed:
        return f"{', '.join(failed)} failed"
    if state.status == "done":
        void = sum(session.state == "void" for session in state.sessions)
        aside = f", {void} of them void" if void else ""
        number = len(state.sessions)
        sessions = "1 session has" if number == 1 else f"{number} sessions have"
        return f"its input was complete, and {sessions} ended{aside}"
    return None


def _reason_of_session(session: FlowSession) -> str:
    if session.kept:
        return "it was done in the run that this one is a retry of"
    if session.state == "void":
        return "void was fired in it, so it gave nothing"
    if session.state == "cancelled":
        return "its run ended before it did"
    if session.state == "failed":
        return f"it failed; error {session.error} says why"
    if session.state == "done":
        gave = f"every operator was finished or cancelled; it gave {len(session.results)} results"
        return "; ".join([gave, *map(str, session.unread)])
    return "its operators are at work"


def _reason_of_operator(state: DataflowState, call: OperatorCall) -> str:
    counts = counted(state).get(call.key, IDLE)
    if counts["state"] == "idle":
        return "no session with it has ended" if state.calls else "it never fired"
    was = "is" if state.calls else "was"
    return f"it {was} {counts['state']}: {counts['taken']} tuples in, {counts['given']} out"


part_word = ""

story: Story = {
    "SessionKept": Fact("A session had ended before[, with {results:element}]."),
    "SessionEnded": Fact("The session is {state}[, with {results:element}][: {error:element}].", part="call"),
    "InputCompleted": Fact("The input is complete."),
}
"""The changes of interest to people, in sentences."""
