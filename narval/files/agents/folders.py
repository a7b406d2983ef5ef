"""Agents' folders: `agents/NAME/` in a home, each with the files of one more agent (G2).

Many folders can be made from a template, `agents/TEMPLATE.toml`:

    name = "desk-{number}"                  the name of each
    memory = ["<desk city='{city}'/>"]      the elements that it begins with

    [defaults]
    city = "Rome"                           the optional parameters

    [agent]                                 its settings, as in agent.toml
    collections = ["office", "own"]

A word in braces is a parameter; `number` is the counter. Values are inserted into texts, never into TOML
or XML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from narval.core.agent_name import agent_name
from narval.core.definitions.library import Library
from narval.core.definitions.suggestions import nearest
from narval.core.errors import Fault, NotFoundError, RequestError, SurroundingsError
from narval.core.source.text import Source
from narval.files import toml
from narval.files.agents.collections import AGENTS
from narval.files.agents.settings import (
    AGENT_FILE,
    COLLECTIONS,
    HOME_COLLECTION,
    OWN,
    AgentSettings,
    CollectionsOf,
    parse_agent_file,
    parse_stored_settings,
)
from narval.files.found_files import MODULES, RECIPES, Note, ignored, is_ours, names_in
from narval.files.toml import quoted
from narval.system.regular_file import is_folder


def folder_names(home: Path, note: Note = ignored) -> list[str]:
    """The names of the folders in `agents/`, including invalid names of agents."""
    names = names_in(home / AGENTS, note)
    return [name for name in names if is_ours(name) and is_folder(home / AGENTS / name)]


def make_folder(home: Path, name: str, text: str) -> None:
    """Make the folder of an agent with these settings.

    Raises RequestError if that is not allowed, SurroundingsError if the folder cannot be written.
    """
    relative = f"{AGENTS}/{name}"
    try:
        agent_name(name)
    except ValueError as error:
        raise RequestError(f"expected {error}, got {name!r:.80}") from None
    _, faults = parse_agent_file(Source(AGENT_FILE, text.encode()), CollectionsOf(home))
    if faults:
        raise RequestError(faults[0].message)
    try:
        (home / relative).mkdir(parents=True)
        (home / relative / AGENT_FILE).write_text(text, "utf-8")
    except FileExistsError:
        raise RequestError(f"there is a folder {relative} already") from None
    except OSError as error:
        raise SurroundingsError(f"expected to make the folder {relative}: {error}") from error


def collections_text(collections: list[str]) -> str:
    """The settings of an agent that follows these collections, and its own definitions."""
    return f"collections = [{', '.join(map(quoted, [*collections, OWN]))}]\n"


def settings_without_effect(home: Path, stored: Mapping[str, str]) -> list[Fault]:
    """The faults of settings, given as texts by name, that the store has for agents without a folder while no
    other daemon shares the store: they have no effect there, and what they name may be missing.
    """
    faults = []
    for name in sorted(stored.keys() - {*folder_names(home)}):
        settings, _ = parse_stored_settings(stored[name])
        names = (settings or {}).get("collections", ())
        folders = CollectionsOf(home)
        missing = [one for one in names if one not in (HOME_COLLECTION, OWN) and one not in folders]
        text = f"{name} has settings that count only in a store on PostgreSQL ({stored[name].strip()})"
        copy = ", ".join(f"{COLLECTIONS}/{one}/" for one in missing)
        missed = f", and copy {copy} from a home that has it" if missing else ""
        place = f"{AGENTS}/{name}/{AGENT_FILE}"
        faults.append(Fault(place, 1, 1, f"{text}: write them into this file{missed}"))
    return faults


def too_many_definitions(library: Library, settings: AgentSettings, place: str) -> list[Fault]:
    """The fault of an agent that follows more definitions than allowed (G16), in its settings file."""
    count, most = len(library), settings.definitions
    if count <= most:
        return []
    excess = (
        f"over-limit: expected at most {most:,} definitions, found {count:,}, which are loaded all the same"
    )
    where = "definitions" if place.endswith(AGENT_FILE) else "definitions below [agent]"
    return [Fault(place, 1, 1, f"{excess}; follow fewer collections, or set {where} higher")]


def paths_of(
    home: Path, settings: AgentSettings, name: str = "", home_collection: str = ""
) -> tuple[str, ...]:
    """The collections that an agent follows, by their paths in the home; without a name, those of the home's
    own agent.

    `home_collection` is the path of the collection that replaces the home's.
    """
    return tuple(_paths(home, settings, f"{AGENTS}/{name}/" if name else "", home_collection))


def _paths(home: Path, settings: AgentSettings, own: str, home_collection: str) -> Iterator[str]:
    for collection in settings.collections:
        if collection == HOME_COLLECTION:
            yield home_collection
        elif collection != OWN:
            yield f"{COLLECTIONS}/{collection}/"
        elif own and any(is_folder(home / own / part) for part in (RECIPES, MODULES)):
            yield own


# --- templates ------------------------------------------------------------------------------------------

NUMBER = "number"
"""The parameter with the counter."""

_PARAMETER = re.compile(r"\{([a-z][a-z0-9_-]{0,62})\}")
_QUOTES = {"'": "&apos;", '"': "&quot;"}

_name = toml.fitting(bool, 'a text such as "desk-{number}"')
_MEMORY = toml.listed(str, "elements, such as [\"<desk city='{city}'/>\"]")


def _defaults(value: object) -> Mapping[str, str]:
    if not isinstance(value, dict) or not all(isinstance(one, str | int | float) for one in value.values()):
        raise ValueError("a table of texts and numbers")
    return {name: str(one) for name, one in value.items()}


def _agent(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("a table, as agent.toml would have it")
    return value


class NewAgent(NamedTuple):
    """An agent to be made: its number and name, its settings as a text ("" if none), its first elements."""

    number: int
    name: str
    settings: str
    elements: list[bytes]


class AgentTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """A template of agents."""

    shown: str
    """The file, for people."""
    name: Annotated[str, _name]
    """The name of each, with a parameter in it."""
    memory: Annotated[tuple[str, ...], _MEMORY] = ()
    """The first elements of each."""
    defaults: Annotated[Mapping[str, str], _defaults] = {}
    """The optional parameters, with their values."""
    agent: Annotated[Mapping[str, Any], _agent] = {}
    """The settings of each."""

    @property
    def parameters(self) -> list[str]:
        """The parameters in order of appearance, without the number."""
        texts = (self.name, *self.memory, *_texts(self.agent))
        names = (name for text in texts for name in _PARAMETER.findall(text))
        return [name for name in dict.fromkeys(names) if name != NUMBER]

    def check(self, values: Mapping[str, str]) -> None:
        """Raise RequestError unless values are those of its parameters."""
        for name in values:
            if name not in self.parameters:
                there = ", ".join(self.parameters) or "none but number"
                meant = f"; did you mean {near!r}?" if (near := nearest(name, self.parameters)) else ""
                raise RequestError(f"{self.shown} has no parameter {name!r:.80}, but {there}{meant}")
        lacking = [name for name in self.parameters if name not in values and name not in self.defaults]
        if lacking:
            raise RequestError(f"{self.shown} needs a value of {', '.join(lacking)}, or one in [defaults]")

    def filled(self, number: int, row: Mapping[str, str]) -> NewAgent:
        """The agent of a number, with checked values. Raises RequestError for an invalid name."""
        from xml.sax.saxutils import escape  # here: it imports much, and a home may have no template

        values = {**self.defaults, **row, NUMBER: str(number)}
        name = _filled(self.name, values)
        try:
            agent_name(name)
        except ValueError as error:
            raise RequestError(f"{self.shown}: name: expected {error}, got {name!r:.80}") from None
        quoted = {key: escape(value, _QUOTES) for key, value in values.items()}
        elements = [_filled(text, quoted).encode("utf-8", "surrogatepass") for text in self.memory]
        settings = {key: _filled_within(value, values) for key, value in self.agent.items()}
        return NewAgent(number, name, "".join(_lines(settings)), elements)


def parse_template(file: toml.TomlFile) -> AgentTemplate | None:
    """The template in a text of TOML; faults are noted there."""
    values = file.read(AgentTemplate)
    if not file.faults and "name" not in values:
        file.note((), 'expected name = "…", what each agent is called, with {number} or another parameter')
    if not file.faults and not _PARAMETER.search(values["name"]):
        file.note(("name",), "name: expected a parameter in it, such as {number}", of_value=True)
    return None if file.faults else AgentTemplate(shown=file.shown, **values)


def template_names(home: Path) -> list[str]:
    """The names of the templates of a home."""
    files = (path for path in (home / AGENTS).glob("*.toml") if is_ours(path.name) and path.is_file())
    return sorted(path.stem for path in files)


def read_template(home: Path, name: str) -> AgentTemplate:
    """The template of a name. Raises RequestError if there is none, or it has faults."""
    names, path = template_names(home), f"{AGENTS}/{name}.toml"
    if name not in names:
        there = f"there are {', '.join(names)}" if names else f"write {path}"
        raise NotFoundError(f"there is no template {name!r:.80} of agents; {there}")
    template = parse_template(file := toml.TomlFile.of(home / path, path))
    if template is None:
        raise RequestError("; ".join(f"{fault.path}:{fault.line}: {fault.message}" for fault in file.faults))
    return template


def faults_of_templates(home: Path) -> list[Fault]:
    """The faults of the templates of a home."""
    faults: list[Fault] = []
    for name in template_names(home):
        path = f"{AGENTS}/{name}.toml"
        parse_template(file := toml.TomlFile.of(home / path, path))
        faults += file.faults
    return faults


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _PARAMETER.sub(lambda match: values.get(match[1], match[0]), text)


def _filled_within(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _filled(value, values)
    if isinstance(value, list):
        return [_filled_within(one, values) for one in value]
    return (
        {key: _filled_within(one, values) for key, one in value.items()} if isinstance(value, dict) else value
    )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


def _lines(settings: Mapping[str, Any]) -> Iterator[str]:
    """The lines of an agent.toml with these settings."""
    for key, value in settings.items():
        yield f"{toml.quoted(key)} = {_value(value)}\n"


def _value(value: Any) -> str:
    """A value as TOML."""
    if isinstance(value, str):
        return toml.quoted(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{toml.quoted(key)} = {_value(one)}' for key, one in value.items())}}}"
    return str(value)
