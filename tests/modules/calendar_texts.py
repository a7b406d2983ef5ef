"""Texts of calendars for tests, and what is found in them."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from lxml import etree

from modules.calendar.occurring import Found, Window, events_of

PARIS = ZoneInfo("Europe/Paris")
NOW = datetime(2026, 11, 23, 8, tzinfo=PARIS)
WINDOW = Window.around(NOW, 1, 31)


def vevent(uid: str = "a", start: str = "DTSTART:20261124T100000Z", *lines: str) -> str:
    """The lines of an event."""
    return "\r\n".join(["BEGIN:VEVENT", f"UID:{uid}", start, *lines, "END:VEVENT"])


def ics(*parts: str) -> bytes:
    """A file of these components."""
    head = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//narval//test//EN"]
    return ("\r\n".join([*head, *parts, "END:VCALENDAR"]) + "\r\n").encode()


def found(*parts: str, window: Window = WINDOW) -> Found:
    """What a calendar called home has of these components within the window."""
    return events_of([ics(*parts)], "home", window)


def starts(*parts: str, window: Window = WINDOW) -> list[str]:
    """The beginnings of the events; nothing is wrong with them."""
    events, faults = found(*parts, window=window)
    assert faults == []
    return [str(event.get("start")) for event in events.values()]


def one(*parts: str) -> etree._Element:
    """The one event of these components."""
    (event,) = found(*parts).events.values()
    return event
