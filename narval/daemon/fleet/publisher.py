"""The publisher of changes that are saved in a home while its daemon runs (`run --follow`, G58).

a file is saved -> read, like any change -> the home is checked -> published, or its faults are logged
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from narval.core.errors import DefinitionError, NarvalError, RequestError, StoreAwayError
from narval.daemon.files_in_force import FilesInForce
from narval.files.agents.published_folders import pack, packed_and_checked
from narval.files.agents.settings import HOME_COLLECTION
from narval.store.postgresql.leases import Published
from narval.store.store import Store

log = logging.getLogger("narval.collections")

AGAIN = 1.0
"""Seconds after which publishing is retried if the store was away."""


def publishing(
    home: Path, store: Store, files: FilesInForce, by: str
) -> Callable[[], Coroutine[Any, Any, None]]:
    """Return the task that publishes a home now, and after each change of its files, until cancelled; `by` is
    a login. Raises RequestError if no other home could follow.
    """
    if store.published is None:
        wanted = "a store that homes share, such as postgresql://… in etc/narval.toml"
        raise RequestError(f"--follow publishes what is saved in this home: expected {wanted}, found SQLite")
    return partial(_publish_changes, home, store.published, files, by)


async def _publish_changes(home: Path, published: Published, files: FilesInForce, by: str) -> None:
    changed = asyncio.Event()

    async def note() -> None:
        changed.set()

    files.on_change.append(note)
    tried, is_away = "", False
    while True:
        try:
            tried = await asyncio.to_thread(_publish, home, published, by, tried)
            is_away = False
        except StoreAwayError as error:
            if not is_away:
                log.warning("this home could not be published, and publishing is retried: %s", error)
            is_away = True
            await asyncio.sleep(AGAIN)
            continue
        except NarvalError as error:
            log.error("this home is not published: %s", error)
        await changed.wait()
        changed.clear()


def _publish(home: Path, published: Published, by: str, tried: str) -> str:
    """Publish the home unless it equals what was `tried` last, or has faults; return the digest tried."""
    digest = pack(home, declares=False)[0].digest
    if digest == tried:
        return tried
    known = next((row.digest for row in published.all() if row.name == HOME_COLLECTION), "")
    try:
        packed = packed_and_checked(home, HOME_COLLECTION, {})
    except DefinitionError as error:
        kept = f"version {known[:12]} stays" if known else "nothing is published"
        log.error("this home is not published, %s, for it has faults: %s", kept, error)
        return digest
    if packed.digest != known:
        published.put(HOME_COLLECTION, packed.digest, packed.data, by)
        log.info("this home was published: %d files, version %.12s", len(packed.files), packed.digest)
    return packed.digest
