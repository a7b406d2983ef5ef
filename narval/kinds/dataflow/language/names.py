"""Names of plans: folders below `recipes`, files in them, plans in those (T15, TA29, TA30).

A plan of the file `recipes/amazon/popular.plan` is `/amazon/Books`, or in full `/amazon/popular/Books`. It is
started by the name of its group, as `popular.Books`. A reference is resolved from the folder of its plan; a
plan of the same file comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

RECIPES = "recipes"


class FilePlace(NamedTuple):
    """The place of a file: its folders below `recipes`, its name without the suffix, and the group of its
    plans, by default that name.
    """

    folders: tuple[str, ...]
    file: str
    group: str


def place_of(path: str, group: str = "") -> FilePlace:
    """The place of a file, from its path and the group that it declares, if any."""
    parts = PurePosixPath(path).parts
    below = len(parts) - parts[::-1].index(RECIPES) if RECIPES in parts[:-1] else len(parts) - 1
    stem = PurePosixPath(path).stem
    return FilePlace(parts[below:-1], stem, group or stem)


class PlanNames:
    """The full names of plans, by the paths that lead to them."""

    def __init__(self, plans: Iterable[tuple[FilePlace, str]]) -> None:
        self._by_path: dict[tuple[str, ...], list[str]] = {}
        for place, name in plans:
            for path in {(*place.folders, name), (*place.folders, place.file, name)}:
                self._by_path.setdefault(path, []).append(f"{place.group}.{name}")

    def found(self, reference: str, at: FilePlace) -> list[str]:
        """The full names of the plans that a reference in a file may mean: none, one, or several."""
        for path in _paths(reference, at):
            if found := self._by_path.get(path):
                return found
        return []

    def known(self, at: FilePlace) -> list[str]:
        """The shortest references by which plans can be called from a file."""
        shown: dict[str, str] = {}
        for path, names in sorted(self._by_path.items(), key=lambda item: len(item[0])):
            near = path[:-1] in (at.folders, (*at.folders, at.file))
            for name in names:
                shown.setdefault(name, path[-1] if near else "/" + "/".join(path))
        return list(shown.values())

    def paths(self) -> Mapping[tuple[str, ...], list[str]]:
        """The full names by path."""
        return self._by_path


def _paths(reference: str, at: FilePlace) -> list[tuple[str, ...]]:
    """The paths that a reference may mean, in the order in which they are tried."""
    if reference.startswith("/"):
        return [tuple(reference[1:].split("/"))]
    folders, parts = list(at.folders), reference.split("/")
    while parts[0] == "..":
        folders, parts = folders[:-1], parts[1:]
    if len(parts) == 1 and not reference.startswith(".."):
        return [(*folders, at.file, *parts), (*folders, *parts)]
    return [(*folders, *parts)]
