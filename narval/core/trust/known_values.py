"""Known values: those of `[known]` in etc/trust.toml, from elements that contain nothing from outside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from lxml.etree import _Element

from narval.core.elements.element import Element, Tree, text_within
from narval.core.memory.memory import Memory
from narval.core.patterns.pattern import Bound, Condition, Pattern


class KnownValues:
    """The values that expressions select in available elements without labels.

    Every call that a rule judges by them needs them. So the values of an element are cached, since it never
    changes, and all values together until the set of elements changes.
    """

    def __init__(self) -> None:
        self._of_elements: dict[Pattern, dict[int, tuple[str, ...]]] = {}
        self._latest: dict[Pattern, tuple[tuple[int, ...], list[Element]]] = {}
        self._bound: dict[Condition, tuple[Mapping[str, Sequence[Element]], Bound]] = {}

    def clear(self) -> None:
        """Clear the cache: the expressions have changed."""
        self._of_elements.clear()
        self._latest.clear()
        self._bound.clear()

    def bind(self, condition: Condition, values: Mapping[str, Sequence[Element]]) -> Bound:
        """Bind a condition to the values of its variables; the result is cached until the values change."""
        before = self._bound.get(condition)
        if before is None or any(before[0].get(name) is not of for name, of in values.items()):
            before = self._bound[condition] = values, condition.bind(values)
        return before[1]

    def values(self, memory: Memory, pattern: Pattern) -> Sequence[Element]:
        """The distinct values, each as the text of an element."""
        eids = tuple(
            eid
            for eid in memory.named(Condition((pattern,)).names)
            if not memory.labels.of((eid,)) and memory.is_available(eid, None)
        )
        if pattern in self._latest and self._latest[pattern][0] == eids:
            return self._latest[pattern][1]
        before, now = self._of_elements.get(pattern, {}), dict[int, tuple[str, ...]]()
        for eid in eids:
            is_kept = eid in before and not memory.is_run(eid)
            now[eid] = before[eid] if is_kept else _values_in(memory, eid, pattern)
        texts = dict.fromkeys(text for values in now.values() for text in values)
        elements = [Element(0, f"<value>{escape(text, quote=False)}</value>".encode()) for text in texts]
        self._of_elements[pattern] = now
        if not any(map(memory.is_run, eids)):
            self._latest[pattern] = eids, elements
        return elements


def _values_in(memory: Memory, eid: int, pattern: Pattern) -> tuple[str, ...]:
    element = memory.element(eid)
    return () if element is None else values_in(memory.tree(element), pattern)


def values_in(tree: Tree, pattern: Pattern) -> tuple[str, ...]:
    """The values that an expression selects in one element; none if the element is too large to evaluate."""
    return () if pattern.outgrown_by(tree, None) else tuple(_texts(tree.context.xpath(pattern.text)))


def _texts(result: object) -> Iterator[str]:
    """The non-empty texts in the result of an expression."""
    for item in result if isinstance(result, list) else [result]:
        text = item if isinstance(item, str) else text_within(item) if isinstance(item, _Element) else ""
        if text.strip():
            yield text.strip()
