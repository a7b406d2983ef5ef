"""Windows of time as they are written (K34, K35, KA1): `AFTER 1 HRS AND BEFORE 2 HRS RELATIVE`.

    time_spec = and_spec { "OR" and_spec }          and_spec = window { "AND" window }
    window    = ( "AT" | "BEFORE" | "AFTER" | "WITHIN" ) time [ "RELATIVE" | "ABSOLUTE" ]
              | "[" time_spec "]"             each with weekdays after it, if it is of the clock
    time      = duration [ working ] | clock | the name of a parameter
    working   = "WORKING" clock "TO" clock { "," clock "TO" clock } [ weekdays ]
    weekdays  = "ON" day [ "-" day ] { "," day [ "-" day ] }

A qualifier applies to every window to its left in the same specification that has none, even across brackets.
"""

from __future__ import annotations

import re

import msgspec

from narval.core.definitions.appointment import MOST_WEEKS, WEEK, WorkingTime
from narval.core.definitions.reading.lexer import NAME, NUMBER, Cursor
from narval.core.definitions.suggestions import closest
from narval.core.source.tokens import Token
from narval.kinds.task.language.windows import (
    DAY,
    LONGEST,
    AllOf,
    AnyOf,
    ClockTime,
    Duration,
    Parameter,
    TimeSpec,
    Window,
)
from narval.kinds.task.language.words import ON, OPERATORS, QUALIFIERS, UNITS, after_on

_MOST_DIGITS = 15


def read_time_spec(cursor: Cursor, parameters: list[Token]) -> TimeSpec | None:
    """The times at the cursor; None if there are none."""
    if cursor.next.kind not in (*OPERATORS, "["):
        return None
    reader = _TimesReader(cursor, parameters)
    return reader.qualified(reader.either())


