"""The engine of dataflows: it decides only at the boundaries of sessions (T1–T60).

A session is one transaction. Its tuples never pass through the journal: the executor runs the network of its
operators and returns the results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from narval.core.definitions.reading.durations import read_duration
from narval.core.definitions.suggestions import closest
from narval.core.elements.element import Element, parse
from narval.core.engines.engine import Find, Lookup
from narval.core.engines.events import (
    Cancelled,
    CarriedOver,
    Event,
    Resume,
    Returned,
    Reusable,
    Signalled,
    Started,
)
from narval.core.engines.view import View
from narval.core.errors import RequestError
from narval.core.patterns.pattern import condition
from narval.kinds.dataflow.engine.changes import DataflowBegan, DataflowChange, InputCompleted, SessionKept
from narval.kinds.dataflow.engine.decision import PLAN_INPUT, DataflowDecision, input_element
from narval.kinds.dataflow.engine.explain import explain as explain
from narval.kinds.dataflow.engine.explain import part_word as part_word
from narval.kinds.dataflow.engine.explain import parts as parts
from narval.kinds.dataflow.engine.explain import render as render
from narval.kinds.dataflow.engine.explain import story as story
from narval.kinds.dataflow.engine.explain import waiting_for as waiting_for
from narval.kinds.dataflow.engine.graph import graph as graph
from narval.kinds.dataflow.engine.state import DataflowState
from narval.kinds.dataflow.engine.structure import unreachable as unreachable
from narval.kinds.dataflow.language.definition import DataflowDefinition, Datum

kind = "dataflow"
definition_kind = DataflowDefinition.kind
changes = DataflowChange.union()
state_type = DataflowState
decision_type = DataflowDecision

OPEN = ":open"
"""The word, beside inputs, that starts a run which takes more sessions."""


def _whole(text: str) -> float:
    if not (text.isascii() and text.isdecimal() and len(text) <= 7):
        raise ValueError(f"expected a whole number, found {text!r:.40}")
    return float(text)


def _yes_or_no(text: str) -> float:
    if text not in ("yes", "no"):
        raise ValueError(f"expected yes or no, found {text!r:.40}")
    return float(text == "yes")


LIMITS: Mapping[str, Callable[[str], float]] = {
    "ttl": read_duration,
    "restarts": _whole,
    "depth": _whole,
    "frames": _whole,
    "spill": _yes_or_no,
}
"""The limits that a run may be started with, such as `:restarts`: those of the settings of dataflows."""

COMPLETE, SESSION = "complete", "session"
"""The signals that a run accepts while its input is open."""


def read_environment(values: Mapping[str, Any]) -> dict[str, str]:
    """The inputs of a session, and its limits, as texts. Raises ValueError for an invalid limit."""
    texts = {name: str(value) for name, value in values.items() if value is not None}
    limits_in(texts)
    return texts


def limits_in(texts: Mapping[str, str]) -> dict[str, float]:
    """The limits among the words of a start, without their colons. Raises ValueError."""
    limits: dict[str, float] = {}
    for name, read in LIMITS.items():
        if f":{name}" in texts:
            try:
                limits[name] = read(texts[f":{name}"])
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
    return limits


def advance(decision: DataflowDecision, event: Event) -> None:
    """Decide the changes and commands that follow from one event."""
    state = decision.state
    match event:
        case Started() if state.status == "ready":
            _started(decision, event)
        case Signalled():
            _signalled(decision, event)
        case Returned() if not state.over:
            decision.returned(event)
        case Cancelled() if not state.over:
            decision.over("cancelled")
    decision.settle()


def fail(decision: DataflowDecision, error: int) -> None:
    """End a run whose advance raised."""
    decision.over("failed", error)


def plan_resume(
    definition: DataflowDefinition,
    before: DataflowState,
    part: str | None,
    reusable: Iterable[Reusable],
    element: Lookup,
    find: Find,
    gave: tuple[int, ...] | None = None,
) -> Resume:
    """Plan a run that does the unfinished sessions of an earlier one, with the same inputs (T44).

    Raises RequestError if a part is named or a result given for it, or if inputs are forgotten.
    """
    if gave is not None:
        raise RequestError("a dataflow has no step to mark as done: its sessions start again")
    if part is not None:
        why = "finished sessions are kept, all others start again; leave out the part"
        raise RequestError(f"a dataflow is not begun again at {part!r:.80}: {why}")
    carried_over = []
    for session in before.sessions:
        if element(session.eid) is None:
            raise RequestError(f"the inputs of run {before.eid}, element {session.eid}, are forgotten")
        done = session.state if session.state == "done" else "todo"
        carried_over.append(CarriedOver(f"{session.eid}.{session.place}", done, session.results))
    return Resume(before.eid, "", before.first, kept=tuple(carried_over))


def resumed_from(state: DataflowState) -> tuple[int, str] | None:
    """The run that this one retries; no part is named."""
    return (state.retry_of, "") if state.retry_of else None


def _started(decision: DataflowDecision, event: Started) -> None:
    values = dict(event.environment)
    limits = limits_in(values)
    values = {name: text for name, text in values.items() if name[1:] not in limits or name[0] != ":"}
    is_open = values.pop(OPEN, "") not in ("", "no")
    of = event.resume.of if event.resume is not None else 0
    elements = (*event.elements, *inputs_nearby(decision, event, values))
    decision.change(
        DataflowBegan(
            event.at, elements, event.caller, event.attempt, limits.pop("ttl", None), is_open, of, limits
        )
    )
    decision.add_to_context(elements)
    if event.resume is not None:
        _go_on(decision, event.resume)
    elif fault := _unknown_input(decision.definition, values):
        decision.over("failed", decision.add_error_element("bad-input", fault))
    elif values and decision.has_sessions(event.elements):
        fault = f"expected inputs by --set, or sessions of <{PLAN_INPUT}>, found both; write them there"
        decision.over("failed", decision.add_error_element("bad-input", fault))
    elif values or not (decision.begin_sessions(event.elements) or is_open):
        eid = decision.add(Element(0, input_element(values)))
        decision.begin_session(eid, 1)


def _go_on(decision: DataflowDecision, resume: Resume) -> None:
    for session in resume.kept:
        eid, place = map(int, session.id.split("."))
        if session.state == "done":
            decision.change(SessionKept(eid, place, session.eids))
        else:
            decision.begin_session(eid, place)


def _unknown_input(definition: DataflowDefinition, values: Mapping[str, str]) -> str:
    """The fault of a value for an unknown input; "" if there is none."""
    names = [datum.name for datum in definition.inputs]
    for name in values:
        if name not in names:
            return f"{definition.full_name} has no input {name!r:.80}{closest(name[:80], names)}"
    return ""


def _signalled(decision: DataflowDecision, event: Signalled) -> None:
    """Take another session, or the signal that no more follow."""
    state = decision.state
    if state.over or not state.open:
        why = "its input is complete" if not state.over else f"it is {state.status}"
        decision.refuse(event, "not-listening", f"run {state.eid} no longer takes sessions: {why}")
    elif event.name == COMPLETE:
        decision.change(InputCompleted())
        decision.answer(event, sessions=len(state.sessions))
    elif event.name == SESSION:
        _take_sessions(decision, event)
    else:
        decision.refuse(event, "not-listening", f"expected {SESSION} or {COMPLETE}, got {event.name!r:.80}")


def _take_sessions(decision: DataflowDecision, event: Signalled) -> None:
    values = {name: str(value) for name, value in event.arguments.items()}
    if fault := _unknown_input(decision.definition, values):
        decision.refuse(event, "bad-input", fault)
        return
    if event.elements:
        eids = [decision.add_told(output.xml, event) for output in event.elements]
        begun = decision.begin_sessions(eids)
    else:
        decision.begin_session(decision.add_told(input_element(values), event), 1)
        begun = 1
    if begun:
        decision.answer(event, sessions=begun)
    else:
        decision.refuse(event, "bad-input", f"expected <{PLAN_INPUT}> with a <session> for each")


_NAMED = frozenset({"relation", "value"})
"""The elements whose attribute `name` says which input they are."""


def inputs_nearby(decision: DataflowDecision, event: Started, named: Iterable[str]) -> tuple[int, ...]:
    """The elements around the calling step that are inputs neither among its arguments nor in `given`.

    The nearest rank that has any counts (N15): the newest `relation` or `value` with the input's name, else
    all elements named like the input, each a tuple.
    """
    if event.caller is None or not event.caller.run:
        return ()
    filled, view = set(named), decision.view
    for eid in event.elements:
        element = view.element(eid)
        if element is not None and element.name == PLAN_INPUT:
            return ()
        if element is not None:
            root = parse(element.xml)
            filled.add(root.get("name", "") if element.name in _NAMED else element.name)
    nearest: list[int] = []
    for datum in decision.definition.inputs:
        if datum.name not in filled:
            nearest += _nearest(view, event, datum)
    return tuple(nearest)


def _nearest(view: View, event: Started, datum: Datum) -> list[int]:
    named = condition(f"relation[@name='{datum.name}'] | value[@name='{datum.name}']").bind()
    tuples = condition(datum.name).bind()
    for rank in _ranks(view, event):
        eids = list(rank)
        if whole := list(view.among(eids, named, None)):
            return whole[-1:]
        if single := list(view.among(eids, tuples, None)):
            return single
    return []


def _ranks(view: View, event: Started) -> Iterator[Iterable[int]]:
    caller = event.caller
    while caller is not None and caller.run:
        yield from caller.nearby
        yield view.context(caller.run)
        caller = view.caller(caller.run)
