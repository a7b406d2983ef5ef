"""The operator `remember`: what was seen before, and what has changed since (T49, T60)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from time import time
from typing import Any

import msgspec

from narval.core.definitions.reading.durations import read_duration
from narval.kinds.dataflow.calls.performers.performing import FlowAnswer
from narval.kinds.dataflow.calls.performers.tools import FlowTools, WorkRecord
from narval.kinds.dataflow.calls.results import SeenItem, encoded
from narval.kinds.dataflow.engine.network.batches import FlowError, Schema, TupleBatch, batch_of, text_of
from narval.kinds.dataflow.engine.network.requests import OperatorRequest

NEW, CHANGED, SAME = "new", "changed", "same"


class Remember:
    """Give tuples with unseen keys to `new`, and tuples that differ from the last sight to `changed`.

    Items last seen longer ago than `window` count as unseen. Items seen by another running session are left
    to that session. The result of a tuple is recorded together with its sight, so a session that continues
    after a crash reports the same tuples as new. A request is committed as a whole before any of its output.
    """

    def __init__(self, tools: FlowTools, request: OperatorRequest) -> None:
        self._results, self._frame, self._epoch = tools.results, request.frame, request.epoch
        self._record = WorkRecord(tools.results, request)
        self._name = str(request.arguments["name"])
        key = request.call.parsed.get("key") or str(request.arguments["key"]).replace(" AND ", ",").split(",")
        self._key = tuple(str(name).strip() for name in key)
        window = str(request.arguments.get("window") or "")
        try:
            self._window = read_duration(window) if window else None
        except ValueError as error:
            raise FlowError("wrong-text", f"window: {error}") from None
        self._has_changed = request.call.outputs.get(CHANGED) is not None

    async def perform(self, request: OperatorRequest) -> AsyncGenerator[FlowAnswer]:
        """Sort the tuples of a request."""
        if request.batch is None:
            return
        schema, rows, relation = request.batch
        tuples = self._tuples(schema, rows)
        results = await self._results.done([work for work, _, _ in tuples])
        seen = await self._results.remembered(
            self._name,
            [key for work, key, _ in tuples if work not in results and self._results.claim(self._name, key)],
        )
        new, changed, fresh, keys = [], [], dict[str, bytes](), []
        for row, (work, key, fields) in zip(rows, tuples, strict=True):
            if work in results:
                verdict, text = results[work][0].batch.rows[0]
                before: dict[str, Any] = msgspec.json.decode(str(text))
                self._see(key, fields, time())
            elif not self._results.claim(self._name, key):
                continue
            else:
                verdict, before = self._judge(key, fields, seen.get(key))
                answer = TupleBatch(("verdict", "before"), [(verdict, msgspec.json.encode(before).decode())])
                fresh[work] = b"[%b]" % encoded(FlowAnswer(answer))
                keys.append(key)
            if verdict == NEW:
                new.append(row)
            elif verdict == CHANGED:
                was = {f"was_{name}": before.get(name) for name in schema if name not in self._key}
                changed.append({**fields, **was})
        if fresh:
            await self._results.record_sights(fresh, self._name, keys)
        if new:
            yield FlowAnswer(TupleBatch(schema, new, relation), NEW)
        if changed and self._has_changed:
            yield FlowAnswer(batch_of(changed)._replace(relation=relation), CHANGED)

    def _tuples(self, schema: Schema, rows: list[Any]) -> list[tuple[str, str, dict[str, Any]]]:
        """For each tuple, the key of the work, the key of the item, and the fields."""
        tuples = []
        for row in rows:
            fields = {name: value for name, value in zip(schema, row, strict=True) if value is not None}
            key = msgspec.json.encode([text_of(fields.get(name)) for name in self._key]).decode()
            tuples.append((self._record.key(key, sorted(fields.items())), key, fields))
        return tuples

    def _judge(
        self, key: str, fields: dict[str, Any], earlier: SeenItem | None
    ) -> tuple[str, dict[str, Any]]:
        """Judge a tuple, and record its sight; return the verdict, and the tuple as last seen."""
        now, before = time(), self._results.seen(self._name, key) or earlier
        self._see(key, fields, now if before is None else before.first)
        if before is None or (self._window is not None and before.last + self._window < now):
            return NEW, {}
        last: dict[str, Any] = msgspec.json.decode(before.data)
        was = {name: value for name, value in last.items() if value is not None}
        return (SAME if was == _plain(fields) else CHANGED), was

    def _see(self, key: str, fields: dict[str, Any], first: float) -> None:
        item = SeenItem(key, first, time(), msgspec.json.encode(fields))
        self._results.see(self._frame, self._epoch, self._name, item)


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """A tuple as it would be read back."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(fields))
    return plain
