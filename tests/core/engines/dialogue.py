"""Dialogues with a pure engine: an event in, changes and commands out, and nothing else involved.

`Dialogue` is a memory, a library and the runs of it. A test says what happens; each event is told to the run
it concerns, and what follows within the same turn (a watch that an added or released element satisfies) is
told too. Outer commands are only collected: a test answers a call with `returned`. What a run tells another
(`standing` has those that are told by name) is heard and answered within the dialogue.

After every event the rules that hold of any engine are checked: what was recorded makes the same state again,
the state can be stored, a run that is over waits for nothing and keeps nothing reserved, and one that is not
over waits for something and can say for what.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import partial
from math import inf
from typing import Any, NamedTuple
from xml.sax.saxutils import escape, quoteattr

import msgspec
from msgspec.structs import replace

from narval.core.definitions.action.definition import Action, Input, Output
from narval.core.definitions.appointment import text_of
from narval.core.definitions.library import Library
from narval.core.definitions.parsing import parse
from narval.core.definitions.people.directory import Directory
from narval.core.definitions.prototype import Prototype
from narval.core.elements import changes as facts
from narval.core.elements.canonical import canonical
from narval.core.elements.element import Element, Origin
from narval.core.engines import commands
from narval.core.engines.commands import Call, Command, Finish, SetTimer, Watch
from narval.core.engines.effects import EFFECTS, InForce
from narval.core.engines.events import (
    Caller,
    Cancelled,
    Event,
    Failure,
    Matched,
    Migrated,
    OutputElement,
    Produced,
    Resume,
    Returned,
    Signalled,
    Started,
    TimerFired,
)
from narval.core.engines.registry import engine_of
from narval.core.engines.run_state import Migration
from narval.core.engines.view import FileTimes, verdict_of
from narval.core.errors import ActionError
from narval.core.memory.lineage import current, fits_since
from narval.core.memory.memory import Memory
from narval.core.source.text import Source
from narval.kinds.process.language.composition import compose_all
from tests.core.engines import between_runs
from tests.core.engines.commands_named import check_named


def recipes(text: str) -> list[Any]:
    """The recipes of a text, which must have no faults."""
    parsed = parse(Source("test.xml", text.encode()))
    assert not parsed.faults, parsed.faults
    return list(parsed.definitions)


def step(id: str, target: str = "", inside: str = "", **attributes: str) -> str:
    """A step that calls the action `m.ID`, or another target of the kind that `type` says."""
    written = {"type": "action", "target": target or f"m.{id}", **attributes}
    texts = "".join(f" {name.replace('_', '-')}={quoteattr(value)}" for name, value in written.items())
    return f'<step id="{id}"{texts}>{inside}</step>'


def transition(id: str, ins: str, outs: str, *conditions: str, inside: str = "", priority: int = 0) -> str:
    """A transition between steps, named with blanks between them; `a!` is an error link.

    A condition `use mail` uses what matches `mail`, `mail & *[@new]` has two patterns, and `mail for 10m`
    must last.
    """
    links = [f'<in idref="{link.rstrip("!")}"{_ON_ERROR * link.endswith("!")}/>' for link in ins.split()]
    links += [f'<out idref="{step_id}"/>' for step_id in outs.split()]
    for text in conditions:
        text, _, lasting = text.partition(" for ")
        use, patterns = text.startswith("use "), text.removeprefix("use ").split(" & ")
        matches = "".join(f"<match>{escape(pattern)}</match>" for pattern in patterns)
        duration = f' for="{lasting}"' if lasting else ""
        links.append(f'<condition use="{"yes" if use else "no"}"{duration}>{matches}</condition>')
    return f'<transition id="{id}" priority="{priority}">{"".join(links)}{inside}</transition>'


_ON_ERROR = ' on-error="yes"'


def recipe(name: str, *parts: str, start: str = "a", end: str = "z", **attributes: str) -> str:
    """A recipe of steps and transitions."""
    texts = "".join(f" {name}={quoteattr(value)}" for name, value in attributes.items())
    group, _, short = name.partition(".")
    head = f'<recipe group="{group}" name="{short}" start_step="{start}" end_step="{end}"{texts}>'
    return f"{head}{''.join(parts)}</recipe>"


def action(
    name: str, inputs: Iterable[Input] = (), outputs: Iterable[Output] = (), *, source: bool = False
) -> Action:
    """An action that nobody will run."""
    group, _, short = name.partition(".")
    where = "source" if source else "thread"
    prototype = Prototype(tuple(inputs), tuple(outputs))
    return Action(group=group, name=short, function=short, prototype=prototype, where=where)


class Heard(NamedTuple):
    """A run was told an event, and this followed."""

    run: int
    event: Event
    changes: list[Any]
    commands: list[Command]


class Refusal(Exception):  # noqa: N818 - it is an answer
    """An operation was not done: a stable kind, and a message."""

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        super().__init__(message)


class NodeType(NamedTuple):
    """A class that a module has for a type of nodes."""

    hooks: frozenset[str]
    gives: tuple[str, ...] | None = None


def decided(
    engine: Any, definition: Any, state: Any, event: Event, view: Any, error: int | None = None
) -> tuple[list[Any], list[Command]]:
    """What an engine decides for an event; with an error, as its advance raised."""
    decision = engine.decision_type(definition, state, event, view)
    if error is None:
        engine.advance(decision, event)
    elif not state.over:
        engine.fail(decision, error)
    return decision.changes, decision.commands


class Dialogue:
    """A memory, a library and the runs of it; also the `View` of the engine."""

    def __init__(self, *definitions: Action | str, schema_faults: dict[bytes, str] | None = None) -> None:
        self.memory = Memory()
        self.labels = self.memory.labels
        self.library = Library(())
        self.load(*definitions)
        self.current, self.text_of = partial(current, self.memory), text_of
        self.was_missed = lambda moment: moment < self.up_since
        self.now = 100.0
        self.zone, self.up_since, self.people = "UTC", 0.0, Directory.of_owner("me")
        self.starter, self.said_by = "", dict[str, Any]()
        self.started_by, self.answered_at = lambda run: self.starter, lambda run, step: ()
        self.states, self.standing = dict[int, Any](), dict[str, int]()
        self.definitions: dict[int, Any] = {}
        self.engines: dict[int, Any] = {}
        self.callers: dict[int, Caller | None] = {}
        self.in_force: dict[int, InForce] = {}
        self.finished: dict[int, Finish] = {}
        self.refusals = schema_faults or {}
        self.listeners: dict[str, int] = {}
        self.answers_to: dict[str, Any] = {}
        """What user code says when it is asked: a value, or a function of the arguments."""
        self.node_types: dict[str, frozenset[str]] = {}
        """The hooks of the node types there are."""
        self.node_type_gives: dict[str, tuple[str, ...]] = {}
        """The names of the elements that node types may give; those that are not here may give any."""
        self.questions: list[tuple[str, dict[str, Any]]] = []
        self.files: set[str] = set()
        """What is there and up to date."""
        self.heard: list[Heard] = []
        """What followed from the last thing the test said."""
        self._replayed: dict[int, Any] = {}
        self._queue: deque[tuple[int, Event]] = deque()
        self._event = 0
        self._signals = 0
        self._run = 0

    # --- what a test says -----------------------------------------------------------------------------

    def load(self, *definitions: Action | str) -> None:
        """Actions, and the text of recipes, join the library, or take the place of what they replace."""
        for definition in definitions:
            self.library = self.library.replace(
                recipes(definition) if isinstance(definition, str) else [definition]
            )
        if self.library.of("process"):
            self.library, faults = compose_all(self.library)
            assert not faults, faults

    def add(self, xml: str) -> int:
        """An element from outside that nobody is told of; its eid."""
        eid = self.memory.next_eid
        self.memory.apply(facts.Added(Element(eid, canonical(xml), self.now)))
        return eid

    def arrives(self, xml: str) -> int:
        """An element from outside, told to each watch that it satisfies, as the loop does; its eid."""
        self.heard = []
        eid = self.add(xml)
        self._offer(eid)
        self._drain()
        return eid

    def start(
        self,
        name: str,
        elements: Iterable[int] = (),
        caller: Caller | None = None,
        attempt: int = 0,
        kind: str = "recipe",
        resume: Resume | None = None,
        environment: dict[str, str] | None = None,
        inputs: Any = (),
    ) -> int:
        """A run begins; its eid."""
        definition = self.definition(kind, name)
        assert definition is not None, f"there is no {kind} {name}"
        engine = engine_of(kind)
        run = self.memory.next_eid
        self.definitions[run], self.engines[run], self.callers[run] = definition, engine, caller
        blank = engine.state_type.blank
        self.states[run], self._replayed[run] = blank(run, definition), blank(run, definition)
        self.in_force[run] = InForce()
        self.memory.show_run(run, engine.kind, self._rendered)
        first = tuple(elements)
        begun = Started(
            self._next(), self.now, first, caller, attempt, resume=resume, environment=environment or {}
        )
        self.tell(run, replace(begun, by=self.starter, inputs=inputs))
        return run

    def begins(self, step: str, run: int | None = None, given: int | None = None) -> int:
        """The run that answers the call of a step begins; its eid."""
        call = self.call_of(step, run, given)
        of, _ = self.calls[call.call]
        given: Any = (call.payload or {}).get("environment")
        caller = Caller(of, call.step, call.call, call.nearby)
        given = {"kind": call.kind, "environment": given, "inputs": call.inputs}
        return self.start(call.name, call.elements, caller, **given)

    def answers(self, run: int) -> None:
        """A run that is over tells its caller, as the runtime does."""
        caller, finish = self.callers[run], self.finished[run]
        assert caller is not None, f"run {run} was called by none"
        _, call = self.calls[caller.call]
        problem = (
            None if finish.phase == "done" else Failure(f"run-{finish.phase}", f"run {run} {finish.state}")
        )
        self.answer(call, eids=finish.eids, problem=problem)

    def returned(
        self,
        step: str,
        *xml: str,
        outputs: Iterable[str] = (),
        run: int | None = None,
        given: int | None = None,
    ) -> None:
        """The call of a step comes back with these elements, given for these outputs if any are named."""
        names = [*outputs, *[None] * len(xml)]
        raws = tuple(
            OutputElement(canonical(document), name) for document, name in zip(xml, names, strict=False)
        )
        self.answer(self.call_of(step, run, given), elements=raws)

    def erred(
        self, step: str, message: str = "it broke", run: int | None = None, given: int | None = None
    ) -> None:
        """The call of a step comes back with a problem."""
        self.answer(self.call_of(step, run, given), problem=Failure("ValueError", message))

    def answer(self, call: Call, **fields: Any) -> None:
        """One call comes back."""
        run, _ = self.calls[call.call]
        self.tell(run, Returned(self._next(), self.now, call.call, **fields))

    def produced(self, step: str, *xml: str, run: int | None = None, given: int | None = None) -> None:
        """A source yields."""
        call, elements = self.call_of(step, run, given), tuple(OutputElement(canonical(text)) for text in xml)
        self.tell(self.calls[call.call][0], Produced(self._next(), self.now, call.call, elements))

    def says(self, run: int, name: str, /, **arguments: Any) -> dict[str, Any]:
        """Someone asks a run for an operation; its answer. Raises Refusal."""
        self._signals += 1
        signal, given = f"s{self._signals}", {"arguments": arguments, **self.said_by}
        self.tell(run, Signalled(self._next(), self.now, signal, name, **given))
        answer = next((answer for answer in self.wishes(commands.Answer) if answer.signal == signal), None)
        if answer is None:
            raise Refusal("over", f"run {run} is {self.state(run)}")
        if answer.problem is not None:
            raise Refusal(answer.problem.kind, answer.problem.message)
        return dict(answer.value or {})

    def cancel(self, run: int) -> None:
        """Someone asks the run to end."""
        self.tell(run, Cancelled(self._next(), self.now, "enough"))

    def migrate(self, run: int, new: Any, names: dict[str, str] | None = None) -> Migration:
        """A run goes on with another version of its definition, if it has a place there."""
        old: Any = self.definitions[run]
        engine: Any = engine_of(old.kind)
        plan: Migration = engine.migrated(old, new, self.states[run], names or {})
        event = self._next()
        if not plan.refused:
            self.definitions[run] = new
            state = msgspec.msgpack.encode(plan.state)
            self.tell(run, Migrated(event, self.now, "before", "after", state=state))
        return plan

    def wakes_up(self, wake: str) -> None:
        """A moment is there that a run has asked for, or is told early."""
        run, _ = self.wakes[wake]
        self.tell(run, TimerFired(self._next(), self.now, wake))

    def until(self, moment: str) -> None:
        """Time goes on up to a moment, such as 2026-03-01T07:00:00Z; what is due on the way is told."""
        self._until(datetime.fromisoformat(moment).timestamp())

    def outdated(self, eid: int) -> None:
        """An element is replaced by nothing."""
        self.heard = []
        self.memory.apply(facts.Outdated((eid,)))
        self._offer(eid, outdated=True)
        self._drain()

    def replaces(self, eid: int, xml: str) -> int:
        """An element is replaced by a new version of it; the eid of that."""
        now = self.memory.next_eid
        self.memory.apply(facts.Added(Element(now, canonical(xml), self.now, Origin(inputs=(eid,)))))
        self.outdated(eid)
        return now

    def forgets(self, *eids: int) -> None:
        """Elements leave memory, and nobody is told."""
        self.memory.apply(facts.Forgotten(eids))

    def passes(self, seconds: float) -> None:
        """Time goes on for so many seconds; what is due on the way is told."""
        self._until(self.now + seconds)

    def until_woken(self) -> float:
        """Time goes on to the next moment that is waited for; how many seconds that were."""
        began = self.now
        self._until(min(wake.at for _, wake in self.wakes.values()))
        return self.now - began

    def drop_calls(self) -> None:
        """Calls under way are never heard of again."""
        for asked in self.in_force.values():
            asked.calls.clear()

    def tell(self, run: int, event: Event) -> None:
        """Tell a run an event, and then whoever is concerned by what followed."""
        self.heard = []
        self._tell(run, event)
        self._drain()

    # --- what a test asks -----------------------------------------------------------------------------

    calls = property(lambda said: _of_runs(said, "calls"), doc="Calls under way by id, each with its run.")
    watches = property(lambda said: _of_runs(said, "watches"), doc="Watches by name, each with its run.")
    wakes = property(lambda said: _of_runs(said, "wakes"), doc="Timers by name, each with its run.")

    @property
    def decided(self) -> list[Any]:
        """The changes that followed from the last thing said."""
        return [change for heard in self.heard for change in heard.changes]

    @property
    def wished(self) -> list[Command]:
        """The commands that followed from the last thing said."""
        return [command for heard in self.heard for command in heard.commands]

    def wishes(self, kind: type) -> list[Any]:
        """The commands of one kind that followed from the last thing said."""
        return [command for command in self.wished if isinstance(command, kind)]

    def calls_of(self, step: str, run: int | None = None) -> list[Call]:
        """The calls of a step that are under way, in the order they were made."""
        return [call for of, call in self.calls.values() if call.step == step and run in (None, of)]

    def call_of(self, step: str, run: int | None = None, given: int | None = None) -> Call:
        """The call of a step that is under way: there must be one alone, or with that element."""
        found = [call for call in self.calls_of(step, run) if given in (None, *_given(call))]
        assert len(found) == 1, f"expected one call of {step}, got {found}"
        return found[0]

    def inputs(self, step: str, run: int | None = None) -> dict[str, tuple[int, ...]]:
        """What the call of a step was given."""
        return dict(self.call_of(step, run).inputs)

    def steps(self, run: int) -> dict[str, str]:
        """The state of each step."""
        return self._part(run, "steps")

    def transitions(self, run: int) -> dict[str, str]:
        """The state of each transition."""
        return self._part(run, "transitions")

    def state(self, run: int) -> str:
        """The run's own word for its state."""
        return str(self.states[run].status)

    def xml(self, eid: int) -> str:
        """The bytes of an element, as text."""
        element = self.memory.element(eid)
        assert element is not None, f"there is no element {eid}"
        return element.xml.decode()

    def named(self, name: str) -> list[Element]:
        """The elements of a name, oldest first."""
        found = (self.memory.element(eid) for eid in self.memory.named([name]))
        return [element for element in found if element is not None]

    def errors(self) -> list[Element]:
        """The error elements in memory, oldest first."""
        return self.named("error")

    def error(self) -> dict[str, str]:
        """The attributes of the one error element there is, and its message."""
        (element,) = self.errors()
        return {**element.attributes, "message": element.tree().findtext("message", "")}

    # --- the view -------------------------------------------------------------------------------------

    @property
    def next_eid(self) -> int:
        return self.memory.next_eid

    def element(self, eid: int) -> Element | None:
        return self.memory.element(eid)

    def matching(self, bound: Any, scope: Any, *, newest_first: bool = False) -> Iterator[int]:
        return self.memory.matching(bound, scope, newest_first=newest_first)

    def among(self, eids: Iterable[int], bound: Any, scope: Any) -> Iterator[int]:
        return self.memory.among(eids, bound, scope)

    judge = staticmethod(lambda eids, bound: verdict_of(eids))

    def fits(self, element: Element, bound: Any) -> bool:
        return bound.test(self.memory.tree(element))

    def fits_since(self, eid: int, bound: Any, scope: Any, known: float = inf) -> float:
        return fits_since(self.memory, eid, bound, scope, known)

    def context(self, run: int) -> Iterable[int]:
        return self.memory.contexts.of(run)

    def caller(self, run: int) -> Caller | None:
        return self.callers.get(run)

    def name_of(self, run: int) -> str | None:
        return self.definitions[run].full_name if run in self.definitions else None

    def reserved(self, bound: Any, scope: Any) -> bool:
        return self.memory.reserved_for(bound, scope)

    def unique_seen(self, name: str, expression: str, value: str) -> bool:
        return (name, expression, value) in self.memory.unique_values

    def is_up_to_date(
        self, directory: str, creates: tuple[str, ...], needs: tuple[str, ...], times: FileTimes
    ) -> bool:
        return set(creates) <= self.files

    def definition(self, kind: str, name: str) -> Any:
        if kind == "node-type":
            if name not in self.node_types:
                return None
            return NodeType(self.node_types[name], self.node_type_gives.get(name))
        return next(iter(self.library.called(kind, name)), None)

    def ask(self, function: str, arguments: Any) -> Any:
        self.questions.append((function, dict(arguments)))
        if function not in self.answers_to:
            raise ActionError(f"there is no {function}", "unknown-function", final=True)
        answer = self.answers_to[function]
        found = answer(arguments) if callable(answer) else answer
        if isinstance(found, ActionError):
            raise found
        return found

    def pending_call(self, call: str) -> Call | None:
        of, asked = self.calls[call]
        assert of == self._run, f"call {call} is not one of run {self._run}"
        return asked

    def active_watch(self, watch: str) -> Watch | None:
        of, set_ = self.watches[watch]
        assert of == self._run, f"watch {watch} is not one of run {self._run}"
        return set_

    def schema_fault(self, xml: bytes) -> str | None:
        return self.refusals.get(xml)

    def apply(self, run: int, command: Command) -> None:
        effect = EFFECTS[type(command)]
        for fact in effect.facts(run, command) if effect.facts is not None else ():
            self.memory.apply(fact)
        if effect.at_once:
            self._follow(run, command)

    # --- the acts of commands ---------------------------------------------------------------------------

    def _nothing(self, run: int, command: Any) -> None:
        """Nothing more: what is in force is looked through, and the test does the rest."""

    watch = unwatch = cancel_timer = schedule_forget = start_run = make_call = perform = _nothing

    def set_timer(self, run: int, command: SetTimer) -> None:
        assert command.at > self.now or not command.calendar, f"{command} is not later than {self.now}"

    def offer_released(self, run: int, command: commands.Release) -> None:
        for eid in command.eids:
            self._offer(eid)

    def follow_outdated(self, run: int, command: commands.Outdate) -> None:
        for eid in command.eids:
            self._offer(eid, outdated=True)

    def finish_run(self, run: int, command: Finish) -> None:
        assert run not in self.finished, f"run {run} finished before"
        self.finished[run] = command

    def _follow(self, run: int, command: Command) -> None:
        effect = EFFECTS[type(command)]
        if effect.in_force is not None:
            check_named(self.in_force[run], command)
            effect.in_force(self.in_force[run], command)
        self._queue.extend(between_runs.follows(self, run, command))
        if effect.act:
            getattr(self, effect.act)(run, command)

    # --- inside ---------------------------------------------------------------------------------------

    def _until(self, target: float) -> None:
        heard: list[Heard] = []
        while due := [(timer.at, wake) for wake, (_, timer) in self.wakes.items() if timer.at <= target]:
            at, wake = min(due)
            self.now = max(self.now, at)
            self.wakes_up(wake)
            heard += self.heard
        self.now, self.heard = target, heard

    def _tell(self, run: int, event: Event) -> None:
        self._run = run
        engine, state = self.engines[run], self.states[run]
        heard = Heard(run, event, *decided(engine, self.definitions[run], state, event, self))
        self.heard.append(heard)
        self.in_force[run].note(event)
        for command in heard.commands:
            if isinstance(command, commands.Add):
                self._offer(command.element.eid)
            if not EFFECTS[type(command)].at_once:
                self._follow(run, command)
        self._check(run, heard.changes)

    def _offer(self, eid: int, *, outdated: bool = False) -> None:
        """Who waits for such an element is told when the event under way has been dealt with."""
        element = self.memory.element(eid)
        for watch, (run, command) in self.watches.items():
            if outdated and eid in command.elements:
                self._queue.append((run, Matched(0, self.now, watch, eid)))
            if outdated and not command.or_outdated:
                continue
            if element is not None and any(
                bound.test(self.memory.tree(element)) for bound in command.conditions
            ):
                self._queue.append((run, Matched(0 if outdated else self._next(), self.now, watch, eid)))

    def _drain(self) -> None:
        while self._queue:
            run, event = self._queue.popleft()
            if isinstance(event, Matched) and not self._still_true(event):
                continue
            if not (isinstance(event, Returned) and event.call not in self.in_force[run].calls):
                self._tell(run, event if event.id else replace(event, id=self._next()))

    def _still_true(self, event: Matched) -> bool:
        watched = self.watches.get(event.watch)
        if watched is None:
            return False
        if (watched[1].or_outdated or watched[1].elements) and event.eid in self.memory.outdated:
            return True
        return any(self.memory.is_available(event.eid, scope) for scope in watched[1].scopes)

    def _check(self, run: int, changes: list[Any]) -> None:
        engine, state = self.engines[run], self.states[run]
        recorded = msgspec.msgpack.decode(msgspec.msgpack.encode(changes), type=list[engine.changes])
        assert recorded == changes, "changes survive being stored"
        for change in recorded:
            change.apply(self._replayed[run])
        assert self._replayed[run] == state, "what was recorded makes the same state again"
        stored = msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=engine.state_type)
        assert stored == state, "a state survives being stored"
        asked = self.in_force[run]
        waiting, under_way, moments = dict(asked.watches), [*asked.calls], [*asked.wakes]
        if run in self.finished:
            assert not moments, f"run {run} is over and still waits for {moments}"
            assert not waiting, f"run {run} is over and still watches {waiting}"
            reserved = asked.reserved
            assert not reserved, f"run {run} is over and still reserves {[*reserved]}"
        else:
            said = list(engine.waiting_for(self.definitions[run], state, waiting))
            signals = [wait for wait in said if wait.what in ("signal", "person")]
            if engine.kind != "process":  # its tokens may wait for each other
                assert under_way or waiting or moments or signals, f"run {run} waits for nothing"
            assert said, "and it can say for what"

    def _part(self, run: int, name: str) -> dict[str, str]:
        rows = self.engines[run].parts(self.definitions[run], self.states[run])[name]
        return {row["id"]: row["state"] for row in rows}

    def _rendered(self, run: int) -> Element:
        xml = self.engines[run].render(self.definitions[run], self.states[run], self.context(run))
        return Element(run, xml)

    def _next(self) -> int:
        self._event += 1
        return self._event


def _given(call: Call) -> tuple[int, ...]:
    return (*call.elements, *(eid for _, eids in call.inputs for eid in eids))


def _of_runs(said: Dialogue, what: str) -> dict[str, tuple[int, Any]]:
    found = ((run, getattr(asked, what).items()) for run, asked in said.in_force.items())
    return {name: (run, command) for run, named in found for name, command in named}
