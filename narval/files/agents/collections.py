"""Collections: folders of definitions, each read and imported once for all its followers (G3, G4, G15).

The home is a collection, and so are each folder in `collections/` and the folder of an agent. The modules of
a collection may import each other; all its followers share their globals.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from narval.core.definitions.library import Parsed
from narval.core.definitions.parsing import parse
from narval.core.errors import DefinitionError, Fault
from narval.core.source.text import Source
from narval.files.agents.settings import COLLECTIONS
from narval.files.found_files import FoundFiles, ModuleText, find_files
from narval.files.modules import Imported, Module, ModulePackage, without_doubles
from narval.files.shipped import is_shipped, shipped_modules
from narval.system.regular_file import unexpected
from narval.system.scripts.checks import faults_of_scripts

AGENTS = "agents"
"""The folder of a home with the folders of its agents."""

Stored = Callable[[str], Sequence[bytes]]
"""A function that returns the last good version of a file in the store: its bytes, or each definition's."""


def nothing_stored(path: str) -> Sequence[bytes]:
    """The stored versions for a home without a store: none."""
    return ()


class Collection(msgspec.Struct, frozen=True, eq=False):
    """The files of a collection at one moment: definitions by path, modules as imported.

    `within` is its path in the home, with a trailing slash. `good` are the last good texts of its modules, by
    path.
    """

    within: str
    files: FoundFiles
    parsed: Mapping[str, Parsed]
    imported: Imported
    good: Mapping[str, ModuleText]


NO_FILES = Collection("", FoundFiles(), {}, Imported(), {})
"""A collection without files."""


def read_collection(home: Path, within: str, before: Collection, stored: Stored) -> Collection:
    """A collection of a home, from its current files: `before` itself if none has changed."""
    files = find_files(home, within, before.files)
    if before.files == files and before.within == within:
        return before
    return made_of(files, before, within, home, stored)


def made_of(
    files: FoundFiles,
    before: Collection = NO_FILES,
    within: str = "",
    home: Path = Path(),
    stored: Stored = nothing_stored,
) -> Collection:
    """A collection of these files. Those that differ from `before` are parsed or imported; `stored` has
    earlier good versions.
    """
    source_at = {source.path: source for source in before.files.sources}
    parsed = {
        source.path: before.parsed[source.path]
        if source_at.get(source.path) == source
        else parse_file(source)
        for source in files.sources
    }
    parsed |= {fault.path: Parsed((), faults=(fault,)) for fault in files.faults}
    if before.files.modules == files.modules:
        return Collection(within, files, parsed, before.imported, before.good)
    good = {text.path: before.good[text.path] for text in files.modules if text.path in before.good}
    imported = _import(home, files, good, stored)
    good |= {module.text.path: module.text for module in imported.modules.values()}
    return Collection(within, files, parsed, imported, good)


def parse_file(source: Source) -> Parsed:
    """The definitions of a file, and all its faults, including those of its scripts."""
    try:
        parsed = parse(source)
        mistakes = faults_of_scripts(parsed.definitions)
        return parsed._replace(faults=tuple(sorted({*parsed.faults, *mistakes})))
    except DefinitionError as error:
        return Parsed((), faults=error.faults)
    except Exception as error:
        return Parsed((), faults=(unexpected(source.path, error),))


def _import(home: Path, files: FoundFiles, good: Mapping[str, ModuleText], stored: Stored) -> Imported:
    """Import all modules again, for they may use each other: the newest good version of each."""
    groups, ships = dict[str, list[ModuleText]](), shipped_modules()
    for text in files.modules:
        groups.setdefault(text.group, []).append(text)
    siblings = {name for text in files.modules for name in text.siblings if name in ships.names}

    def versions(group: str) -> Iterator[ModuleText] | None:
        return _versions(groups[group], good, stored) if group in groups else None

    def lend(group: str) -> Module | None:
        return ships.lend(group) if group in siblings else None

    # absolute file names, so that a traceback is recognized as this file's
    package = ModulePackage(versions, f"{home}{os.sep}", lender=lend)
    return package.load(sorted(groups.keys() | siblings))


def _versions(
    texts: Sequence[ModuleText], good: Mapping[str, ModuleText], stored: Stored
) -> Iterator[ModuleText]:
    """The versions of a module, the newest first."""
    yield _alone(texts)
    for text in texts:
        if text.path in good:
            yield good[text.path]
            continue
        for data in stored(text.path):
            with suppress(ValueError):
                yield ModuleText.of(text.path, data)


def folder_of(path: str) -> str:
    """The collection of a file, as its path within the home; "" for the home itself."""
    first, _, rest = path.partition("/")
    return f"{first}/{rest.partition('/')[0]}/" if first in (AGENTS, COLLECTIONS) and rest else ""


def joined(collections: Sequence[Collection]) -> Imported:
    """The modules of several collections; a name that several use belongs to the first of them."""
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
    """The faults, at both places, of modules with the same name in two collections."""
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
