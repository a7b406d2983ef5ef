"""The client: what it says of a daemon that is absent, silent or not well."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from narval.ask.asker import Scope
from narval.core.errors import DaemonGoneError, SilentError, UnansweredError
from narval.surfaces.control import wire
from narval.surfaces.control.async_client import AsyncClient
from narval.surfaces.control.client import ANSWER, Client, seconds_for


def test_an_answer_is_awaited_for_what_was_wished_or_for_years() -> None:
    assert seconds_for({"wait": 5, "timeout": 2.5, "limit": 9}) == ANSWER + 7.5
    for endless in (float("inf"), float("nan"), 1e300):
        assert ANSWER < seconds_for({"wait": endless}) < 10**9
    assert seconds_for({"wait": float("-inf"), "timeout": -1e9}) == ANSWER


def test_nobody_listening_is_no_daemon_and_silence_is_one_that_is_gone(folder: Path) -> None:
    path = folder / "socket"
    assert Client.reach(path) is None
    with pytest.raises(DaemonGoneError, match="no daemon answers"):
        Client(path)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen()
        with pytest.raises(DaemonGoneError, match=r"has not answered within 0\.05 seconds"):
            Client(path, patience=0.05)


def test_a_daemon_that_accepts_no_more_is_tried_until_patience_ends(folder: Path) -> None:
    path = folder / "socket"
    with socket.socket(socket.AF_UNIX) as full:
        full.bind(str(path))
        full.listen(0)
        waiting = []
        for _ in range(2):
            connection = socket.socket(socket.AF_UNIX)
            connection.setblocking(False)
            connection.connect_ex(str(path))
            waiting.append(connection)
        with pytest.raises(DaemonGoneError):
            Client(path, patience=0.12)
        for connection in waiting:
            connection.close()


def test_a_daemon_that_ends_once_it_was_asked_may_have_done_it(folder: Path) -> None:
    path = folder / "socket"
    with socket.socket(socket.AF_UNIX) as ending:
        ending.bind(str(path))
        ending.listen()

        def hang_up() -> None:
            connection, _ = ending.accept()
            connection.sendall(wire.frame(wire.GREETING, None, None, {}))
            connection.recv(100)
            connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(UnansweredError, match="ended before it answered"), Client(path) as client:
            client.ask("add")
        thread.join(60)


def test_a_daemon_that_is_silent_once_it_was_asked_may_do_it_yet(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(folder / "socket"))
        silent.listen()

        def greet() -> None:
            connection, _ = silent.accept()
            with connection:
                connection.sendall(wire.frame(wire.GREETING, None, None, {}))
                while connection.recv(100):
                    pass

        thread = threading.Thread(target=greet)
        thread.start()
        what = (
            r"has not answered within 0\.05 seconds .*, and may still be doing it; what it was asked may be"
        )
        with Client(folder / "socket", answer=0.05) as client, pytest.raises(UnansweredError, match=what):
            client.ask("add")
        thread.join(60)


@pytest.mark.parametrize("how", ["hangs up", "says so", "is silent"])
@pytest.mark.parametrize(
    ("scope", "error"),
    [(None, "UnansweredError: .*; what it was asked may be recorded"), ("read", "(Daemon|Sil)")],
)
def test_many_requests_of_a_daemon_that_ends_may_have_been_done_unless_they_only_read(
    folder: Path, scope: Scope | None, error: str, how: str
) -> None:
    async def end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(wire.frame(wire.GREETING, None, None, {}))
        asked = ""
        while asked != "add":
            body = await reader.readexactly(wire.length(await reader.readexactly(wire.HEADER)))
            asked = wire.request(body).method
            if asked == "limit":
                writer.write(wire.frame(wire.REPLY, wire.request(body).number, None, None))
        if how == "is silent":
            await reader.read()
        if how == "says so":
            ends = wire.error_form(UnansweredError("it ends"))
            writer.write(wire.frame(wire.REPLY, wire.request(body).number, ends, None))
            await writer.drain()
        writer.close()

    async def ask() -> None:
        async with await asyncio.start_unix_server(end, folder / "socket"):
            client = AsyncClient(lambda: folder / "socket", scope, answer=0.1 if how == "is silent" else 60.0)
            try:
                await client.ask("add")
            finally:
                await client.close()

    with pytest.raises(DaemonGoneError) as gone:
        asyncio.run(ask())
    assert re.match(error, f"{type(gone.value).__name__}: {gone.value}")
    assert str(gone.value).count("may be recorded") == (scope is None)
    assert ("and may still be doing it" in str(gone.value)) == (scope is None and how == "is silent")
    assert isinstance(gone.value, SilentError) == (scope == "read" and how == "is silent")


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x00\x00\x00\x01\xc1",
        wire.frame(wire.GREETING, None, None, {}) + b"\x00\x00",
        wire.frame(wire.GREETING, None, None, {}) + wire.frame(wire.REPLY, 99, None, 1),
        wire.frame(wire.GREETING, None, None, {}) + wire.frame("x", 1, None, 1),
    ],
)
def test_what_does_not_speak_as_a_daemon_is_no_daemon(folder: Path, said: bytes) -> None:
    path = folder / "socket"
    with socket.socket(socket.AF_UNIX) as impostor:
        impostor.bind(str(path))
        impostor.listen()

        def speak() -> None:
            connection, _ = impostor.accept()
            connection.sendall(said)
            connection.shutdown(socket.SHUT_WR)
            with connection, suppress(ConnectionError):
                while connection.recv(100):
                    pass

        thread = threading.Thread(target=speak)
        thread.start()
        with pytest.raises(DaemonGoneError) as caught, Client(path) as client:
            client.ask("echo")
        assert "expected bytes" not in str(caught.value)  # words of a library
        thread.join(60)
