"""Agent mail: the messages that one active agent sends and takes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from narval.agent.agent import AgentState
from narval.agent.declared import declared_names
from narval.agent.loop import Delivery, Request
from narval.agent.transaction import inherit
from narval.agent.turn import Turn
from narval.core.agent_name import AT, is_meant, peer_of, stands_for_peer
from narval.core.elements.element import Origin, local_name
from narval.core.elements.names import CONTROLS
from narval.core.errors import StoreAwayError, UnreadableError
from narval.core.memory.labels import recorded
from narval.daemon.messages.contract import OVERDUE, Refusal
from narval.daemon.messages.envelope import ELEMENT, RECEIPT, UNDELIVERED, Envelope, Outgoing, seal, unseal
from narval.daemon.messages.kinds import KINDS
from narval.daemon.messages.mailbox import Mailbox, Outbox
from narval.daemon.messages.post_office import PostOffice
from narval.daemon.messages.remote_calls import CALL, RemoteCalls
from narval.daemon.messages.undelivered import given_back, undelivered_notice
from narval.daemon.messages.withdrawals import send_withdrawals
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
        self.identity, self.office, self._settings, self.post = identity, office, settings, post
        self.outbox = Outbox(identity, office)
        self.calls = RemoteCalls(agent, self.outbox, lambda: self._settings.offers)
        self.mailbox = Mailbox(identity.agent, office, post, self._receive)
        self.waiting: dict[str, str] = {}
        """The calls that wait for room, each with what it waits for."""
        self._agent = agent
        self._declared: tuple[int, frozenset[str]] = (-1, frozenset())
        """The number of changes of the elements that its files declare, and their names then."""

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
        rules, shown = self._settings.receives, local_name(name) or name
        given = [rule.elements for rule in rules or () if is_meant(rule.sender, envelope.sender)]
        if any(shown in elements for elements in given):
            return None
        if name in self._declared[1]:
            why = f"{self.identity.name} declares its {shown} itself, in data/memory.xml"
        elif name not in CONTROLS and (
            any(EVERYBODY in elements for elements in given) or self._goes_without_saying(envelope)
        ):
            return None
        else:
            refused = f"{self.identity.name} takes no {shown} from {envelope.sender}"
            why = f"{refused}: no rule of its `receives` names it"
        return Refusal("not-granted", why)

    def _goes_without_saying(self, envelope: Envelope) -> bool:
        return self._settings.receives is None and AT not in envelope.sender

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
        """Handle a message; one that cannot be taken becomes a dead letter of its sender (G32).

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
