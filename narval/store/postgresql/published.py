"""Published collections, which a store has for all daemons that share it (G58)."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class PublishedRow(NamedTuple):
    """A collection as it was last published: the size of its packed files in bytes, and their SHA-256.

    `at` is by the clock of the store, in seconds since 1970; `by` is the login of the publisher.
    """

    name: str
    digest: str
    at: float
    by: str
    bytes: int


class Published(Protocol):
    """The collections of a store, by name. Its methods block for as long as the store takes; any thread may
    call them. All raise StoreError, and StoreAwayError if the server does not answer.
    """

    def all(self) -> list[PublishedRow]:
        """All collections, by name."""

    def get(self, name: str) -> tuple[str, bytes] | None:
        """The digest and the packed files of a collection; None if there is none of that name."""

    def put(self, name: str, digest: str, files: bytes, by: str) -> None:
        """Publish these packed files as a collection. Raises OperatorError if the asker is not allowed to."""

    def withdraw(self, name: str) -> bool:
        """Remove a collection; False if there was none. Raises OperatorError if that is not allowed."""
