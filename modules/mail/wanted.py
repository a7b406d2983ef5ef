"""A letter to be moved or flagged, and the contract for doing so in a kind of mailbox."""

from __future__ import annotations

import hashlib
from collections.abc import Container
from typing import NamedTuple, Protocol

from narval import ActionError

FLAGS = {"seen": ("\\Seen", "S"), "answered": ("\\Answered", "R"), "flagged": ("\\Flagged", "F")}
FLAGS |= {"draft": ("\\Draft", "D")}
"""The named flags, in the spelling of IMAP and of a Maildir."""
TOLD = ("seen", "answered")
"""The flags that the element of a mail has."""


def told_of(flags: Container[str]) -> tuple[str, ...]:
    """The names of `TOLD` that a mailbox has set, in either spelling."""
    return tuple(name for name in TOLD if any(written in flags for written in FLAGS[name]))


class Wanted(NamedTuple):
    """A letter described by its element: its Message-ID, if it has one; digest and size of its original."""

    ident: str
    sha256: str
    size: int

    def fits(self, raw: bytes) -> bool:
        """True if these bytes are its original."""
        return hashlib.sha256(raw).hexdigest() == self.sha256

    def missing(self, where: str) -> ActionError:
        """The error for a letter that is not where it should be."""
        said = f"the letter is no longer in {where}; it was moved or deleted"
        return ActionError(said, "no-such-letter", final=True)


class Filer(Protocol):
    """A repeatable way to move and flag one letter. Raises ActionError."""

    def move(self, to: str) -> None:
        """Move it to a folder, unless it is there."""

    def flag(self, add: list[str], remove: list[str]) -> None:
        """Add flags to it, and remove some."""
