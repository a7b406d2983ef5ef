"""The engine of desks: one stands for each countdown that is loaded, and is told when that is another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import msgspec
from lxml import etree

from narval.core.engines import commands
from narval.core.engines.commands import Watch
from narval.core.engines.decision import Decision
from narval.core.engines.engine import Wait
from narval.core.engines.events import Cancelled, Event, Returned, Signalled, Started
from narval.core.engines.graph import Graph, GraphNode
from narval.core.engines.run_state import Moves, RunBegan, RunChange, RunState
from tests.house.countdown.language.parser import Countdown

kind = "countdown-desk"
definition_kind = "countdown"


class DeskState(RunState, omit_defaults=True):
    """A desk: from where its countdown begins now, what it was told, and what became of those it began."""

    KIND: ClassVar[str] = kind
    MOVES: ClassVar[Moves] = {"ready": frozenset({"standing"}), "standing": frozenset({"failed"})}

    count: int = 0
    told: list[str] = msgspec.field(default_factory=list)


class DeskChange(RunChange, frozen=True):
    """A fact that changes a desk."""


class Opened(DeskChange, RunBegan, frozen=True):
    """It began."""

    def apply(self, state: DeskState) -> None:
        state.begin(self)
        state.move("standing")


class Noted(DeskChange, frozen=True):
    """It was told something; its countdown begins from `count` now."""

    what: str
    count: int

    def apply(self, state: DeskState) -> None:
        state.told.append(self.what)
        state.count = self.count


class Broken(DeskChange, frozen=True):
    """It broke down."""

    at: float
    error: int

    def apply(self, state: DeskState) -> None:
        state.move("failed", self.at, self.error)


changes = DeskChange.union()
state_type = DeskState


class DeskDecision(Decision[Countdown, DeskState, DeskChange], kw_only=True, eq=False):
    """One advance of a desk."""

    def note(self, what: str) -> None:
        self.change(Noted(what, self.definition.count))

    def hear(self, event: Signalled) -> None:
        match event.name:
            case "reload" if event.sender:
                self.note("gone" if event.arguments.get("gone") else "reload")
            case "call" if event.sender:
                self.note(f"call {event.arguments['from']}")
                asked = (definition_kind, self.definition.full_name, "begin")
                self.ask(commands.Call(self.identifier(), *asked))
                self.answer(event, count=self.definition.count)
            case "break":
                raise ValueError("it breaks")
            case name:
                self.refuse(event, "not-listening", f"a desk does not hear {name}")


decision_type = DeskDecision


def advance(decision: DeskDecision, event: Event) -> None:
    match event:
        case Started():
            decision.change(Opened(event.at, event.elements))
            decision.note("began")
        case Signalled():
            decision.hear(event)
        case Returned():
            decision.note("returned" if event.problem is None else event.problem.kind)
        case Cancelled():
            decision.note("cancelled")


def fail(decision: DeskDecision, error: int) -> None:
    decision.change(Broken(decision.event.at, error))
    decision.report_end(())


def render(definition: Countdown, state: DeskState, context: Iterable[int]) -> bytes:
    root = etree.Element(kind, name=definition.full_name, state=state.status, count=str(state.count))
    return etree.tostring(root, encoding="utf-8")


def waiting_for(definition: Countdown, state: DeskState, watches: dict[str, Watch]) -> Iterator[Wait]:
    yield Wait("desk", "signal", "call")


def parts(definition: Countdown, state: DeskState) -> dict[str, list[dict[str, Any]]]:
    return {"desks": [{"id": "desk", "state": state.status, "told": state.told, "count": state.count}]}


def graph(definition: Countdown, state: DeskState) -> Graph:
    return Graph(definition.full_name, (GraphNode("desk", ("desk",), state.status),))


def explain(definition: Countdown, state: DeskState, identifier: str | None) -> str | None:
    return f"the desk is {state.status}" if identifier == "desk" else None
