"""The needs of a definition: what it and everything it can call may reach, determined without a run; and
which actions may write files and read them, according to their needs.

A file that narval wrote keeps the labels of its contents, for when it is read again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from narval.core.definitions.action.definition import Action
from narval.core.definitions.action.needs import HOME, NOTHING, REFERENCE, Needs, ServicePlace, table_of
from narval.core.definitions.library import Definition, Library, ModuleDefinition, RunDefinition, named_by
from narval.core.definitions.prototype import Prototype
from narval.core.elements.element import local_name, parse
from narval.core.elements.names import QUIT, START_PLAN, TARGET, TASK, TASK_OBJECT
from narval.core.memory.labels import FILE
from narval.core.trust.covering import ANYTHING, normal

if TYPE_CHECKING:
    from lxml import etree

OUTSIDE = ("host", "folder", "program", "secret", "agent", ANYTHING)
"""The types of granted needs, in display order."""

INSIDE = ("start", "read", "add")
"""The types shown beside them: definitions it starts, names of elements it reads and adds."""

MADE = ("start", "add")
"""The types of `INSIDE` that limit what a call may return."""

STARTS = {"start": TARGET, START_PLAN: TARGET, local_name(TASK_OBJECT) or "": TASK}
"""The elements that start runs, by name, and the attribute that names the definition."""

ANY = "any"
"""The word for a definition that is not known before a run starts."""

_PORTS = {"http": "80", "https": "443"}
_URL = re.compile(
    r"(?P<scheme>\w+)://(?:[^/?#@]*@)?(?P<host>\[[^\]]*\]|[^/?#:]*)(?::(?P<port>\d+))?(?=[/?#:]|$)"
)
_NAME = re.compile(r"[A-Za-z_][\w.-]*")

Attributes = Mapping[str, str]

Written = Mapping[str, tuple[Attributes, ...]]
"""The attributes of elements in a text, by element name."""


class Need(msgspec.Struct, frozen=True, order=True):
    """One thing that a definition needs, and the part that needs it."""

    what: str
    """A type from `OUTSIDE` or `INSIDE`."""
    value: str
    """The host, folder, program, secret, agent, definition or name; "" for code that declares nothing."""
    by: str = ""
    """The code that declares it; "" for a need of the definition itself."""
    part: str = ""
    """The part of the definition that calls the code."""
    path: str = ""
    """The file of that part."""
    line: int = 1
    """The line of the part."""
    is_named: bool = False
    """True for a folder named by the owner's memory file or settings."""

    @property
    def text(self) -> str:
        """The need in the form of a grant: `host smtp.example.org:587`."""
        return f"{self.what} {self.value}" if self.value else self.what

    @property
    def is_outside(self) -> bool:
        """True if it reaches outside the home: a folder does unless it is below `data/`, is a file directly
        in the home, or is named by the owner's files.
        """
        if self.what == "folder":
            return not (self.is_named or _is_within(self.value.rpartition(" ")[0]))
        return self.what in OUTSIDE


class NamedPlaces(msgspec.Struct, frozen=True):
    """The places that the owner's files name.

    `declared` are the attributes of the elements of `data/memory.xml`, by name; `services` are the places in
    the settings, by table.
    """

    declared: Written = {}
    services: Mapping[str, tuple[ServicePlace, ...]] = {}


def needs_of(definition: Definition, library: Library, places: NamedPlaces) -> list[Need]:
    """Everything a definition needs, for itself and for everything it can call."""
    needs: dict[tuple[str, str], Need] = {}
    queue = [definition]
    for one in queue:
        written = written_by(one)
        for need in _of_one(one, library, places, written):
            of = "" if one is definition else f" of {one.kind} {one.full_name}"
            placed = msgspec.structs.replace(need, part=need.part + of, path=need.path or one.path)
            needs.setdefault((need.what, need.value), placed)
        for reference in one.references:
            target, several = named_by(reference, library)
            called = [*several, *([target] if target is not None else [])]
            queue += (
                other for other in called if not isinstance(other, ModuleDefinition) and other not in queue
            )
    order = {what: at for at, what in enumerate((*OUTSIDE, *INSIDE))}
    return sorted(needs.values(), key=lambda need: (order[need.what], need.value))


