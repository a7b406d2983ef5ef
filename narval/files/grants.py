"""`etc/grants.toml`: the grants of each definition, and the definitions that may therefore start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from narval.core.definitions.action.needs import ServicePlace
from narval.core.definitions.library import Definition, Library, RunDefinition, Withheld
from narval.core.definitions.wall import in_utc
from narval.core.errors import DefinitionError, Fault, RequestError
from narval.core.source.text import Source
from narval.core.trust.grants import (
    Decision,
    Grant,
    decide,
    digest_of,
    granted_to,
    held_against,
    key_of,
    reached,
    told_of,
    why_withheld,
)
from narval.core.trust.needs import NamedPlaces, Need, needs_of, written_in
from narval.files.agents.collections import AGENTS, folder_of, parse_file
from narval.files.agents.settings import COLLECTIONS
from narval.files.found_files import MODULES
from narval.files.loaded import Loaded
from narval.files.outside.chats import CHATS
from narval.files.outside.services import places_by_table
from narval.files.outside.sources import SOURCES
from narval.files.settings import Settings
from narval.files.shipped import is_shipped, shipped
from narval.files.snapshot import AgentFiles, Snapshot
from narval.files.toml import Reader, TomlFile, flag, listed, outcome, quoted, text
from narval.system.regular_file import read_file
from narval.system.whole_files import write_whole

GRANTS = "etc/grants.toml"

ASK = "ask"
"""The value of the setting `grants` with which a home asks."""

WAITING = ("asked", "rejected")
"""The standings of definitions that may not start."""

_HEAD = "# What was granted to which definition: narval grants, narval grant, narval revoke.\n"


def read_grants(home: Path) -> tuple[Mapping[str, Grant] | None, list[Fault]]:
    """The grants of a home, by the names of their tables, or all the faults of the file."""

    def grants(file: TomlFile) -> Mapping[str, Grant]:
        return {name: Grant(**{"by": "", "at": "", **file.read(_READERS, name)}) for name in file.table}

    return outcome(TomlFile.of(home / GRANTS, GRANTS), grants)


def grants_of(home: Path) -> Mapping[str, Grant]:
    """The grants of a home, to be altered. Raises RequestError if the file has faults."""
    grants, faults = read_grants(home)
    if grants is None:
        raise RequestError(f"{GRANTS} has faults; correct them first: {faults[0]}")
    return grants


def write_grants(home: Path, grants: Mapping[str, Grant]) -> None:
    """Write the grants of a home, whole or not at all. Raises OSError."""
    file = home / GRANTS
    file.parent.mkdir(exist_ok=True)
    write_whole(file, text_of_grants(grants))


def text_of_grants(grants: Mapping[str, Grant]) -> str:
    """The text of the file of grants."""
    return "".join((_HEAD, *_tables(grants)))


def _tables(grants: Mapping[str, Grant]) -> Iterator[str]:
    for name in sorted(grants):
        yield f"\n[{quoted(name)}]\n"
        grant = grants[name]
        for key in ("by", "at", "digest"):
            if value := getattr(grant, key):
                yield f"{key} = {quoted(value)}\n"
        if grant.rejected:
            yield "rejected = true\n"
        if grant.everything:
            yield "everything = true\n"
            continue
        for key in ("needs", "sentences"):
            values = "".join(f"  {quoted(value)},\n" for value in getattr(grant, key))
            yield f"{key} = [\n{values}]\n" if values else f"{key} = []\n"


_TEXTS = listed(str, "texts")

_READERS: Mapping[str, Reader] = {
    "by": text, "at": text, "digest": text, "everything": flag, "rejected": flag, "needs": _TEXTS,
    "sentences": _TEXTS,
}  # fmt: skip


# --- definitions that may start -----------------------------------------------------------------------------


def table_of(definition: Definition) -> str:
    """The name of the table of the grant of a definition."""
    return key_of(definition, folder_of(definition.path).rstrip("/"))


class Standing(NamedTuple):
    """A definition of a library, its needs, and whether it may start."""

    definition: RunDefinition
    needs: list[Need]
    decision: Decision

    @property
    def table(self) -> str:
        """The name of the table of its grant."""
        return table_of(self.definition)

    def grant(self, library: Library, by: str, at: float, *, rejected: bool = False) -> Grant:
        """The grant, or with `rejected` the refusal, of its needs at a moment (seconds since 1970)."""
        needs = tuple(need.text for need in self.needs if need.is_outside)
        digest, sentences = digest_of(self.definition, library), told_of(self.definition, library)
        return Grant(by, in_utc(at), needs, digest, sentences, rejected=rejected)


def granted(snapshot: Snapshot, before: Snapshot | None = None) -> Snapshot:
    """The same snapshot with definitions withheld whose needs are not granted, if the home asks; if it no
    longer asks, definitions withheld `before` are released.
    """
    was_asked = before is not None and any(loaded.is_limited for loaded in before.libraries)
    if snapshot.settings.grants != ASK and not was_asked:
        return snapshot
    files = {id(files.loaded): files for files in reversed(list(snapshot.all))}
    return snapshot.with_libraries(lambda loaded: _withholding(loaded, files[id(loaded)], snapshot))


def standings(files: AgentFiles, snapshot: Snapshot, name: str | None = None) -> Iterator[Standing]:
    """The runnable definitions of an agent's files, or the one of a name, and whether each may start."""
    places, library = named_places(files, snapshot.settings), files.loaded.library
    for definition in library:
        if isinstance(definition, RunDefinition) and name in (None, definition.full_name):
            needs = needs_of(definition, library, places)
            yield Standing(definition, needs, _decided(definition, needs, files.loaded, places, snapshot))


