"""Hostile servers: floods, huge messages, rubbish, silence and false results end in an error (G84)."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from narval.calls.mcp import transports
from narval.calls.mcp.connection import Connection
from narval.calls.mcp.frames import Connect, FromBridge, ToolProgressed
from narval.calls.workers.child import Child
from tests.calls.mcp.servers_at_work import HomeWithServer


@pytest.mark.parametrize(
    ("how", "attributes", "kind", "message"),
    [
        ("huge", {}, "too-large", "its answer is a message of more than 4,194,304 bytes"),
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


HUGE = '"result": {"text": "%s"}'
LONG_ANSWERS = {
    "the number is first": f'{{"jsonrpc": "2.0", "id": 7, {HUGE}}}',
    "the number is last": f'{{{HUGE}, "jsonrpc": "2.0", "id": 7}}',
    "the number is before the version": f'{{{HUGE}, "id": 7, "jsonrpc": "2.0"}}',
}


@pytest.mark.parametrize("form", LONG_ANSWERS.values(), ids=LONG_ANSWERS)
@pytest.mark.parametrize("length", [5_000, 50_000])
def test_an_answer_that_is_too_long_fails_its_own_request_alone(
    monkeypatch: pytest.MonkeyPatch, form: str, length: int
) -> None:
    monkeypatch.setattr(transports, "MOST_MESSAGE", 4_096)
    script = "import sys; print(sys.argv[1] % ('x' * int(sys.argv[2]))); print(sys.argv[3])"
    words = (sys.executable, "-c", script, form, str(length), '{"jsonrpc": "2.0", "id": 8, "result": {}}')

    async def use() -> None:
        server, end = Connect("test", words, "", {}, "", ""), transports.StreamEnd()
        async with transports.program_streams(server, end, None) as (read, _):
            first, second = (await read.receive()).message, (await read.receive()).message
        assert (first.id, first.error.code) == (7, transports.TOO_LONG)
        assert (second.id, second.result) == (8, {})

    asyncio.run(use())


UNREADABLE = {"half a character": '"\\ud800"', "too deep": f"{'[' * 5_000}{']' * 5_000}"}


@pytest.mark.parametrize("value", UNREADABLE.values(), ids=UNREADABLE)
def test_an_answer_that_cannot_be_read_fails_its_own_request_alone(value: str) -> None:
    """It does not leave its call to its time limit."""
    lines = [f'{{"jsonrpc": "2.0", "id": {number}, "result": {{"x": {value}}}}}' for number in (7, 8)]
    script = "import sys; print(sys.argv[1]); print(sys.argv[2])"
    words = (sys.executable, "-c", script, lines[0], lines[1].replace(value, "1"))

    async def use() -> None:
        server, end = Connect("test", words, "", {}, "", ""), transports.StreamEnd()
        async with transports.program_streams(server, end, None) as (read, _):
            first, second = (await read.receive()).message, (await read.receive()).message
        assert (first.id, first.error.code) == (7, transports.UNREADABLE)
        assert (second.id, second.result) == (8, {"x": 1})

    asyncio.run(use())


ASKED = '{"jsonrpc": "2.0", "id": 7, "method": "sampling/createMessage", "params": {"text": "%s"}}'


@pytest.mark.parametrize("form", [f"{{{HUGE}}}", ASKED, "%s"], ids=["no number", "a request", "no message"])
def test_a_line_that_is_too_long_and_answers_nothing_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setattr(transports, "MOST_MESSAGE", 4_096)
    words = (sys.executable, "-c", "import sys; print(sys.argv[1] % ('x' * 50_000), flush=True)", form)

    async def use() -> None:
        end = transports.StreamEnd()
        async with transports.program_streams(Connect("test", words, "", {}, "", ""), end, None):
            await end.came.wait()
        assert end.why == "it sent a message of more than 4,096 bytes"

    asyncio.run(use())


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
        async with asyncio.timeout(60):
            with suppress(psutil.NoSuchProcess):
                while program.status() != psutil.STATUS_ZOMBIE:
                    await asyncio.sleep(0.005)
            while itself.num_fds() > before:
                await asyncio.sleep(0.005)

    asyncio.run(use())
