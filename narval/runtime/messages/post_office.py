"""Post office: hands messages that are recorded to their receivers, one for a daemon (G25, G30)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol

from narval.runtime.store.batch import STORE, AgentRow, MessageRow
from narval.runtime.store.letters import Letters

Find = Callable[[str], AgentRow | None]
"""Finds an agent of the store by its name."""


class Addressee(Protocol):
    """A receiver at work; `number` is that of its agent."""

    number: int

    def put(self, row: MessageRow) -> None:
        """Have a message that is recorded."""


class PostOffice:
    """The messages of a store that are not taken, counted, and the receivers at work.

    A message for one that is not at work stays a row: `wake` is asked to activate it, by name.
    """

    def __init__(self, letters: Letters, find: Find) -> None:
        self.letters, self.find = letters, find
        self._waiting: Counter[int] = Counter()
        """The number of messages by receiver."""
        self._names: dict[int, str] = {}
        """The names of agents that had messages, by number."""
        self._receivers: dict[int, Addressee] = {}
        self._wake: Callable[[str], None] = _ignore

    def open(self, agents: Iterable[AgentRow], wake: Callable[[str], None]) -> None:
        """Begin to hand over, with what waits in the store. Raises StoreError."""
        self._wake = wake
        for row in self.letters.waiting():
            self._waiting[row.agent] += row.many
        if self._waiting:
            self._names.update((row.agent, row.name) for row in agents if row.agent in self._waiting)

    def accept_all(self) -> None:
        """Let any name be that of an agent, which takes nothing: a simulation tells what would be sent."""
        known = self.find
        self.find = lambda name: known(name) or AgentRow(STORE, "", name)

    def has_mail(self, number: int) -> bool:
        """True if messages for an agent wait."""
        return number in self._waiting

    def remind(self, number: int) -> None:
        """Have an agent activated if messages for it wait."""
        if self.has_mail(number) and number not in self._receivers:
            self._wake(self._names[number])

    def expect(self, receiver: AgentRow) -> None:
        """Know an agent by its number: a message for it is about to be recorded."""
        self._names[receiver.agent] = receiver.name

    def hand_over(self, rows: Iterable[MessageRow]) -> None:
        """Give messages that are recorded to their receivers."""
        for row in rows:
            self._waiting[row.agent] += 1
            receiver = self._receivers.get(row.agent)
            if receiver is not None:
                receiver.put(row)
            else:
                self._wake(self._names[row.agent])

    def taken(self, rows: Iterable[MessageRow]) -> None:
        """Count messages no more whose taking is recorded."""
        for row in rows:
            self._waiting[row.agent] -= 1
            if not self._waiting[row.agent]:
                del self._waiting[row.agent]

    # --- receivers --------------------------------------------------------------------------------------

    def begin(self, receiver: Addressee) -> list[MessageRow]:
        """Let an agent at work have its messages from now on; those that wait. Raises StoreError."""
        waiting = self.letters.messages(receiver.number) if self.has_mail(receiver.number) else []
        self._receivers[receiver.number] = receiver
        return waiting

    def end(self, receiver: Addressee) -> None:
        """Keep the messages of an agent for its next activation."""
        if self._receivers.get(receiver.number) is receiver:
            del self._receivers[receiver.number]

    def forget(self, number: int) -> None:
        """Let an agent that was removed have no messages."""
        self._waiting.pop(number, None)
        self._names.pop(number, None)


def _ignore(name: str) -> None:
    """Do nothing: nobody is activated before `open`."""
