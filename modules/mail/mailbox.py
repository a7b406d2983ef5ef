"""Mailboxes: accounts to read mail from, the files stored from it, and the letters recorded before."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import threading
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

import narval
from narval.api import MailAccount, read_date


class Mailbox(MailAccount):
    """The account of a `mailbox` element."""

    __slots__ = ()

    @property
    def element(self) -> str:
        """The element of a mailbox, in the form for messages that ask to change it."""
        name = self.given.get("name")
        return f'<mailbox name="{name}">' if name else f"the <mailbox> of {self}"

    @property
    def since(self) -> float | None:
        """The moment before which arrivals are not news; None if all are."""
        if not (text := self.given.get("since")):
            return None
        try:
            return read_date(text, str(narval.now().tzinfo))
        except ValueError:
            expectation = "expected since to be a date, such as 2026-11-24 or 2026-11-24T09:00:00Z"
            raise self.fault(f"{expectation}, got {text!r:.80}") from None

    def keep(self, chunks: Iterable[bytes], name: str) -> dict[str, str]:
        """Store content as a file of the home, by its digest: storing it twice has no further effect."""
        folder = os.fspath(self._folder())
        draft = f"{folder}/.new-{os.getpid()}-{threading.get_ident()}"
        digest, size = hashlib.sha256(), 0
        try:
            with open(draft, "wb", opener=_for_its_owner) as file:
                for chunk in chunks:
                    digest.update(chunk)
                    size += file.write(chunk)
            place = f"{folder}/{digest.hexdigest()[:2]}/{digest.hexdigest()}"
            if not os.path.isdir(place):
                Path(place).mkdir(mode=0o700, parents=True, exist_ok=True)
            os.replace(draft, f"{place}/{name}")
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(draft)
            raise
        path = place.removeprefix(f"{self.home}/") if self.home else place
        return {"size": str(size), "file": f"{path}/{name}", "sha256": digest.hexdigest()}

    def bookmark(self) -> list[str]:
        """The letters of this mailbox that were recorded before: only a shortcut, as keys decide (N37)."""
        with suppress(FileNotFoundError):
            return self._bookmark_file().read_text("utf-8", "replace").split("\n")
        return []

    def advance_bookmark(self, idents: Iterable[str]) -> None:
        """Note that these letters are recorded."""
        lines = "".join(f"{ident}\n" for ident in idents)
        with suppress(OSError):
            if lines:
                with self._bookmark_file().open("a", encoding="utf-8", errors="replace") as file:
                    file.write(lines)

    def _bookmark_file(self) -> Path:
        names = ("kind", "path", "host", "port", "user", "folder")
        where = "\0".join(self.given.get(name, "") for name in names)
        return self._folder() / f"seen-{hashlib.sha256(where.encode()).hexdigest()[:16]}"

    def _folder(self) -> Path:
        folder = (self.home / "var" if self.home else Path(_scratch().name)) / "mail"
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder


def _for_its_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


@cache
def _scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder for the files of a home in memory, gone when the program ends."""
    return tempfile.TemporaryDirectory(prefix="narval-")


_SUFFIXES = {"message/delivery-status": ".txt", "message/rfc822": ".eml", "text/calendar": ".ics"}
RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


def file_name(asked: str, kind: str) -> str:
    """A file name that is valid anywhere: one path component, printable, at most 200 bytes."""
    name = unicodedata.normalize("NFC", asked[:2_000]).replace("\\", "/").rpartition("/")[2]
    name = "".join(letter for letter in name if unicodedata.category(letter)[0] != "C")
    name = " ".join(re.sub(r'[<>:"|?*]', "_", name).split()).strip(". ")
    if not name:
        short = re.fullmatch(r"[a-z]+/([a-z]{2,4})", kind)
        usual = f".{short[1]}" if short else ".txt" if kind.startswith("text/") else ".bin"
        return "attachment" + _SUFFIXES.get(kind, usual)
    if name.startswith("-") or RESERVED.fullmatch(name):
        name = "_" + name
    if len(name.encode()) > 200:
        stem, suffix = os.path.splitext(name)
        suffix = suffix if len(suffix.encode()) <= 20 else ""
        name = stem.encode()[: 200 - len(suffix.encode())].decode("utf-8", "ignore") + suffix
    return name
