"""Contents: the values of an element's part, the links, addresses and accounts in them, and the known values
of `[known]` in etc/trust.toml, from elements that contain nothing from outside.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from html import escape

from lxml import etree
from lxml.etree import _Element

from narval.core.elements.element import Element, Tree, children, parse, text_within
from narval.core.elements.flat_xml import flat_attributes
from narval.core.memory.memory import Memory
from narval.core.patterns.pattern import Bound, Condition, Pattern
from narval.core.trust.origins import Chosen
from narval.core.trust.paths import TEXT, local_part
from narval.core.trust.rules import Holding

_APART = r"\s<>()\[\]{},;\"'"
"""The characters that separate addresses and links from their surroundings."""

_NUMBERS = r"\[[\da-f:.]+\]"
"""A host written as the number of its network address, as links and addresses have it."""

_ADDRESS = (
    rf"(?<![^{_APART}:@])[^{_APART}:@]+@(?:[^{_APART}:@]+\.[^\W\d_]{{2,}}|{_NUMBERS})"
    rf"|\"[^\"\n]*\"@(?:[^{_APART}:@]+\.[^\W\d_]{{2,}}|{_NUMBERS})"
)
_SCHEME = rf"(?<![a-z0-9+.-])(?:[a-z][a-z0-9+.-]*://|www\.)(?:[^{_APART}]+|{_NUMBERS}[^{_APART}]*)"
_HOST = rf"(?<![\w@.-])(?:[\w-]+\.)+[^\W\d_]{{2,24}}(?:[/:?#][^{_APART}]*)?(?![\w@])"
_NUMBERED = rf"(?<![\w.])(?:\d{{1,3}}\.){{3}}\d{{1,3}}(?::\d+(?![\w])|(?=/))(?:/[^{_APART}]*)?"
_OTHER_DOT = re.compile(r"\u3002(?=[a-z0-9-]+(?!\w))", re.I)
"""The full stop of Chinese and Japanese where browsers take it for a dot, before a Latin word; else it ends a
sentence.
"""

_LINK = f"{_SCHEME}|{_HOST}|{_NUMBERED}"
_IBAN = r"(?<!\w)[a-z]{2}\d{2}(?:[ -]?[a-z0-9]{2,4}){3,8}(?!\w)"
_DIGITS = r"(?<![\w.])\+?\d(?:[ ./()-]{0,2}\d){6,}(?!\w)"
_COIN = r"(?<!\w)(?:0x[0-9a-f]{40}|(?:bc1|tb1)[a-z0-9]{20,80}|[13][a-z0-9]{25,34})(?!\w)"
_DAY = re.compile(r"(?<!\d)\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?)?(?!\d)")
"""A date: not an account, although it has as many digits."""

_PATTERNS: dict[Holding, re.Pattern[str]] = {
    "link": re.compile(_LINK, re.IGNORECASE),
    "address": re.compile(_ADDRESS, re.IGNORECASE),
    "account": re.compile(f"{_COIN}|{_IBAN}|{_DIGITS}", re.IGNORECASE),
}
_INVISIBLE = ("Cf", "Mn")
"""The categories of invisible characters, which could split a word that people read as one."""


def values_of(xml: bytes, path: str, others: Iterable[str] = ()) -> Iterator[str]:
    """The values of a part of an element: all texts and attributes in it; for the path "", of the whole
    except for the parts in `others`.
    """
    flat = flat_attributes(xml) if path.startswith("@") else None
    if flat is not None:
        yield from (value for name, value in flat.items() if local_part(name) == path[1:])
    elif path:
        yield from _at(parse(xml), path)
    else:
        yield from _all(_without(xml, others))


def paths_there(xml: bytes, others: Iterable[str] = ()) -> Iterator[str]:
    """The paths of all non-empty attributes and texts of an element, except for those in `others` and the
    number that narval assigns.
    """
    root = _without(xml, others)
    root.attrib.pop("eid", None)
    yield from _said_within(root, "")


def _without(xml: bytes, others: Iterable[str]) -> etree._Element:
    """The root of an element without the parts at the given paths."""
    root = parse(xml)
    for other in others:
        for node, name in _nodes(root, other):
            if name == "text()":
                node.text = None
            elif name:
                node.attrib.pop(name, None)
            elif (above := node.getparent()) is not None:
                above.remove(node)
    return root


def _said_within(node: etree._Element, above: str) -> Iterator[str]:
    yield from (f"{above}@{local_part(name)}" for name, value in node.attrib.items() if value)
    if _own_text(node).strip():
        yield f"{above}{TEXT}"
    for child in children(node):
        yield from _said_within(child, f"{above}{local_part(child.tag)}/")


def _own_text(node: etree._Element) -> str:
    """The text directly in a node, not in a child."""
    return "".join([node.text or "", *(child.tail or "" for child in node)])


def _at(root: etree._Element, path: str) -> Iterator[str]:
    for node, name in _nodes(root, path):
        if name == "text()":
            yield _own_text(node)
        elif name:
            yield str(node.get(name, ""))
        else:
            yield from _all(node)


def _nodes(root: etree._Element, path: str) -> Iterator[tuple[etree._Element, str]]:
    """The nodes at a path, each with its attribute or text at the path, "" for the whole node."""
    *steps, last = path.split("/")
    if not last.startswith("@") and last != "text()":
        steps, last = [*steps, last], ""
    reached = [root]
    for step in steps:
        reached = [
            child for node in reached for child in children(node) if etree.QName(child).localname == step
        ]
    for node in reached:
        if last.startswith("@"):
            names = [str(name) for name in node.attrib if etree.QName(str(name)).localname == last[1:]]
            yield from ((node, name) for name in names)
        else:
            yield node, last


def _all(root: etree._Element) -> Iterator[str]:
    """All values within a node, with its texts as one."""
    yield text_within(root)
    for node in root.iter("*"):
        yield from map(str, node.attrib.values())


def leading_in(text: str, kind: Holding) -> set[str]:
    """The links, addresses or accounts in a text, normalised for comparison: without case, blanks, dashes and
    invisible characters.
    """
    plain = _plain(text)
    if kind == "account":
        plain = _DAY.sub(" ", plain)
    return {_compared(match[0], kind) for match in _PATTERNS[kind].finditer(plain)}


def is_free(value: str, choices: Chosen, *, numbers: bool) -> bool:
    """True for a non-empty value that is not among the words that models chose (`choices`); with `numbers`
    not among its numbers either.
    """
    words = value.strip()
    return bool(words) and words not in choices.words and not (numbers and words in choices.numbers)


@lru_cache(maxsize=64)
def written(xml: bytes, kind: Holding) -> frozenset[str]:
    """The links, addresses or accounts that the author of a definition wrote in it."""
    root = parse(xml)
    texts = [str(node.text or "") + " " + str(node.tail or "") for node in root.iter("*")]
    attributes = [str(value) for node in root.iter("*") for value in node.attrib.values()]
    return frozenset(one for text in (*texts, *attributes) for one in leading_in(text, kind))


def _plain(text: str) -> str:
    normal = _OTHER_DOT.sub(".", unicodedata.normalize("NFKC", text))
    return "".join(one for one in normal if unicodedata.category(one) not in _INVISIBLE)


def _compared(text: str, kind: Holding) -> str:
    if kind == "account":
        return re.sub(r"[\s./()-]", "", text).lower()
    return text.rstrip(".,;:!?)]}'\"").lower()


# --- known values -----------------------------------------------------------------------------------------


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
