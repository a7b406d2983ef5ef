"""The server itself, over sockets: where it listens, its limits, its end (M64, M74, M76)."""

from __future__ import annotations

import asyncio
import socket
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from narval.core.errors import OperatorError
from narval.surfaces.http import place
from narval.surfaces.http import server as servers
from narval.surfaces.http.guard import FORM, Message, Receive, RequestLimits, Scope, Send
from narval.surfaces.http.place import WebPlace
from narval.surfaces.http.server import CONNECTIONS, STRANGERS, PageServer, loopback, unix_socket
from tests.ports import free_port
from tests.surfaces.http.doors import Door

Answer = tuple[int, dict[str, str], bytes]


@asynccontextmanager
async def served(door: Door, sockets: list[socket.socket]) -> AsyncIterator[PageServer]:
    """The pages at a real server."""
    started = asyncio.Event()
    server = PageServer(door.guard, started.set)
    serving = asyncio.create_task(server.serve(sockets))
    await started.wait()
    try:
        yield server
    finally:
        server.end()
        await serving


def scene(folder: Path, test: Callable[[Door, int], Awaitable[None]]) -> None:
    """Have a test ask a real server at a port."""

    async def run() -> None:
        sockets = small(loopback(0))
        port = sockets[0].getsockname()[1]
        door = Door(folder, place=WebPlace(port), base=f"http://127.0.0.1:{port}")
        async with served(door, sockets):
            await test(door, port)

    asyncio.run(run())


def small(sockets: list[socket.socket]) -> list[socket.socket]:
    """The same sockets, whose connections hold little of what nobody reads."""
    for one in sockets:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    return sockets


