"""Definitions given as texts: their faults, judged against the files of the home at one moment.

The operation `check` lists them; proposals and edited texts are judged against the same files.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from narval.ask.json_forms import fault as form_of
from narval.ask.lookup import files_of
from narval.ask.registry import operation
from narval.core.definitions.parsing import suffixes
from narval.core.definitions.people.directory import Directory
from narval.core.errors import RequestError
from narval.core.trust.needs import NamedPlaces
from narval.daemon.daemon import Daemon
from narval.files.alterations import is_of_server
from narval.files.check import faults_beside
from narval.files.grants import named_places
from narval.files.home import Home
from narval.files.loaded import Loaded
from narval.files.memory_file import SHOWN as DECLARED
from narval.files.people_file import PEOPLE_FILE, read_people
from narval.files.reading import Reading
from narval.files.settings import FILE, Settings
from narval.files.snapshot import Snapshot
from narval.files.trust_file import TRUST_FILE


class HomeAsRead:
    """The files of a home at one moment, against which other texts are judged."""

    def __init__(self, path: Path, settings: Settings, snapshot: Snapshot, people: Directory | None) -> None:
        self.path, self.settings, self.snapshot, self.people = path, settings, snapshot, people

    @classmethod
    def of(cls, home: Home) -> HomeAsRead:
        """The current files of a home. Raises SettingsError."""
        settings, (people, _) = Settings.load(home.path), read_people(home.path)
        snapshot = Reading(home.path).snapshot()
        return cls(home.path, settings, snapshot, people)

    @property
    def loaded(self) -> Loaded:
        """The definitions that are loaded for the home's own agent."""
        return self.snapshot.own.loaded

    @cached_property
    def written(self) -> str:
        """Everything that the owner wrote about places and people: settings, rules, declared elements."""
        files = (FILE, PEOPLE_FILE, TRUST_FILE, DECLARED)
        return "\n".join(text_or_nothing(self.path / name) for name in files)

    def places(self, elements: Iterable[bytes] = ()) -> NamedPlaces:
        """The places that the owner's files name, and further elements that would be declared."""
        owned = [*self.snapshot.own.owned, *elements]
        return named_places(msgspec.structs.replace(self.snapshot.own, owned=owned), self.settings)


def text_or_nothing(path: Path) -> str:
    """The text of a file; "" if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


MOST_TEXTS = 20
"""The most texts of one request."""

MOST_BYTES = 64 * 1024
"""The most bytes of all texts of one request, in UTF-8."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@operation("read")
async def check(daemon: Daemon, texts: dict[str, str]) -> list[dict[str, Any]]:
    """The faults of definitions in texts by the name of their file, as if they were added to the home, with
    warnings. Nothing is stored or run. Python and the tools of MCP servers are refused.
    """
    check_texts(texts)
    loaded, people = files_of(daemon).loaded, daemon.agent.lookup.people
    faults = await asyncio.to_thread(faults_beside, loaded, people, daemon.files.settings, texts)
    return [{**form_of(fault), "warning": fault.warning} for fault in faults]


def check_texts(texts: dict[str, str]) -> None:
    """Raise RequestError for texts that are not definitions, too many or too long."""
    if not 1 <= len(texts) <= MOST_TEXTS:
        raise RequestError(f"expected 1 to {MOST_TEXTS} texts, got {len(texts)}")
    endings = tuple(suffix for suffix in suffixes() if not is_of_server(suffix))
    for name in texts:
        if is_of_server(name):
            why = "the tools of an MCP server are what it says itself, once its owner has accepted them"
            raise RequestError(f"{why}, and are not proposed, got {name!r:.80}: narval mcp tools")
        if not (_NAME.fullmatch(name) and name.endswith(endings)):
            listed = ", ".join(sorted(endings))
            raise RequestError(f"expected the name of a file that ends in {listed}, got {name!r:.80}")
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts.values())
    if size > MOST_BYTES:
        raise RequestError(f"expected at most {MOST_BYTES:,} bytes of texts, got {size:,}")
