"""Modules: Python files imported from their text, under private names, so that a faulty one affects no other
(N30).

The modules of a home are one package with a new private name each time. So `from .mail import send` finds a
sibling, and two versions of a module coexist. Nothing is put on `sys.path`; nothing is written. A module is
good as a whole, the files of a folder together. A module that cannot be imported, or whose actions have
faults, is replaced by its last good version, and no other is affected.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import itertools
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from types import CodeType, ModuleType
from typing import Any

import msgspec

from narval.core.definitions.library import Definition, ModuleDefinition
from narval.core.definitions.parsing import parse_module
from narval.core.errors import DefinitionError, Fault
from narval.core.source.text import Source
from narval.files.found_files import ModuleText, is_package
from narval.files.import_places import fault_of, telling_when_long
from narval.system.exits import ends_program, refuse_exits_of

_numbers = itertools.count(1)


class Lease:
    """Keeps the modules of one package importable by each other for as long as it is referenced."""

    __slots__ = ("__weakref__",)

    def __init__(self, package: str) -> None:
        weakref.finalize(self, _drop, package).atexit = False


class Module(msgspec.Struct, frozen=True):
    """A module as imported; `text` is the imported version, `found` the definitions in it.

    `functions` are their Python functions and classes, by `key_of` the definition. `lease` is also held by
    everything that may still call them.
    """

    text: ModuleText
    module: ModuleType
    found: tuple[ModuleDefinition, ...]
    functions: Mapping[str, Callable[..., Any]]
    lease: Lease


def key_of(definition: Definition) -> str:
    """The name of a definition's function among those of modules; "" for one without."""
    return getattr(definition, "key", "")


class Imported(msgspec.Struct, frozen=True):
    """Modules that could be imported, by group, and the faults of versions that could not."""

    modules: Mapping[str, Module] = {}
    faults: Mapping[str, tuple[Fault, ...]] = {}

    def joined(self, other: Imported) -> Imported:
        """Both together; if both have a group, the module of `other` wins."""
        return Imported({**self.modules, **other.modules}, {**self.faults, **other.faults})


ModuleVersions = Callable[[str], Iterator[ModuleText] | None]
"""A function that returns the versions of a group's module, in the order to try; None without one."""

Lender = Callable[[str], Module | None]
"""A function that returns the module of a group from elsewhere, if the package has no good one."""

Compile = Callable[[Source], CodeType]
"""A function that returns the code of a file. Raises SyntaxError."""


def _nothing(group: str) -> None:
    """Return nothing: no versions, once a package is complete, and no module to lend."""


class ModulePackage:
    """Modules that import each other as siblings.

    `folder` is prepended to the path of a file to form its file name, shown in tracebacks. `compiled` returns
    the code of a file.
    """

    def __init__(
        self,
        versions: ModuleVersions,
        folder: str = "",
        *,
        lender: Lender = _nothing,
        kind: str = "home",
        compiled: Compile | None = None,
    ) -> None:
        name = f"narval_{kind}_{next(_numbers)}"
        self._finder, self._lease = _Finder(name, folder, lender, compiled or compiled_text), Lease(name)
        self._versions, self._folder = versions, folder

    def load(self, groups: Iterable[str]) -> Imported:
        """Import modules by group, with those that they import; earlier imports stay."""
        with self._finder.importable(self._versions), telling_when_long(self._folder):
            for group in groups:
                self._finder.attempt(group)
        faults = dict(self._finder.faults)
        # a module refers to its finder as its loader; if that led to the lease, the lease would never end
        own = {
            group: Module(trial.text, trial.module, *trial.declared(), self._lease)
            for group, trial in self._finder.good.items()
        }
        return Imported({**without_doubles(own, faults), **self._finder.lent}, faults)


def without_doubles(
    modules: Mapping[str, Module], faults: dict[str, tuple[Fault, ...]]
) -> Mapping[str, Module]:
    """Give a key that several modules use only to the first of them: some code is known by its bare name."""
    first: dict[str, ModuleDefinition] = {}
    modules_left = {}
    for group in sorted(modules):
        module = modules[group]
        doubles = [
            first_ones
            for first_ones in module.found
            if first.setdefault(key_of(first_ones), first_ones) is not first_ones
        ]
        for double in doubles:
            faults[group] = (*faults.get(group, ()), _again(double, first[key_of(double)]))
        first_ones = tuple(declared for declared in module.found if declared not in doubles)
        functions = {key_of(declared): module.functions[key_of(declared)] for declared in first_ones}
        whole = msgspec.structs.replace(module, found=first_ones, functions=functions)
        modules_left[group] = whole if doubles else module
    return modules_left