class _TimesReader:
    """A reader of one specification of times."""

    def __init__(self, cursor: Cursor, parameters: list[Token]) -> None:
        self._cursor, self._known = cursor, [parameter.text for parameter in parameters]
        self._windows: list[tuple[Window, Token]] = []

    def either(self) -> TimeSpec:
        """Times joined by OR. Until `qualified`, each window is represented by its number in the text."""
        specs = [self._both()]
        while self._cursor.accept("OR"):
            specs.append(self._both())
        return specs[0] if len(specs) == 1 else AnyOf(tuple(specs))

    def _both(self) -> TimeSpec:
        specs = [self._window()]
        while self._cursor.accept("AND"):
            specs.append(self._window())
        return specs[0] if len(specs) == 1 else AllOf(tuple(specs))

    def _window(self) -> TimeSpec:
        cursor = self._cursor
        if cursor.accept("["):
            with cursor.deeper():
                inner = self.either()
            cursor.expect("], AND or OR", "]")
            self._on_days(len(self._windows))
            return inner
        operator = cursor.expect(f"{', '.join(OPERATORS)} or [", *OPERATORS)
        value = self._time()
        if isinstance(value, Duration) and cursor.next.text.upper() == WORKING:
            value = Duration(value.seconds, self._working(value.seconds))
        qualifier = cursor.accept(*QUALIFIERS)
        if qualifier is not None and isinstance(value, Duration) and value.working is not None:
            cursor.fault("working time is counted from the base; remove this", qualifier.at)
        window = Window(operator.kind, value, qualifier.kind if qualifier else "")  # type: ignore[arg-type]
        self._windows.append((window, operator))
        self._on_days(len(self._windows))
        return Window("AT", Duration(len(self._windows) - 1))

    def _on_days(self, count: int) -> None:
        """Read the weekdays at the cursor; they apply to all windows to the left that have none."""
        at = self._cursor.next
        if (weekdays := read_weekdays(self._cursor)) is None:
            return
        has_days = False
        for place, (window, operator) in enumerate(self._windows[:count]):
            is_of_clock = window.is_of_clock or isinstance(window.value, Parameter)
            if is_of_clock and not window.weekdays:
                self._windows[place] = msgspec.structs.replace(window, weekdays=weekdays), operator
                has_days = True
        if not has_days:
            self._cursor.fault("weekdays are of a time of the clock, such as AFTER 09:00 ON MON-FRI", at.at)

    def _working(self, seconds: float) -> WorkingTime:
        """The working hours of a length of working time: `WORKING 09:00 TO 17:00 ON MON-FRI`."""
        cursor = self._cursor
        word = cursor.advance()
        hours: list[tuple[int, int]] = []
        while not hours or cursor.accept(","):
            first = self._clock(cursor.expect("the hours that count, such as 09:00 TO 17:00", NUMBER))
            if cursor.next.text.upper() != "TO":
                raise cursor.unexpected("TO and the end of these hours")
            cursor.advance()
            last = self._clock(cursor.expect("the end of these hours, such as 17:00", NUMBER), DAY)
            if not first.seconds < last.seconds or (hours and first.seconds < hours[-1][1]):
                cursor.fault("expected hours in order, such as 09:00 TO 12:00, 13:00 TO 17:00", word.at)
            hours.append((int(first.seconds), int(last.seconds)))
        working = WorkingTime(tuple(hours), read_weekdays(cursor) or ())
        if seconds > MOST_WEEKS * working.a_week > 0:
            cursor.fault("expected working time that passes within ten years", word.at)
        return working

    def qualified(self, spec: TimeSpec) -> TimeSpec:
        """The times with the windows in place of their numbers, each with its qualifier."""
        qualifier = ""
        made: list[Window] = []
        for window, at in reversed(self._windows):
            qualifier = window.qualifier or qualifier
            made.append(msgspec.structs.replace(window, qualifier=qualifier))
            self._check_clock(made[-1], at)
        made.reverse()
        return _replaced(spec, made)

    def _check_clock(self, window: Window, at: Token) -> None:
        value = window.value
        if isinstance(value, Duration) and window.qualifier == "ABSOLUTE" and value.seconds >= DAY:
            text = f"{shown_seconds(value.seconds)} SECS"
            self._cursor.fault(f"ABSOLUTE: expected a time of the day, under 24 HRS, found {text}", at.at)

    def _time(self) -> Duration | ClockTime | Parameter:
        cursor = self._cursor
        if (name := cursor.accept(NAME)) is not None:
            if name.text not in self._known:
                hint = closest(name.text, self._known) or "; write it in parentheses after the event"
                cursor.fault(f"expected a parameter of the event, found {name.text!r:.60}{hint}", name.at)
            return Parameter(name.text)
        expectation = "a time, such as 10 MINS, 21:00:00 or a parameter of the event"
        first = cursor.expect(expectation, NUMBER)
        if cursor.next.kind in (":", NUMBER):
            return self._clock(first)
        return Duration(read_length(cursor, first))

    def _clock(self, hours: Token, most: int = DAY - 1) -> ClockTime:
        """The time of day that begins with a number already read; `most` is its latest second."""
        cursor = self._cursor
        numbers = [hours]
        with_colons = cursor.next.kind == ":"
        while len(numbers) < len(UNITS):
            if with_colons:
                if len(numbers) == len(UNITS) - 1 and cursor.next.kind != ":":
                    break
                cursor.expect(": and minutes, such as 21:00 or 21:00:00", ":")
            numbers.append(cursor.expect("hours, minutes and seconds, such as 21:00:00", NUMBER))
        texts = [number.text for number in numbers]
        if not all(text.isdigit() and len(text) <= 2 for text in texts) or not (
            int(texts[1]) < 60
            and int(texts[-1]) < 60
            and sum(int(text) * unit for text, unit in zip(texts, UNITS.values(), strict=False)) <= most
        ):
            clock = ":".join(text[:20] for text in texts)
            cursor.fault(f"expected a time of the day from 00:00:00 to 23:59:59, found {clock}", hours.at)
            return ClockTime(0)
        return ClockTime(sum(int(text) * unit for text, unit in zip(texts, UNITS.values(), strict=False)))


WORKING = "WORKING"
"""The word after a length of working time; a keyword only in that place."""

_WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_DAYS = re.compile(rf"({'|'.join(_WEEKDAYS)})(?:-({'|'.join(_WEEKDAYS)}))?", re.IGNORECASE)


