"""Forwarding: the row that represents a peer forwards the peer's messages to agents here, or returns them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from narval.agent.turn import Turn
from narval.core.agent_name import AT, peer_of
from narval.core.elements.error_element import make_error
from narval.core.errors import UnreadableError
from narval.daemon.links.arriving import PEER_RESTORED, data_for_receiver, envelope_here
from narval.daemon.links.frame import Message
from narval.daemon.links.protocol import Difference, LinkState, Meeting
from narval.daemon.links.sent import SentMessages
from narval.daemon.messages.contract import Refusal
from narval.daemon.messages.envelope import ELEMENT, RECEIPT, UNDELIVERED, Envelope, Outgoing
from narval.daemon.messages.outbox import Outbox
from narval.daemon.messages.remote_calls import CALL, RETURNED
from narval.daemon.messages.undelivered import given_back, undelivered_notice
from narval.store.batch import AgentRow, MessageRow

log = logging.getLogger("narval.links")

ANSWERS = (UNDELIVERED, RECEIPT, RETURNED)
"""Kinds of messages that answer a message and have its id."""

MOST_OF_BACKUP = 2
"""The most differences of a sender when a link begins: lost messages, and messages that come again."""


class PassingOn:
    """Forwards a peer's messages, in the turn that counts them; `home` is the name of the home's own agent.

    `freed` is called with a sender there as soon as a receiver here has room again.
    """

    def __init__(
        self,
        home: str,
        outbox: Outbox,
        sent: SentMessages,
        freed: Callable[[str], None],
    ) -> None:
        self._home, self._outbox, self._sent, self._freed = home, outbox, sent, freed
        self._row, self._peer, self._office = outbox.sender, peer_of(outbox.sender.name), outbox.office
        self._of_backups: Counter[tuple[Meeting, str]] = Counter()
        """The number of notices of a restored backup, by beginning of the link and id of the receiver."""

    def take(self, turn: Turn, state: LinkState, link: str, message: Message) -> bool:
        """Forward a message to its receiver here; `link` is the id that the peer has given the link.

        A message that cannot be taken is returned, and counts as taken. Return False, with nothing done, if
        the receiver has no room for it.
        """
        if (message.sender_id == link) != (message.sender == ""):
            return True  # no agent there has that name and that id
        if message.kind in ANSWERS:
            asking = message.id.partition(".")[0]
            receiver = self._office.addresses.find_same(message.to, asking)
            if receiver is None or not self._is_expected(state, asking, message):
                return True  # the asker is gone, or has never asked
        elif (refusal := self._refusal(message)) is not None:
            self._give_back(turn, message, refusal)
            return True
        else:
            receiver = self._office.addresses.find(message.to)
        try:
            data, envelope = data_for_receiver(message), envelope_here(message, self._peer)
        except UnreadableError as error:
            data, envelope = Refusal("unreadable", str(error)), Envelope("", "")
        if isinstance(data, Refusal) or receiver is None:
            nobody = Refusal("unknown-agent", f"there is no agent {message.to} there")
            self._give_back(turn, message, data if isinstance(data, Refusal) else nobody)
            return True
        decided = self._outbox.in_turn(turn, receiver)
        if self._office.room.lacking(receiver, self._row.agent, 1, len(data), decided):
            sender_id = message.sender_id
            state.held.add(sender_id)
            free = partial(self._freed, sender_id)
            self._office.room.wait(receiver.agent, self._row.agent, f"link.{sender_id}", free)
            return False
        if _is_of_backup(message):
            self._of_backups[state.met, receiver.id] += 1
        elif message.kind in (UNDELIVERED, RETURNED) and self._sent.may_be_answered(message.id):
            self._sent.answered(turn, message.id)
        passed = Outgoing(message.kind, message.id, envelope, data)
        self._outbox.pass_on(turn, receiver, passed, message.until)
        return True

    def _is_expected(self, state: LinkState, asking: str, message: Message) -> bool:
        """True if an answer to an agent here, by its id, is expected. An asker knows what it waits for. A
        sender is always notified that its message was not taken, so such a notice is accepted once for each
        message.
        """
        if message.kind != UNDELIVERED:
            return bool(state.out.sent.get(asking))
        if _is_of_backup(message):
            return self._of_backups[state.met, asking] < MOST_OF_BACKUP
        return self._sent.may_be_answered(message.id)

    def report(self, turn: Turn, difference: Difference, name: str) -> None:
        """Notify the home's own agent, and the sender there named `name`, of what a backup has lost."""
        sender_id, first, last, what = difference
        numbers = f"message {first}" if first == last else f"messages {first} to {last}"
        whose = f"{numbers} of {name}{AT}{self._peer}" if name else f"{numbers} of {self._peer} itself"
        if what == "lost":
            here = f"a backup of this home was put back: {whose} are lost, which it had taken"
            there = (
                f"a backup of the other home was put back: {numbers} of {name} are lost, which it had taken"
            )
        else:
            here = (
                f"a backup of {self._peer} was put back: this home has {whose}, and there they are forgotten"
            )
            there = f"a backup of this home was put back: the other home has {numbers} of {name} of before"
        log.error("the link with %s: %s", self._peer, here)
        own = self._office.addresses.find(self._home)
        if own is not None:
            notice = make_error(
                PEER_RESTORED, here, peer=self._peer, sender=name, first=first, last=last, what=what
            )
            self._notify(turn, own, own.id, difference, notice)
        if name:
            notice = make_error(PEER_RESTORED, there, sender=name, first=first, last=last, what=what)
            self._notify(turn, self._there(name), sender_id, difference, notice)

    def _notify(self, turn: Turn, to: AgentRow, id: str, difference: Difference, notice: bytes) -> None:
        message_id = f"{id}.{PEER_RESTORED}-{difference.first}-{difference.last}"
        told = Outgoing(UNDELIVERED, message_id, self._outbox.envelope(), notice)
        self._outbox.send(turn, to, told)

    def _refusal(self, message: Message) -> Refusal | None:
        """The reason why a message that is not an answer is not forwarded."""
        if not message.sender or not message.id.startswith(f"{message.sender_id}."):
            return Refusal("invalid", "its id is not one of its sender")
        if not self._office.addresses.may_write(message.to, self._peer):
            return Refusal("not-granted", f"agents of the other home may not write to {message.to}")
        return None

    def _give_back(self, turn: Turn, message: Message, refusal: Refusal) -> None:
        """Notify a sender that its message cannot be taken here."""
        log.warning("%s from %s%s%s: %s", message.kind, message.sender, AT, self._peer, refusal)
        if message.kind not in (ELEMENT, CALL) or not message.sender:
            return
        try:
            of = envelope_here(message, self._peer)
        except UnreadableError:
            of = Envelope("", message.sender_id)
        row = MessageRow(
            0, 0, message.number, message.id, message.kind, turn.at, message.until, b"", message.data
        )
        letter = given_back(row, message.to, of, str(refusal))
        back = replace(self._outbox.envelope(of.run, of.step), letter=letter)
        notice = undelivered_notice(message.to, of, refusal)
        told = Outgoing(UNDELIVERED, message.id, back, notice)
        self._outbox.send(turn, self._there(message.sender), told)

    def _there(self, name: str) -> AgentRow:
        """The row for writing to an agent of the peer."""
        return self._row._replace(name=f"{name}{AT}{self._peer}")


def _is_of_backup(message: Message) -> bool:
    """True for a notice of what a restored backup has lost."""
    is_told = message.kind == UNDELIVERED and not message.sender
    return is_told and message.id.partition(".")[2].startswith(f"{PEER_RESTORED}-")
