"""A home that is read again and again, as a daemon at work does."""

from __future__ import annotations

from pathlib import Path

from narval.files.loaded import Loaded
from narval.files.reading import Reading
from narval.files.snapshot import AgentFiles, Snapshot


class Loader:
    """Reads a home, each time against what was read before."""

    def __init__(self, home: Path) -> None:
        self._home, self._before = home, Snapshot()

    def load(self) -> Loaded:
        """The library of the home now."""
        loaded = Reading(self._home, self._before).library()
        self._before = Snapshot(AgentFiles(loaded))
        return loaded