def _again(double: ModuleDefinition, first: ModuleDefinition) -> Fault:
    message = f"expected a new name, found the {double.kind} {double.name!r} of {first.path} again"
    return Fault(double.path, double.line, 1, message)


class _NotGoodError(ImportError):
    """A file of a module could not be imported; its faults are noted."""

    def __init__(self, group: str, fault: Fault) -> None:
        self.group = group
        super().__init__(f"{fault.path} did not load: {fault.message}")


class _Trial:
    """One version of a module being imported: the declarations of its files, and their faults."""

    def __init__(self, text: ModuleText, module: ModuleType) -> None:
        self.text, self.module = text, module
        self.faults = list(text.faults)
        self._found: dict[str, tuple[ModuleDefinition, Any]] = {}

    def take(self, module: ModuleType, source: Source) -> None:
        """Collect the declarations of an imported file."""
        definitions, faults = parse_module(module, source, self.text.group)
        self.faults += faults
        for definition in definitions:
            earlier = self._found.get(key_of(definition))
            if earlier is not None and earlier[0].path != definition.path:
                self.faults.append(_again(definition, earlier[0]))
            self._found[key_of(definition)] = definition, getattr(module, definition.function, None)

    def declared(self) -> tuple[tuple[ModuleDefinition, ...], dict[str, Any]]:
        """The definitions found, and their functions. Those of a folder include its digest in theirs."""
        definitions = [definition for definition, _ in self._found.values()]
        if self.text.is_folder:
            definitions = [
                msgspec.structs.replace(one, digest=_together(self.text, one)) for one in definitions
            ]
        return tuple(definitions), {key: function for key, (_, function) in self._found.items()}


