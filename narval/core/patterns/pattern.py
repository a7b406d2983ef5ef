"""Patterns, conditions and bound conditions.

A *pattern* is one expression; a *condition* is patterns that must all hold for the same element; it is
*bound* when its variables have elements, and can then be tested, compared, indexed, stored and explained.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache, reduce
from types import EllipsisType, MappingProxyType
from typing import Any

from lxml import etree

from narval.core.elements.element import CONTROL, DOUBTFUL, Element, Tree
from narval.core.errors import PatternError
from narval.core.patterns.analysis import ShapeSource, term_of
from narval.core.patterns.compiled import compile_shape
from narval.core.patterns.explain import Explainer, PatternParts
from narval.core.patterns.explain import Mismatch as Mismatch
from narval.core.patterns.functions import Doubt, doubts_of
from narval.core.patterns.held import most_nodes
from narval.core.patterns.key import Facts, Key, Prefixes, Variables, conjunction
from narval.core.patterns.syntax import ExpressionError, parse

_DOUBTFUL = etree.QName(DOUBTFUL).localname

Nodes = Mapping[str, list[etree._Element]]
"""The nodes of variables, as lxml takes them."""


class Pattern:
    """One valid XPath expression. Patterns are equal if their text and namespaces are."""

    __slots__ = ("_arguments", "_prefixes", "asks_doubtful", "literals", "shape", "text")

    def __init__(self, text: str, prefixes: Prefixes = ()) -> None:
        """Use `compile_pattern`, which caches patterns."""
        self.text = text
        self._prefixes = prefixes
        self.shape, self.literals = compile_shape(text, prefixes)
        """The expression without its literals: its root names, its language, its limit."""
        self._arguments: dict[str, Any] | None = None
        """The literals by name, once an evaluation has needed them."""
        self.asks_doubtful = any(
            f"{prefix}:{_DOUBTFUL}" in text for prefix, uri in prefixes if uri == CONTROL
        )
        """True if it mentions doubtful elements: no other pattern is tested on them."""

    @property
    def namespaces(self) -> dict[str, str]:
        """The namespaces of the prefixes it uses."""
        return dict(self._prefixes)

    @property
    def variables(self) -> frozenset[str]:
        """The names used as `$name`."""
        return self.shape.variables

    @property
    def doubts(self) -> list[Doubt]:
        """The parts of it that are valid but can never hold."""
        return [] if self.shape.xpath3 else list(doubts_of(self.text))

    @property
    def is_closed(self) -> bool:
        """True if it does not depend on the element it is tested on: it holds for all, or for none."""
        try:
            source = ShapeSource(self.text, self.namespaces, self.shape.xpath3)
            return term_of(source, parse(self.text)) is not None
        except ExpressionError:  # XPath 3.1 only
            return False

    def keys(self, bound: Bound) -> list[Key]:
        """The alternatives, one of which any matching element satisfies; none if no element can match."""
        keys, variables = list[Key](), _Variables(self, bound)
        for clause in self.shape.clauses:
            keys += clause.keys(self.literals, variables)
        return keys

    def outgrown_by(self, tree: Tree, most: int | None) -> bool:
        """True if an element is too large to be tested, or has more nodes than `most`."""
        limits = self.shape.limits
        nodes = limits.nodes if most is None or most > limits.nodes else most
        return nodes < 0 or tree.size > limits.size or tree.has_more_nodes(nodes)

    def matches(self, context: etree._Element, nodes: Nodes) -> bool:
        """True if it holds at a node; False if it cannot be evaluated there."""
        try:
            return self.shape.truth(context, **self.arguments(nodes))
        except Exception:
            # A pattern is tested on any element: a type error of XPath 3.1, or an error within elementpath,
            # is a reason not to match (`explain` shows it) but not to stop.
            return False

    def arguments(self, nodes: Nodes) -> dict[str, Any]:
        """The values of the variables of its shape: literals, and nodes of elements."""
        if self._arguments is None:
            self._arguments = dict(zip(self.shape.slots, self.literals, strict=True))
        if not self.shape.variables:
            return self._arguments
        return self._arguments | {name: nodes.get(name, []) for name in self.shape.variables}

    @property
    def identity(self) -> Hashable:
        """A key shared by equal patterns: text and namespaces; usually only the text."""
        return (self.text, self._prefixes) if self._prefixes else self.text

    def __eq__(self, other: object) -> bool:
        return self.identity == other.identity if isinstance(other, Pattern) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        return f"<Pattern {self.text}>"


def compile_pattern(text: str, namespaces: Mapping[str, str] | None = None) -> Pattern:
    """The pattern for a text, cached; raises PatternError. `al` is the control namespace unless declared."""
    if not namespaces and "al:" not in text:
        return _pattern(text, ())
    prefixes = {"al": CONTROL, **(namespaces or {})}
    used = ((prefix, uri) for prefix, uri in prefixes.items() if prefix and f"{prefix}:" in text)
    return _pattern(text, tuple(sorted(used)))


_pattern = lru_cache(maxsize=1024)(Pattern)


FEW_KEYS = 8
"""The most keys for which testing keys replaces evaluating an expression."""

_NO_ELEMENTS: Mapping[str, Sequence[Element]] = MappingProxyType({})


class Condition:
    """Patterns that must all hold for the same element."""

    __slots__ = ("_bound", "patterns", "variables")

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self.patterns = tuple(patterns)
        self.variables: frozenset[str] = frozenset().union(*(pattern.variables for pattern in self.patterns))
        """The names its patterns use as `$name`."""
        self._bound: Bound | None = None
        """The bound condition, cached if there are no variables."""

    @property
    def names(self) -> frozenset[str] | None:
        """The root names it can match, as lxml writes them; None for any."""
        name_sets = [names for pattern in self.patterns if (names := pattern.shape.names) is not None]
        return frozenset.intersection(*name_sets) if name_sets else None

    @property
    def text(self) -> str:
        """The patterns as one text, for people."""
        return " and ".join(pattern.text for pattern in self.patterns)

    def grows_in(self, names: frozenset[str]) -> bool:
        """True if more elements of these variables never match less: what matches with one of them matches
        with all of them at once.
        """
        return all(names & pattern.variables <= pattern.shape.growing for pattern in self.patterns)

    def bind(self, bindings: Mapping[str, Sequence[Element]] = _NO_ELEMENTS) -> Bound:
        """The condition with its variables bound to these elements; a missing variable has none."""
        if not self.variables:
            if self._bound is None:
                self._bound = Bound(self.patterns)
            return self._bound
        named = tuple((name, tuple(bindings.get(name, ()))) for name in sorted(self.variables))
        return Bound(self.patterns, named)

    def __eq__(self, other: object) -> bool:
        return self.patterns == other.patterns if isinstance(other, Condition) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.patterns)

    def __repr__(self) -> str:
        return f"<Condition {self.text}>"


def named_one_of(names: frozenset[str] | None) -> Bound:
    """The condition that an element has one of these root names, as lxml writes them; None: any name."""
    if names is None:
        return condition("*").bind()
    qnames = [etree.QName(name) for name in sorted(names)]
    spaces = {f"p{at}": name.namespace for at, name in enumerate(qnames) if name.namespace}
    texts = (
        f"p{at}:{name.localname}" if name.namespace else name.localname for at, name in enumerate(qnames)
    )
    return condition(" | ".join(texts) or "*[false()]", namespaces=spaces).bind()


def condition(*texts: str, namespaces: Mapping[str, str] | None = None) -> Condition:
    """The condition that all these patterns hold; raises PatternError."""
    return Condition(compile_pattern(text, namespaces) for text in texts)


class Bound:
    """A condition whose variables have elements. Equal by content, so that the index tests it once."""

    __slots__ = (
        "_decisive",
        "_keys",
        "_names",
        "_nodes",
        "_room",
        "_sufficient",
        "identity",
        "patterns",
        "variables",
    )

    def __init__(
        self, patterns: tuple[Pattern, ...], variables: tuple[tuple[str, tuple[Element, ...]], ...] = ()
    ) -> None:
        """Use `Condition.bind`."""
        self.patterns = patterns
        self.variables = variables
        """The elements of each variable, sorted by name."""
        self.identity: Hashable
        """A key shared by equal conditions; faster in dictionaries than the object itself."""
        if len(patterns) == 1 and not variables:
            self.identity = patterns[0].identity
        else:
            self.identity = (tuple([pattern.identity for pattern in patterns]), variables)
        self._nodes: Nodes | None = None
        self._decisive: list[Key] | EllipsisType | None = ...
        self._keys: list[Key] | EllipsisType | None = None
        self._names: frozenset[str] | EllipsisType | None = ...
        self._sufficient: frozenset[str] | None = None
        self._room: tuple[int | None, ...] | None = None if variables else (None,) * len(patterns)

    @property
    def text(self) -> str:
        """The patterns as one text, for people."""
        return " and ".join(pattern.text for pattern in self.patterns)

    @property
    def asks_doubtful(self) -> bool:
        """True if it mentions doubtful elements: no other condition is tested on them."""
        return any(pattern.asks_doubtful for pattern in self.patterns)

    @property
    def keys(self) -> tuple[Key, ...] | None:
        """The alternatives, one of which any matching element satisfies; None if any element may match."""
        keys = self.alternatives()
        return None if Key(None) in keys else tuple(keys)

    @property
    def names(self) -> frozenset[str] | None:
        """The root names it can match, as lxml writes them; None for any."""
        if self._names is ...:
            tags = [key.tag for key in self.alternatives()]
            self._names = None if None in tags else frozenset(tag for tag in tags if tag is not None)
        return self._names

    def admits(self, name: str) -> bool:
        """True if an element with that name can match, whatever the variables contain."""
        for pattern in self.patterns:
            names = pattern.shape.names
            if names is not None and name not in names:
                return False
        return True

    @property
    def sufficient(self) -> frozenset[str]:
        """The root names that alone decide: every element with such a name matches."""
        if self._sufficient is None:
            keys = self.alternatives() if not self.variables else []
            self._sufficient = frozenset(key.tag for key in keys if key.tag and key.exact and not key.tests)
        return self._sufficient

    def alternatives(self) -> list[Key]:
        """The keys, including those that demand nothing."""
        before = self._keys
        if before is not None and before is not ...:
            return before
        if -1 in self.room:
            return []
        sides = [pattern.keys(self) for pattern in self.patterns] or [[Key(None, (), True)]]
        keys = reduce(conjunction, sides)
        # cached if variables had to be read, or on the second request: of a million most are requested once
        self._keys = keys if self.variables or before is ... else ...
        return keys

    def test(self, tree: Tree) -> bool:
        """True if an element matches. Fast path (`make bench ONLY=W3`): by keys that alone decide."""
        keys = self._decisive
        if keys is ...:
            keys = self._decisive = _deciding(self)
        if keys is not None:
            facts = Facts(tree)
            for key in keys:
                if key.holds(facts):
                    if key.exact:
                        return not self._outgrown_by(tree)
                    break
            else:
                return False
        nodes = self._nodes
        if nodes is None:
            nodes = self._nodes = self.nodes()
        if self._outgrown_by(tree):
            return False
        if len(self.patterns) == 1:
            return self.patterns[0].matches(tree.context, nodes)
        return all(pattern.matches(tree.context, nodes) for pattern in self.patterns)

    def _outgrown_by(self, tree: Tree) -> bool:
        for pattern, most in zip(self.patterns, self._room or self.room, strict=True):
            if pattern.outgrown_by(tree, most):
                return True
        return False

    @property
    def room(self) -> tuple[int | None, ...]:
        """For each pattern, the most nodes that the contents of its variables leave to an element."""
        if self._room is None:
            held = dict(self.variables)
            self._room = tuple(
                [
                    most_nodes(
                        pattern.shape.held, (of for name in pattern.variables for of in held.get(name, ()))
                    )
                    if pattern.shape.held
                    else None
                    for pattern in self.patterns
                ]
            )
        return self._room

    def nodes(self) -> Nodes:
        """The nodes of the variables, parsed."""
        return {name: [Tree(element).root for element in elements] for name, elements in self.variables}

    def attribute(self, variable: str, name: str) -> tuple[str, ...]:
        """The values of an attribute of a variable's elements, of those that have it."""
        elements = dict(self.variables).get(variable, ())
        values = [Tree(element).get(name) for element in elements]
        return tuple([value for value in values if value is not None])

    def explain(self, tree: Tree) -> Mismatch | None:
        """The reason why an element does not match; None if it does."""
        nodes, held = self.nodes(), 0
        for pattern, room in zip(self.patterns, self.room, strict=True):
            if pattern.outgrown_by(tree, room):
                most, size = pattern.shape.limits
                if room is not None and room < most:
                    value = "what its variables hold is too large for this pattern"
                    return Mismatch(pattern.text, value, held)
                value = f"more than {most:,} nodes or {size:,} bytes: too large for this pattern"
                return Mismatch(pattern.text, value, held)
            explainer = Explainer(PatternParts(pattern.text, pattern.namespaces, pattern.shape.xpath3, nodes))
            if not pattern.matches(tree.context, nodes):
                return explainer.mismatch(tree.context).after(held)
            held += explainer.weight
        return None

    def most_satisfied(self) -> int:
        """The most that an element's mismatch can satisfy: no element comes nearer to the condition."""
        most = held = 0
        for pattern in self.patterns:
            explainer = Explainer(PatternParts(pattern.text, pattern.namespaces, pattern.shape.xpath3, {}))
            most = max(most, held + explainer.most)
            held += explainer.weight
        return most

    def plain(self) -> dict[str, Any]:
        """The condition as plain data, for the store: elements by their eid, those not in memory as text."""
        return {
            "texts": [pattern.text for pattern in self.patterns],
            "namespaces": [pattern.namespaces for pattern in self.patterns],
            "variables": {
                name: [element.eid or element.xml.decode() for element in elements]
                for name, elements in self.variables
            },
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], element: Callable[[int], Element | None]) -> Bound:
        """Restore the condition from `plain`; elements forgotten since are left out."""
        named = {
            name: [item for eid in eids if (item := _stored(eid, element)) is not None]
            for name, eids in plain["variables"].items()
        }
        return Condition(map(compile_pattern, plain["texts"], plain["namespaces"])).bind(named)

    def __eq__(self, other: object) -> bool:
        return self.identity == other.identity if isinstance(other, Bound) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        return f"<Bound {self.text}>"


