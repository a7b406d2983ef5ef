"""Hostile servers: floods, huge messages, rubbish, silence and false results end in an error (G84)."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from narval.calls.mcp import transports
from narval.calls.mcp.backend import Connection
from narval.calls.mcp.frames import Connect, FromBridge, ToolProgressed
from narval.calls.workers.child import Child
from tests.calls.mcp.servers_at_work import HomeWithServer


@pytest.mark.parametrize(
    ("how", "attributes", "kind", "message"),
    [
        ("huge", {}, "server-lost", "it sent a message of more than 4,194,304 bytes"),
        ("rubbish", {}, "server-lost", "it sent more than 100 lines that are no messages"),
        ("mute", {"timeout": "2"}, "timeout", "did not come back within 2 s"),
        ("many", {}, "too-large", "expected at most 500 tools"),
    ],
)
def test_what_a_server_should_not_do_is_an_error(
    tmp_path: Path, how: str, attributes: dict[str, str], kind: str, message: str
) -> None:
    home = HomeWithServer(tmp_path)
    try:
        home.behave(how)
        made = home.call("parts", **attributes)
        assert made.attributes["type"] == kind
        assert message in made.text
    finally:
        home.close()


def test_a_flood_costs_the_daemon_little_and_a_result_against_its_schema_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G84, G12: of 6,000 messages the daemon hears what anybody could look at, 20 reports a second."""
    heard: list[tuple[float, object]] = []
    said = Connection.child_said

    def child_said(self: Connection, child: Child, message: FromBridge) -> None:
        heard.append((time.monotonic(), message))
        said(self, child, message)

    monkeypatch.setattr(Connection, "child_said", child_said)
    home = HomeWithServer(tmp_path)
    try:
        home.behave("flood")
        began = time.monotonic()
        assert home.call("environment").name == "environment-result"
        reports = [moment for moment, message in heard if isinstance(message, ToolProgressed)]
        assert 1 <= len(reports) <= 2 + (reports[-1] - began) / 0.05
        assert len(heard) == len(reports) + 2  # it is connected, and its answer
        home.behave("odd")
        made = home.call("shape")
        assert made.attributes["type"] == "bad-output"
    finally:
        home.close()


def test_a_program_that_does_not_end_when_its_input_does_is_killed_and_its_pipes_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transports, "FAREWELL", 0.01)
    itself = psutil.Process()

    async def use() -> None:
        before, others = itself.num_fds(), set(itself.children())
        words = ("sh", "-c", "sleep 30 & exec sleep 600")  # what it has started keeps its output open
        server = Connect("test", words, "", {}, "", "")
        async with transports.program_streams(server, transports.StreamEnd(), None):
            (program,) = set(itself.children()) - others  # the newest is not the last: numbers begin anew
        async with asyncio.timeout(20):
            with suppress(psutil.NoSuchProcess):
                while program.status() != psutil.STATUS_ZOMBIE:
                    await asyncio.sleep(0.005)
            while itself.num_fds() > before:
                await asyncio.sleep(0.005)

    asyncio.run(use())
