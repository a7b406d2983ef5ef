"""One advance of one run: what all kinds decide in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import ClassVar, Generic, TypeVar

import msgspec

from narval.core.definitions.library import RunDefinition
from narval.core.definitions.prototype import TransitionCondition
from narval.core.elements.changes import MarkScope
from narval.core.elements.element import Element, Origin
from narval.core.elements.own_elements import make_error, signal_element
from narval.core.engines import commands
from narval.core.engines.assignment import Slot, assign
from narval.core.engines.candidates import Bindings, CandidateSearch
from narval.core.engines.commands import Command, Outer
from narval.core.engines.events import Event, Failure, Plain, Signalled
from narval.core.engines.outputs import Accepted
from narval.core.engines.run_state import RunChange, RunState
from narval.core.engines.view import View
from narval.core.patterns.pattern import Bound

Inputs = tuple[tuple[str, tuple[int, ...]], ...]
"""The elements of each input that has any, by input id."""

Wanted = list[tuple[Bound, MarkScope | None]]
"""Conditions with their variables resolved, and the scope that marks what they use."""

Followed = TypeVar("Followed", bound=RunDefinition)
State = TypeVar("State", bound=RunState)
Change = TypeVar("Change", bound=RunChange)


class Decision(msgspec.Struct, Generic[Followed, State, Change], eq=False):
    """One advance of one run: its `changes` and `commands` in order, and the verbs that all kinds share."""

    RUN: ClassVar[str] = "run"
    """The attribute of an error element that names the run."""

    definition: Followed
    state: State
    event: Event
    view: View
    ordinal: int = 0
    changes: list[Change] = []
    commands: list[Command] = []

    def change(self, change: Change) -> None:
        """Decide a change, and apply it at once."""
        change.apply(self.state)
        self.changes.append(change)

    def command(self, command: Command) -> None:
        """Give a command; an inner one takes effect at once."""
        self.view.apply(self.state.eid, command)
        self.commands.append(command)

    def ask(self, command: Outer) -> None:
        """Give an outer command, to be performed once the turn is recorded."""
        self.commands.append(command)

    def identifier(self) -> str:
        """Make a new identifier, unique in the home, derived from the event's id and an ordinal."""
        self.ordinal += 1
        return f"{self.event.id}.{self.ordinal}"

    # --- memory ---------------------------------------------------------------------------------------

    def add(
        self,
        element: Element,
        part: str = "",
        call: str = "",
        inputs: tuple[int, ...] = (),
        *,
        held: bool = True,
        replaces: tuple[int, ...] = (),
    ) -> int:
        """Add an element of this run to memory; return its eid. Elements it `replaces` are outdated by it."""
        eid = self.view.next_eid
        origin = Origin(self.state.eid, part, call, inputs, replaces=replaces)
        element.enter(eid, self.event.at, origin)
        self.command(commands.Add(element, held))
        return eid

    def add_told(self, xml: bytes, event: Signalled) -> int:
        """Add an element of a signal to memory, with the sender as its origin; return its eid."""
        eid = self.view.next_eid
        origin = Origin(
            self.state.eid,
            call=event.signal,
            by=event.by,
            actor=event.actor,
            way=event.way,
            session=event.session,
        )
        element = Element(0, xml)
        element.enter(eid, event.at, origin)
        self.command(commands.Add(element))
        return eid

    def add_error_element(
        self,
        kind: str,
        message: str,
        part: str = "",
        detail: str = "",
        call: str = "",
        inputs: tuple[int, ...] = (),
        where: dict[str, str | int | None] | None = None,
        *,
        held: bool = True,
    ) -> int:
        """Add an error element that names run, definition and part (N17, A5), and `where`, which may name the
        part in other words; return its eid.
        """
        places: dict[str, str | int | None] = {self.RUN: self.state.eid}
        places[self.definition.kind] = self.definition.full_name
        xml = make_error(kind, message, detail, **{**places, "step": part, **(where or {})})
        return self.add(Element(0, xml), part, call, inputs, held=held)

    def keep(
        self,
        output: Accepted,
        part: str,
        call: str,
        inputs: tuple[int, ...] = (),
        *,
        held: bool = True,
        reserved: tuple[int, ...] = (),
    ) -> int | None:
        """Add an output; return its eid, or None if it is dropped: if `unique` has seen its value before, if
        it equals what it `replaces`, or if its name differs from what it replaces and there is no such
        element.

        It also replaces what its call has `reserved`.
        """
        element, key, earlier = output
        replaced: tuple[int, ...] = ()
        if earlier is not None:
            replaced = tuple(self.view.matching(earlier, None))
            predecessors = [old for eid in replaced if (old := self.view.element(eid)) is not None]
            if any(old.xml == element.xml for old in predecessors) or not (
                predecessors or earlier.admits(element.name)
            ):
                return None
        if key is not None:
            if self.view.unique_seen(*key):
                return None
            self.command(commands.RecordUnique(*key))
        eid = self.add(element, part, call, (*inputs, *replaced), held=held, replaces=(*reserved, *replaced))
        if replaced:
            self.command(commands.Outdate(replaced))
        return eid

    def use_input(self, scope: MarkScope | None, outdates: bool, eids: tuple[int, ...]) -> None:
        """Mark what an input uses, reserve what it outdates, and add these elements to the context."""
        if scope is not None:
            self.command(commands.MarkUsed(scope, eids))
        if outdates:
            self.command(commands.Reserve(eids))
        if scope is not None or outdates:
            self.command(commands.AddToContext(eids))

    def free(self, reserved: tuple[int, ...], *, well: bool) -> None:
        """Outdate what a call had reserved if it succeeded; else release it."""
        if reserved:
            self.command(commands.Outdate(reserved) if well else commands.Release(reserved))

    def given_to(self, call: str) -> tuple[int, ...]:
        """The input elements of a call of this run that is under way; none for an empty id."""
        asked = self.view.pending_call(call) if call else None
        return () if asked is None else tuple([eid for _, eids in asked.inputs for eid in eids])

    def add_to_context(self, eids: tuple[int, ...]) -> None:
        """Add elements, if any, to the run's context."""
        if eids:
            self.command(commands.AddToContext(eids))

    # --- conditions -----------------------------------------------------------------------------------

    def slots(
        self, search: CandidateSearch, conditions: Wanted, again: Sequence[tuple[int, ...]] = ()
    ) -> list[Slot]:
        """The conditions as slots, each with its matching elements, nearest first.

        `again` are elements that a condition may take although they are marked.
        """
        return [
            Slot(str(at), search.ranks(bound, scope, again[at] if again else ()))
            for at, (bound, scope) in enumerate(conditions)
        ]

    def one_for_each_slot(self, slots: list[Slot]) -> tuple[int, ...] | None:
        """One element for each slot, all different, nearest first (N23); None if a slot has none."""
        assigned = assign(slots)
        return None if assigned.missing else tuple([assigned.given[slot.id][0] for slot in slots])

    def use_matches(self, conditions: Wanted, eids: tuple[int, ...], counts: tuple[int, ...] = ()) -> None:
        """Add the elements of conditions to the context, and mark what they use.

        `counts` is the number of elements of each condition, if not one.
        """
        for scope, elements in used(conditions, eids, counts):
            self.command(commands.MarkUsed(scope, elements))
        self.add_to_context(tuple(dict.fromkeys(eids)))

    def watch(self, watch: str, conditions: Wanted, *, or_outdated: bool = False) -> None:
        """Set a watch for elements that satisfy conditions (N24), and optionally for their replacement."""
        bounds, scopes = tuple(bound for bound, _ in conditions), tuple(scope for _, scope in conditions)
        self.command(commands.Watch(watch, bounds, scopes, or_outdated))

    # --- the end --------------------------------------------------------------------------------------

    def report_end(self, result: tuple[int, ...], after: int = 0) -> None:
        """Finish an ended run: its caller gets `result`; with a `decay`, its forgetting is scheduled."""
        state = self.state
        self.command(commands.Finish(state.status, state.PHASES[state.status], result, state.error, after))
        if self.definition.decay is not None:
            self.command(commands.ScheduleForget(self.event.at + self.definition.decay))

    # --- answers --------------------------------------------------------------------------------------

    def answer(self, event: Signalled, **value: Plain) -> None:
        """Acknowledge a signal, with a value."""
        self.ask(commands.Answer(event.signal, value))

    def refuse(self, event: Signalled, kind: str, message: str) -> None:
        """Answer a signal with a problem."""
        self.ask(commands.Answer(event.signal, problem=Failure(kind, message)))


def used(
    conditions: Wanted, eids: tuple[int, ...], counts: tuple[int, ...] = ()
) -> Iterator[tuple[MarkScope, tuple[int, ...]]]:
    """The elements that conditions use up, of those they were given, each with the scope that marks them.

    `counts` is the number of `eids` of each condition, if not one.
    """
    at = 0
    for (_, scope), count in zip(conditions, counts or repeat(1, len(eids)), strict=True):
        if scope is not None and count:
            yield scope, eids[at : at + count]
        at += count


def element_of(event: Signalled, run: int) -> bytes:
    """The element of a signal to a run. Raises ElementError if it is too large or too deep."""
    return signal_element(run, event.name, event.arguments, [output.xml for output in event.elements])


def resolve(
    conditions: Iterable[TransitionCondition],
    definition: str,
    part: str,
    bindings: Callable[[frozenset[str]], Bindings],
) -> Wanted:
    """The conditions of a part, with variables bound by `bindings`."""
    return [
        (
            condition.condition.bind(bindings(condition.condition.variables)),
            (definition, part, f"#{at}") if condition.use else None,
        )
        for at, condition in enumerate(conditions, 1)
    ]
