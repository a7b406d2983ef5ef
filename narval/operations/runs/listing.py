"""The operation `runs`: the runs there are."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from narval.engines.registry import listed_kinds
from narval.operations import json_forms
from narval.operations.paging import eids_of, gathered
from narval.operations.registry import operation
from narval.runtime.daemon.daemon import Daemon
from narval.runtime.store.page import RunsPage


def _page(arguments: Mapping[str, Any]) -> RunsPage | None:
    """The page of runs that is asked for; None for a listing of all."""
    wanted = _wanted(**arguments)
    return wanted if wanted.limit is not None and wanted.limit > 0 else None


def _wanted(kind: str | None = None, **arguments: Any) -> RunsPage:
    return RunsPage((kind,) if kind is not None else tuple(listed_kinds()), **arguments)


@operation("read", _page)
async def runs(
    daemon: Daemon,
    state: str | None = None,
    kind: str | None = None,
    name: str | None = None,
    limit: int | None = None,
    before: int | None = None,
) -> list[dict[str, Any]]:
    """The runs there are: in a state of their kind's own or a phase, of a kind, of a definition.

    Items of work (P6) and standing runs are left out unless they are the kind asked for. All, oldest first;
    with `limit` the newest so many, newest first; with `before` only those of lower eids.
    """
    agent, wanted = daemon.agent, _wanted(kind, state=state, name=name)

    def form(eid: int) -> dict[str, Any] | None:
        run = agent.runs.get(eid)
        if run is None or not wanted.has(run.kind, run.name, run.status, run.phase):
            return None
        return json_forms.run(agent, run)

    newest = partial(agent.memory.index.newest_named, wanted.kinds)
    eids = eids_of(limit, before, lambda: list(agent.memory.index.named(wanted.kinds)), newest)
    return await gathered(map(form, eids), limit)
