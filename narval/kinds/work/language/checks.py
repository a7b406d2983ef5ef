"""Warnings about work: what is allowed but may not be intended (P14)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import date

from narval.core.definitions.library import Library
from narval.core.definitions.people.directory import BY_A_RULE, CHAT, GRANTING, MAIL, Directory
from narval.core.definitions.suggestions import closest
from narval.core.errors import Fault
from narval.kinds.work.language.definition import Audience, WorkDefinition

_ANY_DAY = date(2000, 1, 1)
"""A day on which to look up roles, so that no absence counts."""


def warnings(works: Iterable[WorkDefinition], _: Library) -> list[Fault]:
    """Warnings about work, from its definitions alone."""
    return [
        Fault(work.path, line, 1, message, warning=True)
        for work in works
        for check in (_too_late, _only_for_yes)
        for line, message in check(work)
    ]


def _too_late(work: WorkDefinition) -> Iterator[tuple[int, str]]:
    """Escalations after the deadline."""
    if work.deadline is None or work.deadline.after is None:
        return
    for escalation in work.escalations:
        if work.deadline.after.passes_by(escalation.after):
            after = f"{escalation.after.text}, and the deadline {work.deadline.after.text}"
            yield escalation.line, f"{work.full_name}: this escalation comes after {after}: it is never taken"


def _only_for_yes(work: WorkDefinition) -> Iterator[tuple[int, str]]:
    """Fields that only the outcome yes requires, although all may have been intended to."""
    for field in work.fields.values() if len(work.outcomes) > 1 else ():
        if field.required == {"yes"}:
            text = f"field {field.name!r} is required for the outcome yes alone"
            yield work.line, f'{work.full_name}: {text}; for all outcomes write required="all"'


_NO_SERVER: Mapping[str, str] = {
    MAIL: "mail is a way, and there is no server to send by; add [mail] to etc/narval.toml",
    CHAT: "chat is a way, and there is no chat; add [chats.NAME] to etc/narval.toml",
}
"""The warning about a way in which nobody can be written to."""


def doubts(works: Iterable[WorkDefinition], people: Directory, by: Collection[str]) -> list[Fault]:
    """Warnings about work for the people of a home, which can write to them in the ways `by`.

    The shipped work for rules and grants is for any home: it gets no warning about ways.
    """
    works = list(works)
    own = [work for work in works if work.full_name not in (BY_A_RULE, GRANTING)]
    return [
        *(
            Fault(work.path, work.line, 1, f"{work.full_name}: {unsent}", warning=True)
            for way, unsent in _NO_SERVER.items()
            if way not in by
            for work in own
            if way in work.ways_of(people)
        ),
        *_doubts_of_people(works, people),
    ]


def _doubts_of_people(works: Iterable[WorkDefinition], people: Directory) -> list[Fault]:
    return [
        Fault(work.path, line, 1, f"{work.full_name}: {message}", warning=True)
        for work in works
        for check in (_unheld_roles, _too_few)
        for line, message in check(work, people)
    ]


def _audiences(work: WorkDefinition) -> Iterator[tuple[int, Audience]]:
    yield work.line, work.audience
    for escalation in work.escalations:
        yield escalation.line, escalation.audience


def _unheld_roles(work: WorkDefinition, people: Directory) -> Iterator[tuple[int, str]]:
    """Roles that nobody holds."""
    held_roles = {role for person in people.people for role in people.roles_of(person.name)}
    for line, audience in _audiences(work):
        for role in audience.roles:
            if not people.holders(role):
                yield line, f"no person has the role {role!r}{closest(role, held_roles)}"


def _too_few(work: WorkDefinition, people: Directory) -> Iterator[tuple[int, str]]:
    """The outcomes that need more people than remain without those who may not answer."""
    may = set[str]()
    for _, audience in _audiences(work):
        if audience.people is None or audience.people.is_plain:
            named = () if audience.people is None else audience.people.listed({}, "")
            may.update(people.eligible(named, audience.roles, (), _ANY_DAY))
        else:
            return  # that is known only when the work is offered
    left = len(may) - (len(work.rules.excluded) if may else 0)
    for outcome in work.outcomes:
        if outcome.needs > max(left, 0) and (outcome.needs > 1 or may):
            without = f" when {' and '.join(work.rules.excluded)} may not" if work.rules.excluded else ""
            text = f"{max(left, 0)} of {len(may)} people may answer{without}"
            yield work.line, f"outcome {outcome.name!r} needs {outcome.needs}, and {text}"
