"""The most nodes an element may have for a pattern to be tried on it.

A pattern is its owner's, an element a stranger's. `mail[to = cc]` compares each with each, and
`//b[count(//b) > 2]` looks through the element once for each `b`: with a million of them that would keep the
loop for days. So the text of a pattern is searched for looks within looks, whose number limits the nodes of
an element. Most patterns look once, and are tried on any element in memory.
"""

from __future__ import annotations

import re

_LOOKS = {False: 4_000_000, True: 200_000}
"""The nodes looked at in about a second: by lxml, and (True) by elementpath for XPath 3.1."""

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


def most_nodes(text: str, *, xpath3: bool) -> int:
    """The most nodes (elements and attributes) an element may have for this expression."""
    return int(_LOOKS[xpath3] ** (1.0 / degree(text)))


def degree(text: str) -> int:
    """The number of looks through an element that lie within one another; 1 for one that looks once."""
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
    """End a level, and the bodies that end with it."""
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
    """True if a step leads to more than the children."""
    if word == "//" or word == "..":
        return True
    if word == "/":
        return not _ENDS.search(before)
    return after == "::" and _WIDE_AXIS.fullmatch(word) is not None
