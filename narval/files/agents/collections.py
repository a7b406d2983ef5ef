"""Collections: folders of definitions, each read and imported once for all who follow it (G3, G4, G15).

The home is a collection, and so are a folder in `collections/` and the folder of an agent. The modules of one
may import each other; they share their globals with all who follow it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from narval.core.definitions.library import Parsed
from narval.core.errors import Fault
from narval.core.source.text import Source
from narval.files.agents.settings import COLLECTIONS
from narval.files.found_files import FoundFiles
from narval.files.loaded import parse_file
from narval.files.module_text import ModuleText
from narval.files.modules import Imported, Module, ModulePackage, without_doubles
from narval.files.shipped import is_shipped, shipped_modules
from narval.files.versions import Fallback, GoodVersion, GoodVersions

AGENTS = "agents"
"""The folder of a home that has the folders of its agents."""


class CollectionRead(NamedTuple):
    """The files of a collection as they are at one moment: definitions by path, modules as imported."""

    found: FoundFiles
    parsed: Mapping[str, Parsed]
    imported: Imported


class Collection:
    """A collection in a home, read again and again; `within` is its path there, with a slash at its end."""

    def __init__(self, home: Path, within: str, fallback: Fallback | None) -> None:
        self._home, self._within = home, within
        self._versions = GoodVersions(fallback)
        self._parsed: dict[str, tuple[str, Parsed]] = {}
        self._imported: tuple[object, Imported] | None = None
        self._last: tuple[object, CollectionRead] | None = None

    def read(self) -> CollectionRead:
        """Read all files; the same as before where none has changed."""
        found = FoundFiles(self._home, self._within)
        if self._last is None or self._last[0] != found.state:
            parsed = {source.path: self._parse(source) for source in found.others}
            self._last = found.state, CollectionRead(found, parsed, self._import(found))
            self._parsed = {path: known for path, known in self._parsed.items() if path in found.paths}
        return self._last[1]

    def forget_fallback(self) -> None:
        """Go by what was read from now on: the store is of one thread."""
        self._versions.forget_fallback()

    def _parse(self, source: Source) -> Parsed:
        digest, parsed = self._parsed.get(source.path, ("", None))
        if parsed is None or digest != source.digest:
            parsed = parse_file(source)
            self._parsed[source.path] = source.digest, parsed
        return parsed

    def _import(self, found: FoundFiles) -> Imported:
        """Import the modules anew if any of them has changed, for they may use each other."""
        state = [(text.path, text.digest, text.faults) for text in found.modules]
        if self._imported is None or self._imported[0] != state:
            groups, ships = found.groups, shipped_modules()
            siblings = {name for text in found.modules for name in text.siblings if name in ships.names}

            def versions(group: str) -> Iterator[ModuleText] | None:
                return self._of_group(groups[group]) if group in groups else None

            def lend(group: str) -> Module | None:
                return ships.lend(group) if group in siblings else None

            # file names as others make them of the home, so that a traceback is known to be of this file
            package = ModulePackage(versions, f"{self._home}{os.sep}", lender=lend)
            imported = package.load(sorted(groups.keys() | siblings))
            now, modules = time.time(), imported.modules.values()
            good = {module.text.path: GoodVersion(module.found, now, module.text) for module in modules}
            self._versions.note(good, found.paths | good.keys())
            self._imported = state, imported
        return self._imported[1]

    def _of_group(self, texts: Sequence[ModuleText]) -> Iterator[ModuleText]:
        """A module as it is, then, in case that is not good, as it last was when it was."""
        yield _alone(texts)
        for text in texts:
            yield from self._versions.of_module(text)


def folder_of(path: str) -> str:
    """The collection that a file is in, as its path within the home; "" for the home itself."""
    first, _, rest = path.partition("/")
    return f"{first}/{rest.partition('/')[0]}/" if first in (AGENTS, COLLECTIONS) and rest else ""


def joined(collections: Sequence[CollectionRead]) -> Imported:
    """The modules of several collections; one of a name that another has is left to the first of them."""
    if len(collections) == 1:
        return collections[0].imported
    modules: dict[str, Module] = {}
    faults: dict[str, tuple[Fault, ...]] = {}
    for read in collections:
        faults.update(read.imported.faults)
        for group, module in read.imported.modules.items():
            first = modules.get(group)
            if first is None or is_shipped(first.text.path):
                modules[group] = module
            elif not is_shipped(module.text.path):
                faults[group] = (*faults.get(group, ()), *_both(group, first.text, module.text))
    return Imported(without_doubles(modules, faults), faults)


def _both(group: str, *texts: ModuleText) -> Iterator[Fault]:
    """The faults, at both places, of modules of one name in two collections."""
    for text, other in zip(texts, reversed(texts), strict=True):
        message = f"expected one module of the name {group!r} of those followed, found {other.path} too"
        yield Fault(text.path, 1, 1, message)


def _alone(texts: Sequence[ModuleText]) -> ModuleText:
    """The only module of its group; of several, the first with their faults."""
    if len(texts) == 1:
        return texts[0]
    paths = " and ".join(text.path for text in texts)
    message = f"expected one module of the name {texts[0].group!r}, found {paths}; rename or remove one"
    return replace(texts[0], faults=tuple(Fault(text.path, 1, 1, message) for text in texts))
