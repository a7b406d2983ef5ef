"""Library: name to definition; frozen, replaced as a whole (habit 8)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self

import msgspec

from narval.core.definitions.prototype import TransitionCondition
from narval.core.definitions.remote_calls import Addressed, RemoteCall
from narval.core.definitions.suggestions import closest, nearest
from narval.core.definitions.tool import Tool
from narval.core.errors import DefinitionError, Fault

_ACTION = "action"
"""The kind of actions, including tools of MCP servers."""

SET_FIRST = "did not load; correct its faults first"
"""The end of the message for a fault that follows from those of another file."""


class Reference(msgspec.Struct, frozen=True):
    """A place in a definition that names another one, checked once all files are read."""

    kind: str
    """The kind of the target; "" means any."""
    target: str
    """The name of the target."""
    what: str
    """The part that names it, for people."""
    path: str
    """The file of the reference."""
    line: int
    """The line of the reference."""
    column: int
    """The column of the reference."""
    check: Check | None = None
    """The check that finds further faults once the target exists."""
    group: str | None = None
    """The group searched first, since the target may be named without one."""
    others: tuple[str, ...] = ()
    """Words with a meaning of their own that may have been intended."""
    resolve: Resolve | None = None
    """The function that finds faults for a kind with its own names."""
    late: bool = False
    """True if the target is looked up when a run needs it: a missing target is then no fault."""

    def fault(self, message: str) -> Fault:
        """A fault at the place of the reference."""
        return Fault(self.path, self.line, self.column, message)

    def warning(self, message: str) -> Fault:
        """A warning at the place of the reference."""
        return Fault(self.path, self.line, self.column, message, warning=True)


class Definition(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """The common part of definitions of every kind."""

    group: str
    """The file, module or cookbook it belongs to."""
    name: str
    """The name within its group."""
    descriptions: Mapping[str, str] = {}
    """The descriptions, by language."""
    references: tuple[Reference, ...] = ()
    """The places where it names other definitions."""
    digest: str = ""
    """The digest that identifies the version."""
    xml: bytes = b""
    """The definition by itself, as shown in memory and as it can be read again."""
    path: str = ""
    """The file it was read from."""
    line: int = 1
    """The line of the file where it starts."""
    draft: Any = None
    """The definition before composition with others of its library, which is repeated whenever one of them
    changes; else None.
    """
    warnings: tuple[Fault, ...] = ()
    """Faults that are allowed in it but may be unintended."""

    @property
    def kind(self) -> str:
        """The name of its kind: by default its class name in lower case."""
        return type(self).__name__.lower()

    @property
    def full_name(self) -> str:
        """`group.name`, the name that steps and people use."""
        return f"{self.group}.{self.name}"

    def pinned(self) -> Self:
        """The final form of the definition: it is not composed again when others change."""
        return msgspec.structs.replace(self, draft=None)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.full_name} {self.digest[:12]}>"


class OwnNeed(NamedTuple):
    """A need of a definition's part itself, in addition to what it calls: a host, folder, program or secret,
    possibly from a table of the settings, or `anything` for code within the definition. `part` names the part
    for people, on its line of the file.
    """

    what: str
    value: str
    part: str
    line: int


class Withheld(NamedTuple):
    """The reason why no run of a definition may start: needs that are not granted, or were rejected."""

    why: str
    needs: tuple[str, ...]
    is_rejected: bool = False

    def told(self, name: str, option: str) -> str:
        """The reason, and the commands to change it. `name` is the definition's, `option` the command-line
        option for the agent.
        """
        if self.is_rejected:
            return f"{self.why}; to allow it after all: narval grant {name}{option}"
        return f"{self.why}; see: narval grants {name}{option}; allow it: narval grant {name}{option}"


class RunDefinition(Definition, frozen=True, eq=False, kw_only=True):
    """A definition that is run; `decay` is the seconds between its end and its forgetting."""

    decay: float | None = None
    withheld: Withheld | None = None
    """The needs that must be granted before a run may start; None: none."""

    tool: Tool | None = None
    """The way in which programs outside may call it; None: they may not."""

    granted: tuple[str, ...] | None = None
    """The needs that limit what its calls may reach; None: no limit."""

    is_tried_again: ClassVar[bool] = True
    """False if a step runs it only once, however it ends and whatever its `retries` say."""

    outcome_attribute: ClassVar[str] = ""
    """The attribute of its output that names its outcome, if it has several outcomes."""

    def line_of(self, part: str) -> int:
        """The line of the file where a part starts; that of the definition for a part without its own."""
        return self.line

    def fails_with(self, part: str) -> bool:
        """True if a failure of this part certainly fails the run."""
        return False

    @property
    def may_expire(self) -> bool:
        """True if a run may fail although nothing went wrong: it ran out of time (P14)."""
        return False

    @property
    def cannot_start(self) -> tuple[str, str] | None:
        """The reason why no run of it can start, as a stable word and as text; None if one can."""
        return None

    @property
    def cannot_take(self) -> tuple[str, str] | None:
        """The reason why it cannot take an object, as a stable word and as text; None if it can."""
        return None

    @property
    def waits(self) -> Iterator[tuple[str, tuple[TransitionCondition, ...]]]:
        """Its parts that wait for elements, each with its conditions."""
        return iter(())

    @property
    def own_needs(self) -> Iterator[OwnNeed]:
        """The needs of its parts themselves, in addition to what they call."""
        return iter(())

    @property
    def remote_calls(self) -> Iterator[RemoteCall]:
        """Its parts that call definitions of other agents."""
        return iter(())

    @property
    def addressed(self) -> Iterator[Addressed]:
        """The agents that its parts name."""
        return (Addressed(call.agent, call.part, call.line) for call in self.remote_calls)


class ModuleDefinition(Definition, frozen=True, eq=False, kw_only=True):
    """A definition declared by a module: `function` is the name of a Python function or class there.

    A `pure` one touches nothing outside, so that a simulation may call it.
    """

    function: str
    pure: bool = False

    @property
    def key(self) -> str:
        """Its name among the functions and classes of all modules: `mail.send`, `predicate:isPaid`."""
        return self.full_name


Check = Callable[[Definition], Iterable[Fault]]
"""Find the faults of a reference once its target exists."""

Resolve = Callable[["Library"], Iterable[Fault]]
"""Find the faults of a reference in a library."""


class Parsed(NamedTuple):
    """The result of reading a file: its definitions, as far as they could be made, and all its faults.

    `references` are those of the whole file, including definitions with faults; `names` are the kinds and
    full names of all its definitions, made or not.
    """

    definitions: tuple[Definition, ...]
    references: tuple[Reference, ...] = ()
    faults: tuple[Fault, ...] = ()
    names: frozenset[tuple[str, str]] = frozenset()

    def checked(self) -> tuple[Definition, ...]:
        """The definitions of a file without faults. Raises DefinitionError with all faults."""
        if self.faults:
            raise DefinitionError(self.faults)
        return self.definitions


class Library:
    """The current definitions, by kind and name. Never altered: a change makes a new library."""

    __slots__ = ("__weakref__", "_by_kind", "_by_name", "_called", "_listeners", "built", "by_kind_and_name")

    def __init__(self, definitions: Iterable[Definition] = ()) -> None:
        by_kind: dict[str, dict[str, Definition]] = {}
        by_name: dict[str, Definition] = {}
        for definition in definitions:
            by_kind.setdefault(definition.kind, {})[definition.full_name] = definition
            by_name.setdefault(definition.full_name, definition)
        self._by_kind = {kind: MappingProxyType(named) for kind, named in by_kind.items()}
        self.by_kind_and_name = {
            (kind, name): named[name] for kind, named in by_kind.items() for name in named
        }
        self._by_name = by_name
        self._called: dict[str, dict[str, list[Definition]]] = {}
        self._listeners: Mapping[str, int] | None = None
        self.built: dict[Any, Any] = {}  # caches derived from its definitions

    def get(self, kind: str, full_name: str) -> Definition | None:
        """The definition of a kind and full name."""
        return self.by_kind_and_name.get((kind, full_name))

    def find(self, full_name: str) -> Definition | None:
        """The definition of a name, of any kind; the first one read if several kinds share it."""
        return self._by_name.get(full_name)

    def called(self, kind: str, name: str, group: str = "") -> tuple[Definition, ...]:
        """The definitions of a kind that a name may refer to: one for a full name, those of any group for a
        bare name.

        The one in `group` is preferred.
        """
        exact = self.get(kind, name) or self.get(kind, f"{group}.{name}")
        if exact is not None:
            return (exact,)
        if kind not in self._called:
            called: dict[str, list[Definition]] = {}
            for definition in sorted(self.of(kind).values(), key=lambda definition: definition.full_name):
                called.setdefault(definition.name, []).append(definition)
            self._called[kind] = called
        return tuple(self._called[kind].get(name, ()))

    def of(self, kind: str) -> Mapping[str, Definition]:
        """The definitions of a kind, by full name."""
        return self._by_kind.get(kind, MappingProxyType({}))

    @property
    def listeners(self) -> Mapping[str, int]:
        """The listeners to every run, by name: the bits of the events they listen to."""
        if self._listeners is None:
            listeners: Iterable[Any] = self.of("listener").values()
            self._listeners = {listener.name: listener.mask for listener in listeners if listener.everywhere}
        return self._listeners

    def replace(self, definitions: Iterable[Definition], *, without: Iterable[str] = ()) -> Library:
        """A library with these definitions replacing those of the same kind and name.

        Definitions from the files in `without` are left out first.
        """
        dropped = frozenset(without)
        remaining = (definition for definition in self if definition.path not in dropped)
        named = {
            (definition.kind, definition.full_name): definition for definition in (*remaining, *definitions)
        }
        return Library(named.values())

    def __iter__(self) -> Iterator[Definition]:
        for named in self._by_kind.values():
            yield from named.values()

    def __len__(self) -> int:
        return sum(map(len, self._by_kind.values()))


def check_targets(
    references: Iterable[Reference],
    library: Library,
    broken_files: Mapping[tuple[str, str], str] | None = None,
    unloaded: Callable[[str], Collection[str]] = lambda kind: (),
    servers: Container[str] = (),
    written: Callable[[Reference], str] = lambda reference: "",
) -> list[Fault]:
    """The faults of references whose targets are missing or do not fit.

    `broken_files` are files that did not load, by the kind and name of the definitions they should have, or
    by kind and group if no name is known: their faults explain missing targets. `unloaded` gives the names of
    a kind that are loaded only when named, as suggestions; `written` the place of a function that lacks
    @action. Unknown tools of one of the MCP `servers` are reported as one fault.
    """
    faults: list[Fault] = []
    unknown_tools = set[str]()
    for reference in references:
        if reference.resolve is not None:
            wrong = list(reference.resolve(library))
            because = _because(reference, broken_files or {}) if wrong else ""
            faults.extend([reference.fault(because)] if because else wrong)
            continue
        target, several = named_by(reference, library)
        if reference.late and target is None:
            continue
        if several:
            names = " and ".join(definition.full_name for definition in several)
            message = f"{reference.what}: {names} have this name; write the full name of the one you mean"
            faults.append(reference.fault(message))
        elif target is None and (server := _server_without_tools(reference, library, servers)):
            if server not in unknown_tools:
                why = f"[mcp.{server}] is there, its tools are not known: narval mcp tools {server}"
                faults.append(reference.fault(why))
            unknown_tools.add(server)
        elif target is None:
            unknown = _unknown(reference, library, broken_files or {}, unloaded, written)
            faults.append(reference.fault(unknown))
        elif target is not None and reference.check is not None:
            faults.extend(reference.check(target))
    return faults


def _server_without_tools(reference: Reference, library: Library, servers: Container[str]) -> str:
    """The MCP server of a reference to a tool, if none of its tools is known; "" otherwise."""
    group = reference.target.partition(".")[0]
    if reference.kind not in ("", _ACTION) or group not in servers:
        return ""
    return "" if any(name.startswith(f"{group}.") for name in library.of(_ACTION)) else group


def _because(reference: Reference, broken_files: Mapping[tuple[str, str], str]) -> str:
    """The message that a target is missing because its file did not load; "" if there is another reason."""
    kind, target = reference.kind, reference.target
    for (of, name), path in broken_files.items():
        if of == kind and name.partition(".")[2] == target:
            return f"there is no {kind} {target!r}, because {path} {SET_FIRST}"
    return ""


def named_by(reference: Reference, library: Library) -> tuple[Definition | None, tuple[Definition, ...]]:
    """The definition that a reference names; or all candidates, if there are several."""
    if not reference.kind:
        return library.find(reference.target), ()
    if reference.group is None:
        return library.get(reference.kind, reference.target), ()
    called = library.called(reference.kind, reference.target, reference.group)
    return (called[0] if len(called) == 1 else None), (called if len(called) > 1 else ())


def _unknown(
    reference: Reference,
    library: Library,
    broken_files: Mapping[tuple[str, str], str],
    unloaded: Callable[[str], Collection[str]],
    written: Callable[[Reference], str],
) -> str:
    kind, target = reference.kind, reference.target
    missing = f"{reference.what}: there is no {kind or 'definition'} {target!r}"
    if place := written(reference):
        return f"{missing}; {place} has a function of that name: put @action() before it"
    group = target.partition(".")[0]
    names = library.of(kind) if kind else {each.full_name: each for each in library}
    broken = broken_files.get((kind, target))
    if reference.group is not None and "." not in target:
        names = {definition.name: definition for definition in names.values()}
        bare = {name.partition(".")[2]: path for (of, name), path in broken_files.items() if of == kind}
        broken = broken or bare.get(target)
    if broken is None and not (nearest(target, names) or "").startswith(f"{group}."):
        broken = broken_files.get((kind, group))
    if broken is not None:
        return f"{missing}, because {broken} {SET_FIRST}"
    if (other := library.find(target)) is not None:
        return f"{missing}; to call the {other.kind} of that name, write type={other.kind!r}"
    others = unloaded(kind)
    if target in others:
        return f"{missing}; it ships, but a module of the home has taken its place: narval diff {group}"
    there = [*reference.others, *names]
    meant = nearest(target, there) or nearest(target, others)
    if meant is None and not there:
        return f"{missing}; no {kind} is loaded"
    return missing + closest(target, there if meant is None else (meant,))
