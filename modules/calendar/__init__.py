"""Calendars: each event as an element, whenever it occurs (N36; docs/reference/modules/calendar.md).

`<calendar name="home"/>` in memory is read and followed; its place is in the settings, in `[calendars.home]`,
or in its `path`. A changed event replaces its former element; one that is gone or has ended is outdated.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from lxml import etree

from narval import ActionError, Element, Input, Needs, Output, action, call, now, service

from ..feeds.reading import cut, line_of
from ..files.places import absolute
from . import writing
from .dav import Server
from .occurring import Found, Window, events_of, key_of
from .origins import Files, Origin, is_over
from .parsing import CalendarError, Fault
from .told import Told

USUAL_DAYS, MOST_DAYS, USUAL_PAST = 31, 366, 1
BATCH = 250
HOUR = 3_600.0

READS = Needs(hosts=["[calendars]"], folders=["[calendars] r"], secrets=["[calendars]"])
WRITES = Needs(hosts=["[calendars]"], folders=["[calendars] rw"], secrets=["[calendars]"])
CALENDAR = Input(
    "calendar",
    "calendar[@name]",
    holds={"days": "number", "past": "number"},
    reads="name path days past",
)
EVENTS = Output(
    "events", "event[@key and @calendar]", list=True, optional=True, replaces="@key", own=["@calendar"]
)
GONE = Output("gone", "outdated[@key and @calendar]", list=True, optional=True, replaces="event/@key")
TROUBLES = Output("troubles", "error[@calendar]", list=True, optional=True)
"""The output for errors, declared so that a temporary one does not end a source that runs on."""

Elements = list[etree._Element]


# --- actions --------------------------------------------------------------------------------------------


@action(
    source=True,
    inputs=[CALENDAR],
    outputs=[EVENTS, GONE, TROUBLES],
    description="The events of a calendar, as they are entered, moved and cancelled.",
    where=["calendar/@name", "calendar/@path"],
    keeps={"events/@calendar": "calendar"},
    needs=READS,
    label="calendar",
)
async def watch(calendar: Element) -> AsyncIterator[Elements]:
    """Yield the events of a calendar, then changes; a trouble is reported once until it changes."""
    here = call()
    request = Wanted.of(calendar)
    reported = await asyncio.to_thread(Told, request.name, here.home)
    origin = request.origin(here.home, watched=True)
    files: list[bytes] | None = None
    seen: Window | None = None
    trouble, faults, caught_up = "", frozenset[Fault](), False
    waiting: asyncio.Future[None] | None = None
    try:
        while True:
            window = request.window()
            try:
                news = await origin.files() if waiting is None else None
                if news is not None or (files is not None and window != seen):
                    files, seen = news if news is not None else files, window
                    events = await asyncio.to_thread(events_of, files or (), request.name, window)
                    for batch in await asyncio.to_thread(_batches, reported, events, window):
                        yield batch
                    if fresh := [fault for fault in events.faults if fault not in faults]:
                        yield [_bad_event(fault, request.name) for fault in fresh]
                    faults = frozenset(events.faults)
                    await asyncio.to_thread(reported.record, events.events)
                    await origin.recorded()
                if waiting is None:
                    trouble = ""
                    here.recovered()
            except CalendarError as error:
                if str(error) != trouble:
                    yield [request.error(error)]
                trouble = str(error)
            if not caught_up:
                here.caught_up()
                caught_up = True
            waiting = waiting or asyncio.ensure_future(origin.news())
            if await is_over(waiting, _to_the_next_day()):
                waiting = None
    finally:
        if waiting is not None:
            waiting.cancel()
        origin.close()


@action(
    inputs=[CALENDAR],
    outputs=[EVENTS, GONE, TROUBLES],
    description="The events that a calendar has now, each time that one occurs.",
    where=["calendar/@name", "calendar/@path"],
    keeps={"events/@calendar": "calendar"},
    needs=READS,
    label="calendar",
    outside=False,
)
async def read(calendar: Element) -> Elements:
    """Return the current events of a calendar, and those that are gone; an unreadable one is an error."""
    here = call()
    request = Wanted.of(calendar)
    origin, window = request.origin(here.home, watched=False), request.window()
    reported = await asyncio.to_thread(Told, request.name, here.home)
    try:
        files = await origin.files()
        events = await asyncio.to_thread(events_of, files or (), request.name, window)
    except CalendarError as error:
        return [request.error(error)]
    finally:
        origin.close()
    return await asyncio.to_thread(reported.changes, events.events, window)


ENTERED = Output("entered", "entered[@calendar and @uid]")
EVENT = Input("event", "event[@uid and @calendar]")
WRITTEN = (*writing.TEXTS, *writing.TIMES)
ENTRY = Input("entry", "entry[@calendar and @start]", reads=("calendar", *WRITTEN))
CHANGE = Input("change", "change", reads=WRITTEN)


@action(
    inputs=[ENTRY],
    outputs=[ENTERED],
    needs=WRITES,
    description="Enters an event into a calendar.",
    where=["entry/@calendar"],
    describe="Enter {$entry/@summary} at {$entry/@start} into calendar {$entry/@calendar}",
)
async def add(entry: Element) -> etree._Element:
    """Add an event to a calendar on a server: once, however often the call is tried (N37)."""
    return await writing.added(entry)


@action(
    inputs=[EVENT, CHANGE],
    outputs=[ENTERED],
    needs=WRITES,
    description="Alters an event of a calendar.",
    where=["event/@calendar", "event/@uid"],
    describe="Alter {$event/@summary} at {$event/@start} in calendar {$event/@calendar}",
)
async def change(event: Element, change: Element) -> etree._Element:
    """Change an event that occurs once; if it was changed elsewhere, leave it unchanged and fail."""
    return await writing.changed(event, change)


@action(
    inputs=[EVENT],
    outputs=[ENTERED],
    needs=WRITES,
    description="Removes an event from a calendar.",
    where=["event/@calendar", "event/@uid"],
    describe="Remove {$event/@summary} at {$event/@start} from calendar {$event/@calendar}",
)
async def remove(event: Element) -> etree._Element:
    """Remove an event that occurs once, unless it was changed elsewhere."""
    return await writing.removed(event)


class Wanted(NamedTuple):
    """The values of a `calendar` element."""

    name: str
    path: str
    days: int
    past: int

    @classmethod
    def of(cls, element: Element) -> Wanted:
        """Read the element. Raises ActionError."""
        attributes = element.attributes
        name = line_of(attributes["name"])
        if not name or len(name) > 100:
            label = f"{attributes['name']!r:.80}"
            raise ActionError(f"expected a calendar's name in one line, got {label}", "bad-calendar")
        return cls(
            name,
            attributes.get("path", ""),
            _whole("days", attributes.get("days"), USUAL_DAYS),
            _whole("past", attributes.get("past"), USUAL_PAST),
        )

    def error(self, error: CalendarError) -> etree._Element:
        """The `error` element for a calendar that cannot be read, with its place."""
        table = f"[calendars.{self.name}] of etc/narval.toml"
        where = f'<calendar name="{self.name}">' if self.path else table
        return _error(error.kind, f"{error}; if that does not pass, set {where} right", self.name)

    def window(self) -> Window:
        """The time span to examine now."""
        return Window.around(now(), self.past, self.days)

    def origin(self, home: Path | None, *, watched: bool) -> Origin:
        """The place that it names, else the one in the settings. Raises ActionError."""
        path = self.path or service("calendars", self.name).path
        return Files(absolute(path, home), watched=watched) if path else Server(self.name)


def _whole(word: str, text: str | None, usual: int) -> int:
    if text is None:
        return usual
    if text.isdecimal() and len(text) < 4 and int(text) <= MOST_DAYS:
        return int(text)
    raise ActionError(f"expected {word} to be days, {MOST_DAYS} at most, got {text!r:.40}", "bad-calendar")


def _to_the_next_day() -> float:
    """Seconds to the next day at home, when the window moves; at most an hour, since a machine may sleep."""
    moment = now()
    midnight = datetime.combine(moment.date() + timedelta(days=1), datetime.min.time(), moment.tzinfo)
    return min(max((midnight - moment).total_seconds() + 1.0, 1.0), HOUR)


def _batches(reported: Told, events: Found, window: Window) -> Iterable[Elements]:
    changes = reported.changes(events.events, window)
    return [changes[start : start + BATCH] for start in range(0, len(changes), BATCH)]


def _bad_event(fault: Fault, name: str) -> etree._Element:
    """The error of an unreadable event, with the key that the event has or would have: without a key it would
    mean that the whole calendar is unreadable.
    """
    event = f"event {fault.uid[:100]}: " if fault.uid else ""
    error = _error("bad-event", f"{event}{fault.text}", name)
    error.set("key", key_of(name, fault.uid, None).strip())
    return error


def _error(kind: str, message: str, name: str) -> etree._Element:
    error = etree.Element("error", type=kind, calendar=name)
    etree.SubElement(error, "message").text = cut(line_of(f"calendar {name}: {message}"), 2_000)
    return error
