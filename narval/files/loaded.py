"""Loaded: the library of a home, the functions of its modules, and the faults of its files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePath
from types import ModuleType
from typing import Any

import msgspec

from narval.core.definitions.library import Definition, Library, Parsed, Reference, check_targets
from narval.core.definitions.parsing import compose, suffix_of
from narval.core.errors import DefinitionError, Fault
from narval.core.source.text import Source
from narval.core.source.xml import read_xml
from narval.files.agents.collections import Collection, parse_file
from narval.files.found_files import FIRST, ModuleText, is_module, read_module
from narval.files.modules import Lease, Module, ModulePackage, ModuleVersions
from narval.files.shipped import is_shipped, shipped_modules, unloaded
from narval.system.regular_file import read_file


class FileState(msgspec.Struct, frozen=True):
    """A file of the home: its digest, since when its definitions are loaded (None: not loaded), its fault."""

    path: str
    digest: str
    loaded: float | None
    error: str | None = None


class GoodVersion(msgspec.Struct, frozen=True):
    """A version of a file without faults: its definitions, when it was loaded, and a module's digest."""

    definitions: tuple[Definition, ...]
    loaded: float
    digest: str = ""

    @property
    def digests(self) -> tuple[str, ...]:
        """The digests of the version; equal for equal versions."""
        return self.digest, *(definition.digest for definition in self.definitions)


