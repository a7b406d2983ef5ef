"""Damage: rows of the store that cannot be read and belong to no single run (N35).

A run that cannot be read fails (`Turn.fail_unreadable`). If an origin is unreadable, its element stays
without one; if an offer is, every element is offered again; if a job is, it is not done.
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
    """The latest turns: pages of the log that were committed and are gone."""

    pages: int


LOST_PAGES = "lost_pages"
"""The fact that records this until it is reported."""

Damage = LostOrigin | LostEvent | LostJob | LostTurns
