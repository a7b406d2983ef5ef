"""Check of a home: all that is wrong with it, found without running anything (`narval check`, N13)."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from narval.definitions import kinds
from narval.definitions.library import Definition, Library
from narval.definitions.schedule import date_warnings
from narval.engines.registry import runnable
from narval.errors import DefinitionError, Fault
from narval.memory.elements.control_elements import START_PLANS
from narval.runtime.home.found_files import files_of
from narval.runtime.home.home import Home
from narval.runtime.home.loader import Loaded, Loader
from narval.runtime.home.memory_file import SHOWN, refused
from narval.runtime.home.schemas import Schemas
from narval.runtime.home.settings import read_settings
from narval.source.text import Source
from narval.source.xml import read_xml


def check_home(home: Home, paths: Iterable[Path] = ()) -> list[Fault]:
    """The faults of definitions, modules, schemas, memory and settings; of some files or folders, if given.

    A file outside the home is checked as if it were added to it.
    """
    loaded = Loader(home.path).load()
    schemas = Schemas(home.schemas)
    _, faults = read_settings(home.path)
    faults = [*faults, *loaded.faults, *schemas.faults(), *_faults_of_memory(home, loaded, schemas)]
    faults += _warnings(loaded.library, loaded.library)
    wanted = [path.resolve() for path in paths]
    if not wanted:
        return sorted(set(faults))
    inside = [path for path in wanted if path.is_relative_to(home.path.resolve())]
    kept = [fault for fault in faults if any(_within(home, fault, path) for path in inside)]
    for path in inside:
        if not path.exists():
            kept.append(Fault(str(path), 1, 1, "there is no such file"))
    for path in wanted:
        if path not in inside:
            kept += _faults_outside(loaded, path)
    return sorted(set(kept))


def _within(home: Home, fault: Fault, path: Path) -> bool:
    return (home.path.resolve() / fault.path).is_relative_to(path)


def _faults_outside(loaded: Loaded, path: Path) -> list[Fault]:
    faults: list[Fault] = []
    for file in files_of(path):
        try:
            loaded = loaded.with_definitions(file)
        except DefinitionError as error:
            faults += error.faults
        else:
            added = [definition for definition in loaded.library if definition.path == str(file)]
            faults += _warnings(added, loaded.library)
    return faults


def _warnings(definitions: Iterable[Definition], library: Library) -> list[Fault]:
    """Warnings about definitions of a library: those of their kind, and those about dates (N25)."""
    definitions, now = list(definitions), time.time()
    dates = [
        Fault(definition.path, line, 1, message, warning=True)
        for definition in definitions
        for line, message in date_warnings(getattr(definition, "times", ()), now)
    ]
    return [*dates, *kinds.warnings(definitions, library)]


def _faults_of_memory(home: Home, loaded: Loaded, schemas: Schemas) -> list[Fault]:
    """The faults of `data/memory.xml`: it is XML, fits its schemas, and starts definitions that there are."""
    try:
        source = Source(SHOWN, home.memory.read_bytes())
    except FileNotFoundError:
        return []
    except OSError as error:
        return [Fault(SHOWN, 1, 1, f"cannot be read: {error.strerror}")]
    try:
        root = read_xml(source)
    except DefinitionError as error:
        return list(error.faults)
    faults = list(refused(root, source, schemas))
    for child in root.children:
        name = child.attributes.get("recipe", "")
        if child.tag in START_PLANS and runnable(loaded.library, name) is None:
            line, column = (
                child.place("recipe") if "recipe" in child.attributes else (child.line, child.column)
            )
            faults.append(source.fault(f"there is no definition {name!r} to start", line, column))
    return faults
