"""Loader: reads `recipes/` and `modules/` of a home and builds the next library (N13, N30, N31).

A file is good as a whole or not at all, and so is a module that is a folder. One with faults leaves its last
good version at work: the one this loader read before, else the one that the store kept, else, of a module,
the one that ships. All faults are found at once, those within files first, then those of references between
them. Agents that follow the same collections have one library (G4).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from narval.core.definitions.library import Definition, Library, Parsed, Reference
from narval.core.source.text import Source
from narval.files.agents.collections import Collection, CollectionRead, joined
from narval.files.loaded import FileState
from narval.files.loaded import Loaded as Loaded
from narval.files.modules import Imported
from narval.files.schemas import SHOWN as SCHEMAS
from narval.files.schemas import Schemas
from narval.files.settlement import Settlement
from narval.files.shipped import is_shipped, shipped_modules
from narval.files.versions import Fallback, GoodVersion, GoodVersions

HOME_ALONE = ("",)
"""The collections of an agent that follows the home and nothing else, by their paths in the home."""


class Loader:
    """Reads a home, again and again; None stands for a home in memory, which has no files."""

    def __init__(self, home: Path | None, fallback: Fallback | None = None) -> None:
        self._home, self._fallback = home, fallback
        self._collections: dict[str, Collection] = {}
        self._read: dict[str, CollectionRead] = {}
        """The collections as they were read this time."""
        self._followed: dict[tuple[str, ...], Followed] = {}
        self._schemas: dict[str, Schemas] = {}
        """The schemas of collections, as they were read last."""

    def load(self, collections: tuple[str, ...] = HOME_ALONE) -> Loaded:
        """Read all files anew, those of the home first, and settle which of them are good."""
        self._read.clear()
        return self.following(collections)

    def following(self, collections: tuple[str, ...]) -> Loaded:
        """The library of who follows some collections, given by their paths, as they are read this time."""
        if self._home is None:
            return Loaded()
        for within in collections:
            if within not in self._read:
                if within not in self._collections:
                    self._collections[within] = Collection(self._home, within, self._fallback)
                self._read[within] = self._collections[within].read()
        followed = self._followed.setdefault(collections, Followed(self._fallback))
        return followed.settled([self._read[within] for within in collections])

    def schemas(self, within: str) -> Schemas | None:
        """The schemas of a collection as they are now; None where it has none."""
        folder = self._home / within / SCHEMAS if self._home is not None else None
        if folder is None or not folder.is_dir():
            return None
        found = self._schemas[within] = Schemas(folder, self._schemas.get(within), shown=f"{within}{SCHEMAS}")
        return found

    def forget_fallback(self) -> None:
        """Go by what this loader has read from now on: the store is of one thread."""
        self._fallback = None
        for collection in self._collections.values():
            collection.forget_fallback()
        for followed in self._followed.values():
            followed.forget_fallback()

    def keep(self, references: Iterable[Reference], collections: tuple[str, ...] = HOME_ALONE) -> None:
        """Have the modules that ship which these name, whatever the files of who follows name (N31)."""
        if collections in self._followed:
            self._followed[collections].keep(references)


class Followed:
    """The collections that some agents follow, and the library that they make together."""

    def __init__(self, fallback: Fallback | None) -> None:
        self._versions = GoodVersions(fallback)
        self._library = Library()
        """The library of the last time."""
        self._kept: tuple[Reference, ...] = ()
        self._last: tuple[Sequence[CollectionRead], Loaded] | None = None

    def keep(self, references: Iterable[Reference]) -> None:
        """Have the modules that ship which these name, whatever the files name (N31)."""
        kept = tuple(dict.fromkeys((*self._kept, *references)))
        if kept != self._kept:
            self._kept, self._last = kept, None

    def forget_fallback(self) -> None:
        """Go by what was seen here from now on."""
        self._versions.forget_fallback()

    def settled(self, collections: Sequence[CollectionRead]) -> Loaded:
        """The library of what was read; the same as before where nothing has changed."""
        last = self._last
        if last is None or any(old is not new for old, new in zip(last[0], collections, strict=True)):
            last = self._last = collections, self._settled(collections)
        return last[1]

    def _settled(self, collections: Sequence[CollectionRead]) -> Loaded:
        read = {path: parsed for collection in collections for path, parsed in collection.parsed.items()}
        settlement, imported = self._settle(read, joined(collections))
        self._library = settlement.library
        found = [collection.found for collection in collections]
        paths = {path for files in found for path in files.paths}
        paths.update(module.text.path for module in imported.modules.values())
        self._versions.note(_good(imported, read, settlement), paths)
        unread = (fault for files in found for fault in files.faults)
        faults = sorted({*unread, *settlement.all_faults()})
        errors = {fault.path: str(fault) for fault in reversed(faults)}
        files = tuple(
            FileState(file.path, file.digest, self._versions.loaded_at(path), errors.get(file.path))
            for path, file in _files(collections, imported)
        )
        broken = settlement.broken_files()
        loaded = Loaded(settlement.library, faults=tuple(faults), files=files, broken=broken)
        return loaded.with_modules(imported.modules.values())

    def _settle(self, read: Mapping[str, Parsed], imported: Imported) -> tuple[Settlement, Imported]:
        """Settle what is good, with the modules that ship which something names, and of which the home has no
        version that is good.
        """
        ships, tried = shipped_modules(), frozenset(imported.modules)
        references = [*self._kept, *(found for parsed in read.values() for found in parsed.references)]
        while True:
            named = ships.named(references) - tried
            imported, tried = ships.load(named).joined(imported), tried | named
            settlement = Settlement(imported, read, self._versions.definitions, self._library)
            if not settlement.faults:
                return settlement, imported
            # last good versions may name what their files do not name any more
            references = [reference for known in settlement.library for reference in known.references]
            if ships.named(references) <= tried:
                return settlement, imported


def _files(collections: Sequence[CollectionRead], imported: Imported) -> Iterator[tuple[str, Source]]:
    """The files that count, with the path of the whole of which each is part."""
    for collection in collections:
        yield from ((source.path, source) for source in collection.found.others)
    modules = [text for collection in collections for text in collection.found.modules]
    borrowed = (imported.modules[group].text for group in sorted(imported.modules))
    for text in (*modules, *(text for text in borrowed if is_shipped(text.path))):
        yield from ((text.path, file) for file in text.files.values())


def _good(imported: Imported, read: Mapping[str, Parsed], settlement: Settlement) -> dict[str, GoodVersion]:
    """The good versions there are now; what they import does not change when it is to be kept."""
    now = time.time()
    good = {}
    for path, parsed in read.items():
        if path not in settlement.faults:
            pinned = (_pinned(definition, settlement.library) for definition in parsed.definitions)
            good[path] = GoodVersion(tuple(pinned), now)
    for module in imported.modules.values():
        good[module.text.path] = GoodVersion(module.found, now, module.text)
    return good


def _pinned(definition: Definition, library: Library) -> Definition:
    """A definition as the library has composed it, whatever becomes of what it imports."""
    found = library.get(definition.kind, definition.full_name)
    return definition if found is None or found.draft is None else found.pinned()
