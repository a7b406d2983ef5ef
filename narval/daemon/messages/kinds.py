"""Kinds of messages: the receiver's work for each, in the turn that takes it.

A new kind is a function and a row of `KINDS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType

from narval.agent.turn import Turn
from narval.core.agent_name import peer_of
from narval.core.elements.element import Element, Origin
from narval.core.elements.error_element import read_error
from narval.core.elements.reserved import check_name
from narval.core.engines.events import Failure
from narval.core.errors import ElementError, UnreadableError
from narval.daemon.messages.contract import Receiver, Refusal, Take
from narval.daemon.messages.envelope import ELEMENT, RECEIPT, UNDELIVERED, Envelope, stamped
from narval.daemon.messages.receipts import settle_call
from narval.daemon.messages.remote_calls import CALL, CANCEL, RETURNED
from narval.daemon.messages.remote_kinds import take_call, take_cancel, take_return, take_undelivered
from narval.daemon.messages.undelivered import keep_letter
from narval.daemon.messages.withdrawals import WITHDRAW, take_withdrawal
from narval.store.batch import MessageRow


def take_element(receiver: Receiver, turn: Turn, row: MessageRow, envelope: Envelope) -> Refusal | None:
    """Add the element that was sent, if that is allowed and its schema accepts it (G25, G29)."""
    name = Element(0, row.data).name
    refusal = receiver.why_not(envelope, name)
    if refusal is not None:
        return refusal
    try:
        check_name(row.data)
    except ElementError as error:
        return Refusal(error.kind, str(error))
    fault = turn.host_api.schema_fault(row.data)
    if fault is not None:
        return Refusal("invalid", f"refused by its schema: {fault}")
    origin = Origin(
        by=envelope.by,
        actor=envelope.actor,
        agent=envelope.sender,
        message=row.id,
        sent_as=envelope.inputs,
        made_there=envelope.made_from,
        came_from=envelope.came_from,
    )
    turn.add(stamped(row.data, envelope.sender, row.id), origin)
    return None


def take_notice(receiver: Receiver, turn: Turn, row: MessageRow, envelope: Envelope) -> Refusal | None:
    """Add the error element for a message that was not taken (G32); a call that waits for it fails. For a
    call to another agent, only its run is notified.
    """
    found = receiver.calls.waiting(row.id)
    if found is not None and found[1].agent and take_undelivered(receiver, turn, row, envelope.sender):
        return None
    origin = Origin(by=envelope.by, actor=envelope.actor, agent=envelope.sender, message=row.id)
    turn.add(row.data, origin)
    if envelope.letter:
        with suppress(UnreadableError):
            keep_letter(turn, receiver.outbox.sender, peer_of(envelope.sender), row.id, envelope.letter)
    _, why, _ = read_error(Element(0, row.data))
    problem = Failure("undelivered", why, final=True)
    settle_call(receiver.outbox, turn, envelope.run, row.id, problem, sender=envelope.sender)
    return None


def take_receipt(receiver: Receiver, turn: Turn, row: MessageRow, envelope: Envelope) -> Refusal | None:
    """Answer a call that waits until the elements that it sent are taken (G27)."""
    settle_call(receiver.outbox, turn, envelope.run, row.id, sender=envelope.sender)
    return None


KINDS: Mapping[str, Take] = MappingProxyType(
    {
        ELEMENT: take_element,
        UNDELIVERED: take_notice,
        RECEIPT: take_receipt,
        CALL: take_call,
        CANCEL: take_cancel,
        RETURNED: take_return,
        WITHDRAW: take_withdrawal,
    }
)
