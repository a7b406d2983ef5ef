"""Items as a person may see them: to whom they are offered, what may be done, in which order (P35, P83)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import date
from math import inf

import msgspec

from narval.core.agreeing import Act, Who, refusal
from narval.core.definitions.people.directory import Directory, Right
from narval.core.engines.events import Signalled
from narval.core.engines.view import View
from narval.kinds.work.engine.decision import WorkDecision
from narval.kinds.work.engine.explain import is_overdue
from narval.kinds.work.engine.state import WorkState, agreement, offers, task_ways
from narval.kinds.work.engine.table import ACTS_ON_ITEMS, No
from narval.kinds.work.language.definition import WorkDefinition

Key = tuple[str, str]
"""A person or a role, by name, or anybody."""

Order = tuple[bool, float, float, int]

ANYBODY: Key = ("anybody", "")


def _look(definition: WorkDefinition, state: WorkState, at: float, view: View) -> WorkDecision:
    """The decision object of an item at a moment, for reading only."""
    return WorkDecision(definition, state, Signalled(0, at, "", "look"), view)


def acts_open_to(
    definition: WorkDefinition, state: WorkState, person: str, at: float, view: View, who: Who
) -> tuple[str, ...]:
    """The acts that the rules let a person, who comes as `who`, try now. Arguments are checked only when an
    act is tried.
    """
    if state.over or state.status == "ready" or view.people.person(person) is None:
        return ()
    if refusal(agreement(definition, state), who):
        return ()
    look = _look(definition, state, at, view)
    is_admin, may_answer = look.people.is_admin(person), look.right(person) is not None
    by_name = {
        "refuse": look.right_of(person, state.refused) is not None,
        "take-back": person in state.votes,
        "delegate": may_answer and definition.rules.delegate != "no",
        "move": may_answer and bool((ways := task_ways(state, view.element)) and ways.moves),
        "release": True,
        "reassign": is_admin,
    }
    acts = []
    for name, row in ACTS_ON_ITEMS.items():
        cell = row.cell(state.claimant, person, is_voted=definition.is_voted)
        by_admin = is_admin and row.who == "claimant or admin" and state.claim is not None
        if by_admin or (not isinstance(cell, No) and by_name.get(name, may_answer)):
            acts.append(name)
    return tuple(acts)


def right_to_answer(
    definition: WorkDefinition, state: WorkState, person: str, at: float, view: View
) -> Right | None:
    """The right by which a person may answer now; None if there is none."""
    return None if state.over or state.status == "ready" else _look(definition, state, at, view).right(person)


def could_have(
    definition: WorkDefinition, state: WorkState, person: str, at: float, view: View
) -> tuple[str, ...]:
    """The people that a person may hand an open item to.

    For an item that was handed on already, everybody who is not excluded and may answer such an item: the
    rules check a person when the item is handed to them.
    """
    if state.over or state.status == "ready" or definition.rules.delegate == "no":
        return ()
    look = _look(definition, state, at, view)
    out = {person, *look.excluded, *state.refused, *(handed.by for handed in state.handed)}
    is_open = definition.rules.delegate == "anyone" or state.handed
    names = [one.name for one in view.people.people] if is_open else [*look.eligible()]
    return tuple(name for name in names if name not in out and not look.refusal_of(name))


def may_see(definition: WorkDefinition, state: WorkState, person: str, at: float, view: View) -> bool:
    """True for a person who is asked (even if another has the item), has acted on it, or is an
    administrator.
    """
    if view.people.person(person) is None or state.status == "ready":
        return False
    return (
        person in people_in(state)
        or view.people.is_admin(person)
        or _look(definition, state, at, view).right_of(person, ()) is not None
    )


def is_withheld(definition: WorkDefinition, state: WorkState, who: Who) -> bool:
    """True for an item that shows data that would leave the home, such as a secret, to a person who may
    neither answer it nor read the home.
    """
    act = agreement(definition, state)
    needed: tuple[Act, ...] = (act, "read")
    return act == "let-out" and all(refusal(one, who) for one in needed)


def people_in(state: WorkState) -> set[str]:
    """The people whom an item concerns: those who asked, have it, had it last, answered, refused, were handed
    it, or ended it.
    """
    people = {*state.votes, *state.refused, *state.drafts, *state.requesters, *state.ended_by.split()}
    people.update(name for handed in state.handed for name in (handed.by, handed.to))
    if state.claim is not None:
        people.add(state.claim.by)
    if state.moved is not None:
        people.add(state.moved.of)
    return people - {""}


def waits_for_nobody(definition: WorkDefinition, state: WorkState, at: float, view: View) -> bool:
    """True for an open item that nobody may answer now (P24).

    In a home without operators, its owner answers at the terminal what others may not.
    """
    if state.claim is not None:
        return False
    look = _look(definition, state, at, view)
    has_operators = any(view.people.is_operator(person.name) for person in view.people.people)
    return not (look.to_be_written_to() if has_operators else look.eligible())


def shows_votes(definition: WorkDefinition, state: WorkState, person: str) -> bool:
    """True if a person may see what others have answered."""
    return state.over or definition.rules.open_votes or person in state.votes


class _ItemEntry(msgspec.Struct, frozen=True, gc=False):
    keys: frozenset[Key]
    order: Order


class Worklist:
    """The open items, indexed by the people and roles that they concern, and updated with each change."""

    def __init__(self) -> None:
        self._entries: dict[int, _ItemEntry] = {}
        self._by_key: dict[Key, dict[int, None]] = {}
        self.version = 0
        """A number that changes whenever an item is put or dropped."""

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, eid: int, definition: WorkDefinition, state: WorkState) -> None:
        """Add or update an item."""
        if state.over or state.status == "ready":
            self.drop(eid)
            return
        self.version += 1
        entry = _ItemEntry(frozenset(_keys(definition, state)), _order(eid, state))
        before = self._entries.get(eid)
        if before is None or before.keys != entry.keys:
            self.drop(eid)
            for key in entry.keys:
                self._by_key.setdefault(key, {})[eid] = None
        self._entries[eid] = entry

    def drop(self, eid: int) -> None:
        """Drop an item; an unknown one is ignored."""
        entry = self._entries.pop(eid, None)
        self.version += 1
        for key in entry.keys if entry is not None else ():
            row = self._by_key[key]
            del row[eid]
            if not row:
                del self._by_key[key]

    def all(self) -> list[int]:
        """All open items, in order."""
        return self._in_order(self._entries)

    def of(self, person: str, directory: Directory, day: date) -> list[int]:
        """The items that may concern a person, in order: offered to them or to a role, or already theirs."""
        names = (person, *directory.represented_by(person, day))
        keys = {ANYBODY, *(("person", name) for name in names)}
        if person == directory.owner:
            keys.update(key for key in self._by_key if key[0] == "role")
        else:
            keys.update(("role", role) for name in names for role in directory.roles_of(name))
        return self._in_order({eid for key in keys for eid in self._by_key.get(key, ())})

    def _in_order(self, eids: Collection[int]) -> list[int]:
        return sorted(eids, key=lambda eid: self._entries[eid].order)


def _keys(definition: WorkDefinition, state: WorkState) -> Iterator[Key]:
    if state.claim is not None:
        yield "person", state.claim.by
    yield from (("person", name) for name in state.votes)
    for asking in offers(definition, state):
        if asking.people:
            yield from (("person", name) for name in asking.people)
        elif asking.roles:
            yield from (("role", role) for role in asking.roles)
        else:
            yield ANYBODY


def _order(eid: int, state: WorkState) -> Order:
    """The sort key: overdue first, then by priority, by deadline, oldest first."""
    return not is_overdue(state), -state.priority, state.ends_at if state.ends_at is not None else inf, eid
