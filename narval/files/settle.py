"""Settle: chooses the active version of each file of some collections, since a fault in one file can
invalidate another (N13).

A file is good as a whole or not at all, and so is a module that is a folder. For a file with faults the last
good version stays active: the former one, else the one in the store, else, for a module, the shipped one. All
faults are found at once, those within files first, then those of references between them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import is_
from pathlib import Path

from narval.core.definitions.action.definition import Action
from narval.core.definitions.library import Definition, Library, Parsed, Reference, check_targets
from narval.core.definitions.parsing import compose, parse
from narval.core.errors import DefinitionError, Fault
from narval.core.kinds import KINDS
from narval.core.patterns.pattern import Condition
from narval.core.source.text import Source
from narval.files.agents.collections import Collection, Stored, folder_of, joined, nothing_stored
from narval.files.loaded import FileState, GoodVersion, Loaded
from narval.files.modules import Imported
from narval.files.shipped import is_shipped, shipped_modules, unloaded
from narval.system.regular_file import unexpected

LastGood = Callable[[str], tuple[Definition, ...]]
"""A function that returns the definitions of the last good version of a file."""


def settle(
    old: Loaded,
    new: Sequence[Collection],
    now: float,
    stored: Stored = nothing_stored,
    servers: frozenset[str] = frozenset(),
) -> Loaded:
    """The library of some collections together, with the active version of each of their files; `old` itself
    if none of them has changed.

    `old` is the former library, `stored` has still earlier versions; both provide versions for faulty files.
    `servers` are the MCP servers of the settings.
    """
    if old.collections and old.servers == servers and all(map(is_, old.collections, new)):
        return old
    read = {path: parsed for collection in new for path, parsed in collection.parsed.items()}
    good = dict(old.good)

    def last_good(path: str) -> tuple[Definition, ...]:
        if path not in good and (definitions := _parsed(path, stored(path))):
            good[path] = GoodVersion(definitions, now)
        return good[path].definitions if path in good else ()

    settlement, imported = _settle(old, read, joined(new), last_good, servers)
    modules = {text.path: text for collection in new for text in collection.files.modules}
    paths = {*read, *modules, *(module.text.path for module in imported.modules.values())}
    for path, version in _good(imported, read, settlement, now):
        if path not in good or good[path].digests != version.digests:
            good[path] = version
    of_files = {fault for text in modules.values() for fault in text.faults}
    faults = sorted(of_files.union(settlement.all_faults()))
    errors = {fault.path: str(fault) for fault in reversed(faults)}
    loaded = Loaded(
        settlement.library,
        faults=tuple(faults),
        files=tuple(
            FileState(place, digest, good[path].loaded if path in good else None, errors.get(place))
            for path, place, digest in _files(new, imported)
        ),
        broken=settlement.broken_files(),
        collections=tuple(new),
        good={path: version for path, version in good.items() if path in paths},
        kept=old.kept,
        servers=servers,
    )
    return loaded.with_modules(imported.modules.values())


def _parsed(path: str, versions: Iterable[bytes]) -> tuple[Definition, ...]:
    """The definitions of a file in the store, without those that can no longer be read."""
    definitions = list[Definition]()
    for data in versions:
        with suppress(DefinitionError):
            definitions += parse(Source(path, data)).definitions[:1]
    return tuple(definitions)


def _settle(
    old: Loaded,
    read: Mapping[str, Parsed],
    imported: Imported,
    last_good: LastGood,
    servers: frozenset[str],
) -> tuple[_Settlement, Imported]:
    """Settle the good files, with the named shipped modules of which the home has no good version."""
    ships, tried = shipped_modules(), frozenset(imported.modules)
    names = old.kept | ships.named(each for parsed in read.values() for each in parsed.references)
    while True:
        imported, tried = ships.load(names - tried).joined(imported), tried | names
        settlement = _Settlement(imported, read, last_good, old.library, servers)
        names = ships.named(settlement.undoing)
        if not settlement.faults and names <= tried:
            return settlement, imported
        # last good versions may name what their files no longer name
        names |= ships.named(
            reference for definition in settlement.library for reference in definition.references
        )
        if names <= tried:
            return settlement, imported


class _Settlement:
    """The library of all good files, and of the last good versions of the others.

    `read` are files by path, `before` is the library of the last settlement. `faults` has the bad files.
    """

    def __init__(
        self,
        imported: Imported,
        read: Mapping[str, Parsed],
        last_good: LastGood,
        before: Library,
        servers: frozenset[str],
    ) -> None:
        self._read, self._last_good, self._before, self._servers = read, last_good, before, servers
        self._modules = imported.modules
        self._code = [declared for module in imported.modules.values() for declared in module.found]
        self._module_faults = imported.faults
        self.faults: dict[str, list[Fault]] = {
            path: list(parsed.faults) for path, parsed in read.items() if parsed.faults
        }
        self._told: list[Fault] = []
        """The faults of files that are good nevertheless."""
        self.undoing = [*self._undoing()]
        """The names of the actions that undo calls of other actions."""
        self.library = self._settle()
        broken = self.broken_files()
        for reference in self.undoing:
            self._told += self._checked(reference.path, [reference], self.library, broken)

    def all_faults(self) -> Iterable[Fault]:
        """The faults of modules and of definitions."""
        groups = (*self._module_faults.values(), *self.faults.values(), self._told)
        return [fault for faults in groups for fault in faults]

    def _settle(self) -> Library:
        self._refuse_doubles()
        own = set(self.faults)
        while True:
            library, misfits = self._composed()
            broken = self.broken_files()
            new = {
                path: [
                    *self._checked(path, parsed.references, library, broken),
                    *(fault for fault in misfits if fault.path == path),
                ]
                for path, parsed in self._read.items()
                if path not in self.faults
            }
            if not any(new.values()):
                break
            self.faults.update({path: faults for path, faults in new.items() if faults})
        broken = self.broken_files()
        for path in own:
            parsed = self._read[path]
            seen = library.replace(parsed.definitions)
            # a faulty definition of this very file is reported already
            references = [
                reference
                for reference in parsed.references
                if (reference.kind, reference.target) not in parsed.names
                or seen.get(reference.kind, reference.target) is not None
            ]
            self.faults[path] += self._checked(path, references, seen, broken)
        return _reuse(library, self._before)

    def _undoing(self) -> Iterator[Reference]:
        for module in self._modules.values():
            for action in module.found:
                if isinstance(action, Action) and action.undo:
                    line, column = module.text.place_before(action.path, action.line, action.undo)
                    what, check = f"undo of {action.full_name}", partial(_cannot_undo, action, line, column)
                    yield Reference(Action.kind, action.undo, what, action.path, line, column, check)

    def _checked(
        self,
        path: str,
        references: Iterable[Reference],
        library: Library,
        broken: Mapping[tuple[str, str], str],
    ) -> list[Fault]:
        """The faults in references of a file."""
        try:
            return check_targets(references, library, broken, unloaded, self._servers, self._written)
        except Exception as error:
            return [unexpected(path, error)]

    def _written(self, reference: Reference) -> str:
        """The place of the function that a reference to an action names; "" if there is none."""
        group, _, name = reference.target.partition(".")
        module = self._modules.get(group) if reference.kind in ("", "action") else None
        return module.text.place_of(name) if module is not None else ""

    def _composed(self) -> tuple[Library, list[Fault]]:
        """The library with definitions composed of others; a file for which that fails is left out."""
        while True:
            try:
                return compose(self._incomplete())
            except Exception as error:
                path = self._first_failing()
                if path is None:
                    raise
                self.faults[path] = [unexpected(path, error)]

    def _first_failing(self) -> str | None:
        """The first file after which the files so far can no longer be composed."""
        without = [path for path in self._read if path not in self.faults]
        while without:
            path = without.pop(0)
            try:
                compose(self._incomplete(without))
            except Exception:
                return path
        return None

    def _incomplete(self, without: Container[str] = ()) -> Library:
        """Everything that is left, except some files, as written."""
        definitions: list[Definition] = list(self._code)
        for path, parsed in self._read.items():
            if path not in without:
                definitions += self._last_good(path) if path in self.faults else parsed.definitions
        return Library(definitions)

    def broken_files(self) -> dict[tuple[str, str], str]:
        """The files that did not load, by what they should define: names, or a group if no name is known."""
        broken = {("action", stem): faults[0].path for stem, faults in self._module_faults.items()}
        for path in self.faults:
            group = Path(path).stem.partition(".")[0]  # the group that such a file probably has
            named = self._read[path].names or {(kind, group) for kind in KINDS if KINDS[kind].suffixes}
            broken.update((name, path) for name in named)
        return broken

    def _refuse_doubles(self) -> None:
        """Give a name that two files use for definitions of one kind only to the first of them.

        If they are in two collections, both get a fault.
        """
        first: dict[tuple[str, str], Definition] = {}
        for path, parsed in self._read.items():
            for definition in parsed.definitions:
                other = first.setdefault((definition.kind, definition.full_name), definition)
                if other.path != path:
                    faults = self.faults.setdefault(path, list(parsed.faults))
                    faults.append(_again(definition, other))
                    if folder_of(path) != folder_of(other.path):
                        self._told.append(_again(other, definition))


def _cannot_undo(action: Action, line: int, column: int, undo: Action) -> list[Fault]:
    """The faults of an action that is to undo the calls of another, but cannot be given what it needs."""
    here = [slot.condition for slot in action.prototype.inputs]
    here += [slot.condition for slot in action.prototype.outputs]
    wish = f"undo of {action.full_name}: expected {undo.full_name} to take what the call was given and gave"
    but = "which nothing there fits"
    return [
        Fault(
            action.path, line, column, f"{wish}, found its input {needed.id} ({needed.condition.text}), {but}"
        )
        for needed in undo.prototype.inputs
        if not needed.optional and not any(_may_share(needed.condition, one) for one in here)
    ]


def _may_share(one: Condition, other: Condition) -> bool:
    """True if, judging by its name, an element may satisfy both."""
    return one.names is None or other.names is None or not one.names.isdisjoint(other.names)


def _again(definition: Definition, other: Definition) -> Fault:
    what = f"{definition.kind} {definition.full_name}"
    message = f"expected a new name, found the {what} of {other.path} again; give one another group"
    return Fault(definition.path, definition.line, 1, message)


def _reuse(library: Library, before: Library) -> Library:
    """The same, with the former definitions where composing would yield the same again."""
    same = [
        earlier
        for definition in library
        if definition.draft is not None
        and (earlier := before.get(definition.kind, definition.full_name)) is not None
        and earlier.draft is definition.draft
        and earlier.digest == definition.digest
    ]
    return library.replace(same) if same else library


def _files(collections: Sequence[Collection], imported: Imported) -> Iterator[tuple[str, str, str]]:
    """The paths and digests of the effective files, each with the path of the whole that it belongs to."""
    for collection in collections:
        yield from ((source.path, source.path, source.digest) for source in collection.files.sources)
        yield from ((fault.path, fault.path, "") for fault in collection.files.faults)
    modules = [text for collection in collections for text in collection.files.modules]
    borrowed = (imported.modules[group].text for group in sorted(imported.modules))
    for text in (*modules, *(text for text in borrowed if is_shipped(text.path))):
        yield from ((text.path, file.path, file.digest) for file in text.files.values())


def _good(
    imported: Imported, read: Mapping[str, Parsed], settlement: _Settlement, now: float
) -> Iterator[tuple[str, GoodVersion]]:
    """The current good versions; what they import is fixed before they are stored."""
    for path, parsed in read.items():
        if path not in settlement.faults:
            pinned = tuple(_pinned(definition, settlement.library) for definition in parsed.definitions)
            yield path, GoodVersion(pinned, now)
    for module in imported.modules.values():
        yield module.text.path, GoodVersion(module.found, now, module.text.digest)


def _pinned(definition: Definition, library: Library) -> Definition:
    """A definition as the library has composed it, independent of later changes of what it imports."""
    settled = library.get(definition.kind, definition.full_name)
    return definition if settled is None or settled.draft is None else settled.pinned()
