"""The engine of undoing: calls of actions undo what a run has done, last first.

It has the definition of the undone run, but needs nothing from it: at its start it is told which calls to
undo, by which actions, with which elements. A call that fails does not stop the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from lxml import etree

from narval.core.definitions.action.definition import Action
from narval.core.definitions.prototype import Prototype
from narval.core.engines import commands
from narval.core.engines.commands import Watch
from narval.core.engines.decision import Decision
from narval.core.engines.engine import Wait
from narval.core.engines.events import UNDOES, Cancelled, Event, Returned, Started
from narval.core.engines.graph import Graph, GraphEdge, GraphNode, Tone
from narval.core.engines.outputs import judge
from narval.core.engines.run_state import RunBegan, RunChange, add_caller, finished
from narval.kinds.recipe.engine.undo.state import Undoing, UndoState
from narval.kinds.recipe.language.definition import Recipe

kind = UndoState.KIND
definition_kind = Recipe.kind
part_word = "step"
instead_of_retry = "what could not be undone is undone by hand"

_TONES: dict[str, Tone] = {
    "to do": "idle", "called": "active", "undone": "done", "failed": "failed", "no undo": "cancelled",
}  # fmt: skip


class UndoChange(RunChange, frozen=True):
    """A fact that changes an undoing run."""


class UndoStarted(UndoChange, RunBegan, frozen=True):
    """The run began."""

    undoes: int = 0
    steps: tuple[tuple[str, str, tuple[int, ...]], ...] = ()

    def apply(self, state: UndoState) -> None:
        """Record the calls to undo."""
        state.begin(self)
        state.move("undoing")
        state.undoes, state.steps = self.undoes, [Undoing(*step) for step in self.steps]


class UndoCalled(UndoChange, frozen=True):
    """The call that undoes a step is under way."""

    at_step: int
    call: str

    def apply(self, state: UndoState) -> None:
        """Record the call."""
        state.call, state.steps[self.at_step].state = self.call, "called"


class UndoSettled(UndoChange, frozen=True):
    """The undoing of a step ended: it was undone, it failed, or there is no undo."""

    at_step: int
    state: str
    error: int | None = None

    def apply(self, state: UndoState) -> None:
        """Record the result."""
        state.call, state.steps[self.at_step].state = "", self.state
        state.error = self.error if state.error is None else state.error


class UndoEnded(UndoChange, frozen=True):
    """The run has ended."""

    status: str
    at: float
    error: int | None = None

    def apply(self, state: UndoState) -> None:
        """End."""
        state.move(self.status, self.at, self.error)
        state.call = ""


changes = UndoChange.union()
state_type = UndoState


class UndoDecision(Decision[Recipe, UndoState, UndoChange], kw_only=True, eq=False):
    """One advance of an undoing run."""

    def go_on(self) -> None:
        """Make the next call, or end."""
        for at, each in enumerate(self.state.steps):
            if each.state != "to do":
                continue
            if not each.undo:
                self.change(UndoSettled(at, "no undo"))
            elif self._call(at, each):
                return
        failed = any(each.state == "failed" for each in self.state.steps)
        self.end("failed" if failed else "done")

    def _call(self, at: int, each: Undoing) -> bool:
        """Make the call that undoes a step; False if it cannot be made."""
        prototype = self._prototype(each)
        if prototype is None:
            self.fail(at, "unknown-target", f"there is no action {each.undo}, which undoes step {each.step}")
            return False
        inputs = self._inputs(prototype, each.eids)
        missing = [slot.id for slot in prototype.inputs if not slot.optional and slot.id not in dict(inputs)]
        if missing:
            what = f"step {each.step} was given and gave nothing that fits its input {', '.join(missing)}"
            self.fail(at, "input-missing", f"{each.undo} cannot undo it: {what}")
            return False
        call = self.identifier()
        self.change(UndoCalled(at, call))
        self.ask(commands.Call(call, Action.kind, each.undo, each.step, inputs, prototype.lists))
        return True

    def _prototype(self, each: Undoing) -> Prototype | None:
        """The prototype of the action that undoes a step; None if there is no such action."""
        return getattr(self.view.definition(Action.kind, each.undo), "prototype", None)

    def _inputs(self, prototype: Prototype, eids: tuple[int, ...]) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The elements that the step was given and produced, each once, by the inputs that they fit."""
        left = [element for eid in eids if (element := self.view.element(eid)) is not None]
        inputs = []
        for slot in prototype.inputs:
            bound = slot.condition.bind()
            fitting = [element for element in left if self.view.fits(element, bound)]
            taken = fitting if slot.list else fitting[:1]
            left = [element for element in left if element not in taken]
            if taken:
                inputs.append((slot.id, tuple([element.eid for element in taken])))
        return tuple(inputs)

    def returned(self, event: Returned) -> None:
        """Record the result of a call, and continue."""
        at = next(at for at, each in enumerate(self.state.steps) if each.state == "called")
        each = self.state.steps[at]
        prototype = self._prototype(each)
        if event.problem is not None or event.abandoned:
            kind = event.problem.kind if event.problem is not None else "abandoned"
            message = event.problem.message if event.problem is not None else "the call was given up"
            self.fail(at, kind, message, event.call)
        elif prototype is not None and (verdict := judge(prototype, event.elements, self.view)).fault:
            self.fail(at, "bad-output", verdict.fault, event.call)
        elif prototype is not None:
            errors = [self.keep(output, each.step, event.call, each.eids) for output in verdict.errors]
            for output in verdict.accepted:
                self.keep(output, each.step, event.call, each.eids)
            self.change(UndoSettled(at, "failed" if errors else "undone", errors[0] if errors else None))
        else:
            self.change(UndoSettled(at, "undone"))
        self.go_on()

    def fail(self, at: int, kind: str, message: str, call: str = "") -> None:
        """Record why a step could not be undone."""
        each = self.state.steps[at]
        error = self.add_error_element(kind, message, each.step, call=call, inputs=each.eids)
        self.change(UndoSettled(at, "failed", error))

    def end(self, status: str, error: int | None = None) -> None:
        """End the run, and report the end."""
        self.change(UndoEnded(status, self.event.at, error))
        self.report_end(())


