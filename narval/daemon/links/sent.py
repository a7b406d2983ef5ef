"""Sent messages: those that a peer has not taken, and those that it has, and may still answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from narval.agent.turn import Turn
from narval.daemon.messages.remote_calls import CANCEL
from narval.store.batch import MessageRow, ResultRow
from narval.store.links import SENT
from narval.store.store import AgentStore

MOST_TAKEN = 5_000
"""The messages of a kind for each agent of the peer that it may answer, the latest: at most 1,000 wait for an
agent there, and few more answers are on their way.
"""


class SentMessages:
    """The messages to a peer. That one is there says its link; what becomes of it there, that it cannot be
    taken or what a call gives, an answer under its id, which counts once.
    """

    def __init__(self, store: AgentStore) -> None:
        self._store = store
        self._waiting: dict[str, deque[tuple[MessageRow, str]]] = {}
        """The messages that the peer has not taken, each with its receiver there, by the id of the sender."""
        self._taken: dict[str, dict[str, None]] = {}
        """The ids of the latest that it has, in order, by kind and receiver there."""
        self._answered: set[str] = set()
        """The ids of those that wait which it has answered, before it said that it has them."""

    def restore(self) -> None:
        """Know the latest that were taken, as the store has them. Raises StoreError."""
        for row in reversed(self._store.results(SENT)):
            self._taken.setdefault(row.data.decode(), {})[row.key] = None

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, sender_id: str, row: MessageRow, to: str) -> None:
        """Have a message to an agent of the peer wait."""
        self._waiting.setdefault(sender_id, deque()).append((row, to))

    def taken(self, turn: Turn, sender_id: str, number: int) -> Iterator[MessageRow]:
        """The messages of a sender up to a number, which the peer has taken."""
        waiting = self._waiting.get(sender_id)
        while waiting and waiting[0][0].number <= number:
            row, to = waiting.popleft()
            if row.id in self._answered:
                self._answered.discard(row.id)
            elif row.kind != CANCEL and row.id.startswith(f"{sender_id}."):  # else it is about another one
                self._remember(turn, row.id, f"{row.kind} {to}")
            yield row
        if waiting is not None and not waiting:
            del self._waiting[sender_id]

    def may_be_answered(self, id: str) -> bool:
        """True of the id of a message that was sent there, and is not answered."""
        if id in self._answered:
            return False
        waiting = self._waiting.get(id.partition(".")[0], ())
        return any(id in ids for ids in self._taken.values()) or any(row.id == id for row, _ in waiting)

    def answered(self, turn: Turn, id: str) -> None:
        """Note that a message is answered."""
        for ids in self._taken.values():
            if id in ids:
                del ids[id]
                turn.transaction.batch.dropped_results.append((SENT, id))
                return
        self._answered.add(id)

    def _remember(self, turn: Turn, id: str, what: str) -> None:
        ids = self._taken.setdefault(what, {})
        ids[id] = None
        turn.transaction.batch.results.append(ResultRow(SENT, id, turn.at, what.encode()))
        if len(ids) > MOST_TAKEN:
            oldest = next(iter(ids))
            del ids[oldest]
            turn.transaction.batch.dropped_results.append((SENT, oldest))
