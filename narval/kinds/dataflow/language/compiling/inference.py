"""Inference: the types and attributes of all data of a plan, as far as it fixes them (T7, TA31).

If a plan does not fix attributes, the names in its texts are looked up when tuples arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from narval.core.definitions.suggestions import closest
from narval.kinds.dataflow.language.compiling.matching import (
    ENABLEMENT,
    RELATION,
    STREAM,
    UNKNOWN,
    VALUES,
    Match,
    demanded,
    merged,
    output_types,
    type_named,
)
from narval.kinds.dataflow.language.compiling.wiring import CLAUSES, Wiring
from narval.kinds.dataflow.language.conditions import (
    AttributeTest,
    ColumnFold,
    InlineTuples,
    JoinTest,
    TextFormat,
    joined,
    placed,
)
from narval.kinds.dataflow.language.operators import Operator
from narval.kinds.dataflow.language.rules import ExtractRules
from narval.kinds.dataflow.language.syntax import Declared, Written

Told = Callable[[Written | Declared, str], None]
"""A function that takes a part of a plan and its fault."""

Columns = tuple[str, ...] | None
"""The attributes of a stream, in order; None if they are only known in a run."""

VALUE = ("value",)
"""The attributes of a value."""


class Inferred(msgspec.Struct, frozen=True):
    """The types and attributes of data, by name."""

    types: Mapping[str, str]
    columns: Mapping[str, Columns]

    def signature(self, before: Operator, wiring: Wiring) -> Operator:
        """The signature of the plan, with what is known now."""
        inputs = tuple(
            msgspec.structs.replace(port, type=self.types.get(port.name, UNKNOWN)) for port in before.inputs
        )
        outputs = tuple(
            msgspec.structs.replace(
                port,
                type=type_named(wiring.outputs[port.name].type) or self.types.get(port.name, UNKNOWN),
                attributes=self.columns.get(port.name),
            )
            for port in before.outputs
        )
        return msgspec.structs.replace(before, inputs=inputs, outputs=outputs)


def infer(
    wiring: Wiring,
    parsed: Mapping[str, Mapping[str, Any]],
    wrappers: Mapping[str, Columns],
    tell: Told = lambda at, message: None,
) -> Inferred:
    """Infer types and attributes of all data; `parsed` are the texts of calls, `tell` takes conflicts."""
    types: dict[str, str] = {}
    columns: dict[str, Columns] = {}
    for name, declared in wiring.inputs.items():
        types[name] = type_named(declared.type) or _demanded(wiring, declared, tell)
        columns[name] = VALUE if types[name] in VALUES else None
    for at in wiring.order:
        found = wiring.matches[at]
        for clause in CLAUSES:
            for written in getattr(found.statement.clauses, clause):
                _add_type(types, written, ENABLEMENT, tell)
        for written, type in output_types(found, types):
            _add_type(types, written, type, tell)
        given = CallColumns(found, columns, parsed[found.key])
        _add_columns(columns, found, _columns(given, wrappers))
    return Inferred(types, columns)


def _demanded(wiring: Wiring, declared: Declared, tell: Told) -> str:
    """The type of an undeclared input, derived from its consumers (TA31)."""
    ports = [port for _, port, _ in wiring.consumers.get(declared.name, ())]
    if any(port is None for port in ports):
        return UNKNOWN
    found, conflict = demanded(port for port in ports if port is not None and (port.name or port.type))
    if conflict is not None:
        one, other = conflict
        message = (
            f"input {declared.name}: taken as {one} and as {other}; write its type, and convert it for one"
        )
        tell(declared, message)
    return found


def _add_type(types: dict[str, str], written: Written, type: str, tell: Told) -> None:
    known = types.get(written.text)
    both = type if known is None else merged(known, type)
    if both is None:
        tell(written, f"{written.text!r} is of type {type} here, and of type {known} by another call")
    else:
        types[written.text] = both


def _columns(given: CallColumns, wrappers: Mapping[str, Columns]) -> dict[str, Columns]:
    found = columns_of(given)
    operator = given.match.operator
    if operator is not None and operator.name == "retrieve":
        found["out"] = wrappers.get(given.constant("wrapper") or "")
    return found


def _add_columns(columns: dict[str, Columns], found: Match, made: Mapping[str, Columns]) -> None:
    for port, written in found.produced:
        own = made.get(port.name) if port is not None else None
        columns[written.text] = own if columns.get(written.text, own) == own else None


# --- attributes -----------------------------------------------------------------------------------------


class CallColumns:
    """The arguments of a call: their attributes, and the constants among them."""

    def __init__(self, match: Match, columns: Mapping[str, Columns], parsed: Mapping[str, Any]) -> None:
        self.match, self.parsed = match, parsed
        self._columns = columns

    def constant(self, port: str) -> str | None:
        """The text of an argument; None for a datum."""
        argument = self.match.arguments.get(port)
        is_constant = isinstance(argument, Written) and argument.kind in ("text", "number")
        return argument.text if is_constant and isinstance(argument, Written) else None

    def columns(self, port: str) -> Columns:
        """The attributes of an argument."""
        argument = self.match.arguments.get(port)
        return self._columns.get(argument.text) if isinstance(argument, Written) else None

    def each(self, port: str) -> list[tuple[Written, Columns]]:
        """The arguments of a port that takes many, with the attributes of each."""
        argument = self.match.arguments.get(port)
        written = argument if isinstance(argument, tuple) else ()
        return [(one, self._columns.get(one.text)) for one in written]

    def single(self, *ports: str) -> list[tuple[Written, Columns]]:
        """The arguments of ports that take one datum, with the attributes of each."""
        found = [self.match.arguments.get(port) for port in ports]
        return [(one, self._columns.get(one.text)) for one in found if isinstance(one, Written)]


def columns_of(given: CallColumns) -> dict[str, Columns]:
    """The attributes of a call's results, by output name."""
    operator = given.match.operator
    if operator is None:
        return {}
    known = _MADE[operator.name](given) if operator.name in _MADE and not operator.is_plan else None
    found: dict[str, Columns] = {}
    for port in operator.outputs:
        if port.attributes is not None:
            found[port.name] = port.attributes
        elif port.type in VALUES:
            found[port.name] = None if port.name == "head" else VALUE
        elif port.type in (STREAM, RELATION):
            found[port.name] = known
    if operator.name == "remember":
        found["changed"] = _changed(given)
    return found


