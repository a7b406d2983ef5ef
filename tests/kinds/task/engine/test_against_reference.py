"""Random types as written, and what becomes of their objects: as the reference has it (K25, K43, K47)."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from narval.core.engines.commands import SIGNAL, Call
from narval.core.engines.events import Failure
from narval.kinds.task.language.definition import ABORT, EXCEPTION, FORWARD, PREDEFINED
from tests.core.engines import between_runs
from tests.core.engines.dialogue import Refusal
from tests.kinds.task.engine.reference import Reference, Script, State, Type
from tests.kinds.task.engine.test_with_servers_and_cases import Works

TYPES, STATES = ("one", "two", "three"), ("a", "b", "c")


def any_script(chance: Random, place: str, edges: tuple[str, ...]) -> Script:
    """Statements that end with the first that may move the instance, as what follows it depends on that."""
    script: Script = []
    for _ in range(chance.choice((1, 1, 2, 3))):
        kind = chance.choice(("set", "exec", "exec", *(("assert", "if") if edges else ())))
        if kind == "set":
            script.append(("set", chance.choice("jk"), str(chance.randint(0, 9))))
        elif kind == "exec":
            script.append(("exec", f"{chance.choice(('fail', *['ok'] * 7))} {place}"))
        elif kind == "assert":
            return [*script, ("assert", chance.choice(edges))]
        else:
            then: Script = [("assert", chance.choice(edges))]
            return [*script, ("if", chance.choice("nk"), chance.randint(0, 6), then, [("set", "j", "7")])]
    return script


def any_rule(chance: Random, place: str, edges: tuple[str, ...]) -> tuple[bool, Script]:
    return chance.random() < 0.7, [("exec", f"ok {place}"), *any_script(chance, place, edges)]


def any_type(chance: Random, name: str) -> Type:
    """A type whose states lead on, so that each is reached and has an end."""
    later = TYPES[TYPES.index(name) + 1 :]
    ends = [end for end in PREDEFINED if end != FORWARD or later]
    names, states = STATES[: chance.randint(1, 3)], {}
    for at, state in enumerate(names):
        next_ = names[at + 1] if at + 1 < len(names) else chance.choice(ends)
        others = chance.sample([*(other for other in names if other != state), *ends], chance.randint(1, 3))
        edges = tuple(dict.fromkeys([next_, *others]))
        states[state] = State(
            edges,
            any_script(chance, f"{state}+", edges) if chance.random() < 0.6 else [],
            any_script(chance, f"{state}-", ()) if chance.random() < 0.3 else [],
            [any_rule(chance, f"{state}!{number}", edges) for number in range(chance.randint(0, 2))],
        )
    routes: dict[str, Script] = {}
    if later:
        routes[FORWARD] = [("if", "n", 3, [("route", later[0])], [("route", later[-1])])]
        routes[ABORT] = [("exec", "ok aborted"), *chance.choice(([], [("route", later[0])]))]
    routes[EXCEPTION] = [
        ("exec", "ok exception"),
        *chance.choice(([], [("route", name) for name in later[-1:]])),
    ]
    return Type(states, routes, undo=chance.random() < 0.7)


def written(script: Script) -> str:
    texts = []
    for name, *arguments in script:
        if name == "if":
            then, otherwise = written(arguments[2]), written(arguments[3])
            texts.append(f"if (obj.{arguments[0]} > {arguments[1]}) {{ {then} }} else {{ {otherwise} }}")
        elif name == "set":
            texts.append(f'set(obj.{arguments[0]}, "{arguments[1]}");')
        else:
            texts.append(f'{name}("{arguments[0]}");' if name == "exec" else f"{name}({arguments[0]});")
    return " ".join(texts)


def text_of(types: dict[str, Type]) -> str:
    lines = []
    for name, type in types.items():
        lines.append(f"TASK TYPE {name} INVOCATION: AUTO INITIAL a")
        lines += [f"COMPENSATED BY un{name}"] if type.undo else []
        for label, state in type.states.items():
            lines.append(f"STATE {label} EXPOSED ON ASSERT {{ {written(state.on_assert)} }}")
            lines.append(f"ON LEAVING {{ {written(state.on_leaving)} }}")
            lines += [f"ON EVENT to_{to} GOTO {to}" for to in state.edges]
            for holds, action in state.rules:
                lines.append(f'ON EVENT ev CONDITION "{str(holds).lower()}" ACTION {{ {written(action)} }}')
        lines += [f"ON {result} {{ {written(script)} }}" for result, script in type.routes.items()]
        if type.undo:
            undoing = f'exec("ok undo {name}"); set(obj.undone, "{name}"); assert(FORWARD);'
            lines.append(f"TASK TYPE un{name} INVOCATION: COMPENSATION INITIAL a STATE a EXPOSED")
            lines.append(f"ON ASSERT {{ {undoing} }} ON EVENT go GOTO FORWARD")
    return "\n".join(lines)


class Narval:
    """The same types in narval, whose programs are answered at once."""

    def __init__(self, text: str) -> None:
        self.works = Works(text)
        self.ran: list[tuple[str, str, dict[str, str]]] = []
        self.events: list[tuple[str, int]] = []

    def put(self, type: str, n: int) -> None:
        self.works.put(f"g.{type}", f'<o id="{len(self.cases())}" n="{n}"/>')
        self._answer()

    def follow_edge(self, type: str, state: str) -> None:
        with suppress(Refusal):  # it is answered later, when programs have run
            self.works.asks(self._at_work(type), "raise-edge", event=f"to_{state}")
        self._answer()

    def stop(self, type: str) -> None:
        with suppress(Refusal):
            self.works.asks(self._at_work(type), "stop")
        self._answer()

    def raise_event(self, type: str) -> None:
        server = self.works.standing[f"g.{type}"]
        self.works.asks(server, "raise", event="ev", parameters=[], mode="async")
        self._answer()

    def cases(self) -> list[Any]:
        return [state for state in self.works.states.values() if hasattr(state, "trail")]

    def _at_work(self, type: str) -> int:
        return self.works.at_work(f"g.{type}")[0]

    def _answer(self) -> None:
        """Answer programs; what is told to a run that is over is answered as by the runtime."""
        works = self.works
        while True:
            asked = list(works.calls.values())
            lost = [c for _, c in asked if c.kind == SIGNAL and between_runs.hearer(works, c) == 0]
            programs = [(run, call) for run, call in asked if call.program is not None]
            if lost:
                works.answer(lost[0], problem=Failure("unknown-target", "there is none"))
            elif programs:
                self._run(*programs[0])
            else:
                return

    def _run(self, run: int, call: Call) -> None:
        assert call.program is not None
        result, *words = call.program.words
        named = [(name.removeprefix("OBJECT_"), text) for name, text in call.program.environment]
        attributes = {name: text for name, text in named if name not in ("eid", "NARVAL_TASK")}
        type = "undo" if words[0] == "undo" else str(self.works.name_of(run)).removeprefix("g.")
        self.ran.append((type, " ".join([result, *words]), attributes))
        self.works.answer(call, value={"status": result == "fail"})

    def seen(self) -> dict[str, Any]:
        """Who is in which state with which object, and what waits."""
        view: dict[str, Any] = {}
        for type in TYPES:
            for run in self.works.at_work(f"g.{type}"):
                state = self.works.states[run]
                view[f"at {type}"] = (state.state, self._attributes(state.object))
            server = self.works.states[self.works.standing[f"g.{type}"]]
            view[f"queue of {type}"] = [self._attributes(eid) for eid in server.objects]
            view[f"events of {type}"] = len(server.events)
        return view

    def _attributes(self, eid: int) -> dict[str, str]:
        element = self.works.memory.element(self.works.current(eid) or 0)
        return {} if element is None else {k: v for k, v in element.attributes.items() if k != "eid"}


def seen(reference: Reference) -> dict[str, Any]:
    view: dict[str, Any] = {}
    for type in TYPES:
        if type in reference.instances:
            one = reference.instances[type]
            view[f"at {type}"] = (one.was, one.object.attributes if one.object is not None else {})
        view[f"queue of {type}"] = [object.attributes for object in reference.queues[type]]
        view[f"events of {type}"] = sum(to == type for to, _ in reference.events)
    return view


def by_object(ran: list[tuple[str, str, dict[str, str]]]) -> dict[tuple[str, str], list[Any]]:
    """What ran for each object at each type, in order: objects do not wait for one another."""
    groups = defaultdict(list)
    for type, words, attributes in ran:
        groups[type, attributes.get("id", "")].append((words, attributes))
    return groups


@pytest.mark.parametrize("seed", range(24))
def test_types_do_what_the_reference_does(seed: int) -> None:
    chance = Random(seed)
    types = {name: any_type(chance, name) for name in TYPES}
    reference, narval = Reference(types), Narval(text_of(types))
    for _ in range(25):
        act = chance.choice(("put", "put", "edge", "edge", "edge", "stop", "raise"))
        type = chance.choice(TYPES)
        at_work = reference.instances.get(type)
        arguments: tuple[Any, ...] = (type,)
        if act == "put":
            name, arguments = "put", (chance.choice((type, "one")), chance.randint(0, 6))
        elif act == "raise" and any(state.rules for state in types[type].states.values()):
            name = "raise_event"
        elif at_work is not None and act == "edge":
            name, arguments = "follow_edge", (type, chance.choice(types[type].states[at_work.was].edges))
        elif at_work is not None and act == "stop":
            name = "stop"
        else:
            continue
        getattr(reference, name)(*arguments)
        getattr(narval, name)(*arguments)
        assert narval.seen() == seen(reference), (name, arguments)
        assert by_object(narval.ran) == by_object(reference.ran), (name, arguments)
