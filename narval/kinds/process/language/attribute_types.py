"""Converters between the texts that an environment keeps and values of types (section 8).

Types are named by the words of the source (`long`, `boolean`) or are Python types. A user's class takes part
if it has `from_text`, called with the text, and `to_text`. An enumeration is written by the names of its
members.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from typing import Any

MOST_TEXT = 1_000_000
"""The most characters that an attribute may have."""


def to_text(value: object) -> str | None:
    """A value as an environment keeps it; None stays None. Raises TypeError for a value that has no text."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Enum):
        return value.name
    for kind, write in _WRITERS.items():
        if isinstance(value, kind):
            return write(value)
    own = getattr(value, "to_text", None)
    if callable(own):
        text = own()
        if isinstance(text, str):
            return text
    raise TypeError(f"no converter for {type(value).__name__}: give it to_text and from_text, or pass a text")


def kept(name: object, value: object) -> str | None:
    """A value as an environment keeps it under a name. Raises ValueError, TypeError if it cannot be kept."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"expected the name of an attribute, got {name!r:.80}")
    text = to_text(value)
    for part in (name, text or ""):
        if len(part) > MOST_TEXT:
            raise ValueError(f"{name!r:.80}: expected at most {MOST_TEXT:,} characters, got {len(part):,}")
        try:
            part.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{name!r:.80}: expected Unicode text, got half a character") from None
    return text


def from_text(text: str | None, target: Any) -> Any:
    """A text as a value of a type. Raises ValueError if it is not one, TypeError for an unknown type."""
    if text is None:
        return None
    read = _READERS.get(target)
    if read is not None:
        return read(text)
    if isinstance(target, type) and issubclass(target, Enum):
        return _member(text, target)
    own = getattr(target, "from_text", None)
    if callable(own):
        return own(text)
    raise TypeError(f"no converter for {getattr(target, '__name__', target)}")


def is_convertible(target: Any) -> bool:
    """True if a text can become a value of that type."""
    return (
        target in _READERS
        or (isinstance(target, type) and issubclass(target, Enum))
        or callable(getattr(target, "from_text", None))
    )


# --- reading --------------------------------------------------------------------------------------------


def _whole(text: str, bits: int = 0) -> int:
    number = int(text.strip())
    if bits and not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise ValueError(f"{number} does not fit {bits} bits")
    return number


def _boolean(text: str) -> bool:
    return text.strip().lower() == "true"


def _moment(text: str) -> datetime:
    """Milliseconds since 1970, as the source keeps a date, or a date as ISO 8601 writes it, in the machine's
    local time if it has no zone.
    """
    try:
        return datetime.fromtimestamp(int(text.strip()) / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromisoformat(text.strip()).astimezone(UTC)


def _longs(text: str) -> list[int]:
    try:
        data = base64.b64decode(text, validate=True)
        (count,) = struct.unpack_from(">i", data)
        if len(data) != 4 + 8 * count:
            raise ValueError("its length is not that of its numbers")
        return list(struct.unpack_from(f">{count}q", data, 4))
    except (ValueError, struct.error) as error:
        raise ValueError(f"expected 64-bit numbers in base64: {error}") from None


def _member(text: str, enum: type[Enum]) -> Enum:
    by_name = {member.name.lower(): member for member in enum}
    value = by_name.get(text.strip().lower())
    if value is None:
        raise ValueError(f"expected one of {', '.join(member.name for member in enum)}, found {text!r:.80}")
    return value


_READERS: Mapping[Any, Callable[[str], Any]] = {
    "string": str, str: str, Any: str, object: str,
    "byte": partial(_whole, bits=8), "short": partial(_whole, bits=16),
    "int": partial(_whole, bits=32), "long": partial(_whole, bits=64), int: _whole,
    "float": float, "double": float, float: float,
    "boolean": _boolean, bool: _boolean,
    "char": lambda text: text[:1] or " ",
    "date": _moment, datetime: _moment,
    "longs": _longs, list[int]: _longs,
}  # fmt: skip

# --- writing --------------------------------------------------------------------------------------------


def _numbers(value: Sequence[int]) -> str:
    try:
        packed = struct.pack(f">i{len(value)}q", len(value), *value)
    except struct.error:
        raise TypeError("no converter for a list but one of 64-bit numbers") from None
    return base64.b64encode(packed).decode("ascii")


_WRITERS: Mapping[Any, Callable[[Any], str]] = {
    bool: lambda value: "true" if value else "false",
    int: str,
    float: repr,
    datetime: lambda value: str(round(value.timestamp() * 1000)),
    (list, tuple): _numbers,
}
