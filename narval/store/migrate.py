"""Bringing a store of an earlier version up to date, by Alembic; imported only when one is."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from narval.core.errors import StoreError
from narval.store.sqlite import trouble

MIGRATIONS = Path(__file__).parent / "migrations"


def migrate(engine: Engine, name: str) -> None:
    """Bring a database from any earlier version, or from nothing, to the last; all or nothing.

    Its connections go back to where they came from. Raises StoreError.
    """
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    try:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            config.attributes["connection"] = connection
            connection.exec_driver_sql("BEGIN")
            command.upgrade(config, "head")
            connection.exec_driver_sql("COMMIT")
    except CommandError as error:
        raise StoreError(f"the store cannot be brought up to date: {error}; put back a backup") from error
    except SQLAlchemyError as error:
        raise trouble(name, error) from error