def _of(port: str) -> Callable[[CallColumns], Columns]:
    return lambda given: given.columns(port)


def _all(given: CallColumns) -> Columns:
    """The attributes of all inputs of a union, if all are known."""
    sides = [columns or () for _, columns in given.each("in")]
    return tuple(dict.fromkeys(name for columns in sides for name in columns)) if all(sides) else None


def _same(given: CallColumns) -> Columns:
    """The attributes of merged streams, if they are the same."""
    found = {columns for _, columns in given.each("in")}
    return found.pop() if len(found) == 1 else None


def _projected(given: CallColumns) -> Columns:
    return given.parsed.get("cond")


def _formatted(given: CallColumns) -> Columns:
    columns, name = given.columns("in"), given.constant("attr")
    if columns is None or name is None:
        return None
    return columns if name in columns else (*columns, name)


def _pairs(given: CallColumns) -> Columns:
    left, right, tests = given.columns("left"), given.columns("right"), given.parsed.get("cond")
    return None if left is None or right is None or tests is None else joined(left, right, tests)


def _named(given: CallColumns) -> Columns:
    name = given.constant("attr")
    return None if name is None else (name,)


def _changed(given: CallColumns) -> Columns:
    columns, key = given.columns("in"), given.parsed.get("key")
    if columns is None or key is None:
        return None
    return (*columns, *(f"was_{name}" for name in columns if name not in key))


def _extracted(given: CallColumns) -> Columns:
    rules = given.parsed.get("rules")
    return rules.attributes if isinstance(rules, ExtractRules) else None


def _grouped(given: CallColumns) -> Columns:
    by, values = given.parsed.get("by"), given.parsed.get("values")
    return None if by is None or values is None else (*by, *[fold.name for fold in values])


