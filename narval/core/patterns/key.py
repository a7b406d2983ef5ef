"""Keys: tests that an element must pass for a condition to hold, without evaluating an expression.

A *field* is the values that a path without predicates gives from an element's root: `@subject` is an
attribute, `header/from` the text of those children, `.` all text. Values are compared like node sets in XPath
1.0: a comparison holds if it holds for one of them.

A shape is analysed once into *clauses*, whose tests compare fields with terms. A condition resolves the terms
with its literals and variables, and has *keys*, whose tests compare fields with values. Both are
alternatives: an element that satisfies none cannot match, and one that satisfies an `exact` alternative does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar
from weakref import WeakValueDictionary

import msgspec
from lxml import etree
from msgspec.structs import replace

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


NAN = float("nan")
MOST_CLAUSES = 128
"""The most alternatives of a shape; beyond that it is analysed more coarsely."""

_NOWHERE = etree.Element("nowhere")

Strings: TypeAlias = tuple[str, ...]
"""The string values of a node set, in document order."""
Value: TypeAlias = str | int | float | bool | Strings


class Variables:
    """The elements of variables, read only if a term needs them. This class has none."""

    def all(self) -> Mapping[str, Any]:
        """The variables as lxml takes them: their elements have to be parsed."""
        return {}

    def attribute(self, variable: str, name: str) -> Strings:
        """The values of an attribute of a variable's elements, of those that have it."""
        return ()


# --- tests ----------------------------------------------------------------------------------------------


OPERATORS: dict[str, Callable[[Sequence[Any], Any], bool]] = {
    "eq": lambda values, operand: operand in values,
    "in": lambda values, operand: not operand.isdisjoint(values),
    "gt": lambda values, operand: bool(values) and max(values) > operand,
    "ge": lambda values, operand: bool(values) and max(values) >= operand,
    "lt": lambda values, operand: bool(values) and min(values) < operand,
    "le": lambda values, operand: bool(values) and min(values) <= operand,
    "differs": lambda values, operand: any(value != operand for value in values),
    "differs-as-number": lambda values, operand: any(number(value) != operand for value in values),
    "has": lambda values, operand: bool(values),
    "contains": lambda values, operand: operand in (values[0] if values else ""),
    "starts-with": lambda values, operand: (values[0] if values else "").startswith(operand),
}
"""The comparisons of the values of a field with an operand."""


class Test(msgspec.Struct, frozen=True):
    """A comparison of a field of the element with a value; `positive` is False under `not()`."""

    field: Field
    operator: str
    operand: Any = None
    positive: bool = True

    def holds(self, facts: Facts) -> bool:
        """True if the test holds for an element."""
        return OPERATORS[self.operator](facts[self.field], self.operand) is self.positive


class Key(msgspec.Struct, frozen=True):
    """One alternative of a condition: the root's name (None: any) and tests that must all hold.

    If it is `exact`, the key alone decides: the expression need not be evaluated.
    """

    tag: str | None
    tests: tuple[Test, ...] = ()
    exact: bool = False

    @property
    def eq(self) -> frozenset[tuple[str, str]]:
        """The attributes whose values must equal these strings."""
        return frozenset(
            (test.field.attribute, test.operand)
            for test in self.tests
            if test.operator == "eq" and test.positive and test.field.attribute is not None
        )

    def holds(self, facts: Facts) -> bool:
        """True if an element has the name and passes the tests."""
        return (self.tag is None or self.tag == facts.tree.name) and hold(self.tests, facts)


def hold(tests: Sequence[Test], facts: Facts) -> bool:
    """True if all tests hold for an element."""
    for test in tests:  # noqa: SIM110 - a generator would cost more than the tests
        if not test.holds(facts):
            return False
    return True


# --- terms ----------------------------------------------------------------------------------------------


class Lifted(msgspec.Struct, frozen=True):
    """A literal lifted out of the pattern, as a term."""

    slot: int

    def value(self, literals: Sequence[Value], variables: Variables) -> Value:
        """The literal."""
        return literals[self.slot]


class Constant(msgspec.Struct, frozen=True):
    """A constant in the shape itself, as a term."""

    constant: Value

    def value(self, literals: Sequence[Value], variables: Variables) -> Value:
        """The constant."""
        return self.constant


class AttributeOf(msgspec.Struct, frozen=True):
    """A term such as `$ask/@message-id`, an attribute of a variable's elements: read without parsing them."""

    variable: str
    attribute: str

    def value(self, literals: Sequence[Value], variables: Variables) -> Value:
        """The values of the attribute."""
        return variables.attribute(self.variable, self.attribute)


