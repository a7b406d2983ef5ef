"""Agent mail: the messages that one active agent sends and takes.

Calls of kind `send` are answered in the turn that records what they send (G24, G27).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, count
from typing import Any

from msgspec.structs import replace

from narval.agent.agent import AgentState
from narval.agent.declared import declared_names
from narval.agent.loop import Delivery, Request
from narval.agent.run import Run
from narval.agent.transaction import inherit
from narval.agent.turn import Turn
from narval.calls.leaving import addressed
from narval.core.agent_name import AT, is_meant, peer_of, stands_for_peer
from narval.core.elements.element import Element, Origin, local_name
from narval.core.elements.names import CONTROLS
from narval.core.engines.commands import Call
from narval.core.engines.events import CallStarting, Failure, Produced, Returned
from narval.core.errors import ActionError, RequestError, StoreAwayError, UnreadableError
from narval.core.memory.labels import recorded
from narval.core.memory.lineage import is_source
from narval.daemon.messages.delivery_reports import await_receipt, given_back, is_awaited, undelivered_notice
from narval.daemon.messages.envelope import (
    ELEMENT,
    OVERDUE,
    RECEIPT,
    UNDELIVERED,
    Envelope,
    Outgoing,
    Refusal,
    seal,
    unseal,
)
from narval.daemon.messages.kinds import KINDS, send_withdrawals
from narval.daemon.messages.mailbox import Mailbox
from narval.daemon.messages.outbox import Outbox
from narval.daemon.messages.post_office import PostOffice
from narval.daemon.messages.remote_calls import CALL, RemoteCalls
from narval.files.agents.settings import EVERYBODY, AgentSettings
from narval.store.batch import STORE, AgentRow, DeadLetterRow, MessageRow, TakenRow

log = logging.getLogger("narval.messages")


_OF_THE_POST = (UNDELIVERED, RECEIPT)
"""Kinds that notify a sender about its own message: they have no senders to notify."""


class AgentMail:
    """The outbox and the mailbox of one activation, and its calls to other agents.

    `post` posts something for its next turn; `settings` are those of the agent.
    """

    def __init__(
        self,
        agent: AgentState,
        identity: AgentRow,
        office: PostOffice,
        post: Callable[[Delivery | Request], None],
        settings: AgentSettings,
    ) -> None:
        self.office, self._settings, self.post = office, settings, post
        self.outbox = Outbox(identity, office)
        self.calls = RemoteCalls(agent, self.outbox, lambda: self._settings.offers)
        self.mailbox = Mailbox(identity.agent, office, post, self._receive)
        self.waiting: dict[str, str] = {}
        """The calls that wait for room, each with what it waits for."""
        self._agent = agent
        self._declared: tuple[int, frozenset[str]] = (-1, frozenset())
        """The number of changes of the elements that its files declare, and their names then."""

    @property
    def identity(self) -> AgentRow:
        """The agent, under its present name."""
        return self.outbox.sender

    def use_settings(self, settings: AgentSettings) -> None:
        """Use other settings from now on; they may make room for messages that wait."""
        self._settings = settings
        if self.mailbox.is_held:
            self.mailbox.try_again()

    def correspond(self, turn: Turn) -> None:
        """Send what a turn asks of other agents, its answers, and withdrawals of what they were sent."""
        self.calls.correspond(turn)
        if turn.transaction.taken_back:
            send_withdrawals(turn, self.outbox)

    def why_not(self, envelope: Envelope, name: str) -> Refusal | None:
        """The reason why this agent may not be sent elements of a name (G29); None if it may be."""
        rules, local = self._settings.receives, local_name(name) or name
        accepted = [rule.elements for rule in rules or () if is_meant(rule.sender, envelope.sender)]
        if any(local in elements for elements in accepted):
            return None
        if name in self._declared[1]:
            why = f"{self.identity.name} declares its {local} itself, in data/memory.xml"
        elif name not in CONTROLS and (
            any(EVERYBODY in elements for elements in accepted)
            or (rules is None and AT not in envelope.sender)
        ):
            return None
        else:
            refused = f"{self.identity.name} takes no {local} from {envelope.sender}"
            why = f"{refused}: no rule of its `receives` names it"
        return Refusal("not-granted", why)

    def send(self, turn: Turn, name: str, message: Outgoing, keep: float | None = None) -> None:
        """Send a message to an agent by its name, to wait for at most `keep` seconds (None: by the settings).
        If there is no such agent, it becomes a dead letter at once.
        """
        until = turn.at + (self._settings.keep if keep is None else keep)
        receiver = self.office.addresses.find_for(self.identity.name, name)
        if receiver is not None:
            self.outbox.send(turn, receiver, message, until)
            return
        kind, id, envelope, data = message
        refusal = Refusal("unknown-agent", self.office.addresses.why_not(self.identity.name, name))
        row = MessageRow(0, self.identity.agent, 0, id, kind, turn.at, until, seal(envelope), data)
        turn.transaction.batch.dead_letters.append(_dead(row, name, refusal, turn.at))
        eid = turn.add(undelivered_notice(name, envelope, refusal), Origin(agent=name, message=id))
        inherit(turn.transaction, eid, (envelope.run, *envelope.inputs))

    def lacking(self, turn: Turn, sent: Iterable[tuple[str, bytes]]) -> tuple[AgentRow, str] | None:
        """A receiver whose mailbox has no room for what is sent, and what that waits for (G31); None if there
        is room for all. While the store is away no mailbox has room.
        """
        many: dict[str, int] = {}
        size: dict[str, int] = {}
        for name, xml in sent:
            many[name] = many.get(name, 0) + 1
            size[name] = size.get(name, 0) + len(xml)
        for name in many:
            try:
                receiver = self.office.addresses.find_for(self.identity.name, name)
                if receiver is not None:
                    self.outbox.know(receiver)
            except StoreAwayError:
                return AgentRow(STORE, "", name), f"the row of {name}: the store is unreachable"
            if receiver is not None:
                decided = self.outbox.in_turn(turn, receiver)
                more = many[name], size[name], decided
                lacks = self.office.room.lacking(receiver, self.identity.agent, *more)
                if lacks:
                    return receiver, lacks
        return None

    def wait(self, receiver: AgentRow, what: str, call: str, retry: Callable[[], None]) -> None:
        """Call `retry` as soon as a receiver has room for more; until then `call` waits for `what`."""

        def again() -> None:
            self.waiting.pop(call, None)
            retry()

        self.waiting[call] = what
        self.office.room.wait(receiver.agent, self.identity.agent, call, again)

    def bury(self, turn: Turn, rows: Iterable[MessageRow], receiver: str, refusal: Refusal) -> None:
        """Turn messages that another agent will not take into dead letters; `receiver` is its name."""
        for row in rows:
            if row.kind == ELEMENT:
                envelope = unseal(row.origin)
                name = f"{envelope.to}{receiver}" if stands_for_peer(receiver) else receiver
                self._undelivered(turn, row, envelope, name, refusal)

    def come_back(self, turn: Turn, rows: Iterable[MessageRow]) -> None:
        """Turn messages of this agent, whose receivers were just removed, into dead letters, in order."""
        for row in rows:
            turn.transaction.batch.taken.append(TakenRow(*row[:3]))
            if row.kind not in (ELEMENT, CALL):
                continue
            envelope, receiver = unseal(row.origin), self.office.names.get(row.agent, f"agent {row.agent}")
            refusal = Refusal("removed", "it was removed")
            if row.kind == ELEMENT:
                turn.transaction.batch.dead_letters.append(_dead(row, receiver, refusal, turn.at))
            notice = row._replace(kind=UNDELIVERED, data=undelivered_notice(receiver, envelope, refusal))
            KINDS[UNDELIVERED](self, turn, notice, Envelope(receiver, "", envelope.run, envelope.step))

    def _receive(self, turn: Turn, row: MessageRow) -> bool:
        """Handle a message; one that cannot be taken becomes a dead letter of its sender.

        Return False, with nothing done, while memory has no room for its element, or for an earlier one.
        Messages without an element, such as the answer to a call, overtake those. An overdue message needs no
        room.
        """
        is_overdue = row.until is not None and row.until <= turn.at
        needs_room = row.kind == ELEMENT and not is_overdue
        if needs_room and self.mailbox.is_held:
            return False
        if self._declared[0] != self._agent.memory.declared.changes:
            memory = self._agent.memory
            self._declared = memory.declared.changes, frozenset(declared_names(memory))
        try:
            envelope = unseal(row.origin)
        except UnreadableError as error:
            log.error("%s: a message of agent number %d is lost: %s", self.identity.name, row.sender, error)
            return True
        over = self._agent.excess_of_elements((row.data,)) if needs_room else ""
        if over and len(row.data) <= self._settings.element_bytes:
            log.warning("%s takes no messages: %s", self.identity.name, over)
            return False
        refusal = OVERDUE if is_overdue else Refusal("too-large", over) if over else None
        refusal = refusal or self._refusal(turn, row, envelope)
        if refusal is not None:
            log.warning("%s: %s from %s: %s", self.identity.name, row.kind, envelope.sender, refusal)
        if refusal is not None or envelope.awaited:
            self._undelivered(turn, row, envelope, self.identity.name, refusal)
        return True

    def _undelivered(
        self, turn: Turn, row: MessageRow, envelope: Envelope, receiver: str, refusal: Refusal | None
    ) -> None:
        """Notify a sender that its message was not taken; or, if there is no refusal, that it was."""
        if row.kind in _OF_THE_POST:
            return
        sender = self.office.addresses.find_same(envelope.sender, envelope.sender_id)
        if sender is None:
            return  # the sender is gone
        labels = recorded(envelope.labels, envelope.hearsay)
        back = replace(self.outbox.envelope(envelope.run, envelope.step), labels=labels)
        if refusal is None:
            self.outbox.send(turn, sender, Outgoing(RECEIPT, row.id, back))
            return
        if peer_of(envelope.sender):
            back = replace(back, letter=given_back(row, receiver, envelope, str(refusal)))
        else:
            turn.transaction.batch.dead_letters.append(_dead(row, receiver, refusal, turn.at))
        notice = undelivered_notice(receiver, envelope, refusal)
        self.outbox.send(turn, sender, Outgoing(UNDELIVERED, row.id, back, notice))

    def _refusal(self, turn: Turn, row: MessageRow, envelope: Envelope) -> Refusal | None:
        if why := turn.transaction.telling.reason(0, row):
            return Refusal("internal-error", why)
        take = KINDS.get(row.kind)
        if take is None:
            return Refusal("unknown-kind", f"this version of narval knows no messages of kind {row.kind}")
        labels = recorded(envelope.labels, envelope.hearsay)
        if not labels:
            return take(self, turn, row, envelope)
        with turn.transaction.coming_with(turn.agent.memory.labels.number(labels)):
            return take(self, turn, row, envelope)


def _dead(row: MessageRow, receiver: str, refusal: Refusal, at: float) -> DeadLetterRow:
    number, id, kind, _, until, origin, data = row[2:]
    return DeadLetterRow(row.sender, receiver, number, id, kind, str(refusal), at, until, origin, data)


def send_elements(mail: AgentMail, run: Run, call: Call, turn: Turn) -> None:
    """Send the elements of a call, one message for each element and receiver, and answer it.

    A call that waits until all are taken is answered by the last receipt.
    """
    if call.call not in run.calls:
        return
    if call.call in run.abandoned:
        turn.tell(run.eid, Returned(0, 0.0, call.call, abandoned=True))
        return
    if run.calls[call.call].begun:  # it was sent before
        if not is_awaited(mail.outbox, turn, call):
            turn.tell(run.eid, Returned(0, 0.0, call.call))
        return
    try:
        pairs = list(addressed(turn.agent.memory, call))
    except ActionError as error:
        problem = Failure(error.kind, str(error), final=error.final)
        turn.tell(run.eid, Returned(0, 0.0, call.call, problem=problem))
        return
    lacking = mail.lacking(turn, ((name, element.xml) for name, element in pairs))
    if lacking is not None:
        again = Request(partial(send_elements, mail, run, call))
        mail.wait(*lacking, call.call, partial(mail.post, again))
        return
    how: dict[str, Any] = call.payload or {}
    waits = bool(how.get("taken")) and any(mail.office.addresses.find(name) is not None for name, _ in pairs)
    event = CallStarting(0, 0.0, call.call) if waits else Returned(0, 0.0, call.call)
    if turn.tell(run.eid, event):
        _send(mail, run, call, turn, pairs, waits, how.get("keep"))


def _send(
    mail: AgentMail,
    run: Run,
    call: Call,
    turn: Turn,
    pairs: list[tuple[str, Element]],
    waits: bool,
    keep: float | None,
) -> None:
    by = _by(turn, run)
    for (name, element), id in zip(pairs, _ids(mail, call.call), strict=False):
        envelope = mail.outbox.envelope(run.eid, call.step, (element.eid,), *by, awaited=waits)
        mail.send(turn, name, Outgoing(ELEMENT, id, envelope, element.xml), keep)
        if (
            waits
            and (peer := peer_of(name))
            and mail.office.addresses.find_for(mail.identity.name, name) is not None
        ):
            await_receipt(turn, f"{mail.identity.id}.{call.call}", id, peer)


def send_from_outside(
    mail: AgentMail,
    turn: Turn,
    to: str,
    elements: list[bytes],
    *,
    by: str = "",
    actor: str = "",
    keep: float | None = None,
) -> list[str]:
    """Send elements from outside to an agent, each as a message; return their ids. Raises RequestError."""
    if mail.office.addresses.find_for(mail.identity.name, to) is None:
        raise RequestError(mail.office.addresses.why_not(mail.identity.name, to))
    lacking = mail.lacking(turn, ((to, xml) for xml in elements))
    if lacking is not None:
        raise RequestError(f"there is no {lacking[1]}; send again when some are taken")
    envelope = mail.outbox.envelope(by=by, actor=actor)
    ids = [f"{mail.identity.id}.{turn.agent.numbers.draw()}" for _ in elements]
    for id, xml in zip(ids, elements, strict=True):
        mail.send(turn, to, Outgoing(ELEMENT, id, envelope, xml), keep)
    return ids


def send_outputs(mail: AgentMail, turn: Turn, run: Run, event: Returned | Produced) -> bool:
    """Deliver a call's result to its run, and send its messages to other agents (G28); False if that had no
    effect, or if it is retried when there is room (G31).
    """
    outputs_here = tuple([output for output in event.elements if not output.to])
    sent = event.elements[len(outputs_here) :]
    lacking = mail.lacking(turn, ((output.to, output.xml) for output in sent))
    if lacking is not None:
        mail.wait(*lacking, event.call, partial(mail.post, Delivery(run.eid, event)))
        return False
    call = run.calls.get(event.call)
    inputs = dict.fromkeys(eid for _, eids in call.inputs for eid in eids) if call else ()
    made_from = tuple([eid for eid in inputs if is_source(turn.agent.memory, eid)])
    if not turn.tell(run.eid, replace(event, elements=outputs_here)):
        return False
    by, actor = _by(turn, run)
    envelope = replace(mail.outbox.envelope(run.eid, by=by, actor=actor), made_from=made_from)
    for output, id in zip(sent, _ids(mail, event.call), strict=False):
        mail.send(turn, output.to, Outgoing(ELEMENT, id, envelope, output.xml))
    return True


def _by(turn: Turn, run: Run) -> tuple[str, str]:
    """The person on whose behalf a run works, and the actor."""
    runs = turn.agent.runs
    first = run if run.caller is None else runs[runs.top(run)]
    return first.by, first.actor


def _ids(mail: AgentMail, call: str) -> Iterator[str]:
    """The ids of the messages of a call: its external id, followed by a number from the second on."""
    first = f"{mail.identity.id}.{call}"
    return chain((first,), (f"{first}/{number}" for number in count(2)))
