"""Conditions, columns, formats and inline tuples: the small languages in the texts of a dataflow.

select_cond = attr cmp constant { "AND" attr cmp constant }
join_cond   = left_attr cmp right_attr { "AND" … }
columns     = attr { ( "AND" | "," ) attr }
folds       = func "(" ( attr | "*" ) ")" [ "as" attr ] { "," … }
formats     = text with %attr%, or with %s; %% is a percent sign
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from narval.core.source.tokens import END, Token, TokenCursor, scan
from narval.kinds.dataflow.language.rules import TextError, rules_of

Compares = Literal["=", "<>", "<", "<=", ">", ">="]
"""The comparisons; `!=` is read as `<>`."""

Value = str | int | float | bool | None
"""A value of a tuple; None is no value."""


class AttributeTest(msgspec.Struct, frozen=True):
    """A comparison of an attribute with a constant."""

    attribute: str
    compares: Compares
    constant: str | int | float


class JoinTest(msgspec.Struct, frozen=True):
    """A comparison of an attribute of the left side with one of the right."""

    left: str
    compares: Compares
    right: str


class ColumnFold(msgspec.Struct, frozen=True):
    """An aggregate of a column, and the name of its value: `min(price) as cheapest`."""

    func: str
    column: str
    name: str


class TextFormat(msgspec.Struct, frozen=True):
    """A format: its texts, and between every two of them the value of an attribute, or of a datum ("").

    With `any_case` an attribute may be written in another case, if that is unambiguous (TA10).
    """

    texts: tuple[str, ...]
    attributes: tuple[str, ...] = ()
    any_case: bool = False


class InlineTuples(msgspec.Struct, frozen=True):
    """Tuples in a dataflow's text; all have these attributes, in this order."""

    attributes: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]


def parse_text(language: str, text: str, *, any_case: bool = False) -> Any:
    """Parse a text in a language of `operators.Text`; the text may come from a run. Raises TextError."""
    if language == "tuple-format" and any_case:
        return _alias_format(text)
    return _PARSERS[language](text)


def placed(attributes: Sequence[str], name: str, *, any_case: bool = False) -> int | None:
    """The index of an attribute among those of a tuple, or None."""
    if name in attributes:
        return attributes.index(name)
    if any_case:
        same = [at for at, attribute in enumerate(attributes) if attribute.lower() == name.lower()]
        return same[0] if len(same) == 1 else None
    return None


def joined(left: Sequence[str], right: Sequence[str], tests: Sequence[JoinTest]) -> tuple[str, ...]:
    """The attributes of a join: those of the left side, then those of `from_right`."""
    return (*left, *from_right(left, right, tests))


def from_right(left: Sequence[str], right: Sequence[str], tests: Sequence[JoinTest]) -> dict[str, str]:
    """The attributes of a join that come from its right side, with their names there.

    An attribute of both sides, joined by equality, appears once; other names that are already taken get
    `right_`.
    """
    once = {test.left for test in tests if test.compares == "=" and test.left == test.right}
    names: dict[str, str] = {}
    for name in right:
        if name not in once:
            own = name
            while own in left or own in names:
                own = f"right_{own}"
            names[own] = name
    return names


_PIECE = re.compile(
    r"""(?P<blank>\s+)
    |(?P<compares><>|!=|<=|>=|=|<|>)
    |(?P<comma>,)
    |'(?P<single>[^']*)'|"(?P<double>[^"]*)"
    |(?P<number>-?[0-9]{1,300}(?:\.[0-9]+)?(?![^\s<>=!,]))
    |(?P<word>[^\s"'<>=!,]+)
    |(?P<junk>.)""",
    re.VERBOSE | re.DOTALL,
)


class _Pieces(TokenCursor):
    """The pieces of a condition, read one after another."""

    def __init__(self, text: str) -> None:
        super().__init__(scan(_PIECE, text), lambda message, at: TextError(at, message))

    def shown(self) -> str:
        hint = "; close its quotes" if self.next.kind == "junk" and self.next.text in ("'", '"') else ""
        return f"{super().shown()}{hint}"

    def attribute(self) -> str:
        piece = self.expect("the name of an attribute", "word", "single", "double")
        if _is_and(piece):
            raise TextError(
                piece.at, "expected the name of an attribute, found AND; put quotes around it, if it is one"
            )
        return piece.text

    def compares(self) -> Compares:
        written = self.expect("=, <>, <, <=, > or >=", "compares").text
        return "<>" if written == "!=" else written  # type: ignore[return-value]

    def goes_on(self, *, comma: bool = False) -> bool:
        """Return True after an AND (or a comma), False at the end."""
        if self.next.kind == END:
            return False
        if _is_and(self.next) or (comma and self.next.kind == "comma"):
            self.advance()
            return True
        expectation = "a comma or AND" if comma else "AND"
        hint = "" if comma else "; put quotes around a text of several words"
        raise self.lost(f"expected {expectation}, found {super().shown()}{hint}")


def _is_and(piece: Token) -> bool:
    return piece.kind == "word" and piece.text.upper() == "AND"


