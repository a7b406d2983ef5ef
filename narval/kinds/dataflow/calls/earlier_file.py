"""The file that held the results of dataflows before the home's store did; it is imported once.

Each agent of the home imports everything that dataflows remembered, as names belonged to the home, and the
results of its own running sessions.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import msgspec

from narval.kinds.dataflow.calls.results import (
    DONE,
    SIGHTS,
    TELLING,
    ResultChange,
    SeenItem,
    row_of,
    told_scope,
)
from narval.kinds.dataflow.calls.web import pages_file
from narval.store.batch import ResultRow
from narval.store.store import AgentStore

_TAKEN = "dataflows"
"""The scope that records the import."""


async def take_over(
    store: AgentStore,
    agent: str,
    home: Path | None,
    write: Callable[[ResultChange], Awaitable[None]],
) -> None:
    """Import the file of a home for an agent, by its id, unless that is already done."""
    path = None if home is None else pages_file(home)
    if path is None or not path.exists():
        return
    if not await asyncio.to_thread(store.results, _TAKEN):
        change = await asyncio.to_thread(_change, path, agent)
        if change is not None:
            await write(change)


def _change(path: Path, agent: str) -> ResultChange | None:
    """The results in the file, and the record of their import; None for a file that never had any."""
    with closing(sqlite3.connect(path)) as database:
        if database.execute("SELECT 1 FROM sqlite_master WHERE name = 'seen'").fetchone() is None:
            return None
        rows = [ResultRow(_TAKEN, path.name, 0.0, b"")]
        for name, key, first, last, data in database.execute("SELECT name, key, first, last, data FROM seen"):
            rows.append(row_of(name, SeenItem(key, first, last, data)))
        mine = (f"{agent} ", f"{agent}!")
        text = "SELECT session, key, data FROM results WHERE session BETWEEN ? AND ?"
        for session, key, data in database.execute(text, mine):
            rows.append(ResultRow(DONE + session, key, 0.0, data))
        text = "SELECT session, frame, name, key, first, last, data FROM sights WHERE session BETWEEN ? AND ?"
        for session, frame, name, key, first, last, data in database.execute(text, mine):
            place = msgspec.json.encode((name, key)).decode()
            sight = msgspec.json.encode((frame, first, msgspec.Raw(data)))
            rows.append(ResultRow(SIGHTS + session, place, last, sight))
        text = (
            "SELECT rowid, dataflow, message, session FROM told WHERE session = '' OR session BETWEEN ? AND ?"
        )
        for number, dataflow, message, session in database.execute(text, mine):
            scope = told_scope(dataflow)
            if session:
                data = msgspec.json.encode((scope, message))
                rows.append(ResultRow(TELLING + session, f"{number}", 0.0, data))
            else:
                rows.append(ResultRow(scope, f"{number}", 0.0, message.encode()))
        return ResultChange(rows)
