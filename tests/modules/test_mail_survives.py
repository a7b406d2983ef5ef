"""IMAP survives its servers: away, slow, lying, back again; one error a cause, and no busy loop (N36)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest

from modules.mail import boxes, imap, letters
from tests.mail_servers import PASSWORD, Servers
from tests.mail_servers import servers as servers
from tests.modules.imap_server import ImapServer, Talk
from tests.modules.mailboxes import letter, watching
from tests.modules.mailboxes import no_thread_is_left as no_thread_is_left
from tests.modules.reading import Reading

PAUSE = 0.02
TRIES = 4


class Altered:
    """A writer that says something else: `alter` gives it, or None to hang up."""

    def __init__(self, writer: Any, alter: Callable[[bytes], bytes | None]) -> None:
        self._writer, self._alter = writer, alter

    def write(self, data: bytes) -> None:
        altered = self._alter(data)
        if altered is None:
            self._writer.transport.abort()
        else:
            self._writer.write(altered)


Fault = Callable[[ImapServer], Talk]


def alters(alter: Callable[[bytes], bytes | None]) -> Fault:
    """A server that says something else than it should."""

    def fault(server: ImapServer) -> Talk:
        return lambda reader, writer: server.talk(reader, Altered(writer, alter))

    return fault


def says(data: bytes, pause: float = 0.0, *, again: bool = False) -> Fault:
    """A server that says one thing whatever it is told; with a pause, a byte at a time."""

    def fault(_: ImapServer) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: Any) -> None:
            while True:
                for piece in [data[n : n + 1] for n in range(len(data))] if pause else [data]:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(pause)
                if not again:
                    await reader.read()
                    return

        return talk

    return fault


def at(word: bytes, alter: Callable[[bytes], bytes | None]) -> Fault:
    """A server that says something else where a word comes."""
    return alters(lambda data: alter(data) if word in data else data)


FAULTS: dict[str, Fault] = {
    "hangs up at once": alters(lambda _: None),
    "hangs up when it is asked for a mail": at(b"FETCH (UID", lambda _: None),
    "hangs up when it is waited for": at(b"+ idling", lambda _: None),
    "says nothing": says(b""),
    "drips": says(b"* OK ready when you are" * 100, 0.01, again=True),
    "speaks no language": says(b"\x00\xff what is this\r\n", again=True),
    "speaks another language": says(b"220 mx.example.org ESMTP\r\n"),
    "never ends a line": says(b"* OK " + b"x" * 200_000, again=True),
    "never ends an answer": says(b"* OK ready\r\n* 1 EXISTS\r\n" * 5_000, again=True),
    "announces what no mail has": at(
        b"FETCH (UID", lambda _: b"* 1 FETCH (UID 1 BODY[]<0> {99999999999}\r\n"
    ),
    "numbers mails by words": at(b"* SEARCH", lambda data: data.replace(b"* SEARCH", b"* SEARCH one two")),
    "answers somebody else": at(b" OK done", lambda data: data.replace(b" OK done", b"9 OK done")),
    "has no time": at(b" OK done", lambda _: b"* BYE [UNAVAILABLE] come again\r\n"),
    "tells the password": at(b" OK done", lambda _: b'* BYE you said "pass word"\r\n'),
}

BOUNDS_OF_TIME = {"says nothing": ("SERVER_SECONDS", 0.3), "drips": ("ANSWER_SECONDS", 0.4)}
"""The bound of time that a fault meets. All others are met by what comes or that nothing more does: where a
machine is slow, a bound of time would be met as well, and be a second cause to be told.
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home, and pauses and bounds of size small enough to be met."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "imap-secret").write_text("pass word\n")
    (tmp_path / "etc" / "imap-secret").chmod(0o600)
    for room, name, value in (
        (boxes, "FIRST_PAUSE", PAUSE),
        (imap, "MOST_LINE", 100_000),
        (imap, "LULL_SECONDS", 0.1),
        (letters, "MAX_MAIL", 100_000),
    ):
        monkeypatch.setattr(room, name, value)
    return tmp_path


