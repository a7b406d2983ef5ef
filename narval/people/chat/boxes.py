"""The boxes of chats: each chat's position, inbox, outbox, and sent messages.

They are read from the store on first use, and follow recorded turns from then on. Changes are rows of a turn,
written by the functions of a box.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

import msgspec

from narval.agent.agent import AgentState
from narval.agent.turn import Turn
from narval.people.chat.messages import (
    AskedBack,
    Incoming,
    OpenForm,
    Outbound,
    Reply,
    Sent,
    Taken,
    Whereabouts,
)
from narval.store.batch import Batch, ResultRow
from narval.system.clock import Clock

PREFIX = "chat "
"""The prefix of the scopes of results and of the facts of chats; the name of the chat follows."""

IN, OWED, OUT, SENT, SEEN, WROTE, FORM = "in", "owed", "out", "sent", "seen", "wrote", "form"
QUESTION, STRANGE = "question", "strange"
"""The parts of a chat, which end their scopes: messages to handle, operations done but not answered, messages
to send, messages sent, messages received from people, where people wrote last, answers they have begun to
give, what they were asked back last, and messages received from strangers.
"""

_FORMS: Mapping[str, type] = {
    IN: Taken, OWED: Taken, OUT: Outbound, SENT: Sent, SEEN: int, STRANGE: int, WROTE: Whereabouts,
    FORM: OpenForm, QUESTION: AskedBack,
}  # fmt: skip
"""The form of the entries of each part."""

MOST_SENT = 2_000
"""The sent messages of a chat that are remembered, the most recent ones."""

MOST_SEEN = 2_000
"""The ids of received messages that are remembered per chat, the most recent ones: this many from people, and
as many from strangers, so that strangers displace none of people.
"""

MINUTE = 60.0

MOST_WAITING = 1_000
"""The most messages of a person that may wait in an inbox; further ones are refused."""

MOST_STRANGERS = 1_000
"""The strangers of a chat that are remembered, the most recent ones."""

Form = TypeVar("Form", Outbound, Sent)


class Strangers:
    """The strangers who have recently written to a chat; none of this is recorded."""

    def __init__(self) -> None:
        self._told: dict[str, float] = {}
        """The moment of the log line about each stranger."""
        self._wrote: dict[str, list[float]] = {}
        """The moments at which each stranger wrote in the last minute."""

    def is_news(self, sender: str, at: float, within: float) -> bool:
        """True if a stranger was not logged within `within` seconds; the stranger now counts as logged."""
        if at - self._told.get(sender, -within) < within:
            return False
        self._told.pop(sender, None)
        self._told[sender] = at
        if len(self._told) > MOST_STRANGERS:
            del self._told[next(iter(self._told))]
        return True

    def may(self, sender: str, at: float, most: int) -> bool:
        """True if a stranger has written fewer than `most` messages within a minute; this one is counted."""
        lately = [moment for moment in self._wrote.pop(sender, ()) if at - moment < MINUTE]
        if is_free := len(lately) < most:
            lately.append(at)
        self._wrote[sender] = lately
        if len(self._wrote) > MOST_STRANGERS:
            del self._wrote[next(iter(self._wrote))]
        return is_free


class LinkCode:
    """A code that links an account with a person: its digest, and the moment until which it is valid."""

    def __init__(self, digest: bytes, until: float) -> None:
        self.digest, self.until = digest, until
        self._tries = 0
        self.address = ""
        """The address, with its kind, from which the code was sent; "" until then."""
        self.found = asyncio.Event()
        """An event set when the code was sent."""
        self.waiting = 0
        """The number of callers that wait for the address."""

    @contextmanager
    def waiting_for_it(self) -> Iterator[None]:
        """Count a caller that waits for the address, within the block."""
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1

    def was_sent(self, address: str) -> None:
        """Record the address from which the code was sent."""
        self.address = address
        self.found.set()

    def was_not(self, most: int) -> None:
        """Record that a wrong code was sent; after `most` wrong codes this one is invalid."""
        self._tries += 1
        if self._tries >= most:
            self.until = 0.0


class ChatBox:
    """The record of one chat."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.position, self.last = "", 0
        self.inbox: dict[int, Taken] = {}
        self.owed: dict[int, Taken] = {}
        self.outbox: dict[str, Outbound] = {}
        self.sent: dict[str, Sent] = {}
        """The messages sent, by the id of the chat's kind."""
        self.seen: dict[str, int] = {}
        """The numbers of messages received from people, by writer and id."""
        self.strange: dict[str, int] = {}
        """The numbers of messages received from strangers, by writer and id."""
        self.wrote: dict[str, Whereabouts] = {}
        """The last address and place of each person."""
        self.forms: dict[str, OpenForm] = {}
        """The unfinished answer of each person."""
        self.questions: dict[str, AskedBack] = {}
        """The open question to each person."""
        self._parts: dict[str, dict[Any, Any]] = {
            IN: self.inbox, OWED: self.owed, OUT: self.outbox, SENT: self.sent, SEEN: self.seen,
            STRANGE: self.strange, WROTE: self.wrote, FORM: self.forms, QUESTION: self.questions,
        }  # fmt: skip
        self.handed: set[str] = set()
        """The ids of messages that may have begun to be sent: at the start, all that were due."""
        self.fault, self.since, self.warning = "", 0.0, ""
        """The fault reported last, "" while the chat is connected; the moment of that report (0: none); and
        any other warning.
        """
        self.strangers = Strangers()
        self.news = asyncio.Event()
        """An event set when a message enters or leaves the outbox."""

    def is_told(self, fault: str, at: float, warning: str = "") -> None:
        """Record that the chat is connected, or the fault that prevents it, and any other warning."""
        if not self.since or bool(fault) != bool(self.fault):
            self.since = at
        self.fault, self.warning = fault, warning

    def scope(self, part: str) -> str:
        """The scope of the results of a part."""
        return f"{PREFIX}{self.name} {part}"

    # --- in a turn --------------------------------------------------------------------------------------

    def is_there(self, turn: Turn, number: int, part: str = IN) -> bool:
        """True if a message is still in a part, changes of this turn included."""
        entries = self.inbox if part == IN else self.owed
        in_turn = turn.transaction.batch.results
        return number in entries and in_turn.get((self.scope(part), str(number)), True) is not None

    def draw(self, turn: Turn, position: str | None = None) -> int:
        """Draw the next number, and record it with the position."""
        self.last += 1
        fact, meta = f"{PREFIX}{self.name}", turn.transaction.batch.meta
        before = next((value.partition(" ")[2] for key, value in meta if key == fact), self.position)
        meta[:] = [pair for pair in meta if pair[0] != fact]
        meta.append((fact, f"{self.last} {before if position is None else position}"))
        return self.last

    def put(self, turn: Turn, part: str, key: str, form: msgspec.Struct | int) -> None:
        """Record an entry of a part."""
        data = msgspec.json.encode(form)
        turn.transaction.batch.put_result(ResultRow(self.scope(part), key, turn.at, data))

    def drop(self, turn: Turn, part: str, key: str) -> None:
        """Record the removal of an entry of a part."""
        turn.transaction.batch.drop_result(self.scope(part), key)

    def take(self, turn: Turn, message: Incoming, person: str) -> Taken:
        """Record a message of a person in the inbox."""
        taken = Taken(number=self.draw(turn, message.position), person=person, message=message)
        self.put(turn, IN, str(taken.number), taken)
        if not message.room:
            self.put(
                turn, WROTE, person, Whereabouts(address=message.sender, place=message.place, at=turn.at)
            )
        return taken

    def see(self, turn: Turn, message: Incoming, *, is_strange: bool = False) -> bool:
        """Record that a message was received, by its writer and id; return False for a duplicate."""
        key, in_turn = f"{message.sender} {message.id}", turn.transaction.batch.results
        if key in self.seen or key in self.strange:
            return False
        if any(in_turn.get((self.scope(part), key)) for part in (SEEN, STRANGE)):
            return False
        part, ids = (STRANGE, self.strange) if is_strange else (SEEN, self.seen)
        self.put(turn, part, key, self.last)
        for oldest in islice(ids, max(0, len(ids) + 1 - MOST_SEEN)):
            self.drop(turn, part, oldest)
        return True

    def send(self, turn: Turn, reply: Reply, id: str = "") -> Outbound:
        """Record a message with a known place in the outbox; without an id it gets one."""
        fields = {name: getattr(reply, name) for name in Reply.__struct_fields__}
        outbound = Outbound(
            id=id or f"n{secrets.token_hex(12)}", number=self.draw(turn), at=turn.at, **fields
        )
        self.put(turn, OUT, outbound.id, outbound)
        return outbound

    def owe(self, turn: Turn, number: int, operation: str) -> None:
        """Record that this turn does an operation because of a message."""
        self.drop(turn, IN, str(number))
        self.put(turn, OWED, str(number), msgspec.structs.replace(self.inbox[number], operation=operation))

    def were_sent(self, turn: Turn, outbound: Outbound, ids: Iterable[str]) -> None:
        """Record that a message was sent, as one or more messages of the chat's kind."""
        self.drop(turn, OUT, outbound.id)
        fields = {name: getattr(outbound, name) for name in Sent.__struct_fields__}
        for id in ids:
            self.put(turn, SENT, id, Sent(**fields))
        for oldest in islice(self.sent, max(0, len(self.sent) + 1 - MOST_SENT)):
            self.drop(turn, SENT, oldest)

    # --- recorded rows ----------------------------------------------------------------------------------

    def keep(self, row: ResultRow) -> None:
        """Apply a recorded row."""
        part = row.scope.rpartition(" ")[2]
        if part not in _FORMS:
            return
        entries, key = self._parts[part], _key_in(part, row.key)
        form: Any = msgspec.json.decode(row.data, type=_FORMS[part])
        if part in (SEEN, STRANGE):
            entries.setdefault(key, form)
        else:
            entries[key] = form
        if part == OUT:
            self.news.set()

    def lose(self, part: str, key: str) -> None:
        """Apply the removal of a row."""
        if part not in _FORMS:
            return
        self._parts[part].pop(_key_in(part, key), None)
        if part == OUT:
            self.handed.discard(key)
            self.news.set()

    def waiting_of(self, person: str) -> int:
        """The number of a person's messages that wait to be handled."""
        return sum(taken.person == person for taken in self.inbox.values())


