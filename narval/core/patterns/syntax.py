"""The syntax of an XPath 1.0 expression: its tokens, the literals that can be lifted out of it, and its tree;
every node knows its offsets in the text.

Fast path, measured by `make bench ONLY=W3`: lifting replaces each string and number by a variable, so that
ten thousand conditions that differ only in a subject share one *shape*, one syntax tree and one compiled
expression. It runs for every registered pattern, so it is a single regular expression; a number that might be
part of a name stays in place.

lxml has accepted the text (or left it to XPath 3.1), so the parser need not refuse every invalid text: it
must never misread a valid one. XPath 3.1 text that fits the same grammar is parsed too, since its structure
then means the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal as Word
from typing import TypeAlias

import msgspec

from narval.core.patterns.xpath1 import EXACT_DIGITS, number
from narval.core.source.tokens import END, Token, TokenCursor, scan

_NAME_CHAR = r"[^\x00-,/:-@\[-^`{-\x7f]"
"""A character of a name: in ASCII, letters, digits and three signs; lxml checks the rest."""
_NAME = rf"(?![0-9.\-]){_NAME_CHAR}+"

_TOKEN = re.compile(
    rf"""(?P<blank>[ \t\r\n]+)
    |(?P<string>"[^"]*"|'[^']*')
    |(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    |\$(?P<variable>{_NAME}(?::{_NAME})?)
    |(?P<name>{_NAME}(?::(?!:)(?:{_NAME}|\*))?)
    |(?P<mark>::|//|\.\.|!=|<=|>=|[()\[\].@,/|+\-=<>*])
    |(?P<junk>.)""",
    re.VERBOSE | re.DOTALL,
)
_LITERAL = re.compile(rf"""("[^"]*"|'[^']*'|(?<=[ \t\r\n(\[,=<>+*])[0-9]+(?:\.[0-9]+)?(?!:|{_NAME_CHAR}))""")
_STRING = re.compile(r""""[^"]*"|'[^']*'""")

MOST_DEPTH = 48
"""The deepest nesting of brackets and parentheses, so that walkers of a syntax tree may be recursive."""


class ExpressionError(Exception):
    """An expression cannot be parsed at `offset`, from 0."""

    def __init__(self, message: str, offset: int) -> None:
        self.message, self.offset = message, offset
        super().__init__(message)


def tokens(text: str) -> list[Token]:
    """The tokens of an expression, ending with END; raises ExpressionError."""
    matches = list(scan(_TOKEN, text))
    for token in matches:
        if token.kind == "junk":
            is_quote = token.text in "\"'"
            message = "a string that is not closed" if is_quote else f"unexpected {token.text!r}"
            raise ExpressionError(message, token.at)
    return matches


def lift(text: str) -> tuple[str, tuple[str | int | float, ...]]:
    """The shape of an expression, and the literals of its variables (`_s0`, `_i1`, `_d2`…).

    The letter stands for string, integer or decimal. An expression that uses such names itself is its own
    shape, and so is one in which a quote may not start a literal: in a comment, in
    `processing-instruction('x')`.
    """
    parts = _LITERAL.split(text)
    if len(parts) == 1 or "$_" in text or "(:" in text or "processing-instruction" in text:
        return text, ()
    literals: list[str | int | float] = []
    for position in range(1, len(parts), 2):
        written = parts[position]
        value: str | int | float
        if written[0] in "\"'":
            kind, value = "s", written[1:-1]
        elif len(written) > EXACT_DIGITS:
            continue
        elif "." in written:
            kind, value = "d", number(written)
        else:
            kind, value = "i", int(written)
        parts[position] = f" $_{kind}{len(literals)} "
        literals.append(value)
    return "".join(parts), tuple(literals)


def check_depth(text: str) -> None:
    """Raise ExpressionError if brackets nest deeper than any expression needs."""
    depth, blank = 0, _STRING.sub(lambda match: " " * len(match[0]), text)
    for match in re.finditer(r"[\[({\])}]", blank):
        depth += 1 if match[0] in "[({" else -1
        if depth > MOST_DEPTH:
            raise ExpressionError(f"brackets nested deeper than {MOST_DEPTH}", match.start())


# --- the tree ---------------------------------------------------------------------------------------------


class _Node(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the text: the offsets from `start` to `end`."""

    start: int
    end: int


class Literal(_Node, frozen=True):
    """A string or a number."""

    value: str | float


class LiteralSlot(_Node, frozen=True):
    """A literal that was lifted out: its index and its type."""

    index: int
    kind: Word["string", "number"]


class Variable(_Node, frozen=True):
    """`$name`."""

    name: str


class FunctionCall(_Node, frozen=True):
    """A function call."""

    name: str
    arguments: tuple[Expression, ...]


class BinaryOperation(_Node, frozen=True):
    """An operator between two operands; `and`, `or` and `|` take all consecutive operands."""

    operator: str
    operands: tuple[Expression, ...]


class Negation(_Node, frozen=True):
    """Unary minus."""

    operand: Expression


class PathStep(_Node, frozen=True):
    """One step of a path: `axis::test[predicate]…`."""

    axis: str
    test: str
    predicates: tuple[Expression, ...]


class Path(_Node, frozen=True):
    """Steps from an `origin`: None is the context node, "/" the root, else an expression."""

    origin: Expression | str | None
    steps: tuple[PathStep, ...]

    @property
    def base(self) -> Expression | None:
        """The expression that it goes on from; None if it starts at the context node or the root."""
        return None if isinstance(self.origin, str) else self.origin


class Filter(_Node, frozen=True):
    """An expression with predicates: `(email | note)[1]`; without predicates it is just parentheses."""

    primary: Expression
    predicates: tuple[Expression, ...]


Expression: TypeAlias = (
    Literal | LiteralSlot | Variable | FunctionCall | BinaryOperation | Negation | Path | Filter
)

FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The comparisons, each with the one that says the same with its sides exchanged."""

COMPARISONS = frozenset(FLIPPED)
_LEVELS = ("or", "and", "= !=", "< <= > >=", "+ -", "* div mod", "", "|")
"""The operators from loosest to tightest; the empty level is that of unary minus."""
_TIGHTNESS = {operator: level for level, operators in enumerate(_LEVELS, 1) for operator in operators.split()}
VALUE_COMPARISONS = {"eq": "=", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
"""The comparisons that only XPath 3.1 has, each with the general one that holds wherever it does."""
_TIGHTNESS_OF_31 = _TIGHTNESS | dict.fromkeys(VALUE_COMPARISONS, _TIGHTNESS["<"])
_OF_UNARY_MINUS = 7
_MANY = ("and", "or", "|")
_NODE_TYPES = ("node", "text", "comment", "processing-instruction")
_LONGEST_CHAIN = 64
"""The most operators of one level in a row; more would nest the tree too deep to walk."""


def parse(text: str, *, lifted: bool = False, with_31: bool = False) -> Expression:
    """The syntax tree of an expression; raises ExpressionError. Brackets must have passed `check_depth`.

    If `lifted`, the text is a shape, whose variables named `_s0`, `_i1`… are slots. If `with_31`, it may have
    the comparisons of XPath 3.1.
    """
    reader = _SyntaxReader(text, lifted, _TIGHTNESS_OF_31 if with_31 else _TIGHTNESS)
    expression = reader.expression()
    if reader.tokens.next.kind != END:
        raise reader.tokens.unexpected("an operator or the end")
    return expression


class _SyntaxReader:
    """A recursive-descent parser over the tokens, with a method for each grammar rule it needs."""

    def __init__(self, text: str, lifted: bool, tightness: Mapping[str, int]) -> None:
        self.tokens = TokenCursor(tokens(text), ExpressionError)
        self.lifted, self.tightness_of = lifted, tightness

    # --- operators ------------------------------------------------------------------------------------

    def expression(self, tightness: int = 1) -> Expression:
        start, left, chain = self.tokens.next.at, self.unary(), 0
        while (operator := self.operator()) and self.tightness_of[operator] >= tightness:
            operands = [left, self.operand(operator)]
            while operator in _MANY and self.operator() == operator:
                operands.append(self.operand(operator))
            left = BinaryOperation(operator, tuple(operands), start=start, end=self.tokens.last.end)
            chain += 1
            if chain > _LONGEST_CHAIN:
                raise ExpressionError("too many operators in a row", self.tokens.next.at)
        return left

    def operand(self, operator: str) -> Expression:
        self.tokens.advance()
        return self.expression(self.tightness_of[operator] + 1)

    def operator(self) -> str | None:
        token = self.tokens.next
        return token.text if token.text in self.tightness_of and token.kind != "variable" else None

    def unary(self) -> Expression:
        start, signs = self.tokens.next.at, 0
        while self.tokens.accept("-"):
            signs += 1
        if not signs:
            return self.path()
        negated: Expression = self.expression(_OF_UNARY_MINUS + 1)
        for _ in range(2 - signs % 2):
            negated = Negation(negated, start=start, end=self.tokens.last.end)
        return negated

    # --- paths ----------------------------------------------------------------------------------------

    def path(self) -> Expression:
        start = self.tokens.next.at
        if self.tokens.accept("/"):
            steps = self.steps() if self.starts_step() else ()
            return Path("/", steps, start=start, end=self.tokens.last.end)
        if self.tokens.next.kind == "//":
            return Path("/", self.further_steps(), start=start, end=self.tokens.last.end)
        if not self.starts_filter():
            return Path(None, self.steps(), start=start, end=self.tokens.last.end)
        primary = self.primary()
        predicates = self.predicates()
        if predicates:
            primary = Filter(primary, predicates, start=start, end=self.tokens.last.end)
        if self.tokens.next.kind in ("/", "//"):
            return Path(primary, self.further_steps(), start=start, end=self.tokens.last.end)
        return primary

    def steps(self) -> tuple[PathStep, ...]:
        return (self.step(), *self.further_steps())

    def further_steps(self) -> tuple[PathStep, ...]:
        steps: list[PathStep] = []
        while self.tokens.next.kind in ("/", "//"):
            slash = self.tokens.advance()
            if slash.text == "//":
                steps.append(PathStep("descendant-or-self", "node()", (), start=slash.at, end=slash.end))
            steps.append(self.step())
        return tuple(steps)

    def starts_step(self) -> bool:
        return self.tokens.next.kind in ("name", ".", "..", "@", "*")

    def starts_filter(self) -> bool:
        token = self.tokens.next
        if token.kind == "name":
            return self.tokens.ahead().kind == "(" and token.text not in _NODE_TYPES
        return token.kind in ("variable", "string", "number", "(")

    def step(self) -> PathStep:
        start = self.tokens.next.at
        if self.tokens.accept("."):
            return PathStep("self", "node()", self.predicates(), start=start, end=self.tokens.last.end)
        if self.tokens.accept(".."):
            return PathStep("parent", "node()", self.predicates(), start=start, end=self.tokens.last.end)
        axis = "child"
        if self.tokens.accept("@"):
            axis = "attribute"
        elif self.tokens.next.kind == "name" and self.tokens.ahead().kind == "::":
            axis = self.tokens.advance().text
            self.tokens.advance()
        test = self.node_test()
        return PathStep(axis, test, self.predicates(), start=start, end=self.tokens.last.end)

    def node_test(self) -> str:
        if self.tokens.accept("*"):
            return "*"
        if self.tokens.next.kind != "name":
            raise self.tokens.unexpected("an expression")
        name = self.tokens.advance().text
        if self.tokens.next.kind != "(":
            return name
        if name not in _NODE_TYPES:
            raise self.tokens.unexpected("a step")
        self.tokens.advance()
        inside = self.tokens.advance().text if self.tokens.next.kind == "string" else ""
        self.tokens.expect("')'", ")")
        return f"{name}({inside})"

    def predicates(self) -> tuple[Expression, ...]:
        predicates: list[Expression] = []
        while self.tokens.accept("["):
            predicates.append(self.expression())
            self.tokens.expect("']'", "]")
        return tuple(predicates)

    # --- primaries ------------------------------------------------------------------------------------

    def primary(self) -> Expression:
        token = self.tokens.advance()
        if token.kind == "variable" and self.lifted and token.text.startswith("_"):
            kind: Word["string", "number"] = "string" if token.text[1] == "s" else "number"
            return LiteralSlot(int(token.text[2:]), kind, start=token.at, end=token.end)
        if token.kind == "variable":
            return Variable(token.text, start=token.at, end=token.end)
        if token.kind == "string":
            return Literal(token.text[1:-1], start=token.at, end=token.end)
        if token.kind == "number":
            return Literal(number(token.text), start=token.at, end=token.end)
        if token.kind == "(":
            inner = self.expression()
            self.tokens.expect("')'", ")")
            return Filter(inner, (), start=token.at, end=self.tokens.last.end)
        return self.call(token)

    def call(self, name: Token) -> FunctionCall:
        self.tokens.advance()
        arguments: list[Expression] = []
        if self.tokens.next.kind != ")":
            arguments.append(self.expression())
            while self.tokens.accept(","):
                arguments.append(self.expression())
        self.tokens.expect("')'", ")")
        return FunctionCall(name.text, tuple(arguments), start=name.at, end=self.tokens.last.end)


def parts(node: Expression) -> Iterator[Expression]:
    """The expressions directly within an expression, in source order."""
    match node:
        case FunctionCall(arguments=arguments):
            yield from arguments
        case BinaryOperation(operands=operands):
            yield from operands
        case Negation(operand=operand):
            yield operand
        case Filter(primary=primary, predicates=predicates):
            yield primary
            yield from predicates
        case Path(base=base, steps=steps):
            if base is not None:
                yield base
            for step in steps:
                yield from step.predicates


def walk(node: Expression) -> Iterator[Expression]:
    """An expression and everything within it, in source order."""
    yield node
    for part in parts(node):
        yield from walk(part)


def variables(node: Expression) -> frozenset[str]:
    """The names of the variables that an expression uses."""
    return frozenset(part.name for part in walk(node) if isinstance(part, Variable))
