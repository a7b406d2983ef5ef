"""Outbox: the messages that an agent sends, numbered for each receiver (G23, G24)."""

from __future__ import annotations

from narval.runtime.agent.turn import Turn
from narval.runtime.messages.envelope import Envelope, seal
from narval.runtime.messages.post_office import PostOffice
from narval.runtime.store.batch import AgentRow, MessageRow


class Outbox:
    """Numbers what one activation of an agent sends, and leaves it in the batch of the turn that sends.

    The numbers go with the activation: of a turn that was not recorded they leave no gap, for the next
    activation finds in the store how far each pair has come.
    """

    def __init__(self, sender: AgentRow, office: PostOffice) -> None:
        self._sender, self._office = sender, office
        self._last: dict[str, int] = {}
        """The number of the last message by the id of its receiver."""

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
        return Envelope(self._sender.name, self._sender.id, run, step, inputs, by, actor, awaited)

    def send(
        self,
        turn: Turn,
        receiver: AgentRow,
        kind: str,
        id: str,
        envelope: Envelope,
        data: bytes,
        until: float | None = None,
    ) -> None:
        """Send a message with what this turn records."""
        number = self._last.get(receiver.id)
        if number is None:
            number = self._office.letters.last_sent(receiver.agent, self._sender.agent)
        self._last[receiver.id] = number = number + 1
        self._office.expect(receiver)
        pair = (receiver.agent, self._sender.agent, number)
        turn.transaction.batch.messages.append(
            MessageRow(*pair, id, kind, turn.at, until, seal(envelope), data)
        )
