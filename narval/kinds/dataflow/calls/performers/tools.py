"""The tools that outside operators are given, and the record of their work.

Work that is finished is not done again (T23, TA22, TA23). A piece of work is identified by the frame, the
operator, its input, and the number of equal pieces before it. So two equal values are two messages, but a
retry, or a restart after a crash, sends none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from narval.core.memory.labels import FILE
from narval.files.outside.sources import FlowSource
from narval.kinds.dataflow.calls.documents import NumberReader
from narval.kinds.dataflow.calls.messages import Sender
from narval.kinds.dataflow.calls.performers.performing import FlowAnswer, Performer, UserCode
from narval.kinds.dataflow.calls.results import MOST_KEPT, SessionResults, encoded
from narval.kinds.dataflow.calls.web import Web
from narval.kinds.dataflow.engine.network.batches import Relation
from narval.kinds.dataflow.engine.network.requests import OperatorRequest


class FlowTools(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of the performers of one session."""

    code: UserCode
    """The code of modules."""
    results: SessionResults
    """The results of the session."""
    web: Web
    show: Callable[[str], None]
    """Shows a line to the user."""
    sources: Mapping[str, FlowSource] = {}
    """The sources of the settings."""
    senders: Mapping[str, Sender] = {}
    """The senders, by address prefix."""
    home: Path | None = None
    """The base folder of relative paths."""
    elements: Callable[[str], list[tuple[int, str, str]]] | None = None
    """Looks up the elements of memory that match a pattern: eid, name and text."""
    labels: set[str] = msgspec.field(default_factory=set)
    """The labels of everything the session has received from outside and from memory."""
    of_file: Callable[[Path], None] | None = None
    """Adds the labels of a file that narval wrote. Raises ActionError if the session may not read it."""
    to_write: Callable[[Path], Awaitable[None]] | None = None
    """Records the labels of a file that is about to be written."""
    numbers: NumberReader = msgspec.field(default_factory=NumberReader)
    """Reads the numbers of the session."""

    def note_read(self, path: Path) -> None:
        """Note the labels of a file that is read. Raises ActionError if the session may not read it."""
        self.labels.add(FILE)
        if self.of_file is not None:
            self.of_file(path)

    async def note_write(self, path: Path) -> None:
        """Note the labels of a file that is about to be written."""
        if self.to_write is not None:
            await self.to_write(path)


class WorkRecord:
    """The record of work for a session, in one instance of an operator."""

    def __init__(self, results: SessionResults, request: OperatorRequest) -> None:
        self._results = results
        self._place = f"{request.frame} {request.call.key}"
        self._before: Counter[str] = Counter()

    def key(self, *parts: Any) -> str:
        """The key of the next piece of work with this input."""
        text = msgspec.json.encode([self._place, *parts])
        digest = blake2b(text, digest_size=16).hexdigest()
        self._before[digest] += 1
        return f"{digest}.{self._before[digest]}"

    async def answers(self, key: str) -> list[FlowAnswer] | None:
        """The answers of finished work; None if it is not finished."""
        return (await self._results.done([key])).get(key)


class Recorded:
    """A performer that records its answers and unreadable texts, and repeats them if known."""

    def __init__(self, performer: Performer, tools: FlowTools, request: OperatorRequest) -> None:
        self._performer, self._record = performer, WorkRecord(tools.results, request)
        self._results, self._numbers = tools.results, tools.numbers

    async def perform(self, request: OperatorRequest) -> AsyncGenerator[FlowAnswer]:
        """Answer from the record, or perform and record."""
        rows = request.batch.rows if request.batch is not None else []
        arguments = {name: _plain(value) for name, value in request.arguments.items()}
        key = self._record.key(request.phase, request.port, request.at, sorted(arguments.items()), rows)
        earlier = await self._record.answers(key)
        if earlier is not None:
            self._numbers.put(key, await self._results.unread(key))
            for answer in earlier:
                yield answer
            return
        recorded, size = list[bytes](), 0
        async with aclosing(self._performer.perform(request)) as answers:
            async for answer in answers:
                part = encoded(answer)
                size += len(part)
                if size <= MOST_KEPT:
                    recorded.append(part)
                else:
                    recorded.clear()  # an endless stream is not collected
                yield answer
        if size <= MOST_KEPT:
            await self._results.record(key, recorded, self._numbers.take(request.id, key))


def _plain(value: Any) -> Any:
    """An argument in the form used in keys."""
    if isinstance(value, Relation):
        return [(batch.schema, batch.rows) for batch in value.batches()]
    return value if isinstance(value, str | int | float | None) else str(value)
