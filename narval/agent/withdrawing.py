"""Withdrawing an element that should never have counted; what was made only from it becomes doubtful.

Everything happens in one turn: the element, the elements now doubtful, the note that says why, the effects on
runs that relied on it, and the message to the agents it was sent to.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from narval.agent.effects import notify_of_gone
from narval.agent.relying import Reliance, relying_on, tell_relying
from narval.agent.runs import withdraw_questions
from narval.agent.transaction import Transaction
from narval.agent.turn import Turn
from narval.core.elements import changes
from narval.core.elements.element import Origin
from narval.core.elements.names import is_sending
from narval.core.elements.own_elements import CONFIRMED, WITHDRAWN, make_note
from narval.core.memory.lineage import cleared_after, doubtful_after
from narval.core.memory.memory import Memory


class Consequences(NamedTuple):
    """The consequences of withdrawing: the elements withdrawn now, those of them that `cascade` adds, and the
    doubtful ones.
    """

    withdrawn: tuple[int, ...]
    cascaded: tuple[int, ...]
    doubtful: tuple[int, ...]


def withdraw_and_tell(
    turn: Turn, eids: tuple[int, ...], why: str, origin: Origin | None = None, *, cascade: bool = False
) -> tuple[Consequences, int | None, list[Reliance]]:
    """Withdraw elements, and tell or undo the runs that relied on what is withdrawn now; return these runs
    too.
    """
    agent = turn.agent
    what = consequences(agent.memory, eids, cascade=cascade)
    reliances = relying_on(agent, what.withdrawn, turn.transaction.batch.journal)
    what, note = withdraw(turn.transaction, eids, why, origin, cascade=cascade)
    tell_relying(turn, reliances, why)
    return what, note, reliances


def consequences(memory: Memory, eids: Iterable[int], *, cascade: bool) -> Consequences:
    """The consequences that withdrawing some elements would have now."""
    eids = tuple(dict.fromkeys(eids))
    fresh = tuple([eid for eid in eids if eid not in memory.withdrawn])
    after = tuple(doubtful_after(memory, eids))
    if cascade:
        return Consequences((*fresh, *after), after, ())
    return Consequences(fresh, (), tuple([eid for eid in after if eid not in memory.doubtful]))


def withdraw(
    transaction: Transaction,
    eids: tuple[int, ...],
    why: str,
    origin: Origin | None = None,
    *,
    cascade: bool = False,
) -> tuple[Consequences, int | None]:
    """Withdraw elements. Return the consequences, and the eid of the note that says why (None without any).

    Elements withdrawn before stay unchanged. With `cascade`, what is doubtful because of them is withdrawn
    too.
    """
    memory = transaction.agent.memory
    what = consequences(memory, eids, cascade=cascade)
    if not what.withdrawn and not what.doubtful:
        return what, None
    if what.withdrawn:
        transaction.change(changes.Withdrawn(what.withdrawn, why))
        notify_of_gone(transaction.agent, what.withdrawn)
        _follow(transaction, what.withdrawn)
        withdraw_questions(transaction, what.withdrawn)
    _doubt(transaction, what.doubtful)
    note = transaction.add(make_note(WITHDRAWN, what.withdrawn, why), origin) if what.withdrawn else None
    transaction.settle()
    return what, note


def doubt(transaction: Transaction, eids: tuple[int, ...]) -> None:
    """Mark elements doubtful that are doubtful at their sender, and what was made from them."""
    memory = transaction.agent.memory
    fresh = [eid for eid in eids if eid in memory.elements and eid not in memory.withdrawn]
    after = doubtful_after(memory, fresh)
    _doubt(transaction, tuple([eid for eid in (*fresh, *after) if eid not in memory.doubtful]))


def _doubt(transaction: Transaction, eids: tuple[int, ...]) -> None:
    """Make elements doubtful, and offer them to the runs that ask for doubtful ones."""
    if not eids:
        return
    transaction.change(changes.Doubted(eids))
    notify_of_gone(transaction.agent, eids)
    withdraw_questions(transaction, eids)
    for eid in eids:
        if (element := transaction.agent.memory.element(eid)) is not None:
            transaction.offer(element)
    transaction.settle()
    _follow(transaction, eids)


def _follow(transaction: Transaction, eids: tuple[int, ...]) -> None:
    """Schedule a message to the agents that were sent these elements."""
    for scope, runs in transaction.agent.memory.marks.items():
        if is_sending(scope) and (sent := runs.keys() & {*eids}):
            transaction.taken_back.setdefault(scope[2], set()).update(sent)


def confirm(
    transaction: Transaction, eids: tuple[int, ...], why: str, origin: Origin | None = None
) -> tuple[int, ...]:
    """End the doubt about elements, and about what is doubtful only because of them; return all of these."""
    memory = transaction.agent.memory
    fresh = tuple([eid for eid in dict.fromkeys(eids) if eid in memory.doubtful])
    if not fresh:
        return ()
    cleared = (*fresh, *cleared_after(memory, fresh))
    transaction.change(changes.Confirmed(cleared))
    for eid in cleared:
        if (element := memory.element(eid)) is not None:
            transaction.offer(element)
    transaction.add(make_note(CONFIRMED, cleared, why), origin)
    _follow(transaction, cleared)
    return cleared
