"""Fields of forms (P40, P42, P43): their types, and the check of a value, which is text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from narval.core.definitions.reading.values import TextTemplate
from narval.core.patterns.budget import Work as Effort
from narval.core.patterns.budget import WorkError
from narval.core.patterns.pattern import Condition
from narval.core.source.number_forms import BLANKS, NumberForm

FieldType = Literal[
    "string", "text", "integer", "decimal", "boolean", "date", "dateTime", "choice", "person", "element"
]

LONGEST = 65_536
"""The most characters of a value."""

_DIGITS = 30
"""The most digits before the point of a number, and after it."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,30}")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})")
_UNPLAIN = re.compile(rf"[^0-9.,'’{BLANKS}+-]")
"""A character that does not occur in a number without a currency."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:\d\d)?")
_TRUTH: Mapping[str, str] = MappingProxyType({"true": "true", "yes": "true", "false": "false", "no": "false"})
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]")
"""A character that XML does not allow."""

ORDERED = frozenset({"integer", "decimal", "date", "dateTime"})
"""The types whose values have an order, to which `least` and `most` apply."""

WORDED = frozenset({"string", "text"})
"""The types of free text, to which `length` and `pattern` apply."""


class FormField(msgspec.Struct, frozen=True):
    """A field of a form."""

    name: str
    """The name of the field."""
    type: FieldType = "string"
    """The type of its values."""
    label: str = ""
    """The label that people see."""
    required: frozenset[str] = frozenset()
    """The outcomes for which it must be filled in."""
    default: TextTemplate | None = None
    """The value that it has at first."""
    least: str = ""
    """The least value."""
    most: str = ""
    """The greatest value."""
    length: int | None = None
    """The most characters of a text."""
    pattern: str = ""
    """A regular expression of XML Schema that a text must fit."""
    options: TextTemplate | None = None
    """The words of a choice, or the expression that gives them."""
    match: Condition | None = None
    """The condition for the element whose number is the value."""
    list: bool = False
    """True if it takes several values."""

    def read(self, text: str, options: tuple[str, ...] = ()) -> str:
        """The value as the answer will have it. Raises ValueError with what was expected.

        The caller looks up persons and elements.
        """
        if len(text) > LONGEST:
            raise ValueError(f"at most {LONGEST:,} characters")
        if _UNSEEN.search(text):
            raise ValueError("no control characters")
        value = _READ[self.type](text)
        if self.type == "choice" and value not in options:
            raise ValueError(
                f"one of {', '.join(options)}" if options else "one of its options, and it has none"
            )
        self._check_limits(value)
        return value

    def _check_limits(self, value: str) -> None:
        if self.type in ORDERED:
            if self.least and _order(self.type, value) < _order(self.type, self.least):
                raise ValueError(f"{self.least} or more")
            if self.most and _order(self.type, value) > _order(self.type, self.most):
                raise ValueError(f"{self.most} or less")
        if self.length is not None and len(value) > self.length:
            raise ValueError(f"at most {self.length:,} characters")
        if self.pattern and not _matches(self.pattern, value):
            raise ValueError(f"a text that fits the pattern {self.pattern}")


def _matches(pattern: str, value: str) -> bool:
    from narval.core.patterns.regex import regex  # elementpath takes long to import

    try:
        return regex(whole(pattern)).matches(value, Effort())
    except WorkError:
        return False


def whole(pattern: str) -> str:
    """A regular expression that must fit the whole text, as in XML Schema."""
    return f"^(?:{pattern})$"


def _order(type: str, value: str) -> Any:
    """The sort key of a value of a type; a date and time without a zone counts as UTC."""
    if type in ("integer", "decimal"):
        whole, _, rest = value.lstrip("+-").partition(".")
        size = int((whole or "0") + rest.ljust(_DIGITS, "0"))
        return -size if value.startswith("-") else size
    if type == "date":
        return date.fromisoformat(value)
    moment = datetime.fromisoformat(value)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _line(text: str) -> str:
    if "\n" in text:
        raise ValueError("one line")
    return text


def _read_by(pattern: re.Pattern[str], expectation: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if not pattern.fullmatch(text.strip()):
            raise ValueError(expectation)
        return text.strip()

    return read


def _decimal(text: str) -> str:
    """A number with a point before its decimals, whatever separators the text uses.

    A text that could be two numbers, such as 1,250, is refused.
    """
    if not _DECIMAL.fullmatch(value := text.strip()):
        value = "" if _UNPLAIN.search(value) else NumberForm(is_currency=True).plain(value) or ""
        if not _DECIMAL.fullmatch(value):
            raise ValueError("a number such as 12.50 or 12,50")
    return value


def _dated(type: str, pattern: re.Pattern[str], expectation: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        try:
            if pattern.fullmatch(text.strip()):
                _order(type, text.strip())
                return text.strip()
        except (ValueError, OverflowError):
            pass
        raise ValueError(expectation)

    return read


def _truth(text: str) -> str:
    if text.strip() not in _TRUTH:
        raise ValueError("yes or no")
    return _TRUTH[text.strip()]


_READ: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {
        "string": _line,
        "text": lambda text: text,
        "integer": _read_by(_INTEGER, "a whole number"),
        "decimal": _decimal,
        "boolean": _truth,
        "date": _dated("date", _DATE, "a date such as 2026-11-25"),
        "dateTime": _dated("dateTime", _DATE_TIME, "a date and time such as 2026-11-25T10:00"),
        "choice": _line,
        "person": lambda text: text.strip(),
        "element": _read_by(re.compile(r"[0-9]{1,18}"), "the number of an element"),
    }
)
