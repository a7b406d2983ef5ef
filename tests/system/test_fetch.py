"""The guarded client of the web, against real servers on this machine, which is the place it guards."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext as does_not_raise
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

import narval
from narval import Fetched, FetchError
from narval.system.fetch import Grant, KnownPlace, _check_redirect, fetched, is_public, within
from tests.certificates import make_certificate


class Handler(BaseHTTPRequestHandler):
    """Tells what it was asked for; `/to/URL` redirects there; `/cookie` sets one."""

    def do_GET(self) -> None:
        if self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/to/"))
            self.send_header("Set-Cookie", "secret=1")
            self.end_headers()
            return
        said = f"{self.headers.get('Host')} {self.path} {self.headers.get('Cookie', '')}".encode()
        self.send_response(404 if self.path == "/missing" else 200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join()


def got(url: str, *allow: str, most: int = 1_000) -> Fetched:
    return asyncio.run(fetched(url, allow=allow, most=most, seconds=20))


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0", "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]", "LOCALHOST.", "0.0.0.0", "[::]",
    ],
)  # fmt: skip
def test_this_machine_is_refused_however_it_is_written(port: int, host: str) -> None:
    with pytest.raises(FetchError) as refused:
        got(f"http://{host}:{port}/")
    assert refused.value.kind in ("forbidden", "unreachable")


INSIDE = """
10.0.0.1 172.16.9.9 192.168.1.1 169.254.169.254 100.64.0.1 100.100.100.200 127.8.8.8 0.0.0.0 224.0.0.1
240.0.0.1 255.255.255.255 192.0.2.1 198.18.0.1 ::1 :: ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::127.0.0.1
fe80::1 fd00:ec2::254 fc00::1 fec0::1 ff02::1 2002:7f00:1:: 2002:a00:1::1 64:ff9b::7f00:1 2001:db8::1
64:ff9b::a9fe:a9fe 64:ff9b:1::1 2001:0:4136:e378:8000:63bf:f5ff:fffe
"""


@pytest.mark.parametrize("address", INSIDE.split())
def test_no_address_inside_is_of_the_public_internet(address: str) -> None:
    assert not is_public(ip_address(address))


SPECIAL = """
0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24
192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4
::/128 ::1/128 ::/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/23 2001:db8::/32 3fff::/20 5f00::/16
fc00::/7 fe80::/10 fec0::/10 ff00::/8
192.0.0.192/32 168.63.129.16/32 169.254.169.254/32 100.100.100.200/32 fd00:ec2::254/128 fd20:ce::254/128
"""
"""The special-purpose registries of IANA, but what they call globally reachable, and where providers have
services for their machines alone."""


@pytest.mark.parametrize("network", SPECIAL.split())
def test_no_special_purpose_address_is_of_the_public_internet_in_any_form(network: str) -> None:
    """An address of IPv4 also as it stands in one of IPv6: mapped, translated (NAT64), 6to4."""
    found = ip_network(network)
    for address in (found[0], found[found.num_addresses // 2], found[-1]):
        assert not is_public(address)
        if isinstance(address, IPv4Address):
            number = int(address)
            for written in (0xFFFF << 32 | number, 0x64FF9B << 96 | number, 0x2002 << 112 | number << 80):
                assert not is_public(IPv6Address(written))


@pytest.mark.parametrize(
    "address",
    ["93.184.216.34", "1.1.1.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101", "2002:101:101::1"],
)
def test_addresses_of_the_public_internet(address: str) -> None:
    assert is_public(ip_address(address))


def test_a_redirect_inside_is_refused_and_its_place_told(port: int) -> None:
    with pytest.raises(FetchError, match=r'fetch_allow = \["127.0.0.1:1"\]') as refused:
        got(f"http://localhost:{port}/to/http://127.0.0.1:1/", "localhost")
    assert refused.value.kind == "forbidden"


def test_a_redirect_to_a_granted_place_is_followed_and_takes_no_cookies_along(port: int) -> None:
    found = got(f"http://127.0.0.1:{port}/to/http://localhost:{port}/there", f"127.0.0.1:{port}")
    assert found.body == f"localhost:{port} /there ".encode()
    assert found.url == f"http://localhost:{port}/there"


@pytest.mark.parametrize("grant", ["localhost", "127.0.0.1", "127.0.0.0/8", "LocalHost:{port}"])
def test_what_the_settings_grant_is_fetched(port: int, grant: str) -> None:
    assert got(f"http://localhost:{port}/a", grant.format(port=port)).status == 200


@pytest.mark.parametrize("grant", ["localhost:1", "10.0.0.0/8", "127.0.0.1:1", "example.org", "::1"])
def test_a_grant_of_another_place_grants_nothing(port: int, grant: str) -> None:
    with pytest.raises(FetchError):
        got(f"http://localhost:{port}/a", grant)


def test_the_connection_goes_to_the_address_that_was_checked(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name whose address changes between two looks: it is looked up once."""
    asked: list[str] = []
    system = socket.getaddrinfo

    def changing(host: str, *rest: object, **more: object) -> object:
        if host != "feed.example.org":
            return system(host, *rest, **more)  # type: ignore[arg-type]
        asked.append(host)
        return system("127.0.0.1" if len(asked) == 1 else "127.0.0.2", *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", changing)
    found = got(f"http://feed.example.org:{port}/a", "127.0.0.1")
    assert found.body == f"feed.example.org:{port} /a ".encode()
    assert asked == ["feed.example.org"]
    with pytest.raises(FetchError, match=r"127\.0\.0\.2"):
        got(f"http://feed.example.org:{port}/a", "127.0.0.1")


def test_an_answer_of_any_status_is_given_and_too_long_a_one_is_not(port: int) -> None:
    assert got(f"http://127.0.0.1:{port}/missing", "127.0.0.1").status == 404
    with pytest.raises(FetchError, match="at most 3 bytes") as refused:
        got(f"http://127.0.0.1:{port}/a", "127.0.0.1", most=3)
    assert refused.value.kind == "too-large"


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://example.org/", "http://", "http://[bad", "x"])
def test_only_the_web_is_fetched(url: str) -> None:
    with pytest.raises(FetchError) as refused:
        got(url)
    assert refused.value.kind == "bad-address"


@pytest.mark.parametrize("text", ["", "a b", "10.0.0.1/8", "host:99999", "http://a/", "10.0.0.256", "a/24"])
def test_a_grant_that_is_none_says_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match="such as"):
        Grant.of(text)


