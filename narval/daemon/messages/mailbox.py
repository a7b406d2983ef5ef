"""The mailbox: the messages that an active agent has not taken yet (G25, G30)."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from narval.agent.loop import Delivery, Request
from narval.agent.turn import Turn
from narval.daemon.messages.envelope import sender_of
from narval.daemon.messages.post_office import PostOffice
from narval.store.batch import MessageRow, TakenRow

log = logging.getLogger("narval.messages")

MOST_IN_A_TURN = 100
"""The most messages that a turn takes, so that they do not starve the agent's other work."""


class Mailbox:
    """Takes the messages of one activation, from senders in turn.

    `post` posts something for the agent's next turn. `receive` handles a message within a turn, and returns
    False if there is no room for it.
    """

    def __init__(
        self,
        number: int,
        office: PostOffice,
        post: Callable[[Delivery | Request], None],
        receive: Callable[[Turn, MessageRow], bool],
    ) -> None:
        self.number = number
        self._office, self._post, self._receive = office, post, receive
        self._senders: dict[int, deque[MessageRow]] = {}
        """The messages of each sender in order; the senders in the order of their turns."""
        self._held: dict[int, deque[MessageRow]] = {}
        """The messages of senders that wait because memory has no room for the first of them."""
        self._taken: dict[int, int] | None = None
        self._is_asking = False

    def open(self) -> None:
        """Load the waiting messages, and accept more from now on. Raises StoreError."""
        if self._office.elsewhere is not None:
            self._taken = self._taken_before()
        for row in self._office.begin(self):
            self.put(row)

    def close(self) -> None:
        """Accept no more messages."""
        self._office.end(self)

    def put(self, row: MessageRow) -> bool:
        """Add a recorded message; False if it is already here, or one before it is missing.

        If other daemons send too, an earlier message may not have been read yet.
        """
        waiting = self._waiting_of(row.sender)
        if waiting is not None or self._taken is not None:
            last, is_shared = self.reached(row.sender), self._office.elsewhere is not None
            if row.number <= last or (is_shared and row.number > last + 1):
                return False
        if waiting is None:
            waiting = self._senders[row.sender] = deque()
        waiting.append(row)
        self._ask()
        return True

    def reached(self, sender: int) -> int:
        """The number of the last message of a sender that it has or has taken, as far as known."""
        waiting = self._waiting_of(sender)
        return waiting[-1].number if waiting else (self._taken or {}).get(sender, 0)

    def _waiting_of(self, sender: int) -> deque[MessageRow] | None:
        return self._senders.get(sender) or self._held.get(sender)

    @property
    def is_held(self) -> bool:
        """True while memory has no room for the first message of some sender."""
        return bool(self._held)

    @property
    def keeps_active(self) -> bool:
        """True while an agent must stay active for the messages in it, though it takes none."""
        return False

    def try_again(self) -> None:
        """Take held messages: memory may have room for them by now."""
        self._senders, self._held = self._held | self._senders, {}
        self._ask()

    def _ask(self) -> None:
        if self._senders and not self._is_asking:
            self._is_asking = True
            self._post(Request(self._take, self._took, is_whole=True))

    def _take(self, turn: Turn) -> list[MessageRow]:
        """Take as many messages as a turn may; return them."""
        if self._taken is None:
            self._taken = self._taken_before()
        taken, senders, done = self._taken, self._senders, list[MessageRow]()
        reached: dict[int, int] = {}
        while senders and len(done) < MOST_IN_A_TURN:
            sender = next(iter(senders))
            waiting = senders.pop(sender)
            row, last = waiting[0], taken.get(sender, 0)
            if row.number > last + 1:
                missing = f"{last + 1} to {row.number - 1}"
                log.error("messages %s of %s are missing: those after wait", missing, sender_of(row))
                continue
            if row.number == last + 1:
                try:
                    is_taken = self._receive(turn, row)
                except Exception:
                    turn.transaction.telling.blame(0, row)
                    raise
                if not is_taken:
                    self._held[sender] = waiting
                    continue
                taken[sender] = reached[sender] = row.number
                done.append(row)
            waiting.popleft()
            if waiting:
                senders[sender] = waiting
        turn.transaction.batch.taken.extend(TakenRow(self.number, *pair) for pair in reached.items())
        return done

    def _taken_before(self) -> dict[int, int]:
        return {row.sender: row.number for row in self._office.letters.taken(self.number)}

    def _took(self, done: list[MessageRow] | None, error: BaseException | None) -> None:
        """Continue with the rest when the turn is recorded; if it could not be, the activation ends."""
        self._is_asking = False
        if error is None and done is not None:
            self._office.taken(done)
            self._ask()
