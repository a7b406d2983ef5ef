"""Definitions of files as far as they can be read, whatever the faults of the names they use."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from narval.core.definitions.library import Definition, Library, Reference
from narval.core.definitions.parsing import compose, suffixes
from narval.core.errors import DefinitionError, Fault
from narval.files.agents.collections import parse_file
from narval.files.found_files import files_of, is_module
from narval.files.home import Home
from narval.files.loaded import Loaded
from narval.files.reading import load
from narval.system.regular_file import read_file


class FoundDefinitions(NamedTuple):
    """The definitions of some files, in order; the library that they belong to; the faults of what could not
    be read.
    """

    definitions: list[Definition]
    library: Library
    faults: list[Fault]


def definitions_in(paths: Iterable[Path], home: Home | None) -> FoundDefinitions:
    """The definitions of files and folders, as if they were added to a home, or to the shipped ones alone."""
    files = [file for path in paths for file in files_of(path) if file == path or _holds_definitions(file)]
    if home is not None:
        return _added(load(home.path), files)
    with tempfile.TemporaryDirectory(prefix="narval-tell-") as folder:
        return _added(load(Path(folder)), files)


def _holds_definitions(file: Path) -> bool:
    return file.is_dir() or file.name.endswith((*suffixes(), ".py"))


def _added(loaded: Loaded, files: list[Path]) -> FoundDefinitions:
    added: dict[tuple[str, str], Definition] = {}
    references, faults = list[Reference](), list[Fault]()
    for file in files:
        try:
            if is_module(file):
                before = frozenset(loaded.library)
                loaded = loaded.with_definitions(file)
                new = (found for found in loaded.library if found not in before)
                added.update({(found.kind, found.full_name): found for found in new})
                continue
            read = read_file(file, str(file))
            if isinstance(read, Fault):
                raise DefinitionError([read])
            parsed = parse_file(read)
            added.update({(found.kind, found.full_name): found for found in parsed.definitions})
            references += parsed.references
            faults += parsed.faults
        except DefinitionError as error:
            faults += error.faults
    try:
        loaded = loaded.with_shipped(references)
    except DefinitionError as error:
        faults += error.faults
    library, _ = compose(loaded.library.replace(added.values()))
    whole = (library.get(*key) or definition for key, definition in added.items())
    return FoundDefinitions(list(whole), library, faults)
