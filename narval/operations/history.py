"""The history of a run, as lines (surfaces, "history")."""

from __future__ import annotations

from typing import Any

from narval.errors import UnreadableError
from narval.operations.json_forms import moment
from narval.runtime.store import codec
from narval.runtime.store.batch import JournalRow
from narval.runtime.store.store import Store


def lines(store: Store, run: int, after: int = 0) -> list[dict[str, Any]]:
    """What happened in a run behind a number, in order: `{"seq", "at", "run", "what", …}`."""
    found = []
    for row in store.journal(run):
        for line in _described(row):
            if line["seq"] > after:
                line["at"] = moment(line["at"])
                found.append(line)
    return found


def _described(row: JournalRow) -> list[dict[str, Any]]:
    """An entry as lines; of one that cannot be read, that it was there."""
    try:
        return codec.describe_entry(row.data, row.run, row.seq)
    except UnreadableError as error:
        return [{"seq": row.seq, "at": row.at, "run": row.run, "what": "Unreadable", "message": str(error)}]