class ChatBoxes:
    """The boxes of an agent's chats, by name; only those of the home's own agent are used."""

    def __init__(self, agent: AgentState, clock: Clock) -> None:
        self._agent = agent
        self.clock = clock
        """The clock of the home, by which quiet hours and moments of messages are judged."""
        self.is_followed = False
        """True when the boxes are read and turns are followed."""
        self._boxes: dict[str, ChatBox] = {}
        self.links: dict[str, LinkCode] = {}
        """The codes that link accounts, by person; none of them is recorded."""

    def box(self, name: str) -> ChatBox:
        """The box of a chat, an empty one if nothing is recorded. Raises StoreError."""
        if not self.is_followed:
            self._read()
        if name not in self._boxes:
            self._boxes[name] = ChatBox(name)
        return self._boxes[name]

    def all(self) -> list[ChatBox]:
        """All boxes with recorded rows. Raises StoreError."""
        if not self.is_followed:
            self._read()
        return list(self._boxes.values())

    def hear(self, batch: Batch) -> None:
        """Follow a recorded turn."""
        for key, fact in batch.meta:
            if key.startswith(PREFIX):
                self.box(key.removeprefix(PREFIX)).position = fact.partition(" ")[2]
        for (scope, key), row in batch.results.items():
            if not scope.startswith(PREFIX):
                continue
            if row is not None:
                self.box(_name_in(scope)).keep(row)
            else:
                self.box(_name_in(scope)).lose(scope.rpartition(" ")[2], key)

    def _read(self) -> None:
        store, boxes = self._agent.store, dict[str, ChatBox]()
        for key, fact in self._agent.facts.items():
            if key.startswith(PREFIX):
                last, _, position = fact.partition(" ")
                box = boxes.setdefault(name := key.removeprefix(PREFIX), ChatBox(name))
                box.last, box.position = int(last), position
        for scope in store.scopes():
            if scope.scope.startswith(PREFIX):
                box = boxes.setdefault(name := _name_in(scope.scope), ChatBox(name))
                for row in sorted(store.results(scope.scope), key=_order):
                    box.keep(row)
        at = self.clock.now()
        for box in boxes.values():
            box.handed.update(id for id, outbound in box.outbox.items() if outbound.was_due(at))
        self._boxes, self.is_followed = boxes, True  # both at once: a failed read is retried


