"""Sent messages: those that a peer has not taken, and those that it has taken and may still answer."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator

from narval.agent.turn import Turn
from narval.daemon.messages.remote_calls import CANCEL
from narval.store.batch import MessageRow, ResultRow
from narval.store.links import ANSWERED, SENT
from narval.store.store import AgentStore

MOST_TAKEN = 5_000
"""The most recent messages of a kind that each agent of the peer may answer. At most 1,000 wait for an agent
there, and few more answers are under way.
"""

MOST_IN_ALL = 100_000
"""The most messages that the peer may answer, of all kinds and for all agents there."""


def ended(store: AgentStore, rows: Iterable[MessageRow], at: float) -> set[MessageRow]:
    """The messages to a peer, among some that it has not taken, that expired. They are kept only because
    numbers have no gap. `store` is that of the peer's row.
    """
    over = {row.id: row for row in rows if row.kind != CANCEL and row.until is not None and row.until <= at}
    return {over[row.key] for row in store.results_of(SENT, over) if row.data == ANSWERED}


Bury = Callable[[Turn, list[MessageRow]], None]
"""A function that notifies the senders of messages that these are overdue."""


class SentMessages:
    """The messages to a peer. The link reports that a message has arrived. Its outcome there, such as a
    refusal or the result of a call, is an answer under its id, which is accepted once.

    A message that is overdue before the peer has confirmed it ends here, and counts as answered. It goes to
    the peer nevertheless, because numbers have no gap, and is refused there.
    """

    def __init__(self, store: AgentStore, bury: Bury) -> None:
        self._store, self._bury = store, bury
        self._waiting: dict[str, deque[tuple[MessageRow, str]]] = {}
        """The messages that the peer has not taken, each with its receiver there, by the id of the sender."""
        self._unanswered: set[str] = set()
        """The ids of waiting messages that may be answered: the peer may have them without reporting it."""
        self._answered: set[str] = set()
        """The ids of waiting messages that are answered."""
        self._taken: OrderedDict[str, str] = OrderedDict()
        """The ids of the latest messages that the peer has, in order, each with kind and receiver there."""
        self._by_receiver: dict[str, OrderedDict[str, None]] = {}
        """The same, in order, by kind and receiver there."""

    def restore(self) -> None:
        """Load the latest messages that the peer has taken from the store. Raises StoreError."""
        for row in reversed(self._store.results(SENT)):
            if row.data == ANSWERED:
                self._answered.add(row.key)
            else:
                self._add(row.key, row.data.decode())

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def oldest(self) -> float | None:
        """The moment of the oldest waiting message that has not ended; None if there is none."""
        first = (
            next((row.at for row, _ in rows if row.id not in self._answered), None)
            for rows in self._waiting.values()
        )
        return min((at for at in first if at is not None), default=None)

    def put(self, sender_id: str, row: MessageRow, to: str) -> bool:
        """Add a message that waits for an agent of the peer; True if it has ended already."""
        self._waiting.setdefault(sender_id, deque()).append((row, to))
        is_own = row.kind != CANCEL and row.id.startswith(f"{sender_id}.")  # else it is about another message
        has_ended = is_own and row.id in self._answered
        if is_own and not has_ended:
            self._unanswered.add(row.id)
        return has_ended

    def taken(self, turn: Turn, sender_id: str, number: int) -> Iterator[MessageRow]:
        """The messages of a sender up to a number, which the peer has taken."""
        waiting = self._waiting.get(sender_id)
        while waiting and waiting[0][0].number <= number:
            row, to = waiting.popleft()
            if row.id in self._unanswered:
                self._unanswered.discard(row.id)
                self._remember(turn, row.id, f"{row.kind} {to}")
            elif row.kind != CANCEL and row.id in self._answered:
                self._answered.discard(row.id)
                turn.transaction.batch.drop_result(SENT, row.id)
            yield row
        if waiting is not None and not waiting:
            del self._waiting[sender_id]

    def may_be_answered(self, id: str) -> bool:
        """True for the id of a message that was sent there and is not answered."""
        return id in self._taken or id in self._unanswered

    def answered(self, turn: Turn, id: str) -> None:
        """Record that a message is answered."""
        if id in self._taken:
            self._drop(turn, id)
        else:
            self._unanswered.discard(id)
            self._answered.add(id)
            turn.transaction.batch.put_result(ResultRow(SENT, id, turn.at, ANSWERED))

    def end_overdue(self, turn: Turn) -> set[str]:
        """End the overdue messages, and return their ids."""
        waiting = [row for rows in self._waiting.values() for row, _ in rows if row.id in self._unanswered]
        overdue = [row for row in waiting if row.until is not None and row.until <= turn.at]
        for row in overdue:
            self.answered(turn, row.id)
        self._bury(turn, overdue)
        return {row.id for row in overdue}

    def _remember(self, turn: Turn, id: str, what: str) -> None:
        self._add(id, what)
        turn.transaction.batch.put_result(ResultRow(SENT, id, turn.at, what.encode()))
        if len(self._by_receiver[what]) > MOST_TAKEN:
            self._drop(turn, next(iter(self._by_receiver[what])))
        elif len(self._taken) > MOST_IN_ALL:
            self._drop(turn, next(iter(self._taken)))

    def _add(self, id: str, what: str) -> None:
        self._taken[id] = what
        self._by_receiver.setdefault(what, OrderedDict())[id] = None

    def _drop(self, turn: Turn, id: str) -> None:
        what = self._taken.pop(id)
        ids = self._by_receiver[what]
        del ids[id]
        if not ids:
            del self._by_receiver[what]
        turn.transaction.batch.drop_result(SENT, id)
