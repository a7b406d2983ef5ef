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
        match = wiring.matches[at]
        for clause in CLAUSES:
            for written in getattr(match.statement.clauses, clause):
                _add_type(types, written, ENABLEMENT, tell)
        for written, type in output_types(match, types):
            _add_type(types, written, type, tell)
        call = CallColumns(match, columns, parsed[match.key])
        _add_columns(columns, match, _columns(call, wrappers))
    return Inferred(types, columns)


def _demanded(wiring: Wiring, declared: Declared, tell: Told) -> str:
    """The type of an undeclared input, derived from its consumers."""
    ports = [port for _, port, _ in wiring.consumers.get(declared.name, ())]
    if any(port is None for port in ports):
        return UNKNOWN
    least, conflict = demanded(port for port in ports if port is not None and (port.name or port.type))
    if conflict is not None:
        one, other = conflict
        message = (
            f"input {declared.name}: taken as {one} and as {other}; write its type, and convert it for one"
        )
        tell(declared, message)
    return least


def _add_type(types: dict[str, str], written: Written, type: str, tell: Told) -> None:
    earlier = types.get(written.text)
    both = type if earlier is None else merged(earlier, type)
    if both is None:
        tell(written, f"{written.text!r} is of type {type} here, and of type {earlier} by another call")
    else:
        types[written.text] = both


def _columns(call: CallColumns, wrappers: Mapping[str, Columns]) -> dict[str, Columns]:
    columns = columns_of(call)
    operator = call.match.operator
    if operator is not None and operator.name == "retrieve":
        columns["out"] = wrappers.get(call.constant("wrapper") or "")
    return columns


def _add_columns(columns: dict[str, Columns], match: Match, made: Mapping[str, Columns]) -> None:
    for port, written in match.produced:
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
        arguments = [self.match.arguments.get(port) for port in ports]
        return [(one, self._columns.get(one.text)) for one in arguments if isinstance(one, Written)]


def columns_of(call: CallColumns) -> dict[str, Columns]:
    """The attributes of a call's results, by output name."""
    operator = call.match.operator
    if operator is None:
        return {}
    computed = _MADE[operator.name](call) if operator.name in _MADE and not operator.is_plan else None
    columns: dict[str, Columns] = {}
    for port in operator.outputs:
        if port.attributes is not None:
            columns[port.name] = port.attributes
        elif port.type in VALUES:
            columns[port.name] = None if port.name == "head" else VALUE
        elif port.type in (STREAM, RELATION):
            columns[port.name] = computed
    if operator.name == "remember":
        columns["changed"] = _changed(call)
    return columns


def _of(port: str) -> Callable[[CallColumns], Columns]:
    return lambda call: call.columns(port)


def _all(call: CallColumns) -> Columns:
    """The attributes of all inputs of a union, if all are known."""
    sides = [columns or () for _, columns in call.each("in")]
    return tuple(dict.fromkeys(name for columns in sides for name in columns)) if all(sides) else None


def _same(call: CallColumns) -> Columns:
    """The attributes of merged streams, if they are the same."""
    kinds_of_columns = {columns for _, columns in call.each("in")}
    return kinds_of_columns.pop() if len(kinds_of_columns) == 1 else None


def _projected(call: CallColumns) -> Columns:
    return call.parsed.get("cond")


def _formatted(call: CallColumns) -> Columns:
    columns, name = call.columns("in"), call.constant("attr")
    if columns is None or name is None:
        return None
    return columns if name in columns else (*columns, name)


def _pairs(call: CallColumns) -> Columns:
    left, right, tests = call.columns("left"), call.columns("right"), call.parsed.get("cond")
    return None if left is None or right is None or tests is None else joined(left, right, tests)


def _named(call: CallColumns) -> Columns:
    name = call.constant("attr")
    return None if name is None else (name,)


def _changed(call: CallColumns) -> Columns:
    columns, key = call.columns("in"), call.parsed.get("key")
    if columns is None or key is None:
        return None
    return (*columns, *(f"was_{name}" for name in columns if name not in key))


def _extracted(call: CallColumns) -> Columns:
    rules = call.parsed.get("rules")
    return rules.attributes if isinstance(rules, ExtractRules) else None


def _grouped(call: CallColumns) -> Columns:
    by, values = call.parsed.get("by"), call.parsed.get("values")
    return None if by is None or values is None else (*by, *[fold.name for fold in values])


def _inline(call: CallColumns) -> Columns:
    tuples = call.parsed.get("literal")
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


def unknown_names(call: CallColumns, lifted: Sequence[str]) -> Iterator[tuple[Written, str, str]]:
    """The attributes that a call names but its streams lack: the text, the name, the fault."""
    yield from _lifted(call, lifted)
    for port, side, names, any_case in _asked(call):
        columns, argument = call.columns(side), call.match.arguments.get(port)
        if columns is None or not isinstance(argument, Written):
            continue
        for name in names:
            if placed(columns, name, any_case=any_case) is None:
                yield argument, name, f"{side} has no attribute {name!r}{closest(name, columns)}"
    if call.match.operator is not None and call.match.operator.name in ("union", "difference"):
        yield from _different(call)


def _asked(call: CallColumns) -> Iterator[tuple[str, str, Sequence[str], bool]]:
    """The attributes that a call names: the argument, the stream, the names, and whether case is ignored."""
    name = call.match.operator.name if call.match.operator is not None else ""
    parsed = call.parsed
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
        text = call.constant(port)
        if text is not None and not (text == "*" and call.constant("func") == "count"):
            yield port, "in", (text,), False


def _lifted(call: CallColumns, lifted: Sequence[str]) -> Iterator[tuple[Written, str, str]]:
    """The streams that lift an operator but have several attributes, none with the parameter's name."""
    named = call.match.operator is not None and call.match.operator.name == "formatrelation"
    for port in (*lifted, *(("in",) if named else ())):
        columns, argument = call.columns(port), call.match.arguments[port]
        if (
            columns is not None
            and len(columns) != 1
            and port not in columns
            and isinstance(argument, Written)
        ):
            cure = f"write project or relsprintf before it, or call one of them {port!r}"
            message = f"expected one attribute, or {port!r}, in {argument.text!r}, found {', '.join(columns)}"
            yield argument, "", f"{message}; {cure}"


def _different(call: CallColumns) -> Iterator[tuple[Written, str, str]]:
    sides = [*call.each("in"), *call.single("universe", "sample")]
    inputs = [(written, columns) for written, columns in sides if columns is not None]
    for written, columns in inputs[1:]:
        if set(columns).isdisjoint(inputs[0][1] or ()):
            first = f"{', '.join(inputs[0][1] or ())} in {inputs[0][0].text!r}"
            yield written, "", f"expected inputs that share attributes: {first}, {', '.join(columns)} here"
