"""A daemon that comes is noticed at once by all programs beside it: no clock tells them, but the folder."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from narval.ask.asker import Asker
from narval.core.errors import DaemonGoneError, RequestError
from narval.files.outside.chats import ChatSettings
from narval.files.outside.peers import PeerSettings
from narval.surfaces.chat.connection import ChatConnection, ChatRecords
from narval.surfaces.chat.program import _other_files
from narval.surfaces.control import async_client, wire
from narval.surfaces.control.async_client import AsyncClient
from narval.surfaces.control.server import ControlServer
from narval.surfaces.http.hub import FollowedPage, Questions
from narval.surfaces.link.asking import PeerAsking
from narval.system.file_events import FileEvents

WITHIN = 60.0


class Place:
    """A place where daemons come and go; each waiting request of its programs is answered when it is let."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "socket"
        self.asked: asyncio.Queue[str] = asyncio.Queue()
        self.refusals = 0
        self._looks: asyncio.Queue[None] = asyncio.Queue()

    def find(self) -> Path:
        """The path of the socket, as a client asks for it."""
        self._looks.put_nowait(None)
        return self.path

    async def is_watched(self) -> None:
        """Return once a client that asked in vain has its watch, and looks for the daemon once more."""
        async with asyncio.timeout(WITHIN):
            for _ in range(3):
                await self._looks.get()

    async def _invoke(self, asker: Asker, name: str, arguments: dict[str, Any]) -> Any:
        self.asked.put_nowait(name)
        if self.refusals:
            self.refusals -= 1
            raise RequestError("not now")
        await asyncio.sleep(3600 if arguments.get("after") else 0)
        return ANSWERS.get(name)

    @asynccontextmanager
    async def daemon(self) -> AsyncIterator[None]:
        """A daemon at work within the block."""
        server = await ControlServer.open(self.path, self._invoke)
        try:
            yield
        finally:
            await server.close()

    async def is_asked(self) -> str:
        """The next operation that is asked."""
        async with asyncio.timeout(WITHIN):
            return await self.asked.get()


ANSWERS = {
    "changed": {"turn": 7, "lost": True, "runs": [], "elements": False, "faults": False},
    "chat_take": [],
    "chat_inbox": [],
    "exchange": b"",
}


