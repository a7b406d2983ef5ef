"""Calendars of servers: a real Radicale, and servers that are away, slow and lying (N28, N36)."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

import narval
from modules.calendar import dav
from modules.calendar.parsing import CalendarError
from narval import SimulatedClock
from narval.calls.context import CallContext, Target
from narval.files.outside.services import Calendar
from narval.surfaces.python.agent import Agent
from tests.local_site import Answer
from tests.loopback import LoopbackServer
from tests.modules.calendar_texts import NOW, ics, vevent
from tests.modules.radicale_server import PASSWORD, USER, Radicale, radicale
from tests.modules.test_calendar import BOAT, COOKBOOK, HEARD, ROOF, current, reasons, watching

WORK = '<calendar name="work"/>'


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Radicale]:
    with radicale(tmp_path_factory.mktemp("radicale") / "server") as server:
        yield server


@pytest.fixture
def server(started: Radicale) -> Radicale:
    """The server of this file, with an empty calendar."""
    started.empty()
    return started


@pytest.fixture
def opened(tmp_path: Path) -> Callable[..., Agent]:
    """A way to open a home whose calendar work is at an address."""

    def open_home(url: str, more: str = "") -> Agent:
        home = tmp_path / "home"
        for folder in ("recipes", "etc"):
            (home / folder).mkdir(parents=True, exist_ok=True)
        (home / "recipes" / "try.xml").write_text(COOKBOOK)
        (home / "etc" / "narval.toml").write_text(
            f'timezone = "Europe/Paris"\n[calendars.work]\nurl = "{url}"\nevery = "5m"\n{more}'
        )
        (home / "etc" / "dav").write_text(PASSWORD)
        (home / "etc" / "dav").chmod(0o600)
        return narval.open(home, clock=SimulatedClock(NOW.timestamp()))

    return open_home


LOGIN = f'user = "{USER}"\nsecret = "dav"\n'


@pytest.fixture
def agent(server: Radicale, opened: Callable[..., Agent]) -> Iterator[Agent]:
    with opened(server.url, LOGIN) as agent:
        yield agent


def hear(agent: Agent) -> None:
    """Let time pass, which makes a server be asked again, until something is heard of it."""
    run = agent.start("try.hear")
    while agent.run(run)["phase"] == "active":
        agent.elapse(minutes=6)
        time.sleep(0.05)


def kinds(agent: Agent) -> list[str]:
    return [error.attributes["type"] for error in agent.memory("error")]


# --- Radicale ---------------------------------------------------------------------------------------------


def test_the_events_of_a_server_are_followed(server: Radicale, agent: Agent) -> None:
    server.put("boat", ics(BOAT))
    server.put("roof", ics(ROOF))
    watching(agent, WORK)
    assert current(agent) == ["The boat", "The roof"]
    server.put("boat", ics(BOAT.replace("T09", "T15")))
    server.put("heard", ics(HEARD))
    hear(agent)
    assert current(agent) == ["The boat", "The roof", "Heard"]
    (boat,) = agent.memory("event[@uid='boat']", current=True)
    assert boat.attributes["start"] == "2026-11-24T16:00:00+01:00"
    assert len(agent.memory("event")) == 4
    server.ask("DELETE", "roof.ics")
    hear(agent)
    assert current(agent) == ["The boat", "Heard"]
    assert reasons(agent) == ["it is no longer in the calendar"]
    assert kinds(agent) == []


def test_recurring_events_of_a_server_are_expanded(server: Radicale, agent: Agent) -> None:
    lines = ["DTSTART;TZID=Europe/Paris:20260105T100000", "RRULE:FREQ=WEEKLY;BYDAY=TU", "SUMMARY:Choir"]
    moved = vevent("a", "DTSTART:20261124T150000Z", "RECURRENCE-ID:20261124T090000Z", "SUMMARY:Moved")
    server.put("choir", ics(vevent("a", *lines), moved))
    watching(agent, WORK)
    assert current(agent) == ["Moved", "Choir", "Choir", "Choir", "Choir"]


def test_a_server_that_is_away_is_told_once_and_its_events_stay(server: Radicale, agent: Agent) -> None:
    server.put("boat", ics(BOAT))
    run = watching(agent, WORK)
    server.stop()
    hear(agent)
    agent.elapse(hours=2)
    agent.until_idle()
    assert kinds(agent) == ["calendar-unreachable"]
    assert current(agent) == ["The boat"]
    server.start()
    server.put("heard", ics(HEARD))
    hear(agent)
    assert current(agent) == ["The boat", "Heard"]
    assert agent.run(run)["phase"] == "active"


def test_a_server_that_is_away_at_the_start_is_asked_again(server: Radicale, agent: Agent) -> None:
    server.put("heard", ics(HEARD))
    server.stop()
    watching(agent, WORK)
    assert kinds(agent) == ["calendar-unreachable"]
    agent.wait(agent.start("try.hear"))
    server.start()
    hear(agent)
    assert current(agent) == ["Heard"]


def test_a_wrong_password_is_told_with_what_to_do_and_is_in_no_element(
    server: Radicale, opened: Callable[..., Agent]
) -> None:
    with opened(server.url, LOGIN.replace(USER, "bob")) as agent:
        watching(agent, WORK)
        (error,) = agent.memory("error")
        assert "401" in error.text
        assert "see user and secret of [calendars.work] in etc/narval.toml" in error.text
        assert not any(PASSWORD.encode() in element.xml for element in agent.memory("*"))


# --- others -----------------------------------------------------------------------------------------------

NAMES = 'xmlns:d="DAV:" xmlns:c="urn:ietf:params:xml:ns:caldav" xmlns:s="http://calendarserver.org/ns/"'
TEXT = ics(BOAT).replace(b"\r\n", b"\n")


def entry(href: str, data: bytes = b"", inner: str = '<d:getetag>"1"</d:getetag>') -> str:
    """The part of an answer about one entry."""
    given = f"<c:calendar-data>{escape(data.decode())}</c:calendar-data>" if data else ""
    status = "<d:status>HTTP/1.1 200 OK</d:status>"
    found = f"<d:propstat><d:prop>{inner}{given}</d:prop>{status}</d:propstat>"
    return f"<d:response><d:href>{href}</d:href>{found}</d:response>"


def answer(*entries: str) -> Answer:
    """An answer of CalDAV."""
    return Answer(f"<d:multistatus {NAMES}>{''.join(entries)}</d:multistatus>".encode(), 207)


class Pretender(LoopbackServer):
    """A server on loopback that answers as it is told: of the whole, the entries, their texts."""

    def __init__(self) -> None:
        self.answers = {
            "PROPFIND 0": answer(entry("/work/", inner="<s:getctag>1</s:getctag>")),
            "PROPFIND 1": answer(entry("/work/a.ics")),
            "REPORT 1": answer(entry("/work/a.ics", ics(BOAT))),
            "GET ": Answer(ics(BOAT), 200, {"ETag": '"7"'}),
        }
        self.asked: list[str] = []
        super().__init__()
        self.url = f"http://{self.place}/work/"

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request, a byte at a time where it is to be slow."""
        handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        asked = f"{handler.command} {handler.headers.get('Depth', '')}"
        self.asked.append(asked)
        found = self.answers[asked]
        with suppress(OSError):  # whoever asked is gone
            handler.send_response(found.status)
            for name, value in {"Content-Length": str(len(found.body)), **found.headers}.items():
                handler.send_header(name, value)
            handler.end_headers()
            if not found.latency:
                handler.wfile.write(found.body)
            for at in range(len(found.body) if found.latency else 0):
                handler.wfile.write(found.body[at : at + 1])
                time.sleep(found.latency)


