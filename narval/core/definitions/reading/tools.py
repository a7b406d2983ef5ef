"""The `tool` of a definition: how programs outside may call it."""

from __future__ import annotations

from narval.core.definitions.reading.xml import Entry, Reading
from narval.core.definitions.tool import MOST_WAIT, WAIT, Tool, ToolArgument
from narval.core.elements.names import is_reserved
from narval.core.errors import RequestError


def read_tool(reading: Reading, recipe: Entry) -> Tool | None:
    """The tool that a recipe declares; None if it declares none."""
    entry = reading.one(recipe, "tool")
    if entry is None:
        return None
    element = entry.get("element") or recipe.get("name") or ""
    if is_reserved(element):
        remedy = 'add element="…", another name' if "element" not in entry.written else "give another name"
        message = f"tool: its arguments become <{element}>, which is a name of narval's own; {remedy}"
        reading.fault(entry, message, "element" if "element" in entry.written else None)
    wait = entry.get("wait", WAIT)
    if wait > MOST_WAIT:
        reading.fault(entry, f"wait: expected at most {MOST_WAIT:g} seconds, found {wait:g}", "wait")
    arguments = reading.each_once(entry.of("argument"), lambda argument: _argument(reading, argument), "name")
    return Tool(element, tuple(arguments.values()), entry.get("approve", "never"), wait)


def _argument(reading: Reading, entry: Entry) -> ToolArgument:
    values = tuple(dict.fromkeys(_values(entry.get("one-of", ""))))
    kind = entry.get("type", "string")
    argument = ToolArgument(
        entry.get("name", ""),
        kind,
        entry.get("required", False),
        description=reading.descriptions(entry).get("en", ""),
    )
    if values and kind in ("boolean", "xml"):
        reading.fault(entry, f"one-of: an argument of type {kind} has none; remove this", "one-of")
        return argument
    for value in values:
        try:
            argument.text(_NUMBERS[kind](value) if kind in _NUMBERS else value)
        except (RequestError, ValueError):
            reading.fault(entry, f"one-of: expected values of type {kind}, found {value!r:.80}", "one-of")
            return argument
    return ToolArgument(argument.name, kind, argument.is_required, values, argument.description)


def _values(text: str) -> list[str]:
    """The values in a text, separated by "|" if it has one (so that values may have blanks), or by blanks."""
    values = text.split("|") if "|" in text else text.split()
    return [value.strip() for value in values if value.strip()]


_NUMBERS = {"integer": int, "number": float}
