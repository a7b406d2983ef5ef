"""Modules of actions in a worker, imported from texts: no file is read or written (N31, N33)."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from narval.calls.context import ModuleCode
from narval.core.source.text import SHIPPED


def executed(path: str, code: ModuleCode) -> ModuleType:
    """The module of a file, in a new package with everything that it may import.

    Modules that are not among the texts are found beside the file: `from .other import name`.
    """
    above = code.name.removeprefix(f"{SHIPPED}.").count(".") + path.endswith("/__init__.py")
    package = ModuleType(f"narval_module_{code.digest[:16]}")
    package.__path__ = [str(Path(path).parents[above])]
    sys.modules[package.__name__] = package
    sys.meta_path.insert(0, _Texts(package.__name__, code.parts))
    name = f"{package.__name__}.{code.name}"
    try:
        return importlib.import_module(name)
    except BaseException:
        _drop(package.__name__)
        raise


def drop(module: ModuleType) -> None:
    """Drop a module, and the modules that it imported from beside it."""
    _drop(module.__name__.partition(".")[0])


def _drop(package: str) -> None:
    for name in [name for name in sys.modules if name == package or name.startswith(package + ".")]:
        del sys.modules[name]
    sys.meta_path[:] = [finder for finder in sys.meta_path if getattr(finder, "package", "") != package]


class _Text(importlib.abc.SourceLoader):
    """Loads a module from a given text."""

    def __init__(self, path: str, text: bytes) -> None:
        self._path, self._text = path, text

    def get_filename(self, fullname: str) -> str:
        return self._path

    def get_data(self, path: str) -> bytes:
        return self._text


class _Shared(importlib.abc.Loader):
    """Loads a shipped module under the name by which a module of a home imports it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = importlib.import_module(self._name)


class _Texts(importlib.abc.MetaPathFinder):
    """Finds the modules of a package among texts."""

    def __init__(self, package: str, parts: Iterable[tuple[str, str, bytes]]) -> None:
        self.package = package
        self._texts = {name: (path, text) for name, path, text in parts}
        self._texts[SHIPPED] = f"{SHIPPED}/__init__.py", b""

    def find_spec(
        self, fullname: str, path: object, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a module given as text, or of a shipped module."""
        package, _, name = fullname.partition(".")
        if package != self.package:
            return None
        loader: importlib.abc.Loader
        if name in self._texts:
            loader = _Text(*self._texts[name])
        elif f"{SHIPPED}.{name}" in self._texts:
            loader = _Shared(f"{self.package}.{SHIPPED}.{name}")
        else:
            return None
        return importlib.util.spec_from_loader(fullname, loader)
