"""A backup: the store at one moment in a separate SQLite file, made without pausing the daemon (G60).

Rows are copied from a store opened by `look`, table by table, between any databases.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec

from narval.core.agent_name import stands_for_peer
from narval.core.errors import NotFoundError, RequestError, StoreError
from narval.store.batch import HOME_AGENT, STORE, AgentRow
from narval.store.look import ATTEMPTS, Look, look
from narval.store.sqlite import BESIDE, File, sync
from narval.store.tables import HEAD, META, OF_AGENTS, TEXTS, Table, plain_type, quoted

Told = Callable[[int], None]
"""Called repeatedly with the number of rows copied so far."""


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
    with _writing(file):
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
                    rows = list(source.agents())
                    if names:
                        rows = [agent_named(rows, name) for name in dict.fromkeys(names)]
                    copying = _copying(source, rows, own, is_part=bool(names), told=told)
                    pins = [] if names else _pins(source)
                    write_store(new, copying, pins, is_backup=True)
                    if source.is_still():
                        new.replace(file)
                        sync(file.parent)
                        return Copied(
                            tuple(row.name for row in rows if not stands_for_peer(row.name)), copying.rows
                        )
                new.unlink()  # a daemon that started or ended has moved the files in the meantime
    raise StoreError(f"the store is being written all the time: {where}; try again")


@contextmanager
def _writing(file: Path) -> Iterator[None]:
    """Raise StoreError for what the system or SQLite refuses, such as a full disk."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"the backup cannot be written to {file}: {error}") from error


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


def _pins(source: Look) -> list[tuple[int, str]]:
    """The agents of a server that are pinned to a home, each with the name of that home."""
    if isinstance(source.driver, File):
        return []
    return list(source.connection.execute("SELECT agent, home FROM leases WHERE home <> ''"))


def agent_named(rows: Collection[AgentRow], name: str) -> AgentRow:
    """The agent of a name. Raises RequestError, which lists the agents that exist."""
    for row in rows:
        if row.name == name:
            return row
    names = ", ".join([row.name for row in rows if not stands_for_peer(row.name)][:20])
    raise NotFoundError(f"there is no agent {name!r:.80} in the store; it has {names}")


# --- copying --------------------------------------------------------------------------------------------

COPIED = (TEXTS, *OF_AGENTS)
"""The copied tables, those that others refer to first."""

AT_ONCE = 2_000
"""Rows read and written at once."""

PATIENCE = 5.0
"""Seconds to wait for another program that holds a file locked."""

_SEAL = "seal"
"""The fact of a backup with its version and the digest of its rows: SQLite does not detect all damage."""

_BUT_SEAL = f"\"key\" <> '{_SEAL}'"

PINNED = "pinned"
"""The fact of an agent in a backup of a server: the home to which it was pinned."""

_NUMBERS = ("agent", "sender")
"""The columns with numbers of agents."""


class Copying:
    """A copy of all rows of a store, or of those of some agents, with the target's numbers of agents.

    `only` are the numbers of these agents in the source, `numbers` the new numbers of those that change;
    `told` is called with the number of rows copied.
    """

    def __init__(
        self, source: Look, told: Told, only: Collection[int] | None = None, numbers: Mapping[int, int] = {}
    ) -> None:
        self.rows = 0
        self._source, self._told, self._only, self._numbers = source, told, only, numbers

    def number(self, agent: int) -> int:
        """The number of an agent in the target."""
        return self._numbers.get(agent, agent)

    def into(self, target: Any, mark: str, tables: Collection[Table] = COPIED) -> None:
        """Copy into a connection, whose placeholder for a parameter is `mark`."""
        cursor = target.cursor()
        for table in tables:
            named, marks = quoted(table.columns), ", ".join([mark] * len(table.columns))
            on_conflict = " ON CONFLICT DO NOTHING" if table is TEXTS else ""
            insert = f"INSERT INTO {table.name} ({named}) VALUES ({marks}){on_conflict}"  # noqa: S608
            for rows in self._read(table, named):
                cursor.executemany(insert, self._fitted(rows, table))
                self.rows += len(rows)
                self._told(self.rows)

    def _read(self, table: Table, columns: str) -> Iterator[list[Any]]:
        query = f"SELECT {columns} FROM {table.name}{self._where(table)}"  # noqa: S608
        if not table.key:
            query += " ORDER BY line"
        driver, connection = self._source.driver, self._source.connection
        try:
            named = () if isinstance(driver, File) else ("copied",)  # a server sends only fetched rows
            with closing(connection.cursor(*named)) as cursor:
                cursor.execute(query)
                while rows := cursor.fetchmany(AT_ONCE):
                    yield rows
        except driver.errors as error:
            raise driver.trouble(error) from error

    def _where(self, table: Table) -> str:
        conditions = [f"\"key\" NOT IN ('{_SEAL}', '{PINNED}')"] if table is META else []
        if self._only is not None:
            conditions.append(self._of_these(table, self._only))
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    def _of_these(self, table: Table, agents: Collection[int]) -> str:
        of_these = f"agent IN ({', '.join(map(str, sorted(agents)))})"
        if table is not TEXTS:
            return of_these
        named = f"SELECT text FROM elements WHERE text IS NOT NULL AND {of_these}"  # noqa: S608
        current = f"SELECT text FROM definitions WHERE {of_these}"  # noqa: S608
        return f"digest IN ({named} UNION {current})"

    def _fitted(self, rows: list[Any], table: Table) -> list[Any]:
        """Rows with the new numbers of agents, and booleans for a server."""
        kinds = list(enumerate(table.columns.items()))
        numbers = [place for place, (name, _) in kinds if name in _NUMBERS and self._numbers]
        flags = [place for place, (_, kind) in kinds if plain_type(kind) is bool]
        if not numbers and not flags:
            return rows
        fitted = []
        for row in rows:
            values = list(row)
            for place in numbers:
                values[place] = self.number(values[place])
            for place in flags:
                values[place] = bool(values[place])
            fitted.append(values)
        return fitted


