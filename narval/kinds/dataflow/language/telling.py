"""Descriptions of dataflows: their inputs, what each operator makes of its inputs, their outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from narval.core.definitions.library import Library
from narval.core.definitions.telling.calls import forgotten
from narval.core.definitions.telling.sentence import Sentence, listed, names, quoted, verbatim
from narval.kinds.dataflow.language.definition import DataflowDefinition
from narval.kinds.dataflow.language.operators import OPERATOR_TABLE, Operator
from narval.kinds.dataflow.language.syntax import Clauses, Declared, Statement, Written


def sentences(dataflow: DataflowDefinition, library: Library) -> Iterator[Sentence]:
    """The sentences that describe a dataflow."""
    syntax = dataflow.source.syntax
    inputs = [declared.name for declared in syntax.inputs]
    made = names(declared.name for declared in syntax.outputs) if syntax.outputs else "nothing that it gives"
    yield Sentence(
        f"It makes {made} from {names(inputs) if inputs else 'nothing'}.", syntax.line, syntax.column
    )
    yield Sentence("It begins when a person or a program starts it.", syntax.line, syntax.column)
    yield from (Sentence(text, syntax.line) for text in forgotten(dataflow.decay))
    for declared in syntax.inputs:
        yield Sentence(f"It is given {_declared(declared)}.", declared.line, declared.column)
    operators = _operators(dataflow)
    for statement in syntax.statements:
        yield from _statement(statement, *operators.get((statement.line, statement.column), (None, False)))
    for declared in syntax.outputs:
        yield Sentence(f"It gives {_declared(declared)}.", declared.line, declared.column)
    if dataflow.source.aliases:
        yield Sentence("What stands in capitals has its arguments in the order of the examples.", syntax.line)
    for operator in dataflow.source.declared:
        yield Sentence(f"It declares an operator: {verbatim(operator.text)}.", operator.line, operator.column)
    outside = [operator.name for operator, goes_outside in operators.values() if goes_outside]
    if outside:
        text = f"Outside the home it acts by {listed(sorted(set(outside)))}."
        yield Sentence(text, syntax.line, syntax.column)


def _operators(dataflow: DataflowDefinition) -> dict[tuple[int, int], tuple[Operator, bool]]:
    """The called operators, by the place of the call, and whether they go outside; only built-in operators if
    the dataflow is not whole.
    """
    if dataflow.graphs:
        calls = dataflow.graph.calls
        return {(call.line, call.column): (call.operator, call.goes_outside) for call in calls}
    statements = dataflow.source.syntax.statements
    named = {
        name: operator for operator in OPERATOR_TABLE.values() for name in (operator.name, *operator.also)
    }
    pairs = ((one, named.get(one.name.lower())) for one in statements)
    return {
        (one.line, one.column): (operator, (operator.io or operator.effect) and not operator.at_home)
        for one, operator in pairs
        if operator is not None
    }


def _declared(declared: Declared) -> str:
    type = f", a {declared.type}" if declared.type else ""
    return f"{quoted(declared.name)}{type}{', of which there may be several' if declared.many else ''}"


def _statement(statement: Statement, operator: Operator | None, goes_outside: bool) -> Iterator[Sentence]:
    place = statement.line, statement.column
    made = f" makes {listed(map(_written, statement.outputs))}" if statement.outputs else " runs"
    taken = f" from {listed(map(_written, statement.arguments))}" if statement.arguments else ""
    yield Sentence(f"{verbatim(statement.name)}{made}{taken}.", *place)
    if operator is not None and operator.does:
        does = f"It {operator.does}"
        yield Sentence(f"{does.rstrip('.')}.", *place, depth=1)
    elif operator is not None and operator.is_plan:
        yield Sentence(f"It is another dataflow, {operator.name}.", *place, depth=1)
    if operator is not None and goes_outside:
        acts = (
            "It changes something outside." if operator.effect else "It asks outside, and may wait for that."
        )
        yield Sentence(acts, *place, depth=1)
    yield from (Sentence(text, *place, depth=1) for text in _clauses(statement.clauses))


def _clauses(clauses: Clauses) -> Iterator[str]:
    if clauses.wait:
        yield f"It begins once {_data(clauses.wait)} has happened."
    if clauses.enable:
        yield f"With its end {_data(clauses.enable)} has happened."
    if clauses.started:
        yield f"With its beginning {_data(clauses.started)} has happened."
    if clauses.on_error:
        yield f"If it fails, {_data(clauses.on_error)} has happened, and the rest goes on."


def _data(data: Iterable[Written]) -> str:
    return names(written.text for written in data)


def _written(written: Written) -> str:
    """A datum by its name, a text or number as written, a group in brackets."""
    if written.kind == "group":
        return f"({listed(map(_written, written.group))})"
    if written.kind == "name":
        return "something unused" if written.text == "_" else quoted(written.text)
    return verbatim(str(written))
