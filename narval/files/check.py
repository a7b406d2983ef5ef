"""Check of a home: find all faults without running anything (`narval check`, N13)."""

from __future__ import annotations

import stat
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from narval.core.agent_name import peer_of
from narval.core.definitions.action.definition import Action
from narval.core.definitions.library import SET_FIRST, Definition, Library, RunDefinition
from narval.core.definitions.parsing import doubts, suffixes
from narval.core.definitions.parsing import warnings as warnings_of
from narval.core.definitions.people.approvals import doubts_of_rules
from narval.core.definitions.people.directory import AFTER_A_MODEL, ASKS_FOR_A_CLIENT, Directory
from narval.core.definitions.schedule import date_warnings
from narval.core.definitions.suggestions import closest
from narval.core.errors import DefinitionError, Fault, SettingsError, StoreError
from narval.core.kinds import ASKING
from narval.core.source.text import Source
from narval.core.source.toml import TomlText
from narval.files.agents.collections import parse_file
from narval.files.agents.folders import faults_of_templates, folder_names, settings_without_effect
from narval.files.agents.settings import SETTINGS
from narval.files.found_files import files_of
from narval.files.home import Home
from narval.files.loaded import Loaded
from narval.files.mcp_clients import clients_of, faults_of_clients
from narval.files.memory_file import read_memory
from narval.files.outside.cluster import CLUSTER_PACKAGE
from narval.files.outside.kept_tools import doubts_of_tools
from narval.files.outside.peers import PEERS_FILE, read_peers
from narval.files.outside.services import LanguageModel, services_of
from narval.files.people_file import PEOPLE_FILE, place_of_rule, read_people
from narval.files.reach import ReachSources, refusals, sources_of, ways_served
from narval.files.reading import Reading, load
from narval.files.schemas import Schemas
from narval.files.settings import FILE, Settings, parse_settings, read_settings
from narval.files.trust_file import doubts_of_trust
from narval.store.open import look_into
from narval.store.postgresql.drivers import driver_of
from narval.system.cgroup import obstacle
from narval.system.extras import install_command, is_installed
from narval.system.regular_file import read_file, read_source, unexpected


def check_home(home: Home, paths: Iterable[Path] = ()) -> list[Fault]:
    """The faults of definitions, modules, schemas, memory, people and settings, consequences of other faults
    last. With `paths`, only those of these paths.

    A file outside the home is checked as if it were added to it.
    """
    return check_and_read(home, paths)[0]


def check_and_read(home: Home, paths: Iterable[Path] = ()) -> tuple[list[Fault], ReachSources]:
    """The faults of a home, as `check_home` gives them, and what was read of it."""
    is_known, people = read_settings(home.path)[0] is not None, read_people(home.path)[0]
    reading = Reading(home.path, starts=True)
    snapshot = reading.snapshot()
    settings, trust, loaded = snapshot.settings, snapshot.trust, snapshot.own.loaded
    by, faults = ways_served(settings), [*snapshot.faults, *faults_of_clients(home.path)]
    everything = tuple(reading.libraries(snapshot))
    libraries = tuple(each.library for each in everything)
    sources = sources_of(snapshot, libraries, clients_of(home.path), everything)
    for each in everything:
        faults += [*each.faults, *_warnings(each.library, each.library, people, by)]
        faults += _unknown_agents(home, each.library)
        faults += _without_a_cluster(each.library, settings) if is_known else ()
        faults += _without_who_agrees(each.library)
        faults += _unknown_sources(each.library, settings) if is_known else ()
        faults += doubts_of_tools(home.path, each.library, settings.mcp, people) if is_known else ()
    faults += refusals(sources)
    for follows in reading.unfollowed(snapshot):
        beneath = snapshot.own.schemas if len(follows) > 1 else Schemas(None)
        faults += reading.followed(follows, beneath, settings.own).faults
    for position, message in doubts_of_rules(people.approvals if people is not None else (), loaded.library):
        place = place_of_rule(home.path, position)
        faults.append(Fault(PEOPLE_FILE, *place, message, warning=True))
    if trust is not None:
        faults += doubts_of_trust(trust, loaded.library, sources.given)
    elif loaded.library.get(ASKING, AFTER_A_MODEL) is None:
        asking = [model.name for model in services_of(settings.services, LanguageModel) if model.asks]
        faults += _unasked(home, asking)
    faults += _unusable_store(home, settings)
    faults += _traces_without_sdk(home, settings)
    faults += _settings_without_effect(home, settings)
    faults += faults_of_templates(home.path)
    faults += _open_to_others(home.path)
    resolved = [path.resolve() for path in paths]
    if not resolved:
        return sorted(set(faults), key=_causes_first), sources
    root, faults_of_paths = home.path.resolve(), list[Fault]()
    outside = [path for path in resolved if not path.is_relative_to(root)]
    faults_of_paths += _faults_outside(loaded, outside, people, by, alone=False) if outside else ()
    for path in resolved:
        if path in outside:
            continue
        faults_of_paths += (fault for fault in faults if (root / fault.path).is_relative_to(path))
        if not path.exists():
            faults_of_paths.append(Fault(str(path), 1, 1, "there is no such file"))
    return sorted(set(faults_of_paths), key=_causes_first), sources


