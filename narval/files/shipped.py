"""Shipped: the sample home, and the modules that any home can use by naming them.

A shipped module is read from the package, and shown as `<narval>/modules/mail`. It is used if something names
its group, and the home has no module of that name; modules that a home does not name are not even imported.
Shipped modules import each other, even if the home has modules of their names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, cached_property
from importlib.machinery import SourceFileLoader
from pathlib import Path
from threading import Lock
from types import CodeType

import narval
from narval.core.definitions.library import Reference
from narval.core.errors import SurroundingsError
from narval.core.source.text import SHIPPED, Source
from narval.files.found_files import MODULES, ModuleText, modules_in, read_module
from narval.files.modules import Imported, Module, ModulePackage, compiled_text

OF_THE_EXAMPLES = ("orders",)
"""Modules used only by a definition that ships beside them: a new home has them if it has that one."""

EXAMPLES = "examples"
"""The folder of recipes, and their scenarios, that a new home does not have: each is copied on request."""

_ACTION = re.compile(r"^@action\b.*?^(?:async )?def (\w+)", re.MULTILINE | re.DOTALL)


class ShippedModules:
    """The modules of a folder that ships; each is read on first use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._texts: dict[str, ModuleText] = {}
        self._package = ModulePackage(self._versions, kind="shipped", compiled=self._compiled)
        self._imported = Imported()
        self._lock = Lock()

    @cached_property
    def names(self) -> Mapping[str, Path]:
        """The folders and files of the modules, by group."""
        paths = (path for path, _ in modules_in(self._folder, ""))
        return {path.stem: path for path in paths if path.stem not in OF_THE_EXAMPLES}

    @cached_property
    def actions(self) -> frozenset[str]:
        """The full names of all actions, as the texts declare them; nothing is imported."""
        texts = [self.text(group) for group in self.names]
        return frozenset(
            f"{text.group}.{name}"
            for text in texts
            for source in text.files.values()
            for name in _ACTION.findall(source.text)
        )

    def text(self, group: str) -> ModuleText:
        """The text of a shipped module."""
        if group not in self._texts:
            path = self.names[group]
            self._texts[group] = read_module(path, f"{SHIPPED}/{MODULES}/{path.name}")
        return self._texts[group]

    def named(self, references: Iterable[Reference]) -> frozenset[str]:
        """The groups of shipped modules that references name."""
        groups = {
            reference.target.partition(".")[0] for reference in references if reference.kind in ("", "action")
        }
        return frozenset(groups & self.names.keys()) if groups else frozenset()

    def load(self, groups: Iterable[str]) -> Imported:
        """These modules, imported, or their faults."""
        asked_groups = set(groups)
        with self._lock:
            if not asked_groups <= self._imported.modules.keys() | self._imported.faults.keys():
                self._imported = self._package.load(sorted(asked_groups))
        imported = self._imported
        modules = {group: module for group, module in imported.modules.items() if group in asked_groups}
        return Imported(
            modules, {group: faults for group, faults in imported.faults.items() if group in asked_groups}
        )

    def lend(self, group: str) -> Module | None:
        """The module of a group for the modules of a home; None if no good one of that name ships."""
        return self.load([group]).modules.get(group) if group in self.names else None

    def _compiled(self, source: Source) -> CodeType:
        """The code of a shipped file, from Python's cache beside the file: compiling it takes a twelfth of a
        short command's time in a new home.
        """
        path = str(self._folder / source.path.removeprefix(f"{SHIPPED}/{MODULES}/"))
        loader = SourceFileLoader(path, path)
        with suppress(OSError, SyntaxError):
            if loader.get_data(path) == source.data and (code := loader.get_code(path)) is not None:
                return code
        return compiled_text(source)

    def _versions(self, group: str) -> Iterator[ModuleText] | None:
        return iter([self.text(group)]) if group in self.names else None


def is_shipped(path: str) -> bool:
    """True if a shown path is that of a shipped file."""
    return path.startswith(f"{SHIPPED}/")


def shipped() -> Path:
    """The sample home: beside the package when it is installed, else the repository itself."""
    package = Path(narval.__file__).resolve().parent
    for sample in (package / "home", package.parent):
        if (sample / "recipes").is_dir() and (sample / MODULES).is_dir():
            return sample
    raise SurroundingsError(f"expected a sample home in {package / 'home'}; reinstall narval")


def shipped_modules() -> ShippedModules:
    """The modules that ship with this narval, the same for all homes of this program."""
    return _modules_of(narval.__file__)


def importable(group: str, texts: Mapping[str, ModuleText]) -> Iterator[tuple[str, Source]]:
    """All files that the module of a group may import, its own first, by the names that they then have.

    Shipped files have names within a shipped module that no module of a home can have, since shipped modules
    import each other.
    """
    to_visit, seen = [texts.get(group)], set[str]()
    while to_visit:
        text = to_visit.pop()
        if text is None or text.path in seen:
            continue
        seen.add(text.path)
        inside = f"{SHIPPED}." if is_shipped(text.path) else ""
        yield from ((inside + name, source) for name, source in text.parts.items())
        own_texts: Mapping[str, ModuleText] = {} if inside else texts
        ships = shipped_modules()
        for name in sorted(text.siblings):
            to_visit.append(own_texts.get(name) or (ships.text(name) if name in ships.names else None))


def unloaded(kind: str) -> Collection[str]:
    """The names of definitions of a kind that ship in modules, loaded or not."""
    return shipped_modules().actions if kind == "action" else ()


@cache
def _modules_of(package: str) -> ShippedModules:
    return ShippedModules(shipped() / MODULES)
