"""Checking: all faults of a plan with valid syntax (T2, T9–T13, TA5).

Each check gives the place and the message of every fault it finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from narval.core.definitions.suggestions import closest
from narval.kinds.dataflow.language.compiling.assembly import lifted_of
from narval.kinds.dataflow.language.compiling.inference import CallColumns, Inferred, unknown_names
from narval.kinds.dataflow.language.compiling.matching import (
    LIFTED,
    TYPES,
    UNKNOWN,
    Match,
    fit,
    other_orders,
    right_call,
    type_named,
)
from narval.kinds.dataflow.language.compiling.wiring import Conditions, Producer, Wiring
from narval.kinds.dataflow.language.conditions import TextFormat
from narval.kinds.dataflow.language.operators import OPERATOR_TABLE, Port
from narval.kinds.dataflow.language.rules import ExtractRules, wrong_selectors
from narval.kinds.dataflow.language.syntax import Declared, PlanSource, Statement, Written

Told = tuple[Written | Declared | Statement, str]
"""A part of a plan, and its fault."""


def wrong_names(wiring: Wiring) -> Iterator[Told]:
    """Data that are declared twice, that nothing produces, or that nothing consumes."""
    for side in (wiring.syntax.inputs, wiring.syntax.outputs):
        seen: set[str] = set()
        for one in side:
            if one.name in seen or one.name == "_":
                yield one, f"expected another name, found {one.name!r}{' again' if one.name in seen else ''}"
            seen.add(one.name)
    for name in wiring.inputs:
        for producer in wiring.producers.get(name, ()):
            yield producer.written, f"{name!r} is an input; give this output another name"
    if not wiring.syntax.partial:
        yield from _loose_ends(wiring)


def _loose_ends(wiring: Wiring) -> Iterator[Told]:
    """Data that nothing produces, or that nothing consumes."""
    produced = [*wiring.inputs, *wiring.producers]
    for name, consumers in wiring.consumers.items():
        if not wiring.is_datum(name):
            hint = closest(name, produced)
            for _, _, written in consumers:
                yield written, f"nothing produces {name!r}{hint or '; declare it as an INPUT, or produce it'}"
    for name, declared in wiring.inputs.items():
        if name not in wiring.consumers:
            yield declared, f"nothing consumes the input {name!r}; remove it, or use it"
    for name, declared in wiring.outputs.items():
        if name not in wiring.producers:
            yield declared, f"no operator produces the output {name!r}{closest(name, wiring.producers)}"
    for name, producers in wiring.producers.items():
        if name not in wiring.consumers and name not in wiring.outputs and name not in wiring.inputs:
            yield producers[0].written, _unconsumed(name, producers[0])


def _unconsumed(name: str, producer: Producer) -> str:
    if producer.clause:
        return f"nothing consumes {name!r}; name it in a WAIT, or remove it"
    return f"nothing consumes {name!r}; write _ in its place, or declare it as an OUTPUT"


def circle(wiring: Wiring) -> Iterator[Told]:
    """Calls that wait for one another in a circle."""
    if wiring.circle:
        first = wiring.matches[wiring.circle[0]].statement
        names = [wiring.matches[at].statement.name for at in (*wiring.circle, wiring.circle[0])]
        way = " → ".join(names)
        yield first, f"a dataflow has no circles, found {way}; to repeat something, let it call itself"


def wrong_types(wiring: Wiring, types: Mapping[str, str], source: PlanSource) -> Iterator[Told]:
    """Arguments and outputs of the wrong type, and arguments in the wrong order."""
    for match in wiring.matches:
        if match.operator is None:
            continue
        misfits = list(_misfits(match, types))
        if not misfits and not _is_turned(match, source):
            continue
        order = right_order(match, types, source)
        if order:
            yield (
                match.statement,
                f"{match.statement.name}: its arguments are in another order; write {order}",
            )
        else:
            for written, problem in misfits:
                yield written, f"{match.statement.name}: {problem}"
    for name, declared in wiring.outputs.items():
        declared_type = type_named(declared.type)
        if declared_type != UNKNOWN and name in wiring.producers:
            problem = fit(Port(name, declared_type), Written("name", name, 1, 1), types)
            if problem == LIFTED:
                problem = f"{name}: expected {declared_type}, found {name!r}, of type {types.get(name)}"
            if problem:
                yield declared, f"output {problem}"


def _misfits(match: Match, types: Mapping[str, str]) -> Iterator[tuple[Written, str]]:
    for port, written in match.consumed:
        if port is not None and (problem := fit(port, written, types)) and problem != LIFTED:
            yield written, problem


def _is_turned(match: Match, source: PlanSource) -> bool:
    """True for RETRIEVE(query, "wrapper"), which only files of example aliases have."""
    statement = match.statement
    kinds = [argument.kind for argument in statement.arguments]
    is_retrieve = match.operator is OPERATOR_TABLE["retrieve"] and statement.name.isupper()
    return is_retrieve and not source.aliases and kinds == ["name", "text"]


def right_order(match: Match, types: Mapping[str, str], source: PlanSource) -> str:
    """The call as it should be written, if its arguments fit in another order; else ""."""
    assert match.operator is not None
    turned = _is_turned(match, source)
    for other in other_orders(match, match.statement, match.operator):
        fits = {fit(port, written, types) for port, written in other.consumed if port is not None}
        if other.arguments != match.arguments and fits <= ({"", LIFTED} if turned else {""}):
            return right_call(other, source.aliases)
    return ""


def wrong_attributes(
    wiring: Wiring, inferred: Inferred, parsed: Mapping[str, Mapping[str, Any]]
) -> Iterator[Told]:
    """Attributes that streams do not have."""
    for match in wiring.matches:
        if match.operator is None or any(_misfits(match, inferred.types)):
            continue
        columns = CallColumns(match, inferred.columns, parsed[match.key])
        for written, name, message in unknown_names(columns, lifted_of(match, inferred.types)):
            line, column = written.place(written.text.find(name)) if name else (written.line, written.column)
            at = Written(written.kind, written.text, line, column)
            yield at, f"{match.statement.name}: {message}"


def always_failing(wiring: Wiring, parsed: Mapping[str, Mapping[str, Any]]) -> Iterator[Told]:
    """Calls that would fail whenever they fire, because of what their texts say."""
    for match in wiring.matches:
        texts, data = parsed[match.key], match.arguments.get("data")
        form, rules, written = texts.get("format"), texts.get("rules"), match.arguments.get("rules")
        if isinstance(form, TextFormat) and isinstance(data, tuple) and len(data) != len(form.attributes):
            message = f"expected {len(form.attributes)} data for the format, one a %s, found {len(data)}"
            yield match.statement, f"{match.statement.name}: {message}"
        if isinstance(rules, ExtractRules) and isinstance(written, Written):
            for selector, message in wrong_selectors(rules):
                line, column = written.place(written.text.find(selector))
                yield Written("text", selector, line, column), f"rules: {message}"


def several_producers(wiring: Wiring, conditions: Conditions) -> Iterator[Told]:
    """Data that several calls may produce in one transaction (TA5)."""
    for name, producers in wiring.producers.items():
        for ordinal, producer in enumerate(producers):
            for other in producers[:ordinal]:
                both = (_conditions_of(one, wiring, conditions) for one in (producer, other))
                if not conditions.are_exclusive(*both):
                    message = (
                        f"{name!r} is produced on line {other.written.line} too, in the same transaction; "
                        f"give one another name, and take both with union or merge"
                    )
                    yield producer.written, message
                    break


def _conditions_of(producer: Producer, wiring: Wiring, conditions: Conditions) -> int:
    match = wiring.matches[producer.at]
    if producer.clause:
        return conditions.of_clause(match, producer.clause)
    return conditions.of_output(match, producer.port)


def unknown_types(wiring: Wiring, own_types: frozenset[str]) -> Iterator[Told]:
    """Types that are unknown, even to operators of modules (T6)."""
    for declared in (*wiring.syntax.inputs, *wiring.syntax.outputs):
        type = type_named(declared.type)
        if type not in (*TYPES, UNKNOWN, *own_types):
            yield (
                declared,
                f"there is no type {declared.type!r}{closest(declared.type, (*TYPES, *own_types))}",
            )
