"""Operations on what dataflows remember: list it, and forget items of it (T49)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec

from narval.ask import json_forms
from narval.ask.registry import operation
from narval.core.definitions.suggestions import closest
from narval.core.errors import NotFoundError, RequestError
from narval.daemon.daemon import Daemon
from narval.kinds.dataflow.language.definition import DataflowDefinition, FixedValue
from narval.store.batch import ResultRow
from narval.store.store import ALL, AgentStore


@operation("read")
async def remembered(
    daemon: Daemon,
    name: str = "",
    key: list[str] | None = None,
    limit: int | None = None,
    skip: int = 0,
) -> list[dict[str, Any]]:
    """The names under which dataflows remember what they saw, with the loaded dataflows that use each; with
    `name`, the items of that name, latest first (T49).

    `key` is the values of the key attributes of one item, as texts; `limit` and `skip` select a page.
    """
    from narval.kinds.dataflow.calls.results import item_of

    if skip < 0 or (limit is not None and limit < 1):
        raise RequestError(f"expected limit to be 1 or more and skip 0 or more, got {limit} and {skip}")
    end = skip + limit if limit is not None else None
    store = await _store(daemon, is_reading=True)
    if not name:
        names = (await asyncio.to_thread(_names, store))[skip:end]
        by = _rememberers(daemon)
        return [{"name": named, "items": count, "by": by.get(named, [])} for named, count in names]
    rows = await asyncio.to_thread(_rows, store, name, key, end)
    if not rows:
        await asyncio.to_thread(_refuse, store, name, key)
    rows = rows[skip:]
    return [
        {
            "key": json.loads(item.key),
            "first": json_forms.moment(item.first),
            "last": json_forms.moment(item.last),
            "tuple": json.loads(item.data),
        }
        for item in map(item_of, rows)
    ]


def _rememberers(daemon: Daemon) -> dict[str, list[str]]:
    """The loaded dataflows that remember, by the names that they use, as far as these are fixed."""
    by_name: dict[str, list[str]] = {}
    for _, definition in sorted(daemon.agent.library.of(DataflowDefinition.kind).items()):
        assert isinstance(definition, DataflowDefinition), definition.full_name
        calls = [call for graph in definition.graphs.values() for call in graph.calls]
        names = (call.arguments.get("name") for call in calls if call.operator.name == "remember")
        for name in dict.fromkeys(str(name.value) for name in names if isinstance(name, FixedValue)):
            by_name.setdefault(name, []).append(definition.full_name)
    return by_name


@operation("write")
async def forget_remembered(daemon: Daemon, name: str, key: list[str] | None = None) -> dict[str, Any]:
    """Forget what dataflows remember under a name, or only the item with a key: it is new again (T49)."""
    from narval.kinds.dataflow.calls.results import ResultChange

    store = await _store(daemon)
    rows = await asyncio.to_thread(_rows, store, name, key, None)
    if not rows:
        await asyncio.to_thread(_refuse, store, name, key)
    await _record(daemon, ResultChange([], [(row.scope, row.key) for row in rows]))
    return {"name": name, "forgotten": len(rows)}


@operation("read")
async def flow_results(daemon: Daemon, scope: str) -> list[list[Any]]:
    """The results of a scope, for a dataflow in the foreground: key, moment and data of each."""
    store = await _store(daemon, is_reading=True)
    rows = await asyncio.to_thread(store.results, _outliving(scope))
    return [[row.key, row.at, row.data.decode()] for row in rows]


@operation("write")
async def record_flow_results(
    daemon: Daemon, rows: list[list[Any]], dropped: list[list[str]]
) -> dict[str, Any]:
    """Record what a dataflow in the foreground remembers: rows of scope, key, moment and data to add, and the
    scopes and keys of rows to remove.
    """
    from narval.kinds.dataflow.calls.results import ResultChange

    await _store(daemon)
    try:
        written = msgspec.convert(rows, list[tuple[str, str, float, str]])
        gone = msgspec.convert(dropped, list[tuple[str, str]])
    except msgspec.ValidationError as error:
        raise RequestError(f"expected rows of results: {error}") from None
    change = ResultChange(
        [ResultRow(_outliving(scope), key, at, data.encode()) for scope, key, at, data in written],
        [(_outliving(scope), key) for scope, key in gone],
    )
    await _record(daemon, change)
    return {"recorded": len(change.rows)}


async def _store(daemon: Daemon, is_reading: bool = False) -> AgentStore:
    """The store of the addressed agent. The earlier file is imported first; for a read, only by the daemon
    that owns the store and follows files.
    """
    from narval.kinds.dataflow.calls.earlier_file import take_over

    if daemon.home is None:
        raise RequestError("dataflows remember only in a home, and this daemon has none")
    store = daemon.agent.store
    if not is_reading or (daemon.follows_files and store.is_own):
        await take_over(store, store.identity().id, daemon.home.path, lambda change: _record(daemon, change))
    return store


async def _record(daemon: Daemon, change: Any) -> None:
    await daemon.host.submit(lambda turn: change.put(turn.transaction.batch))


def _outliving(scope: str) -> str:
    """Return a scope, if it outlives sessions. Raises RequestError."""
    from narval.kinds.dataflow.calls.results import LABELS_OF, REMEMBERED, TOLD

    prefixes = (REMEMBERED, TOLD, LABELS_OF)
    if not scope.startswith(prefixes):
        expectation = ", ".join(map(repr, prefixes))
        raise RequestError(f"expected a scope that begins with one of {expectation}, got {scope!r:.80}")
    return scope


def _names(store: AgentStore) -> list[tuple[str, int]]:
    """The names, with the number of items of each."""
    from narval.kinds.dataflow.calls.results import REMEMBERED

    scopes = store.scopes()
    return [(scope[len(REMEMBERED) :], count) for scope, count in scopes if scope.startswith(REMEMBERED)]


def _rows(store: AgentStore, name: str, key: list[str] | None, limit: int | None) -> list[ResultRow]:
    from narval.kinds.dataflow.calls.results import REMEMBERED

    if key is not None:
        return store.results_of(REMEMBERED + name, [msgspec.json.encode(key).decode()])
    return store.results(REMEMBERED + name, ALL if limit is None else limit)


def _refuse(store: AgentStore, name: str, key: list[str] | None) -> None:
    """Raise RequestError for an unknown name, or an unknown key of it."""
    names = [each for each, _ in _names(store)]
    if name not in names:
        hint = f"; there are {', '.join(names)}" if names else "; there are no names yet"
        what = f"there is no remembered name {name!r:.80}"
        raise NotFoundError(f"{what}{closest(name[:80], names) or hint}")
    keys = [json.loads(row.key) for row in _rows(store, name, None, 1)]
    example = " ".join(keys[0]) if keys else ""
    raise RequestError(
        f"nothing of the key {' '.join(key or ())!r:.80} is remembered as {name}; one is {example}"
    )
