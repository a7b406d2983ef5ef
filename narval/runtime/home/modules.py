"""Modules: Python files imported from their text, under private names, each at its own risk (N30).

The modules of a home are one package, whose name is private and new each time, so that `from .mail import
send` finds a sibling and two versions of a module live side by side. Nothing is put on `sys.path`; nothing is
written. A module that does not import, or whose actions have faults, costs itself alone, and its last good
version takes its place.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import itertools
import sys
import traceback
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType, TracebackType

import msgspec

from narval.definitions.kinds import parse_module
from narval.definitions.library import Definition, ModuleDefinition
from narval.errors import DefinitionError, Fault
from narval.source.text import Source

_numbers = itertools.count(1)


class Lease:
    """Keeps the modules of one package importable by each other for as long as it is referred to."""

    __slots__ = ("__weakref__",)

    def __init__(self, package: str) -> None:
        weakref.finalize(self, _drop, package).atexit = False


class Module(msgspec.Struct, frozen=True):
    """A module as it was imported, and the definitions `found` in it; `source` is the version that imported.

    `lease` is kept as well by all that may yet call its functions.
    """

    source: Source
    module: ModuleType
    found: tuple[ModuleDefinition, ...]
    lease: Lease

    @property
    def functions(self) -> Mapping[str, Callable[..., object]]:
        """Its Python functions and classes, by `key_of` them."""
        return {key_of(declared): getattr(self.module, declared.function) for declared in self.found}


def key_of(definition: Definition) -> str:
    """The name of a definition's function among those of modules; "" for one that is in none."""
    return getattr(definition, "key", "")


class Imported(msgspec.Struct, frozen=True):
    """Modules that could be imported, by stem, and the faults of versions that could not."""

    modules: Mapping[str, Module] = {}
    faults: Mapping[str, tuple[Fault, ...]] = {}


ModuleVersions = Callable[[str], Iterator[Source] | None]
"""The versions of the module of a stem, the one to try first in front; None when there is no such module."""


def import_modules(stems: Sequence[str], versions: ModuleVersions, folder: str = "") -> Imported:
    """Import modules by stem; a module imports others of the package as its siblings.

    `folder` is put before a source's path to make its file name, which tracebacks show.
    """
    name = f"narval_home_{next(_numbers)}"
    package, lease = _Package(name, versions, folder), Lease(name)
    with package.importable():
        for stem in stems:
            package.attempt(stem)
    # a module knows its package as its loader, which must not lead to the lease: that would never end then
    modules = {stem: Module(*found, lease) for stem, found in package.found.items()}
    return Imported(_without_doubles(modules, package.faults), package.faults)


def _without_doubles(
    modules: Mapping[str, Module], faults: dict[str, tuple[Fault, ...]]
) -> Mapping[str, Module]:
    """Leave a key that several modules give to the first of them: some code is known by its bare name."""
    first: dict[str, str] = {}
    kept = {}
    for stem in sorted(modules):
        module = modules[stem]
        doubles = [declared for declared in module.found if first.setdefault(key_of(declared), stem) != stem]
        for double in doubles:
            other = modules[first[key_of(double)]].source.path
            message = f"expected a new name, found the {double.kind} {double.name!r} of {other} again"
            faults[stem] = (*faults.get(stem, ()), module.source.fault(message, double.line, 1))
        found = tuple(declared for declared in module.found if declared not in doubles)
        kept[stem] = msgspec.structs.replace(module, found=found) if doubles else module
    return kept


class _Package(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """A package whose modules are texts."""

    def __init__(self, name: str, versions: ModuleVersions, folder: str) -> None:
        self._name, self._versions, self._folder = name, versions, folder
        self.found: dict[str, tuple[Source, ModuleType, tuple[ModuleDefinition, ...]]] = {}
        self.faults: dict[str, tuple[Fault, ...]] = {}

    @contextlib.contextmanager
    def importable(self) -> Iterator[None]:
        """For as long as this lasts, modules of the package are found; what was imported stays importable
        for as long as its lease.
        """
        package = ModuleType(self._name, "The modules of a home.")
        package.__path__ = []
        sys.modules[self._name] = package
        sys.meta_path.insert(0, self)
        try:
            # what a module prints while it is imported must not end up in what a command prints
            with contextlib.redirect_stdout(sys.stderr):
                yield
        finally:
            sys.meta_path.remove(self)
            self._versions = _nothing

    def attempt(self, stem: str) -> None:
        """Import a module, unless a sibling did; a failure is in `faults`."""
        with contextlib.suppress(ImportError):
            importlib.import_module(f"{self._name}.{stem}")

    # --- the import protocol --------------------------------------------------------------------------

    def find_spec(
        self, fullname: str, path: object, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module, if it is one of the package's."""
        package, _, stem = fullname.rpartition(".")
        if package != self._name or self._versions(stem) is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, self)

    def exec_module(self, module: ModuleType) -> None:
        """Run the first version that can be run and whose declarations have no faults."""
        stem = module.__name__.rpartition(".")[2]
        has_failed = stem in self.faults and stem not in self.found
        fresh = dict(module.__dict__)
        for source in () if has_failed else self._versions(stem) or ():
            module.__dict__.clear()
            module.__dict__.update(fresh)
            found, faults = self._run(module, source)
            if not faults:
                self.found[stem] = source, module, tuple(found)
                return
            self.faults.setdefault(stem, tuple(faults))
        raise ImportError(f"{self.faults[stem][0].path} did not load: {self.faults[stem][0].message}")

    def _run(self, module: ModuleType, source: Source) -> tuple[list[ModuleDefinition], list[Fault]]:
        module.__file__ = file = self._folder + source.path
        try:
            code = compile(source.text, file, "exec", dont_inherit=True)
            exec(code, module.__dict__)  # noqa: S102 - a module is code that its user put there to be run
            return parse_module(module, source)
        except DefinitionError as error:
            return [], list(error.faults)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return [], [_fault(error, file, source)]


def _nothing(stem: str) -> None:
    """The versions of any module, once a package is complete."""


def _drop(package: str) -> None:
    for name in [name for name in list(sys.modules) if name == package or name.startswith(f"{package}.")]:
        del sys.modules[name]


def _fault(error: BaseException, file: str, source: Source) -> Fault:
    """The fault of a module that could not be imported, at the place in its own file."""
    if isinstance(error, SyntaxError) and error.filename == file:
        line, column = max(error.lineno or 1, 1), max(error.offset or 1, 1)
        return source.fault(f"not Python: {error.msg}", line, column)
    line, column = _place(error.__traceback__, file)
    if isinstance(error, SystemExit):
        message = (
            "the module ends the program when it is imported (sys.exit); do that in a function, or not at all"
        )
    else:
        lines = "".join(traceback.format_exception_only(error)).strip().splitlines()
        message = f"the module cannot be imported: {lines[-1] if lines else type(error).__name__}"
    return source.fault(message, line, column)


def _place(trace: TracebackType | None, file: str) -> tuple[int, int]:
    """The line and column of the file that an error came through last."""
    own = [frame for frame in traceback.extract_tb(trace) if frame.filename == file]
    return (own[-1].lineno or 1, (own[-1].colno or 0) + 1) if own else (1, 1)
