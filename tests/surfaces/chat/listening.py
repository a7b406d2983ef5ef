"""Listens to a kind of chat as the program does: from its position again when a connection is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from narval.surfaces.chat.contract import Incoming, Kind


class Heard:
    """The messages that were taken, the position after them, and what was lost on the way."""

    def __init__(self, position: str) -> None:
        self.position = position
        self.messages: list[Incoming] = []
        self.lost: list[str] = []
        self.warnings: list[str] = []
        """What was told each time that the session was said to be accepted."""
        self.is_listening = asyncio.Event()
        self.fails_once = False
        self._news = asyncio.Condition()

    async def take(self, messages: Sequence[Incoming], position: str) -> None:
        if self.fails_once and messages:
            self.fails_once = False
            raise ConnectionError("the daemon was killed before it took them")
        async with self._news:
            self.messages += messages
            self.position = position
            self._news.notify_all()
        self.is_listening.set()

    async def told(self, warning: str) -> None:
        self.warnings.append(warning)

    async def until(self, number: int) -> list[Incoming]:
        """The messages, once there are so many."""
        async with self._news, asyncio.timeout(60):
            await self._news.wait_for(lambda: len(self.messages) >= number)
        assert len(self.messages) == number, self.messages
        return self.messages

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.messages]


@asynccontextmanager
async def listening(kind: Kind, position: str = "") -> AsyncIterator[Heard]:
    """Listen for the time of a block."""
    heard = Heard(position)

    async def listen() -> None:
        while True:
            try:
                await kind.listen(heard.position, heard.take, heard.told)
            except OSError as error:
                heard.lost.append(str(error))
                await asyncio.sleep(0.02)

    task = asyncio.ensure_future(listen())
    try:
        if not position:
            ready = asyncio.ensure_future(heard.is_listening.wait())
            await asyncio.wait((ready, task), timeout=60, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                await task
        yield heard
        if task.done():
            await task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(task, return_exceptions=True)
        await kind.close()
