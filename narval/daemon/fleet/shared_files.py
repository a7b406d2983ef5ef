"""Shared files: the files and settings of agents that any daemon of a store may have (G58)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from narval.core.errors import RequestError
from narval.daemon.agents.agent_rows import AgentRows
from narval.files.agents.folders import paths_of
from narval.files.agents.published_folders import digest_here, own_folder_faults
from narval.files.agents.settings import (
    COLLECTIONS,
    HOME_COLLECTION,
    OWN,
    SETTINGS,
    AgentSettings,
    CollectionsOf,
    Given,
    parse_stored_settings,
)
from narval.files.reading import Reading
from narval.files.schemas import Schemas
from narval.files.snapshot import AgentFiles, Snapshot
from narval.store.store import Store

log = logging.getLogger("narval.collections")


class WantedFiles(NamedTuple):
    """The wanted files: the digests of the `published` collections by name, and the combinations of
    collections that agents without a folder have `followed`.
    """

    published: Mapping[str, str] = {}
    followed: frozenset[tuple[str, ...]] = frozenset()


def with_shared(
    home: Path, files: Snapshot, reading: Reading, before: Snapshot, wanted: WantedFiles
) -> Snapshot:
    """The files of a home, with the published collections that are followed. Parts whose files differ from
    the published version stay as they were `before`.
    """
    there = {name: digest_here(home, name) for name in wanted.published}
    faults = sorted({*files.own.faults, *own_folder_faults(home, wanted.published, there)})
    instead = f"{COLLECTIONS}/{HOME_COLLECTION}/" if HOME_COLLECTION in there else ""
    beneath, followed = Schemas(None) if instead else files.own.schemas, dict[tuple[str, ...], AgentFiles]()
    for names in {*wanted.followed, AgentSettings().collections} if instead else wanted.followed:
        earlier = before.followed.get(names)
        if lacking(home, names, wanted.published, there) is None:
            limits = msgspec.structs.replace(files.settings.usual, collections=names)
            read = reading.followed(paths_of(home, limits, home_collection=instead), beneath, limits)
            followed[names] = earlier if earlier is not None and earlier.state == read.state else read
        elif earlier is not None:
            followed[names] = earlier
    own = msgspec.structs.replace(files.own, faults=tuple(faults))
    return msgspec.structs.replace(files, own=own, published=there, followed=followed)


def lacking(
    home: Path, names: Iterable[str], published: Mapping[str, str], there: Mapping[str, str]
) -> str | None:
    """The first of some collections whose folder differs from the published version, or, if it is not
    published, is missing.

    `published` are the digests of the store, `there` those of the folders.
    """
    for name in names:
        if name in published:
            if there.get(name) != published[name]:
                return name
        elif name not in (HOME_COLLECTION, OWN) and name not in CollectionsOf(home):
            return name
    return None


class StoredSettings:
    """The settings of the agents of `rows` that have no folder, cached until they may have changed."""

    def __init__(self, store: Store, rows: AgentRows) -> None:
        self._store, self._rows = store, rows
        self._given: dict[str, Given] = {}
        """The cached settings, by name."""
        self._coming: dict[str, str] = {}
        """The texts of settings that are being recorded."""

    def given(self, name: str) -> Given:
        """The stored settings of an agent. Raises StoreError."""
        if self._rows.number(name) is None and name not in self._coming:
            return {}
        if name not in self._given:
            settings, faults = parse_stored_settings(self._text(name))
            for fault in faults:
                log.error("the settings of agent %s are not active: %s", name, fault)
            self._given[name] = settings or {}
        return self._given[name]

    def forget(self, name: str) -> None:
        """Forget the cached settings of an agent."""
        self._given.pop(name, None)

    @contextmanager
    def coming(self, name: str, text: str) -> Iterator[None]:
        """Use a text as the settings of an agent within the `with` block, while it is being recorded.

        Raises RequestError if others are just being recorded.
        """
        if name in self._coming:
            raise RequestError(f"the settings of {name} are just being recorded; ask again")
        self._coming[name] = text
        self.forget(name)
        try:
            yield
        finally:
            del self._coming[name]
            self.forget(name)

    def _text(self, name: str) -> str:
        """The text of an agent's settings; "" if it has none. Raises StoreError."""
        if name in self._coming:
            return self._coming[name]
        number = self._rows.number(name)
        return self._store.of(number).meta.get(SETTINGS, "") if number is not None else ""