@pytest.fixture
def pretender() -> Iterator[Pretender]:
    with closing(Pretender()) as pretender:
        yield pretender


def files(url: str, times: int = 1) -> list[bytes] | None:
    """What a server gives when it is asked so often, all of it recorded."""
    known = (Calendar(name="work", url=url),)
    here = CallContext("1.1", 1, "step", target=Target(where="source"), services=known)
    server = dav.Server("work")

    async def ask() -> list[bytes] | None:
        for _ in range(times):
            found = await server.files()
            await server.recorded()
        return found and [data.replace(b"\r\n", b"\n") for data in found]

    return here.context().run(asyncio.run, ask())


def test_a_server_is_asked_for_what_changed_alone(pretender: Pretender) -> None:
    assert files(pretender.url) == [TEXT]
    assert pretender.asked == ["PROPFIND 0", "PROPFIND 1", "REPORT 1"]
    pretender.asked.clear()
    assert files(pretender.url, times=2) is None
    assert pretender.asked == ["PROPFIND 0", "PROPFIND 1", "REPORT 1", "PROPFIND 0"]
    pretender.asked.clear()
    pretender.answers["PROPFIND 0"] = answer(entry("/work/", inner=""))
    assert files(pretender.url, times=2) == [TEXT], "a server without a mark is asked for its entries"
    assert pretender.asked == ["PROPFIND 0", "PROPFIND 1", "REPORT 1", "PROPFIND 0", "PROPFIND 1"]


def test_a_file_behind_an_address_is_a_calendar_too(pretender: Pretender) -> None:
    assert files(pretender.url + "a.ics") == [TEXT]
    assert pretender.asked == ["GET "]


