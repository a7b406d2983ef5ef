"""Kinds of messages: the receiver's work for each, in the turn that takes it (G25, G33 to G35).

A new kind is a function and a row of `KINDS`.

Every agent that was sent an element, or something made from it, is told after the element itself that it was
withdrawn, is doubtful or was confirmed. A message has the standing of elements that its turn has withdrawn,
doubted or confirmed, or has sent although they are withdrawn or doubtful. A repeated message changes nothing.
Anything made there from several elements is judged by all of them: the receiver stores their standing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Protocol

import msgspec
from msgspec.structs import replace

from narval.agent.agent import OVER_LIMIT
from narval.agent.run import Run
from narval.agent.runs import cannot_start
from narval.agent.trace_ids import is_trace_id
from narval.agent.turn import Turn
from narval.agent.withdrawing import confirm, doubt, withdraw_and_tell
from narval.core.agent_name import peer_of
from narval.core.elements.element import Element, Origin
from narval.core.elements.names import CONTROLS, check_name
from narval.core.elements.own_elements import read_error
from narval.core.engines.commands import Call
from narval.core.engines.events import Caller, Cancelled, Failure
from narval.core.errors import ElementError, UnreadableError
from narval.daemon.messages.delivery_reports import keep_letter, notice_of_peer, settle_call
from narval.daemon.messages.envelope import (
    ELEMENT,
    RECEIPT,
    UNDELIVERED,
    Envelope,
    Outgoing,
    Refusal,
    seal,
    stamped,
)
from narval.daemon.messages.outbox import Outbox
from narval.daemon.messages.remote_calls import (
    CALL,
    CANCEL,
    RETURNED,
    RemoteCalls,
    Reply,
    RunAsked,
    call_key,
    read_asked,
    read_reply,
)
from narval.store.batch import MessageRow, ResultRow
from narval.store.codec import reader


class Receiver(Protocol):
    """An agent that takes a message: what it sends in return, the calls it makes and answers, and what it may
    be sent.
    """

    outbox: Outbox
    calls: RemoteCalls

    def why_not(self, envelope: Envelope, name: str) -> Refusal | None:
        """The reason why that sender may not send it elements of a name (G29); None if it may."""


Take = Callable[[Receiver, Turn, MessageRow, Envelope], Refusal | None]
"""A function that takes a message within a turn, all of it or nothing; or returns why it cannot."""

WITHDRAW = "withdraw"
"""The kind of messages that withdraw what was sent."""

STANDING, BAD = "standing", b"bad"
"""The scope of results for elements of a sender, by its id, from which something here was made together with
others; and the value for those that are withdrawn or doubtful.
"""

_UNREADABLE = "unreadable"


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
    if peer := peer_of(envelope.sender):
        row = row._replace(data=notice_of_peer(row.data, peer))
    run_and_call = receiver.calls.waiting(row.id)
    if (
        run_and_call is not None
        and run_and_call[1].agent
        and take_undelivered(receiver, turn, row, envelope.sender)
    ):
        return None
    origin = Origin(by=envelope.by, actor=envelope.actor, agent=envelope.sender, message=row.id)
    turn.add(row.data, origin)
    if envelope.letter:
        with suppress(UnreadableError):
            keep_letter(turn, receiver.outbox.sender, peer, row.id, envelope.letter)
    _, why, _ = read_error(Element(0, row.data))
    problem = Failure("undelivered", why, final=True)
    settle_call(receiver.outbox, turn, envelope.run, row.id, problem, sender=envelope.sender)
    return None


def take_receipt(receiver: Receiver, turn: Turn, row: MessageRow, envelope: Envelope) -> Refusal | None:
    """Answer a call that waits until the elements that it sent are taken (G27)."""
    settle_call(receiver.outbox, turn, envelope.run, row.id, sender=envelope.sender)
    return None


def take_call(receiver: Receiver, turn: Turn, row: MessageRow, envelope: Envelope) -> Refusal | None:
    """Start the run that answers a call, or answer at once why there is none (G34).

    A call that is already being answered, or that is overdue, starts nothing. Another try of a successful
    call is answered with the earlier result.
    """
    try:
        asked = read_asked(row.data)
    except UnreadableError as error:
        return Refusal(_UNREADABLE, str(error))
    if call_key(row.id, envelope.sender) in turn.agent.runs.by_call or asked.until <= turn.at:
        return None
    problem = receiver.calls.refusal(asked.kind, asked.name, envelope.sender)
    if not problem and receiver.calls.answer_again(turn, envelope.sender, row.id, envelope.run, asked):
        return None
    problem = problem or _cannot_begin(turn, asked) or _refused(receiver, envelope, asked.elements)
    problem = problem or _unfit(turn, asked.elements)
    if problem is None:
        _begin(turn, row, envelope, asked)
    else:
        receiver.calls.reply(turn, envelope.sender, row.id, Reply(envelope.run, problem=problem))
    return None


def take_cancel(receiver: Receiver, turn: Turn, row: MessageRow, envelope: Envelope) -> Refusal | None:
    """Cancel the run that answers a call, unless it has ended (G35); its end is reported to the caller."""
    run = turn.agent.runs.by_call.get(call_key(row.id, envelope.sender))
    if run is not None and row.id.startswith(f"{envelope.sender_id}."):
        turn.tell(run, Cancelled(0, 0.0, f"{envelope.sender} gave it up"))
    return None


def take_return(receiver: Receiver, turn: Turn, row: MessageRow, envelope: Envelope) -> Refusal | None:
    """Deliver the result of a call to another agent to its run (G33)."""
    try:
        reply = read_reply(row.data)
    except UnreadableError as error:
        reply = Reply(0, problem=Failure(_UNREADABLE, str(error)))

    def add(run: Run, call: Call) -> tuple[tuple[int, ...], Failure | None]:
        unfit = _unfit(turn, reply.elements)
        if unfit is not None:
            return (), unfit
        origin = Origin(run.eid, call.step, call.call, agent=envelope.sender, message=row.id)
        return _add_all(turn, row, envelope, reply.elements, origin), reply.problem

    receiver.calls.come_back(turn, row.id, reply.run, envelope.sender, add)
    return None


def take_undelivered(receiver: Receiver, turn: Turn, row: MessageRow, sender: str) -> bool:
    """Tell a run that its call could not be taken; False if the message was not a call of a run."""
    if receiver.calls.waiting(row.id) is None:
        return False
    _, message, _ = read_error(Element(0, row.data))
    receiver.calls.come_back(turn, row.id, 0, sender, lambda run, call: ((), Failure("undelivered", message)))
    return True


def _begin(turn: Turn, row: MessageRow, envelope: Envelope, asked: RunAsked) -> None:
    origin = Origin(by=envelope.by, actor=envelope.actor, agent=envelope.sender, message=row.id)
    eids = _add_all(turn, row, envelope, asked.elements, origin)
    caller = Caller(
        0, envelope.step, call_key(row.id, envelope.sender), (), envelope.sender, envelope.run, asked.depth
    )
    caller = replace(caller, trace=asked.trace if is_trace_id(asked.trace) else "", digest=asked.digest)
    begun = turn.start(
        asked.name, eids, kind=asked.kind, caller=caller, environment=asked.environment, origin=origin
    )
    assert begun is not None, "it was seen that one can begin"


def _add_all(
    turn: Turn, row: MessageRow, envelope: Envelope, elements: tuple[bytes, ...], origin: Origin
) -> tuple[int, ...]:
    """Add the elements that came with a call or its result; each records its eid at the sender."""
    there = envelope.inputs if len(envelope.inputs) == len(elements) else ()  # older messages lack them
    origin = replace(origin, came_from=envelope.came_from)
    origins = [replace(origin, sent_as=(eid,)) for eid in there] or [origin] * len(elements)
    stamps = (stamped(xml, envelope.sender, row.id) for xml in elements)
    return tuple([turn.add(xml, of) for xml, of in zip(stamps, origins, strict=True)])


def _cannot_begin(turn: Turn, asked: RunAsked) -> Failure | None:
    definition = turn.agent.lookup.definition(None, asked.kind, asked.name)
    if definition is None:
        return Failure("unknown-target", f"there is no {asked.kind} named {asked.name}")
    if (refused := cannot_start(turn.agent, definition)) is not None:
        return Failure(*refused, final=True)
    over = turn.agent.excess_of_runs()
    return Failure(OVER_LIMIT, over) if over else None


def _refused(receiver: Receiver, envelope: Envelope, elements: tuple[bytes, ...]) -> Failure | None:
    """The reason why an agent may not be sent the elements of a call; None if there is none."""
    refusals = (receiver.why_not(envelope, Element(0, xml).name) for xml in elements)
    refusal = next((refusal for refusal in refusals if refusal is not None), None)
    return None if refusal is None else Failure(refusal.kind, refusal.message, final=True)


def _unfit(turn: Turn, elements: tuple[bytes, ...]) -> Failure | None:
    """The first reason why elements of another agent cannot enter memory; None if there is none."""
    for xml in elements:
        name = Element(0, xml).name
        if name in CONTROLS:
            return Failure("not-granted", f"a call has no {name}", final=True)
        try:
            check_name(xml)
        except ElementError as error:
            return Failure(error.kind, str(error), final=True)
        fault = turn.host_api.schema_fault(xml)
        if fault is not None:
            return Failure("invalid", f"{name} is refused by its schema: {fault}", final=True)
    return None


# --- withdrawals ------------------------------------------------------------------------------------------


class TakenBack(msgspec.Struct, frozen=True, omit_defaults=True):
    """The standing of elements that a receiver was sent, by their eids at the sender: the withdrawn ones with
    the reason, the doubtful ones, and the confirmed ones.
    """

    withdrawn: dict[int, str] = {}
    doubtful: tuple[int, ...] = ()
    confirmed: tuple[int, ...] = ()


_read = reader("a withdrawal", TakenBack)


def send_withdrawals(turn: Turn, outbox: Outbox) -> None:
    """Notify the agents that were sent elements that this turn has withdrawn, doubted or confirmed."""
    memory, receivers = turn.agent.memory, turn.transaction.taken_back
    for name, concerned in receivers.items():
        receiver = outbox.office.addresses.find(name)
        if receiver is None:
            continue  # it is gone, with everything that it was sent
        what = TakenBack(
            {eid: memory.withdrawn[eid] for eid in sorted(concerned & memory.withdrawn.keys())},
            tuple(sorted(concerned & memory.doubtful)),
            tuple(sorted(concerned - memory.withdrawn.keys() - memory.doubtful)),
        )
        id = f"{outbox.sender.id}.{turn.agent.numbers.draw()}"
        outbox.send(turn, receiver, Outgoing(WITHDRAW, id, outbox.envelope(), seal(what)))
    receivers.clear()


def take_withdrawal(receiver: Receiver, turn: Turn, row: MessageRow, envelope: Envelope) -> Refusal | None:
    """Withdraw, doubt or confirm what was made of these elements here, by their standing at the sender."""
    try:
        what = _read(row.data)
    except UnreadableError as error:
        return Refusal(_UNREADABLE, str(error))
    memory = turn.agent.memory
    for _ in memory.descent.reading:
        pass
    origin = Origin(by=envelope.by, actor=envelope.actor, agent=envelope.sender, message=row.id)
    ids = (f"{envelope.sender_id}.", f"{receiver.outbox.sender.id}.")
    by_reason: dict[str, list[int]] = {}
    doubtful, confirmed = list[int](), list[int]()
    named = (*what.withdrawn, *what.doubtful, *what.confirmed)
    concerned = {eid for there in named for eid in memory.descent.received(envelope.sender, there)}
    origins: dict[int, Origin] = {}
    for eid in sorted(concerned):
        element = memory.element(eid)
        if element is not None and element.origin is not None and element.origin.message.startswith(ids):
            origins[eid] = element.origin  # else it is from another agent that had this name before
    bad = {*what.withdrawn, *what.doubtful, *_bad_before(turn, envelope.sender_id, origins.values(), what)}
    for eid, origin_there in origins.items():
        copy_of = origin_there.sent_as[0] if origin_there.sent_as else 0
        if copy_of in what.withdrawn:
            by_reason.setdefault(what.withdrawn[copy_of], []).append(eid)
        elif _is_doubtful(origin_there, what, bad):
            doubtful.append(eid)
        else:
            confirmed.append(eid)
    for why, eids in by_reason.items():
        withdraw_and_tell(turn, tuple(eids), f"{envelope.sender} withdrew it: {why}", origin)
    doubt(turn.transaction, tuple(doubtful))
    confirm(turn.transaction, tuple(confirmed), f"{envelope.sender} confirmed it", origin)
    return None


def _is_doubtful(origin: Origin, what: TakenBack, bad: set[int]) -> bool:
    """True for a copy of a doubtful element, and for anything made there only from such elements."""
    if origin.sent_as:
        return origin.sent_as[0] in what.doubtful
    return bad.issuperset(origin.made_there)


def _bad_before(turn: Turn, sender: str, origins: Iterable[Origin], what: TakenBack) -> Iterator[int]:
    """The elements there that were withdrawn or doubtful by earlier messages, among those from which
    something was made together with others; their present standing is stored.
    """
    together = {there for origin in origins if len(origin.made_there) > 1 for there in origin.made_there}
    if not together:
        return
    scope, batch = f"{STANDING} {sender}", turn.transaction.batch
    now = dict.fromkeys((*what.withdrawn, *what.doubtful), BAD) | dict.fromkeys(what.confirmed, b"")
    others = sorted(map(str, together - now.keys()))
    standing = {row.key: row.data for row in (turn.agent.store.results_of(scope, others) if others else ())}
    standing |= {key: row.data for key, row in batch.results_in(scope).items() if row is not None}
    for there in sorted(together & now.keys()):
        batch.put_result(ResultRow(scope, str(there), turn.at, now[there]))
    yield from (int(key) for key, data in standing.items() if data and int(key) not in now)


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
