"""Delivery reports to senders: an element and a letter for an undelivered message, a receipt for a call that
waits until its elements are taken (G27, G32).
"""

from __future__ import annotations

import math
from typing import Annotated

import msgspec
from lxml import etree

from narval.agent.turn import Turn
from narval.calls.leaving import addressed
from narval.core.agent_name import AT, peer_of
from narval.core.elements.canonical import canonical
from narval.core.elements.element import parse
from narval.core.elements.own_elements import make_error
from narval.core.engines.commands import Call
from narval.core.engines.events import Failure, Returned
from narval.core.errors import ActionError, UnreadableError
from narval.daemon.messages.envelope import Envelope, Refusal, seal
from narval.daemon.messages.outbox import Outbox
from narval.store.batch import AgentRow, DeadLetterRow, MessageRow, ResultRow
from narval.store.codec import reader

LONGEST = 16 * 1024 * 1024
"""The most bytes of a message that another home returns; a longer one is not kept."""

_Number = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
_Word = Annotated[str, msgspec.Meta(pattern=r"^[^\x00]{0,2000}\Z")]
"""A text that every store can hold."""


class Letter(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message that no agent has taken, as in its row and its envelope, with the reason."""

    to: Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_-]{0,62}\Z")]
    """The name of its receiver, without the home."""
    number: _Number
    """Its number among those of the pair."""
    id: _Word
    """Its id."""
    kind: Annotated[str, msgspec.Meta(pattern=r"^[a-z-]{1,40}\Z")]
    """Its kind."""
    reason: _Word
    """The reason why it was not taken."""
    until: float | None
    """The moment until which it could wait; None for no limit."""
    run: _Number
    """The run that sent it."""
    step: _Word
    """The step that sent it."""
    inputs: tuple[_Number, ...]
    """The eids of what was sent."""
    data: bytes
    """The content of the message."""


_read = reader("a message that came back", Letter)


def given_back(row: MessageRow, to: str, of: Envelope, reason: str) -> bytes:
    """The letter that returns a message to another home; b"" for one that is too long."""
    if len(row.data) > LONGEST:
        return b""
    return seal(
        Letter(to, row.number, row.id, row.kind, reason, row.until, of.run, of.step, of.inputs, row.data)
    )


def keep_letter(turn: Turn, sender: AgentRow, peer: str, id: str, data: bytes) -> None:
    """Keep a message of `sender` that a peer returned as a dead letter. Raises UnreadableError."""
    letter = _read(data)
    if letter.id != id or not id.startswith(f"{sender.id}."):
        raise UnreadableError(f"a returned message is not of {sender.name}")
    if letter.until is not None and not math.isfinite(letter.until):
        raise UnreadableError("a returned message has an invalid deadline")
    envelope = Envelope(sender.name, sender.id, letter.run, letter.step, letter.inputs)
    turn.transaction.batch.dead_letters.append(
        DeadLetterRow(
            sender.agent,
            f"{letter.to}{AT}{peer}",
            letter.number,
            letter.id,
            letter.kind,
            letter.reason,
            turn.at,
            letter.until,
            seal(envelope),
            letter.data,
        )
    )


def undelivered_notice(receiver: str, envelope: Envelope, refusal: Refusal) -> bytes:
    """The error element for a sender whose message was not taken (G32)."""
    return make_error(
        "undelivered",
        f"{receiver} did not take it: {refusal.message}",
        receiver=receiver,
        element=envelope.inputs[0] if envelope.inputs else None,
        reason=refusal.kind,
        plan=envelope.run or None,
        step=envelope.step,
    )


def notice_of_peer(data: bytes, peer: str) -> bytes:
    """The error element that a peer sent, which names the peer, and its agent as it is called here."""
    root = parse(data)
    receiver = root.get("receiver", "")
    if receiver:
        root.set("receiver", f"{receiver}{AT}{peer}")
        message = root.find("message")
        if message is not None and (message.text or "").startswith(f"{receiver} "):
            message.text = f"{receiver}{AT}{peer}{(message.text or '')[len(receiver) :]}"
    else:
        root.set("peer", peer)
    return canonical(etree.tostring(root, encoding="utf-8"))


AWAITED = "awaited"
"""The prefix of a scope of results, followed by the id of a call. The scope has the messages to other homes
that have no receipt yet, each with its peer.
"""


def await_receipt(turn: Turn, call: str, id: str, peer: str) -> None:
    """Wait for the receipt of a message of a call to another home, where it may wait for long."""
    turn.transaction.batch.put_result(ResultRow(f"{AWAITED} {call}", id, turn.at, peer.encode()))


def _is_sent_to(turn: Turn, id: str, sender: str) -> bool:
    """Record that a message is taken, or is not, as its receiver reports; False for one that was not sent to
    an agent of that home.
    """
    if not peer_of(sender):
        return True
    scope, batch = f"{AWAITED} {_call_of(id)}", turn.transaction.batch
    waiting = turn.agent.store.results_of(scope, (id,))
    if not waiting or waiting[0].data != peer_of(sender).encode():
        return False
    batch.drop_result(scope, id)
    return True


def _receipts_wanted(turn: Turn, call: str) -> bool:
    """True while a receipt from another home is awaited."""
    scope = f"{AWAITED} {call}"
    in_turn = turn.transaction.batch.results_in(scope)
    return any(in_turn.values()) or any(row.key not in in_turn for row in turn.agent.store.results(scope))


def _call_of(id: str) -> str:
    """The external id of the call that sent a message."""
    return id.partition("/")[0]


def is_awaited(outbox: Outbox, turn: Turn, call: Call) -> bool:
    """True while a message of a call is not taken."""
    sender, office = outbox.sender, outbox.office
    id = f"{sender.id}.{call.call}"
    try:
        names = {name for name, _ in addressed(turn.agent.memory, call)}
    except ActionError:
        return False  # the elements are forgotten, with their receivers
    if any(map(peer_of, names)) and _receipts_wanted(turn, id):
        return True
    receivers = [
        row for name in names if not peer_of(name) and (row := office.addresses.find(name)) is not None
    ]
    return any(
        _call_of(waiting) == id
        for receiver in receivers
        for waiting in office.letters.ids(receiver.agent, sender.agent)
    )


def settle_call(
    outbox: Outbox, turn: Turn, run: int, id: str, problem: Failure | None = None, *, sender: str
) -> None:
    """Answer the call that sent a message, if it waits for that and none of its other messages is pending.

    `id` is that of the message, `problem` the reason why it could not be taken, `sender` the agent that
    reports.
    """
    if not _is_sent_to(turn, id, sender):
        return
    waiting = turn.agent.runs.active.get(run)
    call = waiting.calls.get(_call_of(id).partition(".")[2]) if waiting is not None else None
    if call is not None and call.begun and (problem is not None or not is_awaited(outbox, turn, call)):
        turn.tell(run, Returned(0, 0.0, call.call, problem=problem))
