"""Budgets: how long a pattern may occupy the loop, whatever the element contains.

The owner writes a pattern, a stranger an element, and the daemon's loop evaluates one on the other. So
whatever takes time announces how much before it starts, and an evaluation that would take longer than the
loop can spare is stopped: the element does not match. Work is counted, not timed, so the result is the same
on any machine.

lxml counts no work. `mail[to = cc]` compares each with each, `//b[count(//b) > 2]` traverses the element once
for each `b`, and `m/b/following-sibling::b` joins what follows each `b`, comparing each node with all found
before: with a million of them that would block the loop for days. So the text of a pattern of XPath 1.0 is
searched for such traversals and joins, whose number limits the nodes of an element: an evaluation then takes
some 50 milliseconds. Most patterns traverse it once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from narval.core.patterns import syntax
from narval.core.patterns.syntax import Expression

MOST_WORK = 30_000
"""The most work of one evaluation, 15 to 50 milliseconds: a unit takes about a microsecond."""


class WorkError(Exception):
    """An evaluation would take longer than the loop can spare."""


class Work:
    """The work of one evaluation: `done` so far, in units of a microsecond."""

    __slots__ = ("done",)

    def __init__(self) -> None:
        self.done = 0

    def add(self, units: int) -> None:
        """Count work that is about to be done; raises WorkError if it is too much."""
        self.done += units
        if self.done > MOST_WORK:
            raise WorkError(f"more work than the {MOST_WORK:,} units that a pattern may take on an element")

    def read(self, characters: int) -> None:
        """Count a text that is about to be read or made."""
        self.add(1 + characters // 1024)


# --- the size of an element -------------------------------------------------------------------------------

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
    joined = joins(tree) if tree is not None else Joins.NODES
    if joined is Joins.NODES:
        nodes = min(nodes, int(JOINED ** (1.0 / (looks + 2))))
    elif joined is Joins.PARENTS:
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


# --- joins ------------------------------------------------------------------------------------------------

# Paths that are slower than they look: a step from many nodes may reach the same node again, so lxml compares
# each result with all before. A single step from one node does not; nor do steps to children and attributes,
# which have one parent.


class Joins(Enum):
    """The nodes that are joined: none, at most one for each, or all that each leads to."""

    NOTHING = 0
    PARENTS = 1
    NODES = 2


NARROW = ("child", "attribute", "self", "namespace")
DOWN = ("descendant", "descendant-or-self")
IN_TEXT = ("contains", "substring-before", "substring-after")


def joins(tree: syntax.Expression) -> Joins:
    """The worst joins of the paths in an expression."""
    return max(_joins_of(tree, top=True), key=lambda kind: kind.value)


def _joins_of(node: syntax.Expression, *, top: bool) -> Iterator[Joins]:
    """The joins of each part of an expression; `top` if its paths start above the element."""
    yield Joins.NOTHING
    if isinstance(node, syntax.Path):
        yield _of_path(node, top)
    if (
        isinstance(node, syntax.BinaryOperation)
        and node.operator == "|"
        and not (top and all(map(_is_one, node.operands)))
    ):
        yield Joins.PARENTS
    inner = (
        [predicate for step in node.steps for predicate in step.predicates]
        if isinstance(node, syntax.Path)
        else []
    )
    if isinstance(node, syntax.Filter):
        inner = list(node.predicates)
    for part in syntax.parts(node):
        yield from _joins_of(part, top=top and part not in inner)


def _of_path(path: syntax.Path, top: bool) -> Joins:
    """The joins of a path. Memory and the element in it are `alone`: the steps to them lead to one node."""
    many = path.base is not None
    worst, alone = Joins.NOTHING, 2 if path.origin == "/" else 1 if top and path.origin is None else 0
    for step in path.steps:
        if step.axis in NARROW:
            if step.axis != "self":
                many, alone = many or alone == 0, max(0, alone - 1)
            continue
        if many and step.axis == "parent":
            worst = max(worst, Joins.PARENTS, key=lambda kind: kind.value)
        elif many:
            worst = Joins.NODES
        many, alone = many or step.axis != "parent", 0
    return worst


def _is_one(node: syntax.Expression) -> bool:
    """True if an expression leads at most to the element itself."""
    return isinstance(node, syntax.Path) and len(node.steps) == 1 and node.steps[0].axis in ("child", "self")


def searches_text_in_text(tree: syntax.Expression) -> bool:
    """True if a text is searched for another that is not literal in the pattern."""
    return any(
        isinstance(node, syntax.FunctionCall)
        and node.name in IN_TEXT
        and not all(isinstance(needle, syntax.Literal | syntax.LiteralSlot) for needle in node.arguments[1:])
        for node in syntax.walk(tree)
    )


def reads_text_of_each(tree: syntax.Expression) -> bool:
    """True if the text in each of many nodes is read, and some of these may be within others."""
    paths = [node for node in syntax.walk(tree) if isinstance(node, syntax.Path)]
    return any(
        step.axis not in NARROW and any(map(_reads_text, later.predicates))
        for path in paths
        for at, step in enumerate(path.steps)
        for later in path.steps[at:]
    )


def _reads_text(node: syntax.Expression) -> bool:
    """True if a part of an expression compares or searches the text of an element."""
    return any(
        any(map(_is_element, syntax.parts(part)))
        or (isinstance(part, syntax.FunctionCall) and not part.arguments)
        for part in syntax.walk(node)
        if isinstance(part, syntax.FunctionCall)
        or (isinstance(part, syntax.BinaryOperation) and part.operator in syntax.COMPARISONS)
    )


def _is_element(node: syntax.Expression) -> bool:
    return isinstance(node, syntax.Path) and not (node.steps and node.steps[-1].axis == "attribute")