@pytest.fixture
def place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A place without a daemon, and programs to which the clock says nothing."""
    monkeypatch.setattr(async_client, "AGAIN", 3600.0)
    return Place(folder)


async def _follow_page(client: AsyncClient) -> None:
    questions = Questions(client, "home")
    questions.add(cast(FollowedPage, _Follower()))
    await questions.run()


class _Follower:
    def tell(self, news: object) -> None:
        pass

    trouble = tell


async def _follow_resources(client: AsyncClient) -> None:
    resources = pytest.importorskip("narval.surfaces.mcp.resources")
    async for _ in resources.changes_of(client, "home", 3):
        pass


async def _record(client: AsyncClient) -> None:
    await ChatRecords(CHAT, client).ask("chat_inbox")


async def _take(client: AsyncClient) -> None:
    connection = ChatConnection(CHAT, cast(Any, lambda: None), client, Path(), "home")
    await connection._take([], "")


async def _watch_files(client: AsyncClient) -> None:
    turn = 0
    while not turn:
        turn = await _other_files(client, turn, 1)


async def _exchange(client: AsyncClient) -> None:
    peer = PeerSettings(name="office", url="https://office.example.org")
    await PeerAsking(client, peer, Path())._frame(None)


CHAT = ChatSettings(name="phone", kind="xmpp")

PROGRAMS = {
    "a page": _follow_page,
    "MCP": _follow_resources,
    "the records of a chat": _record,
    "what a chat brings": _take,
    "the files of chats": _watch_files,
    "a link": _exchange,
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_each_program_asks_a_daemon_that_has_come_at_once(
    place: Place, program: Callable[[AsyncClient], Awaitable[None]]
) -> None:
    async def dialogue() -> None:
        client = AsyncClient(place.find)
        work = asyncio.ensure_future(program(client))
        await place.is_watched()
        async with place.daemon():
            await place.is_asked()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await client.close()

    asyncio.run(dialogue())


def test_a_page_follows_the_daemon_that_comes_after_the_one_that_went(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_client, "AGAIN", 0.001)

    async def dialogue() -> None:
        client = AsyncClient(place.find, "read")
        work = asyncio.ensure_future(_follow_page(client))
        for _ in range(3):
            await place.is_watched()
            async with place.daemon():
                assert await place.is_asked() == "changed"
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    asyncio.run(dialogue())


async def _waits(client: AsyncClient) -> asyncio.Task[None]:
    """A program that asked in vain, and waits."""
    with pytest.raises(DaemonGoneError):
        await client.ask("echo")
    return asyncio.ensure_future(client.again())


@pytest.mark.parametrize("before", ["no folder", "another folder", "a socket of a killed daemon", "nothing"])
def test_whatever_was_at_its_place_a_daemon_is_noticed(place: Place, before: str) -> None:
    async def dialogue() -> None:
        client, folder = AsyncClient(place.find), place.path.parent
        if before == "no folder":
            folder.rmdir()
        if before == "a socket of a killed daemon":
            with _bound(place.path):
                pass
        waits = await _waits(client)
        await place.is_watched()
        assert not waits.done()
        if before == "another folder":
            folder.rename(folder.with_name("before"))
        folder.mkdir(mode=0o700, exist_ok=True)
        async with place.daemon():
            await asyncio.wait_for(waits, WITHIN)
            await client.ask("echo")
        await client.close()

    asyncio.run(dialogue())


def test_all_that_wait_share_one_watch(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Counted(FileEvents):
        def arm(self) -> None:
            made.append(self)
            super().arm()

    monkeypatch.setattr(async_client, "FileEvents", Counted)

    async def dialogue() -> None:
        client = AsyncClient(place.find)
        waits = [await _waits(client)]
        await place.is_watched()
        waits += [await _waits(client) for _ in range(20)]
        assert len(made) == 1
        waits.pop().cancel()
        async with place.daemon():
            await asyncio.wait_for(asyncio.gather(*waits), WITHIN)
        await client.close()

    asyncio.run(dialogue())


def test_a_daemon_that_is_there_and_refuses_is_asked_again_after_a_moment(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_client, "AGAIN", 0.001)

    async def dialogue() -> None:
        client = AsyncClient(place.find)
        place.refusals = 2
        work = asyncio.ensure_future(_follow_page(client))
        async with place.daemon():
            for _ in range(3):
                await place.is_asked()
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    asyncio.run(dialogue())


def test_where_the_system_watches_no_more_folders_a_daemon_is_looked_for(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: FileEvents) -> None:
        raise OSError("no more")

    monkeypatch.setattr(async_client, "AGAIN", 0.001)
    monkeypatch.setattr(FileEvents, "arm", refuse)

    async def dialogue() -> None:
        client = AsyncClient(place.find)
        waits = await _waits(client)
        async with place.daemon():
            await asyncio.wait_for(waits, WITHIN)
        await client.close()

    asyncio.run(dialogue())


@pytest.mark.parametrize("greets", [True, False])
def test_a_daemon_that_hangs_up_is_asked_again_after_a_moment_and_its_error_told(
    place: Place, monkeypatch: pytest.MonkeyPatch, greets: bool
) -> None:
    pauses = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", pause)

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if greets:
            writer.write(wire.frame(wire.GREETING, None, None, None))
        writer.close()

    async def dialogue() -> None:
        async with await asyncio.start_unix_server(hang_up, place.path):
            client = AsyncClient(place.find)
            for _ in range(4):
                with pytest.raises(DaemonGoneError, match="ended before" if greets else "no daemon answers"):
                    await client.ask("echo")
                await asyncio.wait_for(client.again(), WITHIN)
            assert pauses == [async_client.AGAIN] * (3 if greets else 3 + 4)
            await client.close()

    asyncio.run(dialogue())


def test_whatever_is_written_beside_the_socket_one_watch_is_enough(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    class Counted(FileEvents):
        def __init__(self, *arguments: Any) -> None:
            made.append(self)
            super().__init__(*arguments)

    monkeypatch.setattr(async_client, "FileEvents", Counted)

    async def dialogue() -> None:
        client = AsyncClient(place.find)
        waits = await _waits(client)
        await place.is_watched()
        for number in range(3):
            (place.path.parent / f"{number}.wal").write_text("")
            async with asyncio.timeout(WITHIN):
                await place._looks.get()
        assert len(made) == 1
        async with place.daemon():
            await asyncio.wait_for(waits, WITHIN)
        await client.close()

    asyncio.run(dialogue())


def test_a_socket_that_is_elsewhere_meanwhile_is_found(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_client, "LOOK", 0.001)
    before = [tmp_path / "before" / "socket"] * 3

    async def dialogue() -> None:
        client = AsyncClient(lambda: before.pop() if before else place.path)
        async with place.daemon():
            await asyncio.wait_for(await _waits(client), WITHIN)
        await client.close()

    asyncio.run(dialogue())


def _bound(path: Path) -> Any:
    import socket

    one = socket.socket(socket.AF_UNIX)
    one.bind(os.fspath(path))
    return one
