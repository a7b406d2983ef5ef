"""Properties: annotated attributes of a class for a type of node, set from a node's `custom` (section 13).

A property annotated `Rubric[str]`, `Rubric[int]` or `Rubric[date]` is written in Rubric (section 18): its
text is parsed when the file is loaded, and evaluated before code of the node runs.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec

from narval.core.definitions.reading.vocabulary import integer, matching, seconds
from narval.core.definitions.suggestions import closest
from narval.core.errors import ActionError
from narval.kinds.process.language import rubric
from narval.kinds.process.language.attribute_types import from_text, is_convertible
from narval.kinds.process.language.statements import DateValue, Number, Statement, StringValue, Text

_IS_RUBRIC = "narval: Rubric"

Evaluated = TypeVar("Evaluated")
Rubric = Annotated[Evaluated, _IS_RUBRIC]
"""The annotation of a property whose text is Rubric that gives its value: a text, a number or a date."""

_RESULTS: Mapping[Any, tuple[type, ...]] = {
    str: (Text, StringValue), int: (Number,), date: (DateValue,), datetime: (DateValue,)
}  # fmt: skip
"""The results that Rubric may have, by the type of the property."""


class RubricType(msgspec.Struct, frozen=True):
    """The type of a property that is written in Rubric, and the type of its value."""

    type: Any

    @property
    def is_known(self) -> bool:
        """True if Rubric has results of the type."""
        return self.type in _RESULTS

    def read(self, text: str) -> rubric.ParsedRubric:
        """The statement of a text, or its faults; the last texts are cached."""
        return _read(text, _RESULTS[self.type])

    def value(self, evaluated: Any) -> Any:
        """A result as the code gets it: seconds since 1970 become a datetime."""
        return datetime.fromtimestamp(evaluated, UTC) if self.type in (date, datetime) else evaluated

    def __str__(self) -> str:
        return f"Rubric[{_word(self.type)}]"


@lru_cache(maxsize=256)
def _read(text: str, results: tuple[type, ...]) -> rubric.ParsedRubric:
    return rubric.parse(text, wanted=results)


def statements(
    properties: Mapping[str, Any], custom: Iterable[tuple[str, str]]
) -> Iterator[tuple[str, Statement]]:
    """The statements of the properties that are written in Rubric, by the dotted keys of a node's `custom`.

    Names in them have their column in the text, from 1.
    """
    for key, text in custom:
        type_ = _type_of(properties, key)
        if isinstance(type_, RubricType) and (statement := type_.read(text).statement) is not None:
            yield key, statement


def _type_of(properties: Mapping[str, Any], key: str) -> Any:
    """The type of the property that a dotted key names, or None."""
    first, _, rest = key.partition(".")
    name = property_named(properties, first)
    type_ = properties[name] if name is not None else None
    if not rest:
        return type_
    if isinstance(type_, type) and not is_convertible(type_):
        return _type_of(properties_of(type_), rest)
    return None


def are_evaluated(properties: Mapping[str, Any]) -> bool:
    """True if some property, or a part of one, is written in Rubric."""
    seen, waiting = set[type](), list(properties.values())
    while waiting:
        type_ = waiting.pop()
        if isinstance(type_, RubricType):
            return True
        if isinstance(type_, type) and type_ not in seen and not is_convertible(type_):
            seen.add(type_)
            waiting.extend(properties_of(type_).values())
    return False


def properties_of(owner: type) -> Mapping[str, Any]:
    """The annotated attributes of a class, and of those it inherits from, with their types."""
    properties = owner.__dict__.get(_PROPERTIES)
    if properties is None:
        properties = types.MappingProxyType(_read_properties(owner))
        setattr(owner, _PROPERTIES, properties)
    return properties


_PROPERTIES = "__narval_properties__"
"""The attribute of a class that caches its properties, as reading annotations takes as long as a question."""


def _read_properties(owner: type) -> dict[str, Any]:
    hints = typing.get_type_hints(owner, include_extras=True)
    return {
        name: _bare(hint)
        for name, hint in hints.items()
        if not name.startswith("_") and typing.get_origin(hint) is not ClassVar
    }


def is_property_type(type_: Any) -> bool:
    """True if a custom element, a text or parts, can become a value of that type."""
    if isinstance(type_, RubricType):
        return type_.is_known
    if is_convertible(type_):
        return True
    return isinstance(type_, type) and bool(getattr(type_, "__annotations__", None))


def assign(target: object, key: str, text: str, evaluated: Any = None) -> None:
    """Set the property that a dotted key names, making the objects between. A property in Rubric is set to
    the value of its text. Raises LookupError, ValueError, TypeError.
    """
    first, _, rest = key.partition(".")
    properties = properties_of(type(target))
    name = property_named(properties, first)
    if name is None:
        raise LookupError(f"no property {first!r}")
    if not rest:
        type_ = properties[name]
        of_rubric = isinstance(type_, RubricType)
        setattr(target, name, type_.value(evaluated) if of_rubric else from_text(text.strip(), type_))
        return
    inner = getattr(target, name, None)
    if inner is None:
        inner = properties[name]()
        setattr(target, name, inner)
    assign(inner, rest, text, evaluated)


def made(code: type, custom: Mapping[str, str], evaluated: Mapping[str, Any] | None = None) -> Any:
    """An instance of a node type, with its properties set from the node's `custom` (section 13, custom
    mapping), and from the `evaluated` values.

    Raises ActionError if a property does not exist, or a text does not fit it.
    """
    node = code()
    for key, text in custom.items():
        if _is_of_node(properties_of(code), key):
            continue
        try:
            assign(node, key, text, (evaluated or {}).get(key))
        except (LookupError, ValueError, TypeError) as error:
            raise ActionError(f"the property {key!r}: {error}", "bad-property", final=True) from None
    return node


def property_named(properties: Mapping[str, Any], written: str) -> str | None:
    """The property that a custom element names, as written or in Python's style."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", written).replace("-", "_").lower()
    names = (name for name in (written, snake, f"{snake}_") if name in properties)
    return next(names, None)


