"""The most nodes and bytes of an element for which a pattern of XPath 1.0 is evaluated.

The owner writes a pattern, a stranger an element. `mail[to = cc]` compares each with each, `//b[count(//b) >
2]` traverses the element once for each `b`, and `m/b/following-sibling::b` joins what follows each `b`,
comparing each node with all found before: with a million of them that would block the loop for days. lxml
counts no work, so the text of a pattern is searched for such traversals and joins, whose number limits the
nodes of an element: an evaluation then takes some 50 milliseconds. Most patterns traverse it once.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from narval.core.patterns.budget.joins import Joins, joins, reads_text_of_each, searches_text_in_text
from narval.core.patterns.syntax import Expression

LOOKED_ONCE = 200_000
LOOKS = 2_000_000
"""The nodes visited in 50 milliseconds, if each is visited again for others."""
PARENTS = 250_000_000
JOINED = 160_000_000
"""The comparisons of nodes in 50 milliseconds: of joined parents, and of everything else."""
TEXT = 20_000_000
TEXT_OF_EACH = 1_000_000
TEXT_IN_TEXT = 10_000
"""The bytes of an element: read once; once for each node around a text; searched for a text of its own."""

_WORD = re.compile(r""""[^"]*"|'[^']*'|\$?[^\W\d][\w.\-]*|[0-9.]+|::|//|!=|<=|>=|[][(){}@,/|=<>*]""")
_WIDE_AXIS = re.compile(r"(?:descendant|ancestor|following|preceding|parent)(?:-or-self|-sibling)?")
_COMPARISONS = frozenset(("=", "!=", "<", "<=", ">", ">=", "eq", "ne", "lt", "le", "gt", "ge"))
_FIXED = re.compile(r"[\"'$0-9]")
_ENDS = re.compile(r"[\w\])*.\"']$")


class _Level:
    """The text between two brackets: `looks` through the element, and the most of them `within` it."""

    def __init__(self, kind: str) -> None:
        self.kind, self.looks, self.binders, self.within = kind, 0, 0, 0

    @property
    def degree(self) -> int:
        return self.looks + max(0, self.binders - 1) + self.within

    def absorb(self, closed: _Level) -> None:
        if closed.kind == "(":  # as if there were no parentheses
            self.looks = max(self.looks, closed.looks)
            closed.looks = 0
        self.within = max(self.within, closed.degree)


class Limits(NamedTuple):
    """The most nodes (elements and attributes) and the most bytes of an element."""

    nodes: int
    size: int


def limits(text: str, tree: Expression | None) -> Limits:
    """The limits of an element for an XPath 1.0 expression, and its tree, if it could be parsed."""
    looks = degree(text)
    nodes = LOOKED_ONCE if looks == 1 else int(LOOKS ** (1.0 / looks))
    found = joins(tree) if tree is not None else Joins.NODES
    if found is Joins.NODES:
        nodes = min(nodes, int(JOINED ** (1.0 / (looks + 2))))
    elif found is Joins.PARENTS:
        nodes = min(nodes, int(PARENTS ** (1.0 / (looks + 1))))
    if tree is None or searches_text_in_text(tree):
        return Limits(nodes, TEXT_IN_TEXT)
    return Limits(nodes, TEXT_OF_EACH if reads_text_of_each(tree) else TEXT)


def degree(text: str) -> int:
    """The depth of nested traversals of an element; 1 for an expression that traverses it once."""
    levels = [_Level("")]
    words = _WORD.findall(text)
    for before, word, after in zip(["", *words], words, [*words[1:], ""], strict=False):
        level = levels[-1]
        if word in ("[", "("):
            levels.append(_Level(word))
        elif word in ("]", ")"):
            _close(levels, word)
        elif word in ("return", "satisfies") and _ENDS.search(before):
            levels.append(_Level("body"))
        elif word == "in" and before.startswith("$"):
            level.binders += 1
        elif _is_comparison(before, word, after) or (_is_wide(before, word, after) and _is_within(levels)):
            level.looks = 1
    while len(levels) > 1:
        levels[-2].absorb(levels.pop())
    return 1 + levels[0].degree


def _close(levels: list[_Level], word: str) -> None:
    """Close a level, and the bodies that end with it."""
    while len(levels) > 1:
        closed = levels.pop()
        levels[-1].absorb(closed)
        if closed.kind != "body":
            return


def _is_within(levels: list[_Level]) -> bool:
    return any(level.kind in ("[", "body") for level in levels)


def _is_comparison(before: str, word: str, after: str) -> bool:
    """True if two node sets of the element are compared, each node with each."""
    if word not in _COMPARISONS or not _ENDS.search(before):
        return False
    return not (_FIXED.match(before) or _FIXED.match(after))


def _is_wide(before: str, word: str, after: str) -> bool:
    """True if a step leads beyond the children."""
    if word == "//" or word == "..":
        return True
    if word == "/":
        return not _ENDS.search(before)
    return after == "::" and _WIDE_AXIS.fullmatch(word) is not None