# --- in a home ------------------------------------------------------------------------------------------

MODULE = """
import asyncio
from narval import Input, Output, action, fetch

PLACE, PAGE = [Input("place", "place")], [Output("page", "page", list=True)]


async def page(place, where):
    found = await fetch(place.attributes["url"])
    return f"<page where='{where}' status='{found.status}'/>"


@action(inputs=PLACE, outputs=PAGE)
async def coroutine(place):
    return await page(place, "coroutine")


@action(inputs=PLACE, outputs=PAGE)
def thread(place):
    return asyncio.run(page(place, "thread"))


@action(inputs=PLACE, outputs=PAGE, runs="worker")
def worker(place):
    return asyncio.run(page(place, "worker"))


@action(inputs=PLACE, outputs=PAGE, source=True)
async def source(place):
    yield await page(place, "source")
"""
RECIPES = "".join(
    f"<recipe group='try' name='{name}' start_step='a' end_step='a'>"
    f"<step id='a' type='action' target='web.{name}'/></recipe>"
    for name in ("coroutine", "thread", "worker", "source")
)


@pytest.mark.parametrize("granted", [True, False])
def test_actions_wherever_they_run_fetch_what_the_settings_grant(
    tmp_path: Path, port: int, granted: bool
) -> None:
    for folder in ("recipes", "modules", "etc"):
        (tmp_path / folder).mkdir()
    (tmp_path / "modules" / "web.py").write_text(MODULE)
    (tmp_path / "recipes" / "try.xml").write_text(f"<cookbook group='try'>{RECIPES}</cookbook>")
    settings = f'fetch_allow = ["127.0.0.1:{port}"]\n' if granted else ""
    (tmp_path / "etc" / "narval.toml").write_text(settings)
    with narval.open(tmp_path) as agent:
        agent.add(f"<place url='http://127.0.0.1:{port}/'/>")
        for name in ("coroutine", "thread", "worker", "source"):
            agent.wait(agent.start(f"try.{name}"))
        pages = {page.attributes["where"] for page in agent.memory("page")}
        refused = [error.attributes["type"] for error in agent.memory("error")]
    assert pages == ({"coroutine", "thread", "worker", "source"} if granted else set())
    assert refused == ([] if granted else ["forbidden"] * 4)


