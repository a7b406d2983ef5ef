"""What programs elsewhere send to /hook/NAME: the mapping of bodies, limits, and hostile input."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.testclient import TestClient

from narval.core.elements.canonical import canonical_given
from narval.core.errors import DaemonGoneError, ElementError, RequestError, UnansweredError
from narval.files.home import Home
from narval.surfaces.cli.daemon.serving import pages
from narval.surfaces.http.guard import RequestLimits
from narval.surfaces.http.place import WebPlace
from narval.surfaces.http.programs import AT_ONCE, Hooks
from narval.surfaces.http.senders import BodyError, of_form, of_json, of_xml
from narval.surfaces.http.server import STRANGERS, loopback
from narval.surfaces.http.sessions import Sessions
from tests.acceptance.home import make
from tests.surfaces.http.doors import Door
from tests.surfaces.http.test_server import attacked, begun, said, served

TOKEN = "5f0c6c0e6a5b4d57"
HOOK = {
    "hook": "build",
    "element": "build",
    "bytes": 100_000,
    "calls": 3,
    "sha256": hashlib.sha256(TOKEN.encode()).hexdigest(),
}


class FakeDaemon:
    """Stands in for the daemon: one webhook, and what was taken."""

    def __init__(self) -> None:
        self.hook = HOOK
        self.taken: list[dict[str, Any]] = []
        self.refused: list[tuple[str, dict[str, int]]] = []
        self.asked = 0
        self.raises: Exception | None = None
        self.now = 0.0

    async def ask(self, method: str, /, **params: Any) -> Any:
        if self.raises is not None:
            raise self.raises
        if method == "hooks":
            self.asked += 1
            return [self.hook]
        if method == "note_refused":
            self.refused.append((params["name"], params["statuses"]))
            return {}
        canonical_given(params["element"])
        self.taken.append(params)
        return {"hook": "build", "eid": 7, "again": False}


@pytest.fixture
def daemon() -> FakeDaemon:
    return FakeDaemon()


@pytest.fixture
def client(daemon: FakeDaemon) -> Iterator[TestClient]:
    hooks = Hooks(daemon, daemon, lambda: daemon.now)
    with TestClient(Starlette(routes=[hooks.route()]), base_url="http://localhost") as client:
        client.headers["authorization"] = f"Bearer {TOKEN}"
        client.headers["content-type"] = "application/json"
        yield client


# --- the mapping --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "xml"),
    [
        ({"state": "failed", "n": 1, "ok": True}, '<build state="failed" n="1" ok="true"/>'),
        ({"by": {"name": "Ann"}, "none": None}, '<build><by name="Ann"/></build>'),
        ({"steps": ["a", {"id": 2}, None]}, '<build><steps>a</steps><steps id="2"/><steps/></build>'),
        (
            {"odd key": 1, "xmlns": "x"},
            '<build><item key="odd key">1</item><item key="xmlns">x</item></build>',
        ),
        ({"eid": 5}, "<build><eid>5</eid></build>"),
        ([1, [2]], "<build><item>1</item><item><item>2</item></item></build>"),
        ("<&>", "<build>&lt;&amp;&gt;</build>"),
        ({"a": "\x00\x1b[2J\ud800"}, '<build a="\ufffd\ufffd[2J\ufffd"/>'),
        (None, "<build/>"),
    ],
)
def test_json_becomes_one_element(given: Any, xml: str) -> None:
    assert canonical_given(of_json("build", json.dumps(given).encode())).decode() == xml


def test_numbers_stay_as_they_were_written() -> None:
    assert b'n="1.10" big="' + b"9" * 10_000 in of_json("b", b'{"n": 1.10, "big": ' + b"9" * 10_000 + b"}")


def test_a_form_becomes_one_element() -> None:
    given = b"state=failed&to=ann&to=b%C3%A9&empty=&odd+key=1"
    xml = '<build state="failed" empty=""><to>ann</to><to>bé</to><item key="odd key">1</item></build>'
    assert sorted(of_form("build", given).decode()) == sorted(xml)


def test_xml_stays_as_it_is_or_is_put_within_the_element() -> None:
    assert of_xml("build", b"<?xml version='1.0'?><build n='1'>x</build>") == b'<build n="1">x</build>'
    assert of_xml("build", b"<other n='1'/>") == b'<build><other n="1"/></build>'


BOMB = b"""<!DOCTYPE b [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">
]><build>&b;</build>"""


@pytest.mark.parametrize(
    ("read", "body"),
    [
        (of_json, b"[" * 100_000),
        (of_json, b"[" * 65 + b"]" * 65),
        (of_json, b'{"a":' * 5_000 + b"1" + b"}" * 5_000),
        (of_json, b"{"),
        (of_json, b"NaN"),
        (of_json, b"\xff\xfe\x00"),
        (of_json, b""),
        (of_form, b"a=1&" * 501),
        (of_form, b"a=%ff"),
        (of_form, b"\xff=1"),
        (of_xml, BOMB),
        (of_xml, b'<!DOCTYPE b SYSTEM "file:///etc/passwd"><b/>'),
        (of_xml, b"<a>" * 1_000 + b"</a>" * 1_000),
        (of_xml, b"<build/><build/>"),
        (of_xml, b"not xml"),
        (of_xml, b""),
    ],
    ids=lambda given: given.__name__ if callable(given) else repr(given[:20]),
)
def test_hostile_bodies_are_refused(read: Any, body: bytes) -> None:
    with pytest.raises(BodyError):
        read("build", body)


# --- requests -----------------------------------------------------------------------------------------------


def test_what_is_sent_is_taken_and_told_once_it_is_recorded(client: TestClient, daemon: FakeDaemon) -> None:
    answer = client.post("/hook/build", content=b'{"n": 1}', headers={"idempotency-key": "k 1"})
    assert (answer.status_code, answer.json()) == (202, {"eid": 7, "again": False})
    assert daemon.taken == [{"name": "build", "element": b'<build n="1"/>', "key": "k 1"}]


def test_a_token_in_the_address_serves_who_can_send_no_header(client: TestClient) -> None:
    del client.headers["authorization"]
    assert client.post(f"/hook/build?token={TOKEN}", content=b"{}").status_code == 202


@pytest.mark.parametrize("given", ["", "Bearer", f"Bearer {TOKEN}x", f"Basic {TOKEN}"])
def test_without_its_token_nothing_is_taken_and_no_body_is_read(
    client: TestClient, daemon: FakeDaemon, given: str
) -> None:
    client.headers["authorization"] = given
    client.cookies.set("narval", TOKEN)
    answer = client.post("/hook/build", content=b"[" * 50_000)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert daemon.taken == []
    assert TOKEN not in answer.text


def test_the_daemon_is_told_once_of_all_that_is_refused_for_a_while(
    client: TestClient, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("narval.surfaces.http.programs.TOLD", 0.2)
    began = time.monotonic()
    right = client.headers["authorization"]
    client.headers["authorization"] = "Bearer wrong"
    for _ in range(20):
        assert client.post("/hook/build", content=b"{}").status_code == 401
        assert client.post("/hook/other", content=b"{}").status_code == 404
    client.headers["authorization"] = right
    assert client.post("/hook/build", content=b"not JSON").status_code == 400
    deadline = time.monotonic() + 60
    while sum(sum(statuses.values()) for _, statuses in daemon.refused) < 21:
        assert time.monotonic() < deadline, daemon.refused
        time.sleep(0.02)
    assert {name for name, _ in daemon.refused} == {"build"}, "nobody counts what has no webhook"
    assert len(daemon.refused) <= 1 + (time.monotonic() - began) / 0.2


@pytest.mark.parametrize("path", ["/hook/other", "/hook/..", "/hook/%2e%2e%2fbuild", "/hook/"])
def test_a_hook_that_is_not_there_is_not_found(client: TestClient, daemon: FakeDaemon, path: str) -> None:
    assert client.post(path, content=b"{}", follow_redirects=False).status_code == 404
    assert daemon.taken == []


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
def test_it_takes_nothing_but_by_post(client: TestClient, daemon: FakeDaemon, method: str) -> None:
    assert client.request(method, "/hook/build").status_code == 405
    assert daemon.taken == []


def test_a_body_that_is_too_long_is_refused_before_it_is_read_to_its_end(
    client: TestClient, daemon: FakeDaemon
) -> None:
    sent = []

    def endless() -> Iterator[bytes]:
        for _ in range(1_000):
            sent.append(1)
            yield b" " * 10_000

    assert client.post("/hook/build", content=endless()).status_code == 413
    assert daemon.taken == []


def test_another_type_of_body_is_refused(client: TestClient) -> None:
    for kind in ("text/plain", "multipart/form-data; boundary=x", ""):
        answer = client.post("/hook/build", content=b"{}", headers={"content-type": kind})
        assert answer.status_code in (415, 429)


def test_more_calls_than_it_takes_in_a_minute_wait(client: TestClient, daemon: FakeDaemon) -> None:
    for _ in range(3):
        assert client.post("/hook/build", content=b"{}").status_code == 202
        daemon.now += 10.0
    wrong = client.post("/hook/build", content=b"{}", headers={"authorization": "Bearer no"})
    assert wrong.status_code == 401
    answer = client.post("/hook/build", content=b"{}")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "30")
    daemon.now += 30.0
    assert client.post("/hook/build", content=b"{}").status_code == 202


def test_wrong_tokens_cost_the_daemon_nothing_and_count_as_no_call(
    client: TestClient, daemon: FakeDaemon
) -> None:
    for _ in range(50):
        client.post("/hook/build", content=b"{}", headers={"authorization": "Bearer no"})
    assert daemon.asked == 1
    assert client.post("/hook/build", content=b"{}").status_code == 202


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (DaemonGoneError("no daemon answers"), 503),
        (UnansweredError("the daemon ended"), 504),
        (ElementError("invalid", "refused by its schema"), 422),
        (RequestError("expected a key"), 400),
    ],
)
def test_an_error_of_the_daemon_is_told(
    client: TestClient, daemon: FakeDaemon, error: Exception, status: int
) -> None:
    client.post("/hook/build", content=b"{}")
    daemon.raises = error
    assert client.post("/hook/build", content=b"{}").status_code == status


def test_a_body_that_is_slow_to_arrive_holds_no_place(daemon: FakeDaemon) -> None:
    daemon.hook = HOOK | {"calls": 100}

    async def run() -> int:
        hooks = Hooks(daemon, daemon, lambda: daemon.now)
        more = asyncio.Event()

        async def unfinished() -> dict[str, Any]:
            await more.wait()
            return {"type": "http.request", "body": b"{}"}

        async def whole() -> dict[str, Any]:
            return {"type": "http.request", "body": b"{}"}

        def call(receive: Callable[[], Awaitable[dict[str, Any]]]) -> Request:
            headers = [(b"authorization", f"Bearer {TOKEN}".encode()), (b"content-type", b"application/json")]
            of = {"path_params": {"name": "build"}, "query_string": b"", "headers": headers}
            return Request({"type": "http", **of}, receive)

        slow = [asyncio.create_task(hooks.take(call(unfinished))) for _ in range(AT_ONCE)]
        await asyncio.sleep(0)
        answer = await hooks.take(call(whole))
        more.set()
        await asyncio.gather(*slow)
        return answer.status_code

    assert asyncio.run(asyncio.wait_for(run(), 60)) == 202


def test_a_body_that_does_not_arrive_in_time_is_refused_and_keeps_its_connection_meanwhile(
    tmp_path: Path, daemon: FakeDaemon
) -> None:
    async def run() -> None:
        sockets = loopback(0)
        port = sockets[0].getsockname()[1]
        own, route = f"127.0.0.1:{port}", Hooks(daemon, daemon, lambda: daemon.now).route()
        limits = RequestLimits(sending=0.3)
        door = Door(tmp_path, place=WebPlace(port), base=f"http://{own}", limits=limits, others=(route,))
        async with served(door, sockets):
            bearer = f"Authorization: Bearer {TOKEN}"
            slow = asyncio.create_task(said(port, begun(own, "/hook/build", 9, "application/json", bearer)))
            while not daemon.asked:
                await asyncio.sleep(0.01)
            strangers = await attacked(port, b"", 2 * STRANGERS)
            status, _, body = await slow  # it was not hung up on for those who have no token
            assert (status, b"did not arrive within" in body) == (408, True)
            for stranger in strangers:
                stranger.close()

    asyncio.run(run())
    assert daemon.taken == []


# --- from the guard to memory -------------------------------------------------------------------------------


def test_what_is_sent_to_the_monitor_is_in_memory_once_it_is_answered(tmp_path: Path) -> None:
    digest = HOOK["sha256"]
    home = make(tmp_path / "home", settings=f'[hooks.build]\nsha256 = "{digest}"\nelement = "build"\n')
    with home.running():
        guarded = pages(Home(home.home), tmp_path / "web", WebPlace(7457), Sessions(tmp_path / "web"))
        headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json", "webhook-id": "7"}
        with TestClient(guarded, base_url="http://127.0.0.1:7457", headers=headers) as client:
            answers = [client.post("/hook/build", content=b'{"n": 1}').json() for _ in range(2)]
            foreign = client.post("/hook/build", content=b"{}", headers={"host": "evil.example"})
        (row,) = home.ask("memory", "build")
    assert answers == [{"eid": row["eid"], "again": False}, {"eid": row["eid"], "again": True}]
    assert (row["xml"], row["origin"]["hook"]) == (f'<build n="1" eid="{row["eid"]}"/>', "build")
    assert foreign.status_code == 400