def _deciding(bound: Bound) -> list[Key] | None:
    """The keys of a condition if they are few and worth a test first: they alone decide, or an expression of
    XPath 3.1 takes far longer; else None.
    """
    keys, is_slow = bound.alternatives(), any(pattern.shape.xpath3 for pattern in bound.patterns)
    return keys if len(keys) <= FEW_KEYS and (is_slow or all(key.exact for key in keys)) else None


class _Variables(Variables):
    """The variables of one pattern of a bound condition."""

    def __init__(self, pattern: Pattern, bound: Bound) -> None:
        self.pattern, self.bound = pattern, bound

    def all(self) -> Mapping[str, Any]:
        return self.pattern.arguments(self.bound.nodes())

    def attribute(self, variable: str, name: str) -> tuple[str, ...]:
        return self.bound.attribute(variable, name)


def _stored(value: int | str, element: Callable[[int], Element | None]) -> Element | None:
    return Element(0, value.encode()) if isinstance(value, str) else element(value)


def fits(element: Element, pattern: str, namespaces: Mapping[str, str] | None = None) -> bool:
    """True if an element matches a pattern, as it would in a recipe: for actions that test patterns.

    `namespaces` are the prefixes used by the pattern. Raises PatternError, a NarvalError, for a pattern that
    is invalid or uses a variable.
    """
    compiled = compile_pattern(pattern, namespaces)
    if compiled.variables:
        name = min(compiled.variables)
        raise PatternError(pattern, f"${name} has no value here", pattern.index(f"${name}") + 1)
    return _alone(compiled).test(Tree(element))


@lru_cache(maxsize=1024)
def _alone(pattern: Pattern) -> Bound:
    """The bound condition of one pattern without variables."""
    return Condition((pattern,)).bind()
