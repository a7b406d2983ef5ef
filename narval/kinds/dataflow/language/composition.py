"""Composition: adds to dataflows the graphs of plans in other files that they call, and operators of modules.

Whenever a library is made, dataflows that need other parts of it are compiled again. So a dataflow that calls
a changed plan is a new version. Its `xml` contains everything that it needs, which makes it whole: a bundle,
the text that the store keeps and memory shows (N2).

    // a dataflow and all that it calls
    // file 120 recipes/flats.plan
    PLAN HomeSeekers {…}

The number is the count of characters after its line. The first plan is the one that runs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

import msgspec
from lxml import etree

from narval.core.definitions.library import Library, Reference
from narval.core.elements.canonical import canonical
from narval.core.errors import Fault
from narval.kinds.dataflow.language.compiling.compiler import Compiled, compile_plans
from narval.kinds.dataflow.language.compiling.optimiser import optimised
from narval.kinds.dataflow.language.compiling.vocabulary import PlanVocabulary, vocabulary_of
from narval.kinds.dataflow.language.definition import (
    SOURCE_PORTS,
    DataflowDefinition,
    DataflowGraph,
    FixedValue,
)
from narval.kinds.dataflow.language.grammar import PROPERTIES
from narval.kinds.dataflow.language.operators import OPERATOR_TABLE, Operator
from narval.kinds.dataflow.language.syntax import ALIASES, GROUP, PlanSource


def compose_all(library: Library) -> tuple[Library, list[Fault]]:
    """Complete a library's dataflows as far as possible; return the library, and the faults of the others.

    Missing plans are faults of references (`library.check_targets`).
    """
    dataflows = [cast("DataflowDefinition", one) for one in library.of(DataflowDefinition.kind).values()]
    drafts = [one for one in dataflows if one.draft is not None]
    if not drafts:
        return library, []
    vocabulary = vocabulary_of(library)
    compiled = compile_plans((one.full_name for one in drafts), vocabulary)
    composed = [whole for one in drafts if (whole := completed(one, compiled, vocabulary)) is not None]
    return library.replace(composed), list(compiled.faults)


def completed(
    definition: DataflowDefinition, compiled: Compiled, vocabulary: PlanVocabulary
) -> DataflowDefinition | None:
    """A definition with all graphs that it needs, and references to the code of modules that they run; None
    if one is missing.
    """
    graphs = compiled.reached(definition.full_name)
    if graphs is None:
        return None
    text = bundled((vocabulary.plans[name], of_modules(graph)) for name, graph in graphs.items())
    xml = element_of(definition.source, text)
    digest = hashlib.sha256(xml).hexdigest()
    made = {name: optimised(graph) for name, graph in graphs.items()}
    references = (*(definition.draft or definition).references, *_code_in(graphs, vocabulary))
    return msgspec.structs.replace(definition, graphs=made, references=references, xml=xml, digest=digest)


def _code_in(graphs: Mapping[str, DataflowGraph], vocabulary: PlanVocabulary) -> Iterator[Reference]:
    """References to the operators and wrappers of modules that graphs call."""
    for graph in graphs.values():
        for call in graph.calls:
            wrapper = call.arguments.get(SOURCE_PORTS["retrieve"])
            names = [("operator", call.operator.name)]
            names += [("wrapper", str(wrapper.value))] if isinstance(wrapper, FixedValue) else []
            for kind, name in names:
                if (kind, name) in vocabulary.code:
                    yield Reference(kind, name, f"{kind} {name!r}", graph.path, call.line, call.column)


def of_modules(graph: DataflowGraph) -> list[Operator]:
    """The operators of modules that a graph has."""
    own = {call.operator.name: call.operator for call in graph.calls if not call.plan}
    return [operator for name, operator in own.items() if name not in OPERATOR_TABLE]


BUNDLE = "// a dataflow and all that it calls"

_PART = re.compile(r"// file (\d{1,9}) ([^\n]*)\n")


def bundled(parts: Iterable[tuple[PlanSource, Iterable[Operator]]]) -> str:
    """Bundle these plans, each with the operators of modules that it calls."""
    text = [BUNDLE, "\n"]
    for source, operators in parts:
        declared = {one.name.lower(): one.text for one in source.declared}
        declared.update((operator.name.lower(), declaration_of(operator)) for operator in operators)
        head = [f"{GROUP}{source.group}"] * bool(source.group) + [ALIASES] * source.aliases
        lines = [*head, *declared.values(), source.syntax.text]
        part = "\n".join(lines) + "\n"
        path = source.path.replace("\n", " ")
        text.append(f"// file {len(part)} {path}\n{part}")
    return "".join(text)


def parts_of(text: str) -> Iterator[tuple[str, str]]:
    """The path and text of each part of a bundle."""
    at = len(BUNDLE) + 1
    while match := _PART.match(text, at):
        at = match.end() + int(match[1])
        yield match[2], text[match.end() : at]


def declaration_of(operator: Operator) -> str:
    """An operator of a module, written as a declaration in a file."""
    inputs, outputs = (
        ", ".join(f"{port.type} {port.name}{'*' * port.many}" for port in ports)
        for ports in (operator.inputs, operator.outputs)
    )
    words = {name: word for word, name in PROPERTIES.items()}
    properties = [
        f"{words[name]}: yes;"
        for name in ("reentrant", "parallelizable", "io", "conditional")
        if getattr(operator, name)
    ]
    properties += ["BLOCKING: yes;"] * (operator.kind == "B")
    properties += [f"GRANULARITY: {operator.granularity};"] * bool(operator.granularity)
    return f"OPERATOR {operator.name} {{ INPUT: {inputs}; OUTPUT: {outputs}; {' '.join(properties)} }}"


def element_of(source: PlanSource, text: str) -> bytes:
    """The element for a plan in memory: its bundle, with its name."""
    root = etree.Element("dataflow", {"name": source.syntax.name, "group": source.place.group})
    root.text = text
    return canonical(root)
