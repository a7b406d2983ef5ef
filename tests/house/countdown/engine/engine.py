"""The engine of countdowns: one call after another, until the count is 0."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import msgspec
from lxml import etree

from narval.core.definitions.library import Library
from narval.core.engines import commands
from narval.core.engines.commands import Watch
from narval.core.engines.decision import Decision
from narval.core.engines.engine import Wait
from narval.core.engines.events import Cancelled, Event, Returned, Signalled, Started
from narval.core.engines.graph import Graph, GraphNode, Tone
from narval.core.engines.run_state import Moves, RunBegan, RunChange, RunState
from narval.core.engines.structure import Finding
from tests.house.countdown.language.parser import NOTHING, Countdown

kind = "countdown-run"
definition_kind = "countdown"


class CountdownState(RunState, omit_defaults=True):
    """A countdown under way: how often it is still to call, and the call that is under way."""

    KIND: ClassVar[str] = "countdown"
    MOVES: ClassVar[Moves] = {
        "ready": frozenset({"counting", "cancelled"}),
        "counting": frozenset({"done", "failed", "cancelled"}),
    }

    left: int = 0
    call: str = ""
    told: list[str] = msgspec.field(default_factory=list)
    held: dict[str, int] = msgspec.field(default_factory=dict)
    heard: list[str] = msgspec.field(default_factory=list)


class CountdownChange(RunChange, frozen=True):
    """A fact that changes a countdown."""


class Begun(CountdownChange, RunBegan, frozen=True):
    """The countdown began."""

    count: int = 0

    def apply(self, state: CountdownState) -> None:
        state.begin(self)
        state.move("counting")
        state.left = self.count


class Counted(CountdownChange, frozen=True):
    """One less is left; `call` is under way now, or none is."""

    left: int
    call: str = ""

    def apply(self, state: CountdownState) -> None:
        state.left, state.call = self.left, self.call


class Told(CountdownChange, frozen=True):
    """It has told another run something."""

    call: str

    def apply(self, state: CountdownState) -> None:
        state.told.append(self.call)


class Heard(CountdownChange, frozen=True):
    """What it told another was answered."""

    call: str
    answer: str

    def apply(self, state: CountdownState) -> None:
        state.told.remove(self.call)
        state.heard.append(self.answer)


class Held(CountdownChange, frozen=True):
    """A run told it something that it answers when it is free."""

    signal: str
    sender: int

    def apply(self, state: CountdownState) -> None:
        state.held[self.signal] = self.sender


class Dropped(CountdownChange, frozen=True):
    """That is answered, or needs no answer any more."""

    signal: str

    def apply(self, state: CountdownState) -> None:
        state.held.pop(self.signal)


class Ended(CountdownChange, frozen=True):
    """The countdown is over."""

    status: str
    at: float
    error: int | None = None

    def apply(self, state: CountdownState) -> None:
        state.move(self.status, self.at, self.error)


changes = CountdownChange.union()
state_type = CountdownState


class CountdownDecision(Decision[Countdown, CountdownState, CountdownChange], kw_only=True, eq=False):
    """One advance of a countdown."""

    def count_on(self) -> None:
        left = self.state.left
        if left == 0:
            self.end("done")
            return
        call = self.identifier() if self.definition.action != NOTHING else ""
        self.change(Counted(left - 1, call))
        if not call:
            return
        self.command(commands.Call(call, "action", self.definition.action, "tick"))

    def tell(self, event: Signalled) -> None:
        call, said = self.identifier(), event.arguments
        whom = {"run": int(str(said["to"]))} if "to" in said else {}
        self.change(Told(call))
        payload: dict[str, Any] = {**whom, "signal": said["signal"], "arguments": {"n": said.get("n")}}
        asked = (call, commands.SIGNAL, str(said.get("of", "c.none")), "tell")
        self.ask(commands.Call(*asked, elements=self.state.first, payload=payload))
        self.answer(event, call=call)

    def free(self, event: Signalled) -> None:
        for signal in list(self.state.held):
            self.change(Dropped(signal))
            self.ask(commands.Answer(signal, {"left": self.state.left, "eids": list(self.state.first)}))
        self.answer(event)

    def hear(self, event: Signalled) -> None:
        match event.name:
            case "skip":
                self.change(Counted(max(0, self.state.left - 1), self.state.call))
                self.answer(event, left=self.state.left)
            case "tell":
                self.tell(event)
            case "drop":
                for call in self.state.told:
                    self.ask(commands.CancelCall(call))
                self.answer(event)
            case "hold" if event.sender:
                self.change(Held(event.signal, event.sender))
            case "free":
                self.free(event)
            case "gone" if event.arguments["signal"] in self.state.held:
                self.change(Dropped(str(event.arguments["signal"])))
            case "break":
                raise ValueError("it breaks")
            case name:
                self.refuse(event, "not-listening", f"a countdown hears skip, not {name}")

    def end(self, status: str, error: int | None = None) -> None:
        self.change(Ended(status, self.event.at, error))
        self.report_end(())


decision_type = CountdownDecision


def advance(decision: CountdownDecision, event: Event) -> None:
    state = decision.state
    match event:
        case Started() if state.status == "ready":
            decision.change(Begun(event.at, event.elements, event.caller, count=decision.definition.count))
            decision.count_on()
        case Returned() if event.call in state.told:
            given = [event.value, list(event.eids)] if event.value is not None else "abandoned"
            said = event.problem.kind if event.problem is not None else str(given)
            decision.change(Heard(event.call, said))
        case Returned() if not state.over:
            if event.problem is not None:
                why = event.problem.message
                decision.end("failed", decision.add_error_element(event.problem.kind, why, "tick"))
            else:
                decision.count_on()
        case Signalled():
            decision.hear(event)
        case Cancelled() if not state.over:
            if state.call:
                decision.command(commands.CancelCall(state.call))
            decision.end("cancelled")


def fail(decision: CountdownDecision, error: int) -> None:
    decision.end("failed", error)


def render(definition: Countdown, state: CountdownState, context: Iterable[int]) -> bytes:
    root = etree.Element(kind, name=definition.full_name, state=state.status, left=str(state.left))
    return etree.tostring(root, encoding="utf-8")


def waiting_for(definition: Countdown, state: CountdownState, watches: dict[str, Watch]) -> Iterator[Wait]:
    if not state.over and not state.call:
        yield Wait("tick", "signal", "skip")
    elif not state.over:
        yield Wait("tick", "call", f"action {definition.action}", calls=(state.call,))
    if state.told:
        yield Wait("tell", "call", "another run", calls=tuple(state.told))


def parts(definition: Countdown, state: CountdownState) -> dict[str, list[dict[str, Any]]]:
    return {"counts": [{"id": "tick", "state": state.status, "left": state.left}]}


def graph(definition: Countdown, state: CountdownState) -> Graph:
    tone: Tone = "active" if state.status == "counting" else "done" if state.over else "idle"
    about = {"kind": "count", "target": definition.action, "badge": f"{state.left} left"}
    node = GraphNode("tick", ("tick",), state.status, tone=tone, **about)
    return Graph(definition.full_name, (node,))


def explain(definition: Countdown, state: CountdownState, identifier: str | None) -> str | None:
    if identifier == "tick":
        return f"tick is {state.status}: {state.left} of {definition.count} are left"
    return None


def unreachable(definition: Countdown, library: Library) -> list[Finding]:
    if definition.count:
        return []
    message = f"{definition.action} is never called: the count begins at 0"
    return [Finding(definition.path, definition.line, 1, "error", "tick", message)]
