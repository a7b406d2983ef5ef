"""Functions of values, in addition to XPath 1.0: a choice, joined texts, and dates and moments.

They parse dates as appointments do, so a local date is in the home's time zone; and lengths, too, so weekdays
may follow. For a text that is not a date they return what XPath returns elsewhere: "" or NaN. The author
writes the lengths and the weekdays: they are parsed with the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, datetime
from functools import lru_cache, partial
from typing import Any

from lxml import etree
from msgspec.structs import replace

from narval.core.definitions.appointment import Appointment, counted_days, read_date
from narval.core.definitions.reading.durations import length_of
from narval.core.definitions.reading.times import interval, weekdays
from narval.core.definitions.wall import zone_named
from narval.core.patterns.functions import Signature
from narval.core.patterns.syntax import Expression, ExpressionError, Filter, FunctionCall, Literal, Path, walk
from narval.core.patterns.xpath1 import string_of

VALUE_FUNCTIONS: Mapping[str, Signature] = {
    "if": Signature("string", 3, 3),
    "string-join": Signature("string", 2, 2, nodes=True),
    "date-add": Signature("string", 2, 2),
    "days-between": Signature("number", 2, 3),
    "time-between": Signature("string", 2, 2),
    "seconds-between": Signature("number", 2, 2),
}


def uses_functions(tree: Expression) -> bool:
    """True if an expression has functions of values."""
    return any(isinstance(part, FunctionCall) and part.name in VALUE_FUNCTIONS for part in walk(tree))


def check_functions(tree: Expression) -> None:
    """Raise ExpressionError at a function of values that would be called for each node, or with invalid
    lengths or weekdays.
    """
    for predicate in _predicates(tree):
        for part in walk(predicate):
            if isinstance(part, FunctionCall) and part.name in VALUE_FUNCTIONS:
                raise ExpressionError(f"{part.name}() is outside of a predicate", part.start)
    for call in walk(tree):
        if isinstance(call, FunctionCall) and call.name == "date-add":
            _check_literal(call, 1, _shift)
        elif isinstance(call, FunctionCall) and call.name == "days-between" and len(call.arguments) > 2:
            _check_literal(call, 2, weekdays)


def _predicates(tree: Expression) -> Iterator[Expression]:
    for node in walk(tree):
        match node:
            case Filter(predicates=predicates):
                yield from predicates
            case Path(steps=steps):
                yield from (predicate for step in steps for predicate in step.predicates)


def _check_literal(call: FunctionCall, at: int, read: Any) -> None:
    argument = call.arguments[at]
    text = argument.value if isinstance(argument, Literal) else None
    try:
        read(text if isinstance(text, str) else "")
    except ValueError as error:
        raise ExpressionError(f"{call.name}() expects {error.args[0]}, in quotes", argument.start) from None


def functions_in(zone: str) -> dict[tuple[None, str], Any]:
    """The functions of values in a time zone, as lxml takes them."""
    return {
        (None, "if"): _if,
        (None, "string-join"): _string_join,
        (None, "date-add"): partial(_date_add, zone),
        (None, "days-between"): partial(_days_between, zone),
        (None, "time-between"): partial(_time_between, zone),
        (None, "seconds-between"): partial(_seconds_between, zone),
    }


def _if(_: Any, test: Any, then: Any, otherwise: Any) -> Any:
    """The second argument if the first is true, as in boolean(), else the third: nodes as text."""
    is_true = test == test and bool(test)  # NaN is not true
    chosen = then if is_true else otherwise
    return _text(chosen, strip=False) if isinstance(chosen, list) else chosen


def _string_join(_: Any, nodes: Any, between: Any) -> str:
    """The texts of nodes, joined with a separator."""
    return _text(between, strip=False).join(_text([node], strip=False) for node in nodes)


@lru_cache(maxsize=1024)
def _shift(text: str) -> Appointment:
    """The length of time in a text such as 3d or -2d mon-fri. Raises ValueError."""
    back = text.startswith("-")
    return replace(interval(text[back:]), before=back)


def _date_add(zone: str, _: Any, begin: Any, length: str) -> str:
    """The date a length after or before another; a date without a time stays one if only days are added."""
    text, shift = _text(begin), _shift(length)
    try:
        moment = shift.moment(read_date(text, zone), zone)
        if moment is None:
            return ""
        local = datetime.fromtimestamp(moment, zone_named(zone))
    except (ValueError, OverflowError):
        return ""
    if _is_day(text):
        if not shift.length.seconds:
            return local.date().isoformat()
        local = local.replace(tzinfo=None)
    elif datetime.fromisoformat(text).tzinfo is None:
        local = local.replace(tzinfo=None)
    return local.isoformat(timespec="auto" if local.second or local.microsecond else "minutes")


def _days_between(zone: str, _: Any, begin: Any, end: Any, days: str = "*") -> float:
    """The days from one date to another, including the first but not the last, or only some weekdays of them.
    Negative if the second is earlier.
    """
    try:
        first, last = _day(_text(begin), zone), _day(_text(end), zone)
    except (ValueError, OverflowError):
        return float("nan")
    if last < first:
        return -float(counted_days(last, first, weekdays(days)))
    return float(counted_days(first, last, weekdays(days)))


def _seconds_between(zone: str, _: Any, begin: Any, end: Any) -> float:
    """The seconds from one moment to another; negative if the second is earlier."""
    try:
        return read_date(_text(end), zone) - read_date(_text(begin), zone)
    except (ValueError, OverflowError):
        return float("nan")


def _time_between(zone: str, _: Any, begin: Any, end: Any) -> str:
    """The time from one moment to another as a length such as 1d 2h, preceded by - if the second is earlier;
    in days for two dates.
    """
    first, last = _text(begin), _text(end)
    if _is_day(first) and _is_day(last):
        seconds = (date.fromisoformat(last) - date.fromisoformat(first)).days * 86400.0
    else:
        seconds = _seconds_between(zone, _, first, last)
    return "" if seconds != seconds else f"{'-' if seconds < 0 else ''}{length_of(abs(seconds))}"


def _day(text: str, zone: str) -> date:
    return datetime.fromtimestamp(read_date(text, zone), zone_named(zone)).date()


def _is_day(text: str) -> bool:
    try:
        return bool(date.fromisoformat(text))
    except ValueError:
        return False


def _text(value: Any, *, strip: bool = True) -> str:
    """The text of an argument: of the first of several nodes, as string() returns it."""
    if isinstance(value, list):
        value = value[0] if value else ""
    text = string_of(value) if isinstance(value, etree._Element) else str(value)
    return text.strip() if strip else text