class Closed(msgspec.Struct, frozen=True):
    """A term of only literals and variables, such as `count($ask/line)`: evaluated when it is bound."""

    xpath: etree.XPath

    def value(self, literals: Sequence[Value], variables: Variables) -> Value:
        """The result: a value, or the strings of the nodes."""
        result: Value | list[Any] = self.xpath(_NOWHERE, **variables.all())
        if isinstance(result, list):
            return tuple(node if isinstance(node, str) else string_of(node) for node in result)
        return result


OfVariables: TypeAlias = AttributeOf | Closed
Term: TypeAlias = Lifted | Constant | OfVariables


class Template(msgspec.Struct, frozen=True):
    """A test before its term is resolved; without a field it is the same for every element."""

    field: Field | None
    operator: str
    term: Term | None = None
    positive: bool = True

    def resolved(self, literals: Sequence[Any], variables: Variables) -> Test | bool:
        """The test with its operand; True or False if it is the same for every element."""
        field = self.field
        operand: Any = None if self.term is None else self.term.value(literals, variables)
        if field is None:
            return bool(operand) is self.positive
        if isinstance(operand, tuple):
            operand = _operand_of_nodes(self.operator, field.numeric, operand)
        elif field.numeric:
            operand = number(operand) if isinstance(operand, str) else float(operand)
        if operand == frozenset() or (field.numeric and operand != operand):
            return not self.positive  # no value equals none, or NaN, or is beyond it
        return Test(field, self.operator, operand, self.positive)


def _operand_of_nodes(operator: str, numeric: bool, values: Strings) -> Any:
    """The operand for a term of several nodes, one of which must compare."""
    if operator in ("contains", "starts-with"):
        return values[0] if values else ""
    if not numeric:
        return frozenset(values)
    numbers = frozenset(value for value in map(number, values) if value == value)
    if operator == "in":
        return numbers
    extreme = min if operator in ("gt", "ge") else max
    return extreme(numbers, default=NAN)


# --- alternatives ---------------------------------------------------------------------------------------


class Clause(msgspec.Struct, frozen=True):
    """One alternative of a shape: a key before its terms are resolved."""

    tag: str | None
    tests: tuple[Template, ...] = ()
    exact: bool = False

    def keys(self, literals: Sequence[Any], variables: Variables) -> list[Key]:
        """The keys it resolves to: none if it can never hold, several if a term has several values."""
        tests: list[Test] = []
        several = False
        for template in self.tests:
            test = template.resolved(literals, variables)
            if test is False:
                return []
            if test is not True:
                tests.append(test)
                several = several or test.operator == "in"
        if not several:
            return [Key(self.tag, tuple(tests), self.exact)]
        return [Key(self.tag, alternative, self.exact) for alternative in _one_value_each(tests)]


def _one_value_each(tests: list[Test]) -> Iterator[tuple[Test, ...]]:
    """The same tests with the smallest set of values expanded into alternatives, each a hash key; sets of one
    value are expanded too, so that the index may file the condition under the value that the fewest others
    share.
    """
    tests = [_spelled_out(test) for test in tests]
    sets = [test for test in tests if test.operator == "in" and test.positive]
    if not sets:
        yield tuple(tests)
        return
    chosen = min(sets, key=lambda test: len(test.operand))
    others = tuple(test for test in tests if test is not chosen)
    for value in sorted(chosen.operand):
        yield (Test(chosen.field, "eq", value), *others)


def _spelled_out(test: Test) -> Test:
    if test.operator != "in" or len(test.operand) != 1:
        return test
    return Test(test.field, "eq", next(iter(test.operand)), test.positive)


Alternative = TypeVar("Alternative", Clause, Key)


def conjunction(
    left: Sequence[Alternative], right: Sequence[Alternative], most: int = MOST_CLAUSES
) -> list[Alternative]:
    """The alternatives of `left and right`; if they would be more than `most`, those of the narrower side."""
    if len(left) * len(right) > most and min(len(left), len(right)) > 1:
        narrower = max((left, right), key=lambda side: (min(map(_narrowness, side)), -len(side)))
        return inexact(narrower)
    return [joined for a in left for b in right if (joined := _joined(a, b)) is not None]


def inexact(alternatives: Sequence[Alternative]) -> list[Alternative]:
    """The same alternatives as only necessary conditions."""
    return [replace(alternative, exact=False) for alternative in alternatives]


def _narrowness(alternative: Alternative) -> int:
    return len(alternative.tests) + (alternative.tag is not None)


def _joined(a: Alternative, b: Alternative) -> Alternative | None:
    if a.tag is not None and b.tag is not None and a.tag != b.tag:
        return None
    tests: tuple[Any, ...] = (*a.tests, *[test for test in b.tests if test not in a.tests])
    return replace(a, tag=a.tag if b.tag is None else b.tag, tests=tests, exact=a.exact and b.exact)