def made_by(definition: Definition, library: Library) -> tuple[str, ...]:
    """The needs for what a definition's calls are declared to return, as texts."""
    return tuple(need.text for need in needs_of(definition, library, NamedPlaces()) if need.what in MADE)


def written_in(elements: Iterable[bytes]) -> dict[str, tuple[Attributes, ...]]:
    """The attributes of elements, and of their children, by name."""
    return _attributes(node for root in map(parse, elements) for node in (root, *root.iterchildren("{*}*")))


def written_by(definition: Definition) -> Written:
    """The attributes of all elements in the text of a definition, by name, including its arguments."""
    if isinstance(definition, ModuleDefinition) or not definition.xml:
        return {}
    return _written_in_xml(definition.xml)


@lru_cache(maxsize=512)
def _written_in_xml(xml: bytes) -> Written:
    """The attributes of all elements in a text; cached, since a start asks for them several times."""
    return _attributes(parse(xml).iter("{*}*"))


def needs_of_call(needs: Needs, inputs: Written, places: NamedPlaces) -> list[Need]:
    """The needs of a call of code with input elements that have these attributes, by name."""
    return list(_resolved(needs, "", "", 1, inputs, msgspec.structs.replace(places, declared={})))


# --- one definition -----------------------------------------------------------------------------------------


def _of_one(one: Definition, library: Library, places: NamedPlaces, written: Written) -> Iterator[Need]:
    """The needs of one definition, and of the code that it calls."""
    if isinstance(one, RunDefinition):
        for own in one.own_needs:
            is_place = own.what in ("host", "folder")  # a program may have the name of a table
            for value, is_named in (
                _values(own.what, own.value, {}, places) if is_place else [(own.value, False)]
            ):
                yield Need(own.what, value, "", own.part, "", own.line, is_named)
        for addressed in one.addressed:
            yield Need("agent", addressed.agent, "", addressed.part, "", addressed.line)
    if isinstance(one, ModuleDefinition):
        yield from _of_code(one, one.full_name, one.line, places, written)
    for word, attribute in STARTS.items():
        for attributes in written.get(word, ()):
            yield Need("start", attributes.get(attribute, ANY), "", one.full_name, "", one.line)
    if QUIT in written:
        yield Need("add", QUIT, "", one.full_name, "", one.line)
    for reference in one.references:
        target, _ = named_by(reference, library)
        if isinstance(target, ModuleDefinition):
            part = reference.what.partition(":")[0]
            yield from _of_code(target, part, reference.line, places, written)
            undoing = library.get(Action.kind, target.undo) if isinstance(target, Action) else None
            if isinstance(undoing, Action):
                yield from _of_code(undoing, f"undo of {part}", reference.line, places, written)


def _of_code(
    code: ModuleDefinition, part: str, line: int, places: NamedPlaces, written: Written
) -> Iterator[Need]:
    needs = code.needs if isinstance(code, Action) else NOTHING if code.pure else None
    if needs is None:
        yield Need(ANYTHING, "", code.full_name, part, "", line)
    else:
        yield from _resolved(needs, code.full_name, part, line, written, places)
    prototype = getattr(code, "prototype", None)
    if isinstance(prototype, Prototype):
        for what, slots in (("read", prototype.inputs), ("add", prototype.outputs)):
            for slot in slots:
                yield Need(what, _name_of(slot.match), code.full_name, part, "", line)
        names = {_name_of(slot.match) for slot in prototype.outputs}
        if not names.isdisjoint(STARTS) and written.keys().isdisjoint(STARTS):
            yield Need("start", ANY, code.full_name, part, "", line)


def _name_of(match: tuple[str, ...]) -> str:
    """The name of the elements that match a pattern; * if it names none."""
    name = _NAME.match(match[0]) if match else None
    return name[0] if name is not None else "*"


def _attributes(nodes: Iterable[etree._Element]) -> dict[str, tuple[Attributes, ...]]:
    """The attributes of elements, by name, and also by parent name and name."""
    by_name: dict[str, list[Attributes]] = {}
    for node in nodes:
        name, parent = local_name(node.tag) or "", node.getparent()
        names = [name] if parent is None else [name, f"{local_name(parent.tag)}/{name}"]
        for each in names:
            by_name.setdefault(each, []).append({str(key): str(value) for key, value in node.attrib.items()})
    return {name: tuple(attributes) for name, attributes in by_name.items()}


