"""The values that scripts name (KA27): texts, numbers, and named parts of an object."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from lxml import etree

from narval.core.elements.canonical import canonical
from narval.core.elements.element import Element, text_within
from narval.core.engines.view import View
from narval.core.errors import ElementError
from narval.kinds.task.engine.state import ScriptFrame
from narval.kinds.task.language.definition import (
    CARRIED,
    THE_OBJECT,
    Comparison,
    Operand,
    ScriptPath,
    ScriptValue,
    name_of,
)

_NUMBER = re.compile(r"\s*-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)\s*")
"""A text that compares as a number, as in XPath."""

_COMPARES: Mapping[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""The operators of tests, on an order and 0."""


class ScriptFault(Exception):  # noqa: N818 - a fault of a script, not an error of narval
    """A script cannot continue; a fault that is not `final` may be retried."""

    def __init__(self, kind: str, message: str, *, final: bool = True) -> None:
        super().__init__(message)
        self.kind, self.message, self.final = kind, message, final


class RefusedSignal(Exception):  # noqa: N818 - an answer to the asker, not an error
    """A signal is refused, with a stable word and a message; nothing has changed."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind, self.message = kind, message


class Values:
    """The values of one script: the parameters of its event, and its objects, which are parsed on demand."""

    __slots__ = ("_frame", "_object", "_trees", "_view")

    def __init__(self, view: View, frame: ScriptFrame, eid: int) -> None:
        self._view, self._frame, self._object = view, frame, eid
        self._trees: dict[int, etree._Element] = {}

    def text(self, operand: Operand) -> str:
        """The text of an operand. Raises ScriptFault for an unknown name."""
        value = self._find(operand)
        if value is None:
            raise ScriptFault(
                "no-value", f"{name_of(operand)} is neither an attribute nor a child of the object"
            )
        return value

    def holds(self, test: Comparison) -> bool:
        """True if a test holds: two texts that are both numbers are compared as numbers."""
        if test.operator == "has":
            return self._has(test.left)
        if test.right is None:
            return self._find(test.left) not in (None, "", "0", "false")
        left, right = self.text(test.left), self.text(test.right)
        return _COMPARES[test.operator](_order(left, right), 0)

    def tree(self, eid: int) -> etree._Element:
        """The tree of an object. Raises ScriptFault if it is gone (K59)."""
        if eid not in self._trees:
            self._trees[eid] = self._element(eid).tree()
        return self._trees[eid]

    def _element(self, eid: int) -> Element:
        element = self._view.element(eid) if eid else None
        if element is None:
            raise ScriptFault("no-object", "there is no object here: it was given away, or none was taken")
        return element

    def _has(self, operand: Operand) -> bool:
        try:
            return self._find(operand) is not None
        except ScriptFault as fault:
            if fault.kind == "no-object":
                return False
            raise

    def altered(self, path: ScriptPath, value: str) -> tuple[int, bytes]:
        """The object that a path belongs to, and its XML with another value at the path: an attribute, or the
        text of a child. Raises ScriptFault.
        """
        eid, names = self._owner(path)
        node = root = self._element(eid).tree()  # not the tree that values are read from
        root.attrib.pop("eid", None)
        for name in names[:-1]:
            child = _child(node, name)
            if child is None:
                raise ScriptFault("no-value", f"{name_of(path)}: the object has no child {name}")
            node = child
        last = _child(node, names[-1])
        try:
            if last is None or node.get(names[-1]) is not None:
                node.set(names[-1], value)
            else:
                last[:], last.text = [], value
            return eid, canonical(root)
        except (ValueError, ElementError) as error:
            raise ScriptFault("bad-argument", f"set: {name_of(path)}: {error}") from None

    def _find(self, operand: Operand) -> str | None:
        if isinstance(operand, ScriptValue):
            return operand.value
        if len(operand.names) == 1 and operand.names[0] in self._frame.parameters:
            return self._frame.parameters[operand.names[0]]
        eid, names = self._owner(operand)
        if len(names) == 1:  # an attribute is read without a tree
            value = self._element(eid).attributes.get(names[0])
            if value is not None:
                return value
        return _text_at(self.tree(eid), names)

    def _owner(self, path: ScriptPath) -> tuple[int, tuple[str, ...]]:
        """The object that a path belongs to, and the names below it."""
        if path.names[0] == CARRIED and self._frame.carried:
            return self._frame.carried, path.names[1:]
        return self._object, path.names[1:] if path.names[0] in THE_OBJECT else path.names


def _text_at(node: etree._Element, names: tuple[str, ...]) -> str | None:
    for at, name in enumerate(names):
        value = node.get(name)
        if value is not None and at == len(names) - 1:
            return value
        child = _child(node, name)
        if child is None:
            return None
        node = child
    return text_within(node).strip()


def _child(node: etree._Element, name: str) -> Any:
    return next((child for child in node if _is_named(child, name)), None)


def _is_named(node: Any, name: str) -> bool:
    return isinstance(node.tag, str) and etree.QName(node).localname == name


def _order(left: str, right: str) -> int:
    if _NUMBER.fullmatch(left) and _NUMBER.fullmatch(right):
        return (float(left) > float(right)) - (float(left) < float(right))
    return (left > right) - (left < right)
