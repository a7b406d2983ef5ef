"""Damage: what the store holds, cannot be read, and belongs to no run alone (N35).

A run that cannot be read fails (`Turn.fail_unreadable`). An origin, an offer or a job that cannot be read
costs itself: the element stays, without an origin; every element is offered again; the job is not done.
`daemon/agents/damage_report.py` reports each once, by an `error` element of type `unreadable`.
"""

from __future__ import annotations

from typing import NamedTuple


class LostOrigin(NamedTuple):
    """The origin of an element, which stays."""

    why: str
    eid: int


class LostEvent(NamedTuple):
    """An event that still waited: one for a run, or an offer (run 0)."""

    why: str
    row: int
    run: int


class LostJob(NamedTuple):
    """A job, which is not done."""

    why: str
    identifier: str
    at: float


class LostTurns(NamedTuple):
    """The latest turns: so many pages of the log are gone, that were committed."""

    pages: int


LOST_PAGES = "lost_pages"
"""The fact that says so of an agent until it is reported."""

Damage = LostOrigin | LostEvent | LostJob | LostTurns
