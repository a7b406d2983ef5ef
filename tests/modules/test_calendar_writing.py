"""Calendars written: only where the settings say so, once, and over nobody's change; in a real Radicale."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lxml import etree

import narval
from modules.calendar import writing
from modules.calendar.occurring import events_in
from narval import SimulatedClock
from narval.calls.context import CallContext, Target
from narval.core.definitions.wall import zone_named
from narval.files.outside.services import Calendar
from narval.surfaces.python.agent import Agent
from narval.system.clock import machine_zone
from tests.modules.calendar_texts import NOW, ics, vevent
from tests.modules.radicale_server import PASSWORD, USER, Radicale, radicale
from tests.modules.test_calendar import current

COOKBOOK = "<cookbook group='try'>{}</cookbook>".format(
    "".join(
        f'<recipe name="{name}" start_step="do" end_step="do">'
        f'<step id="do" type="action" target="calendar.{name}"/></recipe>'
        for name in ("read", "add", "change", "remove")
    )
)
BOAT = vevent(
    "boat",
    "DTSTART:20261124T090000Z",
    "DTEND:20261124T103000Z",
    "SUMMARY:The boat\\, at last",
    "X-OTHER;X=1:kept",
    "BEGIN:VALARM\r\nACTION:DISPLAY\r\nDESCRIPTION:alarm\r\nTRIGGER:-PT15M\r\nEND:VALARM",
)


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
def opened(tmp_path: Path, server: Radicale) -> Callable[..., Agent]:
    """A way to open a home that may write the calendar, or may not."""

    def open_home(write: str = "true") -> Agent:
        home = tmp_path / "home"
        for folder in ("recipes", "etc"):
            (home / folder).mkdir(parents=True, exist_ok=True)
        (home / "recipes" / "try.xml").write_text(COOKBOOK)
        (home / "etc" / "narval.toml").write_text(
            f'timezone = "Europe/Paris"\n[calendars.work]\nurl = "{server.url}"\n'
            f'user = "{USER}"\nsecret = "dav"\nwrite = {write}\n'
            '[calendars.home]\npath = "home.ics"\nwrite = true\n'
        )
        (home / "etc" / "dav").write_text(PASSWORD)
        (home / "etc" / "dav").chmod(0o600)
        agent = narval.open(home, clock=SimulatedClock(NOW.timestamp()))
        agent.add('<calendar name="work"/>')
        return agent

    return open_home


@pytest.fixture
def agent(opened: Callable[..., Agent]) -> Iterator[Agent]:
    with opened() as agent:
        yield agent


def done(agent: Agent, action: str, *elements: str | narval.Element) -> str:
    """Run an action with these; "done", or the text of the error."""
    run = agent.start(f"try.{action}", *elements)
    phase = agent.wait(run)["phase"]
    return "done" if phase == "done" else agent.memory("error")[-1].text


def known(agent: Agent, uid: str) -> narval.Element:
    """The event as memory has it."""
    assert done(agent, "read") == "done"
    (event,) = agent.memory(f"event[@uid='{uid}']", current=True)
    return event


ENTRY = """<entry calendar="work" start="2026-11-25T10:00" end="2026-11-25T11:30"
  summary="Roof; new, \\ and dry"
  location="Attic" status="tentative"><description>Bring
