"""All that is wrong with a home, found without running anything (`narval check`, N13)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from time import time as now
from typing import Any

from narval.definitions.automaton import checks
from narval.definitions.automaton.definition import Automaton
from narval.definitions.library import Definition, Library
from narval.definitions.process.checks import doubts
from narval.definitions.process.definition import Process
from narval.definitions.recipe.definition import Recipe
from narval.definitions.schedule import FIELDS, Time, finer_omitted, schedule_of
from narval.engines.registry import runnable
from narval.errors import DefinitionError, Fault
from narval.memory.elements.control_elements import START_PLANS
from narval.runtime.home.home import Home
from narval.runtime.home.loader import Loaded, Loader
from narval.runtime.home.memory_file import SHOWN, refused
from narval.runtime.home.schemas import Schemas
from narval.runtime.home.settings import read_settings
from narval.source.text import Source
from narval.source.xml import read_xml

A_DAY = 86400.0
"""Zones differ by no more than about that."""


def check_home(home: Home, paths: Iterable[Path] = ()) -> list[Fault]:
    """The faults of definitions, modules, schemas, memory and settings; of some files or folders, if given.

    A file outside the home is checked as if it were added to it.
    """
    loaded = Loader(home.path).load()
    schemas = Schemas(home.schemas)
    _, faults = read_settings(home.path)
    faults = [*faults, *loaded.faults, *schemas.faults(), *_faults_of_memory(home, loaded, schemas)]
    faults += warnings(loaded.library, loaded.library)
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
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    faults: list[Fault] = []
    for file in files:
        try:
            loaded = loaded.with_definitions(file)
        except DefinitionError as error:
            faults += error.faults
        else:
            added = [each for each in loaded.library if each.path == str(file)]
            faults += warnings(added, loaded.library)
    return faults


def warnings(definitions: Iterable[Definition], library: Library) -> list[Fault]:
    """What definitions say that is allowed and may not be meant: dates gone by, or left open (N25), states
    from which nothing leads to an end (A11).
    """
    definitions = list(definitions)
    doubtful = [
        Fault(each.path, line, 1, doubt, warning=True)
        for each in definitions
        for line, doubt in _DOUBTS.get(each.kind, _no_doubts)(each)
    ]
    processes = [each for each in definitions if isinstance(each, Process)]
    return [*doubtful, *doubts(processes, library)]


def _of_recipe(recipe: Recipe) -> Iterator[tuple[int, str]]:
    return _of_dates(time for each in recipe.transitions.values() for time in each.times)


def _of_automaton(automaton: Automaton) -> Iterator[tuple[int, str]]:
    yield from checks.warnings(automaton)
    yield from _of_dates(time for state in automaton.states.values() for time in state.after)


def _of_dates(times: Iterable[Time]) -> Iterator[tuple[int, str]]:
    return ((time.line, doubt) for time in times if (doubt := _doubt(time)))


def _no_doubts(definition: Definition) -> Iterator[tuple[int, str]]:
    return iter(())


_DOUBTS: Mapping[str, Callable[[Any], Iterator[tuple[int, str]]]] = {
    "recipe": _of_recipe,
    "automaton": _of_automaton,
}
"""By the kind of a definition, what may not be meant: lines, and what is doubtful there."""


def _doubt(time: Time) -> str:
    """What may not be meant about a date, if anything."""
    if schedule_of((time,), "UTC").next(now() - A_DAY) is None:
        return "this date has gone by and does not come again; correct years"
    finer = finer_omitted([time])
    if not finer:
        return ""
    least = " ".join(f'{name}="{FIELDS[name][0]}"' for name in finer)
    most = "{}-{}".format(*FIELDS[finer[0]])
    return (
        f"this date comes again and again, for it leaves {' and '.join(finer)} open; "
        f'write {least} for once, or {finer[0]}="{most}" if that is meant'
    )


def _faults_of_memory(home: Home, loaded: Loaded, schemas: Schemas) -> list[Fault]:
    """What `data/memory.xml` declares must be XML, fit its schemas, and start definitions that there are."""
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
