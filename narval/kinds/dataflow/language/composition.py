"""Composition: adds to dataflows the graphs of plans in other files that they call, and operators of modules.

Whenever a library is made, dataflows that need other parts of it are compiled again. So a dataflow that calls
a changed plan is a new version. Its `xml` contains everything that it needs, which makes it whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import cast

import msgspec

from narval.core.definitions.library import Library, Reference
from narval.core.errors import Fault
from narval.kinds.dataflow.language.bundle import bundled, element_of
from narval.kinds.dataflow.language.compiling.compiler import Compiled, compile_plans
from narval.kinds.dataflow.language.compiling.optimiser import optimised
from narval.kinds.dataflow.language.compiling.vocabulary import PlanVocabulary, vocabulary_of
from narval.kinds.dataflow.language.definition import (
    SOURCE_PORTS,
    DataflowDefinition,
    DataflowGraph,
    FixedValue,
)
from narval.kinds.dataflow.language.operators import OPERATOR_TABLE, Operator


def compose_all(library: Library) -> tuple[Library, list[Fault]]:
    """Complete a library's dataflows as far as possible; return the library, and the faults of the others.

    Missing plans are faults of references (`library.check_targets`).
    """
    found = [cast("DataflowDefinition", one) for one in library.of(DataflowDefinition.kind).values()]
    drafts = [one for one in found if one.draft is not None]
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
