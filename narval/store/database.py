"""The store in a SQLite file (docs/reference/store.md); the one on a server is in `postgresql/`.

The statements come from `statements.py`, and the driver's own cursors execute them. There is one writer: a
batch of one row is one statement, which the database commits by itself; any other goes between BEGIN and
COMMIT. Readers have connections of their own.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any

from narval import __version__
from narval.core.errors import RefusedRowsError, StoreError
from narval.store import tables
from narval.store.batch import HOME_AGENT, STORE, Batch
from narval.store.reading import ReadTables, Tables
from narval.store.releases import version_of
from narval.store.rows import LOST_PAGES
from narval.store.slots import Rows, filled
from narval.store.sqlite import File
from narval.store.statements import writes
from narval.store.store import Store

logger = logging.getLogger("narval.store")

UNNOTICED = 1.0
"""Seconds between two checks by commits whether the file is in its place."""

KEEP_IT = "to save what it has: narval backup FILE, or narval stop, which writes it again"
"""The ways to save a store whose file is gone."""

_NOT_PERFORMED = "nothing of this turn was performed"


def open_database(file: File, *, is_copy: bool = False) -> Store:
    """The store in a file, made, checked or migrated as needed, after a backup unless the file `is_copy`.
    Raises StoreError.
    """
    try:
        file.ensure()
        writer = file.connect()
        try:
            _begin(file, writer, is_copy=is_copy)
        except BaseException:
            writer.close()
            raise
        file.note_opened()
        return Database(file, writer)
    except BaseException as error:
        file.close()
        if isinstance(error, (OSError, *file.errors)):
            raise file.trouble(error) from error
        raise


class Database(ReadTables):
    """The tables of `tables.py`, and `writer`, the one connection that writes them."""

    def __init__(self, driver: File, writer: Any) -> None:
        super().__init__(Tables(driver))
        self._driver, self._name, self._sql = driver, driver.name, driver.statements
        self.writer = writer
        cursor = writer.cursor()
        self._execute, self._execute_many = cursor.execute, cursor.executemany
        self._writes = writes()
        self._refusal = ""
        self._closed = False
        self._loss, self._looked = "", monotonic()
        self._writing = Lock()

    def commit(self, *batches: Batch) -> None:
        """Record the batches, all or nothing."""
        if monotonic() - self._looked > UNNOTICED:
            self.loss()
        with self._writing:
            self._commit(batches)

    def loss(self) -> str:
        """The loss of its file, logged once; "" while it is in its place."""
        self._looked = monotonic()
        loss = "" if self._closed else self._driver.loss()
        if loss and not self._loss:
            logger.error("%s; %s", loss, KEEP_IT)
        self._loss = loss
        return loss

    def keep(self) -> Path | None:
        """Write the whole store to a file beside its place, if its own file is gone from there."""
        if not self.loss():
            return None
        with self._writing:
            try:
                return self._driver.keep(self.writer)
            except (OSError, sqlite3.Error) as error:
                raise self._driver.trouble(error) from error

    def _commit(self, batches: Sequence[Batch]) -> None:
        if self._refusal:
            raise StoreError(self._refusal)
        try:
            work = self._work(batches)
            if len(work) == 1 and len(work[0][1]) == 1:
                self._execute(work[0][0], work[0][1][0])
            elif work:
                self._execute("BEGIN")
                for sql, rows in work:
                    if len(rows) == 1:
                        self._execute(sql, rows[0])
                    else:
                        self._execute_many(sql, rows)
                self._execute("COMMIT")
        except BaseException as error:
            failure = self._failed(error)
            if failure is None:
                raise
            raise failure from error

    def _failed(self, error: BaseException) -> StoreError | None:
        """Roll back a commit that failed; return the error to raise in place of its own, if any."""
        is_known = isinstance(error, self._driver.errors)
        try:
            self.writer.rollback()
            is_sound = self._driver.refuses_rows(error) if is_known else isinstance(error, Exception)
        except self._driver.errors:  # the database has rolled back by itself, or is gone
            is_sound = False
        if is_sound:
            what = f"{self._name} does not take what was to be recorded ({error})"
            return RefusedRowsError(f"{what}; {_NOT_PERFORMED}")
        refused = self._driver.trouble(error, _NOT_PERFORMED)
        self._refusal = f"no turn is recorded after one that could not be: {refused}"
        return refused if is_known else None

    def refuse(self, why: str) -> None:
        """Record nothing from now on, and leave the stop unmarked, as after a crash."""
        self._refusal = why

    def _work(self, batches: Sequence[Batch]) -> list[tuple[str, Rows]]:
        """The statements that record the batches, and their rows: slot by slot for all batches at once, but
        batch by batch if an agent is removed, since what others send it afterwards stays.
        """
        names = filled(batches)
        if len(batches) > 1 and "removed_agents" in names:
            return [statement for batch in batches for statement in self._work((batch,))]
        work: list[tuple[str, Rows]] = []
        for name in names:
            of_batches = batches if len(batches) == 1 else [one for one in batches if name in one.__dict__]
            for rows_of, effects in self._writes[name]:
                if len(of_batches) == 1:
                    rows = rows_of(of_batches[0])
                else:
                    rows = [row for batch in of_batches for row in rows_of(batch)]
                if rows:
                    for sql, width in effects:
                        work.append((sql, rows if width == len(rows[0]) else [row[:width] for row in rows]))
        return work

    def make_room(self) -> None:
        """Let the driver prepare what it needs."""
        self._driver.make_room()

    def close(self) -> None:
        """Mark the stop as clean, and close the database."""
        if self._closed:
            return
        loss = self.loss()
        self._closed = True
        if not self._refusal:
            self._refusal = f"the store is closed: {self._name}"
            with suppress(*self._driver.errors):  # unmarked, the next start checks the file: nothing is lost
                self._execute(self._sql["put meta"], (STORE, "clean", "1"))
        saved = self._kept_at_the_end() if loss else None
        self.writer.close()
        self._driver.close()
        if saved is not None:
            logger.warning("all that the store had is saved: %s", self._driver.put_back(saved))

    def _kept_at_the_end(self) -> Path | None:
        try:
            return self._driver.keep(self.writer)
        except (OSError, sqlite3.Error) as error:
            logger.error("what the store had could not be saved: %s", error)
            return None


# --- opening --------------------------------------------------------------------------------------------


def _begin(driver: File, writer: Any, *, is_copy: bool) -> None:
    """Check, migrate, and mark as in use."""
    version, facts = version_of(driver, writer)
    lost = driver.lost_pages(writer)
    with closing(writer.cursor()) as cursor:
        if facts.get("clean") != "1":
            driver.look_through(writer)
        if version < tables.HEAD:
            from narval.store.migrate import keep_before, migrate

            backup = None if is_copy else keep_before(driver, writer, version)
            try:
                migrate(driver, writer, version)
            except BaseException:
                if backup is not None:  # nothing has changed, and the next start makes another
                    backup.unlink(missing_ok=True)
                raise
        driver.shrink(writer)
        _mark_in_use(cursor, driver.statements, lost)


def _mark_in_use(cursor: Any, sql: Mapping[str, str], lost: int) -> None:
    """Mark the store as in use, so that a stop before `close` is not clean; drop versions of definitions that
    no run needs, and texts that nothing names.

    Lost pages of turns are recorded for the next daemon.
    """
    cursor.execute("BEGIN")
    if lost:
        cursor.execute(sql["put meta"], (HOME_AGENT, LOST_PAGES, str(lost)))
    cursor.execute(sql["drop definitions"])
    cursor.execute(sql["drop texts"])
    cursor.executemany(sql["put meta"], [(STORE, "clean", "0"), (STORE, "narval", __version__)])
    cursor.execute("COMMIT")
