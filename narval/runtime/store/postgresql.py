"""A store at a URL: in a database server, or in the SQLite file that the URL names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, inspect, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from narval.errors import StoreError
from narval.runtime.store import statements, tables
from narval.runtime.store.sqlite import trouble


def file_of(url: str) -> Path | None:
    """The file that a URL of SQLite names; None where it is of a server. Raises StoreError."""
    try:
        known = make_url(url)
    except ArgumentError as error:
        raise StoreError(f"expected a path or a database URL, got: {url} ({error})") from None
    if known.get_backend_name() != "sqlite":
        return None
    if not known.database or known.database == ":memory:":
        raise StoreError(f"expected the URL of a file, such as sqlite:////home/me/store.db, got: {url}")
    return Path(known.database).absolute()


class Server:
    """Connections to a database server, through its driver; each commits by itself."""

    def __init__(self, url: str) -> None:
        self.name = make_url(url).render_as_string(hide_password=True)
        try:
            # Positional parameters, whatever the driver prefers: rows are tuples.
            self._engine = create_engine(url, isolation_level="AUTOCOMMIT", paramstyle="format")
        except (SQLAlchemyError, ImportError) as error:
            raise trouble(self.name, error) from error
        dialect = self._engine.dialect
        self.statements: Mapping[str, str] = tables.statements(dialect)
        self.errors: tuple[type[Exception], ...] = (SQLAlchemyError, dialect.loaded_dbapi.Error)

    def connect(self) -> Any:
        """A connection of one's own."""
        return self._engine.raw_connection()

    @contextmanager
    def reading(self) -> Iterator[Any]:
        """A connection for as long as one reads."""
        with closing(self.connect()) as connection:
            yield connection

    def refuses_rows(self, error: BaseException) -> bool:
        """True for a data exception, a constraint, and what is beyond a limit of the program."""
        return str(getattr(error, "sqlstate", None) or "").startswith(("22", "23", "54"))

    def close(self) -> None:
        """End the connections of the readers."""
        self._engine.dispose()

    # --- opening --------------------------------------------------------------------------------------

    def ensure(self) -> None:
        """Make the tables when there are none."""
        with closing(self.connect()) as connection:
            if not self.tables(connection):
                cursor = connection.cursor()
                cursor.execute("BEGIN")
                statements.make_schema(cursor, self.statements)
                cursor.execute("COMMIT")

    def tables(self, _: Any) -> set[str]:
        """The names of the tables that are there."""
        return set(inspect(self._engine).get_table_names())

    def look_through(self, _: Any) -> None:
        """A server sees to its files itself."""

    def lost_pages(self, _: Any) -> int:
        """None: a server sees to its log itself."""
        return 0

    def make_room(self) -> None:
        """A server sees to its log itself."""

    def engine(self) -> Engine:
        """The same connections for SQLAlchemy."""
        return self._engine

    def shrink(self, _: Any) -> None:
        """A server sees to its files itself."""
