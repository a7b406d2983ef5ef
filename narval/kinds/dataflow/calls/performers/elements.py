"""The operator elements: elements of memory as tuples."""

from __future__ import annotations

from narval.kinds.dataflow.calls.performers.performing import FlowAnswer, Give
from narval.kinds.dataflow.calls.performers.tools import FlowTools
from narval.kinds.dataflow.engine.network.batches import FlowError, TupleBatch
from narval.kinds.dataflow.engine.network.requests import OperatorRequest

ELEMENT = ("id", "name", "content")


class Elements:
    """Give the elements of memory that match a pattern, as they are then."""

    def __init__(self, tools: FlowTools, request: OperatorRequest) -> None:
        self._elements = tools.elements

    async def perform(self, request: OperatorRequest, give: Give) -> None:
        """Look for elements."""
        if self._elements is None:
            raise FlowError("no-memory", "there is no memory without a home: start it with narval start")
        rows = [tuple(found) for found in await self._elements(str(request.arguments["pattern"]))]
        if rows:
            await give(FlowAnswer(TupleBatch(ELEMENT, rows)))
