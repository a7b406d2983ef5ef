"""Bodies of webhooks as elements: JSON, a form, or XML becomes one element.

JSON is mapped as everywhere (`memory/elements/json_mapping.py`), but without its types, as it is not written
back. A form is an object whose values are texts. XML stays unchanged if its root has the name of the element;
otherwise it is wrapped in such an element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from lxml import etree

from narval.core.elements.canonical import parse_untrusted
from narval.core.elements.json_mapping import JsonError, element_of_json, parse_json
from narval.core.errors import ElementError

FIELDS = 500
"""The most fields of a form."""


class BodyError(ValueError):
    """A body that does not match its type, or is too large; the message says what was expected."""


def of_json(name: str, body: bytes) -> bytes:
    """The element of a body of JSON. Raises BodyError."""
    try:
        return _element(name, parse_json(body))
    except JsonError as error:
        raise BodyError(str(error)) from None


def of_form(name: str, body: bytes) -> bytes:
    """The element of a body of fields. Raises BodyError."""
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, max_num_fields=FIELDS, errors="strict"
        )
    except ValueError as error:
        raise BodyError(f"expected at most {FIELDS} fields of a form, in UTF-8: {error}") from None
    fields: dict[str, Any] = {}
    for key, value in pairs:
        fields.setdefault(key, []).append(value)
    return _element(name, {key: values[0] if len(values) == 1 else values for key, values in fields.items()})


def of_xml(name: str, body: bytes) -> bytes:
    """The element of a body of XML. Raises BodyError."""
    try:
        root = parse_untrusted(body)
    except ElementError as error:
        raise BodyError(f"{error.line}:{error.column}: {error}") from None
    if root.tag != name:
        outer = etree.Element(name)
        outer.append(root)
        root = outer
    return etree.tostring(root, encoding="utf-8")


BODY_READERS: Mapping[str, Callable[[str, bytes], bytes]] = {
    "application/json": of_json,
    "application/x-www-form-urlencoded": of_form,
    "application/xml": of_xml,
    "text/xml": of_xml,
}
"""The readers of bodies by their media type."""


def elements_of_json(body: bytes) -> list[bytes]:
    """The elements of a JSON object: each key names one, or one for each value of a list. Raises
    BodyError.
    """
    try:
        content = parse_json(body)
        if not isinstance(content, dict):
            raise BodyError('expected an object of elements by their names, such as {"order": {"n": 1}}')
        listed = ((name, value if isinstance(value, list) else [value]) for name, value in content.items())
        return [_element(name, value) for name, values in listed for value in values]
    except JsonError as error:
        raise BodyError(str(error)) from None
    except ValueError as error:
        raise BodyError(f"expected the names of elements as keys: {error}") from None


def _element(name: str, content: Any) -> bytes:
    return etree.tostring(element_of_json(name, content, typed=False), encoding="utf-8")