def read_weekdays(cursor: Cursor, *, among_routes: bool = False) -> tuple[int, ...] | None:
    """The weekdays at the cursor, such as `ON MON-FRI` or `ON SAT, SUN`; None if there are none.

    Where a route may follow, an ON with any other word begins one.
    """
    if cursor.next.kind != ON:
        return None
    word = after_on(cursor.next.text)
    if among_routes and not _DAYS.fullmatch(word):
        return None
    at, days = cursor.advance().at, set[int]()
    while True:
        named = _DAYS.fullmatch(word)
        if named is None:
            cursor.fault(f"expected weekdays, such as MON-FRI or SAT, found {word!r:.40}", at)
        else:
            first = _WEEKDAYS.index(named[1].upper())
            last = _WEEKDAYS.index((named[2] or named[1]).upper())
            days.update(day % WEEK for day in range(first, last + 1 + WEEK * (last < first)))
        if not cursor.accept(","):
            return tuple(sorted(days))
        at, word = cursor.next.at, cursor.expect("a weekday, such as SAT", NAME).text


def shown_weekdays(weekdays: tuple[int, ...]) -> str:
    """Weekdays as text, with ON before them; "" for all."""
    return f" ON {', '.join(_WEEKDAYS[day] for day in weekdays)}" if weekdays else ""


def read_length(cursor: Cursor, first: Token) -> float:
    """The seconds of a length of time that begins with a number already read."""
    units = list(UNITS)
    unit = cursor.expect("HRS, MINS or SECS", *units)
    total = seconds_of(cursor, first) * UNITS[unit.kind]
    while (later := units[units.index(unit.kind) + 1 :]) and cursor.next.kind == NUMBER:
        if cursor.ahead().kind not in later:
            break
        number, unit = cursor.advance(), cursor.advance()
        total += seconds_of(cursor, number) * UNITS[unit.kind]
    if total > LONGEST:
        cursor.fault("expected no more than a hundred years", first.at)
    return round(min(total, LONGEST), 6)


def seconds_of(cursor: Cursor, number: Token) -> float:
    """The value of a number; 0, and a fault, if it has too many digits."""
    if len(number.text) > _MOST_DIGITS:
        cursor.fault(f"expected a number of {_MOST_DIGITS} digits at most", number.at)
        return 0
    return float(number.text)


def _replaced(spec: TimeSpec, windows: list[Window]) -> TimeSpec:
    if isinstance(spec, Window):
        assert isinstance(spec.value, Duration)  # a number of `_window`
        return windows[int(spec.value.seconds)]
    return type(spec)(tuple(_replaced(inner, windows) for inner in spec.specs))


def shown_seconds(seconds: float) -> str:
    """A number of seconds as text."""
    return f"{seconds:.6f}".rstrip("0").rstrip(".")


def shown_times(spec: TimeSpec) -> str:
    """Times as text."""
    if isinstance(spec, AnyOf):
        return " OR ".join(_bracketed(inner, AnyOf) for inner in spec.specs)
    if isinstance(spec, AllOf):
        return " AND ".join(_bracketed(inner, AnyOf, AllOf) for inner in spec.specs)
    text = f"{spec.operator} {_shown_value(spec.value)} {spec.qualifier}".rstrip()
    return text + shown_weekdays(spec.weekdays)


def _bracketed(spec: TimeSpec, *kinds: type) -> str:
    return f"[{shown_times(spec)}]" if isinstance(spec, kinds) else shown_times(spec)


def _shown_value(value: Duration | ClockTime | Parameter) -> str:
    if isinstance(value, Parameter):
        return value.name
    if isinstance(value, Duration):
        return f"{shown_seconds(value.seconds)} SECS{_shown_working(value.working)}"
    return _shown_clock(int(value.seconds))


def _shown_working(working: WorkingTime | None) -> str:
    if working is None:
        return ""
    hours = ", ".join(f"{_shown_clock(first)} TO {_shown_clock(last)}" for first, last in working.hours)
    return f" {WORKING} {hours}{shown_weekdays(working.weekdays)}"


def _shown_clock(second: int) -> str:
    minutes, seconds = divmod(second, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"
