"""To whom an item is offered (P17, P25, P33), and who may not answer it: who answered at another step (P29).
Who holds which role the directory tells, at each act (P18).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lxml import etree

from narval.definitions.work.definition import WorkDefinition
from narval.engines.view import View
from narval.engines.work.state import Handed, WorkState


class Asking(NamedTuple):
    """People and roles: with both, one of the people who holds one of the roles; with neither, anybody."""

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
    """The people to whom the item is offered: by the work itself, or by name, and by the escalations taken.

    `level` is how many of these count, if not as many as were taken by now. With `before` it is as if it had
    not been delegated then.
    """
    given, since = (state.named, state.named_level) if before is None else (before.named, before.level)
    people = state.people
    found = [Asking(given)] if given else [Asking(people[0], work.audience.roles)] if people else []
    for at, escalation in enumerate(work.escalations[: state.level if level is None else level]):
        if given and at < since:
            continue
        if escalation.instead:
            found = []
        found.append(Asking(people[at + 1], escalation.audience.roles))
    return found


def asked(work: WorkDefinition, state: WorkState) -> str:
    """A text of who is asked."""
    return " or ".join(dict.fromkeys(map(str, offers(work, state))))


# --- exclusions -----------------------------------------------------------------------------------------


def answerers(view: View, state: WorkState, step: str) -> Iterator[str]:
    """The people who answered the items of a step, in the runs that called this one, directly or not."""
    caller = state.caller
    while caller is not None:
        for eid in view.context(caller.run):
            element = view.element(eid)
            made_by = element.origin.run if element is not None and element.origin is not None else 0
            asked = view.caller(made_by) if made_by else None
            if element is not None and asked is not None and asked.step == step:
                attributes = element.attributes
                if attributes.get("work") == str(made_by):
                    yield from _people_in(element.tree())
        caller = view.caller(caller.run)


def _people_in(answer: etree._Element) -> Iterator[str]:
    yield from str(answer.get("by") or "").split()
    yield from (str(vote.get("by")) for vote in answer.iterchildren("vote"))
