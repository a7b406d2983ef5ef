"""Quiet hours: the hours of a day in which a person gets only urgent messages by chat."""

from __future__ import annotations

from datetime import datetime, time, timedelta

from narval.core.definitions.people.directory import Person
from narval.core.definitions.wall import moment_of, zone_named


def quiet_until(person: Person, zone: str, at: float) -> float | None:
    """The end of a person's quiet hours, if a moment is within them; else None.

    `zone` is that of the home, used for people without a zone of their own.
    """
    if not person.quiet:
        return None
    first, last = map(time.fromisoformat, person.quiet.split("-"))
    there = zone_named(person.zone or zone)
    wall = datetime.fromtimestamp(at, there)
    is_over_midnight = first >= last
    if not (wall.time() >= first or wall.time() < last if is_over_midnight else first <= wall.time() < last):
        return None
    day = wall.date()
    if is_over_midnight and wall.time() >= first:
        day += timedelta(days=1)
    return moment_of(datetime.combine(day, last), there)


def waits_until(
    person: Person, zone: str, at: float, *, is_urgent: bool = False, deadline: float | None = None
) -> float | None:
    """The moment until which a message waits for the end of quiet hours; None if it goes at once.

    It goes at once if it is urgent, or about work whose deadline is within the quiet hours.
    """
    end = None if is_urgent else quiet_until(person, zone, at)
    return None if end is None or (deadline is not None and deadline <= end) else end
