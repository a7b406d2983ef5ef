"""Exploration of a home: its definitions one after the other, each within its own bounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from narval.definitions.library import Definition, Library
from narval.engines.structure import Finding
from narval.errors import DefinitionError
from narval.exploration.findings import examine, is_explorable
from narval.runtime.home.home import Home
from narval.runtime.home.loader import Loaded, Loader
from narval.source.text import Source
from narval.source.xml import read_xml

SECONDS = 10.0
"""So long is one definition explored, unless one asks for more."""

PAUSE = 0.5
"""Seconds between two words of progress."""

Progress = Callable[[str, int], None]
"""Told the name of what is explored and how many states were found, now and then."""


class ExplorationReport(msgspec.Struct, frozen=True):
    """What was found out about one definition; `complete` says that nothing was left out."""

    name: str
    kind: str
    states: int
    complete: bool
    seconds: float
    findings: tuple[Finding, ...]


def explore_home(
    home: Home,
    paths: Iterable[Path] = (),
    *,
    most: int,
    seconds: float = SECONDS,
    progress: Progress = lambda name, states: None,
) -> Iterator[ExplorationReport]:
    """A report on each definition that loads; on those of some files or folders, if given."""
    loaded = Loader(home.path).load()
    for library, definition in _chosen(home, loaded, [path.resolve() for path in paths]):
        began = time.monotonic()
        enough = _patience(definition.full_name, began + seconds, progress)
        found, states, complete = examine(definition, library, most, enough)
        told = tuple(_placed(found, home.path / definition.path))
        took = time.monotonic() - began
        yield ExplorationReport(definition.full_name, definition.kind, states, complete, took, told)


def _patience(name: str, until: float, progress: Progress) -> Callable[[int], bool]:
    """Make the test that ends a search after its time, and reports progress meanwhile."""
    told = time.monotonic()

    def enough(states: int) -> bool:
        nonlocal told
        now = time.monotonic()
        if now - told > PAUSE:
            told = now
            progress(name, states)
        return now > until

    return enough


def _chosen(home: Home, loaded: Loaded, paths: list[Path]) -> Iterator[tuple[Library, Definition]]:
    """The definitions to explore, each with the library in which it is."""
    root = home.path.resolve()
    inside = [path for path in paths if path.is_relative_to(root)]
    for definition in _explorable(loaded.library):
        if not paths or any((root / definition.path).is_relative_to(path) for path in inside):
            yield loaded.library, definition
    for path in paths:
        if path in inside:
            continue
        for file in sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]:
            try:
                added = loaded.with_definitions(file)
            except DefinitionError:
                continue  # `check` tells what is wrong with it
            known = frozenset(map(id, loaded.library))
            new = (each for each in _explorable(added.library) if id(each) not in known)
            yield from ((added.library, each) for each in new)


def _explorable(library: Library) -> Iterator[Definition]:
    return (definition for definition in library if is_explorable(definition))


def _placed(told: Iterable[Finding], path: Path) -> Iterator[Finding]:
    """The findings with the columns at which their parts stand in the file."""
    try:
        root = read_xml(Source(str(path), path.read_bytes()))
    except (OSError, DefinitionError):
        yield from told
        return
    columns = {(node.line, node.attributes.get("id", "")): node.column for node in root.walk()}
    tops = {node.line: node.column for node in reversed(list(root.walk())) if "name" in node.attributes}
    for each in told:
        column = columns.get((each.line, each.part), tops.get(each.line, 1))
        yield msgspec.structs.replace(each, column=column)
