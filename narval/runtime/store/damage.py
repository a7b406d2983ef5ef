"""What the store holds, cannot be read, and belongs to no run alone: it is told, the rest goes on (N35).

A run that cannot be read fails (`Turn.lose`). An origin, an offer or a deed that cannot be read costs itself:
the element stays, without an origin; what an offer may have been of is offered again, which wakes nobody in
vain; a deed is not done. Each is told once, by an `error` element of type `unreadable`.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from narval.memory.change import Keyed
from narval.memory.trouble import make_error

if TYPE_CHECKING:
    from narval.runtime.turn import Turn

log = logging.getLogger("narval.recovery")

TOLD = ("error", "an origin that cannot be read")
"""The key under which it is noted whose origin was told of: the element stays, and so does the damage."""


class LostOrigin(NamedTuple):
    """Nobody knows where an element comes from."""

    why: str
    eid: int


class LostEvent(NamedTuple):
    """An event that still waited is not known: one for a run, or an offer to all (run 0)."""

    why: str
    row: int
    run: int


class LostDeed(NamedTuple):
    """What was to be done at a moment is not known."""

    why: str
    identifier: str
    at: float


Loss = LostOrigin | LostEvent | LostDeed


def own_up(turn: Turn) -> None:
    """Tell what was lost, and be done with it."""
    losses, turn.agent.losses = turn.agent.losses, []
    if any(isinstance(loss, LostEvent) and loss.run == 0 for loss in losses):
        _offer_again(turn)
    for loss in losses:
        if isinstance(loss, LostOrigin):
            _origin(turn, loss)
        elif isinstance(loss, LostEvent):
            _event(turn, loss)
        else:
            _deed(turn, loss)


def _origin(turn: Turn, loss: LostOrigin) -> None:
    key = (*TOLD, str(loss.eid))
    if not turn.keyed(*key):
        turn.change(Keyed(*key))
        message = f"where element {loss.eid} comes from is not known any more: {loss.why}"
        _tell(turn, message, element=str(loss.eid))


def _event(turn: Turn, loss: LostEvent) -> None:
    turn.batch.dequeued.append(loss.row)
    if loss.run == 0:
        _tell(turn, f"an offer of an element is lost, and all elements were offered again: {loss.why}")


def _deed(turn: Turn, loss: LostDeed) -> None:
    turn.batch.moments_done.append(loss.identifier)
    due = datetime.fromtimestamp(loss.at, UTC).isoformat(timespec="seconds")
    what = f"what was to be done at {due} is not done: to forget a run that is over, or to start one again"
    _tell(turn, f"{what}: {loss.why}", due=due)


def _tell(turn: Turn, message: str, **where: str) -> None:
    log.error("%s", message)
    turn.add(make_error("unreadable", message, **where))


def _offer_again(turn: Turn) -> None:
    """Whoever waits is told of whatever satisfies him; who was told before waits no more."""
    for eid in list(turn.memory):
        element = turn.memory.element(eid)
        if element is not None:
            turn.offer(element)
