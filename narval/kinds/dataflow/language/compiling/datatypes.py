"""Types of data: the known types, which fits which, and the output types of a call (T6, T9, TA31).

A relation fits where a stream is expected, as a stream that ends. A stream given for a text or a number lifts
the operator: it runs once for each tuple (TA7).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from narval.kinds.dataflow.language.compiling.matching import Match
from narval.kinds.dataflow.language.operators import Port
from narval.kinds.dataflow.language.syntax import Written

STREAM, RELATION, TEXT, NUMBER = "TupleStream", "Relation", "String", "Number"
OBJECT, ENABLEMENT, FUNCTION = "Object", "Enablement", "Function"
UNKNOWN = ""

TYPES = (STREAM, RELATION, TEXT, NUMBER, OBJECT, ENABLEMENT, FUNCTION)
SPELLINGS: Mapping[str, str] = {
    **{type.lower(): type for type in TYPES},
    "tuple": STREAM,
    "stream": STREAM,
}
"""The types by their names in lower case, including other spellings (TA32)."""

VALUES = frozenset((TEXT, NUMBER, OBJECT))
"""The types of single values."""

LIFTING = frozenset((TEXT, NUMBER))
"""The types of parameters that a stream lifts."""

LIFTED = "lifted"

_CURES = {
    RELATION: "write accumulate({0} : all) before it, and all in its place",
    STREAM: 'write formatrelation({0}, "value" : one) before it, and one in its place',
}


def type_named(written: str) -> str:
    """The type with a name in any case; a module's own type stays as written."""
    return SPELLINGS.get(written.lower(), written)


def fit(port: Port, written: Written, types: Mapping[str, str]) -> str:
    """Check whether an argument fits: "" if it does, LIFTED, or its fault.

    `types` are those of data. A name that is not a datum is a function.
    """
    if written.kind in ("text", "number"):
        return _constant(port, written)
    if port.type == FUNCTION and written.text not in types:
        return ""
    return _datum(port, written.text, types.get(written.text, UNKNOWN))


def _constant(port: Port, written: Written) -> str:
    fits = {TEXT, OBJECT, UNKNOWN} | ({FUNCTION} if written.kind == "text" else {NUMBER})
    if port.type in fits or (port.loose and written.kind in ("text", "number")):
        return ""
    found = f"the {written.kind} {written!s:.60}"
    return f"{port.name}: expected a datum of type {port.type}, found {found}"


def _datum(port: Port, name: str, type: str) -> str:
    wanted = port.type
    if type == wanted or UNKNOWN in (type, wanted) or (wanted, type) == (STREAM, RELATION):
        return ""
    if wanted in LIFTING and type in (STREAM, RELATION):
        return LIFTED
    fits = (
        (wanted == STREAM and port.loose and type in VALUES)
        or (wanted == TEXT and type in VALUES)
        or (wanted == NUMBER and type == OBJECT)
        or (wanted == OBJECT and type in VALUES)
    )
    if fits:
        return ""
    cure = ""
    if wanted == RELATION and type == STREAM:
        cure = _CURES[RELATION].format(name)
    elif wanted == STREAM and type in VALUES:
        cure = _CURES[STREAM].format(name)
    elif (wanted, type) == (NUMBER, TEXT):
        cure = f"declare {name!r} as a Number where it comes from"
    elif wanted == OBJECT and type in (STREAM, RELATION):
        cure = f"headtail or aggregate make a value of {name}"
    return f"{port.name}: expected {wanted}, found {name!r}, of type {type}{'; ' * bool(cure)}{cure}"


def demanded(wanted: Iterable[Port | None]) -> tuple[str, tuple[str, str] | None]:
    """The type of an undeclared input, from its consumers, and two of their types that exclude each other."""
    types = {port.type for port in wanted if port is not None and not port.loose} - {UNKNOWN, OBJECT}
    streams = types & {STREAM, RELATION}
    rest = sorted(types - streams - (LIFTING if streams else frozenset()))
    if streams:
        found = RELATION if RELATION in streams else STREAM
        return found, (found, rest[0]) if rest else None
    if len(rest) > 1:
        return rest[0], (rest[0], rest[1])
    return (rest[0] if rest else OBJECT), None


def output_types(match: Match, types: Mapping[str, str]) -> Iterable[tuple[Written, str]]:
    """The outputs of a call, with the type of each."""
    for port, written in match.produced:
        type = UNKNOWN if port is None else port.type
        if match.operator is not None and match.operator.name == "formatrelation":
            given = next(
                (types.get(one.text, UNKNOWN) for _, one in match.consumed if one.kind == "name"), TEXT
            )
            type = STREAM if given == STREAM else UNKNOWN if given == UNKNOWN else RELATION
        yield written, type


def merged(first: str, second: str) -> str | None:
    """The type of a datum with two producers; None if they do not agree."""
    if first == second or second == UNKNOWN:
        return first
    if first == UNKNOWN:
        return second
    return STREAM if {first, second} == {STREAM, RELATION} else None