def _select(text: str) -> tuple[AttributeTest, ...]:
    pieces = _Pieces(text)
    tests: list[AttributeTest] = []
    while not tests or pieces.goes_on():
        attribute, compares = pieces.attribute(), pieces.compares()
        constant = pieces.expect("a number, or a text in quotes", "number", "word", "single", "double")
        value = number_of(constant.text) if constant.kind == "number" else constant.text
        tests.append(AttributeTest(attribute, compares, value))
    return tuple(tests)


def number_of(text: str) -> int | float:
    """The number in a text of digits."""
    return float(text) if "." in text else int(text)


def _join(text: str) -> tuple[JoinTest, ...]:
    pieces = _Pieces(text)
    tests: list[JoinTest] = []
    while (not tests and pieces.next.kind != END) or (tests and pieces.goes_on()):
        tests.append(JoinTest(pieces.attribute(), pieces.compares(), pieces.attribute()))
    return tuple(tests)


def _columns(text: str) -> tuple[str, ...]:
    pieces = _Pieces(text)
    columns: list[str] = []
    while not columns or pieces.goes_on(comma=True):
        at = pieces.next.at
        if (name := pieces.attribute()) in columns:
            raise TextError(at, f"expected another attribute, found {name!r} again")
        columns.append(name)
    return tuple(columns)


FUNCTIONS = ("count", "sum", "min", "max", "avg", "list", "lines")
"""The functions of aggregates."""

_FOLD = re.compile(
    r"""\s*(?P<func>\w+)\(\s*(?P<column>\*|'[^']+'|"[^"]+"|[^\s()'",]+)\s*\)"""
    r"""(?:\s+(?i:as)\s+(?P<name>'[^']+'|"[^"]+"|[^\s()'",]+))?\s*"""
)


def _folds(text: str) -> tuple[ColumnFold, ...]:
    folds: dict[str, ColumnFold] = {}
    at = 0
    while True:
        piece = _FOLD.match(text, at)
        if piece is None:
            expectation = "expected a function of a column, as in min(price) as cheapest"
            raise TextError(at, f"{expectation}, found {text[at : at + 40].strip()!r}")
        func, column = piece["func"].lower(), piece["column"].strip("'\"")
        if func not in FUNCTIONS:
            raise TextError(piece.start("func"), f"expected one of {', '.join(FUNCTIONS)}, found {func!r}")
        if column == "*" and func != "count":
            raise TextError(piece.start("column"), f"expected a column for {func}; only count takes *")
        name = (piece["name"] or (func if column == "*" else f"{func}_{column}")).strip("'\"")
        if name in folds:
            raise TextError(piece.start(), f"expected another name, found {name!r} again; write as NAME")
        folds[name] = ColumnFold(func, column, name)
        at = piece.end()
        if at == len(text):
            return tuple(folds.values())
        if text[at] != ",":
            raise TextError(at, f"expected a comma or the end, found {text[at : at + 40]!r}")
        at += 1


def _tuple_format(text: str) -> TextFormat:
    texts, attributes = [""], []
    parts = text.split("%")
    at = len(parts[0])
    texts[0] = parts[0]
    for ordinal, part in enumerate(parts[1:], 1):
        if ordinal % 2 == 0:
            texts[-1] += part
        elif ordinal == len(parts) - 1:
            raise TextError(at, "expected % after the name of an attribute, or %% for a percent sign")
        elif part:
            attributes.append(part)
            texts.append("")
        else:
            texts[-1] += "%"
        at += 1 + len(part)
    return TextFormat(tuple(texts), tuple(attributes))


def _alias_format(text: str) -> TextFormat:
    """A format of the examples: `%name`, with or without a second percent sign."""
    parts = re.split(r"%(%|[A-Za-z_][A-Za-z0-9_]*%?)", text)
    texts, attributes = [parts[0]], []
    for name, after in zip(parts[1::2], parts[2::2], strict=True):
        if name == "%":
            texts[-1] += f"%{after}"
        else:
            attributes.append(name.rstrip("%"))
            texts.append(after)
    return TextFormat(tuple(texts), tuple(attributes), any_case=True)


def _text_format(text: str) -> TextFormat:
    texts = [""]
    for part in re.split(r"(%.?)", text, flags=re.DOTALL):
        if part == "%s":
            texts.append("")
        elif part.startswith("%") and part != "%%":
            at = re.sub(r"%[%s]", "  ", text).index("%")
            raise TextError(at, f"expected %s, or %% for a percent sign, found {part!r}")
        else:
            texts[-1] += "%" if part == "%%" else part
    return TextFormat(tuple(texts), ("",) * (len(texts) - 1))


def _rows(text: str) -> InlineTuples:
    expectation = 'expected a JSON array of objects, as in [{\\"a\\": 1}]'
    try:
        rows = msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        raise TextError(0, f"{expectation}: {error}") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise TextError(0, expectation)
    attributes = tuple(dict.fromkeys(name for row in rows for name in row))
    for row in rows:
        for name, value in row.items():
            if not isinstance(value, Value):
                message = f"{name}: expected a text, a number, true, false or null, found {value!r:.40}"
                raise TextError(0, message)
    return InlineTuples(attributes, tuple(tuple(row.get(name) for name in attributes) for row in rows))


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "select": _select,
    "join": _join,
    "columns": _columns,
    "folds": _folds,
    "tuple-format": _tuple_format,
    "text-format": _text_format,
    "rules": rules_of,
    "rows": _rows,
}
