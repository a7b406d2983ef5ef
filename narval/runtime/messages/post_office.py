"""Post office: hands messages that are recorded to their receivers, one for a daemon (G25, G30)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from narval.runtime.agent.run import Run
from narval.runtime.agent.turn import Turn
from narval.runtime.messages.room import MailboxRoom
from narval.runtime.store.batch import STORE, AgentRow, MessageRow
from narval.runtime.store.letters import Letters

AGAIN = 3600.0
"""Seconds after which it is looked again for messages whose time is over, but not their turn."""

Find = Callable[[str], AgentRow | None]
"""Finds an agent of the store by its name."""


StandIn = Callable[[Turn, Run, object], bool]
"""A stand-in, which does what a run asks of another agent within a turn; False where that is to do it."""


class Addressee(Protocol):
    """A receiver at work; `number` is that of its agent."""

    number: int

    def put(self, row: MessageRow) -> None:
        """Have a message that is recorded."""


class PostOffice:
    """The messages of a store that are not taken, counted, and the receivers at work.

    A message for one that is not at work stays a row: `wake` is asked to activate it, by name.
    """

    def __init__(self, letters: Letters, find: Find, limit: Callable[[str], int]) -> None:
        self.letters, self.find = letters, find
        self._room, self._is_counted = MailboxRoom(limit), False
        self._look_at: Callable[[float | None], None] = _ignore
        self._first: float | None = None
        """The moment at which it is looked which messages have waited too long."""
        self._names: dict[int, str] = {}
        """The names of agents that had messages, by number."""
        self._receivers: dict[int, Addressee] = {}
        self._wake: Callable[[str], None] = _ignore
        self.stand_in: StandIn = _leaves_it

    def open(
        self,
        agents: Iterable[AgentRow],
        wake: Callable[[str], None],
        look_at: Callable[[float | None], None],
    ) -> None:
        """Begin to hand over, with what waits in the store; `look_at` has `overdue` be asked at a moment.

        Raises StoreError.
        """
        self._wake, self._look_at = wake, look_at
        if self.room:
            self._names.update((row.agent, row.name) for row in agents if row.agent in self.room)
            self._look_first(row.until for row in self.letters.waiting())

    @property
    def room(self) -> MailboxRoom:
        """The messages that are not taken, counted; those of the store when first asked for."""
        if not self._is_counted:
            self._is_counted = True
            for row in self.letters.waiting():
                self._room.load(row)
        return self._room

    def overdue(self, now: float) -> list[str]:
        """The names of agents that have messages whose time is over, as of a moment."""
        self._first, waiting = None, self.letters.waiting()
        later = (row.until for row in waiting if row.until is not None)
        self._look_first(until if until > now else now + AGAIN for until in later)
        due = (row.agent for row in waiting if row.until is not None and row.until <= now)
        return list(dict.fromkeys(self._names[number] for number in due if number in self._names))

    def _look_first(self, moments: Iterable[float | None]) -> None:
        first = min((moment for moment in moments if moment is not None), default=None)
        if first is not None and (self._first is None or first < self._first):
            self._first = first
            self._look_at(first)

    def simulate(self, stand_in: StandIn) -> None:
        """Let any name be that of an agent, of which those that are not there take nothing: a simulation
        tells what would be sent. `stand_in` is asked first what others are to do.
        """
        known, self.stand_in = self.find, stand_in
        self.find = lambda name: known(name) or AgentRow(STORE, "", name)

    def has_mail(self, number: int) -> bool:
        """True if messages for an agent wait."""
        return number in self.room

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
            self.room.add(row)
            if self._first is None or (row.until is not None and row.until < self._first):
                self._look_first((row.until,))
            receiver = self._receivers.get(row.agent)
            if receiver is not None:
                receiver.put(row)
            else:
                self._wake(self._names[row.agent])

    def taken(self, rows: Iterable[MessageRow]) -> None:
        """Count messages no more whose taking is recorded."""
        for row in rows:
            self.room.remove(row)

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
        self.room.forget(number)
        self._names.pop(number, None)


def _leaves_it(turn: Turn, run: Run, what: object) -> bool:
    return False


def _ignore(_: object) -> None:
    """Do nothing: nothing is handed over before `open`."""
