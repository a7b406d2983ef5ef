"""Each source that ships survives what it reads: away at the start or later, nonsense, back again (N36).

Each cause is told once, and nobody is asked in a busy loop. Servers of mail have a table of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from modules import calendar, feeds, files, mail
from modules.calendar import origins as calendar_origins
from modules.feeds import origins
from modules.mail import boxes
from narval.core.elements.element import Element
from tests.modules.feed_server import Server, says
from tests.modules.feed_texts import rss
from tests.modules.mailboxes import letter, maildir, watching
from tests.modules.mailboxes import no_thread_is_left as no_thread_is_left
from tests.modules.reading import Reading

PAUSE = 0.02
QUIET = 0.5
"""The seconds that a fault lasts after it was told."""
MOST_TRIES = 25


class Row(NamedTuple):
    """A source, its fault and its mending, how the next thing comes there, and what counts its `tries`."""

    xml: str
    watch: Callable[[Element], Any]
    gives: Callable[[Path, int], object]
    breaks: Callable[[Path], object]
    mends: Callable[[Path], object]
    tries: tuple[Any, str]


def put_into_maildir(home: Path, number: int) -> None:
    """As a program delivers: written aside, then renamed."""
    aside = home / "in/tmp" / str(number)
    aside.write_bytes(letter(number))
    aside.rename(home / "in/new" / f"{number}.host")


def append_to_mbox(home: Path, number: int) -> None:
    with (home / "in/mbox").open("ab") as file:
        file.write(b"From a@example.org\n" + letter(number) + b"\n")


def write_feed(home: Path, number: int) -> None:
    (home / "in/feed.rss").write_bytes(rss(*(f"mail {n}" for n in range(number + 1))))


def write_file(home: Path, number: int) -> None:
    (home / "in" / f"mail {number}").write_text("text")


def write_calendar(home: Path, number: int) -> None:
    """An event for each number, an hour from now."""
    begins = datetime.now(UTC) + timedelta(hours=1)
    events = "".join(
        f"BEGIN:VEVENT\r\nUID:{n}\r\nDTSTAMP:20260101T000000Z\r\nDTSTART:{begins:%Y%m%dT%H%M%SZ}\r\n"
        f"SUMMARY:mail {n}\r\nEND:VEVENT\r\n"
        for n in range(number + 1)
    )
    text = f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//x//x//EN\r\n{events}END:VCALENDAR\r\n"
    (home / "in/home.ics").write_text(text, newline="")


def unplug(home: Path) -> None:
    (home / "in").rename(home / "out")


def plug_in(home: Path) -> None:
    (home / "out").rename(home / "in")


def remove(home: Path) -> None:
    shutil.rmtree(home / "in")


def make_anew(home: Path) -> None:
    maildir(home / "in", 0)


def put_a_file_there(home: Path) -> None:
    unplug(home)
    (home / "in").write_text("no folder")


def take_it_away(home: Path) -> None:
    (home / "in").unlink()
    plug_in(home)


def spoil_feed(home: Path) -> None:
    (home / "in/feed.rss").write_bytes(b"<html>\x00 what is this")


def spoil_calendar(home: Path) -> None:
    (home / "in/home.ics").write_bytes(b"BEGIN:VCALENDAR\r\n\x00 what is this")


def nothing(_: Path) -> None:
    pass


AWAY = {
    "unplugged": (unplug, plug_in),
    "removed": (remove, make_anew),
    "replaced by a file": (put_a_file_there, take_it_away),
}
BOX = '<mailbox path="in"/>'
MBOX = '<mailbox kind="mbox" path="in/mbox"/>'
FEED = '<feed name="f" path="in/feed.rss"/>'
CALENDAR = '<calendar name="c" path="in/home.ics"/>'
FOLDER = '<folder path="in" settle="0.01"/>'
SOURCES: dict[str, tuple[str, Callable[[Element], Any], Callable[[Path, int], object], tuple[Any, str]]] = {
    "maildir": (BOX, mail.watch, put_into_maildir, (boxes, "opened")),
    "mbox": (MBOX, mail.watch, append_to_mbox, (boxes, "opened")),
    "feed": (FEED, feeds.watch, write_feed, (origins.File, "scan")),
    "calendar": (CALENDAR, calendar.watch, write_calendar, (calendar_origins.Files, "files")),
    "files": (FOLDER, files.watch, write_file, (files, "look")),
}
ROWS = {
    f"{source}, {fault}": Row(xml, watch, gives, *AWAY[fault], tries)
    for source, (xml, watch, gives, tries) in SOURCES.items()
    for fault in AWAY
}
ROWS["feed, spoilt"] = Row(FEED, feeds.watch, write_feed, spoil_feed, nothing, (origins.File, "scan"))
ROWS["calendar, spoilt"] = Row(
    CALENDAR, calendar.watch, write_calendar, spoil_calendar, nothing, (calendar_origins.Files, "files")
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a folder in which all lies."""
    monkeypatch.setattr(boxes, "FIRST_PAUSE", PAUSE)
    monkeypatch.setattr(origins, "QUIET_SECONDS", PAUSE)
    monkeypatch.setattr(calendar_origins, "QUIET_SECONDS", PAUSE)
    monkeypatch.setattr(feeds, "SHORTEST_SECONDS", 0.0)
    maildir(tmp_path / "in", 0)
    return tmp_path


