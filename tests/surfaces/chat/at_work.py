"""A home with a daemon and the program `narval chat` at work in this process, and a service in memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from narval.daemon.daemon import Daemon
from narval.files.home import Home
from narval.surfaces.chat.program import serve
from narval.surfaces.cli.without_daemon import serving
from narval.surfaces.control.async_client import AsyncClient
from tests.surfaces.chat.stand_in import SERVICES, STAND_IN, Service

PEOPLE = """
[people.ann]
chat = ["xmpp:ann@example.org"]
web = "operator"
[people.ben]
chat = ["xmpp:ben@example.org"]
[people.rob]
chat = ["xmpp:rob@example.org"]
web = "reader"
"""

SETTINGS = f'[chats.phone]\nkind = "{STAND_IN}"\nserver = "here"\n'


def make_chat_home(folder: Path, settings: str = "", people: str = PEOPLE) -> Home:
    """A home with a chat, whose people have addresses there."""
    for part in ("etc", "recipes", "modules", "data"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "etc/narval.toml").write_text(SETTINGS + settings)
    (folder / "etc/people.toml").write_text(people)
    return Home(folder)


class ChatAtWork:
    """A daemon and the program at work on a home; the service at which people write."""

    def __init__(self, home: Home, daemon: Daemon, client: AsyncClient, service: Service) -> None:
        self.home, self.daemon, self.client, self.service = home, daemon, client, service
        self._program: asyncio.Task[None] | None = None

    async def ask(self, method: str, /, **params: Any) -> Any:
        """The answer to an operation."""
        return await self.client.ask(method, **params)

    def begin(self) -> None:
        """Begin the program."""
        asks = AsyncClient(self.home.known_socket)
        self._program = asyncio.get_running_loop().create_task(serve(self.home.path, asks))

    async def kill(self) -> None:
        """End the program without a word."""
        if self._program is not None:
            self._program.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._program
            self._program = None

    async def says(self, text: str, sender: str = "ann@example.org", **fields: Any) -> str:
        """Have somebody write, and give the next message that is sent."""
        number = len(self.service.sent)
        await self.service.write(text, sender, **fields)
        return (await self.service.answers(number + 1))[number].text

    async def settled(self) -> None:
        """Wait until nothing waits to be dealt with or to be sent."""
        async with asyncio.timeout(60):
            while True:
                (row,) = await self.ask("chats")
                if row["position"] == (self.service.messages or [_START])[-1].position and not (
                    row["inbox"] or row["owed"] or row["outbox"]
                ):
                    return
                await asyncio.sleep(0.01)


class _START:
    position = ""


@asynccontextmanager
async def chat_at_work(
    home: Home, service: Service | None = None, *, begin: bool = True
) -> AsyncIterator[ChatAtWork]:
    """A home at work, and the program if it is to begin."""
    service = SERVICES.setdefault("here", service or Service())
    async with serving(home, as_daemon=True) as daemon:
        work = asyncio.get_running_loop().create_task(daemon.main_loop.run())
        client = AsyncClient(home.known_socket)
        chat = ChatAtWork(home, daemon, client, service)
        if begin:
            chat.begin()
        try:
            yield chat
        finally:
            await chat.kill()
            await client.close()
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await work