a ladder</description></entry>"""


def test_an_event_is_entered_and_comes_back_as_it_was_meant(server: Radicale, agent: Agent) -> None:
    assert done(agent, "add", ENTRY) == "done"
    (entered,) = agent.memory("entered")
    event = known(agent, entered.attributes["uid"])
    assert entered.attributes["key"] == event.attributes["key"]
    assert {word: event.attributes[word] for word in ("start", "end", "summary", "location", "status")} == {
        "start": "2026-11-25T10:00:00+01:00",
        "end": "2026-11-25T11:30:00+01:00",
        "summary": "Roof; new, \\ and dry",
        "location": "Attic",
        "status": "tentative",
    }
    assert event.tree().findtext("description") == "Bring\na ladder"
    assert len(server.entries()) == 1


@pytest.mark.parametrize(
    ("start", "end", "shown"),
    [
        ("2026-11-25T10:00", "", "2026-11-25T11:00:00+01:00"),
        ("2026-11-25T10:00Z", "", "2026-11-25T12:00:00+01:00"),
        ("2026-11-25", "", "2026-11-26"),
        ("2026-11-25", "2026-11-28", "2026-11-28"),
    ],
)
def test_an_end_may_be_left_out(agent: Agent, start: str, end: str, shown: str) -> None:
    ending = f'end="{end}"' if end else ""
    assert done(agent, "add", f'<entry calendar="work" start="{start}" {ending} summary="x"/>') == "done"
    assert known(agent, agent.memory("entered")[0].attributes["uid"]).attributes["end"] == shown


def test_an_event_is_altered_and_all_else_of_it_stays(server: Radicale, agent: Agent) -> None:
    server.put("boat", ics(BOAT))
    change = '<change start="2026-11-24T15:00" location="Harbour"/>'
    assert done(agent, "change", known(agent, "boat"), change) == "done"
    event = known(agent, "boat")
    assert event.attributes["start"] == "2026-11-24T15:00:00+01:00"
    assert event.attributes["end"] == "2026-11-24T16:30:00+01:00", "as long as before"
    assert event.attributes["summary"] == "The boat, at last"
    assert event.attributes["location"] == "Harbour"
    (text,) = server.entries().values()
    for line in ("X-OTHER;X=1:kept", "DESCRIPTION:alarm", "TRIGGER:-PT15M", "SEQUENCE:1"):
        assert line in text
    assert done(agent, "change", event, '<change summary="" location="Quay"/>') == "done"
    assert "summary" not in known(agent, "boat").attributes


def test_an_event_is_removed_and_to_remove_it_again_is_no_error(server: Radicale, agent: Agent) -> None:
    server.put("boat", ics(BOAT))
    event = known(agent, "boat")
    assert done(agent, "remove", event) == "done"
    assert server.entries() == {}
    assert done(agent, "remove", event) == "done"
    assert done(agent, "read") == "done"
    assert current(agent) == []


def test_what_somebody_else_altered_is_never_written_over(server: Radicale, agent: Agent) -> None:
    server.put("boat", ics(BOAT))
    event = known(agent, "boat")
    server.put("boat", ics(BOAT.replace("at last", "at noon")))
    before = server.entries()
    for action, more in (("change", ['<change location="Quay"/>']), ("remove", [])):
        assert "has another version of boat by now; nothing was written" in done(agent, action, event, *more)
    assert server.entries() == before


@pytest.mark.parametrize("action", ["add", "change", "remove"])
def test_nothing_is_written_where_the_settings_do_not_say_so(
    server: Radicale, opened: Callable[..., Agent], action: str
) -> None:
    server.put("boat", ics(BOAT))
    before = server.entries()
    with opened("false") as agent:
        given = {"add": [ENTRY], "change": [known(agent, "boat"), '<change summary="x"/>']}
        told = done(agent, action, *given.get(action, [known(agent, "boat")]))
    assert "expected write = true in [calendars.work] of etc/narval.toml" in told
    assert server.entries() == before


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ('<entry calendar="home" start="2026-11-25"/>', "found a file: files are only read"),
        ('<entry calendar="work" start="tomorrow"/>', "expected a date such as 2026-11-24T10:00"),
        ('<entry calendar="work" start="2026-11-25T10:00" end="2026-11-25T09:00"/>', "expected an end after"),
        ('<entry calendar="work" start="2026-11-25T10:00" end="2026-11-25"/>', "expected an end after"),
    ],
)
def test_what_cannot_be_entered_is_an_error(server: Radicale, agent: Agent, entry: str, told: str) -> None:
    assert told in done(agent, "add", entry)
    assert server.entries() == {}


def test_an_occurrence_of_several_is_left_alone(server: Radicale, agent: Agent) -> None:
    server.put(
        "choir", ics(vevent("choir", "DTSTART:20261101T090000Z", "RRULE:FREQ=MONTHLY", "SUMMARY:Choir"))
    )
    event = known(agent, "choir")
    assert "expected an event that occurs once" in done(agent, "remove", event)


def test_a_line_cannot_be_smuggled_in(server: Radicale, agent: Agent) -> None:
    smuggled = "x&#13;&#10;END:VEVENT&#10;BEGIN:VEVENT&#10;UID:evil"
    assert done(agent, "add", f'<entry calendar="work" start="2026-11-25" summary="{smuggled}"/>') == "done"
    (text,) = server.entries().values()
    assert text.splitlines().count("BEGIN:VEVENT") == 1


def test_a_call_that_is_made_again_with_the_same_id_writes_once(server: Radicale, agent: Agent) -> None:
    def twice(name: str, *elements: narval.Element) -> None:
        login = {"user": USER, "secret": "NARVAL_TEST_DAV"}
        known = (Calendar(name="work", url=server.url, write=True, **login),)
        for _ in range(2):
            here = CallContext(f"home/{name}", 1, "step", target=Target(where="async"), services=known)
            here.context().run(asyncio.run, getattr(writing, name)(*elements))

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NARVAL_TEST_DAV", PASSWORD)
        twice("added", narval.Element(1, b"<entry calendar='work' start='2026-11-25' summary='x'/>"))
        ((uid, before),) = server.entries().items()
        (event,) = events_in(before.encode(), "work", zone_named(machine_zone()))
        known = narval.Element(2, etree.tostring(event))
        twice("changed", known, narval.Element(3, b"<change summary='y'/>"))
    (after,) = server.entries().values()
    assert "SEQUENCE:1" in after
    assert "SUMMARY:y" in after
    assert uid
