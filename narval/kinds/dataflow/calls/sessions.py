"""Sessions of dataflows: a transaction is driven to its end, and what it saw counts if that is good (T49)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from narval.kinds.dataflow.calls.driver import FlowDriver, FlowInput, Show
from narval.kinds.dataflow.calls.performers.desk import Desk
from narval.kinds.dataflow.calls.performers.tools import FlowTools
from narval.kinds.dataflow.engine.network.batches import Relation
from narval.kinds.dataflow.engine.network.requests import TransactionOver
from narval.kinds.dataflow.engine.network.transaction import Network
from narval.kinds.dataflow.language.definition import DataflowDefinition


async def drive_session(
    network: Network,
    tools: FlowTools,
    show: Show,
    inputs: Mapping[str, FlowInput],
    ttl: float | None = None,
) -> TransactionOver:
    """Drive a session to its end. What it saw is remembered only if it ended well."""
    with tools.store.under_way(tools.session):
        over = await FlowDriver(network, Desk(tools).hire, show, ttl).drive(inputs)
        if tools.dataflow and over.state == "done":
            tools.store.remember(tools.session, tools.dataflow, network.frames.void)
        return over


def remembering(definition: DataflowDefinition, inputs: Mapping[str, FlowInput]) -> str:
    """The name of a dataflow that remembers, with the values that it is given; "" for one that does not."""
    calls = (call for graph in definition.graphs.values() for call in graph.calls)
    if not any(call.operator.name == "remember" for call in calls):
        return ""
    values = {name: value for name, value in sorted(inputs.items()) if not isinstance(value, Relation)}
    return f"{definition.full_name} {msgspec.json.encode(values).decode()}"
