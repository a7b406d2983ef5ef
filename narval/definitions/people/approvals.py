"""Approvals as definitions and homes name them (P72, P73): the work that is to agree before an action."""

from __future__ import annotations

from functools import partial
from typing import Any

from narval.definitions.kinds import ASKING
from narval.definitions.people.directory import APPROVED
from narval.definitions.reading.xml import Place, Reading
from narval.errors import Fault

ACTION = "action"
"""The kind of the calls before which somebody can be asked."""


def refer_to_approval(reading: Reading, place: Place, kind: str, work: str, what: str) -> None:
    """Note the work that is to agree to the calls of a part, which calls a definition of a kind."""
    if kind != ACTION:
        message = "approve: people agree to calls of actions alone; remove this, and ask by a part of its own"
        reading.fault_at(place, message)
        return
    check = partial(_check_outcome, path=reading.source.path, place=place)
    reading.refer(place, ASKING, work, f"approve of {what}", check)


def _check_outcome(work: Any, *, path: str, place: Place) -> list[Fault]:
    if work.outcome(APPROVED) is not None:
        return []
    return [Fault(path, *place, lacks_outcome(work))]


def lacks_outcome(work: Any) -> str:
    """The words for work that nobody can agree by."""
    known = ", ".join(outcome.name for outcome in work.outcomes)
    return f"approve: {work.full_name} has no outcome {APPROVED!r}, by which a call is made; it has {known}"
