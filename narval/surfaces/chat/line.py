"""Lines: what a person wrote in a chat, the way to ask in their name, and what comes of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from narval.ask.asker import CHAT_SESSION
from narval.files.outside.chats import ChatSettings
from narval.people.chat.messages import Answering, AskedBack, Incoming, Reply, Taken
from narval.surfaces.asks import Asks


class Line:
    """A line that a person wrote, and the way to ask operations in their name."""

    def __init__(
        self,
        chat: ChatSettings,
        taken: Taken,
        person: Mapping[str, Any],
        text: str,
        asks: Asks,
        home: Path,
        confirms: Line | None = None,
    ) -> None:
        """Read a text that a message says, or that `confirms` with its yes."""
        self.chat, self.taken, self.person, self.text = chat, taken, person, text
        self._asks, self.home = asks, home
        self.is_confirmed = confirms is not None
        """True of a command that its person has said yes to."""
        self._done_once: set[str] = set() if confirms is None else confirms._done_once
        """The operations that were asked to be done once for this message."""
        self._asked: Mapping[str, Any] | None = None

    @property
    def asked_once(self) -> bool:
        """True once an operation was asked that is done once for this message."""
        return bool(self._done_once)

    def confirmed(self, command: str) -> Line:
        """The command to which this line says yes, as if that had been written by itself."""
        message = replace(self.message, text=command, button="", replies_to="")
        taken = replace(self.taken, message=message)
        return Line(self.chat, taken, self.person, command, self._asks, self.home, confirms=self)

    @property
    def message(self) -> Incoming:
        """The message as it came."""
        return self.taken.message

    @property
    def name(self) -> str:
        """The name of the person."""
        return str(self.person["person"])

    @property
    def is_in_room(self) -> bool:
        """True of what was written where others read the answer."""
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
        """The questions that this line may answer, as the operation `chat_asked` tells them."""
        if self._asked is None:
            self._asked = await self._asks.ask("chat_asked", chat=self.chat.name, message=self.taken.number)
        return self._asked

    @property
    def _session(self) -> str:
        return f"{CHAT_SESSION}{self.chat.name}"


class Dealt(msgspec.Struct, frozen=True):
    """The outcome of a line: replies, the answer to work that its person is giving, and what they are asked
    back.
    """

    replies: tuple[Reply, ...] = ()
    answering: Answering | None = None
    question: AskedBack | None = None

    @classmethod
    def saying(cls, text: str, *, private_to: str = "") -> Dealt:
        """A text as the only reply; `private_to` a person, who gets it between two wherever they wrote."""
        return cls((Reply(text=text, to=private_to),))


Handler = Callable[[Line], Awaitable[Dealt | None]]
"""Deals with a line; None where it is nothing that this one knows. Raises NarvalError."""
