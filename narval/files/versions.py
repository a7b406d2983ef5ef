"""Versions: the last good version of each file of a home (N13)."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress

import msgspec

from narval.core.definitions.library import Definition
from narval.core.definitions.parsing import parse
from narval.core.errors import DefinitionError
from narval.core.source.text import Source
from narval.files.module_text import ModuleText

Fallback = Callable[[str], Sequence[bytes]]
"""The last good version of a file as the store kept it: its bytes, or those of each definition in it."""


class GoodVersion(msgspec.Struct, frozen=True):
    """A version of a file without faults: its definitions, when it was loaded, and of a module its text."""

    definitions: tuple[Definition, ...]
    loaded: float
    text: ModuleText | None = None

    @property
    def digests(self) -> tuple[str, ...]:
        """Equal for equal versions."""
        digests = tuple(definition.digest for definition in self.definitions)
        return digests if self.text is None else (self.text.digest, *digests)


class GoodVersions:
    """The last good versions of files and modules by path: those seen here, else those of `fallback`."""

    def __init__(self, fallback: Fallback | None = None) -> None:
        self._fallback = fallback
        self._known: dict[str, GoodVersion] = {}

    def forget_fallback(self) -> None:
        """Go by what was seen here from now on: the store is of one thread."""
        self._fallback = None

    def loaded_at(self, path: str) -> float | None:
        """The moment at which the last good version of a file was loaded; None if there is none."""
        known = self._known.get(path)
        return known.loaded if known is not None else None

    def definitions(self, path: str) -> tuple[Definition, ...]:
        """The definitions of the last good version of a file."""
        if path not in self._known and self._fallback is not None:
            definitions = [found for data in self._fallback(path) if (found := _kept(path, data)) is not None]
            if definitions:
                self._known[path] = GoodVersion(tuple(definitions), time.time())
        known = self._known.get(path)
        return known.definitions if known is not None else ()

    def of_module(self, text: ModuleText) -> Iterator[ModuleText]:
        """The last good version of a module that is not good now."""
        known = self._known.get(text.path)
        if known is not None and known.text is not None:
            yield known.text
        elif self._fallback is not None:
            for data in self._fallback(text.path):
                with suppress(ValueError):
                    yield ModuleText.of(text.path, data)

    def note(self, good: Mapping[str, GoodVersion], paths: Collection[str]) -> None:
        """Note versions that are good, and forget those of files that are not among `paths`."""
        for path, version in good.items():
            if path not in self._known or self._known[path].digests != version.digests:
                self._known[path] = version
        self._known = {path: known for path, known in self._known.items() if path in paths}


def _kept(path: str, data: bytes) -> Definition | None:
    try:
        return next(iter(parse(Source(path, data)).definitions), None)
    except DefinitionError:
        return None
