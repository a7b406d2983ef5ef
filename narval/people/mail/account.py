"""Accounts of mail: `mailbox` and `outbox` elements, and the files kept for them."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import threading
import unicodedata
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

from narval.calls.context import now
from narval.core.definitions.appointment import read_date
from narval.core.errors import ActionError
from narval.system.secret import secret_named

Way = TypeVar("Way")


class Account(NamedTuple):
    """The values of a `mailbox` or `outbox` element, and its home; None for a home in memory."""

    given: Mapping[str, str]
    home: Path | None = None

    def __str__(self) -> str:
        return self.given.get("name") or self.given.get("path") or self.given.get("host") or "unnamed"

    @property
    def element(self) -> str:
        """The element of a mailbox, as it is called where somebody is to alter it."""
        name = self.given.get("name")
        return f'<mailbox name="{name}">' if name else f"the <mailbox> of {self}"

    def fault(self, message: str) -> ActionError:
        """The error to raise where the element asks for something impossible."""
        return ActionError(f"account {self}: {message}", "bad-account", final=True)

    def choose(self, kinds: Mapping[str, Way], usual: str) -> Way:
        """The way to reach it, of those there are by kind; `usual` is the kind of an account on a server."""
        kind = self.given.get("kind") or ("maildir" if "path" in self.given else usual)
        if kind not in kinds:
            raise self.fault(f"expected kind to be one of {', '.join(kinds)}, got {kind!r}")
        return kinds[kind]

    @property
    def path(self) -> Path:
        """The path of its files; a relative one begins at the home."""
        if not self.given.get("path"):
            raise self.fault("expected a path, got none")
        return (self.home or Path()) / Path(self.given["path"]).expanduser()

    @property
    def since(self) -> float | None:
        """The moment before which nothing that came is news; None where all is."""
        if not (text := self.given.get("since")):
            return None
        try:
            return read_date(text, str(now().tzinfo))
        except ValueError:
            wanted = "expected since to be a date, such as 2026-11-24 or 2026-11-24T09:00:00Z"
            raise self.fault(f"{wanted}, got {text!r:.80}") from None

    @property
    def tls(self) -> str:
        """The protection of its connection; only a connection within the machine may be without."""
        tls = self.given.get("tls", "implicit")
        if tls not in ("implicit", "starttls", "none"):
            raise self.fault(f"expected tls to be implicit, starttls or none, got {tls!r}")
        if tls == "none" and self.given.get("host") not in ("localhost", "127.0.0.1", "::1"):
            raise self.fault("without tls, mail and password would go through the net in the clear")
        return tls

    def port(self, **usual: int) -> int:
        """The port given, or the usual one for its protection."""
        port = self.given.get("port") or str(usual[self.tls])
        if not port.isdecimal() or not 0 < int(port) < 65536:
            raise self.fault(f"expected port to be a number below 65536, got {port!r}")
        return int(port)

    def secret(self) -> str:
        """The password, from the environment variable or the file in etc/ that `secret` names."""
        name = self.given.get("secret", "")
        if not name:
            where = "where etc/NAME or the environment variable NAME holds the password"
            raise self.fault(f'expected secret="NAME", {where}; found none')
        try:
            return secret_named(name, self.home)
        except ValueError as error:
            raise self.fault(f"secret: {error}") from None

    def keep(self, chunks: Iterable[bytes], name: str) -> dict[str, str]:
        """Keep content as a file of the home, found by its digest: keeping it twice is keeping it once."""
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
        shown = place.removeprefix(f"{self.home}/") if self.home else place
        return {"size": str(size), "file": f"{shown}/{name}", "sha256": digest.hexdigest()}

    def bookmark(self) -> list[str]:
        """The letters of this mailbox that were recorded before: a shortcut only, as keys decide (N37)."""
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
    """A name under which a file can be kept anywhere: one path component, printable, at most 200 bytes."""
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
