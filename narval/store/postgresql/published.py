"""Published collections, as a store has them for all the daemons that share it (G58)."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class PublishedRow(NamedTuple):
    """A collection as it was published last: its files have so many bytes, packed, and this SHA-256.

    `at` is by the clock of the store, in seconds since 1970; `by` is the login of who published it.
    """

    name: str
    digest: str
    at: float
    by: str
    bytes: int


class Published(Protocol):
    """The collections of a store, by name. Its methods block for as long as the store takes; any thread may
    call them. All raise StoreError, StoreAwayError where the server does not answer.
    """

    def all(self) -> list[PublishedRow]:
        """All there are, by name."""

    def get(self, name: str) -> tuple[str, bytes] | None:
        """The digest and the packed files of a collection; None where there is none of that name."""

    def put(self, name: str, digest: str, files: bytes, by: str) -> None:
        """Let a collection have these packed files from now on. Raises OperatorError where that is not
        allowed to who asks.
        """

    def withdraw(self, name: str) -> bool:
        """Let a collection be no more; False where there was none. Raises OperatorError where that is not
        allowed to who asks.
        """
