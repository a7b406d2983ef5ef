"""The contract of a store: one writer, one commit a turn, nothing lost (docs/reference/store.md, N35).

A turn fills a `Batch`, and `Store.commit` records it whole or not at all, before any of its commands is
performed. A store keeps several agents apart by their numbers: `Store.of` reads one of them. Reading is for
the start (memory, and active runs) and for history; the rows of a slot come back from the reader of that
name. Three stores fulfil this contract: `database.py` in a file, `postgresql/` on a server, and `memory.py`,
which is lost when it is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from narval.store import batch
from narval.store.letters import Letters
from narval.store.rows import ScopeRow

if TYPE_CHECKING:  # only a shared store has them
    from narval.store.postgresql.leases import DaemonNotices, Leases, Ownership, Published

Durability = Literal["crash", "power"]
"""The worst that a commit survives: `crash`, the death of the daemon; `power`, the death of the machine."""

ALL = 2**63 - 1
"""A number of rows that no store exceeds."""


class RunHistory(NamedTuple):
    """The last stored state of a run, and the entries since."""

    snapshot: batch.SnapshotRow | None
    entries: list[batch.JournalRow]


class StartReader(Protocol):
    """Reading for the start: the content of memory, and what waits."""

    def identity(self) -> batch.AgentRow:
        """The agent as it is registered. Raises StoreError if the store has no such agent."""

    def elements(self) -> Iterator[batch.KeptElement]:
        """All elements, oldest first."""

    def contexts(self) -> Iterator[tuple[int, int]]:
        """Run and eid, of existing elements and runs, by run and then by age."""

    def marks(self) -> Iterator[batch.MarkRow]:
        """The uses of elements, oldest element first."""

    def withdrawals(self) -> Iterator[batch.WithdrawalRow]:
        """The elements that were withdrawn, and those that are doubtful, by eid."""

    def labels(self) -> Iterator[tuple[int, str]]:
        """Eid and label, of elements and runs, by eid."""

    def keys(self) -> Iterator[tuple[str, str, str]]:
        """Name, expression, value."""

    def queue(self) -> list[batch.QueuedRow]:
        """The events still waiting, in order."""

    def moments(self) -> list[batch.MomentRow]:
        """The jobs, soonest first."""

    @property
    def meta(self) -> Mapping[str, str]:
        """The current small facts about the agent, by key."""


class HistoryReader(Protocol):
    """Reading for the start and for history: runs, their entries, versions of definitions."""

    def runs(self) -> list[batch.RunRow]:
        """All runs, oldest first."""

    def journal(
        self, run: int, after: int = 0, before: int | None = None, most: int = ALL
    ) -> Iterator[batch.JournalRow]:
        """The entries of a run that begin after a line, oldest first; or those that begin before one, newest
        first; at most `most`. They are read on demand, except from a server, which sends all at once.
        """

    def snapshot(self, run: int) -> batch.SnapshotRow | None:
        """The last stored state of a run."""

    def under_way(self, first: int, last: int) -> dict[int, RunHistory]:
        """The histories of active runs by eid, from one eid to another; for a missing one, use `snapshot` and
        `journal`.
        """
        return {}

    def definitions(self, current: bool | None = True, name: str | None = None) -> list[batch.DefinitionRow]:
        """The current versions; all others (False); or all (None); with a name, only versions of that
        name.
        """

    def versions(self) -> Sequence[tuple[str, str, str]]:
        """Kind, name and digest of the current versions of definitions."""

    def definition(self, digest: str) -> batch.DefinitionRow | None:
        """The version of that digest."""

    def stored_files(self, path: str) -> list[bytes]:
        """The sources of the definitions in the last good version of a file."""
        return [row.source for row in self.definitions(current=True) if row.path == path]


class ResultReader(Protocol):
    """Reading of the results that calls store by key, from any thread."""

    def results(self, scope: str, most: int = ALL) -> list[batch.ResultRow]:
        """The results of a scope, newest first; at most `most`."""

    def results_of(self, scope: str, keys: Collection[str]) -> list[batch.ResultRow]:
        """The results of a scope that have one of some keys, in no order."""

    def scopes(self) -> list[ScopeRow]:
        """The scopes of results, by name."""


class AgentStore(StartReader, HistoryReader, ResultReader, Protocol):
    """The part of a store that belongs to one agent, read-only; `agent` is its number."""

    agent: int

    own: int = batch.HOME_AGENT
    """The number of the home's own agent."""

    @property
    def is_own(self) -> bool:
        """True for the home's own agent."""
        return self.agent == self.own


