"""Loader: reads `recipes/` and `modules/` of a home and builds the next library (N13, N30, N31).

A file is good as a whole or not at all. One with faults leaves its last good version at work: the one this
loader read before, else the one that the store kept. All faults are found at once, those within files first,
then those of what they say of each other.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from narval.definitions.kinds import KINDS, XSLT, parse, suffixes
from narval.definitions.library import Definition, Library, Parsed, check_targets
from narval.definitions.process.composition import compose_all
from narval.definitions.process.definition import Process
from narval.errors import DefinitionError, Fault
from narval.runtime.home.modules import Imported, Lease, Module, Versions, import_modules, stem_of
from narval.runtime.scripts.checks import faults_of_scripts
from narval.source.text import MAX_BYTES, Source
from narval.source.xml import read_xml

RECIPES, MODULES = "recipes", "modules"
BACKUPS = ("~", ".bak", ".orig", ".rej", ".swp", ".tmp")

Fallback = Callable[[str], Sequence[bytes]]
"""The last good version of a file as the store kept it: its bytes, or those of each definition in it."""


class FileState(msgspec.Struct, frozen=True):
    """A file of the home: its digest, since when what is loaded of it is (None: nothing is), its fault."""

    path: str
    digest: str
    loaded: float | None
    error: str | None = None


class Loaded(msgspec.Struct, frozen=True):
    """What a home has: its library, the functions of its modules, and what is wrong with its files.

    `functions` are by what `key_of` calls them, `sources` (the bytes of modules) by the path of the file;
    paths are relative to the home. `leases` keep the modules importable.
    """

    library: Library = msgspec.field(default_factory=Library)
    modules: Mapping[str, ModuleType] = {}
    functions: Mapping[str, Callable[..., Any]] = {}
    sources: Mapping[str, bytes] = {}
    faults: tuple[Fault, ...] = ()
    files: tuple[FileState, ...] = ()
    leases: frozenset[Lease] = frozenset()

    def with_definitions(self, what: str | Path) -> Loaded:
        """The same with the definitions of a file, or of a text, added. Raises DefinitionError."""
        source, folder = _given(what)
        imported = Imported()
        if source.path.endswith(".py"):
            stem = stem_of(source.path)
            imported = import_modules([stem], _siblings(source, folder, stem))
            if stem not in imported.modules:
                raise DefinitionError(imported.faults[stem])
            imported = Imported({stem: imported.modules[stem]})
            definitions: tuple[Definition, ...] = imported.modules[stem].found
        else:
            return self.with_parsed(source, _parse(source))
        return self._with(source, definitions, imported)

    def with_parsed(self, source: Source, parsed: Parsed) -> Loaded:
        """The same with what was made of a text added. Raises DefinitionError."""
        known = self.library.replace(parsed.definitions)
        faults = [*parsed.faults, *check_targets(parsed.references, known)]
        if faults:
            raise DefinitionError(faults)
        return self._with(source, parsed.definitions, Imported())

    def _with(self, source: Source, definitions: tuple[Definition, ...], imported: Imported) -> Loaded:
        library, misfits = compose_all(self.library.replace(definitions))
        if misfits:
            raise DefinitionError(misfits)
        state = FileState(source.path, source.digest, time.time())
        return msgspec.structs.replace(
            self,
            library=library,
            files=(*(each for each in self.files if each.path != source.path), state),
            **_python(imported.modules.values(), self),
        )


class Loader:
    """Reads a home, again and again; None stands for a home in memory, which has no files."""

    def __init__(self, home: Path | None, fallback: Fallback | None = None) -> None:
        self._home = home
        self._fallback = fallback
        self._parsed: dict[str, tuple[str, Parsed]] = {}
        self._good: dict[str, _Good] = {}
        self._composed: Mapping[str, Process] = {}
        self._imported: tuple[tuple[str, ...], Imported] | None = None

    def load(self) -> Loaded:
        """What the home has now."""
        if self._home is None:
            return Loaded()
        found = _Found(self._home)
        modules = {stem_of(each.path): each for each in found.sources if each.path.startswith(MODULES + "/")}
        others = [each for each in found.sources if not each.path.startswith(MODULES + "/")]
        imported = self._import(modules)
        read = {each.path: self._read(each) for each in others}
        round_ = _Round(imported, read, lambda path: self._last_good(path))
        library = self._as_before(round_.settle())
        faults = sorted({*found.faults, *round_.all_faults()})
        self._remember(found, imported, read, round_, library)
        return Loaded(
            library,
            faults=tuple(faults),
            files=tuple(self._states(found, faults)),
            **_python(imported.modules.values()),
        )

    def forget_fallback(self) -> None:
        """From now on this loader knows by itself what was good: the store is of one thread."""
        self._fallback = None

    def _as_before(self, library: Library) -> Library:
        """The same, with the processes of before where they would be composed of the same again."""
        before = self._composed
        processes = [each for each in library.of(Process.kind).values() if isinstance(each, Process)]
        same = [
            before[each.full_name]
            for each in processes
            if each.full_name in before
            and before[each.full_name].draft is each.draft
            and before[each.full_name].digest == each.digest
        ]
        self._composed = {each.full_name: each for each in [*processes, *same] if each.draft is not None}
        return library.replace(same) if same else library

    # --- versions -----------------------------------------------------------------------------------------

    def _read(self, source: Source) -> Parsed:
        digest, parsed = self._parsed.get(source.path, ("", None))
        if parsed is None or digest != source.digest:
            parsed = _parse(source)
            self._parsed[source.path] = source.digest, parsed
        return parsed

    def _import(self, modules: Mapping[str, Source]) -> Imported:
        """Import the modules anew if any of them has changed, for they may use each other."""
        digests = tuple(f"{stem}:{source.digest}" for stem, source in sorted(modules.items()))
        if self._imported is None or self._imported[0] != digests:

            def versions(stem: str) -> Iterator[Source] | None:
                return self._versions(modules[stem]) if stem in modules else None

            # file names as others make them of the home, so that a traceback is known to be of this file
            self._imported = digests, import_modules(sorted(modules), versions, f"{self._home}{os.sep}")
        return self._imported[1]

    def _versions(self, source: Source) -> Iterator[Source]:
        """The module as it is, and, if that is not good, as it was when it was."""
        yield source
        good = self._good.get(source.path)
        if good is not None and good.source is not None:
            yield good.source
        elif self._fallback is not None:
            yield from (Source(source.path, data) for data in self._fallback(source.path))

    def _last_good(self, path: str) -> tuple[Definition, ...]:
        """The definitions of the last version of a file that was good."""
        if path not in self._good and self._fallback is not None:
            definitions = [found for data in self._fallback(path) if (found := _kept(path, data)) is not None]
            if definitions:
                self._good[path] = _Good(tuple(definitions), time.time())
        good = self._good.get(path)
        return good.definitions if good is not None else ()

    def _remember(
        self,
        found: _Found,
        imported: Imported,
        read: Mapping[str, Parsed],
        round_: _Round,
        library: Library,
    ) -> None:
        now = time.time()
        fresh = {
            path: tuple(_as_it_is(each, library) for each in read[path].definitions)
            for path in read
            if path not in round_.faults
        }
        fresh.update({each.source.path: each.found for each in imported.modules.values()})
        sources = {each.source.path: each.source for each in imported.modules.values()}
        for path, definitions in fresh.items():
            good = _Good(tuple(definitions), now, sources.get(path))
            if path not in self._good or self._good[path].version != good.version:
                self._good[path] = good
        there = {each.path for each in found.sources} | {fault.path for fault in found.faults}
        self._good = {path: good for path, good in self._good.items() if path in there}
        self._parsed = {path: parsed for path, parsed in self._parsed.items() if path in there}

    def _states(self, found: _Found, faults: Sequence[Fault]) -> Iterator[FileState]:
        errors = {fault.path: str(fault) for fault in reversed(faults)}
        for source in found.sources:
            good = self._good.get(source.path)
            loaded = good.loaded if good is not None else None
            yield FileState(source.path, source.digest, loaded, errors.get(source.path))


class _Good(msgspec.Struct, frozen=True):
    definitions: tuple[Definition, ...]
    loaded: float
    source: Source | None = None

    @property
    def version(self) -> tuple[str, ...]:
        """Equal for equal versions."""
        digests = tuple(each.digest for each in self.definitions)
        return digests if self.source is None else (self.source.digest, *digests)


class _Round:
    """Settles which files are good once all are read: what one says of another may make it bad."""

    def __init__(
        self,
        imported: Imported,
        read: Mapping[str, Parsed],
        last_good: Callable[[str], tuple[Definition, ...]],
    ) -> None:
        self._read, self._last_good = read, last_good
        self._code = [each for module in imported.modules.values() for each in module.found]
        self._module_faults = imported.faults
        self.faults: dict[str, list[Fault]] = {
            path: list(parsed.faults) for path, parsed in read.items() if parsed.faults
        }

    def settle(self) -> Library:
        """The library of all good files, and of the last good versions of the others."""
        self._refuse_doubles()
        own = set(self.faults)
        while True:
            library, misfits = compose_all(self._library())
            broken = self._broken_files()
            new = {
                path: faults
                for path, parsed in self._read.items()
                if path not in self.faults
                and (
                    faults := [
                        *check_targets(parsed.references, library, broken),
                        *(fault for fault in misfits if fault.path == path),
                    ]
                )
            }
            if not new:
                break
            self.faults.update(new)
        for path in own:
            parsed = self._read[path]
            seen = library.replace(parsed.definitions)
            # a definition of this very file that has faults is told about already
            references = [
                each
                for each in parsed.references
                if (each.kind, each.target) not in parsed.names
                or seen.get(each.kind, each.target) is not None
            ]
            self.faults[path] += check_targets(references, seen, self._broken_files())
        return library

    def all_faults(self) -> Iterable[Fault]:
        """Those of modules and of definitions."""
        kept = (*self._module_faults.values(), *self.faults.values())
        return [fault for faults in kept for fault in faults]

    def _library(self) -> Library:
        definitions: list[Definition] = list(self._code)
        for path, parsed in self._read.items():
            definitions += self._last_good(path) if path in self.faults else parsed.definitions
        return Library(definitions)

    def _broken_files(self) -> dict[tuple[str, str], str]:
        """The files that did not load, by what they are meant to have: names, or a group if none is known."""
        broken = {("action", stem): faults[0].path for stem, faults in self._module_faults.items()}
        for path in self.faults:
            named = self._read[path].names or {(kind, _group(path)) for kind in KINDS if KINDS[kind].suffixes}
            broken.update((each, path) for each in named)
        return broken

    def _refuse_doubles(self) -> None:
        """A name that two files give to definitions of one kind stays with the first of them."""
        first: dict[tuple[str, str], str] = {}
        for path, parsed in self._read.items():
            for each in parsed.definitions:
                other = first.setdefault((each.kind, each.full_name), path)
                if other != path:
                    message = f"expected a new name, found the {each.kind} {each.full_name} of {other} again"
                    self.faults.setdefault(path, list(parsed.faults)).append(
                        Fault(path, each.line, 1, message)
                    )


class _Found:
    """The files of a home that may hold definitions, sorted by path, and those that cannot be read."""

    def __init__(self, home: Path) -> None:
        self._home, self._inside = home, home.resolve()
        self.sources: list[Source] = []
        self.faults: list[Fault] = []
        for folder, endings in ((RECIPES, tuple(suffixes())), (MODULES, (".py",))):
            for path in sorted(self._files(home / folder)):
                if path.name.endswith(endings):
                    self._take(path)

    def _files(self, folder: Path) -> Iterator[Path]:
        for at, folders, names in os.walk(folder):
            folders[:] = [] if folder.name == MODULES else [name for name in folders if _is_ours(name)]
            yield from (Path(at, name) for name in names if _is_ours(name))

    def _take(self, path: Path) -> None:
        relative = path.relative_to(self._home).as_posix()
        if not Path(os.path.realpath(path)).is_relative_to(self._inside):
            self.faults.append(
                Fault(relative, 1, 1, "this link leads out of the home; put a copy here instead")
            )
            return
        try:
            if path.stat().st_size > MAX_BYTES:
                wanted = f"expected at most {MAX_BYTES:,} bytes, found {path.stat().st_size:,}"
                self.faults.append(Fault(relative, 1, 1, wanted))
            else:
                self.sources.append(Source(relative, path.read_bytes()))
        except OSError as error:
            self.faults.append(Fault(relative, 1, 1, f"cannot be read: {error.strerror}"))


def _as_it_is(definition: Definition, library: Library) -> Definition:
    """A definition whole, as it is to be kept when its file gets faults: what it imports does not change."""
    found = library.get(definition.kind, definition.full_name)
    return found.pinned() if isinstance(found, Process) else definition


def _kept(path: str, data: bytes) -> Definition | None:
    try:
        return next(iter(parse(Source(path, data)).definitions), None)
    except DefinitionError:
        return None


def _parse(source: Source) -> Parsed:
    try:
        parsed = parse(source)
        slips = faults_of_scripts(parsed.definitions)
        return parsed._replace(faults=tuple(sorted({*parsed.faults, *slips})))
    except DefinitionError as error:
        return Parsed((), faults=error.faults)


def _group(path: str) -> str:
    """The group that a file without a readable definition was probably meant to have."""
    return Path(path).stem.partition(".")[0]


def _is_ours(name: str) -> bool:
    return not name.startswith((".", "#", "__")) and not name.endswith(BACKUPS)


def _python(modules: Iterable[Module], before: Loaded | None = None) -> dict[str, Any]:
    """The parts of `Loaded` that come from modules, added to those there were before."""
    before, added = before or Loaded(), list(modules)
    functions = dict(before.functions)
    for each in added:
        functions.update(each.functions)
    return {
        "modules": {**before.modules, **{stem_of(each.source.path): each.module for each in added}},
        "functions": functions,
        "sources": {**before.sources, **{each.source.path: each.source.data for each in added}},
        "leases": before.leases | {each.lease for each in added},
    }


def _given(what: str | Path) -> tuple[Source, Path]:
    """The source that a path, or a text which begins as XML does, stands for; and the folder it is in."""
    if isinstance(what, str) and what.lstrip("\ufeff \t\r\n").startswith("<"):
        source = Source.of_text("text.xml", what)
        is_stylesheet = read_xml(source).tag.startswith(f"{{{XSLT}}}")
        return replace(source, path="text.xsl") if is_stylesheet else source, Path()
    path = Path(what)
    if path.suffix == ".py":
        path = path.absolute()  # its functions may be asked for again from another folder
    try:
        return Source(str(path), path.read_bytes()), path.parent
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DefinitionError([Fault(str(path)[:200], 1, 1, f"cannot be read: {reason}")]) from None


def _siblings(source: Source, folder: Path, stem: str) -> Versions:
    """A module given by its path, and those beside it, which it may import."""

    def versions(wanted: str) -> Iterator[Source] | None:
        beside = folder / f"{wanted}.py"
        if wanted == stem:
            return iter([source])
        return iter([Source(str(beside), beside.read_bytes())]) if beside.is_file() else None

    return versions
