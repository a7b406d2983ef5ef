"""The operator remember: what was seen before, and what has changed since (T49, T60)."""

from __future__ import annotations

from time import time
from typing import Any

import msgspec

from narval.core.definitions.reading.durations import read_duration
from narval.kinds.dataflow.calls.flow_store import encoded
from narval.kinds.dataflow.calls.performers.performing import FlowAnswer, Give
from narval.kinds.dataflow.calls.performers.recording import WorkRecord
from narval.kinds.dataflow.calls.performers.tools import FlowTools
from narval.kinds.dataflow.engine.network.batches import FlowError, TupleBatch, batch_of, position, text_of
from narval.kinds.dataflow.engine.network.requests import OperatorRequest

NEW, CHANGED, SAME = "new", "changed", "same"


class Remember:
    """Give tuples whose key was not seen to `new`, and to `changed` those that differ from what was seen.

    What was seen longer ago than `window` counts as not seen. What another session under way has seen is left
    to that one. What came of a tuple is recorded with its being seen, so a session that goes on after a crash
    takes the same ones for new. A request is committed as a whole, before anything of it is given.
    """

    def __init__(self, tools: FlowTools, request: OperatorRequest) -> None:
        self._store, self._session = tools.store, tools.session
        self._frame = request.frame
        self._record = WorkRecord(tools.store, tools.session, request)
        self._name = str(request.arguments["name"])
        key = request.call.parsed.get("key") or str(request.arguments["key"]).replace(" AND ", ",").split(",")
        self._key = tuple(str(name).strip() for name in key)
        window = str(request.arguments.get("window") or "")
        try:
            self._window = read_duration(window) if window else None
        except ValueError as error:
            raise FlowError("wrong-text", f"window: {error}") from None
        self._has_changed = request.call.outputs.get(CHANGED) is not None

    async def perform(self, request: OperatorRequest, give: Give) -> None:
        """Tell the tuples of a request apart."""
        if request.batch is None:
            return
        schema, rows, relation = request.batch
        places = [position(schema, name) for name in self._key]
        new, changed = [], []
        with self._store.together():
            for row in rows:
                fields = dict(zip(schema, row, strict=True))
                key = msgspec.json.encode([text_of(row[at]) for at in places]).decode()
                verdict, before = self._seen(key, fields)
                if verdict == NEW:
                    new.append(row)
                elif verdict == CHANGED:
                    was = {f"was_{name}": before.get(name) for name in schema if name not in self._key}
                    changed.append({**fields, **was})
        if new:
            await give(FlowAnswer(TupleBatch(schema, new, relation), NEW))
        if changed and self._has_changed:
            await give(FlowAnswer(batch_of(changed)._replace(relation=relation), CHANGED))

    def _seen(self, key: str, fields: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Judge a tuple; the verdict, and as what it was seen before."""
        work = self._record.key(key, sorted(fields.items()))
        known = self._record.answers(work)
        if known is not None:
            verdict, before = known[0].batch.rows[0]
            return str(verdict), msgspec.json.decode(str(before))
        if self._store.is_anothers(self._session, self._name, key):
            return SAME, {}
        now, item = time(), self._store.seen(self._session, self._name, key)
        if item is not None and self._window is not None and item.last + self._window < now:
            item = None
        was: dict[str, Any] = msgspec.json.decode(item.data) if item is not None else {}
        verdict = NEW if item is None else SAME if was == _plain(fields) else CHANGED
        answer = FlowAnswer(TupleBatch(("verdict", "before"), [(verdict, msgspec.json.encode(was).decode())]))
        data = msgspec.json.encode(fields)
        self._store.see(self._session, self._frame, self._name, key, now, data)
        self._record.done(work, [encoded(answer)])
        return verdict, was


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """A tuple as it is read again."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(fields))
    return plain
