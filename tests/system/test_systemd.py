"""Notices to a service manager at a real socket, by path and by abstract name; lines of the journal."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from narval.core.errors import DaemonGoneError
from narval.system.systemd import JournalFormatter, ServiceManager, is_journal, journal_command


@pytest.fixture(params=["path", "abstract"])
def listening(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    """A service manager's socket, and its name as the environment has it."""
    if request.param == "path":
        bound = named = str(tmp_path / "notify")
    else:
        named = f"@narval-test-{os.getpid()}-{tmp_path.name}"
        bound = "\0" + named[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(bound)
        heard.settimeout(60.0)
        yield heard, named


def told(heard: socket.socket) -> list[str]:
    return heard.recv(4096).decode().split("\n")


def test_each_word_arrives_as_one_datagram(listening: tuple[socket.socket, str]) -> None:
    heard, named = listening
    manager = ServiceManager({"NOTIFY_SOCKET": named})
    manager.ready("2 runs\nunder way")
    manager.reloading()
    manager.stopping()
    assert told(heard) == ["READY=1", "STATUS=2 runs under way"]
    first, second = told(heard)
    assert (first, second.partition("=")[0]) == ("RELOADING=1", "MONOTONIC_USEC")
    assert told(heard)[0] == "STOPPING=1"


def test_programs_that_the_daemon_starts_cannot_speak_in_its_name() -> None:
    environ = {"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "1000", "WATCHDOG_PID": str(os.getpid()), "HOME": "/"}
    assert ServiceManager(environ).watchdog == 0.001
    assert environ == {"HOME": "/"}


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"WATCHDOG_USEC": "1000"},
        {"NOTIFY_SOCKET": "@x"},
        {"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "0"},
        {"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "often"},
        {"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"},
    ],
)
def test_nobody_watches_unless_it_is_asked_for(environ: dict[str, str]) -> None:
    manager = ServiceManager(environ)
    assert manager.watchdog is None

    async def turn() -> None:
        raise AssertionError("no turn is made for nobody")

    asyncio.run(manager.keep_alive(turn, str))


@pytest.mark.parametrize("named", ["", "/nowhere/notify", "@nobody-listens-here", "relative"])
def test_a_manager_that_does_not_listen_stops_nobody(named: str) -> None:
    ServiceManager({"NOTIFY_SOCKET": named}).ready()


def test_it_is_alive_once_a_turn_has_ended_and_not_before(listening: tuple[socket.socket, str]) -> None:
    heard, named = listening
    manager = ServiceManager({"NOTIFY_SOCKET": named, "WATCHDOG_USEC": "2000"})
    turns = 0

    async def turn() -> None:
        nonlocal turns
        with pytest.raises(BlockingIOError):
            heard.recv(4096)
        if turns == 3:
            raise DaemonGoneError("it broke down")
        turns += 1

    async def alive() -> None:
        loop = asyncio.get_running_loop()
        heard.setblocking(False)
        task = asyncio.create_task(manager.keep_alive(turn, lambda: f"{turns} turns"))
        for number in (1, 2, 3):
            data = await loop.sock_recv(heard, 4096)
            assert data.decode() == f"WATCHDOG=1\nSTATUS={number} turns"
        await task

    asyncio.run(alive())


# --- the journal ----------------------------------------------------------------------------------------


def test_only_the_stream_that_is_named_is_the_journal(tmp_path: Path) -> None:
    with (tmp_path / "stream").open("w") as stream, (tmp_path / "other").open("w") as other:
        status = os.fstat(stream.fileno())
        environ = {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}
        assert is_journal(stream.fileno(), environ)
        assert not is_journal(other.fileno(), environ)
        assert not is_journal(stream.fileno(), {})
        gone = other.fileno()
    assert not is_journal(gone, environ)


@pytest.mark.parametrize(
    ("level", "number"),
    [(logging.DEBUG, 7), (logging.INFO, 6), (logging.WARNING, 4), (logging.ERROR, 3), (logging.CRITICAL, 2)],
)
def test_each_line_for_the_journal_has_its_level(level: int, number: int) -> None:
    record = logging.LogRecord("narval.x", level, "", 0, "one\ntwo", None, None)
    assert JournalFormatter().format(record) == f"<{number}>narval.x: one\n<{number}>    two"


@pytest.mark.parametrize(
    ("cgroup", "command"),
    [
        (
            "0::/user.slice/user@1000.service/app.slice/mail.service",
            "journalctl --user -u mail",
        ),
        ("0::/system.slice/narval.service", "journalctl -u narval"),
        ("0::/", "journalctl -u narval"),
        (None, "journalctl -u narval"),
    ],
)
def test_how_to_see_the_journal_follows_from_the_unit(
    tmp_path: Path, cgroup: str | None, command: str
) -> None:
    if cgroup is not None:
        (tmp_path / "cgroup").write_text(cgroup + "\n")
    assert journal_command(tmp_path / "cgroup") == command