def _causes_first(fault: Fault) -> tuple[bool, Fault]:
    """The sort key of a fault: after all others if another faulty file is its cause."""
    return SET_FIRST in fault.message, fault


def _unusable_store(home: Home, settings: Settings) -> Iterator[Fault]:
    """The fault of a store that can never be opened; its server is not contacted."""
    if settings.store is None:
        return
    try:
        driver_of(settings.store, "crash", 0.0).close()
    except StoreError as error:
        place = TomlText(read_source(home.path / FILE, FILE)).value("store")
        yield Fault(FILE, *place, f"store: {error}")


def _traces_without_sdk(home: Home, settings: Settings) -> Iterator[Fault]:
    """The warning that the settings enable traces while the packages that export them are missing."""
    packages = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
    if settings.traces and (missing := next((name for name in packages if not is_installed(name)), "")):
        place = TomlText(read_source(home.path / FILE, FILE)).value("traces")
        message = f"traces: expected the package {missing}; install it: {install_command('otel')}"
        yield Fault(FILE, *place, message, warning=True)


def _settings_without_effect(home: Home, settings: Settings) -> list[Fault]:
    """The faults of settings in the home's own SQLite store that only apply to a shared store."""
    if settings.store is not None or not home.store.exists():
        return []
    try:
        with look_into(home.store, home.is_held) as store:
            return settings_without_effect(home.path, store.facts(SETTINGS))
    except StoreError:  # whatever opens the store reports it
        return []


def _open_to_others(home: Path) -> Iterator[Fault]:
    """One warning that other users may alter what runs as the home's owner, or its rules."""
    owner = home.stat().st_uid
    looked = [home / "etc", *(home / "etc").glob("*.toml")]
    for folder in (home / "modules", home / "recipes"):
        looked += [folder, *folder.rglob("*")]
    there = sorted(str(path.relative_to(home)) for path in looked if _may_be_altered(path, owner))
    if there:
        more = f" and {len(there) - 3} more" if len(there) > 3 else ""
        message = f"others may write to {', '.join(there[:3])}{more}, and what is there runs as the owner"
        yield Fault(there[0], 1, 1, f"{message}: take that away with chown, or chmod go-w", warning=True)


def _may_be_altered(path: Path, owner: int) -> bool:
    """True if a file or folder belongs to neither the owner nor root, or others may write to it. A group
    whose number is its user's number has no other members.
    """
    try:
        status = path.stat()
    except OSError:  # missing; unreadable files are reported elsewhere
        return False
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):  # pipes and devices are not read
        return False
    by_group = status.st_mode & stat.S_IWGRP and status.st_gid != status.st_uid
    return status.st_uid not in (owner, 0) or bool(by_group or status.st_mode & stat.S_IWOTH)


