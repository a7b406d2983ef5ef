"""Small operators: print, sleep, elements, fetch and notify."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from hashlib import blake2b

from narval.core.memory.labels import WEB
from narval.kinds.dataflow.calls.documents import document_of
from narval.kinds.dataflow.calls.messages import FlowMessage, file_named
from narval.kinds.dataflow.calls.performers.performing import FlowAnswer
from narval.kinds.dataflow.calls.performers.tools import FlowTools, WorkRecord
from narval.kinds.dataflow.engine.network.batches import FlowError, TupleBatch, text_of, tuple_text
from narval.kinds.dataflow.engine.network.requests import OperatorRequest

ELEMENT = ("id", "name", "content")
OF_A_HOME = ("mailto", "element")
"""The schemes of addresses for which `notify` needs a run of a home."""
FETCHED = ("url", "status", "type", "content")


class Print:
    """Show each value."""

    def __init__(self, tools: FlowTools, request: OperatorRequest) -> None:
        self._show = tools.show

    async def perform(self, request: OperatorRequest) -> AsyncGenerator[FlowAnswer]:
        """Show the tuples of a request."""
        if request.batch is not None:
            schema, rows, _ = request.batch
            for row in rows:
                self._show(tuple_text(schema, row))
        return
        yield  # it answers nothing


class Sleep:
    """Wait for a given time."""

    def __init__(self, tools: FlowTools, request: OperatorRequest) -> None:
        """Need no tools."""

    async def perform(self, request: OperatorRequest) -> AsyncGenerator[FlowAnswer]:
        """Wait for at least the given milliseconds."""
        text = text_of(request.arguments["ms"])
        try:
            seconds = float(text) / 1000
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds < 1e9:
            raise FlowError("wrong-text", f"expected a number of milliseconds, found {text!r:.80}")
        await asyncio.sleep(seconds)
        return
        yield  # it answers nothing


class Elements:
    """Give the current elements of memory that match a pattern."""

    def __init__(self, tools: FlowTools, request: OperatorRequest) -> None:
        self._elements = tools.elements

    async def perform(self, request: OperatorRequest) -> AsyncGenerator[FlowAnswer]:
        """Look up elements."""
        if self._elements is None:
            raise FlowError("no-memory", "there is no memory without a home: start it with narval start")
        rows: list[tuple[object, ...]] = [*self._elements(str(request.arguments["pattern"]))]
        if rows:
            yield FlowAnswer(TupleBatch(ELEMENT, rows))


class Fetch:
    """Give the page of a URL, whatever its status."""

    def __init__(self, tools: FlowTools, request: OperatorRequest) -> None:
        self._web, self._labels = tools.web, tools.labels

    async def perform(self, request: OperatorRequest) -> AsyncGenerator[FlowAnswer]:
        """Fetch the page of a request."""
        url = str(request.arguments["url"]).strip()
        if not url:
            raise FlowError("bad-address", "expected the address of a page, found an empty text")
        self._labels.add(WEB)
        page = await self._web.page(url)
        row = (url, page.status, page.type, page.content)
        yield FlowAnswer(TupleBatch(FETCHED, [row]))


class Notify:
    """Send each value once; a tuple without any value is not sent."""

    def __init__(self, tools: FlowTools, request: OperatorRequest) -> None:
        self._tools = tools
        self._record = WorkRecord(tools.results, request)
        self._dest = str(request.arguments["dest"]).strip()
        scheme = self._dest.partition(":")[0].lower()
        self._element = self._dest.partition(":")[2] if scheme == "element" else "tuple"
        sender = tools.senders.get(scheme)
        if sender is None and scheme in OF_A_HOME:
            how = "start it in a home (narval start), or give a file: address to see the messages"
            raise FlowError("bad-address", f"nothing is sent to {scheme}: in the foreground; {how}")
        if sender is None:
            kinds = ", ".join(f"{name}:" for name in sorted(tools.senders)) or "none"
            raise FlowError("bad-address", f"expected an address ({kinds}), found {self._dest[:80]!r}")
        self._send = sender
        self._file = tools.home / file_named(self._dest) if scheme == "file" and tools.home else None

    async def perform(self, request: OperatorRequest) -> AsyncGenerator[FlowAnswer]:
        """Send the values of a request."""
        if request.batch is None:
            return
        schema, rows, _ = request.batch
        for row in rows:
            if all(value is None for value in row):
                continue
            end = max(at for at, value in enumerate(row, 1) if value is not None)
            key = self._record.key(self._dest, row[:end])  # whether later attributes exist depends on batches
            if await self._record.answers(key) is None:
                text, document = tuple_text(schema, row), document_of(schema, row, self._element)
                await self._tell(FlowMessage(self._dest, text, document, key))
        return
        yield  # it answers nothing

    async def _tell(self, message: FlowMessage) -> None:
        """Send a message, unless an unsuccessful session already sent it, and record it as told."""
        results = self._tools.results
        text = blake2b(f"{message.dest}\n{message.text}".encode(), digest_size=16).hexdigest()
        before = await results.told_before(text)
        if before is None and self._file is not None:
            await self._tools.note_write(self._file)
        in_turn = await self._send(message) if before is None else None
        await results.tell(message.key, text, before, in_turn)
