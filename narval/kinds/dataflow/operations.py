"""Operations on what dataflows remember: it is looked at, and items of it are forgotten (T49)."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from narval.ask import json_forms
from narval.ask.registry import operation
from narval.core.definitions.suggestions import closest
from narval.core.errors import RequestError, StoreError
from narval.daemon.daemon import Daemon

Result = TypeVar("Result")


@operation("read")
async def remembered(
    daemon: Daemon, name: str = "", key: list[str] | None = None, limit: int | None = None
) -> list[dict[str, Any]]:
    """The names under which dataflows remember what they saw; of one name its items, the latest first (T49).

    `key` are the values of the key attributes of one item, as texts.
    """
    from narval.kinds.dataflow.calls import flow_store

    def look(path: Path) -> list[dict[str, Any]]:
        if not name:
            return [{"name": found, "items": count} for found, count in flow_store.names_seen(path)]
        items = flow_store.items_seen(path, name, _text(key), -1 if limit is None else limit)
        if not items:
            _refuse(path, name, key)
        return [
            {
                "key": json.loads(item.key),
                "first": json_forms.moment(item.first),
                "last": json_forms.moment(item.last),
                "tuple": json.loads(item.data),
            }
            for item in items
        ]

    return await _in_the_file(daemon, look)


@operation("write")
async def forget_remembered(daemon: Daemon, name: str, key: list[str] | None = None) -> dict[str, Any]:
    """Let dataflows forget what they remember under a name, or the item of a key: it is new again (T49)."""
    from narval.kinds.dataflow.calls import flow_store

    def work(path: Path) -> dict[str, Any]:
        count = flow_store.forget(path, name, _text(key))
        if not count:
            _refuse(path, name, key)
        return {"name": name, "forgotten": count}

    return await _in_the_file(daemon, work)


async def _in_the_file(daemon: Daemon, work: Callable[[Path], Result]) -> Result:
    """Do work with the file, in a thread; its result. Raises RequestError, StoreError."""
    from narval.kinds.dataflow.calls.flow_store import seen_file

    if daemon.home is None:
        raise RequestError("what dataflows remember lies in a home, and there is none")
    path = seen_file(daemon.home.path)
    try:
        return await asyncio.to_thread(work, path)
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {error}") from None


def _text(key: list[str] | None) -> str | None:
    """The key as the store has it."""
    return None if key is None else msgspec.json.encode(key).decode()


def _refuse(path: Path, name: str, key: list[str] | None) -> None:
    """Raise RequestError: there is no such name, or no such key of it."""
    from narval.kinds.dataflow.calls import flow_store

    names = [found for found, _ in flow_store.names_seen(path)]
    if name not in names:
        known = f"; there are {', '.join(names)}" if names else "; none remembers anything yet"
        raise RequestError(f"no dataflow remembers {name!r:.80}{closest(name[:80], names) or known}")
    keys = [json.loads(item.key) for item in flow_store.items_seen(path, name, most=1)]
    example = " ".join(keys[0]) if keys else ""
    raise RequestError(
        f"nothing of the key {' '.join(key or ())!r:.80} is remembered as {name}; one is {example}"
    )
