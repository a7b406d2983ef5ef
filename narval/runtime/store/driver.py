"""Driver: what the store asks of a database, as the database API of Python has it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from sqlalchemy import Engine


class Driver(Protocol):
    """The source of connections, as the database API of Python has them; each commits by itself."""

    name: str
    statements: Mapping[str, str]

    errors: tuple[type[Exception], ...]
    """The errors that connecting, and a connection, may raise."""

    def ensure(self) -> None:
        """Make a new store where there is none."""

    def connect(self) -> Any:
        """A connection of one's own."""

    def reading(self) -> AbstractContextManager[Any]:
        """A connection for as long as one reads."""

    def tables(self, connection: Any, /) -> set[str]:
        """The names of the tables that are there."""

    def look_through(self, connection: Any, /) -> None:
        """Raise StoreError when a stop that was not clean has left damage."""

    def lost_pages(self, connection: Any, /) -> int:
        """The number of pages of the latest turns that were committed and are gone."""

    def make_room(self) -> None:
        """Have ready what makes commits quicker."""

    def engine(self) -> Engine:
        """The same connections for SQLAlchemy."""

    def shrink(self, connection: Any, /) -> None:
        """Give back what is free, where that is most of it."""

    def refuses_rows(self, error: BaseException, /) -> bool:
        """True if an error of a connection is about the values it was given, and not about the database."""

    def close(self) -> None:
        """End the connections of the readers."""
