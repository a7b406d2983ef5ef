"""Moving and flagging letters on a server."""

from __future__ import annotations

import re
from typing import Any

from narval import ActionError

from . import letters
from .imap import Connection, connected
from .mailbox import Mailbox
from .wanted import FLAGS, Wanted

MOST_CANDIDATES = 100
"""The most letters fetched to find one: of those without a Message-ID, many may have its size."""


class ServerFiler:
    """Moves and flags a letter in a folder on a server."""

    def __init__(self, box: Mailbox, wanted: Wanted) -> None:
        self._box, self._wanted = box, wanted

    def move(self, to: str) -> None:
        """Move the letter to a folder: directly if the server can, else by a copy that is made once."""
        home = self._box.given.get("folder", "INBOX")
        with connected(self._box, readonly=False) as connection:
            uids = self._found(connection) if to != home else []
            if uids and "MOVE" in connection.server.client.capabilities:
                self._told(connection, to, "MOVE", uids, self._folder(to))
                return
            if uids and "UIDPLUS" not in connection.server.client.capabilities:
                raise self._box.fault("its server can neither MOVE nor UIDPLUS; nothing was moved")
            if not self._is_in(connection, to):
                if not uids:
                    raise self._wanted.missing(f"{home} of account {self._box}, nor in {to}")
                self._open(connection, home)
                self._told(connection, to, "COPY", uids, self._folder(to))
            if uids:
                self._open(connection, home)
                self._told(connection, to, "STORE", uids, "+FLAGS.SILENT", r"(\Deleted)")
                self._told(connection, to, "EXPUNGE", uids)

    def flag(self, add: list[str], remove: list[str]) -> None:
        """Add and remove flags."""
        with connected(self._box, readonly=False) as connection:
            uids = self._found(connection)
            if not uids:
                raise self._wanted.missing(f"{self._box.given.get('folder', 'INBOX')} of account {self._box}")
            for sign, names in (("+", add), ("-", remove)):
                if names:
                    flags = " ".join(FLAGS[name][0] if name in FLAGS else name for name in names)
                    self._told(connection, "", "STORE", uids, f"{sign}FLAGS.SILENT", f"({flags})")

    def _found(self, connection: Connection) -> list[int]:
        """The numbers of the letter in the open folder; several if it has copies there."""
        # The longest part that can be quoted: the search finds what contains it, and the digest decides.
        words = re.findall(r"[!#-\[\]-~]+", self._wanted.ident)
        if words:
            criteria = f'HEADER Message-ID "{max(words, key=len)[:200]}"'
        else:
            criteria = f"LARGER {self._wanted.size - 1} SMALLER {self._wanted.size + 1}"
        client = connection.server.client
        numbers = []
        with connection.reaching():
            for uid in sorted(map(int, connection.server.uids(criteria, charset=None)))[-MOST_CANDIDATES:]:
                _, data = client.uid("FETCH", str(uid), f"(BODY.PEEK[]<0.{letters.MAX_MAIL + 1}>)")
                if any(isinstance(piece, tuple) and self._wanted.fits(piece[1]) for piece in data):
                    numbers.append(uid)
        return numbers

    def _is_in(self, connection: Connection, folder: str) -> bool:
        """True if the letter is in a folder, which is then open. Raises ActionError for a missing folder."""
        self._open(connection, folder)
        return bool(self._found(connection))

    def _open(self, connection: Connection, folder: str) -> None:
        import imap_tools

        with connection.reaching():
            try:
                connection.server.folder.set(folder)
            except imap_tools.MailboxFolderSelectError:
                raise self._no_folder(connection, folder) from None

    def _told(self, connection: Connection, to: str, command: str, uids: list[int], *rest: Any) -> None:
        """Send the server a command about letters. Raises ActionError."""
        with connection.reaching():
            verdict, data = connection.server.client.uid(command, ",".join(map(str, uids)), *rest)
            if verdict == "OK":
                return
            if b"TRYCREATE" in b" ".join(piece for piece in data if isinstance(piece, bytes)):
                raise self._no_folder(connection, to)
            raise ActionError(f"account {self._box}: the server refuses {command}: {data}", "not-filed")

    def _no_folder(self, connection: Connection, folder: str) -> ActionError:
        """The error for a missing folder, which names those that exist."""
        there = ", ".join(sorted(info.name for info in connection.server.folder.list())[:20])
        said = f"expected a folder of account {self._box}, got {folder!r:.80}; there is {there}"
        return ActionError(said, "no-such-folder", final=True)

    @staticmethod
    def _folder(name: str) -> Any:
        from imap_tools.utils import encode_folder

        return encode_folder(name)