def _unasked(home: Home, models: Iterable[str]) -> Iterator[Fault]:
    """Warnings about language models after whose answers no work asks a person."""
    for name in models:
        place = TomlText(read_source(home.path / FILE, FILE)).key("models", name)
        why = f"there is no work {AFTER_A_MODEL}, so no call goes outside that an answer led to"
        message = f"models.{name}: {why}; take what ships: narval take recipes/model.xml"
        yield Fault(FILE, *place, message, warning=True)


def _without_a_cluster(library: Library, settings: Settings) -> Iterator[Fault]:
    """Warnings about actions for a cluster, if the settings name none or its client is not installed."""
    why = ""
    if not settings.cluster.address:
        why = f'{FILE} names none; write cluster = "local", or the address of a scheduler'
    elif not is_installed(CLUSTER_PACKAGE):
        why = f"the package {CLUSTER_PACKAGE} is not installed; install it: {install_command('cluster')}"
    for definition in library if why else ():
        if isinstance(definition, Action) and definition.where == "cluster":
            message = f"{definition.name}: its calls wait for a cluster, and {why}"
            yield Fault(definition.path, definition.line, 1, message, warning=True)


def _unknown_sources(library: Library, settings: Settings) -> Iterator[Fault]:
    """Warnings about dataflows that name a source that neither the settings nor a module has."""
    for definition in library:
        for name, line in getattr(definition, "sources", ()):
            if name not in settings.sources and library.get("wrapper", name) is None:
                cure = f"correct it, or add [sources.{name}] to {FILE}"
                message = f"there is no wrapper or source {name!r}; {cure}"
                yield Fault(definition.path, line, 1, message, warning=True)


def _without_who_agrees(library: Library) -> Iterator[Fault]:
    """Warnings about tools that need the owner's agreement while nothing asks the owner."""
    for definition in library:
        tool = definition.tool if isinstance(definition, RunDefinition) else None
        if tool is not None and tool.approve == "owner" and library.find(ASKS_FOR_A_CLIENT) is None:
            why = f"its tool is refused, for there is no {ASKS_FOR_A_CLIENT}, which asks the owner"
            message = f"{definition.full_name}: {why}; take what ships: narval take recipes/mcp.xml"
            yield Fault(definition.path, definition.line, 1, message, warning=True)


def faults_beside(
    loaded: Loaded, people: Directory | None, settings: Settings, texts: Mapping[str, str]
) -> list[Fault]:
    """The faults of texts by the name of their file, as if they were added to what is loaded."""
    loaded, faulty = loaded.with_fitting(Source.of_text(name, text) for name, text in texts.items())
    faults = {fault for why in faulty.values() for fault in why.faults}
    added = texts.keys() - faulty.keys()
    definitions = [definition for definition in loaded.library if definition.path in added]
    return sorted({*faults, *_warnings(definitions, loaded.library, people, ways_served(settings))})


def check_alone(paths: Iterable[Path]) -> list[Fault]:
    """The faults of files outside any home, checked together, as far as possible.

    An unknown name that does not ship may be in another file: it is a warning.
    """
    with tempfile.TemporaryDirectory(prefix="narval-check-") as folder:
        loaded = load(Path(folder))
        return sorted(set(_faults_outside(loaded, [path.resolve() for path in paths], alone=True)))


def _faults_outside(
    loaded: Loaded,
    paths: Iterable[Path],
    people: Directory | None = None,
    by: Collection[str] = (),
    *,
    alone: bool,
) -> list[Fault]:
    """The faults of files outside a home, as if they were added to it together; with `alone`, unknown names
    are warnings.
    """
    faults, files = list[Fault](), [file for path in paths for file in _to_check(path)]
    added = {str(file) for file in files}
    texts = dict[str, Source]()
    for file in files:
        if file.name in _SPECIAL:
            continue
        if file.suffix == ".py" or file.is_dir():
            try:
                loaded = loaded.with_definitions(file)
            except DefinitionError as error:
                faults += error.faults
            continue
        read = read_file(file, str(file))
        if isinstance(read, Fault):
            faults.append(read)
        else:
            texts[read.path] = read
    loaded, faulty = loaded.with_fitting(texts.values())
    for path, why in faulty.items():
        unsure = alone and _is_well_written(texts[path])
        faults += (fault._replace(warning=True) if unsure else fault for fault in why.faults)
    for file in files:
        if file.name in _SPECIAL:
            faults += _faults_declared(file, loaded.library, starts=not alone)
    added -= faulty.keys()
    definitions = [definition for definition in loaded.library if definition.path in added]
    return [*faults, *_warnings(definitions, loaded.library, people, by)]


