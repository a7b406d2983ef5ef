"""Dates in words: recurring readings of the calendar, and moments counted from others."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from narval.core.definitions.appointment import Appointment, Length
from narval.core.definitions.schedule import FIELDS, Ranges, Time
from narval.core.definitions.telling.patterns import value_phrase
from narval.core.definitions.telling.sentence import counted, length, listed
from narval.core.definitions.wall import MONTHS, WEEKDAYS


def dates(times: Iterable[Time], appointments: Iterable[Appointment] = ()) -> str:
    """The dates, any of which is awaited: the earliest counts."""
    return listed([*map(date, times), *map(appointment, appointments)], "or")


def date(time: Time) -> str:
    """A recurring date: `at 18:00 on the last day of a month`."""
    days = [
        _field("on ", weekdays(time.weekdays)),
        _field("on ", _counted(time.monthdays, _monthday), " of the month"),
        _field("on ", _counted(time.yeardays, _yearday), " of the year"),
        _field("in ", _counted(time.months, lambda month: MONTHS[month - 1].capitalize())),
        _field("in ", _counted(time.years, str)),
    ]
    words = [_clock(time), *days]
    if not any(days) and (time.hours or time.minutes or time.seconds):
        words.append("every day")
    return " ".join(filter(None, words)) + _missed(time.missed)


def appointment(when: Appointment) -> str:
    """A moment that comes once: `15 minutes before the start of "event"`."""
    long = "" if when.length == Length() and when.at is not None else interval(when.length)
    since = value_phrase(when.at) if when.at is not None else "the steps before it have ended"
    if not long:
        text = f"at {since}"
    else:
        text = f"{long} {'before' if when.before else 'after'} {since}"
    return text + _that_count(when) + _missed(when.missed)


def interval(when: Appointment | Length) -> str:
    """A length by the calendar: days by the wall clock, then seconds; and which days and hours count."""
    of = when.length if isinstance(when, Appointment) else when
    parts = [counted(of.days, "day")] if of.days else []
    text = " ".join([*parts, length(of.seconds)] if of.seconds or not parts else parts)
    return text + (_that_count(when) if isinstance(when, Appointment) else "")


def every(when: Appointment | Length) -> str:
    """The time from one to the next: `every day`, `every 2 days`."""
    text, days = interval(when.length if isinstance(when, Appointment) else when), ""
    if isinstance(when, Appointment):
        days = _that_count(when)
    return f"every {text if ' ' in text.removeprefix('1 ') else text.removeprefix('1 ')}{days}"


def _that_count(when: Appointment) -> str:
    hours = [f"{_hour(first)} to {_hour(last)}" for first, last in when.hours]
    that = [*([listed(hours)] if hours else []), *([weekdays(when.weekdays)] if when.weekdays else [])]
    return f" (of which {' on '.join(that)} alone count)" if that else ""


def _hour(seconds: int) -> str:
    return f"{seconds // 3600:02}:{seconds % 3600 // 60:02}"


def weekdays(days: Ranges) -> str:
    """Days of the week."""
    return _counted(days, lambda day: WEEKDAYS[day].capitalize())


def _missed(missed: str) -> str:
    """The words for the treatment of a missed date."""
    return ", and not at all if that was missed" if missed == "skip" else ""


def _field(before: str, text: str, after: str = "") -> str:
    return f"{before}{text}{after}" if text else ""


def _clock(time: Time) -> str:
    """The clock part of a date."""
    minute, second = _single(time.minutes), _single(time.seconds)
    hours = [_single((part,)) for part in time.hours]
    if hours and None not in hours and minute is not None and second is not None:
        rest = f":{minute:02}" + (f":{second:02}" if second else "")
        return f"at {listed(f'{hour:02}{rest}' for hour in hours)}"
    if not (time.hours or time.minutes or time.seconds):
        return "every second"
    words = [_unit("second", time.seconds), _unit("minute", time.minutes), _unit("hour", time.hours)]
    if second == 0 and minute == 0:
        words = words[2:]
        return f"at the beginning of {words[0]}"
    if second == 0:
        return f"at the beginning of {' of '.join(words[1:])}"
    return f"in {' of '.join(words)}"


def _unit(name: str, values: Ranges) -> str:
    """The values of one unit: `every minute`, `minute 30`, `every 5th minute`."""
    if not values:
        return f"every {name}"
    if len(values) == 1 and len(values[0]) == 3 and values[0][:2] == FIELDS[f"{name}s"]:
        return f"every {_nth(values[0][2])} {name}"
    return f"{name} {_counted(values, str)}"


def _single(values: Ranges) -> int | None:
    """The single value of a field; None if it has several."""
    if len(values) == 1 and len(values[0]) == 2 and values[0][0] == values[0][1]:
        return values[0][0]
    return None


def _counted(values: Ranges, word: Callable[[int], str]) -> str:
    """The values of a field, in words; "" for all."""
    return listed([_range(part, word) for part in values]) if values else ""


def _range(part: tuple[int, ...], word: Callable[[int], str]) -> str:
    first, last, *steps = part
    if first == last:
        return word(first)
    step = f" (every {_nth(steps[0])})" if steps and steps[0] > 1 else ""
    return f"{word(first)} to {word(last)}{step}"


def _monthday(day: int) -> str:
    if day == -1:
        return "the last day"
    return _yearday(day)


def _yearday(day: int) -> str:
    return f"the {_nth(day)} day" if day > 0 else f"the {_nth(-day)} day from the end"


def _nth(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number % 100 not in (11, 12, 13) else "th"
    return f"{number}{ending}"
