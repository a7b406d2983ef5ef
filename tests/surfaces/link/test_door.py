"""The listener of links against whoever knocks: wrong tokens, huge bodies, rubbish, slow bytes (G39, G40)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from narval.core.errors import DaemonGoneError, RequestError, UnansweredError
from narval.files.agents.senders import token_digest
from narval.files.outside.peers import PEERS_FILE, PeersFile
from narval.surfaces.control import wire
from narval.surfaces.http.server import PageServer, listening_at
from narval.surfaces.link import door as doors
from narval.surfaces.link.door import LinkDoor
from narval.surfaces.link.protocol import HEADERS, NEWEST, TooOldError, check_versions

TOKEN, OTHER = "a-token-of-laptop", "a-token-of-desk"

TABLES = f"""
[laptop]
token_sha256 = "{token_digest(TOKEN)}"
requests = 10

[desk]
token_sha256 = "{token_digest(OTHER)}"
bytes = "1K"
"""

GIVEN = {**HEADERS, "authorization": f"Bearer {TOKEN}"}


class Daemon:
    """A stand-in of the daemon, which notes what is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.answer: Callable[[], Any] = lambda: b"frame"
        self.holds: asyncio.Event | None = None

    async def ask(self, method: str, /, **params: Any) -> Any:
        self.asked.append((method, params))
        if self.holds is not None:
            await self.holds.wait()
        return self.answer()


Answer = tuple[int, Mapping[str, str], bytes]


def chunks_of(body: bytes) -> Iterator[bytes]:
    """The pieces of a body that came in chunks."""
    while body:
        size, _, rest = body.partition(b"\r\n")
        yield rest[: int(size, 16)]
        body = rest[int(size, 16) + 2 :]


class Knocks:
    """The way to a door that listens at a port of this machine."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def send(self, data: bytes, *, ends: bool = False) -> Answer:
        """The answer to raw bytes; status 0 where the door hung up without one."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(data)
            await writer.drain()
            if ends:
                writer.write_eof()
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            except (EOFError, ConnectionError):
                return 0, {}, b""
            named = (line.partition(": ") for line in head[1:] if line)
            headers = {name.lower(): value for name, _, value in named}
            length = headers.get("content-length")
            body = await (reader.readexactly(int(length)) if length else reader.read())
            if "transfer-encoding" in headers:
                body = b"".join(chunks_of(body))
            return int(head[0].split(" ")[1]), headers, body
        finally:
            writer.close()

    async def post(self, path: str, body: bytes = b"", **changed: str | None) -> Answer:
        """The answer to a request of the laptop; `changed` are headers that it has otherwise, or not."""
        headers: dict[str, str | None] = {**GIVEN, "content-length": str(len(body)), "connection": "close"}
        headers |= {name.replace("_", "-"): value for name, value in changed.items()}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items() if value is not None)
        return await self.send(f"POST {path} HTTP/1.1\r\nhost: x\r\n{head}\r\n".encode() + body)


