"""One advance of a run of a dataflow: sessions begin and end, and the run ends with the last one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from lxml import etree

from narval.core.elements.element import Element, parse
from narval.core.engines import commands
from narval.core.engines.decision import Decision
from narval.core.engines.events import Failure, OutputElement, Plain, Returned
from narval.kinds.dataflow.engine.changes import DataflowChange, DataflowEnded, SessionBegan, SessionEnded
from narval.kinds.dataflow.engine.state import DataflowState, OperatorCount, UnreadNumbers
from narval.kinds.dataflow.language.definition import DataflowDefinition

PLAN_INPUT = "plan_input"
"""The element of inputs: one `session` each, with a `value` or `relation` for each input."""


class DataflowDecision(Decision[DataflowDefinition, DataflowState, DataflowChange], kw_only=True, eq=False):
    """One advance of one run of a dataflow."""

    # --- sessions ---------------------------------------------------------------------------------------

    def begin_sessions(self, eids: Iterable[int]) -> int:
        """Begin the sessions of elements of inputs; return their number."""
        begun = 0
        for eid in eids:
            element = self.view.element(eid)
            if element is None or element.name != PLAN_INPUT:
                continue
            for place, _ in enumerate(parse(element.xml).iterchildren("session"), 1):
                self.begin_session(eid, place)
                begun += 1
        return begun

    def has_sessions(self, eids: Iterable[int]) -> bool:
        """True if one of the elements has sessions."""
        elements = (self.view.element(eid) for eid in eids)
        return any(element is not None and element.name == PLAN_INPUT for element in elements)

    def begin_session(self, eid: int, place: int) -> None:
        """Call one session, with the place of its inputs and the options that the run began with."""
        state, call = self.state, self.identifier()
        self.change(SessionBegan(call, self.event.at, eid, place))
        payload: dict[str, Plain] = {"input": eid, "place": place, "ttl": state.ttl, **state.limits}
        step = f"session {len(state.sessions)}"
        elements = tuple(dict.fromkeys((*state.first, eid)))
        self.ask(
            commands.Call(
                call, commands.FLOW, self.definition.full_name, step, elements=elements, payload=payload
            )
        )

    def returned(self, event: Returned) -> None:
        """End a session with its return."""
        place = self.state.calls.get(event.call)
        if place is None:
            return
        step = f"session {place + 1}"
        value = event.value or {}
        operators = msgspec.convert(value.get("operators", []), tuple[OperatorCount, ...])
        unread = msgspec.convert(value.get("unread", []), tuple[UnreadNumbers, ...])
        printed = msgspec.convert(value.get("printed", []), tuple[str, ...])
        streams = msgspec.convert(value.get("streams", {}), dict[str, int])
        results: tuple[int, ...]
        error: int | None
        problem = event.problem
        if event.abandoned:
            problem = Failure("abandoned", "it was given up")
        if problem is not None:
            error = self.add_error_element(problem.kind, problem.message, step, problem.detail, event.call)
            self.change(
                SessionEnded(event.call, event.at, "failed", (), operators, error, unread, printed, streams)
            )
        else:
            results = self._added(event.call, event.elements)
            ended = "void" if value.get("state") == "void" else "done"
            self.change(
                SessionEnded(event.call, event.at, ended, results, operators, None, unread, printed, streams)
            )

    def _added(self, call: str, outputs: Iterable[OutputElement]) -> tuple[int, ...]:
        session = self.state.sessions[self.state.calls[call]]
        step = f"session {self.state.calls[call] + 1}"
        return tuple([self.add(Element(0, one.xml), step, call, (session.eid,)) for one in outputs])

    # --- the end ----------------------------------------------------------------------------------------

    def settle(self) -> None:
        """End the run when its input is complete and every session has ended (T38)."""
        state = self.state
        if state.status != "running" or state.open or state.calls:
            return
        failed = [session.error for session in state.sessions if session.state == "failed"]
        self.over("failed" if failed else "done", failed[0] if failed else None)

    def over(self, status: str, error: int | None = None) -> None:
        """End the run; return the results, or the error, to its caller."""
        for call in tuple(self.state.calls):
            self.ask(commands.CancelCall(call))
        self.change(DataflowEnded(self.event.at, status, error))
        self.report_end(self.state.results if status == "done" else (() if error is None else (error,)))


def input_element(values: Mapping[str, str]) -> bytes:
    """The element of the inputs of one session, given as texts. Raises ValueError for a text that XML cannot
    hold.
    """
    root = etree.Element(PLAN_INPUT)
    session = etree.SubElement(root, "session")
    for name, text in values.items():
        etree.SubElement(session, "value", name=name).text = text
    return etree.tostring(root, encoding="utf-8")
