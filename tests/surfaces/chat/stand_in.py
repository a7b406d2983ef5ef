"""Stand-in: a chat service in memory, and the kind that speaks to it, for tests of what uses kinds.

The service counts what it is sent, and a test may let it lose answers, repeat messages, be away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from narval.files.outside.chats import CHAT_KINDS, NEEDED, ChatSettings
from narval.surfaces.chat.contract import (
    CAPABILITIES,
    AmbiguousError,
    ChatError,
    Incoming,
    IncomingFile,
    Outgoing,
    Take,
    Tell,
)

STAND_IN = "xmpp"
"""The kind whose row a test gives to the stand-in."""

SERVICES: dict[str, Service] = {}
"""The services by the name of the server."""


class Service:
    """A chat service: what was written to the assistant, and what it has sent."""

    def __init__(self) -> None:
        self.messages: list[Incoming] = []
        self.sent: list[Outgoing] = []
        self.by_id: dict[str, Outgoing] = {}
        self.files: dict[str, bytes] = {}
        self.is_away = False
        self.accepts = asyncio.Event()
        """Set while it accepts sessions."""
        self.accepts.set()
        self.warning = ""
        self.loses: set[int] = set()
        """The sendings, counted from 0, whose answer is lost."""
        self.failures: list[Exception] = []
        """The errors of the sendings to come, before anything goes out."""
        self.opened = 0
        self.refusal: ChatError | None = None
        self.can = CAPABILITIES
        self.news = asyncio.Condition()

    async def write(self, text: str, sender: str = "ann@example.org", **fields: object) -> Incoming:
        """Have somebody write to the assistant."""
        number = len(self.messages) + 1
        given = {"id": f"m{number}", "position": str(number), "place": sender, **fields}
        message = msgspec.convert({"sender": sender, "text": text, **given}, Incoming)
        self.messages.append(message)
        await self.tell()
        return message

    async def tell(self) -> None:
        """Wake who listens, and who waits for what is sent."""
        async with self.news:
            self.news.notify_all()

    async def answers(self, number: int = 1) -> list[Outgoing]:
        """The messages that were sent, once there are so many."""
        async with asyncio.timeout(60), self.news:
            await self.news.wait_for(lambda: len(self.sent) >= number)
        return self.sent

    @property
    def texts(self) -> list[str]:
        """The texts that were sent."""
        return [message.text for message in self.sent]


class StandIn:
    """The kind that speaks to a service of this process."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.service.opened += 1
        self.can = service.can

    async def listen(self, position: str, take: Take, tell: Tell) -> None:
        """Give every message after a position, and what comes."""
        at = int(position or 0)
        while True:
            self._check()
            await self.service.accepts.wait()
            await tell(self.service.warning)
            new: Iterable[Incoming] = self.service.messages[at:]
            if not new:
                async with self.service.news:
                    await self.service.news.wait()
                continue
            at = int(list(new)[-1].position)
            await take(list(new), str(at))

    async def send(self, message: Outgoing) -> str:
        """Count a message, once by its id; or lose the answer."""
        self._check()
        service = self.service
        if service.failures:
            raise service.failures.pop(0)
        number, is_known = len(service.sent), message.id in service.by_id and "ids" in self.can
        if not is_known:
            service.sent.append(message)
            service.by_id[message.id] = message
        await service.tell()
        if number in service.loses and not is_known:
            service.loses.discard(number)
            raise AmbiguousError("the answer was lost")
        return f"s-{message.id}"

    async def fetch(self, file: IncomingFile, path: Path, most: int) -> None:
        """Write a file that the service has."""
        content = self.service.files[file.reference]
        if len(content) > most:
            raise ChatError(f"the file has more than {most:,} bytes", final=True)
        path.write_bytes(content)

    async def close(self) -> None:
        """Do nothing: there is no connection."""

    def _check(self) -> None:
        if self.service.refusal is not None:
            raise self.service.refusal
        if self.service.is_away:
            raise ConnectionError("the service is away")


def open_chat(settings: ChatSettings, home: Path, secret: str) -> StandIn:
    """The kind of a chat whose server is a service of this process."""
    return StandIn(SERVICES.setdefault(settings.server, Service()))


def use_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the stand-in be a kind."""
    SERVICES.clear()
    monkeypatch.setitem(CHAT_KINDS, STAND_IN, __name__)
    monkeypatch.setitem(NEEDED, STAND_IN, {})
