"""The outbox: the messages that an agent sends, numbered for each receiver (G23, G24)."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from narval.agent.labelling import came_with
from narval.agent.turn import Turn
from narval.core.agent_name import AT
from narval.core.elements import changes
from narval.core.elements.names import sent_to
from narval.core.trust.origins import told_origins
from narval.daemon.messages.envelope import Envelope, Outgoing, seal
from narval.daemon.messages.post_office import PostOffice
from narval.store.batch import AgentRow, Batch, MessageRow


class Outbox:
    """Numbers the messages of one activation of an agent, and adds them to the batch of the turn that sends
    them.

    The numbers end with the activation. A turn that was not recorded leaves no gap, because the next
    activation reads from the store how far each pair has come.
    """

    def __init__(self, sender: AgentRow, office: PostOffice) -> None:
        self.sender, self.office = sender, office
        self._last: dict[str, int] = {}
        """The number of the last message, by the id of its receiver."""
        self._now: tuple[Batch | None, Counter[int]] = (None, Counter())
        """The batch of the present turn, and its messages by receiver: they do not count as waiting yet."""

    def use_name(self, name: str) -> None:
        """Send under this name from now on, unless other daemons know the agent by that in the store."""
        if self.office.addresses.elsewhere is None:
            self.sender = self.sender._replace(name=name)

    def in_turn(self, turn: Turn, receiver: AgentRow) -> int:
        """The number of messages that this turn has sent to a receiver so far."""
        return self._now[1][receiver.agent] if self._now[0] is turn.transaction.batch else 0

    def know(self, receiver: AgentRow) -> int:
        """Find the number of the last message to a receiver. Raises StoreError."""
        number = self._last.get(receiver.id)
        if number is None:
            number = self.office.letters.last_sent(receiver.agent, self.sender.agent)
            self._last[receiver.id] = number
        return number

    def envelope(
        self,
        run: int = 0,
        step: str = "",
        inputs: tuple[int, ...] = (),
        by: str = "",
        actor: str = "",
        *,
        awaited: bool = False,
    ) -> Envelope:
        """The envelope of what this agent sends."""
        return Envelope(self.sender.name, self.sender.id, run, step, inputs, by, actor, awaited)

    def send(self, turn: Turn, receiver: AgentRow, message: Outgoing, until: float | None = None) -> None:
        """Send a message together with what this turn records."""
        envelope, labels = message.envelope, turn.agent.memory.labels
        sent = labels.join(labels.of((envelope.run, *envelope.inputs)), turn.transaction.comes_with)
        if sent:
            envelope = replace(
                envelope,
                labels=labels.names(labels.join(sent, labels.number(envelope.labels))),
                came_from=_came_from(turn, envelope, sent),
            )
        memory = turn.agent.memory
        if sources := tuple([eid for eid in envelope.inputs or envelope.made_from if eid in memory]):
            turn.transaction.change(changes.Used(sent_to(receiver.name), sources, envelope.run))
            if bad := [eid for eid in sources if eid in memory.withdrawn or eid in memory.doubtful]:
                turn.transaction.taken_back.setdefault(receiver.name, set()).update(bad)  # sent after it
        self.pass_on(turn, receiver, message._replace(envelope=envelope), until)

    def pass_on(self, turn: Turn, receiver: AgentRow, message: Outgoing, until: float | None) -> None:
        """Send a message that was made elsewhere, with its envelope unchanged."""
        kind, id, envelope, data = message
        if AT in receiver.name:
            envelope = replace(envelope, to=receiver.name.partition(AT)[0])
        self._last[receiver.id] = number = self.know(receiver) + 1
        self.office.expect(receiver)
        batch = turn.transaction.batch
        if self._now[0] is not batch:
            self._now = batch, Counter()
        self._now[1][receiver.agent] += 1
        row = MessageRow(
            receiver.agent, self.sender.agent, number, id, kind, turn.at, until, seal(envelope), data
        )
        batch.messages.append(row)


def _came_from(turn: Turn, envelope: Envelope, sent: int) -> tuple[str, ...]:
    """The elements by which the labels of what is sent came in; () if unknown, as for what was never in
    memory.
    """
    agent, eids = turn.agent, envelope.inputs
    return told_origins(agent.memory, eids, sent, lambda origin: any(True for _ in came_with(agent, origin)))
