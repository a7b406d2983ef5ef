"""Sessions of dataflows: the performers of outside operators, and a transaction driven to its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module

import msgspec

from narval.files.outside.sources import FlowLimits
from narval.kinds.dataflow.calls.driver import FlowDriver, FlowInput, Show
from narval.kinds.dataflow.calls.performers.functions import CodeOperator, FunctionOperator
from narval.kinds.dataflow.calls.performers.performing import Performer
from narval.kinds.dataflow.calls.performers.small import Elements, Fetch, Notify, Print, Sleep
from narval.kinds.dataflow.calls.performers.tools import FlowTools, Recorded
from narval.kinds.dataflow.engine.network.batches import FlowError, MemoryAlone, Relation, Spill
from narval.kinds.dataflow.engine.network.requests import (
    FlowListener,
    FlowSettings,
    OperatorRequest,
    TransactionOver,
)
from narval.kinds.dataflow.engine.network.transaction import Network
from narval.kinds.dataflow.language.definition import DataflowDefinition

MakePerformer = Callable[[FlowTools, OperatorRequest], Performer]


def _from(module: str, name: str) -> MakePerformer:
    """The maker of a performer that is imported on first use."""

    def make(tools: FlowTools, request: OperatorRequest) -> Performer:
        made: Performer = getattr(import_module(f"{_PERFORMERS}.{module}"), name)(tools, request)
        return made

    return make


_PERFORMERS = "narval.kinds.dataflow.calls.performers"
_FUNCTIONS = ("apply", "filter", "fold", "formatrelation", "makestream", "map", "partition")

PERFORMERS: Mapping[str, MakePerformer] = {
    **dict.fromkeys(_FUNCTIONS, FunctionOperator),
    "extract": _from("extract", "Extract"),
    **dict.fromkeys(
        ("query", "query2", "importrelation", "exportrelation", "exportrelation2"),
        _from("databases", "Databases"),
    ),
    "elements": Elements,
    "listen": _from("listening", "Listen"),
    "notify": Notify,
    "remember": _from("remembering", "Remember"),
    "retrieve": _from("sources", "Retrieve"),
    "fetch": Fetch,
    "print": Print,
    "sleep": Sleep,
}
"""The performers of the operators of the table, by name; all others are operators of modules."""

_RECORD_THEMSELVES = frozenset({"notify", "remember", "listen"})
"""The operators that record their finished work themselves, tuple by tuple."""


def performer(tools: FlowTools, request: OperatorRequest) -> Performer:
    """The performer for the instance that a request belongs to."""
    operator = request.call.operator
    made = PERFORMERS.get(operator.name, CodeOperator)(tools, request)
    if not operator.io or operator.name in _RECORD_THEMSELVES:
        return made
    return Recorded(made, tools, request)


def check_spilling(definition: DataflowDefinition, limits: FlowLimits) -> None:
    """Raise FlowError for a dataflow that could get stuck without disk space, if it may use none (TA41)."""
    calls = [(graph, call) for graph in definition.graphs.values() for call in graph.calls if call.spills]
    for graph, call in calls if not limits.spill else ():
        why = "what waits there comes from the source that it waits for, and may not go to disk"
        place = f"{call.operator.name} of {graph.full_name}, line {call.line}"
        raise FlowError("would-spill", f"{place}: {why}; allow it by spill = true in [dataflows]")


def bounds(limits: FlowLimits, disk: Spill, listener: FlowListener | None = None) -> FlowSettings:
    """The bounds of a transaction, with disk space if it may use any, and its listener."""
    spill = disk if limits.spill else MemoryAlone()
    return FlowSettings(limits.depth, limits.frames, limits.restarts, spill=spill, listener=listener)


async def drive_session(
    network: Network,
    tools: FlowTools,
    show: Show,
    inputs: Mapping[str, FlowInput],
    ttl: float | None = None,
    moved: Callable[[], None] | None = None,
) -> TransactionOver:
    """Drive a session to its end. Only the change for a successful end makes it remember what it saw. `moved`
    is called when it may have made progress.
    """
    await tools.results.begin(network.frames.is_void)
    return await FlowDriver(network, partial(performer, tools), show, ttl, moved).drive(inputs)


def remembering(definition: DataflowDefinition, inputs: Mapping[str, FlowInput]) -> str:
    """The name of a dataflow that remembers, with its input values; "" for one that does not."""
    calls = (call for graph in definition.graphs.values() for call in graph.calls)
    if not any(call.operator.name == "remember" for call in calls):
        return ""
    values = {name: value for name, value in sorted(inputs.items()) if not isinstance(value, Relation)}
    return f"{definition.full_name} {msgspec.json.encode(values).decode()}"