class Echo(BaseHTTPRequestHandler):
    """Tells with which method, body and headers it was asked, in two pieces; `/to/URL` redirects there."""

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        if self.path.startswith("/to/"):
            self.send_response(307)
            self.send_header("Location", self.path.removeprefix("/to/"))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        told = [self.command, self.path, body, *(self.headers.get(name, "-") for name in TOLD)]
        said = "|".join(told).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        if self.command != "HEAD":
            for piece in (said[:3], said[3:]):
                self.wfile.write(piece)
                self.wfile.flush()

    def __getattr__(self, name: str) -> Callable[[], None]:
        if name.startswith("do_"):
            return self.answer
        raise AttributeError(name)

    def log_message(self, *_: object) -> None:
        pass


TOLD = ("Authorization", "X-Key", "X-Own")


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[int, int]]:
    """Two servers of this machine, which are two places."""
    both = [ThreadingHTTPServer(("127.0.0.1", 0), Echo) for _ in range(2)]
    threads = [threading.Thread(target=one.serve_forever, args=(0.01,), daemon=True) for one in both]
    for thread in threads:
        thread.start()
    yield both[0].server_address[1], both[1].server_address[1]
    for server, thread in zip(both, threads, strict=True):
        server.shutdown()
        server.server_close()
        thread.join()


def asked(url: str, **how: Any) -> str:
    return asyncio.run(fetched(url, seconds=20, **how)).body.decode()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PROPFIND"])
def test_any_method_goes_with_its_body(servers: tuple[int, int], method: str) -> None:
    here = f"http://127.0.0.1:{servers[0]}/it"
    assert asked(here, method=method, body=b"said", allow=["127.0.0.1"]) == f"{method}|/it|said|-|-|-"


def test_what_may_alter_something_follows_no_redirect(servers: tuple[int, int]) -> None:
    there = f"http://127.0.0.1:{servers[0]}/to/http://127.0.0.1:{servers[1]}/it"
    got = asyncio.run(fetched(there, method="POST", body=b"x", allow=["127.0.0.1"], seconds=20))
    assert (got.status, got.headers["location"]) == (307, f"http://127.0.0.1:{servers[1]}/it")


def test_credentials_of_a_service_go_to_its_place_alone(servers: tuple[int, int]) -> None:
    base, other = (f"http://127.0.0.1:{port}" for port in servers)
    known = KnownPlace(f"{base}/api", {"Authorization": "Bearer s", "X-Key": "s"})
    own = {"X-Own": "o", "Cookie": "c", "Authorization": "mine"}
    assert asked(f"{base}/api/it", known=known) == "GET|/api/it||Bearer s|s|-", "granted, though inside"
    assert asked(f"{base}/to/{base}/it", known=known) == "GET|/it||Bearer s|s|-"
    allow = [f"127.0.0.1:{servers[1]}"]
    assert asked(f"{base}/to/{other}/it", known=known, allow=allow) == "GET|/it||-|-|-"
    assert asked(f"{base}/to/{other}/it", known=known, allow=allow, headers=own) == "GET|/it||-|-|o"
    with pytest.raises(FetchError) as refused:
        asked(f"{base}/to/{other}/it", known=known)
    assert refused.value.kind == "forbidden", "the grant is of one place alone"


