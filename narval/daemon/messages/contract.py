"""The interface of receivers of messages, and the reasons for refusing one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from narval.agent.turn import Turn
from narval.daemon.messages.envelope import Envelope
from narval.daemon.messages.mailbox import Outbox
from narval.daemon.messages.remote_calls import RemoteCalls
from narval.store.batch import MessageRow


class Refusal(NamedTuple):
    """The reason why a message cannot be taken: an error type, and a text for people."""

    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


OVERDUE = Refusal("expired", "it waited for longer than it was to be kept")


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
