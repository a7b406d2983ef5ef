"""Loader: reads `recipes/` and `modules/` of a home and builds the next library (N13, N30, N31).

A file is good as a whole or not at all. One with faults leaves its last good version at work: the one this
loader read before, else the one that the store kept. All faults are found at once, those within files first,
then those of references between them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from narval.definitions.library import Definition, Library, Parsed
from narval.runtime.home.found_files import FoundFiles
from narval.runtime.home.loaded import FileState, parse_file
from narval.runtime.home.loaded import Loaded as Loaded
from narval.runtime.home.modules import Imported, import_modules
from narval.runtime.home.settlement import Settlement
from narval.runtime.home.versions import Fallback, GoodVersion, GoodVersions
from narval.source.text import Source


class Loader:
    """Reads a home, again and again; None stands for a home in memory, which has no files."""

    def __init__(self, home: Path | None, fallback: Fallback | None = None) -> None:
        self._home = home
        self._versions = GoodVersions(fallback)
        self._library = Library()
        """The library of the last time."""
        self._parsed: dict[str, tuple[str, Parsed]] = {}
        self._imported: tuple[tuple[str, ...], Imported] | None = None

    def load(self) -> Loaded:
        """Read all files of the home, and settle which of them are good."""
        if self._home is None:
            return Loaded()
        found = FoundFiles(self._home)
        imported = self._import({Path(source.path).stem: source for source in found.modules}, self._home)
        read = {source.path: self._parse(source) for source in found.others}
        settlement = Settlement(imported, read, self._versions.definitions, self._library)
        self._library = settlement.library
        self._versions.note(_good(imported, read, settlement), found.paths)
        self._parsed = {path: parsed for path, parsed in self._parsed.items() if path in found.paths}
        faults = sorted({*found.faults, *settlement.all_faults()})
        errors = {fault.path: str(fault) for fault in reversed(faults)}
        files = tuple(
            FileState(file.path, file.digest, self._versions.loaded_at(file.path), errors.get(file.path))
            for file in found.sources
        )
        loaded = Loaded(settlement.library, faults=tuple(faults), files=files)
        return loaded.with_modules(imported.modules.values())

    def forget_fallback(self) -> None:
        """Go by what this loader has read from now on: the store is of one thread."""
        self._versions.forget_fallback()

    def _parse(self, source: Source) -> Parsed:
        digest, parsed = self._parsed.get(source.path, ("", None))
        if parsed is None or digest != source.digest:
            parsed = parse_file(source)
            self._parsed[source.path] = source.digest, parsed
        return parsed

    def _import(self, modules: Mapping[str, Source], home: Path) -> Imported:
        """Import the modules anew if any of them has changed, for they may use each other."""
        digests = tuple(f"{stem}:{source.digest}" for stem, source in sorted(modules.items()))
        if self._imported is None or self._imported[0] != digests:

            def versions(stem: str) -> Iterator[Source] | None:
                return self._versions.of_module(modules[stem]) if stem in modules else None

            # file names as others make them of the home, so that a traceback is known to be of this file
            self._imported = digests, import_modules(sorted(modules), versions, f"{home}{os.sep}")
        return self._imported[1]


def _good(imported: Imported, read: Mapping[str, Parsed], settlement: Settlement) -> dict[str, GoodVersion]:
    """The good versions there are now; what they import does not change when it is to be kept."""
    now = time.time()
    good = {}
    for path, parsed in read.items():
        if path not in settlement.faults:
            pinned = (_pinned(definition, settlement.library) for definition in parsed.definitions)
            good[path] = GoodVersion(tuple(pinned), now)
    for module in imported.modules.values():
        good[module.source.path] = GoodVersion(module.found, now, module.source)
    return good


def _pinned(definition: Definition, library: Library) -> Definition:
    """A definition as the library has composed it, whatever becomes of what it imports."""
    found = library.get(definition.kind, definition.full_name)
    return definition if found is None or found.draft is None else found.pinned()
