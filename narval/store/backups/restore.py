"""Restoring backups: a whole store, or one agent into an existing one. After a kill, either the old store or
the new one exists.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import time
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from narval.core.agent_name import AT, agent_name, stands_for_peer
from narval.core.errors import RequestError, StoreError
from narval.store.backups.backup import (
    COPIED,
    PATIENCE,
    PINNED,
    Copied,
    Copying,
    Told,
    agent_named,
    check_seal,
    write_store,
)
from narval.store.batch import HOME_AGENT, SUSPENDED, AgentRow
from narval.store.links import set_fact, set_links_apart
from narval.store.look import Look, look
from narval.store.open import open_store
from narval.store.postgresql.drivers import driver_of
from narval.store.rows import SEQUENCE, number
from narval.store.sqlite import BESIDE, File, sync

if TYPE_CHECKING:
    from narval.store.postgresql.server import Server

LEFT_OUT = frozenset({"agents", "messages", "taken", "dead_letters"})
"""The tables that a new agent does not get: messages to and from the old agent remain that one's."""


@contextmanager
def opened(backup: Path) -> Iterator[Look]:
    """A backup to restore, checked. Raises RequestError if there is none, and StoreError."""
    if not backup.is_file():
        raise RequestError(f"expected a backup (narval backup), found no file: {backup}")
    with look(backup, lambda: False) as source:
        if not (isinstance(source, Look) and isinstance(source.driver, File)):
            raise StoreError(f"expected a backup in a file, got {backup}")
        try:
            source.driver.look_through(source.connection)
            check_seal(source)
        except source.driver.errors as error:
            raise source.driver.trouble(error) from error
        for row in source.agents():
            _check_name(row.name.removeprefix(AT))
        yield source


def _check_name(name: str) -> None:
    """Raise StoreError for an invalid agent name, which could name a folder elsewhere."""
    try:
        agent_name(name)
    except ValueError as error:
        raise StoreError(f"expected a backup of agents, each called {error}; found {name!r:.80}") from None


def restore_all(
    where: Path | str, source: Look, own: str, told: Told, *, force: bool
) -> tuple[Copied, Path | None]:
    """Replace the store of the home `own` at a path or URL by a backup; return the path to which a former
    store was moved, if any.

    No daemon may be running on it. With `force` an existing file is moved aside. Raises RequestError if a
    store exists there, or the backup lacks the home's own agent, and StoreError.
    """
    rows = list(source.agents())
    if all(row.agent != HOME_AGENT for row in rows):
        names = ", ".join(row.name for row in rows)
        raise RequestError(f"expected a backup of a whole home, found {names}; restore one: --agent")
    driver = driver_of(where, "crash", PATIENCE)
    copying = Copying(source, told)
    aside = None
    if isinstance(driver, File):
        aside = _replace_file(driver.path, copying, force=force)
    else:
        _fill(driver, where, copying, _pins(source, own, {row.name for row in rows}))
    return Copied(tuple(row.name for row in rows if not stands_for_peer(row.name)), copying.rows), aside


def restore_agent(where: Path | str, source: Look, name: str, new_name: str, told: Told) -> Copied:
    """Add an agent of a backup to the store at a path or URL, which is made if missing.

    It gets a new number and a new id, and is suspended. Raises RequestError if the backup has no such agent,
    or the store has one of the new name, and StoreError.
    """
    row = agent_named([row for row in source.agents() if not stands_for_peer(row.name)], name)
    open_store(where).close()  # made, checked, brought up to date
    driver = driver_of(where, "crash", PATIENCE)
    with _writing(driver) as target:
        if target.execute(_of(driver, "SELECT 1 FROM agents WHERE name = ?"), (new_name,)).fetchone():
            raise RequestError(
                f"expected no agent {new_name} in the store, found one; let it go first (narval agents "
                f"remove {new_name}), or restore under another name: --name NEW"
            )
        [number] = target.execute(_NEXT_NUMBER).fetchone()
        copying = Copying(source, told, {row.agent}, {row.agent: number})
        mark = "?" if isinstance(driver, File) else "%s"
        copying.into(target, mark, [table for table in COPIED if table.name not in LEFT_OUT])
        why = f"restored from {Path(source.driver.name).name}"
        new = AgentRow(number, secrets.token_hex(16), new_name, SUSPENDED, why)
        target.execute(_of(driver, "INSERT INTO agents VALUES (?, ?, ?, ?, ?, ?)"), new)
        if not isinstance(driver, File):
            target.execute("INSERT INTO leases (agent) VALUES (%s)", (number,))
    return Copied((new_name,), copying.rows)


_NEXT_NUMBER = """
SELECT 1 + max(found.number) FROM (SELECT max(agent) AS number FROM agents UNION ALL
    SELECT max(agent) FROM messages UNION ALL SELECT max(sender) FROM messages UNION ALL
    SELECT max(agent) FROM taken UNION ALL SELECT max(sender) FROM taken) AS found"""