async def said(port: int, request: bytes, host: str = "127.0.0.1") -> Answer:
    """The answer to bytes, read until the server hangs up."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(request)
    try:
        return parsed(await reader.read())
    finally:
        writer.close()


def parsed(data: bytes) -> Answer:
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return int(first.split()[1]) if first else 0, headers, body


def get(path: str, host: str, *more: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}", "Connection: close", *more, "", ""]
    return "\r\n".join(lines).encode()


def test_M64_it_listens_on_loopback_alone_at_both_addresses(tmp_path: Path) -> None:
    async def test(door: Door, port: int) -> None:
        for host in ("127.0.0.1", "::1"):
            named = f"[{host}]" if ":" in host else host
            status, headers, _ = await said(port, get("/login", f"{named}:{port}"), host)
            assert (status, headers["x-content-type-options"]) == (200, "nosniff")

    scene(tmp_path, test)
    for one in loopback(0):
        assert one.getsockname()[0] in ("127.0.0.1", "::1")
        one.close()


def test_pages_are_where_they_were_before_if_that_is_free(tmp_path: Path) -> None:
    with place.serving(tmp_path) as (noted, former):
        assert (former, place.port_of(former)) == ("", None)
        place.note(noted, "https://narval.example.org")
        place.note(noted, "http://127.0.0.1:7")
    with place.serving(tmp_path) as (_, former):
        assert place.port_of(former) == 7
    (first, *others) = loopback(before := free_port())
    (elsewhere, *more) = loopback(None, before)
    assert elsewhere.getsockname()[1] != before
    for one in (first, *others):
        one.close()
    again = loopback(None, before)
    assert again[0].getsockname()[1] == before
    for one in (*again, elsewhere, *more):
        one.close()


def test_M2_another_port_is_taken_where_the_usual_one_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = loopback(0)
    port = taken[0].getsockname()[1]
    with pytest.raises(OperatorError, match=rf"port {port} is taken; name another one: --port N"):
        loopback(port)
    monkeypatch.setattr(servers, "PORT", port)
    other = loopback(None)
    assert 0 < other[0].getsockname()[1] - port < 20
    monkeypatch.setattr(servers, "PORTS", 1)
    with pytest.raises(OperatorError, match="expected a free port"):
        loopback(None)
    for one in (*taken, *other):
        one.close()


def test_M64_a_port_that_is_taken_on_one_address_is_taken() -> None:
    six = socket.socket(socket.AF_INET6)
    six.bind(("::1", 0))
    six.listen()
    with pytest.raises(OperatorError, match="is taken"):
        loopback(six.getsockname()[1])
    six.close()


def test_M64_a_unix_socket_is_its_users_alone_and_replaces_what_a_killed_program_left(tmp_path: Path) -> None:
    path = tmp_path / "web.sock"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()

    async def run() -> None:
        with unix_socket(path) as listener:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            door = Door(tmp_path, place=WebPlace())
            async with served(door, [listener]):
                with pytest.raises(OperatorError, match="another program listens"), unix_socket(path):
                    pass
                for host, status in (("localhost", 200), ("localhost:8080", 200), ("evil.example", 400)):
                    reader, writer = await asyncio.open_unix_connection(path)
                    writer.write(get("/login", host))
                    assert parsed(await reader.read())[0] == status
                    writer.close()

    asyncio.run(run())
    assert not path.exists()
    path.write_text("a file of somebody's")
    with pytest.raises(OperatorError, match="expected no file"), unix_socket(path):
        pass
    assert path.read_text() == "a file of somebody's"
    with unix_socket(tmp_path / "proxy.sock", for_group=True):
        assert stat.S_IMODE((tmp_path / "proxy.sock").stat().st_mode) == 0o660
    with pytest.raises(OperatorError, match="cannot listen"), unix_socket(tmp_path / "no" / "folder"):
        pass


def test_M69_two_hosts_and_absolute_addresses_are_refused(tmp_path: Path) -> None:
    async def test(door: Door, port: int) -> None:
        own = f"127.0.0.1:{port}"
        odd = [
            get("/login", own, "Host: evil.example"),
            get("/login", "evil.example", f"Host: {own}"),
            get(f"http://{own}/login", own),
            get("http://evil.example/login", own),
            b"GET /login HTTP/1.1\r\nConnection: close\r\n\r\n",
            b"GET /login HTTP/1.0\r\n\r\n",
            get("*", own),
            get("login", own),
            f"CONNECT {own} HTTP/1.1\r\nHost: {own}\r\nConnection: close\r\n\r\n".encode(),
        ]
        for request in odd:
            status, headers, _ = await said(port, request)
            assert status in (400, 405), request
            assert headers["content-security-policy"].startswith("default-src 'none'")

    scene(tmp_path, test)


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"HELO\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"y" * 20_000,
    ],
)
def test_M76_nonsense_is_answered_with_the_headers_too(tmp_path: Path, nonsense: bytes) -> None:
    async def test(door: Door, port: int) -> None:
        status, headers, _ = await said(port, nonsense)
        assert status in (400, 501)
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert "server" not in headers

    scene(tmp_path, test)


SMUGGLED = [
    ("1.1", ["Content-Length: 4", "Transfer-Encoding: chunked"]),
    ("1.1", ["Transfer-Encoding: chunked", "Content-Length: 40"]),
    ("1.0", ["Transfer-Encoding: chunked"]),
]


@pytest.mark.parametrize("path", ["/login", "/hook/build"])
@pytest.mark.parametrize(("version", "framing"), SMUGGLED)
def test_M69_a_request_whose_end_can_be_seen_in_two_ways_is_refused_and_nothing_after_it_is_read(
    tmp_path: Path, path: str, version: str, framing: list[str]
) -> None:
    async def test(door: Door, port: int) -> None:
        lines = [f"POST {path} HTTP/{version}", f"Host: 127.0.0.1:{port}", "Connection: keep-alive", *framing]
        second = get("/login", f"127.0.0.1:{port}")
        head = "\r\n".join([*lines, "", "0", "", ""]).encode()
        status, headers, body = await said(port, head + second)
        assert status == 400
        assert headers["connection"] == "close"
        assert b"Transfer-Encoding, not both" in body
        assert b"HTTP/1.1" not in body.partition(b"not both")[2]

    scene(tmp_path, test)


def test_M74_a_header_that_arrives_at_once_is_limited_too(tmp_path: Path) -> None:
    async def test(door: Door, port: int) -> None:
        status, _, _ = await said(port, get("/login", f"127.0.0.1:{port}", f"X: {'y' * 40_000}"))
        assert status in (400, 431)

    scene(tmp_path, test)


def test_M74_a_request_that_does_not_arrive_in_time_is_hung_up_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert RequestLimits().sending == 10.0
    monkeypatch.setattr(servers, "RequestLimits", lambda: RequestLimits(sending=0.2))

    async def test(door: Door, port: int) -> None:
        own = f"127.0.0.1:{port}"
        for begun in (b"", b"GET / HTTP/1.1\r\nHost: "):
            assert (await said(port, begun))[0] == 0
        # one that goes on byte by byte, after a first request on the same connection
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET /login HTTP/1.1\r\nHost: {own}\r\n\r\n".encode())
        await reader.readuntil(b"</html>")
        with pytest.raises(OSError):
            await trickled(writer, b"GET /login HTTP/1.1\r\n" * 10)
        writer.close()

    scene(tmp_path, test)


async def trickled(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Send bytes one by one."""
    for byte in data:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.02)


def test_M74_a_form_that_does_not_arrive_in_time_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        sockets = loopback(0)
        port = sockets[0].getsockname()[1]
        own = f"127.0.0.1:{port}"
        door = Door(tmp_path, place=WebPlace(port), base=f"http://{own}", limits=RequestLimits(sending=0.2))
        async with served(door, sockets):
            head = (
                f"POST /login HTTP/1.1\r\nHost: {own}\r\nOrigin: http://{own}\r\nContent-Length: 9\r\n"
                "Content-Type: application/x-www-form-urlencoded\r\n\r\ntoken"
            )
            assert (await said(port, head.encode()))[0] == 408

    asyncio.run(run())


