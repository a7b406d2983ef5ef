"""The text of dataflows: a `.plan` file has plans, and declarations of modules' operators (T1–T17)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePosixPath

import msgspec

from narval.core.definitions.library import Definition, Library, Parsed, Reference
from narval.core.definitions.reading import vocabulary
from narval.core.errors import Fault
from narval.core.source.text import Source
from narval.core.source.xml import XmlNode
from narval.kinds.dataflow.language.code import DataflowCode
from narval.kinds.dataflow.language.compiling.compiler import Compiled, compile_plans
from narval.kinds.dataflow.language.compiling.vocabulary import PlanVocabulary, names_in, operator_of
from narval.kinds.dataflow.language.composition import BUNDLE, completed, parts_of
from narval.kinds.dataflow.language.definition import DataflowDefinition, DataflowGraph
from narval.kinds.dataflow.language.grammar import read_units
from narval.kinds.dataflow.language.operators import OPERATOR_TABLE, named
from narval.kinds.dataflow.language.syntax import (
    ALIASES,
    GROUP,
    OperatorSyntax,
    PlanSource,
    PlanSyntax,
    Statement,
)

_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def parse(source: Source, root: XmlNode | None = None) -> Parsed:
    """Parse the dataflows of a file, or the first one of a bundle, which is whole."""
    text = source.text
    if text.startswith(f"{BUNDLE}\n"):
        return _bundle(Source.of_text(path, part) for path, part in parts_of(text))
    sources, faults = _sources(source)
    return _parsed(sources, faults)


def _bundle(files: Iterable[Source]) -> Parsed:
    read = [_sources(file) for file in files]
    sources = [plan for plans, _ in read for plan in plans]
    parsed = _parsed(sources, [fault for _, faults in read for fault in faults], stored=True)
    return Parsed(tuple(definition.pinned() for definition in parsed.definitions[:1]), (), parsed.faults)


def _sources(source: Source) -> tuple[list[PlanSource], list[Fault]]:
    """The plans of a file, and its faults of syntax."""
    units, faults = read_units(source)
    if (odd := _UNWRITABLE.search(source.text)) is not None:
        message = f"expected no control characters, found {odd[0]!r}; remove it"
        faults.append(source.fault(message, *source.place(odd.start())))
    try:
        vocabulary.name(PurePosixPath(source.path).stem)
    except ValueError as error:
        faults.append(
            source.fault(f"the file's name is that of a group: expected {error.args[0]}; rename it")
        )
    group, aliases = _head(source, faults)
    declared = tuple(unit for unit in units if isinstance(unit, OperatorSyntax))
    faults += (source.fault(message, one.line, one.column) for one, message in _doubles(units))
    plans = [unit for unit in units if isinstance(unit, PlanSyntax)]
    if not units and not faults:
        faults.append(source.fault("expected a dataflow, as in: PLAN name { BODY { noop() } }"))
    once = {plan.name: plan for plan in reversed(plans)}
    return [
        PlanSource(plan, source.path, aliases, declared, group) for plan in reversed(once.values())
    ], faults


def _head(source: Source, faults: list[Fault]) -> tuple[str, bool]:
    """The group in the first lines of a file, and whether the file uses the order of the examples."""
    group, aliases = "", False
    for number, written in enumerate(source.text.split("\n", 2)[:2], 1):
        line = written.strip()
        if line == ALIASES:
            aliases = True
        elif line.startswith(GROUP) and not group:
            group = line.removeprefix(GROUP).strip()
            try:
                vocabulary.name(group)
            except ValueError as error:
                faults.append(
                    source.fault(f"{GROUP.strip()}: expected {error.args[0]}", number, len(GROUP) + 1)
                )
        else:
            break
    return group, aliases


def _doubles(
    units: Iterable[PlanSyntax | OperatorSyntax],
) -> Iterator[tuple[PlanSyntax | OperatorSyntax, str]]:
    plans: set[str] = set()
    operators: set[str] = set()
    for unit in units:
        if isinstance(unit, PlanSyntax):
            if unit.name in plans:
                yield unit, f"expected a new name, found the dataflow {unit.name!r} again"
            plans.add(unit.name)
            continue
        operator = named(unit.name)
        if operator is not None:
            yield unit, f"{unit.name!r} is there already: {operator.signature}; remove this declaration"
        elif unit.name.lower() in operators:
            yield unit, f"expected a new name, found the operator {unit.name!r} again"
        operators.add(unit.name.lower())


def _parsed(sources: list[PlanSource], faults: list[Fault], *, stored: bool = False) -> Parsed:
    vocabulary = PlanVocabulary(sources, complete=False, stored=stored)
    compiled = compile_plans(vocabulary.plans, vocabulary)
    references = [reference for source in sources for reference in _references(source, vocabulary)]
    references += [
        Reference("function", function.text, "function", source.path, function.line, function.column)
        for source in sources
        for function in compiled.functions[source.full_name]
    ]
    definitions: list[DataflowDefinition] = []
    for source in sources:
        own = tuple(reference for reference in references if reference.path == source.path)
        written = DataflowDefinition(
            group=source.place.group,
            name=source.syntax.name,
            source=source,
            references=own,
            path=source.path,
            line=source.syntax.line,
        )
        draft = msgspec.structs.replace(written, draft=written)
        whole = completed(draft, compiled, vocabulary)
        if whole is not None and not _needs_library(source, whole.graphs, compiled):
            whole = msgspec.structs.replace(whole, draft=None)
        if whole is not None or not (faults or compiled.faults):
            definitions.append(whole or draft)
    names = frozenset((DataflowDefinition.kind, source.full_name) for source in sources)
    return Parsed(tuple(definitions), tuple(references), tuple(sorted({*faults, *compiled.faults})), names)


def _needs_library(source: PlanSource, graphs: Mapping[str, DataflowGraph], compiled: Compiled) -> bool:
    """True if a plan uses something of a module."""
    return bool(source.declared) or any(
        compiled.functions[name] or any(call.operator.name == "retrieve" for call in graph.calls)
        for name, graph in graphs.items()
    )


# --- references -------------------------------------------------------------------------------------------


def _references(source: PlanSource, vocabulary: PlanVocabulary) -> Iterator[Reference]:
    """The places of a plan that name something in other files or in modules."""
    for statement in source.syntax.statements:
        if vocabulary.find(statement, source) == (None, ""):
            name = _called(statement)[0]
            yield Reference(
                DataflowDefinition.kind,
                name.rpartition("/")[2],
                name,
                source.path,
                statement.line,
                statement.column,
                resolve=_resolver(statement, source),
            )
    for declared in (one for one in source.declared if named(one.name) is None):
        yield Reference(
            "operator",
            declared.name,
            f"OPERATOR {declared.name}",
            source.path,
            declared.line,
            declared.column,
            check=_agrees(source, declared),
        )


def _called(statement: Statement) -> tuple[str, int, int]:
    """The reference in a call, and its place: the name, or the first argument of `subplan`."""
    first = statement.arguments[0] if statement.arguments else None
    if named(statement.name) is OPERATOR_TABLE["subplan"] and first is not None:
        return first.text, first.line, first.column
    return statement.name, statement.line, statement.column


def _resolver(statement: Statement, source: PlanSource) -> Callable[[Library], Iterator[Fault]]:
    def resolve(library: Library) -> Iterator[Fault]:
        vocabulary = names_in(library)
        if vocabulary.find(statement, source) == (None, ""):
            name, line, column = _called(statement)
            yield Fault(source.path, line, column, vocabulary.unknown(name, source.place))

    return resolve


def _agrees(source: PlanSource, declared: OperatorSyntax) -> Callable[[Definition], Iterator[Fault]]:
    def check(code: Definition) -> Iterator[Fault]:
        own = code.operator if isinstance(code, DataflowCode) else None
        if own is None:
            return
        here = operator_of(declared)
        ports = [[(port.name, port.type, port.many) for port in side] for side in (here.inputs, here.outputs)]
        if ports != [
            [(port.name, port.type, port.many) for port in side] for side in (own.inputs, own.outputs)
        ]:
            message = f"{declared.name}: its module has {own.signature}; write the same, or remove this"
            yield Fault(source.path, declared.line, declared.column, message)
        if here.io != own.io and any(name == "io" for name, _ in declared.properties):
            message = f"{declared.name}: IO-BOUND is as its module has it; remove it here"
            yield Fault(source.path, declared.line, declared.column, message)

    return check