@pytest.fixture
def knocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Has work done at the door of a home with two peers; the file of these is in the folder."""
    (tmp_path / "etc").mkdir()
    (tmp_path / PEERS_FILE).write_text(TABLES)
    monkeypatch.setattr(doors, "PAUSE", 0.05)
    monkeypatch.setattr(doors, "SENDING", 0.2)

    def run(work: Callable[[Knocks, Daemon], Awaitable[None]]) -> None:
        async def serve() -> None:
            daemon = Daemon()
            listener = listening_at("127.0.0.1", 0)
            server = PageServer(LinkDoor(daemon, PeersFile(tmp_path)))
            serving = asyncio.create_task(server.serve([listener]))
            await work(Knocks(listener.getsockname()[1]), daemon)
            server.end()
            await serving

        asyncio.run(serve())

    return run


def told(answer: Answer) -> str:
    return str(json.loads(answer[2])["error"])


def asked_for(method: str, **params: Any) -> bytes:
    return wire.frame(wire.REQUEST, 7, method, params)


def test_an_exchange_and_a_question_come_to_the_daemon_in_the_name_of_their_peer(knocked: Any) -> None:
    async def work(knocks: Knocks, daemon: Daemon) -> None:
        assert await exchanged(knocks) == b"frame"
        assert daemon.asked == [("exchange", {"peer": "laptop", "frame": b"given", "wait": 30.0})]
        daemon.answer = lambda: ["x" * 200_000, "y" * 200_000]
        status, _, body = await knocks.post("/ask", asked_for("memory", limit=2))
        assert status == 200
        size = wire.length(body[:4])
        assert wire.fields(body[4 : 4 + size]) == [wire.PART, 7, None, ["x" * 200_000]]
        name, params = daemon.asked[-1]
        assert (name, params["peer"], params["method"]) == ("ask_for_peer", "laptop", "memory")
        assert params["arguments"] == {"limit": 2}
        await knocks.post("/ask", asked_for("wait", run=7, timeout=90))
        assert daemon.asked[-1][1]["wait"] == 90.0

    async def exchanged(knocks: Knocks) -> bytes:
        status, headers, body = await knocks.post("/link", b"given", narval_wait="1000")
        assert (status, headers["narval-link"]) == (200, HEADERS["narval-link"])
        return body

    knocked(work)


def test_G40_a_wrong_token_costs_a_pause_and_is_a_line_of_the_log_a_day(
    knocked: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(knocks: Knocks, daemon: Daemon) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for wrong in ("Bearer x", f"Basic {TOKEN}", "Bearer ", "", "Bearer \xff", None):
            answer = await knocks.post("/link", b"given", authorization=wrong)
            assert answer[0] == 401, wrong
            assert "the link was removed on that side, or never accepted there" in told(answer)
        assert loop.time() - began >= 6 * 0.05
        assert daemon.asked == []

    with caplog.at_level(logging.WARNING, "narval.link"):
        knocked(work)
    assert sum("the token of no link here" in record.getMessage() for record in caplog.records) == 1


def test_who_is_removed_from_the_file_is_refused_at_once(knocked: Any, tmp_path: Path) -> None:
    async def work(knocks: Knocks, daemon: Daemon) -> None:
        assert (await knocks.post("/link"))[0] == 200
        (tmp_path / PEERS_FILE).write_text(TABLES.partition("[desk]")[2].join(("[desk]", "")))
        assert (await knocks.post("/link"))[0] == 401
        (tmp_path / PEERS_FILE).write_text("[laptop")
        assert told(await knocks.post("/link")) == "This home cannot read who its peers are."

    knocked(work)


@pytest.mark.parametrize(
    ("path", "changed", "body", "status", "expected"),
    [
        ("/", {}, b"", 404, "Peers ask at /link and /ask."),
        ("/link", {"content_length": "33554437"}, b"", 413, "Expected at most 33,554,432 bytes"),
        ("/link", {"content_length": None}, b"", 411, "Expected the length of the body."),
        ("/link", {"content_length": None, "transfer_encoding": "chunked"}, b"0\r\n\r\n", 411, "Expected"),
        ("/link", {"narval_link": None}, b"", 426, "laptop, names no versions of links"),
        ("/link", {"narval_link": "0-0"}, b"", 426, "narval is too old at your side, laptop,"),
        ("/link", {"narval_link": f"{NEWEST + 1}-{NEWEST + 9}"}, b"", 426, "narval is too old here"),
        ("/ask", {}, b"rubbish", 400, "Not understood: expected a frame of 1 to"),
        ("/ask", {}, b"", 400, "Not understood: expected a frame of 1 to"),
        ("/ask", {}, b"\0\0\0\1\xc1", 400, "Not understood: expected msgpack"),
        ("/ask", {}, asked_for("status") + b"more", 400, "Not understood: expected one frame of"),
        ("/ask", {}, wire.frame(1, 2, 3, {"as": "ann"}), 400, "Not understood: expected a request"),
        (
            "/ask",
            {},
            wire.frame(0, 1, "work", {}, {"as": "ann"}),
            400,
            "Not understood: a peer speaks for no person",
        ),
    ],
)
def test_what_is_no_request_of_a_peer_is_refused_with_a_reason(
    knocked: Any, path: str, changed: dict[str, str | None], body: bytes, status: int, expected: str
) -> None:
    async def work(knocks: Knocks, daemon: Daemon) -> None:
        answer = await knocks.post(path, body, **changed)
        assert answer[0] == status
        assert expected in told(answer)
        assert daemon.asked == []

    knocked(work)


def test_what_is_no_http_or_does_not_go_on_ends_and_the_next_is_served(knocked: Any) -> None:
    async def work(knocks: Knocks, daemon: Daemon) -> None:
        assert (await knocks.send(b"\x16\x03\x01 rubbish\r\n\r\n"))[0] == 400
        assert (await knocks.send(b"GET /link HTTP/1.1\r\nhost: x\r\n\r\n"))[0] == 405
        head = "".join(f"{name}: {value}\r\n" for name, value in GIVEN.items())
        slow = f"POST /link HTTP/1.1\r\nhost: x\r\n{head}content-length: 100\r\n\r\nslow".encode()
        assert told(await knocks.send(slow)) == "The request did not arrive within 0.2 seconds."
        assert (await knocks.send(slow, ends=True))[0] in (0, 400)
        assert daemon.asked == []
        assert (await knocks.post("/link"))[0] == 200

    knocked(work)


def test_G39_a_peer_has_so_many_requests_and_bytes_a_minute_and_others_are_served(knocked: Any) -> None:
    async def work(knocks: Knocks, daemon: Daemon) -> None:
        for _ in range(10):
            assert (await knocks.post("/link"))[0] == 200
        refused = await knocks.post("/link")
        assert (refused[0], refused[1]["retry-after"]) == (429, "60")
        assert told(refused) == "Too many requests: laptop may make 10 a minute."
        desk = f"Bearer {OTHER}"
        assert (await knocks.post("/link", b"x" * 1000, authorization=desk))[0] == 200
        refused = await knocks.post("/link", b"x" * 1000, authorization=desk)
        assert told(refused) == "Too much: desk may send 1,024 bytes a minute."

    knocked(work)


def test_a_peer_has_so_many_requests_under_way(knocked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "UNDER_WAY", 2)

    async def work(knocks: Knocks, daemon: Daemon) -> None:
        daemon.holds = asyncio.Event()
        waiting = [asyncio.create_task(knocks.post("/link")) for _ in range(2)]
        while len(daemon.asked) < 2:
            await asyncio.sleep(0.005)
        assert told(await knocks.post("/link")) == "2 requests of laptop are under way."
        daemon.holds.set()
        assert [status for status, _, _ in await asyncio.gather(*waiting)] == [200, 200]

    knocked(work)


def test_what_goes_wrong_in_the_daemon_is_told_in_its_form(knocked: Any) -> None:
    async def work(knocks: Knocks, daemon: Daemon) -> None:
        def raised(error: Exception) -> Callable[[], Any]:
            def answer() -> Any:
                raise error

            return answer

        daemon.answer = raised(DaemonGoneError("gone"))
        for path, body in (("/link", b""), ("/ask", asked_for("status"))):
            answer = await knocks.post(path, body)
            assert (answer[0], told(answer)) == (503, "No daemon is running there.")
        daemon.answer = raised(UnansweredError("the daemon ended"))
        for path, body in (("/link", b""), ("/ask", asked_for("status"))):
            answer = await knocks.post(path, body)
            assert (answer[0], told(answer)) == (504, "the daemon ended.")
        daemon.answer = raised(RequestError("a frame is wrong"))
        assert told(await knocks.post("/link")) == "a frame is wrong."
        _, _, body = await knocks.post("/ask", asked_for("status"))
        _, number, error, _ = wire.fields(body[4:])
        assert (number, error["class"], error["message"]) == (7, "RequestError", "a frame is wrong")

    knocked(work)


def test_two_versions_speak_what_both_know_or_say_which_is_too_old() -> None:
    check_versions(f"1-{NEWEST + 5}", "office")
    with pytest.raises(TooOldError, match=f"too old here: office knows links from version {NEWEST + 1} on"):
        check_versions(f"{NEWEST + 1}-{NEWEST + 1}", "office")
    with pytest.raises(TooOldError, match="too old at office: it knows links up to version 0"):
        check_versions("0-0", "office")
