"""Mailbox and outbox: the messages that an active agent has not taken yet (G25, G30), and those that it
sends, numbered for each receiver (G23, G24).
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable

from msgspec.structs import replace

from narval.agent.labelling import came_with
from narval.agent.loop import Delivery, Request
from narval.agent.turn import Turn
from narval.core.agent_name import AT
from narval.core.elements import changes
from narval.core.elements.names import sent_to
from narval.core.trust.origins import told_origins
from narval.daemon.messages.envelope import Envelope, Outgoing, seal, sender_of
from narval.daemon.messages.post_office import PostOffice
from narval.store.batch import AgentRow, Batch, MessageRow, TakenRow

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
        """The messages of senders that wait because memory has no room for the first of them (G16, G31)."""
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


# --- the outbox -----------------------------------------------------------------------------------------


def _came_from(turn: Turn, envelope: Envelope, sent: int) -> tuple[str, ...]:
    """The elements by which the labels of what is sent came in; () if unknown, as for what was never in
    memory.
    """
    agent, eids = turn.agent, envelope.inputs
    return told_origins(agent.memory, eids, sent, lambda origin: any(True for _ in came_with(agent, origin)))


class Outbox:
    """Numbers the messages of one activation of an agent, and adds them to the batch of the turn that sends
    them.

    The numbers end with the activation. A turn that was not recorded leaves no gap, because the next
    activation reads from the store how far each pair has come.
    """

    def __init__(self, sender: AgentRow, office: PostOffice) -> None:
        self.sender, self.office = sender, office
        self._last: dict[str, int] = {}
        """The number of the last message, by the id of its receiver."""
        self._now: tuple[Batch | None, Counter[int]] = (None, Counter())
        """The batch of the present turn, and its messages by receiver: they do not count as waiting yet."""

    def in_turn(self, turn: Turn, receiver: AgentRow) -> int:
        """The number of messages that this turn has sent to a receiver so far."""
        return self._now[1][receiver.agent] if self._now[0] is turn.transaction.batch else 0

    def know(self, receiver: AgentRow) -> int:
        """Find the number of the last message to a receiver. Raises StoreError."""
        number = self._last.get(receiver.id)
        if number is None:
            number = self.office.letters.last_sent(receiver.agent, self.sender.agent)
            self._last[receiver.id] = number
        return number

    def envelope(
        self,
        run: int = 0,
        step: str = "",
        inputs: tuple[int, ...] = (),
        by: str = "",
        actor: str = "",
        *,
        awaited: bool = False,
    ) -> Envelope:
        """The envelope of what this agent sends."""
        return Envelope(self.sender.name, self.sender.id, run, step, inputs, by, actor, awaited)

    def send(self, turn: Turn, receiver: AgentRow, message: Outgoing, until: float | None = None) -> None:
        """Send a message together with what this turn records."""
        envelope, labels = message.envelope, turn.agent.memory.labels
        sent = labels.join(labels.of((envelope.run, *envelope.inputs)), turn.transaction.comes_with)
        if sent:
            envelope = replace(
                envelope,
                labels=labels.names(labels.join(sent, labels.number(envelope.labels))),
                came_from=_came_from(turn, envelope, sent),
            )
        memory = turn.agent.memory
        if sources := tuple([eid for eid in envelope.inputs or envelope.made_from if eid in memory]):
            turn.transaction.change(changes.Used(sent_to(receiver.name), sources, envelope.run))
            if bad := [eid for eid in sources if eid in memory.withdrawn or eid in memory.doubtful]:
                turn.transaction.taken_back.setdefault(receiver.name, set()).update(bad)  # sent after it
        self.pass_on(turn, receiver, message._replace(envelope=envelope), until)

    def pass_on(self, turn: Turn, receiver: AgentRow, message: Outgoing, until: float | None) -> None:
        """Send a message that was made elsewhere, with its envelope unchanged."""
        kind, id, envelope, data = message
        if AT in receiver.name:
            envelope = replace(envelope, to=receiver.name.partition(AT)[0])
        self._last[receiver.id] = number = self.know(receiver) + 1
        self.office.expect(receiver)
        batch = turn.transaction.batch
        if self._now[0] is not batch:
            self._now = batch, Counter()
        self._now[1][receiver.agent] += 1
        row = MessageRow(
            receiver.agent, self.sender.agent, number, id, kind, turn.at, until, seal(envelope), data
        )
        batch.messages.append(row)
