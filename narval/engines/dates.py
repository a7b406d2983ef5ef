"""Dates that a run waits for, of whatever kind it is (N25, A10): when the next comes, and whether it has.

The runtime says when the moment of a date is there, and says so early when the clock has been set back or the
zone of the home is another now: then the date is worked out anew.
"""

from __future__ import annotations

from math import ceil

from narval.definitions.appointment import Appointment
from narval.definitions.schedule import Time, schedule_of
from narval.engines.view import View


def next_date(times: tuple[Time, ...], zone: str, after: float) -> float | None:
    """The next date that fits, in seconds since 1970; None when none ever comes again."""
    return schedule_of(times, zone).next(after)


def is_kept(appointment: Appointment, moment: float, now: float, view: View) -> bool:
    """True if the moment of an appointment is there, or was missed and is to be made up for (N41)."""
    return moment <= now and (appointment.missed == "once" or moment >= view.up_since)


def has_come(times: tuple[Time, ...], date: float, now: float, view: View) -> bool:
    """True if the date that was set is there, or was missed and is not to be dropped for that.

    A date before `view.up_since` was missed: the daemon was not at work then.
    """
    if now < date:
        return False
    if date >= view.up_since:
        return True
    schedule = schedule_of(times, view.zone)
    if schedule.missed(date - 1, now):
        return True
    first = schedule.next(ceil(view.up_since) - 1)
    return first is not None and first <= now
