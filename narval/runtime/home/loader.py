"""Loader: reads `recipes/` and `modules/` of a home and builds the next library (N13, N30, N31).

A file is good as a whole or not at all, and so is a module that is a folder. One with faults leaves its last
good version at work: the one this loader read before, else the one that the store kept, else, of a module,
the one that ships. All faults are found at once, those within files first, then those of references between
them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from narval.definitions.library import Definition, Library, Parsed, Reference
from narval.errors import Fault
from narval.runtime.home.found_files import FoundFiles
from narval.runtime.home.loaded import FileState, parse_file
from narval.runtime.home.loaded import Loaded as Loaded
from narval.runtime.home.module_text import ModuleText
from narval.runtime.home.modules import Imported, Module, ModulePackage
from narval.runtime.home.settlement import Settlement
from narval.runtime.home.shipped import is_shipped, shipped_modules
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
        self._imported: tuple[object, Imported] | None = None
        self._kept: tuple[Reference, ...] = ()

    def load(self) -> Loaded:
        """Read all files of the home, and settle which of them are good."""
        if self._home is None:
            return Loaded()
        found = FoundFiles(self._home)
        read = {source.path: self._parse(source) for source in found.others}
        imported = self._import(found, self._home)
        settlement, imported = self._settle(read, imported)
        self._library = settlement.library
        paths = found.paths.union(module.text.path for module in imported.modules.values())
        self._versions.note(_good(imported, read, settlement), paths)
        self._parsed = {path: parsed for path, parsed in self._parsed.items() if path in found.paths}
        faults = sorted({*found.faults, *settlement.all_faults()})
        errors = {fault.path: str(fault) for fault in reversed(faults)}
        files = tuple(
            FileState(file.path, file.digest, self._versions.loaded_at(path), errors.get(file.path))
            for path, file in _files(found, imported)
        )
        loaded = Loaded(settlement.library, faults=tuple(faults), files=files)
        return loaded.with_modules(imported.modules.values())

    def forget_fallback(self) -> None:
        """Go by what this loader has read from now on: the store is of one thread."""
        self._versions.forget_fallback()

    def keep(self, references: Iterable[Reference]) -> None:
        """Have the modules that ship which these name, whatever the files name (N31)."""
        self._kept = tuple(dict.fromkeys((*self._kept, *references)))

    def _parse(self, source: Source) -> Parsed:
        digest, parsed = self._parsed.get(source.path, ("", None))
        if parsed is None or digest != source.digest:
            parsed = parse_file(source)
            self._parsed[source.path] = source.digest, parsed
        return parsed

    def _import(self, found: FoundFiles, home: Path) -> Imported:
        """Import the modules of the home anew if any of them has changed, for they may use each other."""
        state = [(text.path, text.digest, text.faults) for text in found.modules]
        if self._imported is None or self._imported[0] != state:
            groups, ships = found.groups, shipped_modules()
            siblings = {name for text in found.modules for name in text.siblings if name in ships.names}

            def versions(group: str) -> Iterator[ModuleText] | None:
                return self._of_group(groups[group]) if group in groups else None

            def lend(group: str) -> Module | None:
                return ships.lend(group) if group in siblings else None

            # file names as others make them of the home, so that a traceback is known to be of this file
            package = ModulePackage(versions, f"{home}{os.sep}", lender=lend)
            self._imported = state, package.load(sorted(groups.keys() | siblings))
        return self._imported[1]

    def _of_group(self, texts: Sequence[ModuleText]) -> Iterator[ModuleText]:
        """A module as it is, then, in case that is not good, as it last was when it was."""
        yield _alone(texts)
        for text in texts:
            yield from self._versions.of_module(text)

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


def _alone(texts: Sequence[ModuleText]) -> ModuleText:
    """The only module of its group; of several, the first with their faults."""
    if len(texts) == 1:
        return texts[0]
    paths = " and ".join(text.path for text in texts)
    message = f"expected one module of the name {texts[0].group!r}, found {paths}; rename or remove one"
    return replace(texts[0], faults=tuple(Fault(text.path, 1, 1, message) for text in texts))


def _files(found: FoundFiles, imported: Imported) -> Iterator[tuple[str, Source]]:
    """The files that count, with the path of the whole of which each is part."""
    yield from ((source.path, source) for source in found.others)
    borrowed = (imported.modules[group].text for group in sorted(imported.modules))
    for text in (*found.modules, *(text for text in borrowed if is_shipped(text.path))):
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
