"""Dialogues with a pure engine: an event in, changes and commands out, and nothing else involved.

`Dialogue` is a memory, a library and one run at a time or several, told events by hand. Outer commands are only
collected: a test answers a call with `returned`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from narval.definitions import parse
from narval.definitions.action import Action, Input, Output
from narval.definitions.library import Library
from narval.definitions.prototype import Prototype
from narval.engines import commands, plan
from narval.engines.commands import Call, Command
from narval.engines.events import Caller, Cancelled, Event, Matched, Problem, Produced, Raw, Returned, Started
from narval.memory import change as changes
from narval.memory.element import Element, canonical
from narval.memory.tree import Memory
from narval.source import Source


def recipes(text: str) -> list[Any]:
    """The recipes of a text, which must have no faults."""
    parsed = parse(Source("test.xml", text.encode()))
    assert not parsed.faults, parsed.faults
    return list(parsed.definitions)


def action(name: str, inputs: Iterable[Input] = (), outputs: Iterable[Output] = ()) -> Action:
    """An action that nobody will run."""
    group, _, short = name.partition(".")
    return Action(group, short, short, Prototype(tuple(inputs), tuple(outputs)))


class Dialogue:
    """A memory, a library and the runs of it; also the `View` of the engine."""

    def __init__(self, text: str = "", *actions: Action, schema_faults: dict[bytes, str] | None = None) -> None:
        self.memory = Memory()
        self.library = Library([*actions, *(recipes(text) if text else ())])
        self.states: dict[int, Any] = {}
        self.definitions: dict[int, Any] = {}
        self.callers: dict[int, Caller | None] = {}
        self.calls: dict[str, tuple[int, Call]] = {}
        self.watches: dict[str, tuple[int, commands.Watch]] = {}
        self.wished: list[Command] = []
        self.decided: list[Any] = []
        self.refusals = schema_faults or {}
        self._event = 0
        self._run = 0

    # --- what a test says -----------------------------------------------------------------------------

    def add(self, xml: str) -> int:
        """An element from outside."""
        eid = self.memory.next_eid
        self.memory.apply(changes.Added(Element(eid, canonical(xml), 0.0)))
        return eid

    def start(self, name: str, elements: Iterable[int] = (), caller: Caller | None = None, attempt: int = 0) -> int:
        """A run begins; its eid."""
        definition = self.library.get("recipe", name)
        assert definition is not None, name
        run = self.memory.next_eid
        self.definitions[run] = definition
        self.states[run] = plan.begin(run, definition)
        self.callers[run] = caller
        self.memory.show_run(run, "plan", lambda: self._rendered(run))
        self.tell(run, Started(self._next(), 100.0, tuple(elements), caller, attempt))
        return run

    def tell(self, run: int, event: Event) -> None:
        """Tell a run an event; `decided` and `wished` hold what followed from it."""
        self._run = run
        self.decided, self.wished = plan.advance(self.definitions[run], self.states[run], event, self)
        replayed = msgspec.msgpack.decode(msgspec.msgpack.encode(self.decided), type=list[plan.changes])
        assert replayed == self.decided, "changes survive being stored"
        for command in self.wished:
            if isinstance(command, Call):
                self.calls[command.call] = (run, command)
            elif isinstance(command, commands.Watch):
                self.watches[command.watch] = (run, command)
            elif isinstance(command, commands.Unwatch):
                self.watches.pop(command.watch)

    def call_of(self, step: str, run: int | None = None) -> Call:
        """The call under way of a step: there must be one alone."""
        found = [call for of, call in self.calls.values() if call.step == step and run in (None, of)]
        assert len(found) == 1, f"expected one call of {step}, got {found}"
        return found[0]

    def returned(self, step: str, *xml: str, outputs: Iterable[str] = (), run: int | None = None) -> None:
        """The call of a step comes back with these elements."""
        raws = tuple(Raw(canonical(each)) for each in xml)
        self.answer(self.call_of(step, run), elements=raws)

    def erred(self, step: str, message: str = "it broke", run: int | None = None) -> None:
        """The call of a step comes back with a problem."""
        self.answer(self.call_of(step, run), problem=Problem("ValueError", message))

    def answer(self, call: Call, **fields: Any) -> None:
        """One call comes back."""
        run, _ = self.calls.pop(call.call)
        self.tell(run, Returned(self._next(), 101.0, call.call, **fields))

    def produced(self, step: str, *xml: str) -> None:
        """A source yields."""
        call = self.call_of(step)
        run, _ = self.calls[call.call]
        self.tell(run, Produced(self._next(), 101.0, call.call, tuple(Raw(canonical(each)) for each in xml)))

    def arrives(self, xml: str) -> int:
        """An element from outside, told to each watch that it satisfies, as the loop does."""
        eid = self.add(xml)
        element = self.memory.element(eid)
        assert element is not None
        for watch, (run, command) in list(self.watches.items()):
            fits = any(bound.test(self.memory.tree(element)) for bound in command.conditions)
            if watch in self.watches and fits:
                self.tell(run, Matched(self._next(), 102.0, watch, eid))
        return eid

    def cancel(self, run: int) -> None:
        """Someone asks the run to end."""
        self.tell(run, Cancelled(self._next(), 103.0, "enough"))

    def steps(self, run: int) -> dict[str, str]:
        """The state of each step."""
        return {each["id"]: each["state"] for each in plan.parts(self.definitions[run], self.states[run])["steps"]}

    def transitions(self, run: int) -> dict[str, str]:
        """The state of each transition."""
        rows = plan.parts(self.definitions[run], self.states[run])["transitions"]
        return {each["id"]: each["state"] for each in rows}

    def state(self, run: int) -> str:
        """The state of the plan."""
        return plan.word(self.states[run])

    def errors(self) -> list[Element]:
        """The error elements in memory."""
        found = (self.memory.element(eid) for eid in self.memory.named(["error"]))
        return [element for element in found if element is not None]

    def wishes(self, kind: type) -> list[Any]:
        """The commands of one kind that followed from the last event."""
        return [command for command in self.wished if isinstance(command, kind)]

    # --- the view -------------------------------------------------------------------------------------

    @property
    def next_eid(self) -> int:
        return self.memory.next_eid

    def element(self, eid: int) -> Element | None:
        return self.memory.element(eid)

    def matching(self, bound: Any, scope: Any) -> Iterator[int]:
        return self.memory.matching(bound, scope)

    def among(self, eids: Iterable[int], bound: Any, scope: Any) -> Iterator[int]:
        return self.memory.among(eids, bound, scope)

    def fits(self, element: Element, bound: Any) -> bool:
        return self.memory.fits(element, bound)

    def context(self, run: int) -> Iterable[int]:
        return self.memory.contexts.of(run)

    def caller(self, run: int) -> Caller | None:
        return self.callers.get(run)

    def reserved(self, bound: Any, scope: Any) -> bool:
        return self.memory.reserved_for(bound, scope)

    def keyed(self, name: str, expression: str, value: str) -> bool:
        return (name, expression, value) in self.memory.keys

    def definition(self, kind: str, name: str) -> Any:
        return self.library.get(kind, name)

    def schema_fault(self, xml: bytes) -> str | None:
        return self.refusals.get(xml)

    def take(self, command: Command) -> None:
        for fact in _FACTS.get(type(command), lambda run, command: ())(self._run, command):
            self.memory.apply(fact)

    def _rendered(self, run: int) -> Element:
        return Element(run, plan.render(self.definitions[run], self.states[run], self.context(run)))

    def _next(self) -> int:
        self._event += 1
        return self._event


_FACTS: dict[type, Any] = {
    commands.Add: lambda run, command: [
        changes.Added(command.element),
        *([changes.Held(run, (command.element.eid,))] if command.held else []),
    ],
    commands.Hold: lambda run, command: [changes.Held(run, command.eids)],
    commands.Mark: lambda run, command: [changes.Used(command.scope, command.eids)],
    commands.Reserve: lambda run, command: [changes.Reserved(command.eids)],
    commands.Release: lambda run, command: [changes.Released(command.eids)],
    commands.Outdate: lambda run, command: [changes.Released(command.eids), changes.Outdated(command.eids)],
    commands.Key: lambda run, command: [changes.Keyed(command.name, command.expression, command.value)],
}
