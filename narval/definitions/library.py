"""Library: name to definition; frozen, replaced whole (habit 8)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Protocol


class Definition(Protocol):
    """What every kind of definition has, whatever else it has."""

    @property
    def kind(self) -> str:
        """The word of its kind: action, transform, recipe."""

    @property
    def group(self) -> str:
        """The file, module or cookbook it belongs to."""

    @property
    def name(self) -> str:
        """Its own name."""

    @property
    def full_name(self) -> str:
        """`group.name`."""

    @property
    def descriptions(self) -> Mapping[str, str]:
        """What it does, by language."""

    @property
    def digest(self) -> str:
        """Names the version."""

    @property
    def xml(self) -> bytes:
        """The element that memory shows (N2)."""

    @property
    def path(self) -> str:
        """The file it was read from."""

    @property
    def line(self) -> int:
        """The line it begins on."""


class Library:
    """All definitions that can be run now, by kind and name. Never altered: a change makes a new library."""

    __slots__ = ("_by_kind", "_by_name")

    def __init__(self, definitions: Iterable[Definition] = ()) -> None:
        by_kind: dict[str, dict[str, Definition]] = {}
        by_name: dict[str, Definition] = {}
        for each in definitions:
            by_kind.setdefault(each.kind, {})[each.full_name] = each
            by_name.setdefault(each.full_name, each)
        self._by_kind = {kind: MappingProxyType(named) for kind, named in by_kind.items()}
        self._by_name = by_name

    def get(self, kind: str, full_name: str) -> Definition | None:
        """The definition of that kind and name."""
        return self._by_kind.get(kind, {}).get(full_name)

    def find(self, full_name: str) -> Definition | None:
        """The definition of that name, of whatever kind; the first read where several kinds share it."""
        return self._by_name.get(full_name)

    def of(self, kind: str) -> Mapping[str, Definition]:
        """All definitions of a kind, by name."""
        return self._by_kind.get(kind, MappingProxyType({}))

    @property
    def files(self) -> tuple[str, ...]:
        """The files the definitions were read from, sorted."""
        return tuple(sorted({each.path for each in self}))

    def replace(self, definitions: Iterable[Definition], *, without: Iterable[str] = ()) -> Library:
        """A library with these definitions in place of those of the same kind and name.

        What was read from the files `without` is left out first.
        """
        dropped = frozenset(without)
        kept = {(each.kind, each.full_name): each for each in self if each.path not in dropped}
        kept.update({(each.kind, each.full_name): each for each in definitions})
        return Library(kept.values())

    def __iter__(self) -> Iterator[Definition]:
        for named in self._by_kind.values():
            yield from named.values()

    def __len__(self) -> int:
        return sum(map(len, self._by_kind.values()))
