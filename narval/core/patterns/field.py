"""Field: the values that a path without predicates gives from an element's root.

`@subject` is an attribute, `header/from` the text of those children, `.` all text. Values are compared like
node sets in XPath 1.0: a comparison holds if it holds for one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

from narval.core.elements.element import Tree
from narval.core.patterns.xpath1 import compiled, number, string_of

Prefixes = tuple[tuple[str, str], ...]
"""Namespaces as declared by a pattern: (prefix, namespace), in a fixed order."""


class Field:
    """A part of an element whose values are compared. Each field is a single object: compare with `is`."""

    __slots__ = ("__weakref__", "_numbers", "attribute", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        """The path, for people."""
        self.attribute: str | None = None
        """The name, as lxml writes it, of a field that is an attribute of the root; else None."""
        self._numbers: Field | None = None

    numeric = False

    @property
    def as_numbers(self) -> Field:
        """The same field with its values parsed as numbers."""
        if self._numbers is None:
            self._numbers = _NumberField(self)
        return self._numbers

    def values(self, tree: Tree) -> Sequence[Any]:
        """The values of an element, in document order: strings, or numbers without NaN."""
        return (string_of(tree.root),)

    def __repr__(self) -> str:
        return self.text


class _AttributeField(Field):
    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        super().__init__("@" + name)
        self.attribute = self._name = name

    def values(self, tree: Tree) -> Sequence[str]:
        value = tree.get(self._name)
        return () if value is None else (value,)


class _PathField(Field):
    __slots__ = ("_path",)

    def __init__(self, text: str, prefixes: Prefixes) -> None:
        super().__init__(text)
        self._path = compiled(text, dict(prefixes))

    def values(self, tree: Tree) -> Sequence[str]:
        return [node if isinstance(node, str) else string_of(node) for node in self._path(tree.root)]


class _NumberField(Field):
    __slots__ = ("_name", "_strings")

    numeric = True

    def __init__(self, strings: Field) -> None:
        super().__init__(f"number({strings.text})")
        self._strings = strings
        self._name = strings.attribute
        self._numbers = self

    def values(self, tree: Tree) -> Sequence[float]:
        if self._name is None:
            return [value for value in map(number, self._strings.values(tree)) if value == value]
        written = tree.get(self._name)
        if written is None or (value := number(written)) != value:
            return ()
        return (value,)


_TEXT = Field(".")
_fields: WeakValueDictionary[tuple[str, Prefixes], Field] = WeakValueDictionary()


def attribute_field(name: str) -> Field:
    """The field of a root attribute, named as lxml names it."""
    identity = ("@" + name, ())
    return _fields.get(identity) or _fields.setdefault(identity, _AttributeField(name))


def path_field(text: str, prefixes: Prefixes) -> Field:
    """The field of a path relative to the root; `.` is the root's own text."""
    if text == ".":
        return _TEXT
    identity = (text, prefixes)
    return _fields.get(identity) or _fields.setdefault(identity, _PathField(*identity))


class Facts(dict[Field, Sequence[Any]]):
    """The values of one element by field, each looked up once, on first use."""

    __slots__ = ("tree",)

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    def __missing__(self, field: Field) -> Sequence[Any]:
        values = self[field] = field.values(self.tree)
        return values
