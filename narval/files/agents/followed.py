"""Followed files: what counts for an agent by the collections that it follows (G3, G58)."""

from __future__ import annotations

from pathlib import Path

import msgspec

from narval.core.errors import Fault
from narval.files.agents.settings import COLLECTIONS, AgentSettings
from narval.files.loaded import Loaded
from narval.files.loader import Loader
from narval.files.memory_file import SHOWN as MEMORY
from narval.files.memory_file import read_memory
from narval.files.schemas import Schemas


class FollowedFiles(msgspec.Struct, frozen=True):
    """The files of the `collections` that agents follow, which are given by their paths in the home;
    `declared` is None where a `data/memory.xml` of them has faults.
    """

    collections: tuple[str, ...]
    loaded: Loaded
    schemas: Schemas
    declared: list[bytes] | None
    faults: tuple[Fault, ...] = ()

    @property
    def state(self) -> tuple[object, ...]:
        """Equal for files of equal contents."""
        return self.collections, self.loaded.files, self.schemas.digest, self.declared, self.faults


def read_followed(
    home: Path,
    loader: Loader,
    collections: tuple[str, ...],
    beneath: Schemas,
    limits: AgentSettings,
    *,
    starts: bool = False,
) -> FollowedFiles:
    """Read what counts by some collections, given by their paths in the home; of two schemas for elements of
    one name that of the first collection, and those `beneath` for all others.

    With `starts` it is a fault to start what is not there.
    """
    loaded, schemas, faults = loader.following(collections), beneath, list[Fault]()
    folders = [within for within in collections if within.startswith(f"{COLLECTIONS}/")]
    for within in reversed(folders):
        if (found := loader.schemas(within)) is not None:
            schemas = found.over(schemas)
            faults += found.faults()
    declared: list[bytes] | None = []
    for within in folders:
        shown = f"{within}{MEMORY}"
        read, wrong = read_memory(home / shown, schemas, loaded.library, limits, starts=starts, shown=shown)
        declared = [*declared, *read] if declared is not None and read is not None else None
        faults += wrong
    return FollowedFiles(collections, loaded, schemas, declared, tuple(sorted({*faults, *loaded.faults})))
