"""Letters: the messages of a store, between any agents (G23 to G32)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, NamedTuple, Protocol

from narval.store.batch import LETTERS_KEPT, Batch, MessageRow, TakenRow
from narval.store.rows import LastRow, Row, typed


class WaitingRow(NamedTuple):
    """The waiting messages of a pair: their count and bytes, the earliest moment at which one expires, the
    earliest after the requested moment, the number of the last.
    """

    agent: int
    sender: int
    many: int
    size: int
    until: float | None
    later: float | None
    last: int


class PairRow(NamedTuple):
    """The messages of a pair: the numbers of the last one sent and the last one taken (counted from 1), how
    many wait, and when the first of those was sent.
    """

    agent: int
    sender: int
    sent: int
    taken: int
    many: int
    oldest: float | None


class KeptLetter(NamedTuple):
    """A dead letter under the number of its line."""

    line: int
    agent: int
    receiver: str
    number: int
    id: str
    kind: str
    reason: str
    at: float
    until: float | None
    origin: bytes
    data: bytes


class _IdRow(NamedTuple):
    id: str


class Letters(Protocol):
    """Reading of recorded messages."""

    def waiting(self, at: float = 0.0) -> list[WaitingRow]:
        """The pairs with waiting messages, for a requested moment."""

    def pairs(self, agent: int, most: int) -> list[PairRow]:
        """The pairs with an agent (0: all pairs) that have sent anything: those with the most waiting
        messages first, then those that have sent most.
        """

    def messages(self, receiver: int, *, at_start: bool = False) -> list[MessageRow]:
        """The waiting messages to an agent, of each sender in order.

        With `at_start`, those that were read ahead: the latest may be missing.
        """

    def messages_of(self, receivers: Collection[int]) -> list[MessageRow]:
        """The waiting messages to several agents, of each pair in order."""
        return [row for receiver in receivers for row in self.messages(receiver)]

    def sent(self, sender: int) -> list[MessageRow]:
        """The waiting messages of an agent, of each receiver in order."""

    def strays(self) -> list[MessageRow]:
        """The messages to agents that no longer exist, removed while a message was being sent; by sender."""

    def taken(self, receiver: int) -> list[TakenRow]:
        """The last message that an agent has taken from each sender."""

    def ids(self, receiver: int, sender: int) -> list[str]:
        """The ids of the waiting messages of a pair."""

    def last_sent(self, receiver: int, sender: int) -> int:
        """The number of the last message of a pair; 0 before the first."""

    def last_correspondent(self) -> int:
        """The highest number of an agent, existing or not, in messages or their receipts; or 0."""

    def dead(self, sender: int) -> list[KeptLetter]:
        """The dead letters of an agent, oldest first."""


class DatabaseLetters(Letters):
    """The messages in the tables of a database; `read` returns the rows of a query."""

    def __init__(self, read: Callable[..., list[Any]], name: str) -> None:
        self._read, self._name = read, name

    def _typed(self, row: type[Row], query: str, *values: Any) -> list[Row]:
        return typed(row, self._read(query, *values), query, self._name)

    def waiting(self, at: float = 0.0) -> list[WaitingRow]:
        """The pairs with waiting messages."""
        return self._typed(WaitingRow, "waiting messages", at)

    def pairs(self, agent: int, most: int) -> list[PairRow]:
        """The pairs that have sent anything."""
        return self._typed(PairRow, "message pairs", agent, most)

    def messages(self, receiver: int, *, at_start: bool = False) -> list[MessageRow]:
        """The waiting messages to an agent."""
        return self._typed(MessageRow, "messages at the start" if at_start else "messages", receiver)

    def sent(self, sender: int) -> list[MessageRow]:
        """The waiting messages of an agent."""
        return self._typed(MessageRow, "messages of sender", sender)

    def strays(self) -> list[MessageRow]:
        """The messages to agents that do not exist."""
        return self._typed(MessageRow, "stray messages")

    def taken(self, receiver: int) -> list[TakenRow]:
        """The last message that an agent has taken from each sender."""
        return self._typed(TakenRow, "taken", receiver)

    def ids(self, receiver: int, sender: int) -> list[str]:
        """The ids of the waiting messages of a pair."""
        return [row.id for row in self._typed(_IdRow, "ids of pair", receiver, sender)]

    def last_sent(self, receiver: int, sender: int) -> int:
        """The number of the last message of a pair."""
        return self._highest("last sent", receiver, sender, receiver, sender)

    def last_correspondent(self) -> int:
        """The highest number of an agent in messages or their receipts."""
        return self._highest("last correspondents")

    def dead(self, sender: int) -> list[KeptLetter]:
        """The dead letters of an agent."""
        return self._typed(KeptLetter, "dead letters", sender)

    def _highest(self, query: str, *values: int) -> int:
        return max(number or 0 for (number,) in self._typed(LastRow, query, *values))


class VolatileLetters(Letters):
    """The messages of a store in memory."""

    def __init__(self) -> None:
        self._messages: dict[tuple[int, int, int], MessageRow] = {}
        self._taken: dict[tuple[int, int], int] = {}
        self._dead: dict[int, KeptLetter] = {}
        self._lines = 0

    def keep(self, batch: Batch) -> None:
        """Record the messages of a batch."""
        for row in batch.messages:
            self._messages[row[:3]] = row
        for agent, sender, number in batch.taken:
            pair = (agent, sender)
            for of in range(self._taken.get(pair, 0) + 1, number + 1):
                self._messages.pop((*pair, of), None)
            self._taken[pair] = number
        for letter in batch.dead_letters:
            self._lines += 1
            self._dead[self._lines] = KeptLetter(self._lines, **letter._asdict())
            self._drop_old(letter.agent, letter.at - LETTERS_KEPT)
        for line in batch.letters_settled:
            self._dead.pop(line, None)

    def _drop_old(self, agent: int, before: float) -> None:
        old = [line for line, row in self._dead.items() if row.agent == agent and row.at < before]
        for line in old:
            del self._dead[line]

    def forget(self, agent: int) -> None:
        """Drop the messages to an agent, and its dead letters."""
        self._messages = {key: row for key, row in self._messages.items() if key[0] != agent}
        self._taken = {key: number for key, number in self._taken.items() if key[0] != agent}
        self._dead = {line: row for line, row in self._dead.items() if row.agent != agent}

    def waiting(self, at: float = 0.0) -> list[WaitingRow]:
        """The pairs with waiting messages."""
        counts: Counter[tuple[int, int]] = Counter()
        sizes: Counter[tuple[int, int]] = Counter()
        first: dict[tuple[int, int], float] = {}
        later: dict[tuple[int, int], float] = {}
        last: dict[tuple[int, int], int] = {}
        for row in self._messages.values():
            pair = row.agent, row.sender
            counts[pair] += 1
            sizes[pair] += len(row.data)
            last[pair] = max(row.number, last.get(pair, 0))
            if row.until is not None:
                first[pair] = min(row.until, first.get(pair, row.until))
                if row.until > at:
                    later[pair] = min(row.until, later.get(pair, row.until))
        return [
            WaitingRow(
                agent=pair[0],
                sender=pair[1],
                many=counts[pair],
                size=sizes[pair],
                until=first.get(pair),
                later=later.get(pair),
                last=last[pair],
            )
            for pair in sorted(counts)
        ]

    def pairs(self, agent: int, most: int) -> list[PairRow]:
        """The pairs that have sent anything."""
        waiting = {(row.agent, row.sender): row for row in self.waiting()}
        first: dict[tuple[int, int], float] = {}
        for row in self._messages.values():
            pair = row.agent, row.sender
            first[pair] = min(row.at, first.get(pair, row.at))
        rows = [
            PairRow(*pair, max(taken, of.last if of else 0), taken, of.many if of else 0, first.get(pair))
            for pair in {**self._taken, **waiting}
            if agent == 0 or agent in pair
            for of, taken in [(waiting.get(pair), self._taken.get(pair, 0))]
        ]
        return sorted(rows, key=lambda row: (-row.many, -row.sent, row.agent, row.sender))[:most]

    def messages(self, receiver: int, *, at_start: bool = False) -> list[MessageRow]:
        """The waiting messages to an agent."""
        return sorted(row for row in self._messages.values() if row.agent == receiver)

    def sent(self, sender: int) -> list[MessageRow]:
        """The waiting messages of an agent."""
        return sorted(row for row in self._messages.values() if row.sender == sender)

    def strays(self) -> list[MessageRow]:
        """None: a single daemon has the agents, and drops messages with their receiver."""
        return []

    def taken(self, receiver: int) -> list[TakenRow]:
        """The last message that an agent has taken from each sender."""
        taken_pairs = self._taken.items()
        return [TakenRow(*pair, number) for pair, number in taken_pairs if pair[0] == receiver]

    def ids(self, receiver: int, sender: int) -> list[str]:
        """The ids of the waiting messages of a pair."""
        return [row.id for row in self.messages(receiver) if row.sender == sender]

    def last_sent(self, receiver: int, sender: int) -> int:
        """The number of the last message of a pair."""
        waiting = (row.number for row in self.messages(receiver) if row.sender == sender)
        return max(waiting, default=self._taken.get((receiver, sender), 0))

    def last_correspondent(self) -> int:
        """The highest number of an agent in messages or their receipts."""
        named = [number for key in (*self._messages, *self._taken) for number in key[:2]]
        return max(named, default=0)

    def dead(self, sender: int) -> list[KeptLetter]:
        """The dead letters of an agent."""
        return [row for row in self._dead.values() if row.agent == sender]
