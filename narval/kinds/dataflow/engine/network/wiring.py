"""The wiring of a dataflow's graphs: computed once, and shared by all transactions and frames."""

from __future__ import annotations

from collections import Counter, defaultdict

from narval.kinds.dataflow.engine.network.firing import WAIT, Key
from narval.kinds.dataflow.engine.network.operators.table import INNER_OPERATORS
from narval.kinds.dataflow.language.definition import (
    STREAMED,
    DataflowDefinition,
    DataflowGraph,
    OperatorCall,
)

CONTROL = frozenset({"void", "restart", "terminate"})
"""The operators that act on their own transaction."""


class GraphWiring:
    """The wiring of one graph.

    `streams` are the inputs of calls that take streams. `consumers` are the inputs that a datum goes to, by
    the index of their call, and `producers` the number of producers of a datum. A frame `restarts` after a
    temporary error. A frame that may void itself `holds` its output back until it ends.
    """

    def __init__(self, graph: DataflowGraph, graphs: dict[str, DataflowGraph], restarts: bool) -> None:
        self.graph = graph
        self.types = {name: datum.type for name, datum in graph.data.items()}
        self.types |= {datum.name: datum.type for datum in (*graph.inputs, *graph.outputs)}
        self.streams = [_streams(call, graphs) for call in graph.calls]
        self.consumers: dict[str, list[tuple[int, Key]]] = defaultdict(list)
        self.producers = Counter(datum.name for datum in graph.inputs)
        self.checked: set[str] = {datum.name for datum in graph.inputs}
        for place, call in enumerate(graph.calls):
            for port, at, ref in call.consumed:
                self.consumers[ref.name].append((place, (port, at)))
            for at, ref in enumerate(call.wait):
                self.consumers[ref.name].append((place, (WAIT, at)))
            named = [name for _, _, name in call.produced]
            self.producers.update([*named, *call.enabled])
            if call.operator.name not in INNER_OPERATORS or call.lifted or call.plan:
                self.checked.update(named)
        names = {call.operator.name for call in graph.calls}
        self.holds = "void" in names
        self.restarts = restarts
        self._behind: dict[int, frozenset[int]] = {}

    def behind(self, place: int) -> frozenset[int]:
        """The calls downstream of a call, by index."""
        if place not in self._behind:
            places, stack = set[int](), [place]
            while stack:
                for _, _, name in self.graph.calls[stack.pop()].produced:
                    new = {at for at, _ in self.consumers.get(name, ())} - places
                    places |= new
                    stack += new
            self._behind[place] = frozenset(places)
        return self._behind[place]


def is_outside(call: OperatorCall) -> bool:
    """Test whether a call works outside."""
    name = call.operator.name
    if call.plan or name in CONTROL:
        return False
    return name not in INNER_OPERATORS or (name == "formatrelation" and "fun" in call.arguments)


def _streams(call: OperatorCall, graphs: dict[str, DataflowGraph]) -> frozenset[str]:
    if call.plan:
        names = [datum.name for datum in graphs[call.plan].inputs if datum.type == STREAMED]
    else:
        names = [port.name for port in call.operator.inputs if port.type == STREAMED]
    return frozenset((*names, *call.lifted)) & call.arguments.keys()


class FlowPlan:
    """The wirings of a dataflow's graphs, by full name."""

    def __init__(self, definition: DataflowDefinition) -> None:
        self._graphs = dict(definition.graphs)
        self._wirings: dict[str, GraphWiring] = {}
        self.name = definition.full_name

    def of(self, name: str) -> GraphWiring:
        """The wiring of a graph."""
        if name not in self._wirings:
            self._wirings[name] = GraphWiring(self._graphs[name], self._graphs, self._restarts(name))
        return self._wirings[name]

    def _restarts(self, name: str) -> bool:
        """Test whether a graph, or a graph that it calls, has a restart or a call that works outside."""
        seen, stack = {name}, [name]
        while stack:
            for call in self._graphs[stack.pop()].calls:
                if call.operator.name == "restart" or is_outside(call):
                    return True
                if call.plan and call.plan not in seen:
                    seen.add(call.plan)
                    stack.append(call.plan)
        return False


def restarts_after(graph: DataflowGraph, void: OperatorCall) -> bool:
    """Test whether a call of void enables a call of restart: then the transaction restarts."""
    return any(
        call.operator.name == "restart" and any(ref.name in void.enable for ref in call.wait)
        for call in graph.calls
    )
