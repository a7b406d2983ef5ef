"""Inference: the types and attributes of all data of a plan, as far as they are known (T7, TA31)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from narval.kinds.dataflow.language.compiling.attributes import VALUE, CallColumns, Columns, columns_of
from narval.kinds.dataflow.language.compiling.matching import (
    ENABLEMENT,
    UNKNOWN,
    VALUES,
    Match,
    demanded,
    merged,
    output_types,
    type_named,
)
from narval.kinds.dataflow.language.compiling.wiring import CLAUSES, Wiring
from narval.kinds.dataflow.language.operators import Operator
from narval.kinds.dataflow.language.syntax import Declared, Written

Told = Callable[[Written | Declared, str], None]
"""A function that takes a part of a plan and its fault."""


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
