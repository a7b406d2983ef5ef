"""Tools: how programs outside may call a definition, and the element made from their arguments."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, Literal

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
        schema: dict[str, Any] = {"type": _JSON_TYPES[self.type]}
        about = self.description
        if self.type == "date":
            schema["format"] = "date"
        elif self.type == "xml":
            about = f"{about} An XML element.".strip()
        if self.one_of:
            schema["enum"] = [_VALUE_OF[self.type](value) for value in self.one_of]
        return {**schema, "description": about} if about else schema

    def text(self, value: Any) -> str:
        """A value as attribute text. Raises RequestError if it does not match."""
        kind = type(value)
        fits = kind in _PYTHON_TYPES[self.type]
        if fits and self.type == "date":
            try:
                fits = date.fromisoformat(value).isoformat() == value
            except ValueError:
                fits = False
        if not fits:
            raise RequestError(f"expected {self.name} to be {_EXPECTED[self.type]}, got {value!r:.80}")
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
                    root.append(parse(canonical_given(text.encode())))
                else:
                    root.set(argument.name, text)
            except (ElementError, ValueError) as error:
                raise RequestError(f"expected {argument.name} to be what XML can carry: {error}") from None
        return bytes(etree.tostring(root))


_JSON_TYPES: Mapping[str, str] = {
    "string": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "date": "string",
    "xml": "string",
}
_PYTHON_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "date": (str,),
    "xml": (str,),
}
_EXPECTED: Mapping[str, str] = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "date": "a date such as 2026-03-01",
    "xml": "an XML element, as a text",
}


def _number(text: str) -> int | float:
    return int(text) if text.lstrip("-").isdecimal() else float(text)


_VALUE_OF: Mapping[str, Any] = {
    "string": str,
    "integer": int,
    "number": _number,
    "boolean": lambda text: text == "true",
    "date": str,
    "xml": str,
}
"""The JSON value for a text of `one-of`, by type."""
