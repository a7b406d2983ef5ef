"""Standing runs of types in dialogues, with instances and cases that a test plays."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from narval.core.elements.element import Element
from narval.core.engines import commands
from narval.core.engines.commands import SIGNAL, Call
from narval.core.engines.effects import InForce
from narval.core.engines.events import Caller, Event, Failure, Matched, Returned, Signalled, Started
from narval.core.patterns.pattern import condition
from narval.kinds.task.engine.server import engine
from narval.kinds.task.language.definition import PREDEFINED, Rule, TaskDefinition, TaskState
from narval.kinds.task.language.windows import AllOf, AnyOf, ClockTime, Duration, Parameter, TimeSpec, Window
from tests.core.engines.dialogue import Dialogue, Refusal


def after(seconds: float) -> Window:
    return Window("AFTER", Duration(seconds), "RELATIVE")


def before(seconds: float) -> Window:
    return Window("BEFORE", Duration(seconds), "RELATIVE")


def at(seconds: float) -> Window:
    return Window("AT", Duration(seconds), "RELATIVE")


def within(seconds: float) -> Window:
    return Window("WITHIN", Duration(seconds), "RELATIVE")


def both(*specs: TimeSpec) -> AllOf:
    return AllOf(specs)


def either(*specs: TimeSpec) -> AnyOf:
    return AnyOf(specs)


def clock(operator: Any, hours: float) -> Window:
    return Window(operator, ClockTime(hours * 3600.0), "ABSOLUTE")


def by_parameter(operator: Any, name: str) -> Window:
    return Window(operator, Parameter(name))


def rule(event: str = "ev", when: str | bool = True, **more: Any) -> Rule:
    """A rule: `when` is its condition."""
    return Rule(event, condition=condition(when) if isinstance(when, str) else when, **more)


def state(name: str, *rules: Rule, **edges: str) -> TaskState:
    return TaskState(name, edges=edges, rules=rules)


def task(name: str, *states: TaskState, **more: Any) -> TaskDefinition:
    """A type `g.NAME`; its states have edges of their own to FORWARD."""
    known = {found.name: found for found in states or (state("busy"),)}
    known |= {found: TaskState(found) for found in PREDEFINED if found not in known}
    given = {"group": "g", "name": name, "digest": f"{name}1", "initial": next(iter(known))}
    return TaskDefinition(**{**given, "states": known, **more})


def global_event(name: str, found: Rule | None = None, **more: Any) -> TaskDefinition:
    given = {"group": "g", "name": name, "digest": f"{name}1", "rule": found or rule(name)}
    return TaskDefinition(**{**given, **more})


class Hall(Dialogue):
    """A dialogue with standing runs; instances and cases are numbers that the test speaks for."""

    def __init__(self, *types: TaskDefinition) -> None:
        super().__init__()
        self._event = 1_000_000  # no number is that of an element too
        self.types: dict[int, str] = {}
        self.begun_by: dict[int, Caller] = {}
        self.library = self.library.replace(list(types))
        self.servers = {definition.name: self.serve(definition) for definition in types}

    def serve(self, definition: TaskDefinition) -> int:
        """The standing run of a type begins; its eid."""
        run = self.add("<al/>")
        self.definitions[run], self.engines[run], self.callers[run] = definition, engine, None
        self.states[run] = engine.state_type.blank(run, definition)
        self._replayed[run], self.in_force[run] = engine.state_type.blank(run, definition), InForce()
        self.standing[definition.full_name] = run
        self.tell(run, Started(self._next(), self.now))
        return run

    # --- the view -------------------------------------------------------------------------------------

    def name_of(self, run: int) -> str | None:
        return self.types.get(run) or super().name_of(run)

    def caller(self, run: int) -> Caller | None:
        return self.begun_by.get(run) or super().caller(run)

    # --- what a test says -----------------------------------------------------------------------------

    def object(self, xml: str = "<doc/>") -> int:
        return self.add(xml)

    def instance(self, name: str, call: Call | None = None) -> int:
        """A number for an instance of a type, begun by a call of the server if one is given."""
        eid = self.add("<instance/>")
        self.types[eid] = f"g.{name}"
        if call is not None:
            self.begun_by[eid] = Caller(self.servers[name], call.step, call.call)
        return eid

    def sends(self, name: str, signal: str, sender: int = 1, /, **arguments: Any) -> str:
        """A run tells the server of a type something; the id of the signal."""
        self._signals += 1
        identifier = f"s{self._signals}"
        told = Signalled(self._next(), self.now, identifier, signal, arguments=arguments, sender=sender)
        self.tell(self.servers[name], told)
        return identifier

    def asks(self, name: str, signal: str, sender: int = 1, /, **arguments: Any) -> Any:
        """The same; the answer at once, or None if there is none yet. Raises Refusal."""
        return self.answer_to(self.sends(name, signal, sender, **arguments))

    def answer_to(self, signal: str) -> Any:
        """The answer to a signal that followed from the last thing said; None without one."""
        found = [answer for answer in self.wishes(commands.Answer) if answer.signal == signal]
        assert len(found) <= 1, found
        if found and found[0].problem is not None:
            raise Refusal(found[0].problem.kind, found[0].problem.message)
        return found[0].value if found else None

    def put(self, name: str, eid: int = 0, case: int = 7, **more: Any) -> int:
        """A case puts an object into a queue; the object."""
        eid = eid or self.object()
        self.asks(name, "put", case, object=eid, case=case, **{"parent": 0, "ordinal": 0, "count": 0, **more})
        return eid

    def joins(self, name: str, state: str = "", object: int = 0, **more: Any) -> int:
        """An instance that somebody else has begun joins, and is in a state; its number."""
        eid = self.instance(name)
        self.asks(name, "join", eid, instance=eid, **more)
        if state or object:
            self.is_at(name, eid, state, object)
        return eid

    def is_at(self, name: str, instance: int, state: str, object: int = 0) -> None:
        self.asks(
            name, "at", instance, instance=instance, state=state, object=object, case=7 if object else 0
        )

    def raises(self, name: str, event: str = "ev", *parameters: str, **more: Any) -> int:
        """Somebody raises an event; its number."""
        value = self.asks(name, "raise", event=event, parameters=list(parameters), **more)
        return int(value["event"]) if value else 0

    def next_event(self) -> int:
        """A number for an event."""
        return self._next()

    # --- what a test asks -----------------------------------------------------------------------------

    def server(self, name: str) -> Any:
        return self.states[self.servers[name]]

    def events(self, name: str) -> dict[int, str]:
        """The queue in which each event is."""
        return {event.id: event.queue for event in self.server(name).events.values()}

    def told(self, signal: str) -> list[Call]:
        """The calls under way that tell some run a signal."""
        return [call for _, call in self.calls.values() if call.kind == SIGNAL and _signal(call) == signal]

    def acts(self) -> list[Call]:
        """The actions that instances are asked to do, and have not done."""
        return self.told("act")

    def acted(self, call: Call | None = None, result: str = "done", **more: Any) -> None:
        """An instance has done an action."""
        self.answer(call or self.acts()[0], value={"result": result, "why": "", "kept": False, **more})

    def not_there(self, call: Call | None = None) -> None:
        """An instance was not in the state."""
        self.answer(call or self.acts()[0], value={"state": False})

    def lost(self, call: Call) -> None:
        """The run that was told something is not there any more."""
        self.answer(call, problem=Failure("unknown-target", "there is none"))

    def begun(self) -> list[Call]:
        """The instances that servers have called, and that are not over."""
        return [call for _, call in self.calls.values() if call.kind == "task"]

    def result(self, name: str) -> list[tuple[int, str]]:
        """The events that ended by what was said last, with their results."""
        return [(one.event, one.result) for one in self.decided if type(one).__name__ == "EventOver"]


def said(call: Call) -> dict[str, Any]:
    """The arguments of a call that tells a run something."""
    return (call.payload or {})["arguments"]  # type: ignore[return-value]


def _signal(call: Call) -> Any:
    return (call.payload or {}).get("signal")


__all__ = ["Element", "Event", "Failure", "Matched", "Returned", "msgspec", "replace"]
