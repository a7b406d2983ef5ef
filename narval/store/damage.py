"""Damage: rows of the store that cannot be read and belong to no single run (N35).

An unreadable run fails (`Turn.fail_unreadable`). With an unreadable origin, an element stays without one;
with an unreadable offer, every element is offered again; an unreadable job is not done.
`daemon/agents/damage_report.py` reports each once, by an `error` element of type `unreadable`.
"""

from __future__ import annotations

from typing import NamedTuple


class LostOrigin(NamedTuple):
    """The origin of an element; the element stays."""

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