@pytest.mark.parametrize("when", ["from the start", "in the middle"])
@pytest.mark.parametrize("fault", FAULTS)
def test_N36_a_server_that_misbehaves_costs_one_error_a_cause_and_is_read_when_it_mends(
    home: Path, fault: str, when: str
) -> None:
    async def story() -> None:
        async with (
            ImapServer(letter(1)) as server,
            watching(home, server.element()) as watcher,
            Reading(watcher) as reading,
        ):
            if when == "in the middle":
                await server.idling.wait()
                server.mails[2] = letter(2)
            if fault in BOUNDS_OF_TIME:
                bounds.setattr(imap, *BOUNDS_OF_TIME[fault])
            server.misbehaves = FAULTS[fault](server)
            server.hang_up()
            before, began = server.connections, time.monotonic()
            await reading.until(lambda: server.connections >= before + TRIES)
            assert time.monotonic() - began > PAUSE * (2 ** (TRIES - 1) - 1) * 0.9, "a busy loop"
            server.misbehaves = None
            server.mails[3] = letter(3)
            await reading.until(lambda: server.connections > before + TRIES)
            bounds.undo()
            await reading.until(lambda: reading.has("mail 3"))
            assert reading.has("mail 1")
            assert 1 <= len(reading.errors) <= (1 if when == "from the start" else 2)
            assert len(set(reading.errors)) == len(reading.errors)
            assert not any("pass word" in error for error in reading.errors)

    with pytest.MonkeyPatch.context() as bounds:
        asyncio.run(story())


def test_N36_a_server_that_is_not_there_at_the_start_is_told_once_and_read_when_it_comes(home: Path) -> None:
    async def story() -> None:
        async with ImapServer(letter(1)) as server:
            server.close()
            async with watching(home, server.element()) as watcher, Reading(watcher) as reading:
                await reading.until(lambda: watcher.call.has_caught_up)
                await asyncio.sleep(10 * PAUSE)
                await server.open()
                await reading.until(lambda: reading.has("mail 1"))
                assert len(reading.errors) == 1

    asyncio.run(story())


def test_N36_a_real_server_that_ends_and_begins_again_is_told_once_and_read_on(
    home: Path, servers: Servers
) -> None:
    (home / "etc" / "imap-secret").write_text(PASSWORD)
    where = f'host="127.0.0.1" port="{servers.imap}" tls="none"'
    box = f'<mailbox kind="imap" {where} user="eve" secret="imap-secret"/>'

    async def story() -> None:
        async with watching(home, box) as watcher, Reading(watcher) as reading:
            for number in (1, 2):
                await asyncio.to_thread(
                    servers.send, message_from_bytes(letter(number, To="eve@example.org"))
                )
                await reading.until(lambda number=number: reading.has(f"mail {number}"))
                await asyncio.sleep(0.2)
                await asyncio.to_thread(servers.end, "imap")
                await reading.until(lambda number=number: len(reading.errors) >= number)
                await asyncio.sleep(0.5)
                await asyncio.to_thread(servers.begin, "imap")
            await asyncio.to_thread(servers.send, message_from_bytes(letter(3, To="eve@example.org")))
            await reading.until(lambda: reading.has("mail 3"))
            assert len(reading.errors) <= 4, "each time that it hung up, and that it was not there"

    asyncio.run(story())


WOLVES: dict[str, Callable[[bytes], bytes]] = {
    "counts wrong": lambda data: b"* 99 EXISTS\r\n* 3 EXPUNGE\r\n" + data,
    "calls while it is waited for": lambda data: data.replace(b"+ idling\r\n", b"+ idling\r\n* 9 EXISTS\r\n"),
    "names mails that are not there": lambda data: data.replace(b"* SEARCH", b"* 9 EXISTS\r\n* SEARCH 77 "),
}


@pytest.mark.parametrize("lie", WOLVES)
def test_a_server_that_cries_wolf_is_not_asked_again_at_once(home: Path, lie: str) -> None:
    async def story() -> None:
        async with ImapServer(letter(1)) as server:
            told = server.respond
            server.respond = lambda command, rest: b"" if "77 (FLAGS" in rest else told(command, rest)  # type: ignore[method-assign]
            greeted = b"* OK ready\r\n"
            alter = WOLVES[lie]
            server.misbehaves = alters(lambda data: data if data == greeted else alter(data))(server)
            async with watching(home, server.element()) as watcher, Reading(watcher) as reading:
                await reading.until(lambda: reading.has("mail 1"))
                server.asked.clear()
                await asyncio.sleep(0.4)
                assert len(server.asked) < 30, "ten rounds a second at most"
                server.mails[2] = letter(2)
                server.deliver(letter(3))
                await reading.until(lambda: reading.has("mail 3"))

    asyncio.run(story())
