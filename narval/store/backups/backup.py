"""A backup: the store at one moment in a separate SQLite file, made without pausing the daemon (G60)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from narval.core.agent_name import stands_for_peer
from narval.core.errors import RequestError, StoreError
from narval.store.backups.copying import Copying, Told, is_sealed, write_store
from narval.store.batch import HOME_AGENT, STORE, AgentRow
from narval.store.look import ATTEMPTS, Look, look
from narval.store.sqlite import BESIDE, File, sync


class Copied(NamedTuple):
    """The names of the copied agents, and the number of copied rows."""

    agents: tuple[str, ...]
    rows: int


def back_up(
    where: Path | str,
    file: Path,
    is_held: Callable[[], bool],
    own: str,
    names: Collection[str],
    told: Told,
) -> Copied:
    """Write the store at a path or URL, as it is at one moment, into a file, whole or not at all.

    With `names` it has only these agents. The home's own agent, called `own` if homes share a store, gets the
    number that it has in a store of its own. `is_held` says if a daemon is running on the store. Raises
    RequestError if there is no such agent, and StoreError, also for an existing file that is not a backup.
    """
    if not file.parent.is_dir():
        raise RequestError(f"expected a folder to write the backup into, found none: {file.parent}")
    if file.exists():
        _refuse_other(file, where)
    with TemporaryDirectory(prefix=f".{file.name}.", dir=file.parent) as folder:
        new = Path(folder) / file.name
        for _ in range(ATTEMPTS):
            with look(where, is_held) as source:
                if not isinstance(source, Look):
                    raise StoreError(
                        f"expected a store to back up, found none at {where}: the first start makes it"
                    )
                rows = _chosen(source, names)
                copying = _copying(source, rows, own, is_part=bool(names), told=told)
                write_store(new, copying, is_backup=True)
                if source.is_still():
                    new.replace(file)
                    sync(file.parent)
                    return Copied(
                        tuple(row.name for row in rows if not stands_for_peer(row.name)), copying.rows
                    )
            new.unlink()  # a daemon that started or ended has moved the files in the meantime
    raise StoreError(f"the store is being written all the time: {where}; try again")


def _refuse_other(file: Path, where: Path | str) -> None:
    """Raise StoreError for a file that is not a backup: overwriting would lose a store, or damage that of a
    running daemon by the log beside it.
    """
    if isinstance(where, Path) and where.exists() and file.samefile(where):
        raise StoreError(f"{file} is the store itself; write the backup to another file")
    is_used = any(file.with_name(f"{file.name}{suffix}").exists() for suffix in BESIDE)
    if is_used or not is_sealed(file):
        raise StoreError(f"{file} is there and is no backup, so it is not replaced; choose another name")


def _copying(source: Look, rows: list[AgentRow], own: str, *, is_part: bool, told: Told) -> Copying:
    own_rows = [] if isinstance(source.driver, File) else [row for row in source.agents() if row.name == own]
    numbers = {own_rows[0].agent: HOME_AGENT, HOME_AGENT: own_rows[0].agent} if own_rows else {}
    return Copying(source, told, {STORE, *(row.agent for row in rows)} if is_part else None, numbers)


def _chosen(source: Look, names: Collection[str]) -> list[AgentRow]:
    rows = list(source.agents())
    return [agent_named(rows, name) for name in dict.fromkeys(names)] if names else rows


def agent_named(rows: Collection[AgentRow], name: str) -> AgentRow:
    """The agent of a name. Raises RequestError, which lists the agents that exist."""
    for row in rows:
        if row.name == name:
            return row
    known = ", ".join([row.name for row in rows][:20])
    raise RequestError(f"there is no agent {name!r:.80} in the store; it has {known}")
