"""JSON: texts of JSON as elements, and elements as JSON, by one mapping (docs/reference/modules/json.md)."""

from __future__ import annotations

from typing import Any

from lxml import etree

from narval import ActionError, Element, Input, Output, action
from narval.api import JsonError, element_of_json, is_reserved, json_of_element, parse_json

USUAL_NAME = "json"


@action(
    inputs=[
        Input("text", "*[not(self::json-as)]"),
        Input("json-as", "json-as", optional=True, holds={"each": ("yes", "no")}, reads="name at each"),
    ],
    outputs=[Output("elements", "*", list=True, optional=True)],
    pure=True,
    description="The elements that a JSON text describes.",
)
def read(text: Element, json_as: Element | None = None) -> list[etree._Element]:
    """Make an element from the JSON in the text of an element, named as `<json-as name="…"/>` says.

    With `at="data.items"` it is made from the value there, with `each="yes"` one from each value of a list.
    """
    wish = json_as.attributes if json_as is not None else {}
    name = wish.get("name", USUAL_NAME)
    if is_reserved(name):
        raise _bad(
            f"expected the name of an element that means nothing to narval, found {name!r}", "bad-name"
        )
    try:
        found = _at(parse_json(text.text), wish.get("at", ""))
        if wish.get("each") != "yes":
            return [element_of_json(name, found)]
        if not isinstance(found, list):
            raise JsonError(f"expected a list, as json-as has each, found {_kind(found)}")
        return [element_of_json(name, value) for value in found]
    except JsonError as error:
        raise _bad(str(error), "bad-json") from None
    except ValueError:  # from lxml
        raise _bad(f"expected json-as to have the name of an element, found {name!r}", "bad-name") from None


@action(
    inputs=[Input("element", "*")],
    outputs=[Output("json", "json")],
    pure=True,
    description="An element as a text of JSON.",
)
def write(element: Element) -> etree._Element:
    """Return `<json>` with the JSON text that an element represents."""
    made = etree.Element("json")
    try:
        made.text = json_of_element(element.tree())
    except JsonError as error:
        raise _bad(str(error), "bad-json") from None
    return made


def _at(value: Any, path: str) -> Any:
    """The value within another at a path of keys, and of indexes of lists, from 0 on."""
    for step in path.split(".") if path else ():
        try:
            value = value[int(step) if isinstance(value, list) else step]
        except (KeyError, IndexError, ValueError, TypeError):
            raise JsonError(f"expected {step!r} of at={path!r}, found {_kind(value)}") from None
    return value


def _kind(value: Any) -> str:
    """A value's kind in messages."""
    if isinstance(value, dict):
        keys = ", ".join(list(value)[:10])
        return f"an object with the keys {keys[:200]}" if keys else "an object without keys"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return f"{value!r:.40}"


def _bad(message: str, kind: str) -> ActionError:
    return ActionError(message, kind, final=True)
