"""The contract of a kind of chat: how messages arrive, how they are sent, and how errors are reported.

A kind is one module with `open_chat(settings, home, secret) -> Kind` and a row in the table of kinds
(narval/files/outside/chats.py). It speaks the protocol of its service and decides nothing: its callers decide
who a sender is, and what follows from a message. What it reports of a sender is what the server has proved,
never what a message claims.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol

import msgspec

from narval.core.errors import OperatorError
from narval.files.outside.chats import CHAT_KINDS, ChatSettings
from narval.people.chat.messages import Buttons
from narval.people.chat.messages import Incoming as Incoming
from narval.people.chat.messages import IncomingFile as IncomingFile
from narval.system.extras import install_command

CAPABILITIES = frozenset({"edit", "buttons", "ids", "rooms", "files"})
"""The abilities that a kind may have: replace a message of ours, show buttons, recognise a message sent twice
by its id, be in rooms, fetch files.
"""


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """A message to be sent."""

    id: str
    """Its id, the same for every try: the kind sends it if its service supports ids."""
    place: str
    """The address or the room to which it goes."""
    text: str
    """Its plain text: a kind shows it without markup, mentions and hidden links."""
    buttons: Buttons = ()
    """The data and the label of each button, if the kind has buttons."""
    replies_to: str = ""
    """The service's id of the message that it answers."""
    edits: str = ""
    """The service's id of a message of ours to replace, if the kind can."""
    is_repeated: bool = False
    """True if the answer to an earlier try was lost: the message is marked if the kind has no ids."""


class ChatError(Exception):
    """The refusal of a request by a service. `final` says that repeating it never helps."""

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.message, self.final = message, final


class AmbiguousError(ChatError):
    """The loss of an answer: the message may or may not have been sent."""


Take = Callable[[Sequence[Incoming], str], Awaitable[None]]
"""Takes messages, in order, and the position after them. When it returns, both are recorded, and these
messages need not be delivered again; without messages it records only the position.
"""


Tell = Callable[[str], Awaitable[None]]
"""Reports that the service has accepted the session, and a remaining problem ("" for none). It may be called
any number of times.
"""


class Kind(Protocol):
    """An open chat.

    `listen` and `send` raise ConnectionError, OSError or TimeoutError if a later try may help, and ChatError
    if the service refuses.
    """

    can: frozenset[str]
    """Its abilities, of CAPABILITIES."""

    async def listen(self, position: str, take: Take, tell: Tell) -> None:
        """Connect, and deliver every message after a position in order; with "" only new ones.

        It reports when the service has accepted the session, and never returns. It raises ChatError (final)
        for a wrong login, ConnectionError when the connection is lost.
        """

    async def send(self, message: Outgoing) -> str:
        """Send a message; returns the kind's id of it. Raises AmbiguousError if it may have been sent."""

    async def fetch(self, file: IncomingFile, path: Path, most: int) -> None:
        """Fetch a file into a path; raises ChatError (final) for one of more than `most` bytes."""

    async def close(self) -> None:
        """Hang up."""


def open_chat(settings: ChatSettings, home: Path) -> Kind:
    """Prepare the kind of a chat, with its secret, without connecting.

    Raises OperatorError if its library or its secret is missing.
    """
    try:
        module = import_module(CHAT_KINDS[settings.kind])
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("narval"):
            raise
        missing = f"{settings} needs the package {error.name}: {install_command('chat')}"
        raise OperatorError(missing) from None
    try:
        secret = settings.password(home)
    except ValueError as error:
        raise OperatorError(str(error)) from None
    kind: Kind = module.open_chat(settings, home, secret)
    return kind