def test_M74_so_many_connections_are_held_and_the_oldest_one_goes(tmp_path: Path) -> None:
    async def test(door: Door, port: int) -> None:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTIONS)]
        await asyncio.sleep(0)
        assert (CONNECTIONS, STRANGERS) == (64, 32)
        status, _, _ = await said(port, get("/login", f"127.0.0.1:{port}"))
        assert status == 200  # whoever holds connections without a word shuts nobody out
        assert await held[0][0].read() == b""  # the oldest was hung up on
        assert not held[-1][0].at_eof()
        for _, writer in held:
            writer.close()

    scene(tmp_path, test)


def begun(own: str, path: str, length: int, kind: str = FORM, *more: str) -> bytes:
    """The beginning of a body that never comes."""
    lines = [f"POST {path} HTTP/1.1", f"Host: {own}", f"Origin: http://{own}", f"Content-Type: {kind}", *more]
    return "\r\n".join([*lines, f"Content-Length: {length}", "", "x"]).encode()


def twice(door: Door, own: str) -> bytes:
    """Two requests at once: the second answer waits until the first was read."""
    return get(door.static("idiomorph.js"), own).replace(b"Connection: close\r\n", b"") * 2


async def attacked(port: int, request: bytes, count: int) -> list[socket.socket]:
    """Connections of somebody who sends that and reads nothing."""
    loop, attackers = asyncio.get_running_loop(), []
    for _ in range(count):
        attacker = socket.socket()
        attacker.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        attacker.setblocking(False)
        await loop.sock_connect(attacker, ("127.0.0.1", port))
        await loop.sock_sendall(attacker, request)
        attackers.append(attacker)
    return attackers


@pytest.mark.parametrize("way", ["answers that nobody reads", "forms that never come", "nothing"])
def test_M74_a_user_of_the_machine_shuts_nobody_out_by_connections(tmp_path: Path, way: str) -> None:
    async def test(door: Door, port: int) -> None:
        own = f"127.0.0.1:{port}"
        requests = {
            "answers that nobody reads": twice(door, own),
            "forms that never come": begun(own, "/login", 4_000),
            "nothing": b"",
        }
        secret = door.sessions.log_in(door.sessions.new_link("ann"), "ann", "operator")
        cookie = f"Cookie: {door.place.cookie}={secret}"
        whole = get("/sessions.json", own, cookie)
        kept = whole.replace(b"Connection: close\r\n", b"")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(2):
            writer.write(kept)  # a browser whose connection stays
            assert b'"person":"ann"' in (await reader.readuntil(b"]\n")).replace(b" ", b"")
            attackers = await attacked(port, requests[way], CONNECTIONS + 8)
            assert (await said(port, whole))[0] == 200  # and a new one
            for attacker in attackers:
                attacker.close()
        writer.close()

    scene(tmp_path, test)


def test_M74_who_does_not_read_an_answer_is_hung_up_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert RequestLimits().taking == 10.0
    monkeypatch.setattr(servers, "RequestLimits", lambda: RequestLimits(taking=0.1))

    async def run() -> None:
        sockets = small(loopback(0))
        port = sockets[0].getsockname()[1]
        door = Door(tmp_path, place=WebPlace(port), base=f"http://127.0.0.1:{port}")
        async with served(door, sockets) as server:
            (attacker,) = await attacked(port, twice(door, f"127.0.0.1:{port}"), 1)
            while not server.server_state.connections:
                await asyncio.sleep(0)
            (connection,) = server.server_state.connections
            async with asyncio.timeout(60):
                while connection in server.server_state.connections:
                    await asyncio.sleep(0.01)
            attacker.close()

    asyncio.run(run())


def test_M2_it_ends_at_once_with_streams_open(tmp_path: Path) -> None:
    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        start: Message = {"type": "http.response.start", "status": 200, "headers": []}
        await send(start)
        await send({"type": "http.response.body", "body": b"hello", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass

    async def run() -> None:
        sockets, started = loopback(0), asyncio.Event()
        server = PageServer(endless, started.set)
        serving = asyncio.create_task(server.serve(sockets))
        await started.wait()
        reader, writer = await asyncio.open_connection("127.0.0.1", sockets[0].getsockname()[1])
        writer.write(get("/a/x/live", "x"))
        await reader.readuntil(b"hello")
        server.end()
        assert b"0\r\n" not in await reader.read()  # cut off, so that a browser comes back
        await serving
        writer.close()

    asyncio.run(run())


def test_M84_an_answer_is_sent_at_once() -> None:
    sockets = loopback(0)
    try:
        # else asyncio leaves Nagle's algorithm on, and each answer after the first waits for 40 ms
        assert {one.proto for one in sockets} == {socket.IPPROTO_TCP}
    finally:
        for one in sockets:
            one.close()
