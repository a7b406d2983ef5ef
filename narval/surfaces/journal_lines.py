"""The history of a run, as lines (surfaces, "history")."""

from __future__ import annotations

from typing import Any

from narval.runtime import codec
from narval.runtime.store import Store
from narval.surfaces.forms import moment


def lines(store: Store, run: int, after: int = 0) -> list[dict[str, Any]]:
    """What happened in a run behind a number, in order: `{"seq", "at", "run", "what", …}`."""
    found = []
    for row in store.journal(run):
        for line in codec.describe_entry(row.data, run, row.seq):
            if line["seq"] > after:
                line["at"] = moment(line["at"])
                found.append(line)
    return found
