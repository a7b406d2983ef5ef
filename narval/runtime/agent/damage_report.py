"""What the store could not give back, told once (N35)."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from narval.memory.elements.changes import Keyed
from narval.memory.elements.error_element import make_error
from narval.runtime.agent.turn import Turn
from narval.runtime.store.damage import LostEvent, LostJob, LostOrigin

log = logging.getLogger("narval.recovery")


TOLD = ("error", "an origin that cannot be read")
"""The key under which it is noted whose origin was told of: the element stays, and so does the damage."""


def report_damage(turn: Turn) -> None:
    """Tell what was lost, and be done with it."""
    losses, turn.agent.damage = turn.agent.damage, []
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
    if not turn.unique_seen(*key):
        turn.change(Keyed(*key))
        message = f"where element {loss.eid} comes from is not known any more: {loss.why}"
        _tell(turn, message, element=str(loss.eid))


def _event(turn: Turn, loss: LostEvent) -> None:
    turn.batch.dequeued.append(loss.row)
    if loss.run == 0:
        _tell(turn, f"an offer of an element is lost, and all elements were offered again: {loss.why}")


def _deed(turn: Turn, loss: LostJob) -> None:
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