def _together(text: ModuleText, definition: Definition) -> str:
    return hashlib.sha256(f"{text.digest} {definition.digest}".encode()).hexdigest()


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """The finder of the modules of one package, whose files are texts."""

    def __init__(self, name: str, folder: str, lender: Lender, compiled: Compile) -> None:
        self._name, self._folder, self._lender, self._compiled = name, folder, lender, compiled
        self._versions: ModuleVersions = _nothing
        self._trials: dict[str, _Trial] = {}
        self.good: dict[str, _Trial] = {}
        self.lent: dict[str, Module] = {}
        self.faults: dict[str, tuple[Fault, ...]] = {}

    @contextlib.contextmanager
    def importable(self, versions: ModuleVersions) -> Iterator[None]:
        """Make modules of the package importable within the block; imported ones stay importable as long as
        their lease.
        """
        package = ModuleType(self._name, "Modules of narval.")
        package.__path__ = []
        sys.modules.setdefault(self._name, package)
        sys.meta_path.insert(0, self)
        refuse_exits_of(_Finder)
        self._versions = versions
        try:
            # a module's prints during import must not end up in a command's output
            with contextlib.redirect_stdout(sys.stderr):
                yield
        finally:
            sys.meta_path.remove(self)
            self._versions = _nothing

    def attempt(self, group: str) -> None:
        """Import a module, unless a sibling did; a failure is in `faults`."""
        with contextlib.suppress(ImportError):
            importlib.import_module(f"{self._name}.{group}")

    # --- the import protocol --------------------------------------------------------------------------

    def find_spec(
        self, fullname: str, path: object, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module, or the file of a folder, if it belongs to the package."""
        group, _, inner = self._parted(fullname)
        if not group:
            return None
        if inner:
            is_there = self._part(group, inner) is not None
        else:
            is_there = self._versions(group) is not None or self._lender(group) is not None
        return importlib.machinery.ModuleSpec(fullname, self) if is_there else None

    def exec_module(self, module: ModuleType) -> None:
        """Run a file, or the first version of a module that can be run and has no faults."""
        group, _, inner = self._parted(module.__name__)
        if inner:
            trial = self._trials[group]
            if not self._run(module, inner, trial):
                raise _NotGoodError(group, trial.faults[0])
            return
        has_failed = group in self.faults and group not in self.good
        for text in () if has_failed else self._versions(group) or ():
            if self._try(group, text, module):
                return
        lent = self._lender(group)
        if lent is None:
            raise _NotGoodError(group, self.faults[group][0])
        self.lent[group], origin = lent, lent.module.__name__
        for name in [name for name in sys.modules if name == origin or name.startswith(f"{origin}.")]:
            sys.modules[module.__name__ + name.removeprefix(origin)] = sys.modules[name]

    def get_source(self, fullname: str) -> str | None:
        """The text of a file, for tracebacks."""
        group, _, inner = self._parted(fullname)
        source = self._part(group, inner)
        return source.text if source is not None else None

    def _parted(self, fullname: str) -> tuple[str, str, str]:
        """The group of a module of the package, and the rest of the name within it; "" for any other."""
        package, dot, rest = fullname.partition(".")
        return rest.partition(".") if dot and package == self._name else ("", "", "")

    def _part(self, group: str, inner: str) -> Source | None:
        trial = self._trials.get(group)
        return trial.text.parts.get(f"{group}.{inner}" if inner else group) if trial is not None else None

    # --- running files --------------------------------------------------------------------------------

    def _try(self, group: str, text: ModuleText, module: ModuleType) -> bool:
        """Import a version of a module with all its files; False if it is not good."""
        trial = self._trials[group] = _Trial(text, module)
        if not trial.faults and self._run(module, "", trial):
            for part in list(text.parts)[1:]:
                with contextlib.suppress(_NotGoodError):
                    importlib.import_module(f"{self._name}.{part}")
        if not trial.faults:
            self.good[group] = trial
            return True
        self.faults.setdefault(group, tuple(sorted(set(trial.faults))))
        _drop(f"{self._name}.{group}", itself=False)
        return False

    def _run(self, module: ModuleType, inner: str, trial: _Trial) -> bool:
        """Run a file of a module and collect its declarations; False if it could not be run."""
        source = trial.text.parts[f"{trial.text.group}.{inner}" if inner else trial.text.group]
        file, faults_before = self._folder + source.path, len(trial.faults)
        try:
            _prepare(module, source, file)
            exec(_named(self._compiled(source), file), module.__dict__)  # noqa: S102 - a module is code that its user put there to be run
            trial.take(module, source)
        except DefinitionError as error:
            trial.faults += error.faults
        except BaseException as error:
            if ends_program(error):
                raise
            if isinstance(error, _NotGoodError) and error.group == trial.text.group:
                return False  # because of noted faults of another file of this module
            beside = partial(self._beside, module.__package__ or "", trial)
            if isinstance(error, _NotGoodError):
                error = ImportError(*error.args).with_traceback(error.__traceback__)
            trial.faults.append(fault_of(error, file, source, beside))
        return len(trial.faults) == faults_before

    def _beside(self, package: str, trial: _Trial, name: str) -> str:
        """The statement with which a file of a package imports one of this name beside it, or further out; ""
        if there is none.
        """
        inner, dots = package.partition(".")[2], "."
        while inner:
            if f"{inner}.{name}" in trial.text.parts:
                return f"from {dots} import {name}"
            inner, dots = inner.rpartition(".")[0], f"{dots}."
        is_there = self.find_spec(f"{self._name}.{name}", None) is not None
        return f"from {dots} import {name}" if is_there else ""


def compiled_text(source: Source) -> CodeType:
    """The code of a file, compiled once while its text stays the same. Raises SyntaxError."""
    return _compiled(source.text, source.path)


@lru_cache(maxsize=256)
def _compiled(text: str, path: str) -> CodeType:
    return compile(text, path, "exec", dont_inherit=True)


def _named(code: CodeType, file: str) -> CodeType:
    """The same code with another file name, shown in tracebacks."""
    within = (_named(each, file) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_filename=file, co_consts=tuple(within))


def _prepare(module: ModuleType, source: Source, file: str) -> None:
    """Empty a module before its file is run; another version may have been run in it."""
    spec: Any = module.__spec__
    spec.submodule_search_locations = [] if is_package(source) else None
    path: dict[str, Any] = {"__path__": []} if is_package(source) else {}
    module.__dict__.clear()
    module.__dict__.update(
        __name__=spec.name,
        __doc__=None,
        __package__=spec.parent,
        __loader__=spec.loader,
        __spec__=spec,
        __file__=file,
        **path,
    )


def _drop(package: str, *, itself: bool = True) -> None:
    for name in [name for name in list(sys.modules) if name.startswith(f"{package}.")]:
        del sys.modules[name]
    if itself:
        sys.modules.pop(package, None)
