"""The flow of dataflows. Tuples are not traced, so all results contain everything a session has read."""

from __future__ import annotations

from collections.abc import Iterator

from narval.core.definitions.library import Library
from narval.core.engines.commands import FLOW
from narval.core.errors import PatternError
from narval.core.memory.labels import FILE, PROGRAM, WEB
from narval.core.patterns.pattern import Condition, condition
from narval.core.trust.flow import CallFlow, Flow, InMemory
from narval.kinds.dataflow.language.definition import DataflowDefinition, FixedValue, OperatorCall

_LABELS = {
    "retrieve": (FILE, WEB),
    "query": (FILE,),
    "importrelation": (FILE,),
    "fetch": (WEB,),
    "listen": (PROGRAM,),
}
"""The labels of data that operators bring in."""

_OWN = condition("relation | value | plan_input")
"""The elements that a session gives, and that it is given."""


def flow(dataflow: DataflowDefinition, library: Library) -> Flow:
    """The paths of elements through a dataflow: all, if its calls are only known in a session."""
    calls = [call for graph in dataflow.graphs.values() for call in graph.calls]
    if not dataflow.graphs or any(call.operator.name == "subplan" for call in calls):
        labels = frozenset((FILE, PROGRAM, WEB))
        return Flow(holds=(InMemory(None),), makes=(None,), labels=labels, writes_files=True)
    brought = (label for call in calls for label in _LABELS.get(call.operator.name, ()))
    makes = (_OWN, None) if any(call.operator.name == "notify" for call in calls) else (_OWN,)
    outside = next((call for call in calls if call.goes_outside), None)
    session = () if outside is None else (_session(dataflow, outside),)
    return Flow(
        session,
        tuple(_read(calls)),
        makes=makes,
        labels=frozenset(brought),
        writes_files=any(map(_may_write, calls)),
    )


def _session(dataflow: DataflowDefinition, outside: OperatorCall) -> CallFlow:
    """A session, as a call that goes outside through an operator."""
    return CallFlow(outside.operator.name, FLOW, dataflow.full_name, outside.line)


def _may_write(call: OperatorCall) -> bool:
    """True if an operator writes a database, or may send a message to a file."""
    if call.operator.name == "notify":
        address = call.arguments.get("dest")
        return not isinstance(address, FixedValue) or str(address.value).strip().lower().startswith("file:")
    return call.operator.name in ("query2", "exportrelation", "exportrelation2")


def _read(calls: list[OperatorCall]) -> Iterator[InMemory]:
    """The elements of memory that it reads."""
    for call in calls:
        if call.operator.name == "elements":
            yield InMemory(_fixed(call))


def _fixed(call: OperatorCall) -> Condition | None:
    """The pattern in the file; None if it is only known in a run."""
    pattern = call.arguments.get("pattern")
    try:
        return condition(str(pattern.value)) if isinstance(pattern, FixedValue) else None
    except PatternError:
        return None
