"""The files of a home at one moment, against which proposals and edited texts are judged."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

import msgspec

from narval.core.definitions.people.directory import Directory
from narval.core.trust.needs import NamedPlaces
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
        declared = [*(self.snapshot.own.declared or ()), *elements]
        return named_places(msgspec.structs.replace(self.snapshot.own, declared=declared), self.settings)


def text_or_nothing(path: Path) -> str:
    """The text of a file; "" if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
