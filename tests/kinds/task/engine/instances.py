"""Instances in dialogues: types as values, and servers and cases that note all that they are told."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from narval.core.engines.commands import SIGNAL, Call
from narval.core.engines.effects import InForce
from narval.core.engines.events import Caller, Failure, PersonsAct, Returned, Signalled, Started
from narval.kinds.task.engine import engine
from narval.kinds.task.language.definition import (
    PREDEFINED,
    Choice,
    Comparison,
    Perform,
    ScriptPath,
    ScriptValue,
    Statement,
    TaskDefinition,
    TaskState,
)
from tests.core.engines.dialogue import Dialogue, Refusal

SERVER = 800
CASE = 900


def name(text: str) -> ScriptPath:
    """A bare name, with dots."""
    return ScriptPath(tuple(text.split(".")))


def perform(function: str, *arguments: Any) -> Perform:
    """A statement: names are bare, texts begin with a quotation mark."""
    given = [ScriptValue(text[1:]) if text.startswith("'") else name(text) for text in map(str, arguments)]
    return Perform(function, tuple(given))


def when(left: str, operator: str, right: str, then: Statement, *otherwise: Statement) -> Choice:
    """A choice, by a comparison of a name with a text; `operator` may be empty."""
    test = Comparison(name(left), operator, ScriptValue(right) if operator not in ("", "has") else None)  # type: ignore[arg-type]
    return Choice(test, (then,), otherwise)


def state(label: str, **given: Any) -> TaskState:
    """A state; each edge is named by its target, unless `edges` is a table."""
    edges = given.pop("edges", {})
    table = edges if isinstance(edges, Mapping) else {f"to-{target}": target for target in edges.split()}
    return TaskState(label, edges=table, **given)


def task(*states: TaskState, called: str = "one", routes: Any = None, **given: Any) -> TaskDefinition:
    """A task type of the group `g`, which begins in its first state; FORWARD routes to `g.next`."""
    named = {found.name: found for found in states}
    for predefined in PREDEFINED:
        named.setdefault(predefined, TaskState(predefined))
    ways = {"FORWARD": (perform("route", "next"),)} if routes is None else routes
    initial = states[0].name if states else ""
    return TaskDefinition(group="g", name=called, initial=initial, states=named, routes=ways, **given)


NEXT = task(state("s", edges="FORWARD"), called="next")


class Instances(Dialogue):
    """A dialogue about instances, whose server and case answer at once all but what is `held`."""

    def __init__(self, *definitions: Any) -> None:
        super().__init__(NEXT, *definitions)
        self.told: list[tuple[str, dict[str, Any]]] = []
        """The signals that were told, with their arguments."""
        self.held: set[str] = {"take"}
        self.refused: dict[str, str] = {}
        """The kind of the problem by which a signal is answered."""
        self.replies: dict[str, Any] = {}

    def begins_one(
        self, called: str = "one", *elements: int, by_server: bool = True, **environment: Any
    ) -> int:
        """An instance begins, called by its server unless it joins by itself; its eid."""
        definition, run = self.library.get("task", f"g.{called}"), self.memory.next_eid
        caller = Caller(SERVER, called, "call") if by_server else None
        self.definitions[run], self.engines[run], self.callers[run] = definition, engine, caller
        self.states[run], self._replayed[run] = (engine.state_type.blank(run, definition) for _ in "12")
        self.in_force[run] = InForce()
        self.memory.show_run(run, engine.kind, self._rendered)
        told = {key: str(value) for key, value in environment.items()}
        self.tell(run, Started(self._next(), self.now, elements, caller, environment=told))
        return run

    def works_on(self, xml: str = "<cheque amount='5'/>", called: str = "one", **environment: Any) -> int:
        """The server calls an instance for an object of the case."""
        eid = self.add(xml)
        return self.begins_one(called, eid, object=eid, case=CASE, **environment)

    def init(self, called: str = "one", **environment: Any) -> int:
        """A program begins an instance."""
        return self.begins_one(called, by_server=False, program="yes", **environment)

    def tell(self, run: int, event: Any) -> None:
        super().tell(run, event)
        heard, answered = self.heard, True
        while answered:
            answered = False
            for of, call in list(self.calls.values()):
                said: Any = call.payload or {}
                if call.kind != SIGNAL or call.call not in self.calls or said["signal"] in self.held:
                    continue
                self._note(call)
                problem = self.refused.get(said["signal"])
                value = self.replies.get(said["signal"], {})
                given: dict[str, Any] = {"problem": Failure(problem, "no")} if problem else {"value": value}
                super().tell(of, Returned(self._next(), self.now, call.call, **given))
                heard, answered = [*heard, *self.heard], True
        self.heard = heard

    def _note(self, call: Call) -> None:
        said: Any = call.payload
        self.told.append((said["signal"], {**said["arguments"], "to": said.get("run") or call.name}))

    def signals(self, signal: str) -> list[dict[str, Any]]:
        """The arguments of all signals of a name that were told."""
        return [said for found, said in self.told if found == signal]

    def told_case(self) -> dict[str, Any]:
        """The arguments of the one `ended` that the case was told."""
        (said,) = self.signals("ended")
        return said

    def gives(self, run: int, xml: str = "<cheque amount='5'/>", case: int = CASE) -> int:
        """The server gives the instance that waits for one an object; its eid."""
        eid = self.add(xml) if xml else 0
        (call,) = [call for of, call in self.calls.values() if of == run and _is(call, "take")]
        self._note(call)
        self.answer(call, value={"object": eid, "case": case}, eids=(eid,) if eid else ())
        return eid

    def lets(self, run: int, signal: str, **answer: Any) -> None:
        """A signal that was held is answered."""
        (call,) = [call for of, call in self.calls.values() if of == run and _is(call, signal)]
        self._note(call)
        self.answer(call, **answer)

    def asks(self, run: int, signal: str, /, **arguments: Any) -> dict[str, Any]:
        """A program or a person asks; the answer. Raises Refusal."""
        self.said_by = {"act": PersonsAct("task")}
        try:
            return self.says(run, signal, **arguments)
        finally:
            self.said_by = {}

    def asks_later(self, run: int, signal: str, /, **arguments: Any) -> None:
        """A program or a person asks, and is answered when scripts are through."""
        with suppress(Refusal):
            self.asks(run, signal, **arguments)

    def acts(self, run: int, event: str, where: str, /, **arguments: Any) -> str:
        """The server has a rule's action done; the id of the signal."""
        self._signals += 1
        signal = f"a{self._signals}"
        said = {"event": 7, "name": event, "state": where, "rule": 0, **arguments}
        self.tell(run, Signalled(self._next(), self.now, signal, "act", arguments=said, sender=SERVER))
        return signal

    def answer_to(self, signal: str) -> Any:
        """The answer to a signal in what was heard last: a value, a problem's kind, or None."""
        found = [command for heard in self.heard for command in heard.commands if _answers(command, signal)]
        if not found:
            return None
        return found[0].problem.kind if found[0].problem else found[0].value  # type: ignore[union-attr]

    def entered(self) -> list[str]:
        """The states entered in what was heard last."""
        return [change.state for change in self.decided if type(change).__name__ == "StateEntered"]

    def call_for(self, called: str) -> Call:
        """The one call under way of an action, a program or a definition."""
        (found,) = [call for _, call in self.calls.values() if call.name == called]
        return found


def _is(call: Call, signal: str) -> bool:
    return call.kind == SIGNAL and (call.payload or {})["signal"] == signal


def _answers(command: Any, signal: str) -> bool:
    return getattr(command, "signal", None) == signal
