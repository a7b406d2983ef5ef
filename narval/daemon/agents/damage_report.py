"""Damage of the store, reported once by error elements (N35)."""

from __future__ import annotations

import logging

from narval.agent.turn import Turn
from narval.core.elements.changes import Keyed
from narval.core.elements.error_element import make_error
from narval.store.rows import LOST_PAGES, LostEvent, LostJob, LostOrigin, LostTurns
from narval.system.clock import utc

log = logging.getLogger("narval.recovery")

TOLD = ("error", "an origin that cannot be read")
"""The key that records which elements were reported: the element stays, and so does the damage."""


def report_damage(turn: Turn) -> None:
    """Report all damage by error elements, and clear the list of damage."""
    damage = list(turn.agent.damage)
    turn.agent.damage.clear()
    if any(isinstance(lost, LostEvent) and lost.run == 0 for lost in damage):
        _offer_again(turn)
    for lost in damage:
        if isinstance(lost, LostOrigin):
            _report_origin(turn, lost)
        elif isinstance(lost, LostEvent):
            _report_event(turn, lost)
        elif isinstance(lost, LostTurns):
            _report_turns(turn, lost)
        else:
            _report_job(turn, lost)


def _report_origin(turn: Turn, lost: LostOrigin) -> None:
    key = (*TOLD, str(lost.eid))
    if key not in turn.agent.memory.unique_values:
        turn.transaction.change(Keyed(*key))
        message = f"where element {lost.eid} comes from is not known any more: {lost.why}"
        _report(turn, message, element=str(lost.eid))


def _report_event(turn: Turn, lost: LostEvent) -> None:
    turn.transaction.batch.dequeued.append(lost.row)
    if lost.run == 0:
        _report(turn, f"an offer of an element is lost, and all elements were offered again: {lost.why}")


def _report_job(turn: Turn, lost: LostJob) -> None:
    turn.transaction.batch.moments_done.append(lost.identifier)
    due = utc(lost.at).isoformat(timespec="seconds")
    what = f"a job due at {due} is not done: it was to forget an ended run, or to start one again"
    _report(turn, f"{what}: {lost.why}", due=due)


def _report_turns(turn: Turn, lost: LostTurns) -> None:
    turn.transaction.batch.meta.append((LOST_PAGES, "0"))
    message = (
        f"the log of the store (store.db-wal) was cut short: its last {lost.pages} pages, of turns that were "
        "confirmed, are gone, and what was done outside for them may be done again; "
        "put back a backup where that matters (docs/reference/store.md)"
    )
    _report(turn, message)


def _report(turn: Turn, message: str, **where: str) -> None:
    log.error("%s", message)
    turn.add(make_error("unreadable", message, **where))


def _offer_again(turn: Turn) -> None:
    """Offer every element again. Watches satisfied before are no longer set, so none reports twice."""
    memory = turn.agent.memory
    for eid in list(memory):
        element = memory.element(eid)
        if element is not None:
            turn.transaction.offer(element)
