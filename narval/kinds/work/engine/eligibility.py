"""The people that an item is offered to. At each act, the directory says who holds which role (P18)."""

from __future__ import annotations

from typing import NamedTuple

from narval.core.agreeing import Act
from narval.core.definitions.people.directory import BY_A_RULE, FOR_A_CLIENT, GRANTING
from narval.core.engines.engine import Lookup
from narval.kinds.work.engine.state import Handed, WorkState
from narval.kinds.work.language.definition import Audience, WorkDefinition


class Asking(NamedTuple):
    """People and roles: with both, those people who also hold one of the roles; with neither, anybody."""

    people: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()

    def __str__(self) -> str:
        named, of = " or ".join(self.people), " or ".join(self.roles)
        if named and of:
            return f"{named}, with the role {of}"
        return named or (f"a person with the role {of}" if of else "anybody")


def offers(
    work: WorkDefinition, state: WorkState, level: int | None = None, before: Handed | None = None
) -> list[Asking]:
    """The people that the item is offered to: by the work itself or by name, and by the escalations taken.

    `level` is the number of escalations that count; by default those taken by now. With `before`, the people
    before that delegation.
    """
    named, since = (state.named, state.named_level) if before is None else (before.named, before.level)
    people = state.people
    askings = [Asking(named)] if named else [Asking(people[0], work.audience.roles)] if people else []
    for at, escalation in enumerate(work.escalations[: state.level if level is None else level]):
        if named and at < since:
            continue
        if escalation.instead:
            askings = []
        askings.append(Asking(people[at + 1], escalation.audience.roles))
    return askings


def agreement(work: WorkDefinition, state: WorkState) -> Act:
    """The act that answering this item counts as; the table of agreeing says who may do it.

    A home that gives `trust.ask` an audience of its own decides itself who agrees.
    """
    name, caller = work.full_name, state.caller
    if name == GRANTING and caller is None:
        return "grant"
    if name == BY_A_RULE and work.audience == Audience() and not work.escalations:
        return "let-out"
    is_held = caller is not None and caller.held is not None
    return "agree" if is_held or name in (BY_A_RULE, FOR_A_CLIENT, GRANTING) else "people"


class TaskWays(NamedTuple):
    """The state of the asking task, the states that a person may move it to, and those that it may end in
    now.
    """

    at: str
    moves: tuple[str, ...]
    ends: tuple[str, ...]


def task_ways(state: WorkState, element: Lookup) -> TaskWays | None:
    """The ways of the asking task, by its element in memory; None if no task asks."""
    task = element(state.caller.run) if state.caller is not None else None
    if task is None or "ends" not in (says := task.attributes):
        return None
    return TaskWays(says.get("at", ""), tuple(says["ways"].split()), tuple(says["ends"].split()))


def asked(work: WorkDefinition, state: WorkState) -> str:
    """The text that says who is asked."""
    return " or ".join(dict.fromkeys(map(str, offers(work, state))))
