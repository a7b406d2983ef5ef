"""The post office: finds agents by their names and delivers recorded messages to them; each daemon has one
(G25, G30).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

import msgspec

from narval.agent.run import Run
from narval.agent.turn import Turn
from narval.core.agent_name import AT, peer_of, row_of_peer, stands_for_peer
from narval.daemon.messages.room import MailboxRoom
from narval.files.outside.peers import NO_PEERS, PEERS_FILE, Peers
from narval.store.batch import STORE, AgentRow, MessageRow
from narval.store.letters import Letters, WaitingRow

if TYPE_CHECKING:
    from narval.daemon.messages.other_daemons import OtherDaemons

Find = Callable[[str], AgentRow | None]
"""A function that finds an agent by its name."""


class Addresses:
    """The agents that `here` finds, or else `elsewhere` at other daemons of the store. Some agents may not
    write to all `peers`. `own` returns the home's own agent.
    """

    def __init__(
        self,
        here: Find,
        peers: Callable[[], Peers] = lambda: NO_PEERS,
        elsewhere: OtherDaemons | None = None,
        own: Callable[[], AgentRow] | None = None,
    ) -> None:
        self._here, self._peers, self._own = here, peers, own
        self.elsewhere = elsewhere
        """The agents of other daemons; None if this one has all."""
        self._are_any = False

    def let_be_any(self) -> None:
        """Treat any name as that of an agent, for a simulation; one that does not exist takes nothing."""
        self._are_any = True

    def find(self, name: str) -> AgentRow | None:
        """An agent by its name, regardless of the asker. Raises StoreError."""
        row = self._here(name)
        if self.elsewhere is not None:
            if row is None:
                return self.elsewhere.find(name)
            self.elsewhere.forget(name)
        return row or (AgentRow(STORE, "", name) if self._are_any else None)

    def find_same(self, name: str, id: str) -> AgentRow | None:
        """An agent by its name, if it still is the one with that id (G1); the home's own one may have had
        another name by then.
        """
        if AT in name:
            return self.find(name)  # only the other home knows whether it is still the same agent
        if self._own is not None and (own := self._own()).id == id:
            return own
        row = self.find(name)
        if row is not None and row.id != id and self.elsewhere is not None:
            self.elsewhere.forget(name)
            row = self.find(name)
        return row if row is not None and row.id == id else None

    def may_write(self, agent: str, peer: str) -> bool:
        """True if an agent of this home and those of a peer may write to one another."""
        settings = self._peers().get(peer)
        return settings is not None and settings.may_address(agent)

    def find_for(self, sender: str, name: str) -> AgentRow | None:
        """An agent by its name, if the sender may write to it."""
        if AT in name and not self.may_write(sender, peer_of(name)):
            return None
        return self.find(name)

    def why_not(self, sender: str, name: str) -> str:
        """The reason why `find_for` returned None."""
        peer = peer_of(name)
        if not peer or stands_for_peer(name):
            return f"there is no agent {name!r:.80} here"
        if peer not in self._peers():
            return f"there is no peer {peer!r:.80} ({PEERS_FILE}); `narval link add` makes one"
        if self.may_write(sender, peer):
            return f"the link with {peer} is not at work yet"
        return (
            f"{sender} may not write to agents of {peer}: `agents` of its table in {PEERS_FILE} names who may"
        )


StandIn = Callable[[Turn, Run, object], bool]
"""A function that does what a run asks of another agent within a turn, or returns False to leave it."""


class Addressee(Protocol):
    """An active receiver; `number` is that of its agent."""

    number: int

    def put(self, row: MessageRow) -> bool:
        """Add a recorded message; False if it is already here, or one before it is missing."""

    def reached(self, sender: int) -> int:
        """The number of the last message of a sender that it has or has taken."""


class OverdueMessages:
    """The first moment at which a message that is not taken is overdue.

    A message is looked for once, at its moment. One that must wait for those before it ends with the last of
    them: the code that takes or ends that one continues with it.
    """

    def __init__(self) -> None:
        self._look_at: Callable[[float | None], None] = lambda moment: None
        self._first: float | None = None
        self.looked_at = 0.0
        """The moment of the last search for overdue messages."""

    def begin(self, look_at: Callable[[float | None], None]) -> None:
        """Call `look_at` with each moment at which to check."""
        self._look_at = look_at

    def expect(self, until: float | None) -> None:
        """Record a message that may wait until a moment (seconds since 1970); None: for ever."""
        if until is not None and (self._first is None or until < self._first):
            self._first = until
            self._look_at(until)

    def due(self, now: float, waiting: Iterable[WaitingRow]) -> list[int]:
        """The receivers of messages that are overdue at a moment, among all that wait."""
        self._first, self.looked_at, rows = None, now, list(waiting)
        self.expect(min((row.later for row in rows if row.later is not None), default=None))
        return [row.agent for row in rows if row.until is not None and row.until <= now]


MOST_TOLD = 1_000
"""The most characters of the reason why a peer cannot be reached."""


class Contact(msgspec.Struct):
    """The contact with a peer since the daemon started: the moment of the last contact, and why it could not
    be reached last, "" after a contact.
    """

    heard_at: float | None = None
    trouble: str = ""

    def heard(self, at: float) -> None:
        """Record a contact."""
        self.heard_at, self.trouble = at, ""

    def failed(self, why: str) -> None:
        """Record why it could not be reached."""
        self.trouble = why[:MOST_TOLD]


class PostOffice:
    """The messages of a store that are not taken, counted, and the active receivers.

    A message for a receiver that is not active stays a row: `wake` is called to activate the receiver, by
    name. A message for an agent of another daemon is delivered by that daemon, which is notified. `room`
    counts the messages.
    """

    def __init__(self, letters: Letters, addresses: Addresses, room: MailboxRoom) -> None:
        self.letters, self.addresses, self.elsewhere = letters, addresses, addresses.elsewhere
        self._room, self._is_counted = room, False
        self._overdue = OverdueMessages()
        self.names: dict[int, str] = {}
        """The names of agents that had messages, by number."""
        self.receivers: dict[int, Addressee] = {}
        """The active receivers, by the numbers of their agents."""
        self.contacts: dict[int, Contact] = {}
        """The contacts with peers, by the numbers of their rows, which are not always active."""
        self._wake: Callable[[str], None] = lambda name: None  # nothing is delivered before `open`
        self.stand_in: StandIn = lambda turn, run, what: False

    def open(
        self,
        agents: Iterable[AgentRow],
        wake: Callable[[str], None],
        look_at: Callable[[float | None], None],
    ) -> None:
        """Begin to deliver, with the messages that wait in the store; `look_at` gets the moments to call
        `overdue`.

        Raises StoreError.
        """
        self._wake = wake
        self._overdue.begin(look_at)
        if self.room:
            self.names.update((row.agent, row.name) for row in agents if row.agent in self.room)
            for row in self.letters.waiting():
                self._overdue.expect(row.until)

    @property
    def room(self) -> MailboxRoom:
        """The count of messages that are not taken; those of the store are counted when first asked for."""
        if not self._is_counted:
            self._is_counted = True
            for row in self.letters.waiting():
                self._room.load(row)
        return self._room

    def overdue(self, now: float) -> list[str]:
        """The names of agents that have messages overdue at a moment."""
        due = self._overdue.due(now, self.letters.waiting(now))
        return list(dict.fromkeys(self.names[number] for number in due if number in self.names))

    def simulate(self, stand_in: StandIn) -> None:
        """Treat any name as that of an agent. Agents that do not exist take nothing, so a simulation can show
        what would be sent. `stand_in` is called first for what other agents are asked.
        """
        self.stand_in = stand_in
        self.addresses.let_be_any()

    def remind(self, number: int) -> None:
        """Activate an agent if messages for it wait."""
        if number in self.room and number not in self.receivers and number in self.names:
            self._wake(self.names[number])

    def expect(self, receiver: AgentRow) -> None:
        """Record the name of an agent by its number: a message for it is about to be recorded."""
        name = receiver.name
        self.names[receiver.agent] = row_of_peer(peer_of(name)) if AT in name else name

    def hand_over(self, rows: Iterable[MessageRow]) -> None:
        """Deliver recorded messages to their receivers."""
        for row in rows:
            receiver, elsewhere = self.receivers.get(row.agent), self.elsewhere
            if receiver is None and elsewhere is not None and row.agent in elsewhere:
                self.room.add(row)
                elsewhere.tell(row.agent)
                continue
            if receiver is not None and not receiver.put(row) and elsewhere is not None:
                elsewhere.tell(row.agent)  # it is already here, or a missing earlier one is in the store
                continue
            self.room.add(row)
            self._overdue.expect(row.until)
            if receiver is None:
                self._wake(self.names[row.agent])

    def taken(self, rows: Iterable[MessageRow]) -> None:
        """Stop counting messages that are recorded as taken."""
        for row in rows:
            self.room.remove(row)

    def came(self, rows: Iterable[MessageRow]) -> list[MessageRow]:
        """Deliver messages read from the store to active receivers; return those that cannot be delivered
        because an earlier one is missing.
        """
        missing = []
        for row in rows:
            receiver = self.receivers.get(row.agent)
            if receiver is not None and receiver.put(row):  # else it is found at the next activation
                self.room.add(row)
                self._overdue.expect(row.until)
            elif receiver is not None and row.number > receiver.reached(row.sender):
                missing.append(row)
        return missing

    def recount(self, waiting: Iterable[WaitingRow], held: Iterable[AgentRow]) -> None:
        """Count what waits in the store, which other daemons use too, for all agents that are not active
        here, and wake those of them that are `held` here.

        Call `room.begin_recount` before reading the store.
        """
        self.room.recount((row for row in waiting if row.agent not in self.receivers), self.receivers)
        fresh = {receiver.agent for receiver in held}
        for receiver in held:
            self.expect(receiver)
        for row in waiting:
            is_new = row.until is not None and (row.until > self._overdue.looked_at or row.agent in fresh)
            if row.agent in self.names and is_new:
                self._overdue.expect(row.until)
        for receiver in held:
            if receiver.agent not in self.receivers:
                self._wake(receiver.name)

    # --- receivers --------------------------------------------------------------------------------------

    def begin(self, receiver: Addressee) -> list[MessageRow]:
        """Deliver to an active agent from now on; return its waiting messages. Raises StoreError."""
        number, is_shared = receiver.number, self.elsewhere is not None
        waiting = self.letters.messages(number, at_start=True) if is_shared or number in self.room else []
        if is_shared:
            self.room.count_only(number, waiting)
        self.receivers[number] = receiver
        return waiting

    def end(self, receiver: Addressee) -> None:
        """Keep the messages of an agent for its next activation."""
        if self.receivers.get(receiver.number) is receiver:
            del self.receivers[receiver.number]

    def forget(self, number: int) -> None:
        """Forget the messages of an agent that was removed."""
        self.room.forget(number)
        self.names.pop(number, None)
