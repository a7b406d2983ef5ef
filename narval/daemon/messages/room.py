"""Room: the messages that may wait, of a pair and in a mailbox, and the calls that wait (G31)."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Container, Iterable
from itertools import islice
from typing import TypeVar

from narval.store.batch import AgentRow, MessageRow
from narval.store.letters import WaitingRow

MOST_OF_A_PAIR = 1_000
"""The most messages from one agent to another that may wait."""

BYTES_OF_A_PAIR = 16 * 1024 * 1024
"""The most bytes of these messages."""

Retry = Callable[[], None]
_Key = TypeVar("_Key", int, tuple[int, int])


class MailboxRoom:
    """The count of messages that are not taken. `limit` returns the most that an agent of a name may have."""

    def __init__(self, limit: Callable[[str], int] = lambda name: sys.maxsize) -> None:
        self._limit = limit
        self._of: Counter[int] = Counter()
        self._many: Counter[tuple[int, int]] = Counter()
        self._bytes: Counter[tuple[int, int]] = Counter()
        self._waiting: dict[int, dict[tuple[int, str], Retry]] = {}
        """The calls that wait for room, by receiver, each with its sender, in order of arrival."""
        self._added: list[MessageRow] | None = None
        """The messages recorded since a recount began, while it is under way."""

    def __contains__(self, receiver: object) -> bool:
        return receiver in self._of

    def __bool__(self) -> bool:
        return bool(self._of)

    @property
    def is_wanted(self) -> bool:
        """True while a call waits for room."""
        return bool(self._waiting)

    def of(self, receiver: int) -> int:
        """The number of messages that wait for an agent."""
        return self._of[receiver]

    def of_pair(self, receiver: int, sender: int) -> int:
        """The number of messages from one agent that wait for another."""
        return self._many[receiver, sender]

    @property
    def total(self) -> int:
        """The number of messages that wait, for all receivers."""
        return self._of.total()

    def load(self, row: WaitingRow) -> None:
        """Count the waiting messages of a pair at the start."""
        pair = row.agent, row.sender
        self._of[row.agent] += row.many
        self._many[pair], self._bytes[pair] = row.many, row.size

    def add(self, row: MessageRow) -> None:
        """Count a recorded message."""
        pair = row.agent, row.sender
        self._of[row.agent] += 1
        self._many[pair] += 1
        self._bytes[pair] += len(row.data)
        if self._added is not None:
            self._added.append(row)

    def remove(self, row: MessageRow) -> None:
        """Stop counting a message; retry the call that has waited longest for its room. When no message is
        left, retry all: the first may not have used the room, and nothing else would wake the others.
        """
        pair = row.agent, row.sender
        _less(self._of, row.agent, 1)
        _less(self._many, pair, 1)
        _less(self._bytes, pair, len(row.data))
        if (waiting := self._waiting.get(row.agent)) is not None:
            first = list(islice(waiting, 1 if row.agent in self._of else None))
            retries = [waiting.pop(key) for key in first]
            if not waiting:
                del self._waiting[row.agent]
            for retry in retries:
                retry()

    def forget(self, receiver: int) -> None:
        """Forget the count of an agent that is gone, and retry all calls that wait for its room."""
        self._of.pop(receiver, None)
        for pair in [pair for pair in self._many if pair[0] == receiver]:
            del self._many[pair], self._bytes[pair]
        for retry in self._waiting.pop(receiver, {}).values():
            retry()

    # --- with other daemons -----------------------------------------------------------------------------

    def count_only(self, receiver: int, rows: Iterable[MessageRow]) -> None:
        """Count these messages for a receiver, and no others."""
        self._clear(lambda number: number == receiver)
        for row in rows:
            self.add(row)

    def begin_recount(self) -> None:
        """Begin a recount from the store; messages recorded in the meantime are added."""
        self._added = []

    def recount(self, rows: Iterable[WaitingRow], numbers: Container[int]) -> None:
        """Count what waits in the store for all receivers but the `known` ones; retry calls that wait for the
        room of one that has taken messages.
        """
        added, self._added = self._added or [], None
        before = dict(self._of)
        self._clear(lambda number: number not in numbers)
        for waiting in rows:
            self.load(waiting)
        for row in added:
            if row.agent not in numbers:
                self.add(row)
        for receiver in list(self._waiting):
            if receiver not in numbers and self._of[receiver] < before.get(receiver, 1):
                for retry in self._waiting.pop(receiver).values():
                    retry()

    def _clear(self, is_meant: Callable[[int], bool]) -> None:
        for pair in [pair for pair in self._many if is_meant(pair[0])]:
            del self._many[pair], self._bytes[pair]
            self._of.pop(pair[0], None)

    # --- waiting calls ----------------------------------------------------------------------------------

    def lacking(self, receiver: AgentRow, sender: int, many: int, size: int, decided: int) -> str:
        """The room that `many` more messages of `size` bytes must wait for; "" if there is room.

        `decided` is the number of the pair's messages that are not recorded yet. If nothing waits there is
        room for any number: messages sent together are not divided.
        """
        pair = receiver.agent, sender
        waiting, there = self._many[pair] + decided, self._of[receiver.agent] + decided
        if not there or (not waiting and there < self._limit(receiver.name)):
            return ""
        is_full = waiting + many > MOST_OF_A_PAIR or self._bytes[pair] + size > BYTES_OF_A_PAIR
        if not is_full and there + many <= self._limit(receiver.name):
            return ""
        return f"room in the mailbox of {receiver.name} ({waiting if is_full else there:,} not taken)"

    def wait(self, receiver: int, sender: int, call: str, retry: Retry) -> None:
        """Call `retry` as soon as a message for a receiver is taken."""
        self._waiting.setdefault(receiver, {})[sender, call] = retry


def _less(counted: Counter[_Key], key: _Key, by: int) -> None:
    counted[key] -= by
    if counted[key] <= 0:
        del counted[key]