def _withholding(loaded: Loaded, files: AgentFiles, snapshot: Snapshot) -> Loaded:
    changed: list[Definition] = []
    for definition, needs, decision in standings(files, snapshot):
        withheld = None
        if decision.standing in WAITING:
            is_rejected = decision.standing == "rejected"
            withheld = Withheld(why_withheld(definition, decision), decision.lacking, is_rejected)
        limits = held_against(needs, decision)
        if (withheld, limits) != (definition.withheld, definition.granted):
            changed.append(msgspec.structs.replace(definition, withheld=withheld, granted=limits))
    library = loaded.library.replace(changed) if changed else loaded.library
    return msgspec.structs.replace(loaded, library=library, is_limited=snapshot.settings.grants == ASK)


def limits_of_earlier(definition: Definition, grants: Mapping[str, Grant]) -> tuple[str, ...] | None:
    """The needs to which calls of a run are limited if its definition is no longer loaded, or has another
    version; None if they may reach anything.
    """
    ships = (definition.kind, definition.full_name) in shipped_definitions()
    return granted_to(definition, grants, folder=folder_of(definition.path).rstrip("/"), ships=ships)


def _decided(
    definition: RunDefinition, needs: list[Need], loaded: Loaded, places: NamedPlaces, snapshot: Snapshot
) -> Decision:
    if snapshot.settings.grants != ASK:
        return Decision("trusted")
    folder, all_reached = folder_of(definition.path), list(reached(definition, loaded.library))
    is_foreign = any(folder_of(one.path).startswith(f"{COLLECTIONS}/") for one in all_reached)
    ships: list[str] | None = None
    if any(need.is_outside for need in needs) and not is_foreign:
        if _are_as_shipped(all_reached, loaded):
            ships = [need.text for need in needs if need.is_outside]
        else:
            ships = _needs_as_shipped(definition, loaded.library, places)
    return decide(
        definition, needs, snapshot.grants, folder=folder.rstrip("/"), is_foreign=is_foreign, ships=ships
    )


def _are_as_shipped(definitions: Iterable[Definition], loaded: Loaded) -> bool:
    """True if these come from shipped modules, or from unchanged shipped files.

    Usually they do; the hundred shipped files are parsed only if not.
    """
    digests = {file.path: file.digest for file in loaded.files if file.error is None}
    return all(
        is_shipped(one.path) or (one.path in digests and digests[one.path] == _digest_as_shipped(one.path))
        for one in definitions
    )


@cache
def _digest_as_shipped(path: str) -> str:
    """The digest of the shipped file of definitions at a path of a home; "" if there is none."""
    is_there = path.startswith(("recipes/", f"{MODULES}/", f"{AGENTS}/"))
    source = read_file(shipped() / path, path) if is_there else None
    return source.digest if isinstance(source, Source) else ""


def _needs_as_shipped(definition: RunDefinition, library: Library, places: NamedPlaces) -> list[str] | None:
    """The needs of the shipped definition of a name; None if there is none."""
    original = shipped_definitions().get((definition.kind, definition.full_name))
    if original is None:
        return None
    beside = [one for one in library if (one.kind, one.full_name) not in shipped_definitions()]
    as_shipped = Library([*shipped_definitions().values(), *beside])
    return [need.text for need in needs_of(original, as_shipped, places) if need.is_outside]


@cache
def shipped_definitions() -> Mapping[tuple[str, str], Definition]:
    """The definitions that ship as files, examples included, by kind and name."""
    definitions: dict[tuple[str, str], Definition] = {}
    folders = (shipped() / "recipes", *(shipped() / AGENTS).glob("*/recipes"))
    for path in sorted(path for folder in folders for path in folder.rglob("*")):
        if not path.is_file() or path.name.startswith("."):
            continue
        source = read_file(path, path.name)
        if not isinstance(source, Fault):
            try:
                parsed = parse_file(source)
            except DefinitionError:
                continue
            definitions.update({(one.kind, one.full_name): one for one in parsed.definitions})
    return definitions


def named_places(files: AgentFiles, settings: Settings) -> NamedPlaces:
    """The places that the owner's own files name for an agent."""
    tables = places_by_table(settings.services)
    if settings.mail is not None:
        host, port = settings.mail.get("host", ""), settings.mail.get("port", "")
        url = f"{host}:{port}" if host and port else host
        tables["mail"] = (ServicePlace(url, settings.mail.get("path", ""), settings.mail.get("secret", "")),)
    if settings.chats:
        tables[CHATS] = tuple(ServicePlace(chat.place, secret=chat.secret) for chat in settings.chats)
    for source in settings.sources.values():
        tables[f"{SOURCES}.{source.name}"] = (ServicePlace(source.url, source.path),)
    return NamedPlaces(written_in(files.owned), tables)
