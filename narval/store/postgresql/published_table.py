"""The table of published collections of a PostgreSQL server (G58)."""

from __future__ import annotations

from typing import Any

from psycopg import Error

from narval.core.errors import OperatorError
from narval.store.postgresql.leases import Published, PublishedRow
from narval.store.postgresql.server import Server


class PublishedTable(Published):
    """The table `collections` of a server."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def all(self) -> list[PublishedRow]:
        """All collections, by name."""
        return [PublishedRow(*row) for row in self._rows(_LIST)]

    def get(self, name: str) -> tuple[str, bytes] | None:
        """The digest and the packed files of a collection; None if there is none of that name."""
        return next(((digest, bytes(files)) for digest, files in self._rows(_GET, name)), None)

    def put(self, name: str, digest: str, files: bytes, by: str) -> None:
        """Publish these packed files as a collection."""
        self._rows(_PUT, name, digest, files, by)

    def withdraw(self, name: str) -> bool:
        """Remove a collection; False if there was none."""
        return bool(self._rows(_WITHDRAW, name))

    def _rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            with self._server.reading() as connection:
                cursor = connection.execute(statement.encode(), values)
                return cursor.fetchall() if cursor.description is not None else []
        except Error as error:
            if error.sqlstate in _PLAIN:
                raise OperatorError(_PLAIN[error.sqlstate]) from None
            raise self._server.trouble(error) from error


_LIST = (
    "SELECT name, digest, EXTRACT(EPOCH FROM published)::float8, by, octet_length(files)::bigint "
    "FROM collections ORDER BY name"
)
_GET = "SELECT digest, files FROM collections WHERE name = %s"
_PUT = (
    "INSERT INTO collections (name, digest, files, published, by) "
    "VALUES (%s, %s, %s, clock_timestamp(), %s) ON CONFLICT (name) DO UPDATE SET "
    "digest = EXCLUDED.digest, files = EXCLUDED.files, published = EXCLUDED.published, by = EXCLUDED.by"
)
_WITHDRAW = "DELETE FROM collections WHERE name = %s RETURNING name"

_REFUSED = (
    "the database does not let this role publish collections: who may runs code on all machines. Ask as a "
    "role that may (--store, or PGUSER), or be granted INSERT, UPDATE and DELETE on the table collections"
)
_NOT_MADE = "no daemon has made the tables of this store yet: start one (narval run)"

_PLAIN = {"42501": _REFUSED, "42P01": _NOT_MADE}
"""The meanings of errors here, by their codes: a role lacks a right, a table does not exist."""
