"""Check of a home: all that is wrong with it, found without running anything (`narval check`, N13)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from narval.definitions import kinds
from narval.definitions.kinds import ASKING
from narval.definitions.library import Definition, Library, RunDefinition
from narval.definitions.people.approvals import doubts_of_rules
from narval.definitions.people.directory import AFTER_A_MODEL, Directory
from narval.definitions.schedule import date_warnings
from narval.definitions.suggestions import closest
from narval.errors import DefinitionError, Fault, SettingsError, StoreError
from narval.runtime.home.agents.folders import (
    folder_names,
    libraries_of,
    paths_of,
    read_folders,
    too_many_definitions,
)
from narval.runtime.home.found_files import files_of
from narval.runtime.home.home import Home
from narval.runtime.home.loader import Loaded, Loader
from narval.runtime.home.memory_file import read_memory
from narval.runtime.home.people_file import PEOPLE_FILE, place_of_rule, read_people
from narval.runtime.home.schemas import Schemas
from narval.runtime.home.settings import FILE, Settings, read_settings
from narval.runtime.store.open import look_into
from narval.runtime.system.cgroup import obstacle
from narval.source.text import Source
from narval.source.toml import TomlText


def check_home(home: Home, paths: Iterable[Path] = ()) -> list[Fault]:
    """The faults of definitions, modules, schemas, memory, people and settings; of some paths, if given.

    A file outside the home is checked as if it were added to it.
    """
    settings, faults = read_settings(home.path)
    settings = settings or Settings()
    loader, schemas = Loader(home.path), Schemas(home.schemas)
    loaded = loader.load(paths_of(home.path, settings.own))
    agents, wrong = read_folders(home, loader, schemas, settings.name, {}, starts=True)
    _, of_memory = read_memory(home.memory, schemas, loaded.library, settings.own)
    people, of_people = read_people(home.path)
    writes = settings.mail is not None
    faults = [*faults, *of_people, *loaded.faults, *schemas.faults(), *of_memory]
    faults += too_many_definitions(loaded.library, settings.own, FILE)
    faults += [*wrong, *(fault for folder in agents.values() for fault in folder.faults)]
    for found in libraries_of(home.path, loader, loaded, agents.values()):
        faults += [*found.faults, *_warnings(found.library, found.library, people, writes)]
        faults += _unknown_agents(home, found.library)
    for position, message in doubts_of_rules(people.approvals if people is not None else (), loaded.library):
        place = place_of_rule(home.path, position)
        faults.append(Fault(PEOPLE_FILE, *place, message, warning=True))
    if loaded.library.get(ASKING, AFTER_A_MODEL) is None:
        faults += _unasked(home, [found.name for found in settings.services if found.table == "models"])
    wanted = [path.resolve() for path in paths]
    if not wanted:
        return sorted(set(faults))
    root, kept = home.path.resolve(), list[Fault]()
    for path in wanted:
        if not path.is_relative_to(root):
            kept += _faults_outside(loaded, path, people, writes)
            continue
        kept += (fault for fault in faults if (root / fault.path).is_relative_to(path))
        if not path.exists():
            kept.append(Fault(str(path), 1, 1, "there is no such file"))
    return sorted(set(kept))


def _unasked(home: Home, models: Iterable[str]) -> Iterator[Fault]:
    """Warnings about language models, where there is no work by which somebody is asked after an answer."""
    for name in models:
        place = TomlText(Source(FILE, (home.path / FILE).read_bytes())).key("models", name)
        why = f"there is no work {AFTER_A_MODEL}, so no call goes outside that an answer led to"
        message = f"models.{name}: {why}; take what ships: narval take recipes/model.xml"
        yield Fault(FILE, *place, message, warning=True)


def _faults_outside(loaded: Loaded, path: Path, people: Directory | None, writes: bool) -> list[Fault]:
    faults: list[Fault] = []
    for file in files_of(path):
        try:
            loaded = loaded.with_definitions(file)
        except DefinitionError as error:
            faults += error.faults
        else:
            added = [definition for definition in loaded.library if definition.path == str(file)]
            faults += _warnings(added, loaded.library, people, writes)
    return faults


def _warnings(
    definitions: Iterable[Definition], library: Library, people: Directory | None, writes: bool
) -> list[Fault]:
    """Warnings about definitions of a library: those of their kind, about dates (N25), about limits that
    cannot be kept on this system (A19), about calls at other agents without a time limit (G35), and about the
    people whom they ask, whom a home `writes` to if it has a server (P14).
    """
    definitions, now = list(definitions), time.time()
    limiting = [(found, line) for found in definitions for line in getattr(found, "limits_processes", ())]
    unkept = f"processes: no daemon can keep this limit here: {obstacle()}" if limiting else ""
    limits = [
        Fault(definition.path, line, 1, f"{unkept}; what it limits ends with 126", warning=True)
        for definition, line in limiting
        if obstacle()
    ]
    dates = [
        Fault(definition.path, line, 1, message, warning=True)
        for definition in definitions
        for line, message in date_warnings(getattr(definition, "times", ()), now)
    ]
    remote = [
        Fault(definition.path, call.line, 1, f"{call.part}: {_UNLIMITED.format(call.agent)}", warning=True)
        for definition in definitions
        if isinstance(definition, RunDefinition)
        for call in definition.remote_calls
        if call.timeout is None
    ]
    asking = kinds.doubts(definitions, people, writes=writes) if people is not None else []
    return [*limits, *dates, *remote, *asking, *kinds.warnings(definitions, library)]


def _unknown_agents(home: Home, definitions: Iterable[Definition]) -> Iterator[Fault]:
    """Warnings about agents that definitions name and the home does not have yet (G27)."""
    named = [
        (found.path, part)
        for found in definitions
        if isinstance(found, RunDefinition)
        for part in found.addressed
    ]
    there = _agents(home) if named else set()
    for path, (name, part, line) in named if there else ():
        if name not in there:
            why = f"there is no agent {name!r} here yet{closest(name, there)}; `narval agents add {name}`"
            yield Fault(path, line, 1, f"{part}: {why} makes one", warning=True)


def _agents(home: Home) -> set[str]:
    """The names of the agents of a home, by its folders and its store; none where that cannot be read."""
    try:
        settings = Settings.load(home.path)
        where = settings.store or home.store
        names = {settings.name, *folder_names(home.path)}
        if isinstance(where, Path) and where.exists():
            with look_into(where, home.is_held) as store:
                names.update(row.name for row in store.agents())
        return names
    except (SettingsError, StoreError):
        return set()


_UNLIMITED = "{0} may never answer, and after a day the call is given up; say how long it may take: timeout"
"""The doubt about a call at another agent without a time limit (G35)."""