decision_type = UndoDecision


def advance(decision: UndoDecision, event: Event) -> None:
    """Record the changes and commands that follow from one event."""
    state = decision.state
    match event:
        case Started() if state.status == "ready":
            _started(decision, event)
        case Returned() if event.call == state.call and not state.over:
            decision.returned(event)
        case Cancelled() if not state.over:
            if state.call:
                decision.ask(commands.CancelCall(state.call))
            decision.end("cancelled")


def _started(decision: UndoDecision, event: Started) -> None:
    named = ((*name.partition(" ")[::2], eids) for name, eids in event.inputs)
    steps = tuple([(step, undo, eids) for step, undo, eids in named])
    undoes = int(event.environment.get(UNDOES, 0))
    decision.change(UndoStarted(event.at, event.elements, event.caller, event.attempt, undoes, steps))
    there = dict.fromkeys(
        eid for _, _, eids in steps for eid in eids if decision.view.element(eid) is not None
    )
    decision.add_to_context(tuple(there))
    decision.go_on()


def fail(decision: UndoDecision, error: int) -> None:
    """Fail a run whose advance raised."""
    decision.end("failed", error)


def render(definition: Recipe, state: UndoState, context: Iterable[int]) -> bytes:
    """The run as an element."""
    root = etree.Element(kind, recipename=state.definition, undoes=str(state.undoes), state=state.status)
    add_caller(root, state, "parent_plan")
    for each in state.steps:
        step = etree.SubElement(root, "step", id=each.step, state=each.state)
        if each.undo:
            step.set("undo", each.undo)
    return finished(root, context)


def parts(definition: Recipe, state: UndoState) -> dict[str, list[dict[str, Any]]]:
    """The steps that are undone, last first."""
    return {
        "steps": [
            {"id": each.step, "type": Action.kind, "target": each.undo or None, "state": each.state}
            for each in state.steps
        ]
    }


def graph(definition: Recipe, state: UndoState) -> Graph:
    """The steps that are undone, one after another."""
    nodes = [
        GraphNode(f"{at} {each.step}", (each.step,), each.state, tone=_TONES[each.state], target=each.undo)
        for at, each in enumerate(state.steps)
    ]
    edges = [GraphEdge(one.id, other.id) for one, other in pairwise(nodes)]
    return Graph(f"undo of {state.undoes}", (*nodes, *edges))


def waiting_for(definition: Recipe, state: UndoState, watches: dict[str, Watch]) -> Iterator[Wait]:
    """The call that is under way."""
    for each in state.steps if state.call else ():
        if each.state == "called":
            yield Wait(each.step, "call", f"action {each.undo}", calls=(state.call,))


def explain(definition: Recipe, state: UndoState, identifier: str | None) -> str | None:
    """The state of a step, for people."""
    if identifier is None:
        return f"it undoes run {state.undoes}" if state.undoes else None
    for each in state.steps:
        if each.step == identifier:
            by = f" by {each.undo}" if each.undo else ""
            return f"step {each.step} of run {state.undoes} is {each.state}{by}"
    return None