class Store(Protocol):
    """One home's store: its agents, each under a number from 1, and one writer for all.

    One thread at a time commits; others may read at the same time and see what is committed.
    """

    is_volatile: bool = False
    """True if everything in it is lost when the program ends."""

    own: int = batch.HOME_AGENT
    """The number of the own agent of the home that runs on it."""

    leases: Leases | None = None
    """The leases of this daemon; None if at most one daemon runs on the store, and for a look."""

    is_shared: bool = False
    """True if daemons of several homes may run on it."""

    published: Published | None = None
    """The collections that all daemons of the store follow; None if at most one daemon runs on it."""

    @property
    def letters(self) -> Letters:
        """The messages between its agents, to be read."""

    def agents(self) -> Iterator[batch.AgentRow]:
        """All agents, by number, read on demand. Raises StoreError."""

    def held(self) -> list[tuple[int, int, int]]:
        """Agent, number of its elements or runs, number of active runs; at most two rows for each agent."""

    def facts(self, key: str) -> dict[str, str]:
        """A fact of agents, by the names of those that have it. Raises StoreError."""

    def mentions(self, text: str) -> Iterator[bytes] | None:
        """The values that contain a text, of all agents: elements, entries of the journal, messages and
        everything else; None if nothing stored could be searched. Raises StoreError.
        """
        return None

    def use_own(self, agent: int) -> None:
        """Make an agent the home's own from now on."""
        self.own = agent

    @property
    def away(self) -> tuple[float, str] | None:
        """The moment since which its server does not answer (seconds since 1970), and why; None while it
        does.
        """
        return None

    def loss(self) -> str:
        """The loss of its file while it is open; "" while the file is in its place, or there is none."""
        return ""

    def keep(self) -> Path | None:
        """Write the whole store to a file beside its place, if its own file is gone. Raises StoreError."""
        return None

    def owners(self) -> list[Ownership]:
        """The daemons that hold its agents, by number of the agent; none if it is not shared. Raises
        StoreError.
        """
        return self.leases.owners() if self.leases is not None else []

    def of(self, agent: int | None = None) -> AgentStore:
        """The store as one agent sees it; without a number, the home's own agent."""

    def commit(self, *batches: batch.Batch) -> None:
        """Record the batches, of one agent or several, in order, all or nothing: only then may their commands
        be performed.

        Raises RefusedRowsError if the rows of a batch cannot be recorded, while those of another may be.
        After any other StoreError every later batch is refused with it: memory is ahead of a store that
        failed.
        """

    def listen(self, heard: Callable[[frozenset[int]], None]) -> DaemonNotices | None:
        """Start notifying other daemons of messages, and hearing of them: `heard` is called, in another
        thread, with the agents of this daemon that have one. None if there are only heartbeats, or no other
        daemons.
        """
        return None

    def read_ahead(self, agents: Collection[int]) -> None:
        """Prefetch the rows of agents, which are valid until one of their turns is recorded. May block.

        Raises StoreError.
        """
        return

    def make_room(self) -> None:
        """Prepare what makes commits faster, when a daemon starts its work."""
        return

    def is_still(self) -> bool:
        """True unless the rows read may be torn because another program wrote during the read (`look.py`)."""
        return True

    def close(self) -> None:
        """Close it cleanly. Closing twice is harmless."""
        return

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
