"""Lines: what a person wrote in a chat, asking operations in their name, and the outcome."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from narval.ask.asker import CHAT_SESSION
from narval.files.outside.chats import ChatSettings
from narval.people.chat.messages import Answering, AskedBack, Incoming, Reply, Taken
from narval.surfaces.control.async_client import AsyncClient


class Line:
    """A line that a person wrote, with the operations asked in their name."""

    def __init__(
        self,
        chat: ChatSettings,
        taken: Taken,
        person: Mapping[str, Any],
        text: str,
        asks: AsyncClient,
        home: Path,
        confirms: Line | None = None,
    ) -> None:
        """Make a line of a text: of a message, or of a command that the line `confirms` said yes to."""
        self.chat, self.taken, self.person, self.text = chat, taken, person, text
        self._asks, self.home = asks, home
        self.is_confirmed = confirms is not None
        """True for a command that the person has confirmed."""
        self._done_once: set[str] = set() if confirms is None else confirms._done_once
        """The operations to be done once for this message."""
        self._asked: Mapping[str, Any] | None = None

    @property
    def asked_once(self) -> bool:
        """True if an operation was asked by `once` for this message."""
        return bool(self._done_once)

    def confirmed(self, command: str) -> Line:
        """The command that this line confirms, as a line of its own."""
        message = replace(self.message, text=command, button="", replies_to="")
        taken = replace(self.taken, message=message)
        return Line(self.chat, taken, self.person, command, self._asks, self.home, confirms=self)

    @property
    def message(self) -> Incoming:
        """The original message."""
        return self.taken.message

    @property
    def name(self) -> str:
        """The name of the person."""
        return str(self.person["person"])

    @property
    def is_in_room(self) -> bool:
        """True if others can read the answer."""
        return bool(self.message.room)

    async def ask(self, method: str, /, **params: Any) -> Any:
        """The answer to an operation that only reads, as the person may ask it. Raises NarvalError."""
        return await self._asks.ask(method, acting_as=self.name, session=self._session, **params)

    async def once(self, method: str, /, **params: Any) -> Any:
        """The answer to an operation that alters something, done once for this line. Raises NarvalError."""
        self._done_once.add(method)
        message = f"{self.chat.name}/{self.taken.number}"
        return await self._asks.ask(
            method, acting_as=self.name, session=self._session, once=message, **params
        )

    async def asked(self) -> Mapping[str, Any]:
        """The questions that this line may answer, from the operation `chat_asked`."""
        if self._asked is None:
            self._asked = await self._asks.ask("chat_asked", chat=self.chat.name, message=self.taken.number)
        return self._asked

    @property
    def _session(self) -> str:
        return f"{CHAT_SESSION}{self.chat.name}"


class Dealt(msgspec.Struct, frozen=True):
    """The outcome of a line: replies, the person's unfinished answer to work, and the command to confirm."""

    replies: tuple[Reply, ...] = ()
    answering: Answering | None = None
    question: AskedBack | None = None

    @classmethod
    def saying(cls, text: str, *, private_to: str = "") -> Dealt:
        """A text as the only reply; with `private_to` a person, it goes only to them, wherever they wrote."""
        return cls((Reply(text=text, to=private_to),))


Handler = Callable[[Line], Awaitable[Dealt | None]]
"""Handles a line; None for a line that it does not recognise. Raises NarvalError."""


def own_words(text: str) -> str:
    """A text without the quotation above it: quoted words are not an answer."""
    lines = text.splitlines()
    own = next((at for at, line in enumerate(lines) if line.strip() and not line.startswith(">")), len(lines))
    return "\n".join(lines[own:])
