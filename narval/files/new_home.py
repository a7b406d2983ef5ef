"""A new home, made from the sample that ships and its owner's choices; or the demo, added to an existing
home.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import socket
import tempfile
from collections.abc import Collection, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import MappingProxyType
from urllib.parse import unquote, urlsplit
from xml.sax.saxutils import escape, quoteattr

import msgspec
from lxml import etree

from narval.core.definitions.suggestions import nearest
from narval.core.elements.names import TARGET
from narval.core.errors import DefinitionError, RequestError, SurroundingsError
from narval.core.source.text import Source
from narval.core.source.xml import read_xml
from narval.files.found_files import MODULES
from narval.files.home import PARTS, SCENARIOS, Home
from narval.files.memory_file import SHOWN
from narval.files.reading import load
from narval.files.shipped import EXAMPLES, OF_THE_EXAMPLES, shipped
from narval.files.toml import zone
from narval.files.trust_file import TRUST_FILE

_EMPTY_MEMORY = """\
<?xml version="1.0" encoding="utf-8"?>
<!--
  What the agent knows from the beginning. Edit it freely, also while narval runs: new elements are added to
  memory, a changed one replaces the element of its key or name, a removed one is outdated.
-->
<memory>
</memory>
"""

_NOT_COPIED = shutil.ignore_patterns(EXAMPLES, "__pycache__", "*.pyc", ".*")


def create_home(
    path: Path | str, sample: Path | None = None, *, bare: bool = False, choices: HomeChoices | None = None
) -> Home:
    """Make a home that is ready to run, from the sample that ships, with its owner's choices. Existing files
    are not altered; if making fails, or is interrupted, nothing of it is left.

    Shipped modules are not copied: they are used in place (`shipped`). Nor are examples. A bare home has only
    the settings of the sample, no recipes, no rules about what may go where, and an empty memory.

    Raises RequestError if a home exists already, SurroundingsError if it cannot be written.
    """
    home, choices = Home(path), choices or HomeChoices()
    refuse_home(home)
    with ExitStack() as made:
        try:
            for folder in reversed(
                [place for place in (home.path, *home.path.parents) if not place.exists()]
            ):
                folder.mkdir()
                made.callback(_remove, folder)
            with tempfile.TemporaryDirectory(prefix=".narval-init-", dir=home.path) as scratch:
                _fill(sample or shipped(), Path(scratch), choices, bare=bare)
                for part in (*PARTS, SCENARIOS):
                    if Path(scratch, part).is_dir() and not (home.path / part).exists():
                        made.callback(shutil.rmtree, home.path / part, ignore_errors=True)
                        Path(scratch, part).rename(home.path / part)
            for folder in (home.inbox, home.var):
                if not folder.exists():
                    made.callback(_remove, folder)
            home.inbox.mkdir(exist_ok=True)
            home.prepare()
        except OSError as error:
            why = error.strerror or error
            raise SurroundingsError(f"cannot make a home in {home.path}: {why}; nothing was made") from error
        made.pop_all()
    return home


def refuse_home(home: Home) -> None:
    """Raise RequestError if no home can be made: one exists, or the path is not a folder."""
    if home.exists():
        run, add = f"narval --home {home.quoted} run", f"narval init --demo {home.quoted}"
        ways = f"start it: {run}; add the demo to it: {add}; for a new one, name another folder"
        raise RequestError(f"{home.path} is a home already; {ways}")
    if home.path.exists() and not home.path.is_dir():
        raise RequestError(f"expected a folder or nothing at {home.path}, found something else")


def _remove(folder: Path) -> None:
    """Remove a folder that was made, unless it has content by now."""
    with suppress(OSError):
        folder.rmdir()


def _fill(sample: Path, scratch: Path, choices: HomeChoices, *, bare: bool) -> None:
    """Make the parts of a new home in a folder."""
    copy_sample(sample, scratch, ("etc",) if bare else (*PARTS, SCENARIOS))
    memory, settings = scratch / "data" / "memory.xml", scratch / "etc" / "narval.toml"
    if bare:
        (scratch / TRUST_FILE).unlink(missing_ok=True)  # the asking work would be a recipe: there is none
        memory.write_text(_EMPTY_MEMORY, encoding="utf-8")
    elif memory.is_file():
        memory.write_text(chosen_memory(memory.read_text("utf-8"), choices), encoding="utf-8")
    if settings.is_file():
        settings.write_text(chosen_settings(settings.read_text("utf-8"), choices), encoding="utf-8")
    if choices.mailbox is not None:
        shutil.rmtree(scratch / "data" / "demo", ignore_errors=True)


def copy_sample(sample: Path, target: Path, filled: Collection[str]) -> None:
    """Copy these parts of the sample to a new home; `data` has the demo's mail and feeds."""
    for part in (*PARTS, SCENARIOS):
        if part in filled and (sample / part).is_dir():
            ignore = _all_but_examples if part == MODULES else _NOT_COPIED
            shutil.copytree(sample / part, target / part, ignore=ignore)
        elif part in PARTS:
            (target / part).mkdir()


