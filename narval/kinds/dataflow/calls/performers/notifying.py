"""The operator notify: each value to a mail, a file, a web address or an element of memory (T60, TA22)."""

from __future__ import annotations

from hashlib import blake2b

from narval.kinds.dataflow.calls.documents import document_of
from narval.kinds.dataflow.calls.performers.performing import Give
from narval.kinds.dataflow.calls.performers.recording import WorkRecord
from narval.kinds.dataflow.calls.performers.tools import FlowTools
from narval.kinds.dataflow.calls.sending import FlowMessage
from narval.kinds.dataflow.engine.network.batches import FlowError, tuple_text
from narval.kinds.dataflow.engine.network.requests import OperatorRequest


class Notify:
    """Send each value, once."""

    def __init__(self, tools: FlowTools, request: OperatorRequest) -> None:
        self._tools = tools
        self._record = WorkRecord(tools.store, tools.session, request)
        self._dest = str(request.arguments["dest"]).strip()
        scheme = self._dest.partition(":")[0].lower()
        self._element = self._dest.partition(":")[2] if scheme == "element" else "tuple"
        sender = tools.senders.get(scheme)
        if sender is None:
            known = ", ".join(f"{name}:" for name in sorted(tools.senders)) or "none"
            raise FlowError("bad-address", f"expected an address ({known}), found {self._dest[:80]!r}")
        self._send = sender

    async def perform(self, request: OperatorRequest, give: Give) -> None:
        """Send the values of a request."""
        if request.batch is None:
            return
        schema, rows, _ = request.batch
        for row in rows:
            key = self._record.key(self._dest, row)
            if self._record.answers(key) is None:
                text, document = tuple_text(schema, row), document_of(schema, row, self._element)
                await self._tell(FlowMessage(self._dest, text, document, key))

    async def _tell(self, message: FlowMessage) -> None:
        """Send a message, unless a session that did not end well has sent it, and record that it is told."""
        store, session, dataflow = self._tools.store, self._tools.session, self._tools.dataflow
        told = blake2b(f"{message.dest}\n{message.text}".encode(), digest_size=16).hexdigest()
        if not dataflow or not store.was_told(dataflow, told):
            await self._send(message)
        with store.together():
            self._record.done(message.key)
            if dataflow:
                store.tell(session, dataflow, told)
