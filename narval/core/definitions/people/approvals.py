"""Approvals named by definitions and homes (P72, P73): the work that must agree before an action."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import partial
from typing import Any

from narval.core.definitions.library import Definition, Library, named_by
from narval.core.definitions.people.directory import APPROVED, Approval
from narval.core.definitions.reading.xml import Place, Reading
from narval.core.definitions.suggestions import closest
from narval.core.errors import Fault
from narval.core.kinds import ASKING

ACTION = "action"
"""The kind of calls that can require approval."""

_APPROVE_OF = "approve of "
"""The prefix of a part's words for people, if the part names such work."""


def refer_to_approval(reading: Reading, place: Place, kind: str, work: str, what: str) -> None:
    """Record the work that must approve the calls of a part, given the kind of the part's target."""
    if kind != ACTION:
        message = "approve: people agree to calls of actions alone; remove this, and ask by a part of its own"
        reading.fault_at(place, message)
        return
    check = partial(_check_outcome, path=reading.source.path, place=place)
    reading.refer(place, ASKING, work, f"{_APPROVE_OF}{what}", check)


def _check_outcome(work: Any, *, path: str, place: Place) -> list[Fault]:
    message = _lacks_outcome(work)
    return [] if message is None else [Fault(path, *place, message)]


def doubts_of_rules(rules: Iterable[Approval], library: Library) -> Iterator[tuple[int, str]]:
    """Doubts about the rules of a home, each with the position of the rule: missing actions and work, and
    work without an approving outcome.
    """
    for position, rule in enumerate(rules):
        work, actions = library.get(ASKING, rule.work), library.of(ACTION)
        if rule.action not in actions:
            suggestion = closest(rule.action, actions)
            yield position, f"approval: there is no action {rule.action!r} here{suggestion}"
        if rule.condition is not None:
            yield from ((position, doubt.message) for of in rule.condition.patterns for doubt in of.doubts)
        if work is None:
            suggestion = closest(rule.work, library.of(ASKING))
            message = f"approval: there is no work {rule.work!r}{suggestion}"
            yield position, f"{message}; no call of {rule.action} is made"
        elif (lack := _lacks_outcome(work)) is not None:
            yield position, lack


def agrees_by_itself(work: object) -> bool:
    """True for work that approves the waiting call if no person has answered by its deadline."""
    deadline = getattr(work, "deadline", None)
    return deadline is not None and bool(deadline.outcome == APPROVED)


def unasked(library: Library, new: Collection[Definition]) -> Iterator[str]:
    """The sentences about calls that wait for approval by work that approves by itself at its deadline, if
    the calling definition or the work is new.
    """
    for one in library:
        for reference in one.references:
            if reference.kind == ASKING and reference.what.startswith(_APPROVE_OF):
                work, _ = named_by(reference, library)
                if work is not None and agrees_by_itself(work) and (one in new or work in new):
                    part = reference.what.removeprefix(_APPROVE_OF)
                    why = f"the work {work.full_name} answers yes by itself if no person has answered in time"
                    yield f"{part} of {one.full_name} is done although no person agreed: {why}."


def _lacks_outcome(work: Any) -> str | None:
    """The message for work without an approving outcome; None for any other."""
    if work.outcome(APPROVED) is not None:
        return None
    outcomes = ", ".join(outcome.name for outcome in work.outcomes)
    return (
        f"approve: {work.full_name} has no outcome {APPROVED!r}, by which a call is made; it has {outcomes}"
    )