def write_store(
    path: Path,
    copying: Copying,
    pins: Iterable[tuple[int, str]] = (),
    *,
    is_backup: bool = False,
    finish: Callable[[Any], None] = lambda target: None,
) -> None:
    """Make a store file with the copied rows, synced to disk when this returns; a backup is sealed.

    `pins` are agents of the source with the homes to which they are pinned. `finish` is called with the
    connection of the file before that is committed.
    """
    file = File(path, "crash", PATIENCE)
    file.ensure()
    with closing(file.connect()) as target:
        target.execute("PRAGMA journal_mode=OFF")  # an incomplete file is never used
        target.execute("PRAGMA synchronous=OFF")
        target.execute("BEGIN")
        for table in ("agents", "meta"):
            target.execute(f"DELETE FROM {table}")  # noqa: S608
        copying.into(target, "?")
        finish(target)
        for agent, home in pins:
            target.execute(file.statements["put meta"], (copying.number(agent), PINNED, home))
        target.execute(file.statements["put meta"], (STORE, "clean", "1"))
        if is_backup:
            target.execute(file.statements["put meta"], (STORE, _SEAL, _seal_of(target)))
        target.execute("COMMIT")
    sync(path)


def is_sealed(path: Path) -> bool:
    """True for a file that was written as a backup, of whatever version."""
    query = 'SELECT 1 FROM meta WHERE agent = ? AND "key" = ?'
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)) as connection:
            return connection.execute(query, (STORE, _SEAL)).fetchone() is not None
    except sqlite3.DatabaseError:
        return False


def check_seal(source: Look) -> None:
    """Raise StoreError if the rows of a backup are not those that were written, or the file contains code.

    A store copied by hand, or a backup of another version, has no seal to compare with.
    """
    connection = source.connection
    what = "expected a backup as narval backup wrote it"
    for kind, name in connection.execute("SELECT type, name FROM sqlite_master"):
        if kind not in ("table", "index"):
            raise StoreError(f"{what}, found the {kind} {name!r:.80} in it: {source.driver.name}")
    query = 'SELECT value FROM meta WHERE agent = ? AND "key" = ?'
    sealed = connection.execute(query, (STORE, _SEAL)).fetchone()
    if sealed is None or str(sealed[0]).partition(":")[0] != str(HEAD):
        return
    if sealed[0] != _seal_of(connection):
        raise StoreError(f"{what}, found other rows: {source.driver.name} was altered; take another one")


def _seal_of(connection: sqlite3.Connection) -> str:
    """The version of the tables and the digest of all rows."""
    digest = hashlib.sha256()
    for table in COPIED:
        but = f" WHERE {_BUT_SEAL}" if table is META else ""
        with closing(connection.execute(f"SELECT * FROM {table.name}{but}")) as cursor:  # noqa: S608
            digest.update(table.name.encode())
            while rows := cursor.fetchmany(AT_ONCE):
                digest.update(msgspec.msgpack.encode(rows))
    return f"{HEAD}:{digest.hexdigest()}"
