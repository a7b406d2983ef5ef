"""Random expressions of XPath 1.0 and 3.1, well formed mostly, from a grammar."""

from __future__ import annotations

from random import Random

_NAMES = (
    "a",
    "b",
    "c",
    "*",
    "x:a",
    "text()",
    "node()",
    "comment()",
    "@n",
    "@x",
    "@*",
    "..",
    ".",
    "div",
    "to",
    "if",
)
_AXES = (
    *(
        "child",
        "self",
        "parent",
        "ancestor",
        "ancestor-or-self",
        "descendant",
        "descendant-or-self",
        "attribute",
    ),
    *("following", "following-sibling", "preceding", "preceding-sibling", "namespace"),
)
_LITERALS = (
    "1",
    "0",
    ".5",
    "2.",
    "1e3",
    "-1",
    "'x'",
    '"b"',
    "''",
    "'it''s'",
    "10000000000000000000000",
    "1.5e400",
)
_OPERATORS = (
    *(
        "=",
        "!=",
        "<",
        ">=",
        "and",
        "or",
        "+",
        "-",
        "*",
        "div",
        "mod",
        "|",
        "||",
        "!",
        "eq",
        "lt",
        "is",
        "<<",
        "to",
    ),
    *("idiv", "union", "intersect", "except", "=>", ",", "instance of", "cast as", "castable as", "treat as"),
)
_TYPES = (
    "xs:integer",
    "xs:string?",
    "xs:date",
    "element()",
    "node()*",
    "empty-sequence()",
    "xs:QName",
    "item()+",
)
_FUNCTIONS = (
    *(
        "last",
        "position",
        "count",
        "sum",
        "id",
        "local-name",
        "name",
        "string",
        "concat",
        "starts-with",
        "contains",
    ),
    *(
        "substring-before",
        "substring",
        "translate",
        "string-length",
        "normalize-space",
        "number",
        "boolean",
        "not",
    ),
    *(
        "lang",
        "true",
        "floor",
        "round",
        "ends-with",
        "lower-case",
        "matches",
        "replace",
        "tokenize",
        "string-join",
    ),
    *(
        "distinct-values",
        "index-of",
        "exists",
        "empty",
        "head",
        "tail",
        "reverse",
        "sort",
        "data",
        "abs",
        "max",
        "avg",
    ),
    *(
        "deep-equal",
        "subsequence",
        "insert-before",
        "remove",
        "root",
        "zero-or-one",
        "exactly-one",
        "compare",
    ),
    *("string-to-codepoints", "codepoints-to-string", "year-from-date", "xs:integer", "xs:date", "xs:string"),
    *(
        "xs:double",
        "xs:dateTime",
        "xs:duration",
        "xs:boolean",
        "fn:count",
        "math:pi",
        "upper-case",
        "node-name",
    ),
    *(
        "has-children",
        "contains-token",
        "normalize-unicode",
        "codepoint-equal",
        "unordered",
        "one-or-more",
        "wrong",
    ),
    *(
        "hours-from-time",
        "days-from-duration",
        "timezone-from-date",
        "namespace-uri",
        "xs:anyURI",
        "xs:hexBinary",
    ),
)
_REGEXES = (
    "'a'",
    "'^b+$'",
    r"'\s*,\s*'",
    "'(a|b)*'",
    "'['",
    r"'(a)\1'",
    "'[a-z-[b]]'",
    r"'\p{L}'",
    "'a{2,3}'",
)


def expression(chance: Random, depth: int = 4) -> str:
    """An expression of at most so many levels."""
    if depth <= 0:
        return chance.choice((*_NAMES, *_LITERALS, "$v", "()"))
    make = chance.choice((_path, _path, _path, _call, _call, _operation, _operation, _other, _filtered))
    return make(chance, depth - 1)


def _path(chance: Random, depth: int) -> str:
    start = chance.choice(
        ("", "", "/", "//", "$v/", f"({expression(chance, depth)})/", chance.choice(_LITERALS) + "/")
    )
    steps = [_step(chance, depth) for _ in range(chance.randint(1, 3))]
    text = steps[0]
    for step in steps[1:]:
        text += chance.choice(("/", "/", "//", " // ")) + step
    return start + text


def _step(chance: Random, depth: int) -> str:
    name = chance.choice(_NAMES)
    if chance.random() < 0.2:
        name = f"{chance.choice(_AXES)}::{name}"
    elif chance.random() < 0.1:
        name = _call(chance, depth)
    return name + "".join(f"[{expression(chance, depth)}]" for _ in range(chance.choice((0, 0, 0, 1, 2))))


def _call(chance: Random, depth: int) -> str:
    name = chance.choice(_FUNCTIONS)
    arguments = [expression(chance, depth) for _ in range(chance.choice((0, 1, 1, 1, 2, 2, 3)))]
    if name in ("matches", "replace", "tokenize"):
        arguments[1:2] = [chance.choice(_REGEXES)]
    return f"{name}({', '.join(arguments)})"


def _operation(chance: Random, depth: int) -> str:
    operator = chance.choice(_OPERATORS)
    right = chance.choice(_TYPES) if operator[-3:] in (" as", " of") else expression(chance, depth)
    return f"{expression(chance, depth)} {operator} {right}"


def _filtered(chance: Random, depth: int) -> str:
    return f"({expression(chance, depth)})[{expression(chance, depth)}]"


def _other(chance: Random, depth: int) -> str:
    first, second, third = (expression(chance, depth) for _ in range(3))
    return chance.choice(
        (
            f"if ({first}) then {second} else {third}",
            f"for $y in {first} return {second}",
            f"some $y in {first} satisfies $y = {second}",
            f"every $y in {first}, $z in {second} satisfies {third}",
            f"let $y := {first} return {second}",
            f"({first}, {second})",
            f"- {first}",
            f"{first} ! {second}",
            f"({first})",
        )
    )
