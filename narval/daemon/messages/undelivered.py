"""Undelivered messages: the element that notifies the sender, and the letter that another home returns."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec

from narval.agent.turn import Turn
from narval.core.agent_name import AT
from narval.core.elements.error_element import make_error
from narval.core.errors import UnreadableError
from narval.daemon.messages.contract import Refusal
from narval.daemon.messages.envelope import Envelope, seal
from narval.store.batch import AgentRow, DeadLetterRow, MessageRow
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
