"""The demo that ships, added to an existing home: missing files are added, and nothing is altered."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import msgspec
from lxml import etree

from narval.core.elements.control_elements import TARGET
from narval.core.errors import DefinitionError, SurroundingsError
from narval.core.source.text import Source
from narval.core.source.xml import read_xml
from narval.files.home import SCENARIOS, Home
from narval.files.making.new_home import copy_sample
from narval.files.memory_file import SHOWN
from narval.files.reading import load
from narval.files.shipped import shipped

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
            known, new = _definitions(home.path), _definitions(made)
            for path in sorted(made.rglob("*")):
                shown = path.relative_to(made).as_posix()
                if shown != SHOWN:
                    doubles = [name for name, place in new.items() if place == shown and name in known]
                    there = [f"{name} is in {known[name]}" for name in doubles if known[name] != shown]
                    _put(path, home.path / shown, shown, result, there)
            _declare(home.memory, (made / SHOWN).read_bytes(), result)
    except OSError as error:
        raise SurroundingsError(f"cannot add the demo to {home.path}: {error}") from error
    return result


def _put(path: Path, target: Path, shown: str, result: DemoAdded, there: list[str]) -> None:
    """Put a file or folder of the demo at a free path, unless its definitions are `there` already."""
    if path.is_dir():
        if not target.exists():
            target.mkdir()
    elif target.exists():
        if target.is_dir() or target.read_bytes() != path.read_bytes():
            result.left.append(LeftOut(shown, "there is another of this name"))
    elif there:
        result.left.append(LeftOut(shown, there[0]))
    else:
        path.rename(target)
        result.added.append(shown)


def _definitions(home: Path) -> dict[str, str]:
    """The file of each definition of a home, by its name."""
    return {found.full_name: found.path for found in load(home).library if found.path}


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
    known = {_identity(node.tag, node.attributes): node.attributes for node in declared}
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
        if identity in known:
            if attributes != known[identity]:
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
