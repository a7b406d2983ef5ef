"""What a daemon keeps so that nothing is lost: one writer, one commit a turn (design, "Storage", N35).

A turn fills a `Batch`, and `Store.commit` records it whole or not at all, before anything of it is performed.
Reading is for the start (what is in memory, what was under way) and for history. Two stores keep these
promises: `narval.runtime.database` on a disk or a server, and `VolatileStore` below, which is gone when it is
closed. What a slot of a batch takes, the reader of that name gives back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from heapq import merge
from itertools import islice
from operator import attrgetter
from types import TracebackType
from typing import Any, Literal, NamedTuple

import msgspec

from narval.engines.commands import Command
from narval.engines.events import Event
from narval.memory import change as changes
from narval.memory.change import Added, Change
from narval.memory.element import Element
from narval.runtime.codec import encode_entry

Durability = Literal["crash", "power"]
"""What a commit survives: `crash`, the death of the daemon; `power`, the death of the machine too."""


class Advance(msgspec.Struct, frozen=True, gc=False):
    """One advance of a run for the journal: the event, the changes and the commands that followed.

    `seq` numbers the lines of the whole home: an advance takes one for its event, and one for each change and
    command. A store that writes it down encodes it; a store in memory need not. The collector of garbage
    never looks at one, for what is in it refers to nothing.
    """

    run: int
    seq: int
    event: Event
    changes: tuple[Any, ...]
    commands: tuple[Command, ...]


class KeptElement(NamedTuple):
    """An element as the store has it; `fault` says why its origin is not known, though it has one."""

    element: Element
    declared: str
    outdated: bool
    fault: str = ""


class RunRow(NamedTuple):
    """A run; `state` is its kind's own word, `phase` one of active, done, failed, cancelled.

    `parent_run` called it from `parent_step` by `parent_call`; `error` is the eid of the element that says
    why it failed. When it is to be forgotten stands among the moments.
    """

    eid: int
    kind: str
    name: str
    digest: str
    state: str
    phase: str
    started: float
    ended: float | None = None
    parent_run: int | None = None
    parent_step: str = ""
    parent_call: str = ""
    attempt: int = 0
    error: int | None = None


class JournalRow(NamedTuple):
    """An advance as the journal has it; `codec.decode_entry` and `codec.describe_entry` read `data`."""

    run: int
    seq: int
    at: float
    data: bytes


class SnapshotRow(NamedTuple):
    """The state of a run after all its entries up to `seq`."""

    run: int
    seq: int
    data: bytes


class QueuedRow(NamedTuple):
    """An event that still waited at the end of a turn."""

    id: int
    run: int
    data: bytes


class MomentRow(NamedTuple):
    """Something to be done at a moment."""

    id: str
    at: float
    data: bytes


class DefinitionRow(NamedTuple):
    """A version of a definition; a new current one takes the place of the one before."""

    digest: str
    kind: str
    name: str
    path: str
    source: bytes
    loaded: float
    current: bool = True


def _rows() -> Any:
    return msgspec.field(default_factory=list)


class Batch(msgspec.Struct, eq=False):
    """What one turn leaves to record. Each slot is a list of rows; they are written slot by slot in this
    order, first all that comes and then what goes, whatever the order of filling.
    """

    definitions: list[DefinitionRow] = _rows()
    elements: list[Added] = _rows()
    outdated: list[int] = _rows()
    undeclared: list[int] = _rows()
    held: list[tuple[int, int]] = _rows()
    """Run, eid."""
    marks: list[tuple[str, str, str, int]] = _rows()
    """Definition, place, slot, eid."""
    keys: list[tuple[str, str, str]] = _rows()
    """Name, expression, value."""
    runs: list[RunRow] = _rows()
    """New runs, and runs of which something changed."""
    journal: list[Advance] = _rows()
    snapshots: list[SnapshotRow] = _rows()
    queued: list[QueuedRow] = _rows()
    moments: list[MomentRow] = _rows()
    meta: list[tuple[str, str]] = _rows()
    trimmed: list[tuple[int, int, int]] = _rows()
    """Run, seq, how many: of its entries up to that line, those before its last so many are dropped."""
    dequeued: list[int] = _rows()
    moments_done: list[str] = _rows()
    unheld: list[tuple[int, int]] = _rows()
    """Run, eid."""
    forgotten_elements: list[int] = _rows()
    """Their marks go with them; their keys stay (N37)."""
    forgotten_runs: list[int] = _rows()
    """Their contexts, entries and snapshots go with them; the marks they made stay (N18)."""

    def __bool__(self) -> bool:
        return bool(self.journal) or any(slots_of(self))

    def take(self, change: Change) -> None:
        """Put a change of memory into its slot; reservations are not kept, for they follow from the calls."""
        put = _PUT.get(type(change))
        if put is not None:
            put(self, change)


SLOTS = Batch.__struct_fields__
slots_of: Callable[[Batch], tuple[list[Any], ...]] = attrgetter(*SLOTS)
"""All rows of a batch, slot by slot in the order in which they are written."""


def _put_added(batch: Batch, change: changes.Added) -> None:
    batch.elements.append(change)
    if change.held:
        batch.held.append((change.held, change.element.eid))


def _put_held(batch: Batch, change: changes.Held) -> None:
    for eid in change.eids:
        batch.held.append((change.run, eid))


def _put_forgotten(batch: Batch, change: changes.Forgotten) -> None:
    batch.forgotten_elements.extend(change.eids)
    batch.forgotten_runs.extend(change.runs)


_PUT: dict[type, Callable[[Batch, Any], None]] = {
    changes.Added: _put_added,
    changes.Held: _put_held,
    changes.Unheld: lambda batch, change: batch.unheld.extend((change.run, eid) for eid in change.eids),
    changes.Used: lambda batch, change: batch.marks.extend((*change.scope, eid) for eid in change.eids),
    changes.Outdated: lambda batch, change: batch.outdated.extend(change.eids),
    changes.Keyed: lambda batch, change: batch.keys.append((change.name, change.expression, change.value)),
    changes.Undeclared: lambda batch, change: batch.undeclared.extend(change.eids),
    changes.Forgotten: _put_forgotten,
}


class Store(ABC):
    """One home's store. One thread at a time commits; others may read meanwhile and see what is committed."""

    is_volatile = False
    """Whether all of it is gone when the program ends, however it ends."""

    @abstractmethod
    def commit(self, *batches: Batch) -> None:
        """Record the batches in order, all or nothing; whoever returns from here may perform.

        Raises StoreError, and then for every later batch too: memory is ahead of a store that failed.
        """

    @abstractmethod
    def make_room(self) -> None:
        """A daemon begins to work: have ready what makes its commits quicker."""

    @abstractmethod
    def close(self) -> None:
        """End it well. Closing twice is as good as once."""

    # --- for the start --------------------------------------------------------------------------------

    @abstractmethod
    def elements(self) -> Iterator[KeptElement]:
        """All elements, oldest first."""

    @abstractmethod
    def contexts(self) -> Iterator[tuple[int, int]]:
        """Run and eid, of elements and runs that are there, by run and then by age."""

    @abstractmethod
    def marks(self) -> Iterator[tuple[str, str, str, int]]:
        """Definition, place, slot, eid, oldest element first."""

    @abstractmethod
    def keys(self) -> Iterator[tuple[str, str, str]]:
        """Name, expression, value."""

    @abstractmethod
    def queue(self) -> list[QueuedRow]:
        """The events still waiting, in order."""

    @abstractmethod
    def moments(self) -> list[MomentRow]:
        """What is to be done later, soonest first."""

    @property
    @abstractmethod
    def meta(self) -> Mapping[str, str]:
        """Small facts about the home, by key, as they are now."""

    # --- for the start and for history ----------------------------------------------------------------

    @abstractmethod
    def runs(
        self,
        *,
        phase: str | None = None,
        state: str | None = None,
        kind: str | None = None,
        name: str | None = None,
    ) -> list[RunRow]:
        """The runs of that phase, state, kind and name, oldest first."""

    @abstractmethod
    def run(self, eid: int) -> RunRow | None:
        """One run."""

    @abstractmethod
    def journal(self, run: int, after: int = 0) -> Iterator[JournalRow]:
        """The entries of a run that begin after a line, oldest first."""

    @abstractmethod
    def journal_all(self, after: int = 0, limit: int = 1000) -> list[JournalRow]:
        """The entries of all runs that begin after a line, oldest first, at most so many."""

    @abstractmethod
    def snapshot(self, run: int) -> SnapshotRow | None:
        """The last state kept of a run."""

    @abstractmethod
    def definitions(self, current: bool | None = True) -> list[DefinitionRow]:
        """The current versions; all others (False); or all (None)."""

    @abstractmethod
    def definition(self, digest: str) -> DefinitionRow | None:
        """The version of that digest."""

    def stored_files(self, path: str) -> list[bytes]:
        """What the last good version of a file defined: the source of each definition in it."""
        return [each.source for each in self.definitions(current=True) if each.path == path]

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class VolatileStore(Store):
    """A store in memory, for a home that has no disk: quick, and gone when it is closed.

    It keeps what is asked for during a life (runs, journal, snapshots, definitions) and not what is only read
    at a start, when it is always empty.
    """

    is_volatile = True

    def __init__(self) -> None:
        self._runs: dict[int, tuple[Any, ...]] = {}
        """Rows as bare tuples, which the collector of garbage lets go of."""
        self._journals: dict[int, list[Advance]] = {}
        self._snapshots: dict[int, SnapshotRow] = {}
        self._definitions: dict[tuple[str, str, str], DefinitionRow] = {}
        self._meta: dict[str, str] = {}

    def commit(self, *batches: Batch) -> None:
        """Keep what is asked for later."""
        journals = self._journals
        for batch in batches:
            for advance in batch.journal:
                entries = journals.get(advance.run)
                if entries is None:
                    entries = journals[advance.run] = []
                entries.append(advance)
            if batch.runs:
                self._runs.update((row.eid, tuple(row)) for row in batch.runs)
            if batch.snapshots:
                self._snapshots.update((row.run, row) for row in batch.snapshots)
            if batch.meta:
                self._meta.update(batch.meta)
            for each in batch.definitions:
                self._define(each)
            for run, seq, keep in batch.trimmed:
                kept_entries = self._journals.get(run, [])
                behind = bisect_right(kept_entries, seq, key=attrgetter("seq"))
                del kept_entries[: max(0, min(behind, len(kept_entries) - keep))]
            for run in batch.forgotten_runs:
                self._runs.pop(run, None)
                self._journals.pop(run, None)
                self._snapshots.pop(run, None)

    def _define(self, new: DefinitionRow) -> None:
        if new.current:
            for key, old in self._definitions.items():
                if (old.kind, old.name) == (new.kind, new.name):
                    self._definitions[key] = old._replace(current=False)
        self._definitions[new.digest, new.kind, new.name] = new

    def make_room(self) -> None:
        """Nothing to have ready."""

    def close(self) -> None:
        """Nothing to end."""

    def elements(self) -> Iterator[KeptElement]:
        """None: a start is always empty; so with all readers for the start."""
        return iter(())

    def contexts(self) -> Iterator[tuple[int, int]]:
        """None."""
        return iter(())

    def marks(self) -> Iterator[tuple[str, str, str, int]]:
        """None."""
        return iter(())

    def keys(self) -> Iterator[tuple[str, str, str]]:
        """None."""
        return iter(())

    def queue(self) -> list[QueuedRow]:
        """None."""
        return []

    def moments(self) -> list[MomentRow]:
        """None."""
        return []

    @property
    def meta(self) -> Mapping[str, str]:
        """Small facts about the home."""
        return self._meta

    def runs(
        self,
        *,
        phase: str | None = None,
        state: str | None = None,
        kind: str | None = None,
        name: str | None = None,
    ) -> list[RunRow]:
        """The runs of that phase, state, kind and name."""
        wanted = {"phase": phase, "state": state, "kind": kind, "name": name}
        given = [(field, value) for field, value in wanted.items() if value is not None]
        found = (
            row
            for row in map(RunRow._make, self._runs.values())
            if all(getattr(row, field) == value for field, value in given)
        )
        return sorted(found, key=attrgetter("eid"))

    def run(self, eid: int) -> RunRow | None:
        """One run."""
        row = self._runs.get(eid)
        return RunRow._make(row) if row is not None else None

    def journal(self, run: int, after: int = 0) -> Iterator[JournalRow]:
        """The entries of a run."""
        advances = self._journals.get(run, [])
        for each in advances[bisect_right(advances, after, key=attrgetter("seq")) :]:
            data = encode_entry(each.event, each.changes, each.commands)
            yield JournalRow(run, each.seq, each.event.at, data)

    def journal_all(self, after: int = 0, limit: int = 1000) -> list[JournalRow]:
        """The entries of all runs."""
        entries = merge(*(self.journal(run, after) for run in self._journals), key=attrgetter("seq"))
        return list(islice(entries, limit))

    def snapshot(self, run: int) -> SnapshotRow | None:
        """The last state kept of a run."""
        return self._snapshots.get(run)

    def definitions(self, current: bool | None = True) -> list[DefinitionRow]:
        """The versions of definitions."""
        return [each for each in self._definitions.values() if current is None or each.current == current]

    def definition(self, digest: str) -> DefinitionRow | None:
        """The version of that digest."""
        return next((each for each in self._definitions.values() if each.digest == digest), None)
