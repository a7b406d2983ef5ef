"""Task types as they are meant: slow, one thing after another, and short enough to be seen to be right.

Each type has one instance at a time, as one that begins by itself. A script is a list of statements:
`("exec", words)`, of which a word `fail` fails, `("set", attribute, text)`, `("assert", state)`,
`("if", attribute, number, then, otherwise)`, which tests whether the attribute is greater, and
`("route", type)`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

from narval.kinds.task.language.definition import ABORT, EXCEPTION, FORWARD

Script = list[tuple[Any, ...]]


class State(NamedTuple):
    """A state, with the scripts of its rules for the event `ev`, each with whether its condition holds."""

    edges: tuple[str, ...]
    on_assert: Script
    on_leaving: Script
    rules: list[tuple[bool, Script]]


class Type(NamedTuple):
    """A type, which begins in the state `a`; `undo` says that it has a compensator."""

    states: dict[str, State]
    routes: dict[str, Script]
    undo: bool


class WorkObject:
    """An object, as it is and as it was committed."""

    def __init__(self, attributes: dict[str, str]) -> None:
        self.attributes, self.committed = dict(attributes), dict(attributes)
        self.steps: list[str] = []


class Instance:
    """An instance; it `was` in a state before the one that it is about to enter."""

    def __init__(self, type: str, object: WorkObject | None) -> None:
        self.type, self.object = type, object
        self.was, self.now = "", "a"
        self.routes: list[str] = []


class FaultError(Exception):
    """A script fails."""


class EndedError(Exception):
    """The instance has ended, by a fault or not."""


class Event:
    """An event that waits: its rules by state, each waiting, judged for an instance, or with its result."""

    def __init__(self, definition: Type) -> None:
        self.rules: list[list[Any]] = [
            [name, holds, script, "waits"]
            for name, state in definition.states.items()
            for holds, script in state.rules
        ]
        self.has_begun_one = False


class Reference:
    """The types at work."""

    def __init__(self, types: dict[str, Type]) -> None:
        self.types = types
        self.queues: dict[str, list[WorkObject]] = {name: [] for name in types}
        self.instances: dict[str, Instance] = {}
        self.events: list[tuple[str, Event]] = []
        self.objects = 0
        self.ran: list[tuple[str, str, dict[str, str]]] = []
        """The programs that ran: the type, the words, the attributes of the object."""

    # --- what happens ---------------------------------------------------------------------------------------

    def put(self, type: str, n: int) -> None:
        self._enqueue(type, WorkObject({"id": str(self.objects), "n": str(n)}))
        self.objects += 1
        self._settle()

    def follow_edge(self, type: str, state: str) -> None:
        self._guarded(self.instances[type], [("assert", state)])
        self._settle()

    def stop(self, type: str) -> None:
        instance = self.instances.pop(type)
        if instance.object is not None:
            instance.object.attributes = dict(instance.object.committed)
            self._enqueue(type, instance.object, first=True)
        self._settle()

    def raise_event(self, type: str) -> None:
        self.events.append((type, Event(self.types[type])))
        self._settle()

    # --- scripts and moves ----------------------------------------------------------------------------------

    def _guarded(self, instance: Instance, script: Script) -> str:
        """The result of a script that is no part of a move."""
        try:
            self._run(instance, script)
        except FaultError:
            return "failed"
        except EndedError as end:
            return "failed" if end.args else "done"
        return "done"

    def _run(self, instance: Instance, script: Script) -> None:
        attributes = instance.object.attributes if instance.object is not None else None
        for name, *arguments in script:
            if name == "exec":
                self.ran.append((instance.type, arguments[0], dict(attributes or {})))
                if arguments[0].startswith("fail"):
                    raise FaultError
            elif name == "assert":
                self._move(instance, arguments[0])
            elif name == "route":
                instance.routes.append(arguments[0])
            elif attributes is None or (name == "if" and arguments[0] not in attributes):
                raise FaultError
            elif name == "set":
                attributes[arguments[0]] = arguments[1]
            else:
                self._run(
                    instance, arguments[2] if float(attributes[arguments[0]]) > arguments[1] else arguments[3]
                )

    def _move(self, instance: Instance, to: str) -> None:
        if instance.was != instance.now:
            self._is_entered(instance)
        self._in_move(instance, self.types[instance.type].states[instance.now].on_leaving)
        instance.now = to
        self._enter(instance)

    def _enter(self, instance: Instance) -> None:
        to, state = instance.now, self.types[instance.type].states.get(instance.now)
        self._in_move(instance, state.on_assert if state is not None else [])
        if instance.now == to:
            self._is_entered(instance)
            if state is None or not state.edges:
                self._end(instance, to)
                raise EndedError

    def _in_move(self, instance: Instance, script: Script) -> None:
        try:
            self._run(instance, script)
        except FaultError:
            self._end(instance, EXCEPTION)
            raise EndedError("by a fault") from None

    def _is_entered(self, instance: Instance) -> None:
        """Events hear of each state, though the instance passes through it."""
        instance.was = instance.now
        for type, event in self.events:
            if type == instance.type:
                self._judge(event, instance)

    # --- the end of an instance -----------------------------------------------------------------------------

    def _end(self, instance: Instance, result: str) -> None:
        instance.routes = []
        self.instances.pop(instance.type, None)
        object = instance.object
        if object is None:
            return
        if result in (ABORT, EXCEPTION):
            object.attributes = dict(object.committed)
        if result == ABORT:
            self._undo(object)
        elif result == FORWARD:
            object.committed = dict(object.attributes)
            object.steps.append(instance.type)
        if result in self.types[instance.type].routes:
            self._guarded(instance, self.types[instance.type].routes[result])
        for type in instance.routes:
            self._enqueue(type, object)

    def _enqueue(self, type: str, object: WorkObject, *, first: bool = False) -> None:
        self.queues[type].insert(0 if first else len(self.queues[type]), object)

    def _undo(self, object: WorkObject) -> None:
        while object.steps:
            type = object.steps.pop()
            if self.types[type].undo:
                self.ran.append(("undo", f"ok undo {type}", dict(object.attributes)))
                object.attributes["undone"] = type
        object.committed = dict(object.attributes)

    # --- queues and events ----------------------------------------------------------------------------------

    def _settle(self) -> None:
        while self._act() or self._begin_one():
            pass

    def _begin_one(self) -> bool:
        for type in self.types:
            waiting = [event for to, event in self.events if to == type and not event.has_begun_one]
            if type in self.instances or not (self.queues[type] or waiting):
                continue
            if not self.queues[type]:
                waiting[0].has_begun_one = True
            instance = Instance(type, self.queues[type].pop(0) if self.queues[type] else None)
            self.instances[type] = instance
            if instance.object is not None:
                instance.object.committed = dict(instance.object.attributes)
            with suppress(EndedError):
                self._enter(instance)
            return True
        return False

    def _judge(self, event: Event, instance: Instance) -> None:
        """Judge the rules of the state in which an instance is: at that instant alone."""
        if any(isinstance(rule[3], Instance) or rule[3] in ("done", "failed") for rule in event.rules):
            return
        for rule in event.rules:
            if rule[0] == instance.was and rule[3] == "waits":
                rule[3] = instance if rule[1] else "expired"

    def _act(self) -> bool:
        for type, event in self.events:
            at_work = self.instances.get(type)
            if at_work is not None:
                self._judge(event, at_work)
            for rule in event.rules:
                if isinstance(rule[3], Instance):
                    is_there = rule[3] is at_work and at_work.was == rule[0]
                    rule[3] = self._guarded(rule[3], rule[2]) if is_there else "expired"
                    self._close(event, rule[0] if is_there else "")
                    return True
            self._close(event)
        return False

    def _close(self, event: Event, answered: str = "") -> None:
        """An event ends with its rules; those of other states are passed over once one has answered."""
        if answered:
            event.rules = [rule for rule in event.rules if rule[0] == answered or rule[3] == "expired"]
        if all(rule[3] in ("failed", "expired", "done") for rule in event.rules):
            self.events = [one for one in self.events if one[1] is not event]