BOMB = b"<!DOCTYPE d [<!ENTITY a 'aaaaaaaaaa'>]><d:multistatus xmlns:d='DAV:'>&a;</d:multistatus>"
FAULTS = [
    pytest.param("PROPFIND 0", Answer(b"", 500), "calendar-unreachable", "answered 500", id="broken"),
    pytest.param("PROPFIND 1", Answer(b"", 403), "calendar-unreachable", "answered 403", id="refused"),
    pytest.param("PROPFIND 0", Answer(b"", 404), "calendar-unreachable", "see the url of", id="not there"),
    pytest.param("PROPFIND 0", Answer(b"", 301, {"Location": "http://x.example/"}), "calendar-unreachable",
                 "it is now at http://x.example/", id="moved"),
    pytest.param("PROPFIND 0", Answer(b"<html>", 200), "bad-calendar", "no XML", id="half a page"),
    pytest.param("PROPFIND 0", Answer(b"<html/>", 200), "bad-calendar", "of CalDAV", id="a page"),
    pytest.param("REPORT 1", Answer(b"", 207), "bad-calendar", "no XML", id="nothing"),
    pytest.param("PROPFIND 1", Answer(BOMB, 207), "bad-calendar", "DOCTYPE", id="entities"),
    pytest.param("PROPFIND 1", Answer(b"<d>" * 100_000, 207), "bad-calendar", "no XML", id="deep"),
    pytest.param("REPORT 1", Answer(b" " * (21 * 1024 * 1024), 207), "too-large", "at most", id="endless"),
    pytest.param("PROPFIND 1", Answer(b"<d/>", 207, {"Content-Length": "99"}), "calendar-unreachable",
                 "peer closed", id="cut short"),
    pytest.param("PROPFIND 0", Answer(b"x" * 9_000, 207, latency=0.05), "calendar-unreachable",
                 "no whole answer within 0.5 s", id="slow"),
    pytest.param("PROPFIND 1", answer(*[entry(f"/work/{at}") for at in range(10_001)]), "too-large",
                 "at most 10,000 entries", id="very many"),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "given", "kind", "told"), FAULTS)
def test_a_server_that_lies_is_an_error(
    pretender: Pretender, monkeypatch: pytest.MonkeyPatch, asked: str, given: Answer, kind: str, told: str
) -> None:
    if given.latency:
        monkeypatch.setattr(dav, "TOTAL_SECONDS", 0.5)
    pretender.answers[asked] = given
    with pytest.raises(CalendarError, match=re.escape(told)) as error:
        files(pretender.url)
    assert error.value.kind == kind


def test_a_server_that_asks_for_patience_says_how_long(pretender: Pretender) -> None:
    pretender.answers["PROPFIND 0"] = Answer(b"", 503, {"Retry-After": "7200"})
    with pytest.raises(CalendarError) as error:
        files(pretender.url)
    assert error.value.wait == 7200


@pytest.mark.parametrize(
    "href",
    [
        "http://elsewhere.example/work/b.ics",
        "//elsewhere.example/work/b.ics",
        "/other/b.ics",
        "/work/../other/b.ics",
        "/work/%2e%2e/other/b.ics",
        "http://[",
        "",
    ],
)
def test_entries_elsewhere_are_passed_over(pretender: Pretender, href: str) -> None:
    pretender.answers["PROPFIND 1"] = answer(entry(href), entry("/work/a.ics"))
    pretender.answers["REPORT 1"] = answer(entry(href, ics(ROOF)), entry("/work/a.ics", ics(BOAT)))
    assert files(pretender.url) == [TEXT]


def test_entries_that_nobody_asked_for_and_those_without_a_text_are_passed_over(pretender: Pretender) -> None:
    pretender.answers["REPORT 1"] = answer(entry("/work/z.ics", ics(ROOF)), entry("/work/a.ics"))
    assert files(pretender.url) == []


def test_one_error_a_cause_and_then_the_events_again(
    pretender: Pretender, opened: Callable[..., Agent]
) -> None:
    with opened(pretender.url) as agent:
        watching(agent, WORK)
        for fault in (Answer(b"", 500), Answer(b"<html/>", 200)):
            pretender.answers["PROPFIND 0"] = fault
            hear(agent)
            agent.elapse(hours=1)
            agent.until_idle()
        assert kinds(agent) == ["calendar-unreachable", "bad-calendar"]
        pretender.answers["PROPFIND 0"] = answer(entry("/work/", inner="<s:getctag>2</s:getctag>"))
        pretender.answers["PROPFIND 1"] = answer(entry("/work/b.ics"))
        pretender.answers["REPORT 1"] = answer(entry("/work/b.ics", ics(HEARD)))
        for _ in ("the boat is gone", "another event"):
            hear(agent)
        assert current(agent) == ["Heard"]
        pretender.answers["PROPFIND 0"] = Answer(b"", 500)
        hear(agent)
        assert kinds(agent)[2:] == ["calendar-unreachable"]
