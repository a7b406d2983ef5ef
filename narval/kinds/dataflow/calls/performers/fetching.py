"""The operator fetch: the page of a URL."""

from __future__ import annotations

from narval.kinds.dataflow.calls.performers.performing import FlowAnswer, Give
from narval.kinds.dataflow.calls.performers.tools import FlowTools
from narval.kinds.dataflow.engine.network.batches import FlowError, TupleBatch
from narval.kinds.dataflow.engine.network.requests import OperatorRequest

FETCHED = ("url", "status", "type", "content")


class FetchPages:
    """Give the page of a URL, of any status."""

    def __init__(self, tools: FlowTools, request: OperatorRequest) -> None:
        self._tools = tools

    async def perform(self, request: OperatorRequest, give: Give) -> None:
        """Fetch the page of a request."""
        url = str(request.arguments["url"]).strip()
        if not url:
            raise FlowError("bad-address", "expected the address of a page, found an empty text")
        page = await self._tools.web.page(url)
        row = (url, page.status, page.type, page.content)
        await give(FlowAnswer(TupleBatch(FETCHED, [row])))
