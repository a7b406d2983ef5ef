"""Tools: how programs outside may call a definition, and the element made from their arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from typing import Any, Literal, NamedTuple

import msgspec
from lxml import etree

from narval.core.elements.canonical import canonical_given
from narval.core.elements.element import parse
from narval.core.errors import ElementError, RequestError

ArgumentType = Literal["string", "integer", "number", "boolean", "date", "xml"]

Approve = Literal["never", "user", "owner"]

WAIT = 30.0
"""The seconds that a caller waits for the end of a run, unless its tool says otherwise."""

MOST_WAIT = 600.0
"""The most seconds that a caller may wait."""


class ToolArgument(msgspec.Struct, frozen=True):
    """An argument of a tool."""

    name: str
    type: ArgumentType = "string"
    is_required: bool = False
    one_of: tuple[str, ...] = ()
    """The allowed values; empty: any of its type."""
    description: str = ""

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its values."""
        schema: dict[str, Any] = {"type": _TYPES[self.type].json}
        about = self.description
        if self.type == "date":
            schema["format"] = "date"
        elif self.type == "xml":
            about = f"{about} An XML element.".strip()
        if self.one_of:
            schema["enum"] = [_TYPES[self.type].read(value) for value in self.one_of]
        return {**schema, "description": about} if about else schema

    def text(self, value: Any) -> str:
        """A value as attribute text. Raises RequestError if it does not match."""
        kind = type(value)
        fits = kind in _TYPES[self.type].python
        if fits and self.type == "date":
            try:
                fits = date.fromisoformat(value).isoformat() == value
            except ValueError:
                fits = False
        if not fits:
            raise RequestError(f"expected {self.name} to be {_TYPES[self.type].expected}, got {value!r:.80}")
        text = str(value).lower() if kind is bool else str(value)
        if self.one_of and text not in self.one_of:
            raise RequestError(
                f"expected {self.name} to be one of {', '.join(self.one_of)}, got {value!r:.80}"
            )
        return text


class Tool(msgspec.Struct, frozen=True):
    """The interface by which programs outside call a definition: the arguments become one element, the first
    of the run's context; `approve` says who must agree first.
    """

    element: str
    arguments: tuple[ToolArgument, ...] = ()
    approve: Approve = "never"
    wait: float = WAIT
    """The seconds that a caller waits for the end of the run."""

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {argument.name: argument.schema for argument in self.arguments},
            "additionalProperties": False,
        }
        required = [argument.name for argument in self.arguments if argument.is_required]
        return {**schema, "required": required} if required else schema

    def given(self, values: Mapping[str, Any]) -> bytes:
        """The element made from arguments. Raises RequestError for invalid ones."""
        names = dict.fromkeys(argument.name for argument in self.arguments)
        for name in values:
            if name not in names:
                listed = ", ".join(names) or "none"
                raise RequestError(f"there is no argument {name!r:.80}; there are {listed}")
        root = etree.Element(self.element)
        for argument in self.arguments:
            if argument.name not in values:
                if argument.is_required:
                    raise RequestError(f"the argument {argument.name!r} is missing")
                continue
            text = argument.text(values[argument.name])
            try:
                if argument.type == "xml":
                    root.append(parse(canonical_given(text)))
                else:
                    root.set(argument.name, text)
            except (ElementError, ValueError) as error:
                raise RequestError(f"expected {argument.name} to be what XML can carry: {error}") from None
        return bytes(etree.tostring(root))


def _number(text: str) -> int | float:
    return int(text) if text.lstrip("-").isdecimal() else float(text)


class _TypeRow(NamedTuple):
    """A type of arguments."""

    json: str
    """Its name in a JSON schema."""
    python: tuple[type, ...]
    """The types of its values in Python."""
    expected: str
    """The words for a value, for people."""
    read: Callable[[str], Any]
    """The JSON value for a text of `one-of`."""


_TYPES: Mapping[ArgumentType, _TypeRow] = {
    "string": _TypeRow("string", (str,), "a text", str),
    "integer": _TypeRow("integer", (int,), "a whole number", int),
    "number": _TypeRow("number", (int, float), "a number", _number),
    "boolean": _TypeRow("boolean", (bool,), "true or false", lambda text: text == "true"),
    "date": _TypeRow("string", (str,), "a date such as 2026-03-01", str),
    "xml": _TypeRow("string", (str,), "an XML element, as a text", str),
}
