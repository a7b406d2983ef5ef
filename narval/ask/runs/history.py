"""The operation `history`: the journal of a run as lines (surfaces, "history")."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from narval.agent.run import Run
from narval.ask.json_forms import moment
from narval.ask.lookup import find_run
from narval.ask.paging import gathered
from narval.ask.registry import operation
from narval.core.engines.engine import concealing
from narval.core.errors import RequestError, UnreadableError
from narval.core.source.secrets import hide_secrets
from narval.daemon.daemon import Daemon
from narval.store import codec
from narval.store.batch import JournalRow
from narval.store.store import AgentStore

NEWEST = 2**63 - 1
"""A number above that of any line."""


AT_ONCE = 50
"""The entries read at once for the newest lines; most entries have several lines."""


@operation("read")
async def history(
    daemon: Daemon,
    run: int,
    after: int = 0,
    wait: float = 0.0,
    before: int | None = None,
    limit: int | None = None,
) -> list[dict[str, Any]]:
    """The lines of a run after a number, in order; waits `wait` seconds for one if there is none yet.

    With `limit` the newest, newest first; with `before` those of lower numbers. The cost of such a page
    does not depend on the length of the history (M86).
    """
    the_run = find_run(daemon, run)
    if limit is not None or before is not None:
        if after or (limit is not None and limit < 1):
            raise RequestError("expected limit to be 1 or more, and no after along with limit or before")
        pages = newest(daemon.agent.store, the_run.eid, NEWEST if before is None else before)
        return concealed(the_run, await gathered(pages, limit))
    page = await gathered(lines(daemon.agent.store, the_run.eid, after), None)
    while not page and wait > 0 and the_run.active:
        entries = the_run.entries
        wait = await daemon.host.turned(wait)
        if the_run.entries != entries or not the_run.active:
            page = await gathered(lines(daemon.agent.store, the_run.eid, after), None)
    return concealed(the_run, page)


def concealed(run: Run, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lines without what their run hides from viewers while it is active (P27)."""
    engine = concealing(run.engine) if run.active else None
    if engine is not None:
        return [engine.conceal(run.definition, run.state, line) for line in lines]
    return lines


def lines(store: AgentStore, run: int, after: int = 0) -> Iterator[dict[str, Any]]:
    """The lines of a run after a number, read lazily: `{"seq", "at", "run", "what", …}`, without secrets."""
    begun = store.journal(run, before=after + 1, most=1) if after > 0 else ()  # its last lines may be later
    for row in chain(begun, store.journal(run, after)):
        yield from (line for line in lines_of(row) if line["seq"] > after)


def newest(store: AgentStore, run: int, before: int = NEWEST) -> Iterator[dict[str, Any]]:
    """The lines of a run before a number, the newest first, read lazily."""
    while rows := list(store.journal(run, before=before, most=AT_ONCE)):
        for row in rows:
            yield from (line for line in reversed(lines_of(row)) if line["seq"] < before)
        before = rows[-1].seq


def lines_of(row: JournalRow) -> list[dict[str, Any]]:
    """An entry as lines; an unreadable one becomes a line that says so."""
    try:
        described = codec.describe_entry(row.data, row.run, row.seq)
    except UnreadableError as error:
        why = {"what": "Unreadable", "message": str(error)}
        described = [{"seq": row.seq, "at": row.at, "run": row.run, **why}]
    at = moment(described[0]["at"])
    return [_line_form(line, at) for line in described]


def _line_form(line: dict[str, Any], at: str | None) -> dict[str, Any]:
    line["at"] = at
    if "agent" in line:  # the agent that a call is for; `agent` must name that of this run
        line["of"] = line.pop("agent")
    form: dict[str, Any] = hide_secrets(line)
    return form