def _inline(given: CallColumns) -> Columns:
    tuples = given.parsed.get("literal")
    return (tuples.attributes or None) if isinstance(tuples, InlineTuples) else None


_MADE: Mapping[str, Callable[[CallColumns], Columns]] = {
    **dict.fromkeys(
        (
            "atleastone", "filter", "headtail", "partition", "accumulate", "namerelation", "select", "sort",
            "stream", "remember",
        ),
        _of("in"),
    ),
    "difference": _of("universe"),
    "merge": _same,
    "union": _all,
    "group": _grouped,
    "project": _projected,
    "relsprintf": _formatted,
    "join": _pairs,
    "formatrelation": _named,
    "extract": _extracted,
    "makestream2": _inline,
}  # fmt: skip


# --- unknown names ----------------------------------------------------------------------------------------


def unknown_names(given: CallColumns, lifted: Sequence[str]) -> Iterator[tuple[Written, str, str]]:
    """The attributes that a call names but its streams lack: the text, the name, the fault."""
    yield from _lifted(given, lifted)
    for port, side, names, any_case in _asked(given):
        columns, argument = given.columns(side), given.match.arguments.get(port)
        if columns is None or not isinstance(argument, Written):
            continue
        for name in names:
            if placed(columns, name, any_case=any_case) is None:
                yield argument, name, f"{side} has no attribute {name!r}{closest(name, columns)}"
    if given.match.operator is not None and given.match.operator.name in ("union", "difference"):
        yield from _different(given)


def _asked(given: CallColumns) -> Iterator[tuple[str, str, Sequence[str], bool]]:
    """The attributes that a call names: the argument, the stream, the names, and whether case is ignored."""
    name = given.match.operator.name if given.match.operator is not None else ""
    parsed = given.parsed
    for port, value in parsed.items():
        if isinstance(value, TextFormat) and name == "relsprintf":
            yield port, "in", value.attributes, value.any_case
        elif isinstance(value, tuple) and value and isinstance(value[0], AttributeTest):
            yield port, "in", [test.attribute for test in value], False
        elif isinstance(value, tuple) and value and isinstance(value[0], JoinTest):
            yield port, "left", [test.left for test in value], False
            yield port, "right", [test.right for test in value], False
        elif isinstance(value, tuple) and value and isinstance(value[0], ColumnFold):
            yield port, "in", [fold.column for fold in value if fold.column != "*"], False
        elif isinstance(value, tuple):
            yield port, "in", value, False
    for port in {"sort": ("attr",), "aggregate": ("column",)}.get(name, ()):
        text = given.constant(port)
        if text is not None and not (text == "*" and given.constant("func") == "count"):
            yield port, "in", (text,), False


def _lifted(given: CallColumns, lifted: Sequence[str]) -> Iterator[tuple[Written, str, str]]:
    """The streams that lift an operator but have several attributes, none with the parameter's name (TA7)."""
    named = given.match.operator is not None and given.match.operator.name == "formatrelation"
    for port in (*lifted, *(("in",) if named else ())):
        columns, argument = given.columns(port), given.match.arguments[port]
        if (
            columns is not None
            and len(columns) != 1
            and port not in columns
            and isinstance(argument, Written)
        ):
            cure = f"write project or relsprintf before it, or call one of them {port!r}"
            message = f"expected one attribute, or {port!r}, in {argument.text!r}, found {', '.join(columns)}"
            yield argument, "", f"{message}; {cure}"


def _different(given: CallColumns) -> Iterator[tuple[Written, str, str]]:
    sides = [*given.each("in"), *given.single("universe", "sample")]
    inputs = [(written, columns) for written, columns in sides if columns is not None]
    for written, columns in inputs[1:]:
        if set(columns).isdisjoint(inputs[0][1] or ()):
            first = f"{', '.join(inputs[0][1] or ())} in {inputs[0][0].text!r}"
            yield written, "", f"expected inputs that share attributes: {first}, {', '.join(columns)} here"
