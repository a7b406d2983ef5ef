"""The moments that a run of any kind waits for: dates (N25, A10), including appointments, and another attempt
after a failure.

The runtime reports when a date is due, and does so early when the clock was set back or the time zone of the
home has changed: then the date is computed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil
from typing import NamedTuple

from narval.core.definitions.appointment import Appointment, read_date
from narval.core.definitions.schedule import Time, schedule_of
from narval.core.engines.view import View
from narval.core.patterns.pattern import Pattern

Eids = tuple[int, ...]


def next_date(times: tuple[Time, ...], zone: str, after: float) -> float | None:
    """The next matching date, in seconds since 1970; None if none will come."""
    return schedule_of(times, zone).next(after)


def has_come(times: tuple[Time, ...], date: float, now: float, view: View) -> bool:
    """True if the scheduled date has come, or was missed and is still to be acted on.

    A date before `view.up_since` was missed: the daemon was not running then.
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


# --- appointments ---------------------------------------------------------------------------------------


class ComputedDates(NamedTuple):
    """The moments of appointments, `made` at `since` from the elements `of` variables.

    `new` has the replaced elements, each with its replacement; `gone` those that no longer count. `fault`
    says which expression gives no date.
    """

    since: float = 0.0
    made: tuple[tuple[Appointment, float], ...] = ()
    of: tuple[tuple[str, Eids], ...] = ()
    new: tuple[tuple[int, int], ...] = ()
    gone: Eids = ()
    fault: str = ""

    def earliest(self, now: float, date: float | None) -> float | None:
        """The next of its moments, or the date if that comes before; None if there is none."""
        to_come = [moment for _, moment in self.made if moment > now]
        return min(to_come if date is None else [date, *to_come], default=None)

    def is_past(self, now: float) -> bool:
        """True if a moment had passed before it was set, and is still to be acted on."""
        return any(moment <= now and appointment.missed == "once" for appointment, moment in self.made)

    def has_come(self, now: float, view: View) -> bool:
        """True if a moment has come, or was missed and must be made up for."""
        return any(
            moment <= now and (appointment.missed == "once" or not view.was_missed(moment))
            for appointment, moment in self.made
        )


def compute(
    appointments: Iterable[Appointment], since: float, bindings: Mapping[str, Eids], view: View
) -> ComputedDates:
    """The moments of appointments, from the current versions of the elements in `known`.

    An appointment counted from elements that no longer count and have no replacement has no moment.
    """
    now = {eid: view.current(eid) for eids in bindings.values() for eid in eids}
    of = {
        name: tuple([eid for old in eids if (eid := now[old]) is not None]) for name, eids in bindings.items()
    }
    made, fault = [], ""
    for appointment in appointments:
        if any(bindings[name] and not of[name] for name in appointment.variables):
            continue
        try:
            begun = since if appointment.at is None else _date(appointment.at, of, view)
        except ValueError as error:
            fault = fault or str(error)
            continue
        moment = appointment.moment(begun, view.zone)
        made += [] if moment is None else [(appointment, moment)]
    new = tuple([(old, eid) for old, eid in now.items() if eid is not None and eid != old])
    gone = tuple([old for old, eid in now.items() if eid is None])
    return ComputedDates(since, tuple(made), tuple(sorted(of.items())), new, gone, fault)


def _date(expression: Pattern, of: Mapping[str, Eids], view: View) -> float:
    """The moment that an expression yields from elements. Raises ValueError, which names them."""
    names = sorted(expression.variables)
    elements = {name: [element for eid in of[name] if (element := view.element(eid))] for name in names}
    text = view.text_of(expression, elements)
    try:
        return read_date(text, view.zone)
    except ValueError:
        expectation = "a date and time such as 2026-11-25T10:00+01:00 or 2026-11-25T10:00, or a date"
        named = "; ".join(f"${name} is {_named(of[name])}" for name in names)
        raise ValueError(
            f"expected {expression.text} to give {expectation}, got {text!r:.80}; {named}"
        ) from None


def _named(eids: Eids) -> str:
    return f"element {', '.join(map(str, eids))}" if eids else "no element"


# --- attempts ---------------------------------------------------------------------------------------------

USUAL_BACKOFF = 1.0
"""Seconds before the second attempt of a step with `retries` and no `backoff`."""
LONGEST_BACKOFF = 3600.0
"""The limit of doubling, in seconds; a longer `backoff` is not doubled at all."""
SOURCE_REST = 60.0
"""Seconds until a failed source starts again while others work; or its `backoff`, if longer."""
LONGEST_RESTART = 300.0
"""The longest wait, in seconds: a definition that restarts and keeps failing waits 1, 2, 4 … up to this."""
_DOUBLINGS = 64
"""The most doublings: enough to reach the limit from any relevant backoff."""
_JITTER = 0.5
"""The largest fraction of a wait added to it, so that calls that failed together are not retried together."""
_GOLDEN = 0x9E3779B1
"""2**32 divided by the golden ratio: its multiples modulo 2**32 are spread evenly, in any order."""


def retry_wait(backoff: float | None, tries: int, chance: int) -> float:
    """Seconds between attempt number `tries` of a call and the next (N29, A7): doubled each time, plus up to
    half as much.

    The engine draws no random number: `chance` is the event's id, so that a replay decides the same.
    """
    first = USUAL_BACKOFF if backoff is None else backoff
    doubled = min(max(LONGEST_BACKOFF, first), first * 2.0 ** min(tries - 1, _DOUBLINGS))
    return doubled * (1.0 + _JITTER * (chance * _GOLDEN % 2**32) / 2**32)


def restart_wait(attempt: int) -> float:
    """Seconds between a failed run and the next one (N28, A18), after `attempt` earlier failures in a row."""
    return min(LONGEST_RESTART, 2.0 ** min(attempt, _DOUBLINGS))
