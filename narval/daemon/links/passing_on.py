"""Forwarding: the row that represents a peer forwards the peer's messages to agents here, or returns them.

Nothing in a message is trusted, because only the peer vouches for it.
"""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

from msgspec.structs import replace

from narval.agent.turn import Turn
from narval.core.agent_name import AT, peer_of
from narval.core.elements.canonical import canonical
from narval.core.elements.element import local_name, parse
from narval.core.elements.own_elements import make_error
from narval.core.errors import ElementError, UnreadableError
from narval.core.memory.labels import ANY_MODEL, FIXED, HOOK, MODEL, SERVER, WHETHER
from narval.daemon.links.frame import Message
from narval.daemon.links.protocol import Difference, LinkState, Meeting
from narval.daemon.links.sent import SentMessages
from narval.daemon.messages import remote_calls
from narval.daemon.messages.delivery_reports import given_back, undelivered_notice
from narval.daemon.messages.envelope import (
    ELEMENT,
    RECEIPT,
    UNDELIVERED,
    Envelope,
    Outgoing,
    Refusal,
    seal,
    unseal,
)
from narval.daemon.messages.kinds import WITHDRAW
from narval.daemon.messages.outbox import Outbox
from narval.daemon.messages.remote_calls import CALL, RETURNED
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
        are = "is" if first == last else "are"
        whose = f"{numbers} of {name}{AT}{self._peer}" if name else f"{numbers} of {self._peer} itself"
        if what == "lost":
            restored = "home was put back, which had taken"
            here = f"a backup of this {restored} {whose}: {numbers} {are} lost"
            there = f"a backup of the other {restored} {numbers} of {name}: {numbers} {are} lost"
        else:
            has = f"this home has {whose}, which it has forgotten"
            here = f"a backup of {self._peer} was put back: {has}"
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
        message = Outgoing(UNDELIVERED, message_id, self._outbox.envelope(), notice)
        self._outbox.send(turn, to, message)

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
        message_back = Outgoing(UNDELIVERED, message.id, back, notice)
        self._outbox.send(turn, self._there(message.sender), message_back)

    def _there(self, name: str) -> AgentRow:
        """The row for writing to an agent of the peer."""
        return self._row._replace(name=f"{name}{AT}{self._peer}")


def _is_of_backup(message: Message) -> bool:
    """True for a notice of what a restored backup has lost."""
    is_told = message.kind == UNDELIVERED and not message.sender
    return is_told and message.id.partition(".")[2].startswith(f"{PEER_RESTORED}-")


# --- what may enter -------------------------------------------------------------------------------------

PEER_RESTORED = "peer-restored"
"""The type of the error element that reports what a restored backup has lost."""

OF_STORE = "agent:"
"""The prefix of the label of what came from another home; the name of the peer follows."""

MOST_LABELS = 32
"""The most labels accepted from a peer with a message."""

MOST_INPUTS = 100_000
"""The most elements that a message may name as its sources."""

_CHAT = "chat"
_LABEL = re.compile(r"[a-z]{1,20}(:[\w.*@/-]{1,80})?", re.ASCII)


def data_for_receiver(message: Message) -> bytes | Refusal:
    """The data of a message in the form for a receiver here, or the reason why it cannot be taken."""
    fit = _FITTED.get(message.kind)
    if fit is None:
        return Refusal("unknown-kind", f"this version of narval takes no messages of kind {message.kind}")
    if message.until is not None and not math.isfinite(message.until):
        return Refusal("invalid", "its deadline is not a valid time")
    try:
        return fit(message.data)
    except ElementError as error:
        return Refusal("invalid", str(error))
    except UnreadableError as error:
        return Refusal("unreadable", str(error))


def envelope_here(message: Message, peer: str) -> Envelope:
    """The envelope of a message of a peer, without its statements about people and about third parties.

    Raises UnreadableError.
    """
    said = unseal(message.envelope)
    if len(said.inputs) + len(said.made_from) > MOST_INPUTS:
        raise UnreadableError(f"it is said to be made of more than {MOST_INPUTS:,} elements")
    return replace(
        said,
        sender=f"{message.sender}{AT}{peer}",
        sender_id=message.sender_id,
        by="",
        actor="",
        hearsay=False,
        labels=_labels(peer, said),
        came_from=(),
        to="",
    )


def _labels(peer: str, said: Envelope) -> tuple[str, ...]:
    """The labels of what a peer sends: one for the peer itself, and those that it names. Its labels for
    secrets, for parts, and for homes beyond it are dropped.
    """
    labels = (label.removesuffix(WHETHER) for label in said.labels)
    ways = [
        label
        for label in labels
        if _LABEL.fullmatch(label)
        and (label in FIXED or label == _CHAT or label.startswith((HOOK, MODEL, SERVER)))
    ][:MOST_LABELS]
    if said.hearsay:
        ways.append(ANY_MODEL)
    return (f"{OF_STORE}{peer}", *dict.fromkeys(ways))


def _error(data: bytes) -> bytes:
    fit = canonical(data)
    root = parse(fit)
    if local_name(root.tag) != "error" or root.get("type") not in (UNDELIVERED, PEER_RESTORED):
        raise ElementError("invalid", "expected an error element that tells of a message")
    return fit


def _call(data: bytes) -> bytes:
    asked = remote_calls.read_asked(data)
    if not math.isfinite(asked.until):
        raise UnreadableError("its deadline is not a valid time")
    depth = min(max(asked.depth, 0), remote_calls.MOST_DEEP + 1)
    return seal(replace(asked, elements=tuple(map(canonical, asked.elements)), depth=depth))


def _reply(data: bytes) -> bytes:
    reply = remote_calls.read_reply(data)
    return seal(replace(reply, elements=tuple(map(canonical, reply.elements))))


def _nothing(_: bytes) -> bytes:
    return b""


_FITTED: Mapping[str, Callable[[bytes], bytes]] = {
    ELEMENT: canonical,
    UNDELIVERED: _error,
    RECEIPT: _nothing,
    remote_calls.CALL: _call,
    remote_calls.CANCEL: _nothing,
    remote_calls.RETURNED: _reply,
    WITHDRAW: lambda data: data,
}
"""Conversions of the data of each kind of message to the form of a message sent here."""