def outbox_in(turn: Turn, box: ChatBox) -> dict[str, Outbound]:
    """The messages to send, including the changes of a turn so far."""
    return _altered(turn, box.scope(OUT), box.outbox, Outbound)


def sent_in(turn: Turn, box: ChatBox) -> dict[str, Sent]:
    """The sent messages, including the changes of a turn so far."""
    return _altered(turn, box.scope(SENT), box.sent, Sent)


def _altered(turn: Turn, scope: str, entries: Mapping[str, Form], form: type[Form]) -> dict[str, Form]:
    altered = dict(entries)
    for key, row in turn.transaction.batch.results_in(scope).items():
        if row is not None:
            altered[key] = msgspec.json.decode(row.data, type=form)
        else:
            altered.pop(key, None)
    return altered


def _key_in(part: str, key: str) -> int | str:
    """The key of an entry of a part: messages to handle have numbers."""
    return int(key) if part in (IN, OWED) else key


def _order(row: ResultRow) -> tuple[int, str]:
    """The sort key of a row: its number (0 if it has none), then its key."""
    try:
        form = msgspec.json.decode(row.data)
    except msgspec.DecodeError:
        return 0, row.key
    number = form if isinstance(form, int) else form.get("number", 0)
    return number, row.key


def _name_in(scope: str) -> str:
    return scope.removeprefix(PREFIX).rpartition(" ")[0]