def _all_but_examples(folder: str, names: list[str]) -> set[str]:
    """The modules that are not copied: all except those of the examples."""
    return {name for name in names if Path(name).stem not in OF_THE_EXAMPLES}


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
        candidates = (dict(self.mailbox or {}).get("user", ""), os.environ.get("EMAIL", ""))
        return next(filter(_ADDRESS.fullmatch, candidates), f"{login}@{socket.getfqdn()}")


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
        what_is_there = (
            "another folder" if path.is_dir() else "another file" if path.exists() else "not there"
        )
    except OSError as error:
        what_is_there = f"a file that cannot be read ({error.strerror})"
    if _ADDRESS.fullmatch(said) and what_is_there == "not there":
        what_is_there = f"an address: with its server it would be imaps://{said}@imap.example.org"
    raise ValueError(f"expected {_MAIL}; {said!r:.200} is {what_is_there}")


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
        text = re.sub(pattern, written.replace("\\", r"\\"), text, count=1)
    return text


# --- the demo -------------------------------------------------------------------------------------------

OF_MAIL = frozenset({"identity", "mailbox", "outbox", "rule", "ack-template"})
"""Names of elements about handling mail: a home that declares any has mail of its own."""

_PARTS = ("recipes", "modules", "data", SCENARIOS)


class LeftOut(msgspec.Struct, frozen=True):
    """A file or a declaration of the demo that was left out, with the reason."""

    what: str
    why: str


class DemoAdded(msgspec.Struct, frozen=True):
    """The files of a home that were added or extended, and what was left out."""

    added: list[str]
    left: list[LeftOut]


def add_demo(home: Home) -> DemoAdded:
    """Add the shipped demo to a home: missing files, and declarations at the end of its `data/memory.xml`.
    Existing files stay unchanged, and so does the home's own mail.

    Raises SurroundingsError if it cannot be written.
    """
    result = DemoAdded([], [])
    try:
        with tempfile.TemporaryDirectory(prefix=".narval-init-", dir=home.path) as folder:
            made = Path(folder)
            copy_sample(shipped(), made, _PARTS)
            names, new = _definitions(home.path), _definitions(made)
            for path in sorted(made.rglob("*")):
                path_shown = path.relative_to(made).as_posix()
                if path_shown != SHOWN:
                    doubles = [name for name, place in new.items() if place == path_shown and name in names]
                    there = [f"{name} is in {names[name]}" for name in doubles if names[name] != path_shown]
                    _put(path, home.path / path_shown, path_shown, result, there)
            _declare(home.memory, (made / SHOWN).read_bytes(), result)
    except OSError as error:
        raise SurroundingsError(f"cannot add the demo to {home.path}: {error}") from error
    return result


def _put(path: Path, target: Path, place: str, result: DemoAdded, there: list[str]) -> None:
    """Put a file or folder of the demo at a free path, unless its definitions are `there` already."""
    if path.is_dir():
        if not target.exists():
            target.mkdir()
    elif target.exists():
        if target.is_dir() or target.read_bytes() != path.read_bytes():
            result.left.append(LeftOut(place, "there is another of this name"))
    elif there:
        result.left.append(LeftOut(place, there[0]))
    else:
        path.rename(target)
        result.added.append(place)


def _definitions(home: Path) -> dict[str, str]:
    """The file of each definition of a home, by its name."""
    return {definition.full_name: definition.path for definition in load(home).library if definition.path}


def _declare(memory: Path, shipped: bytes, result: DemoAdded) -> None:
    """Add the shipped declarations to those of a home, and note what is left out."""
    try:
        text = memory.read_bytes().decode("utf-8")
        declared = read_xml(Source(SHOWN, text.encode())).children
    except FileNotFoundError:
        text, declared = "<memory>\n</memory>\n", []
    except (DefinitionError, UnicodeDecodeError):
        result.left.append(LeftOut(SHOWN, "it has faults: narval check"))
        return
    attributes_of = {_identity(node.tag, node.attributes): node.attributes for node in declared}
    has_mail = not OF_MAIL.isdisjoint(node.tag for node in declared)
    pieces, comments = list[str](), list[str]()
    for node in etree.fromstring(shipped):
        written = etree.tostring(node, encoding="unicode", with_tail=False)
        if not isinstance(node.tag, str):
            comments.append(written)
            continue
        attributes = {str(name): str(value) for name, value in node.items()}
        identity = _identity(node.tag, attributes)
        what = " ".join(identity).strip()
        if identity in attributes_of:
            if attributes != attributes_of[identity]:
                result.left.append(LeftOut(what, f"{SHOWN} declares another"))
        elif has_mail and (node.tag in OF_MAIL or identity[1].startswith("mail.")):
            result.left.append(LeftOut(what, "this home has mail of its own"))
        else:
            pieces += (*comments, written)
        comments.clear()
    if not pieces:
        return
    before, end, after = text.rpartition("</memory>")
    if not end:
        before, after = text[: text.rindex("<memory")] + "<memory>\n", "\n"
    added = "\n".join(f"  {piece}" for piece in ("<!-- The demo, as it ships. -->", *pieces))
    draft = memory.with_name(f".{memory.name}.new")
    draft.write_text(f"{before.rstrip()}\n{added}\n</memory>{after}", encoding="utf-8")
    if memory.exists():
        shutil.copymode(memory, draft)
    draft.replace(memory)
    result.added.append(SHOWN)


def _identity(tag: str, attributes: dict[str, str]) -> tuple[str, str]:
    """The key of a declaration: its kind, and its name or the definition that it starts."""
    named = (attributes.get(name) for name in ("key", "name", TARGET))
    return tag, next(filter(None, named), "")