OF_NODE: Mapping[str, Callable[[str], object]] = {
    "timeout": seconds,
    "retries": integer(0),
    "backoff": seconds,
    "on-error": matching("fail", "fail"),
    "approve": str,
}
"""The custom elements of narval that any node may have, with their readers; they are not properties of its
type.
"""


def misfit_of_node(key: str, text: str) -> str:
    """The reason why the text of such an element does not fit; "" if it does, or is empty."""
    try:
        if key in OF_NODE and text.strip():
            OF_NODE[key](text.strip())
    except ValueError as error:
        return f"{key}: expected {error.args[0]}, found {text.strip()!r:.80}"
    return ""


def faults(
    properties: Mapping[str, Any], key: str, text: str, place: tuple[int, int]
) -> Iterator[tuple[tuple[int, int], str]]:
    """The faults of a custom element, each with its place: there is no such property, or its text does not
    fit it. `place` is where the text begins.
    """
    if _is_of_node(properties, key):
        if misfit := misfit_of_node(key, text):
            yield place, misfit
        return
    type_ = _type_of(properties, key)
    if isinstance(type_, RubricType):
        text = text.strip()
        for fault in type_.read(text).faults:
            yield within(place, text, fault.at), f"the property {key!r}: {fault.message}"
    elif (problem := _misfit(properties, key, text)) is not None:
        yield place, problem


def within(place: tuple[int, int], text: str, at: int) -> tuple[int, int]:
    """The line and column of a character of a text that begins at a place."""
    before = text[:at]
    line, column = place
    lines = before.count("\n")
    return (line + lines, at - before.rindex("\n")) if lines else (line, column + at)


def _is_of_node(properties: Mapping[str, Any], key: str) -> bool:
    return key in OF_NODE and property_named(properties, key) is None


def _misfit(properties: Mapping[str, Any], key: str, text: str) -> str | None:
    """The reason why a dotted key has no property, or its text does not fit; None if it does."""
    first, _, rest = key.partition(".")
    name = property_named(properties, first)
    if name is None:
        hint = closest(first, properties) or "; it has no properties" * (not properties)
        return f"there is no property {first!r}{hint}"
    type_ = properties[name]
    if rest:
        if is_convertible(type_) or not isinstance(type_, type):
            return f"the property {first!r} has no parts, found {rest!r}"
        return _misfit(properties_of(type_), rest, text)
    try:
        from_text(text.strip(), type_)
    except TypeError as error:
        return f"the property {first!r}: {error}"
    except Exception as error:
        return f"the property {first!r}: expected {_word(type_)}, found {text.strip()!r:.80} ({error})"
    return None


def _bare(hint: Any) -> Any:
    """The type that a hint stands for: T for `T | None`."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        others = [argument for argument in typing.get_args(hint) if argument is not type(None)]
        return _bare(others[0]) if len(others) == 1 else str
    if typing.get_origin(hint) is Annotated:
        within, *said = typing.get_args(hint)
        return RubricType(_bare(within)) if _IS_RUBRIC in said else _bare(within)
    return hint


def _word(type_: Any) -> str:
    return str(getattr(type_, "__name__", type_))