_SPECIAL = ("memory.xml", "narval.toml")
"""The names of files of declarations and of settings."""


def _to_check(path: Path) -> list[Path]:
    """The file at a path; for a folder, its files with definitions, declarations or settings."""
    endings = (*suffixes(), ".py", *_SPECIAL)
    files = files_of(path)
    return [file for file in files if file == path or file.is_dir() or file.name.endswith(endings)]


def _faults_declared(file: Path, library: Library, *, starts: bool) -> list[Fault]:
    """The faults of a file of declarations or of settings."""
    read = read_file(file, str(file))
    if isinstance(read, Fault):
        return [read]
    if file.suffix == ".toml":
        return parse_settings(read)[1]
    schemas = Schemas(file.parent.parent / "etc" / "schemas")
    return read_memory(file, schemas, library, starts=starts, shown=str(file))[1]


def _is_well_written(text: Source) -> bool:
    """True if a text has no faults of its own: any faults concern the names of others."""
    try:
        return not parse_file(text).faults
    except DefinitionError:
        return False


def _warnings(
    definitions: Iterable[Definition], library: Library, people: Directory | None, by: Collection[str]
) -> list[Fault]:
    """Warnings about definitions of a library; a definition on which narval fails affects no other."""
    definitions = list(definitions)
    try:
        return _doubtful(definitions, library, people, by)
    except Exception as error:
        if len(definitions) == 1:
            return [unexpected(definitions[0].path, error)]
        return [fault for one in definitions for fault in _warnings([one], library, people, by)]


def _doubtful(
    definitions: list[Definition], library: Library, people: Directory | None, by: Collection[str]
) -> list[Fault]:
    """Warnings about definitions of a library: their own, those of their kind, about dates, about
    limits that this system cannot enforce, about calls to other agents without a time limit, and
    about the people they ask, to whom a home can write `by` some ways.
    """
    now = time.time()
    limiting = [
        (limiting_definition, line)
        for limiting_definition in definitions
        for line in getattr(limiting_definition, "limits_processes", ())
    ]
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
    asking = doubts(definitions, people, by) if people is not None else []
    own = [warning for definition in definitions for warning in definition.warnings]
    return [*own, *limits, *dates, *remote, *asking, *warnings_of(definitions, library)]


def _unknown_agents(home: Home, definitions: Iterable[Definition]) -> Iterator[Fault]:
    """Warnings about agents named by definitions that the home does not have yet."""
    named = [
        (definition.path, part)
        for definition in definitions
        if isinstance(definition, RunDefinition)
        for part in definition.addressed
    ]
    there = _agents(home) if named else set()
    peers = read_peers(home.path)[0] if named else None
    for path, (name, part, line) in named if there else ():
        peer = peer_of(name)
        if peer and peers is not None and peer not in peers:
            why = f"there is no peer {peer!r} in {PEERS_FILE} yet{closest(peer, peers)}"
            yield Fault(path, line, 1, f"{part}: {why}; `narval link add` makes one", warning=True)
        elif not peer and name not in there:
            why = f"there is no agent {name!r} here yet{closest(name, there)}; `narval agents add {name}`"
            yield Fault(path, line, 1, f"{part}: {why} makes one", warning=True)


def _agents(home: Home) -> set[str]:
    """The names of the agents of a home, by its folders and its store; none if that cannot be read."""
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
"""The doubt about a call to another agent without a time limit."""
