"""The syntax tree of an XPath 1.0 expression; every node knows where in the text it stands.

lxml has already said that the text is an expression (or that only XPath 3.1 may read it), so this parser need
not refuse all that is wrong: it must never misread what is right. XPath 3.1 text that happens to fit the same
grammar is read too, since its structure then means the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal as Word
from typing import TypeAlias

import msgspec

from narval.memory.patterns.lexer import ExpressionError, XPathToken, tokens
from narval.memory.patterns.number import number


class Literal(msgspec.Struct, frozen=True):
    """A string or a number."""

    value: str | float
    start: int
    end: int


class LiteralSlot(msgspec.Struct, frozen=True):
    """A literal that was lifted out: which, and whether it is a string or a number."""

    index: int
    kind: Word["string", "number"]
    start: int
    end: int


class Variable(msgspec.Struct, frozen=True):
    """`$name`."""

    name: str
    start: int
    end: int


class FunctionCall(msgspec.Struct, frozen=True):
    """A function call."""

    name: str
    arguments: tuple[Expression, ...]
    start: int
    end: int


class BinaryOperation(msgspec.Struct, frozen=True):
    """An operator between two operands; `and`, `or` and `|` take as many as are written."""

    operator: str
    operands: tuple[Expression, ...]
    start: int
    end: int


class Negation(msgspec.Struct, frozen=True):
    """Unary minus."""

    operand: Expression
    start: int
    end: int


class PathStep(msgspec.Struct, frozen=True):
    """One step of a path: `axis::test[predicate]…`."""

    axis: str
    test: str
    predicates: tuple[Expression, ...]
    start: int
    end: int


class Path(msgspec.Struct, frozen=True):
    """Steps from an `origin`: None is the context node, "/" the root, else an expression."""

    origin: Expression | str | None
    steps: tuple[PathStep, ...]
    start: int
    end: int


class Filter(msgspec.Struct, frozen=True):
    """An expression with predicates: `(email | note)[1]`; without any it is a pair of parentheses."""

    primary: Expression
    predicates: tuple[Expression, ...]
    start: int
    end: int


Expression: TypeAlias = (
    Literal | LiteralSlot | Variable | FunctionCall | BinaryOperation | Negation | Path | Filter
)

COMPARISONS = frozenset(("=", "!=", "<", "<=", ">", ">="))
_TIGHTNESS = {"or": 1, "and": 2, "=": 3, "!=": 3, "<": 4, "<=": 4, ">": 4, ">=": 4} | {
    "+": 5,
    "-": 5,
    "*": 6,
    "div": 6,
    "mod": 6,
    "|": 8,
}
_OF_UNARY_MINUS = 7
_MANY = ("and", "or", "|")
_NODE_TYPES = ("node", "text", "comment", "processing-instruction")
_LONGEST_CHAIN = 64
"""So many operators of one kind in a row are read; more would nest the tree too deep to walk."""


def parse(text: str, *, lifted: bool = False) -> Expression:
    """The syntax tree of an expression; raises ExpressionError. Brackets must have passed `check_depth`.

    `lifted` says that the text is a shape, whose variables named `_s0`, `_i1`… are slots.
    """
    reader = _SyntaxReader(text, lifted)
    expression = reader.expression()
    if reader.now.kind != "end":
        raise reader.fault("an operator or the end")
    return expression


class _SyntaxReader:
    """A recursive descent over the tokens."""

    def __init__(self, text: str, lifted: bool) -> None:
        self.tokens = list(tokens(text))
        self.lifted = lifted
        self.at = 0
        self.now = self.tokens[0]

    def advance(self) -> XPathToken:
        token = self.now
        self.at += 1
        self.now = self.tokens[self.at] if self.at < len(self.tokens) else token
        return token

    def accept(self, symbol: str) -> bool:
        if self.now.kind == "symbol" and self.now.text == symbol:
            self.advance()
            return True
        return False

    def expect(self, symbol: str) -> None:
        if not self.accept(symbol):
            raise self.fault(repr(symbol))

    def is_at(self, *symbols: str) -> bool:
        return self.now.kind == "symbol" and self.now.text in symbols

    def is_before(self, symbol: str) -> bool:
        """Whether the token after this one is that symbol."""
        token = self.tokens[min(self.at + 1, len(self.tokens) - 1)]
        return token.kind == "symbol" and token.text == symbol

    @property
    def last(self) -> int:
        """Where the token just taken ends."""
        return self.tokens[self.at - 1].end

    def fault(self, expected: str) -> ExpressionError:
        found = "the end" if self.now.kind == "end" else repr(self.now.text)
        return ExpressionError(f"expected {expected}, found {found}", self.now.start)

    # --- operators ------------------------------------------------------------------------------------

    def expression(self, tightness: int = 1) -> Expression:
        start, left, chain = self.now.start, self.unary(), 0
        while (operator := self.operator()) and _TIGHTNESS[operator] >= tightness:
            operands = [left, self.operand(operator)]
            while operator in _MANY and self.operator() == operator:
                operands.append(self.operand(operator))
            left = BinaryOperation(operator, tuple(operands), start, self.last)
            chain += 1
            if chain > _LONGEST_CHAIN:
                raise ExpressionError("too many operators in a row", self.now.start)
        return left

    def operand(self, operator: str) -> Expression:
        self.advance()
        return self.expression(_TIGHTNESS[operator] + 1)

    def operator(self) -> str | None:
        if self.now.kind in ("symbol", "name") and self.now.text in _TIGHTNESS:
            return self.now.text
        return None

    def unary(self) -> Expression:
        start, signs = self.now.start, 0
        while self.accept("-"):
            signs += 1
        if not signs:
            return self.path()
        negated: Expression = self.expression(_OF_UNARY_MINUS + 1)
        for _ in range(2 - signs % 2):
            negated = Negation(negated, start, self.last)
        return negated

    # --- paths ----------------------------------------------------------------------------------------

    def path(self) -> Expression:
        start = self.now.start
        if self.is_at("/", "//"):
            return self.absolute(start)
        if not self.starts_filter():
            return Path(None, self.steps(), start, self.last)
        primary = self.primary()
        predicates = self.predicates()
        if predicates:
            primary = Filter(primary, predicates, start, self.last)
        if self.is_at("/", "//"):
            return Path(primary, self.further_steps(), start, self.last)
        return primary

    def absolute(self, start: int) -> Path:
        if self.is_at("/"):
            self.advance()
            steps = self.steps() if self.starts_step() else ()
            return Path("/", steps, start, self.last)
        return Path("/", self.further_steps(), start, self.last)

    def steps(self) -> tuple[PathStep, ...]:
        return (self.step(), *self.further_steps())

    def further_steps(self) -> tuple[PathStep, ...]:
        steps: list[PathStep] = []
        while self.is_at("/", "//"):
            slash = self.advance()
            if slash.text == "//":
                steps.append(PathStep("descendant-or-self", "node()", (), slash.start, slash.end))
            steps.append(self.step())
        return tuple(steps)

    def starts_step(self) -> bool:
        return self.now.kind == "name" or self.is_at(".", "..", "@", "*")

    def starts_filter(self) -> bool:
        if self.now.kind in ("variable", "string", "number") or self.is_at("("):
            return True
        return self.now.kind == "name" and self.is_before("(") and self.now.text not in _NODE_TYPES

    def step(self) -> PathStep:
        start = self.now.start
        if self.accept("."):
            return PathStep("self", "node()", self.predicates(), start, self.last)
        if self.accept(".."):
            return PathStep("parent", "node()", self.predicates(), start, self.last)
        axis = "child"
        if self.accept("@"):
            axis = "attribute"
        elif self.now.kind == "name" and self.is_before("::"):
            axis = self.advance().text
            self.advance()
        test = self.node_test()
        return PathStep(axis, test, self.predicates(), start, self.last)

    def node_test(self) -> str:
        if self.accept("*"):
            return "*"
        if self.now.kind != "name":
            raise self.fault("an expression")
        name = self.advance().text
        if not self.is_at("("):
            return name
        if name not in _NODE_TYPES:
            raise self.fault("a step")
        self.advance()
        inside = self.advance().text if self.now.kind == "string" else ""
        self.expect(")")
        return f"{name}({inside})"

    def predicates(self) -> tuple[Expression, ...]:
        predicates: list[Expression] = []
        while self.accept("["):
            predicates.append(self.expression())
            self.expect("]")
        return tuple(predicates)

    # --- primaries ------------------------------------------------------------------------------------

    def primary(self) -> Expression:
        token = self.advance()
        if token.kind == "variable" and self.lifted and token.text.startswith("_"):
            kind: Word["string", "number"] = "string" if token.text[1] == "s" else "number"
            return LiteralSlot(int(token.text[2:]), kind, token.start, token.end)
        if token.kind == "variable":
            return Variable(token.text, token.start, token.end)
        if token.kind == "string":
            return Literal(token.text[1:-1], token.start, token.end)
        if token.kind == "number":
            return Literal(number(token.text), token.start, token.end)
        if token.kind == "symbol":
            inner = self.expression()
            self.expect(")")
            return Filter(inner, (), token.start, self.last)
        return self.call(token)

    def call(self, name: XPathToken) -> FunctionCall:
        self.advance()
        arguments: list[Expression] = []
        if not self.is_at(")"):
            arguments.append(self.expression())
            while self.accept(","):
                arguments.append(self.expression())
        self.expect(")")
        return FunctionCall(name.text, tuple(arguments), name.start, self.last)


def parts(node: Expression) -> Iterator[Expression]:
    """The expressions directly within an expression, in the order they are written."""
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
        case Path(origin=origin, steps=steps):
            if origin is not None and not isinstance(origin, str):
                yield origin
            for step in steps:
                yield from step.predicates


def variables(node: Expression) -> frozenset[str]:
    """The names of the variables an expression uses."""
    if isinstance(node, Variable):
        return frozenset([node.name])
    return frozenset().union(*map(variables, parts(node)))
