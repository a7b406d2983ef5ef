"""The operation `history`: the journal of a run as lines (surfaces, "history")."""

from __future__ import annotations

from typing import Any

from narval.engines.engine import Conceals
from narval.errors import UnreadableError
from narval.operations.json_forms import moment
from narval.operations.lookup import find_run
from narval.operations.registry import operation
from narval.runtime.daemon.daemon import Daemon
from narval.runtime.store import codec
from narval.runtime.store.batch import JournalRow
from narval.runtime.store.store import AgentStore
from narval.source.secrets import hide_secrets


@operation("read")
async def history(daemon: Daemon, run: int, after: int = 0, wait: float = 0.0) -> list[dict[str, Any]]:
    """The events of a run after a number, in order; `wait` seconds for one if there is none yet."""
    found = find_run(daemon, run)
    shown = lines(daemon.agent.store, found.eid, after)
    while not shown and wait > 0 and found.active:
        known = found.entries
        wait = await daemon.host.turned(wait)
        if found.entries != known or not found.active:
            shown = lines(daemon.agent.store, found.eid, after)
    engine = found.engine
    if isinstance(engine, Conceals) and found.active:
        return [engine.conceal(found.definition, found.state, line) for line in shown]
    return shown


def lines(store: AgentStore, run: int, after: int = 0) -> list[dict[str, Any]]:
    """The lines of a run after a number, in order: `{"seq", "at", "run", "what", …}`; secrets are hidden."""
    found = []
    for row in store.journal(run):
        for line in _described(row):
            if line["seq"] > after:
                line["at"] = moment(line["at"])
                if "agent" in line:  # that of a call; `agent` is the one whose run this is
                    line["of"] = line.pop("agent")
                found.append(hide_secrets(line))
    return found


def _described(row: JournalRow) -> list[dict[str, Any]]:
    """An entry as lines; for one that cannot be read, a line that says so."""
    try:
        return codec.describe_entry(row.data, row.run, row.seq)
    except UnreadableError as error:
        return [{"seq": row.seq, "at": row.at, "run": row.run, "what": "Unreadable", "message": str(error)}]
