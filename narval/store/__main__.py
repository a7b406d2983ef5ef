"""Migrate a store that no daemon uses to a version: `python -m narval.store PATH_OR_URL VERSION`.

An older narval can then be started on it again. A copy of a store in a file is kept beside it.
"""

from __future__ import annotations

import sqlite3
import sys
from argparse import ArgumentParser
from contextlib import closing
from typing import Any

from narval.core.errors import StoreError
from narval.store import tables
from narval.store.migrate import keep_before, migrate
from narval.store.postgresql.drivers import driver_of
from narval.store.releases import OLDEST, version_of
from narval.store.sqlite import File, refuse_other


def bring(where: str, to: int) -> None:
    """Migrate the store at a path or URL to a version. Raises StoreError."""
    driver = driver_of(where, "power", 5.0)
    try:
        if isinstance(driver, File):
            refuse_other(driver.path)
        connection: Any
        with closing(driver.connect()) as connection:
            homes = "" if isinstance(driver, File) else driver.keep_daemons_out(connection)
            version = version_of(driver, connection)[0]
            if version > tables.HEAD:
                raise StoreError(
                    f"{where} has tables of version {version}, and this narval knows those up to "
                    f"{tables.HEAD}: let the one that made them take them back"
                )
            if to > tables.HEAD:
                raise StoreError(f"expected a version from {OLDEST} to {tables.HEAD}, got {to}")
            if isinstance(driver, File):
                if not _is_alone(connection):
                    raise StoreError(f"{where} is in use: stop the daemon of its home (narval stop)")
                if version != to:
                    keep_before(driver, connection, version)
            elif homes:
                raise StoreError(f"daemons are running on {driver.name}: stop those of {homes} (narval stop)")
            migrate(driver, connection, version, to)
    except driver.errors as error:
        raise driver.trouble(error) from error
    except OSError as error:
        raise StoreError(f"{where} cannot be kept as it is, so nothing is altered: {error}") from error
    finally:
        driver.close()


def _is_alone(connection: sqlite3.Connection) -> bool:
    """True if no other connection has the file open: only then can it do without its log."""
    try:
        mode = connection.execute("PRAGMA journal_mode=DELETE").fetchone()
    except sqlite3.OperationalError:
        return False
    finally:
        connection.execute("PRAGMA journal_mode=WAL")
    return bool(mode == ("delete",))


if __name__ == "__main__":
    asked = ArgumentParser(prog="python -m narval.store", description="Bring a store to a version.")
    asked.add_argument("where", metavar="PATH_OR_URL")
    asked.add_argument("to", metavar="VERSION", type=int)
    try:
        bring(**vars(asked.parse_args()))
    except StoreError as error:
        sys.exit(f"narval: {error}")