def test_pieces_are_told_as_they_come(servers: tuple[int, int]) -> None:
    pieces: list[bytes] = []
    said = asked(f"http://127.0.0.1:{servers[0]}/it", allow=["127.0.0.1"], received=pieces.append)
    assert b"".join(pieces).decode() == said


@pytest.mark.parametrize(
    ("path", "url"),
    [
        ("", "https://a.example/v1"),
        ("repos", "https://a.example/v1/repos"),
        ("/repos?q=..", "https://a.example/v1/repos?q=.."),
        ("//evil.example/", "https://a.example/v1/evil.example/"),
        ("https://b.example/x", "https://b.example/x"),
    ],
)
def test_a_path_is_within_its_service(path: str, url: str) -> None:
    assert within("https://a.example/v1", path) == url


@pytest.mark.parametrize("path", ["..", "../x", "a/../../x", "/%2e%2e/x", "a/%2E./x", "..\\x"])
def test_a_path_that_leads_out_is_refused(path: str) -> None:
    with pytest.raises(FetchError, match="expected a path below"):
        within("https://a.example/v1", path)


@pytest.mark.parametrize(
    ("speak", "was_sent"),
    [(None, False), (b"", True), (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", True)],
    ids=["nobody listens", "no answer", "half an answer"],
)
def test_an_error_says_if_the_request_may_have_reached_the_server(
    speak: bytes | None, was_sent: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/it"

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(speak or b"")

        thread = threading.Thread(target=answer, daemon=True)
        if speak is None:
            server.close()
        else:
            thread.start()
        with pytest.raises(FetchError) as error:
            asked(url, method="POST", body=b"x", allow=["127.0.0.1"])
        assert (error.value.kind, error.value.was_sent) == ("unreachable", was_sent)
        if speak is not None:
            thread.join()


def test_no_url_is_logged(servers: tuple[int, int], caplog: pytest.LogCaptureFixture) -> None:
    """A secret may stand in the path of one."""
    with caplog.at_level("DEBUG"):
        asked(f"http://127.0.0.1:{servers[0]}/secret", allow=["127.0.0.1"])
    assert "secret" not in caplog.text


def test_certificates_of_a_file_are_trusted_for_one_request(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    url = f"https://127.0.0.1:{server.server_address[1]}/it"
    try:
        assert asked(url, allow=["127.0.0.1"], tls_ca=Path(certificate)).startswith("GET|/it")
        with pytest.raises(FetchError, match="CERTIFICATE_VERIFY_FAILED"):
            asked(url, allow=["127.0.0.1"])
        with pytest.raises(FetchError, match="expected certificates in"):
            asked(url, allow=["127.0.0.1"], tls_ca=tmp_path / "none.pem")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(
    ("place", "is_let"),
    [
        (("a.example", 80), True),
        (("a.example", 443), True),
        (("a.example", 8080), False),
        (("B.example", 443), True),
        (("b.example", 80), False),
        (("c.sub.example", 1), True),
        (("evil.example", 443), False),
    ],
)
def test_a_redirect_leads_to_the_same_host_or_by_grants(place: tuple[str, int], is_let: bool) -> None:
    granted = ("host a.example:80", "host b.example:443", "host *.sub.example")
    refusal = does_not_raise() if is_let else pytest.raises(FetchError, match="redirects to")
    with refusal as refused:
        _check_redirect(("a.example", 80), place, granted)
    assert refused is None or (refused.value.kind, refused.value.final) == ("not-granted", True)
