"""The desk: who does the work of operators outside, by their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from narval.kinds.dataflow.calls.performers.functions import CodeOperator, FunctionOperator
from narval.kinds.dataflow.calls.performers.performing import Give, Performer
from narval.kinds.dataflow.calls.performers.recording import Recorded, WorkRecord
from narval.kinds.dataflow.calls.performers.tools import FlowTools
from narval.kinds.dataflow.engine.network.batches import FlowError, text_of, tuple_text
from narval.kinds.dataflow.engine.network.requests import OperatorRequest


class Print:
    """Show each value."""

    def __init__(self, tools: FlowTools, request: OperatorRequest) -> None:
        self._show = tools.show

    async def perform(self, request: OperatorRequest, give: Give) -> None:
        """Show the tuples of a request."""
        if request.batch is not None:
            schema, rows, _ = request.batch
            for row in rows:
                self._show(tuple_text(schema, row))


class Sleep:
    """Let time pass."""

    def __init__(self, tools: FlowTools, request: OperatorRequest) -> None:
        self._sleep = tools.sleep

    async def perform(self, request: OperatorRequest, give: Give) -> None:
        """Wait for at least so many milliseconds."""
        text = text_of(request.arguments["ms"])
        try:
            seconds = float(text) / 1000
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds < 1e9:
            raise FlowError("wrong-text", f"expected a number of milliseconds, found {text!r:.80}")
        await self._sleep(seconds)


MakePerformer = Callable[[FlowTools, OperatorRequest], Performer]


def _from(module: str, name: str) -> MakePerformer:
    """The maker of a performer that is imported when it is first needed."""

    def make(tools: FlowTools, request: OperatorRequest) -> Performer:
        made: Performer = getattr(import_module(f"{__package__}.{module}"), name)(tools, request)
        return made

    return make


_FUNCTIONS = ("apply", "filter", "fold", "formatrelation", "makestream", "map", "partition")

PERFORMERS: Mapping[str, MakePerformer] = {
    **dict.fromkeys(_FUNCTIONS, lambda tools, request: FunctionOperator(tools.code, request)),
    "extract": _from("extract", "Extract"),
    **dict.fromkeys(
        ("query", "query2", "importrelation", "exportrelation", "exportrelation2"),
        _from("databases", "Databases"),
    ),
    "elements": _from("elements", "Elements"),
    "listen": _from("listening", "Listen"),
    "notify": _from("notifying", "Notify"),
    "remember": _from("remembering", "Remember"),
    "retrieve": _from("sources", "Retrieve"),
    "fetch": _from("fetching", "FetchPages"),
    "print": Print,
    "sleep": Sleep,
}
"""The performers of the operators of the table, by name; others are of modules."""


_RECORD_THEMSELVES = frozenset({"notify", "remember", "listen"})
"""The operators that record what they have done, tuple by tuple."""


class Desk:
    """Hires performers."""

    def __init__(self, tools: FlowTools) -> None:
        self._tools = tools

    def hire(self, request: OperatorRequest) -> Performer:
        """The performer for the instance that a request is of."""
        operator = request.call.operator
        make = PERFORMERS.get(operator.name)
        if make is not None:
            performer = make(self._tools, request)
        else:
            performer = CodeOperator(self._tools.code, request)
        if not operator.io or operator.name in _RECORD_THEMSELVES:
            return performer
        return Recorded(performer, WorkRecord(self._tools.store, self._tools.session, request))
