"""XPath 3.1 of elementpath, made to count its work and to use RE2 for regular expressions.

elementpath has no limit of its own: `for $a in 1 to 10000, $b in 1 to 10000 return …` is a short text. So
each token of an expression counts what it evaluates and yields, and the context counts what an axis visits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from elementpath import XPathContext
from elementpath.sequences import xlist
from elementpath.xpath_nodes import AttributeNode, DocumentNode, ElementNode, XPathNode
from lxml import etree

from narval.core.patterns.budget import Work
from narval.core.patterns.regex import Regex, regex

Token: TypeAlias = Any

MOST_NODES = 10_000
"""The most elements and attributes of an element for elementpath: it makes an object for each."""
MOST_BYTES = 2_000_000
"""The most bytes of an element for elementpath."""
_A_NODE = 2
_AS_TEXT = 2_000
"""The characters that are read in the time of a step to the next node."""
_A_TOKEN = 4
_PAIRS = 8
"""The pairs of values compared in a unit of work."""
_SEEN = 4
"""The values with which `distinct-values` compares one in a unit of work."""
_SORTED = 20
_HANDING_ON = """
/ // [ | ( , ! @ if for let some every return satisfies and or not boolean is << >> union intersect
except instance count exists empty name local-name namespace-uri node-name root has-children head
tail reverse subsequence insert-before remove zero-or-one exactly-one one-or-more unordered
"""
_NODES = frozenset(_HANDING_ON.split())
"""Tokens that pass on the nodes they get, or read their names, but no text."""
_OF_THE_ITEM = frozenset(("string", "normalize-space", "string-length", "number", "data"))
"""Functions that read the context item if they have no argument."""
REGEX_FUNCTIONS = ("matches", "tokenize", "replace")
"""Functions whose second argument is a regular expression."""


class MeteredContext(XPathContext):
    """The context of one evaluation, which counts what its axes visit."""

    def __init__(self, context: Any, variables: Mapping[str, Any], work: Work) -> None:
        """Measure the memory node of an element and the variables; raises WorkError if they are too large."""
        self.work = work
        self.sizes: dict[Any, int] = {}
        self._measure(context)
        for value in variables.values():
            for root in value if isinstance(value, list) else ():
                self._measure(root)
        super().__init__(context.getroottree(), item=context, variables=dict(variables))

    def _measure(self, root: etree._Element) -> None:
        """Count the nodes of a tree, and record the length of each element's text."""
        nodes = list(root.iter())
        self.work.add(_A_NODE * (len(nodes) + sum(len(node.attrib) for node in root.iter("*"))))
        for node in reversed(nodes):
            size = _AS_TEXT + len(node.text or "")
            for child in node:
                size += self.sizes[child] + len(child.tail or "")
            self.sizes[node] = size

    def read(self, item: Any) -> None:
        """Count a value whose text will be read: a string, or a node with everything in it."""
        if isinstance(item, ElementNode):
            self.work.read(self.sizes.get(item.value, 0))
        elif isinstance(item, DocumentNode):
            self.work.read(max(self.sizes.values()))
        elif isinstance(item, XPathNode):
            self.work.read(len(item.string_value))
        else:
            self.take(item)

    def take(self, item: Any) -> None:
        """Count a value that is passed on."""
        if isinstance(item, str):
            self.work.read(len(item))
        else:
            self.work.add(1)

    def _pass_children(self, node: Any) -> None:
        if isinstance(node, ElementNode | DocumentNode):
            self.work.add(_A_NODE + len(node.children) // 2)

    def iter_children_or_self(self) -> Iterator[Any]:
        self._pass_children(self.item)
        return super().iter_children_or_self()

    def iter_matching_nodes(self, name: str, default_namespace: str | None = None) -> Iterator[Any]:
        self._pass_children(self.item)
        return super().iter_matching_nodes(name, default_namespace)

    def iter_attributes(self) -> Iterator[AttributeNode]:
        if isinstance(self.item, ElementNode):
            self.work.add(_A_NODE + len(self.item.attributes))
        return super().iter_attributes()

    def iter_siblings(self, axis: str | None = None) -> Iterator[Any]:
        if isinstance(self.item, XPathNode):
            self._pass_children(self.item.parent)
        return super().iter_siblings(axis)

    def iter_descendants(self, axis: str | None = None) -> Iterator[Any]:
        return self._counted(super().iter_descendants(axis))

    def iter_ancestors(self, axis: str | None = None) -> Iterator[Any]:
        return self._counted(super().iter_ancestors(axis))

    def iter_preceding(self) -> Iterator[Any]:
        self.work.add(len(self.sizes) // 2)
        return super().iter_preceding()

    def iter_followings(self) -> Iterator[Any]:
        self.work.add(len(self.sizes) // 2)
        return super().iter_followings()

    def _counted(self, nodes: Iterator[Any]) -> Iterator[Any]:
        for node in nodes:
            self.work.add(_A_NODE)
            yield node


def regex_of(call: Token) -> Regex:
    """The regular expression of a call, from its second argument and its flags; raises ExpressionError."""
    flags = str(call[-1].value) if len(call) > (3 if call.symbol == "replace" else 2) else ""
    return regex(str(call[1].value), flags)


def meter(root: Token, while_read: Work) -> None:
    """Make each token of an expression count its work; without a context it counts as `while_read`."""
    tokens = list(root.iter())
    as_text = {id(child) for token in tokens if not _hands_on(token) for child in token}
    for token in tokens:
        if token.symbol in REGEX_FUNCTIONS and len(token) > 1:
            token.evaluate = _by_regex(token)
            token.select = _selected(token.evaluate)
        _meter_token(token, id(token) in as_text, while_read)
    for token in tokens:
        if token.symbol == "distinct-values" and len(token):
            token[0].select = _slower(token[0].select, lambda before: before // _SEEN)
        elif token.symbol == "sort" and len(token):
            token[0].select = _slower(token[0].select, lambda before: _SORTED)


def _hands_on(token: Token) -> bool:
    """True if a token reads no text of the nodes it gets."""
    return token.label == "axis" or token.symbol in _NODES


def _meter_token(token: Token, as_text: bool, while_read: Work) -> None:
    """Replace the evaluation of one token by one that counts; `as_text` if its nodes are read."""
    evaluate, select, pairs = token.evaluate, token.select, token.iter_comparison_data
    reads_item = token.symbol in _OF_THE_ITEM and not len(token)

    def counted_evaluate(context: Any = None) -> Any:
        if context is None:
            while_read.add(_A_TOKEN)
            return evaluate(context)
        context.work.add(_A_TOKEN)
        if reads_item:
            context.read(context.item)
        result = evaluate(context)
        count = context.read if as_text else context.take
        for item in result if isinstance(result, list) else (result,):
            count(item)
        return result

    def counted_select(context: Any = None) -> Iterator[Any]:
        if context is None:
            while_read.add(_A_TOKEN)
            for item in select(context):
                while_read.add(1)
                yield item
            return
        context.work.add(_A_TOKEN)
        count = context.read if as_text else context.take
        for item in select(context):
            count(item)
            yield item

    def counted_pairs(context: Any = None) -> Iterator[Any]:
        work = while_read if context is None else context.work
        for number, pair in enumerate(pairs(context)):
            if number % _PAIRS == 0:
                work.add(_PAIRS)
            yield pair

    token.evaluate, token.select, token.iter_comparison_data = counted_evaluate, counted_select, counted_pairs


def _slower(select: Callable[..., Iterator[Any]], cost: Callable[[int], int]) -> Callable[..., Iterator[Any]]:
    """Yield values, each of which costs work that grows with the number of values before it."""

    def counted(context: Any = None) -> Iterator[Any]:
        for before, item in enumerate(select(context)):
            if context is not None:
                context.work.add(cost(before))
            yield item

    return counted


# --- functions with a regular expression ------------------------------------------------------------------


def _by_regex(call: Token) -> Callable[..., Any]:
    """The evaluation of a function with a regular expression."""
    regex = regex_of(call)
    literal = len(call) > 3 and "q" in str(call[3].value)

    def evaluate(context: Any = None) -> Any:
        text = call.get_argument(context, default="", cls=str)
        work = Work() if context is None else context.work
        if call.symbol == "matches":
            return regex.matches(text, work)
        if call.symbol == "tokenize":
            return xlist(regex.tokens(text, work))
        return regex.replaced(text, regex.replacement(str(call[2].value), literal=literal), work)

    return evaluate


def _selected(evaluate: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    def select(context: Any = None) -> Iterator[Any]:
        result = evaluate(context)
        yield from result if isinstance(result, list) else (result,)

    return select
