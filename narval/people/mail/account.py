"""Accounts of mail, as described by `mailbox` and `outbox` elements, or by a table of the settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from narval.core.errors import ActionError
from narval.system.secret import secret_named

Way = TypeVar("Way")


class MailAccount(NamedTuple):
    """A place to read mail from, or to deliver it to: a Maildir or a server.

    `given` are the attributes of a `mailbox` or `outbox` element; relative paths and secrets are those of
    `home`, None for a home in memory.
    """

    given: Mapping[str, str]
    home: Path | None = None

    def __str__(self) -> str:
        return self.given.get("name") or self.given.get("path") or self.given.get("host") or "unnamed"

    def fault(self, message: str) -> ActionError:
        """The error to raise for an element that asks for something impossible."""
        return ActionError(f"account {self}: {message}", "bad-account", final=True)

    def choose(self, kinds: Mapping[str, Way], usual: str) -> Way:
        """The way to reach it, chosen from `kinds`; `usual` is the kind of an account on a server.

        Raises ActionError (`bad-account`, final) for an unknown kind.
        """
        kind = self.given.get("kind") or ("maildir" if "path" in self.given else usual)
        if kind not in kinds:
            raise self.fault(f"expected kind to be one of {', '.join(kinds)}, got {kind!r}")
        return kinds[kind]

    @property
    def path(self) -> Path:
        """The path of its files, relative to the home. Raises ActionError if there is none."""
        if not self.given.get("path"):
            raise self.fault("expected a path, got none")
        return (self.home or Path()) / Path(self.given["path"]).expanduser()

    @property
    def tls(self) -> str:
        """The protection of its connection: implicit, starttls or none; none is only for connections within
        the machine.

        Raises ActionError for any other.
        """
        tls = self.given.get("tls", "implicit")
        if tls not in ("implicit", "starttls", "none"):
            raise self.fault(f"expected tls to be implicit, starttls or none, got {tls!r}")
        if tls == "none" and self.given.get("host") not in ("localhost", "127.0.0.1", "::1"):
            raise self.fault("without tls, mail and password would go through the net in the clear")
        return tls

    def port(self, **usual: int) -> int:
        """The given port, or the usual one for its protection. Raises ActionError for an invalid port."""
        port = self.given.get("port") or str(usual[self.tls])
        if not port.isdecimal() or not 0 < int(port) < 65536:
            raise self.fault(f"expected port to be a number below 65536, got {port!r}")
        return int(port)

    def secret(self) -> str:
        """The password, from the environment variable or the file in etc/ that `secret` names.

        Raises ActionError if there is none.
        """
        name = self.given.get("secret", "")
        if not name:
            where = "where etc/NAME or the environment variable NAME holds the password"
            raise self.fault(f'expected secret="NAME", {where}; found none')
        try:
            return secret_named(name, self.home)
        except ValueError as error:
            raise self.fault(f"secret: {error}") from None
