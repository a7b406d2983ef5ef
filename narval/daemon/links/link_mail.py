"""Link mail: the messages to and from a peer. The peer's row in the store is an agent that takes nothing
itself.

Messages of this home to agents of the peer wait in the mailbox of the row until the peer reports that it has
taken them. Messages of the peer are recorded by the row in one commit: it forwards them to agents of this
home, and counts how far each sender there has come. So a message is in one store or in the other, or in both
and counted.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from narval.agent.agent import AgentState
from narval.agent.loop import Delivery, Request, Settle
from narval.agent.turn import Turn
from narval.core.agent_name import AT, peer_of
from narval.core.errors import RequestError, UnreadableError
from narval.core.memory.labels import PART, SECRET
from narval.daemon.links.frame import Frame, Message, Standing, decode, encode
from narval.daemon.links.passing_on import PassingOn
from narval.daemon.links.protocol import LinkFaultError, LinkState, Meeting
from narval.daemon.links.sent import SentMessages
from narval.daemon.messages.agent_mail import AgentMail
from narval.daemon.messages.envelope import OVERDUE, Envelope, unseal
from narval.daemon.messages.mailbox import Mailbox
from narval.daemon.messages.outbox import Outbox
from narval.daemon.messages.post_office import Contact, PostOffice
from narval.files.agents.settings import AgentSettings
from narval.store.batch import AgentRow, MessageRow, ResultRow, TakenRow
from narval.store.links import FORMER, INCARNATION, LINK, MET, RESTORED, decode_numbers
from narval.store.store import ALL, AgentStore

log = logging.getLogger("narval.links")

MOST_REPORTED = 1_000
"""The most differences of a restored backup that are reported to senders; the rest is only logged."""

LONGEST_WAIT = 30.0
"""The most seconds for which an exchange waits for something to send."""

_encode = msgspec.msgpack.Encoder().encode
_decode_met = msgspec.msgpack.Decoder(tuple[str, str, str]).decode
_decode_reached = msgspec.msgpack.Decoder(tuple[int, str]).decode

Submit = Callable[[Callable[[Turn], Any], Settle], Awaitable[Any]]
"""A function that has a turn of the row do something as a whole, and calls the second when recorded."""


class LinkMail(AgentMail):
    """The mail of the row of a peer. `agents` returns the agents of the store; `home` is the name of the
    home's own agent.
    """

    mailbox: LinkMailbox

    def __init__(
        self,
        agent: AgentState,
        identity: AgentRow,
        office: PostOffice,
        post: Callable[[Delivery | Request], None],
        settings: AgentSettings,
        agents: Callable[[], Iterable[AgentRow]],
        home: str,
    ) -> None:
        super().__init__(agent, identity, office, post, settings)
        sent = SentMessages(agent.store, lambda turn, rows: self.bury(turn, rows, identity.name, OVERDUE))
        self.mailbox = LinkMailbox(agent.store, self.outbox, post, agents, home, sent)


class OnceRecorded(NamedTuple):
    """The rows that the peer has taken, and the numbers that its senders have reached, which become valid
    when a frame is recorded; and the number of times that the link had begun then.
    """

    taken: list[MessageRow]
    reached: dict[str, int]
    beginnings: list[int]


class LinkMailbox(Mailbox):
    """Keeps messages to a peer until the peer has taken them, and exchanges frames with it."""

    def __init__(
        self,
        store: AgentStore,
        outbox: Outbox,
        post: Callable[[Delivery | Request], None],
        agents: Callable[[], Iterable[AgentRow]],
        home: str,
        sent: SentMessages,
    ) -> None:
        row, office = outbox.sender, outbox.office
        super().__init__(row.agent, office, post, lambda turn, message: False)
        self.peer, self._store, self._row, self._agents = peer_of(row.name), store, row, agents
        self.state = LinkState(row.id, row.id, row.id)
        self.fault = ""
        """The reason why the exchange has stopped; "" if it has not."""
        self.contact = office.contacts.setdefault(row.agent, Contact())
        self._sent = sent
        self._passing_on = PassingOn(home, outbox, sent, self._has_room)
        self._names: dict[str, str] = {}
        """The names of the senders there, by id."""
        self._numbers: dict[str, int] = {}
        """The numbers of the agents here that have sent, by id."""
        self._last: dict[int, int] = {}
        """The number of the last message of each of these agents that is or was here."""
        self._changed: asyncio.Event | None = None
        self._is_closed = False

    # --- an active receiver -----------------------------------------------------------------------------

    def open(self) -> None:
        """Load the waiting messages, and accept more from now on. Raises StoreError, UnreadableError."""
        self.state = self._restored()
        self._sent.restore()
        for waiting in self._office.begin(self):
            self.put(waiting)
        if self._sent:
            self.try_again()

    def try_again(self) -> None:
        """End the overdue messages."""
        self._post(Request(lambda turn: self.state.out.end(self._sent.end_overdue(turn))))

    def _restored(self) -> LinkState:
        """The state of the link as stored."""
        by_number = {row.agent: row for row in self._agents()}
        sent, dropped, names = dict[str, int](), dict[str, int](), dict[str, str]()
        for pair in self._office.letters.pairs(self.number, ALL):
            if pair.agent != self.number:
                continue
            self._last[pair.sender] = pair.taken
            if (sender := by_number.get(pair.sender)) is not None:
                self._numbers[sender.id] = sender.agent
                sent[sender.id], dropped[sender.id] = pair.sent, pair.taken
                names[sender.id] = "" if sender.agent == self.number else sender.name
        stored = self._store.results_of(LINK, (MET,))
        met = Meeting(*_decode_met(stored[0].data)) if stored else Meeting()
        reached = dict[str, int]()
        for id, number, name in senders_there(self._store):
            reached[id], self._names[id] = number, name
        restored = {row.key: decode_numbers(row.data) for row in self._store.results(RESTORED)}
        former = (
            (link, of) for row in self._store.results(FORMER) for link, _, of in [row.key.partition(".")]
        )
        id, standing = self._row.id, Standing(sent, dropped, restored, names)
        incarnation = self._store.meta.get(INCARNATION, id)
        return LinkState(id, incarnation, secrets.token_hex(16), met, former, reached, standing)

    def close(self) -> None:
        """Drop the messages from memory, and accept no more."""
        super().close()
        self._is_closed = True
        self._ring()

    def put(self, row: MessageRow) -> bool:
        """Add a recorded message; False if it is already here, or one before it is missing."""
        last, is_shared = self.reached(row.sender), self._office.elsewhere is not None
        if row.number <= last or (is_shared and row.number > last + 1):
            return False
        self._last[row.sender] = row.number
        try:
            envelope = unseal(row.origin)
        except UnreadableError as error:
            log.error("a message to %s cannot be read, and will be refused there: %s", self.peer, error)
            ids = {number: id for id, number in self._numbers.items()}
            envelope = Envelope("", ids.get(row.sender, self._row.id), to="unreadable")
            row = row._replace(kind="unreadable")
        self._numbers[envelope.sender_id] = row.sender
        row = row._replace(until=0.0) if self._sent.put(envelope.sender_id, row, envelope.to) else row
        self.state.out.put(_to_send(row, envelope))
        self._ring()
        return True

    def reached(self, sender: int) -> int:
        """The number of the last message of a sender that is or was here."""
        return self._last.get(sender, 0)

    @property
    def keeps_active(self) -> bool:
        """True while there are messages that the peer has not taken."""
        return bool(self._sent)

    @property
    def waits_since(self) -> float | None:
        """The moment of the oldest message that the peer has not taken and that has not ended; None if there
        is none.
        """
        return self._sent.oldest()

    # --- exchanges --------------------------------------------------------------------------------------

    async def exchange(self, data: bytes | None, wait: float, submit: Submit) -> bytes:
        """Take a frame of the peer (None: nothing came), and return the next one, after waiting at most
        `wait` seconds for something to send. Raises RequestError, also if the link has begun again: then the
        request that waited is gone, and the content of a frame for it would be lost.
        """
        answers, record = 0, OnceRecorded([], {}, [])
        if data is None:
            self.state.begin()
        else:
            frame = decode(data)
            problem = await submit(partial(self._hear, frame, record), partial(self._recorded, record))
            if problem is not None:
                self.fault = str(problem)
                raise problem
            answers = frame.number
            if not frame.messages:
                await self._news(min(wait, LONGEST_WAIT))
        if self._is_closed or any(number != self.state.beginnings for number in record.beginnings):
            raise RequestError(f"the link with {self.peer} is no longer active here, or has begun again")
        return encode(self.state.frame(answers))

    async def _news(self, wait: float) -> None:
        """Wait until there is something to send, at most `wait` seconds."""
        loop = asyncio.get_running_loop()
        end = loop.time() + wait
        while not (self.state.has_news() or self._is_closed) and (left := end - loop.time()) > 0:
            self._changed = self._changed or asyncio.Event()
            with suppress(TimeoutError):  # `wait_for` would lose a cancellation that comes with the event
                async with asyncio.timeout(left):
                    await self._changed.wait()

    def _ring(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    def _has_room(self, sender_id: str) -> None:
        self.state.held.discard(sender_id)
        self._ring()

    # --- recorded frames --------------------------------------------------------------------------------

    def _hear(self, frame: Frame, record: OnceRecorded, turn: Turn) -> LinkFaultError | None:
        """Record the content of a frame within a turn; return the error if the link cannot continue."""
        try:
            heard = self.state.hear(frame)
        except LinkFaultError as error:
            log.error("the link with %s: %s", self.peer, error)
            return error
        record.beginnings.append(self.state.beginnings)
        put, reached = turn.transaction.batch.put_result, record.reached
        self.contact.heard(turn.at)
        self.fault = "" if self.state.is_of(frame) else self.fault
        names = {**self._names, **(frame.standing.names if frame.standing is not None else {})}
        if heard.met is not None:
            put(ResultRow(LINK, MET, turn.at, _encode(tuple(heard.met))))
        if heard.former is not None:
            put(ResultRow(FORMER, ".".join(heard.former), turn.at, b""))
        reached.update(heard.corrected)
        for difference in heard.differences[:MOST_REPORTED]:
            self._passing_on.report(turn, difference, names.get(difference.sender_id, ""))
        if many := len(heard.differences[MOST_REPORTED:]):
            log.error(
                "the link with %s: messages of %d more senders are lost, or come again", self.peer, many
            )
        for sender_id, number in heard.dropped.items():
            turn.transaction.batch.taken.append(TakenRow(self.number, self._numbers[sender_id], number))
            record.taken.extend(self._sent.taken(turn, sender_id, number))
        for message in heard.messages:
            if not self.state.may_take(message):
                continue
            if self._passing_on.take(turn, self.state, frame.link, message):
                self.state.take(message)
                reached[message.sender_id] = message.number
                names[message.sender_id] = message.sender
        for id, number in reached.items():
            self._names[id] = names.get(id, "")
            put(ResultRow(LINK, id, turn.at, _encode((number, self._names[id]))))
        return None

    def _recorded(self, record: OnceRecorded, result: object, error: BaseException | None) -> None:
        """Continue after a frame is recorded."""
        if error is None:
            self._office.taken(record.taken)
            self.state.recorded(record.reached)
            self._ring()


def senders_there(store: AgentStore) -> Iterator[tuple[str, int, str]]:
    """The senders of a peer, as stored by its row: id, number of the last message taken, name."""
    for row in store.results(LINK):
        if row.key != MET:
            yield row.key, *_decode_reached(row.data)


def _to_send(row: MessageRow, envelope: Envelope) -> Message:
    """A message in the form for the peer: without the people of this home, its secrets, and third parties."""
    labels = tuple(label for label in envelope.labels if not label.startswith((SECRET, PART)))
    said = replace(envelope, sender="", sender_id="", by="", actor="", labels=labels, came_from=(), to="")
    name = "" if envelope.sender.startswith(AT) else envelope.sender
    return Message(
        name,
        envelope.sender_id,
        row.number,
        row.id,
        row.kind,
        row.at,
        row.until,
        envelope.to,
        _encode(said),
        row.data,
    )