# --- values -------------------------------------------------------------------------------------------------


def _resolved(
    needs: Needs,
    by: str,
    part: str,
    line: int,
    written: Written,
    places: NamedPlaces,
) -> Iterator[Need]:
    """The declared needs of code, with values from the definition or the owner's files filled in."""
    for list_name, value in needs.all:
        what = list_name.removesuffix("s")
        for resolved, is_named in _values(what, value, written, places):
            yield Need(what, resolved, by, part, "", line, is_named)


def _values(what: str, value: str, written: Written, places: NamedPlaces) -> Iterator[tuple[str, bool]]:
    """The concrete values of a declared need; True for each that the owner's files name."""
    table = table_of(value)
    if table == HOME:
        yield f"data {value.rpartition(' ')[2]}", True
        return
    if table:
        for place in places.services.get(table, ()):
            yield from ((named, True) for named in _of_service(what, value, place))
        return
    written_at = REFERENCE.search(value)
    if written_at is None:
        yield value, False
        return
    name, attribute = written_at[1], written_at[2]
    outer, is_named = name.partition("/")[0], False
    elements = written.get(name, ())
    if outer not in written:
        elements, is_named = places.declared.get(name, ()), True
        if outer not in places.declared:
            yield value, False  # found by rank in memory at the time of the call
    for one in elements:
        if attribute in one:
            yield _filled(what, value, one), is_named and "{" not in one[attribute]


def _filled(what: str, value: str, attributes: Attributes) -> str:
    """A declared value, with the attributes of one element filled in."""
    filled = REFERENCE.sub(lambda place: attributes.get(place[2], ""), value)
    if any("{" in attributes.get(place[2], "") for place in REFERENCE.finditer(value)):
        return value  # computed at the time of the call
    if what == "program":
        return filled.split()[0] if filled.split() else filled
    return host_of(filled) if what == "host" else filled


def host_of(text: str) -> str:
    """The host and port of a text that is a host or a URL."""
    url = _URL.match(text)
    if url is None:
        return text.removesuffix(":").lower()
    port = url["port"] or _PORTS.get(url["scheme"].lower(), "")
    return f"{url['host'].lower()}:{port}" if port else url["host"].lower()


def _of_service(what: str, value: str, place: ServicePlace) -> Iterator[str]:
    if what == "host" and place.url:
        yield host_of(place.url)
    elif what == "folder" and place.path:
        yield f"{place.path} {value.rpartition(' ')[2]}"
    elif what == "secret" and place.secret:
        yield place.secret
    elif what == "program" and place.program:
        yield place.program


def _is_within(path: str) -> bool:
    """True for a path below `data/`, or a file directly in the home."""
    if not path or path.startswith(("/", "~", "{")):
        return False
    first, *rest = normal(path).split("/")
    return first not in ("..", "") and (first == "data" or (not rest and "." in first))


# --- files ------------------------------------------------------------------------------------------------


def may_write(action: Action) -> bool:
    """True if an action may write files: it acts outside memory, and declares no needs, or a folder."""
    needs = action.needs
    return action.outside and (needs is None or any(folder.endswith(" rw") for folder in needs.folders))


def may_read(action: Action) -> bool:
    """True if an action may return file contents: it brings something in that is labelled as a file or must
    have a path, or it declares no needs.
    """
    if not (action.label or action.model):
        return False
    return action.label == FILE or gives_paths(action) or action.needs is None


def may_copy(action: Action) -> bool:
    """True if an action may copy one file into another and report it: it returns paths, and needs the folders
    of two elements that name files, or declares no needs.
    """
    needs = action.needs
    is_able = needs is None or sum("/@folder}" in folder for folder in needs.folders) > 1
    return may_write(action) and gives_paths(action) and is_able


def may_be_closed(attributes: Mapping[str, str | None]) -> bool:
    """True if a file may be in a closed part of the home, by the known attributes of the element that names
    it: such an element names its `folder`.
    """
    return attributes.get("folder", "") != ""


def gives_paths(action: Action) -> bool:
    """True if an output of an action must have a path."""
    return any("@path" in text for output in action.prototype.outputs for text in output.match)