class Loaded(msgspec.Struct, frozen=True):
    """The library of a home, the functions of its modules, and the faults of its files; paths are relative to
    the home.
    """

    library: Library = msgspec.field(default_factory=Library)
    """The definitions."""
    modules: Mapping[str, ModuleType] = {}
    """The modules by group."""
    functions: Mapping[str, Callable[..., Any]] = {}
    """The functions by the `key_of` their definitions."""
    texts: Mapping[str, ModuleText] = {}
    """The texts of the modules by group."""
    faults: tuple[Fault, ...] = ()
    """All faults of the files."""
    files: tuple[FileState, ...] = ()
    """The files."""
    leases: frozenset[Lease] = frozenset()
    """The leases that keep the modules importable."""
    broken: Mapping[tuple[str, str], str] = {}
    """The files that did not load, by the kind and name that they should define, or by kind and group if no
    name is known.
    """
    collections: tuple[Collection, ...] = ()
    """The collections from which it was made."""
    good: Mapping[str, GoodVersion] = {}
    """The last good versions of files and modules, by path."""
    is_limited: bool = False
    """True if the reach of definitions was checked: some are withheld, or limited by a grant."""
    kept: frozenset[str] = frozenset()
    """The groups of shipped modules that runs use, whatever the files name."""
    servers: frozenset[str] = frozenset()
    """The MCP servers of the settings with which its files were read."""

    def why_missing(self, name: str) -> str:
        """The sentence on the first fault of the file that should define a name; "" if none has faults."""
        fault = self._fault_behind(name)
        if fault is None:
            return ""
        return f"{fault.path} did not load: line {fault.line}: {fault.message}; all its faults: narval check"

    def _fault_behind(self, name: str) -> Fault | None:
        group = name.partition(".")[0]
        for word in (name, group):
            paths = {path for (_, meant), path in self.broken.items() if meant == word}
            if faults := [fault for fault in self.faults if fault.path in paths and not fault.warning]:
                return min(faults)
        named = [
            fault for fault in self.faults if PurePath(fault.path).stem.partition(".")[0] in (group, name)
        ]
        return min((fault for fault in named if not fault.warning), default=None)

    @property
    def follows(self) -> tuple[str, ...]:
        """The collections from which it was made, by their paths in the home."""
        return tuple(collection.within for collection in self.collections)

    @property
    def sources(self) -> dict[str, bytes]:
        """The bytes of modules by path."""
        return {text.path: text.data for text in self.texts.values()}

    def with_definitions(self, text: str | Path | ModuleText) -> Loaded:
        """The same with added definitions: those of a file, of a folder that is a module, of a text of XML,
        or of a module as text. Raises DefinitionError.
        """
        if isinstance(text, ModuleText):
            return self._with_module(text, lambda group: iter([text]) if group == text.group else None)
        path = _path_of(text)
        if path is None:
            source = Source.of_text("text.xml", str(text))
            source = replace(source, path=f"text{suffix_of(read_xml(source).tag)}")
            return self.with_parsed(source, parse_file(source))
        if path.suffix == ".py" or path.is_dir():
            path = path.absolute()  # its functions may be requested again from another folder
            path = path.parent if path.name == FIRST else path
            return self._with_module(read_module(path, str(path)), _beside(path))
        read = read_file(path, str(path))
        if isinstance(read, Fault):
            raise DefinitionError([read])
        return self.with_parsed(read, parse_file(read))

    def with_parsed(self, source: Source, parsed: Parsed) -> Loaded:
        """The same with the definitions of a parsed text added. Raises DefinitionError."""
        return self._with_all_parsed([(source, parsed)])

    def with_fitting(self, sources: Iterable[Source]) -> tuple[Loaded, dict[str, DefinitionError]]:
        """The same with the faultless ones of some texts added, which may name one another; and the faults of
        the others, by path.
        """
        left, faulty = dict[str, tuple[Source, Parsed]](), dict[str, DefinitionError]()
        for source in sources:
            try:
                left[source.path] = source, parse_file(source)
            except DefinitionError as error:
                faulty[source.path] = error
        while left:
            try:
                return self._with_all_parsed(list(left.values())), faulty
            except DefinitionError as error:
                blamed = {fault.path for fault in error.faults} & left.keys()
                for path in blamed or tuple(left):
                    own = [fault for fault in error.faults if fault.path == path]
                    faulty[path] = DefinitionError(own or error.faults)
                    del left[path]
        return self, faulty

    def _with_all_parsed(self, parsed: Sequence[tuple[Source, Parsed]]) -> Loaded:
        references = [reference for _, one in parsed for reference in one.references]
        definitions = tuple(definition for _, one in parsed for definition in one.definitions)
        here = self.with_shipped(references)
        library = here.library.replace(definitions)
        faults = [fault for _, one in parsed for fault in one.faults]
        faults += check_targets(references, library, unloaded=unloaded)
        if faults:
            raise DefinitionError(faults)
        return here._with(definitions, [source for source, _ in parsed])

    def with_shipped(self, references: Iterable[Reference]) -> Loaded:
        """The same with the shipped modules that references name, unless there are modules of these names.

        Raises DefinitionError.
        """
        return self._with_imported(self._shipped(shipped_modules().named(references)))

    def _shipped(self, groups: frozenset[str]) -> Iterable[Module]:
        """The shipped modules of some groups without a module. Raises DefinitionError."""
        imported = shipped_modules().load(groups - self.texts.keys())
        if imported.faults:
            raise DefinitionError([fault for faults in imported.faults.values() for fault in faults])
        return imported.modules.values()

    def keeping(self, groups: frozenset[str]) -> Loaded:
        """The same with shipped modules, which stay whatever the files name later (N31)."""
        if groups <= self.kept:
            return self
        with_groups = msgspec.structs.replace(self, kept=self.kept | groups)
        with suppress(DefinitionError):  # a call of a module that does not load reports it
            return with_groups._with_imported(with_groups._shipped(groups))
        return with_groups

    def with_modules(self, modules: Iterable[Module]) -> Loaded:
        """The same with modules added."""
        added = {module.text.group: module for module in modules}
        functions = {key: function for module in added.values() for key, function in module.functions.items()}
        return msgspec.structs.replace(
            self,
            modules={**self.modules, **{group: module.module for group, module in added.items()}},
            functions={**self.functions, **functions},
            texts={**self.texts, **{group: module.text for group, module in added.items()}},
            leases=self.leases | {module.lease for module in added.values()},
        )

    def _with_module(self, text: ModuleText, versions: ModuleVersions) -> Loaded:
        ships = shipped_modules()
        package = ModulePackage(versions, lender=ships.lend)
        imported = package.load([text.group, *sorted(text.siblings & ships.names.keys())])
        if text.group in imported.faults:
            raise DefinitionError(imported.faults[text.group])
        lent = (module for module in imported.modules.values() if is_shipped(module.text.path))
        return self._with_imported([*lent, imported.modules[text.group]])

    def _with_imported(self, modules: Iterable[Module]) -> Loaded:
        """The same with modules in place of those of their groups, and with their definitions."""
        here = self
        for module in modules:
            former = here.texts.get(module.text.group)
            gone = () if former is None else [file.path for file in former.files.values()]
            library = here.library.replace((), without=gone)
            files = tuple(file for file in here.files if file.path not in gone)
            here = msgspec.structs.replace(here, library=library, files=files)
            here = here._with(module.found, module.text.files.values(), module)
        return here

    def _with(
        self, definitions: tuple[Definition, ...], sources: Iterable[Source], *modules: Module
    ) -> Loaded:
        library, misfits = compose(self.library.replace(definitions))
        if misfits:
            raise DefinitionError(misfits)
        states = {source.path: FileState(source.path, source.digest, time.time()) for source in sources}
        others = (file for file in self.files if file.path not in states)
        added = msgspec.structs.replace(self, library=library, files=(*others, *states.values()))
        return added.with_modules(modules)


def _path_of(text: str | Path) -> Path | None:
    """The path that a value stands for, itself or by name; None for a text of XML.

    Raises DefinitionError for any other text.
    """
    if isinstance(text, str) and text.lstrip("\ufeff \t\r\n").startswith("<"):
        return None
    if isinstance(text, str) and "\n" in text:
        message = "expected a path or a text of XML; a text of Python is loaded with the name of its module"
        raise DefinitionError([Fault("text", 1, 1, f"{message}: agent.load(text, name='shop')")])
    return Path(text)


def _beside(path: Path) -> ModuleVersions:
    """A module given by its path, and those beside it, which it may import."""

    def versions(group: str) -> Iterator[ModuleText] | None:
        if group == path.stem:
            return iter([read_module(path, str(path))])
        for beside in (path.with_name(f"{group}.py"), path.with_name(group)):
            if beside.exists() and is_module(beside):
                return iter([read_module(beside, str(beside))])
        return None

    return versions
