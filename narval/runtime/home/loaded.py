"""Loaded: the library of a home, the functions of its modules, and the faults of its files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from narval.definitions.kinds import compose, parse, suffix_of
from narval.definitions.library import Definition, Library, Parsed, check_targets
from narval.errors import DefinitionError, Fault
from narval.runtime.home.modules import Lease, Module, ModuleVersions, import_modules
from narval.runtime.scripts.checks import faults_of_scripts
from narval.source.text import Source
from narval.source.xml import read_xml


class FileState(msgspec.Struct, frozen=True):
    """A file of the home: its digest, since when what is loaded of it is (None: nothing is), its fault."""

    path: str
    digest: str
    loaded: float | None
    error: str | None = None


class Loaded(msgspec.Struct, frozen=True):
    """The library of a home, the functions of its modules, and the faults of its files.

    `functions` are by the `key_of` their definitions, `sources` (the bytes of modules) by the path of the
    file; paths are relative to the home. `leases` keep the modules importable.
    """

    library: Library = msgspec.field(default_factory=Library)
    modules: Mapping[str, ModuleType] = {}
    functions: Mapping[str, Callable[..., Any]] = {}
    sources: Mapping[str, bytes] = {}
    faults: tuple[Fault, ...] = ()
    files: tuple[FileState, ...] = ()
    leases: frozenset[Lease] = frozenset()

    def with_definitions(self, text: str | Path) -> Loaded:
        """The same with the definitions of a file, or of a text, added. Raises DefinitionError."""
        source, folder = _source_of(text)
        if not source.path.endswith(".py"):
            return self.with_parsed(source, parse_file(source))
        stem = Path(source.path).stem
        imported = import_modules([stem], _siblings(source, folder, stem))
        if stem not in imported.modules:
            raise DefinitionError(imported.faults[stem])
        module = imported.modules[stem]
        return self._with(source, module.found, module)

    def with_parsed(self, source: Source, parsed: Parsed) -> Loaded:
        """The same with what was made of a text added. Raises DefinitionError."""
        known = self.library.replace(parsed.definitions)
        faults = [*parsed.faults, *check_targets(parsed.references, known)]
        if faults:
            raise DefinitionError(faults)
        return self._with(source, parsed.definitions)

    def with_modules(self, modules: Iterable[Module]) -> Loaded:
        """The same with modules added."""
        added = list(modules)
        functions = {key: function for module in added for key, function in module.functions.items()}
        return msgspec.structs.replace(
            self,
            modules={**self.modules, **{Path(module.source.path).stem: module.module for module in added}},
            functions={**self.functions, **functions},
            sources={**self.sources, **{module.source.path: module.source.data for module in added}},
            leases=self.leases | {module.lease for module in added},
        )

    def _with(self, source: Source, definitions: tuple[Definition, ...], *modules: Module) -> Loaded:
        library, misfits = compose(self.library.replace(definitions))
        if misfits:
            raise DefinitionError(misfits)
        state = FileState(source.path, source.digest, time.time())
        others = (file for file in self.files if file.path != source.path)
        added = msgspec.structs.replace(self, library=library, files=(*others, state))
        return added.with_modules(modules)


def parse_file(source: Source) -> Parsed:
    """The definitions of a file, and all its faults, those of its scripts too."""
    try:
        parsed = parse(source)
        mistakes = faults_of_scripts(parsed.definitions)
        return parsed._replace(faults=tuple(sorted({*parsed.faults, *mistakes})))
    except DefinitionError as error:
        return Parsed((), faults=error.faults)


def _source_of(text: str | Path) -> tuple[Source, Path]:
    """The source that a path, or a text which begins as XML does, stands for; and the folder it is in."""
    if isinstance(text, str) and text.lstrip("\ufeff \t\r\n").startswith("<"):
        source = Source.of_text("text.xml", text)
        return replace(source, path=f"text{suffix_of(read_xml(source).tag)}"), Path()
    path = Path(text)
    if path.suffix == ".py":
        path = path.absolute()  # its functions may be asked for again from another folder
    try:
        return Source(str(path), path.read_bytes()), path.parent
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DefinitionError([Fault(str(path)[:200], 1, 1, f"cannot be read: {reason}")]) from None


def _siblings(source: Source, folder: Path, stem: str) -> ModuleVersions:
    """A module given by its path, and those beside it, which it may import."""

    def versions(wanted: str) -> Iterator[Source] | None:
        if wanted == stem:
            return iter([source])
        beside = folder / f"{wanted}.py"
        return iter([Source(str(beside), beside.read_bytes())]) if beside.is_file() else None

    return versions