"""A number that no agent has, and that no message refers to."""


def _of(driver: File | Server, statement: str) -> str:
    """A statement with the driver's placeholders."""
    return statement if isinstance(driver, File) else statement.replace("?", "%s")


@contextmanager
def _writing(driver: File | Server) -> Iterator[Any]:
    """A connection in a transaction, committed at the end, during which no other program adds agents or drops
    texts.
    """
    try:
        connection: Any
        with closing(driver.connect()) as connection:
            connection.execute("BEGIN")
            if not isinstance(driver, File):
                from narval.store.postgresql.ownership import add_alone
                from narval.store.postgresql.server import keep_tables

                keep_tables(connection)
                add_alone(connection)
            yield connection
            connection.execute("COMMIT")
    except driver.errors as error:
        raise driver.trouble(error) from error


# --- a whole store --------------------------------------------------------------------------------------


def _pins(source: Look, own: str, names: Collection[str]) -> list[tuple[str, int]]:
    """The homes to which the agents of a backup were pinned, each with the agent's number.

    If no agent has the name of the home `own`, it gets the one with the number of a home's own.
    """
    asked = 'SELECT value, agent FROM meta WHERE "key" = ? AND (agent <> ? OR ?)'
    return list(source.connection.execute(asked, (PINNED, HOME_AGENT, own in names)))


def _fill(driver: Server, where: Path | str, copying: Copying, pins: Collection[tuple[str, int]]) -> None:
    """Copy everything into an empty store on a server; `pins` are homes with the agents pinned to them."""
    open_store(where).close()
    with _writing(driver) as target:
        for what in ("elements", "runs", "daemons", f"agents WHERE agent <> {HOME_AGENT}"):
            if target.execute(f"SELECT 1 FROM {what} LIMIT 1").fetchone():  # noqa: S608
                raise RequestError(
                    f"expected a new store at {driver.name}, found one that has {what.partition(' ')[0]}; "
                    "make another database or schema, and name it as `store` in etc/narval.toml"
                )
        for table in ("meta", "leases", "agents"):
            target.execute(f"DELETE FROM {table}")  # noqa: S608
        copying.into(target, "%s")
        _set_apart(target, "%s")
        target.execute("INSERT INTO leases (agent) SELECT agent FROM agents")
        if pins:
            target.cursor().executemany("UPDATE leases SET home = %s WHERE agent = %s", pins)


def _replace_file(store: Path, copying: Copying, *, force: bool) -> Path | None:
    """Put a new file in the place of a store; return the path of the former one, if there was one."""
    files = [path for path in (store, *_beside(store)) if path.exists()]
    if files and not force:
        raise RequestError(f"expected no store yet, found {files[0]}; --force moves it aside")
    store.parent.mkdir(mode=0o700, exist_ok=True)
    with TemporaryDirectory(prefix=f".{store.name}.", dir=store.parent) as folder:
        new = Path(folder) / store.name
        write_store(new, copying, finish=lambda target: _set_apart(target, "?"))
        aside = _set_aside(store) if files else None
        new.replace(store)
        sync(store.parent)
    return aside


def _set_apart(target: Any, mark: str) -> None:
    """Make the later acts of a restored store distinguishable, outside, from those done after the backup.

    The id of a call has a number of its agent, and work already done under an id is not repeated. So each
    agent continues from the current time in microseconds, unless its numbers are higher: no agent has used so
    many numbers, and a backup that is restored twice gets different ones each time. `mark` is the
    connection's placeholder for a parameter.
    """
    set_links_apart(target, mark)
    now = time.time_ns() // 1000
    agents = [agent for (agent,) in target.execute("SELECT agent FROM agents").fetchall()]
    used = dict(target.execute(f"SELECT agent, value FROM meta WHERE \"key\" = '{SEQUENCE}'").fetchall())  # noqa: S608
    for agent in agents:
        last = number({SEQUENCE: used.get(agent, "0")}, SEQUENCE, 0)
        set_fact(target, mark, agent, SEQUENCE, str(max(now, last)))


def _set_aside(store: Path) -> Path:
    """Give a store a second name, and keep the first, so that a daemon always finds a store."""
    taken = {path.name for path in store.parent.iterdir()}
    names = (f"{store.name}.before-restore{number or ''}" for number in range(len(taken) + 1))
    aside = store.with_name(next(name for name in names if name not in taken))
    with suppress(sqlite3.Error, StoreError), closing(File(store, "crash", PATIENCE).connect()) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for beside, aside_file in zip(_beside(store), _beside(aside), strict=True):
        if beside.exists():  # the store is damaged: its log must not become the new store's
            beside.rename(aside_file)
    if store.exists():
        os.link(store, aside)
    return aside


def _beside(store: Path) -> list[Path]:
    return [store.with_name(store.name + suffix) for suffix in BESIDE]
