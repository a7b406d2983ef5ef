"""Kinds of messages: what a receiver does with each, in the turn that takes it.

A new kind is a function and a row of `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol

from narval.errors import ElementError
from narval.memory.elements.element import Element, Origin
from narval.memory.elements.reserved import check_name
from narval.runtime.agent.turn import Turn
from narval.runtime.messages.envelope import ELEMENT, UNDELIVERED, Envelope
from narval.runtime.messages.outbox import Outbox
from narval.runtime.messages.stamp import stamped
from narval.runtime.store.batch import AgentRow, MessageRow


class Refusal(NamedTuple):
    """The reason why a message cannot be taken: a stable word, and words for people."""

    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


class Receiver(Protocol):
    """An agent that takes a message: who it is, what it may be sent, and what it sends in turn."""

    identity: AgentRow
    outbox: Outbox

    def why_not(self, envelope: Envelope, name: str) -> Refusal | None:
        """The reason why it is not to be sent elements of a name by that sender (G29); None if it may be."""


Take = Callable[[Receiver, Turn, MessageRow, Envelope], Refusal | None]
"""Takes a message within a turn, all of it or nothing; or gives the reason why it cannot be taken."""


def take_element(receiver: Receiver, turn: Turn, row: MessageRow, envelope: Envelope) -> Refusal | None:
    """Add the element that somebody sent, if it may be sent and its schema accepts it (G25, G29)."""
    name = Element(0, row.data).name
    refusal = receiver.why_not(envelope, name)
    if refusal is not None:
        return refusal
    try:
        check_name(row.data)
    except ElementError as error:
        return Refusal(error.kind, str(error))
    fault = turn.surroundings.schema_fault(row.data)
    if fault is not None:
        return Refusal("invalid", f"refused by its schema: {fault}")
    turn.add(stamped(row.data, envelope.sender, row.id), _origin(row, envelope))
    return None


def take_notice(receiver: Receiver, turn: Turn, row: MessageRow, envelope: Envelope) -> Refusal | None:
    """Add the error element that tells of a message that could not be taken (G32)."""
    turn.add(row.data, _origin(row, envelope))
    return None


def _origin(row: MessageRow, envelope: Envelope) -> Origin:
    return Origin(by=envelope.by, actor=envelope.actor, agent=envelope.sender, message=row.id)


KINDS: Mapping[str, Take] = MappingProxyType({ELEMENT: take_element, UNDELIVERED: take_notice})