@contextlib.contextmanager
def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> Iterator[list[int]]:
    """The times that a function is called."""
    real, calls = getattr(owner, name), list[int]()

    def counting(*arguments: Any) -> Any:
        calls.append(1)
        return real(*arguments)

    monkeypatch.setattr(owner, name, counting)
    yield calls


@pytest.mark.parametrize("when", ["from the start", "in the middle"])
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_N36_what_is_away_is_told_once_and_read_when_it_is_back(
    home: Path, monkeypatch: pytest.MonkeyPatch, row: Row, when: str
) -> None:
    async def story(tries: list[int]) -> None:
        if when == "from the start":
            row.breaks(home)
        else:
            row.gives(home, 1)
        async with watching(home, row.xml, row.watch) as watcher, Reading(watcher) as reading:
            await reading.until(lambda: watcher.call.has_caught_up)
            if when == "in the middle":
                await reading.until(lambda: reading.has("mail 1"))
                row.breaks(home)
            await reading.until(lambda: bool(reading.errors))
            tries.clear()
            await asyncio.sleep(QUIET)
            assert len(tries) < MOST_TRIES, "a busy loop"
            row.mends(home)
            row.gives(home, 2)
            await reading.until(lambda: reading.has("mail 2"))
            assert len(reading.errors) == 1

    with counted(monkeypatch, *row.tries) as tries:
        asyncio.run(story(tries))


WEB: dict[str, tuple[Callable[[Server], None], Callable[[Server], None]]] = {
    "not there": (Server.close, Server.open),
    "out of order": (lambda server: server.answers.insert(0, says(status=500)), lambda _: None),
    "no feed": (lambda server: server.answers.insert(0, says(b"<html>")), lambda _: None),
    "hanging up": (lambda server: server.answers.insert(0, lambda _: None), lambda _: None),
}


@pytest.mark.parametrize("when", ["from the start", "in the middle"])
@pytest.mark.parametrize("fault", WEB)
def test_N36_a_feed_s_server_that_is_away_is_told_once_and_asked_on(
    home: Path, monkeypatch: pytest.MonkeyPatch, fault: str, when: str
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(origins, "DAY_SECONDS", 0.1)
    breaks, mends = WEB[fault]
    server = Server()
    server.answers = [says(rss("mail 1"))]

    async def story() -> None:
        if when == "from the start":
            breaks(server)
        xml = f'<feed name="f" url="{server.url}" every="0.05"/>'
        async with watching(home, xml, feeds.watch) as watcher, Reading(watcher) as reading:
            if when == "in the middle":
                await reading.until(lambda: reading.has("mail 1"))
                breaks(server)
            await reading.until(lambda: bool(reading.errors))
            mends(server)
            server.answers = [says(rss("mail 2"))]
            await reading.until(lambda: reading.has("mail 2"))
            assert len(reading.errors) == 1

    try:
        asyncio.run(story())
    finally:
        with contextlib.suppress(OSError):
            server.close()
