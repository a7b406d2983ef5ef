"""Settlement: which of the files that were read are good, for one may make another bad (N13)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from narval.core.definitions.library import Definition, Library, Parsed, Reference, check_targets
from narval.core.definitions.parsing import compose
from narval.core.errors import Fault
from narval.core.kinds import KINDS
from narval.files.agents.collections import folder_of
from narval.files.modules import Imported
from narval.files.shipped import unloaded
from narval.system.unexpected import unexpected


class Settlement:
    """The library of all good files, and of the last good versions of the others.

    `read` are files by path, `before` is the library of the last settlement. `faults` has the files that are
    not good.
    """

    def __init__(
        self,
        imported: Imported,
        read: Mapping[str, Parsed],
        last_good: Callable[[str], tuple[Definition, ...]],
        before: Library,
    ) -> None:
        self._read, self._last_good, self._before = read, last_good, before
        self._code = [declared for module in imported.modules.values() for declared in module.found]
        self._module_faults = imported.faults
        self.faults: dict[str, list[Fault]] = {
            path: list(parsed.faults) for path, parsed in read.items() if parsed.faults
        }
        self._told: list[Fault] = []
        """The faults of files that are good nevertheless."""
        self.library = self._settle()

    def all_faults(self) -> Iterable[Fault]:
        """The faults of modules and of definitions."""
        kept = (*self._module_faults.values(), *self.faults.values(), self._told)
        return [fault for faults in kept for fault in faults]

    def _settle(self) -> Library:
        self._refuse_doubles()
        own = set(self.faults)
        while True:
            library, misfits = self._composed()
            broken = self.broken_files()
            new = {
                path: [
                    *_checked(path, parsed.references, library, broken),
                    *(fault for fault in misfits if fault.path == path),
                ]
                for path, parsed in self._read.items()
                if path not in self.faults
            }
            if not any(new.values()):
                break
            self.faults.update({path: faults for path, faults in new.items() if faults})
        for path in own:
            parsed = self._read[path]
            seen = library.replace(parsed.definitions)
            # a definition of this very file that has faults is reported already
            references = [
                reference
                for reference in parsed.references
                if (reference.kind, reference.target) not in parsed.names
                or seen.get(reference.kind, reference.target) is not None
            ]
            self.faults[path] += _checked(path, references, seen, self.broken_files())
        return _reuse(library, self._before)

    def _composed(self) -> tuple[Library, list[Fault]]:
        """The library with definitions made whole of others; a file over which that fails is left out."""
        while True:
            try:
                return compose(self._incomplete())
            except Exception as error:
                path = self._first_failing()
                if path is None:
                    raise
                self.faults[path] = [unexpected(path, error)]

    def _first_failing(self) -> str | None:
        """The first of the files with which those before it cannot be composed any more."""
        without = [path for path in self._read if path not in self.faults]
        while without:
            path = without.pop(0)
            try:
                compose(self._incomplete(without))
            except Exception:
                return path
        return None

    def _incomplete(self, without: Collection[str] = ()) -> Library:
        """All that is left, but for some files, as it is written."""
        definitions: list[Definition] = list(self._code)
        for path, parsed in self._read.items():
            if path not in without:
                definitions += self._last_good(path) if path in self.faults else parsed.definitions
        return Library(definitions)

    def broken_files(self) -> dict[tuple[str, str], str]:
        """The files that did not load, by what they are meant to have: names, or a group if none is known."""
        broken = {("action", stem): faults[0].path for stem, faults in self._module_faults.items()}
        for path in self.faults:
            group = Path(path).stem.partition(".")[0]  # which such a file was probably meant to have
            named = self._read[path].names or {(kind, group) for kind in KINDS if KINDS[kind].suffixes}
            broken.update((name, path) for name in named)
        return broken

    def _refuse_doubles(self) -> None:
        """Leave a name that two files give to definitions of one kind to the first of them.

        Where they are of two collections, both are told of it.
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


def _checked(
    path: str, references: Iterable[Reference], library: Library, broken: Mapping[tuple[str, str], str]
) -> list[Fault]:
    """The faults of what a file names."""
    try:
        return check_targets(references, library, broken, unloaded)
    except Exception as error:
        return [unexpected(path, error)]


def _again(definition: Definition, other: Definition) -> Fault:
    what = f"{definition.kind} {definition.full_name}"
    message = f"expected a new name, found the {what} of {other.path} again"
    return Fault(definition.path, definition.line, 1, message)


def _reuse(library: Library, before: Library) -> Library:
    """The same, with the definitions of before where they would be composed of the same again."""
    same = [
        known
        for definition in library
        if definition.draft is not None
        and (known := before.get(definition.kind, definition.full_name)) is not None
        and known.draft is definition.draft
        and known.digest == definition.digest
    ]
    return library.replace(same) if same else library
