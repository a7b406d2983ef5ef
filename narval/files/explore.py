"""Exploration of a home: its definitions one after the other, each within its own limits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from narval.core.definitions.library import Definition, Library
from narval.core.engines.structure import Finding
from narval.core.errors import DefinitionError
from narval.core.source.xml import read_xml
from narval.files.found_files import files_of
from narval.files.home import Home
from narval.files.loaded import Loaded
from narval.files.reading import Reading
from narval.system.regular_file import read_source
from narval.trials.explore.findings import examine, is_explorable

SECONDS = 10.0
"""The usual seconds for one definition."""

PAUSE = 0.5
"""Seconds between two reports of progress."""

Progress = Callable[[str, int], None]
"""A function called periodically with a definition's name and the number of states found so far."""


class ExplorationReport(msgspec.Struct, frozen=True):
    """The findings about one definition; `complete` if nothing was left out.

    `walked` is False if only its graph was examined, not its possible runs.
    """

    name: str
    kind: str
    states: int
    complete: bool
    seconds: float
    findings: tuple[Finding, ...]
    walked: bool


def explore_home(
    home: Home,
    paths: Iterable[Path] = (),
    *,
    most: int,
    seconds: float = SECONDS,
    progress: Progress = lambda name, states: None,
) -> Iterator[ExplorationReport]:
    """Report on each definition that loads; with files or folders, only on theirs."""
    reading = Reading(home.path)
    libraries = list(reading.libraries(reading.snapshot()))
    for library, definition in _chosen(home, libraries, [path.resolve() for path in paths]):
        began = time.monotonic()
        enough = _patience(definition.full_name, began + seconds, progress)
        findings, states, complete, walked = examine(definition, library, most, enough)
        placed = tuple(_placed(findings, home.path / definition.path))
        lasted = time.monotonic() - began
        name, kind = definition.full_name, definition.kind
        yield ExplorationReport(name, kind, states, complete, lasted, placed, walked)


def _patience(name: str, until: float, progress: Progress) -> Callable[[int], bool]:
    """Make the test that ends a search after its time, and reports progress until then."""
    reported = time.monotonic()

    def enough(states: int) -> bool:
        nonlocal reported
        now = time.monotonic()
        if now - reported > PAUSE:
            reported = now
            progress(name, states)
        return now > until

    return enough


def _chosen(home: Home, libraries: list[Loaded], paths: list[Path]) -> Iterator[tuple[Library, Definition]]:
    """The definitions to explore, each with the first library that has it."""
    root = home.path.resolve()
    inside = [path for path in paths if path.is_relative_to(root)]
    seen = set[int]()
    for library in (explorable.library for explorable in libraries):
        for definition in _explorable(library):
            is_wanted = not paths or any((root / definition.path).is_relative_to(path) for path in inside)
            if is_wanted and id(definition) not in seen:
                seen.add(id(definition))
                yield library, definition
    loaded = libraries[0]
    loaded_before = frozenset(map(id, loaded.library))
    for file in (file for path in paths if path not in inside for file in files_of(path)):
        with suppress(DefinitionError):  # `check` reports its faults
            added = loaded.with_definitions(file).library
            yield from (
                (added, explorable)
                for explorable in _explorable(added)
                if id(explorable) not in loaded_before
            )


def _explorable(library: Library) -> Iterator[Definition]:
    return (definition for definition in library if is_explorable(definition))


def _placed(findings: Iterable[Finding], path: Path) -> Iterator[Finding]:
    """The findings with the columns of their parts in the file."""
    try:
        root = read_xml(read_source(path, str(path)))
    except (OSError, DefinitionError):
        yield from findings
        return
    columns = {(node.line, node.attributes.get("id", "")): node.column for node in root.walk()}
    tops = {node.line: node.column for node in reversed(list(root.walk())) if "name" in node.attributes}
    for finding in findings:
        column = columns.get((finding.line, finding.part), tops.get(finding.line, 1))
        yield msgspec.structs.replace(finding, column=column)
