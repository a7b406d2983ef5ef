"""What the store holds, cannot be read, and belongs to no run alone: it is told, the rest goes on (N35).

A run that cannot be read fails (`Turn.lose`). An origin, an offer or a deed that cannot be read costs itself:
the element stays, without an origin; what an offer may have been of is offered again, which wakes nobody in
vain; a deed is not done. Each is told once, by an `error` element of type `unreadable`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    pass


class LostOrigin(NamedTuple):
    """Nobody knows where an element comes from."""

    why: str
    eid: int


class LostEvent(NamedTuple):
    """An event that still waited is not known: one for a run, or an offer to all (run 0)."""

    why: str
    row: int
    run: int


class LostJob(NamedTuple):
    """What was to be done at a moment is not known."""

    why: str
    identifier: str
    at: float


Damage = LostOrigin | LostEvent | LostJob
