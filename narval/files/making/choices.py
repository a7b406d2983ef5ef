"""Choices: the owner's choices for a new home, and the sample's files changed accordingly."""

from __future__ import annotations

import os
import pwd
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from urllib.parse import unquote, urlsplit
from xml.sax.saxutils import escape, quoteattr

import msgspec

from narval.core.definitions.suggestions import nearest
from narval.files.toml import zone

DEMO, NONE = "demo", "none"
"""The words for the mail that ships, and for no mail at all."""

ANSWERS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"nothing": ("leave", "leave"), "ask": ("ask", "ask"), "acknowledge": ("acknowledge", "ask")}
)
"""The verdicts of the sample's rules on people, and on people who want their answers elsewhere, by the choice
of what to answer.
"""

OWN_FILE = "mail-password"
"""The file in `etc/` with the password of a server."""

_MAIL = (
    "the path of a Maildir (a folder with new/ or cur/ in it) or of an mbox, imaps://USER@HOST, demo or none"
)
_ADDRESS = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]+@[A-Za-z0-9.-]+", re.ASCII)
_WITHIN = ("localhost", "127.0.0.1", "::1")

Mailbox = Mapping[str, str] | None
"""The attributes of a `mailbox`; empty for no mailbox; None for the demo's."""


class HomeChoices(msgspec.Struct, frozen=True, kw_only=True):
    """Choices for a new home: the mailbox; the zone of its calendar (None: that of the machine); which people
    get answers, a word of `ANSWERS`.
    """

    mailbox: Mailbox = None
    zone: str | None = None
    answer: str = "acknowledge"

    @property
    def secret(self) -> str:
        """The file in `etc/` for the mailbox's password; empty if it needs none."""
        return dict(self.mailbox or {}).get("secret", "")

    @property
    def address(self) -> str:
        """The sender address of answers: the user at the server, EMAIL, or the user on this machine."""
        login = pwd.getpwuid(os.getuid()).pw_name
        found = (dict(self.mailbox or {}).get("user", ""), os.environ.get("EMAIL", ""))
        return next(filter(_ADDRESS.fullmatch, found), f"{login}@{socket.getfqdn()}")


# --- what was given -----------------------------------------------------------------------------------------


def read_mail(said: str) -> Mailbox:
    """The mailbox that a text describes. Raises ValueError with what was expected and what was found."""
    if said in (DEMO, NONE):
        return None if said == DEMO else {}
    if "://" in said:
        return _server(said)
    path = Path(os.path.abspath(Path(said).expanduser()))
    if is_maildir(path):
        return {"name": "mail", "kind": "maildir", "path": str(path)}
    try:
        if path.is_file() and _is_mbox(path):
            return {"name": "mail", "kind": "mbox", "path": str(path)}
        found = "another folder" if path.is_dir() else "another file" if path.exists() else "not there"
    except OSError as error:
        found = f"a file that cannot be read ({error.strerror})"
    if _ADDRESS.fullmatch(said) and found == "not there":
        found = f"an address: with its server it would be imaps://{said}@imap.example.org"
    raise ValueError(f"expected {_MAIL}; {said!r:.200} is {found}")


def is_maildir(path: Path) -> bool:
    """True if a folder is a Maildir."""
    return (path / "new").is_dir() or (path / "cur").is_dir()


def read_zone(said: str) -> str:
    """The zone that a text names. Raises ValueError."""
    from zoneinfo import available_timezones

    try:
        return zone(said)
    except ValueError as error:
        meant = nearest(said, available_timezones())
        raise ValueError(
            f"expected {error}, found {said!r:.80}{f'; did you mean {meant}?' if meant else ''}"
        ) from None


def maildir_found() -> Path | None:
    """The Maildir of this user: the one in MAILDIR or MAIL, or at the usual places."""
    named = [os.environ[name] for name in ("MAILDIR", "MAIL") if os.environ.get(name)]
    for place in (*named, "~/Maildir", "~/.maildir", "~/Mail", "~/mail"):
        path = Path(place).expanduser()
        if is_maildir(path):
            return path
    return None


def _server(said: str) -> Mailbox:
    """The mailbox at an address such as `imaps://ann@example.org@imap.example.org/INBOX`."""
    scheme, _, rest = said.partition("://")
    place, _, folder = rest.partition("/")
    user, _, host = place.rpartition("@")
    try:
        split = urlsplit(f"//{host}")
        server, port = split.hostname, split.port
    except ValueError:
        server = port = None
    if scheme not in ("imap", "imaps") or not user or not server or ":" in user:
        raise ValueError(f"expected imaps://USER@HOST, or imaps://USER@HOST:PORT/FOLDER, found {said!r:.200}")
    tls = "implicit" if scheme == "imaps" else "none" if server in _WITHIN else "starttls"
    made = {"name": "mail", "kind": "imap", "host": server, "port": str(port or ""), "tls": tls}
    made |= {"user": unquote(user), "secret": OWN_FILE, "folder": unquote(folder)}
    return {name: value for name, value in made.items() if value}


def _is_mbox(path: Path) -> bool:
    """True if a file is empty, or begins like an mbox."""
    with path.open("rb") as file:
        return file.read(5) in (b"", b"From ")


# --- the files written --------------------------------------------------------------------------------------


def chosen_settings(sample: str, choices: HomeChoices) -> str:
    """The text of the sample's settings, with the chosen zone."""
    said = choices.zone and f'timezone = "{choices.zone}"'
    return sample.replace('#timezone = ""', said, 1) if said else sample


def chosen_memory(sample: str, choices: HomeChoices) -> str:
    """The text of the sample's declarations, with the chosen mail and answers."""
    people, elsewhere = ANSWERS[choices.answer]
    text = re.sub(r'(<rule name="people"[^>]*? verdict=)"\w+"', rf'\1"{people}"', sample)
    text = re.sub(r'(<rule name="elsewhere"[^>]*? verdict=)"\w+"', rf'\1"{elsewhere}"', text)
    if choices.mailbox is None:
        return text
    named = "".join(f" {name}={quoteattr(value)}" for name, value in choices.mailbox.items())
    mailbox = f"<mailbox{named}/>" if named else "<!-- None yet. -->"
    address = choices.address
    name = pwd.getpwuid(os.getuid()).pw_gecos.partition(",")[0].strip() or address.partition("@")[0]
    identity = f"<identity name={quoteattr(name)} address={quoteattr(address)}/>"
    mine = f"@from = &quot;{escape(address)}&quot;"
    for pattern, written in (
        (r'<mailbox name="demo"[^>]*/>', mailbox),
        (r"<identity [^>]*/>", identity),
        (r"@from = '[^']*'", mine),
        (r"(?:\n *<feed [^>]*/>)+\n", ""),
    ):
        before, found, after = _parted(text, pattern)
        text = before + written + after if found else text
    return text


def _parted(text: str, pattern: str) -> tuple[str, str, str]:
    """The text before the first match of a pattern, the match, and the text after it."""
    found = re.search(pattern, text)
    return (text[: found.start()], found[0], text[found.end() :]) if found else (text, "", "")
