"""A batch of rows: the record of one turn."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Container
from typing import Annotated, Any, NamedTuple

import msgspec

from narval.core.elements import changes
from narval.core.elements.changes import Added, Change
from narval.core.elements.element import Element
from narval.core.engines.commands import Command
from narval.core.engines.events import Event

STORE = 0
"""The number under which a store keeps small facts about itself."""

HOME_AGENT = 1
"""The number of the home's own agent in a store of its own; `Store.own` has it for any store."""

Eid = Annotated[int, msgspec.Meta(ge=0)]
"""The number of an element or run; 0 means none."""

ACTIVE, PASSIVE, SUSPENDED = "active", "passive", "suspended"
"""The states of an agent: active while a daemon runs; only rows; only rows until it is resumed."""


class AgentRow(NamedTuple):
    """An agent under its number: a random id of 128 bits, as 32 hex digits, made once (G1), and a name.

    `why` is the reason why it is suspended. `wake_at` is when a passive one must be activated (seconds since
    1970), if at all.
    """

    agent: int
    id: str
    name: str
    state: str = ACTIVE
    why: str = ""
    wake_at: float | None = None


FILES = "files"
"""The scope of the results with the labels of files written, by path."""

DEFAULT_NAME = "narval"
"""The name of the home's own agent if the settings give none."""


def new_agent(number: int, name: str) -> AgentRow:
    """A new agent."""
    return AgentRow(number, secrets.token_hex(16), name)


class Advance(msgspec.Struct, frozen=True, gc=False):
    """One advance of a run for the journal: the event, and the changes and commands that followed.

    `seq` numbers the lines of the whole agent: an advance takes one for its event, and one for each change
    and command. A store on disk encodes it; a store in memory need not. The garbage collector does not track
    it, since it is in no cycle.
    """

    run: int
    seq: int
    event: Event
    changes: tuple[Any, ...]
    commands: tuple[Command, ...]


class KeptElement(NamedTuple):
    """An element as stored; `fault` says why its origin could not be read, if so."""

    element: Element
    declared: str
    outdated: bool
    fault: str = ""


class RunRow(NamedTuple):
    """A run; `state` is its kind's own word, `phase` one of active, done, failed, cancelled.

    `parent_run` called it from `parent_step` by `parent_call`; `error` is the eid of the element that says
    why it failed, `by` who started it from outside, `actor` who did so in that person's name (P39). The
    moment when it is forgotten is among the moments.
    """

    eid: Eid
    kind: str
    name: str
    digest: str
    state: str
    phase: str
    started: float
    ended: float | None = None
    parent_run: Eid | None = None
    parent_step: str = ""
    parent_call: str = ""
    attempt: int = 0
    error: int | None = None
    by: str = ""
    actor: str = ""


class JournalRow(NamedTuple):
    """An advance as stored in the journal; `codec.decode_entry` and `codec.describe_entry` read `data`."""

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
    """An event that still waited at the end of a turn; for run 0, an offer."""

    id: int
    run: int
    data: bytes


class Offer(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """A new element for runs that watch for it, or a replaced one (`gone`) for runs that watch for that."""

    eid: int
    gone: bool = False


class MomentRow(NamedTuple):
    """A job that is due at a moment."""

    id: str
    at: float
    data: bytes


class WithdrawalRow(NamedTuple):
    """A withdrawn element and the reason, or a doubtful one that was made from a withdrawn one."""

    eid: Eid
    why: str
    doubtful: bool | int


class MarkRow(NamedTuple):
    """An element that an input or condition has used (N18): which one, of which definition, in which run.

    The run is 0 for a control element that was executed, which no run used.
    """

    definition: str
    place: str
    slot: str
    eid: Eid
    run: Eid = 0


class DefinitionRow(NamedTuple):
    """A version of a definition; a new current one replaces the one before.

    `current` is a number if SQLite returns it.
    """

    digest: str
    kind: str
    name: str
    path: str
    source: bytes
    loaded: float
    current: bool | int = True


LETTERS_KEPT = 30 * 86_400.0
"""Seconds for which a dead letter is kept."""


class MessageRow(NamedTuple):
    """A message that is not taken yet (G23): `agent` is its receiver, `number` counts from 1 for each pair.

    `id` is that of the call that sent it, `kind` is the type of `data`; after `until` it has expired.
    `origin` is the envelope, as `narval.daemon.messages.envelope` writes it.
    """

    agent: int
    sender: int
    number: int
    id: str
    kind: str
    at: float
    until: float | None
    origin: bytes
    data: bytes


class TakenRow(NamedTuple):
    """The number of the last message that an agent has taken from a sender (G25)."""

    agent: int
    sender: int
    number: int


class ResultRow(NamedTuple):
    """A result that calls store by key beside the journal: of their work, or an item that they remember.

    A `scope`, such as that of a session, is dropped as a whole.
    """

    scope: str
    key: str
    at: float
    data: bytes


class DeadLetterRow(NamedTuple):
    """A message from `agent` that could not be taken (G32), and why; `receiver` is a name."""

    agent: int
    receiver: str
    number: int
    id: str
    kind: str
    reason: str
    at: float
    until: float | None
    origin: bytes
    data: bytes


class _Rows:
    """A slot of a batch: its list is made on first use, because a turn fills few of them."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, batch: Batch, owner: type) -> Any:
        return batch.__dict__.setdefault(self._name, [])


class _Keyed(_Rows):
    """A slot whose rows have keys: the last row of a key replaces earlier ones."""

    def __get__(self, batch: Batch, owner: type) -> Any:
        return batch.__dict__.setdefault(self._name, {})


_rows: Any = _Rows
_keyed: Any = _Keyed


class Batch:
    """The record of one turn of `agent`. A slot has rows. They are written slot by slot in this order,
    additions before removals, whatever the order of filling.
    """

    __slots__ = ("__dict__", "agent")

    def __init__(self, agent: int, **rows: Any) -> None:
        self.agent, self.__dict__ = agent, rows

    agents: list[AgentRow] = _rows()
    """The agent itself, or any other of its store."""
    definitions: list[DefinitionRow] = _rows()
    retired: list[tuple[str, str, str]] = _rows()
    """Digest, kind, name of versions of definitions that are no longer current."""
    shared: list[Added] = _rows()
    """New elements whose bytes other agents have too: these are stored once."""
    elements: list[Added] = _rows()
    outdated: list[int] = _rows()
    undeclared: list[int] = _rows()
    held: list[tuple[int, int]] = _rows()
    """Run, eid."""
    marks: list[MarkRow] = _rows()
    withdrawals: dict[int, WithdrawalRow | None] = _keyed()
    """The turn's last row of an element, by eid; None if it is no longer doubtful."""
    labels: list[tuple[int, str]] = _rows()
    """Eid of an element or a run, a label that it gets."""
    keys: list[tuple[str, str, str]] = _rows()
    """Name, expression, value."""
    runs: list[RunRow] = _rows()
    """New and changed runs."""
    journal: list[Advance] = _rows()
    snapshots: list[SnapshotRow] = _rows()
    queued: list[QueuedRow] = _rows()
    moments: list[MomentRow] = _rows()
    meta: list[tuple[str, str]] = _rows()
    results: dict[tuple[str, str], ResultRow | None] = _keyed()
    """The turn's last row of a result, by scope and key; None if it is removed."""
    messages: list[MessageRow] = _rows()
    """The messages that it sends."""
    taken: list[TakenRow] = _rows()
    """The last messages taken by it, or by an inactive agent; their rows and all earlier ones are removed."""
    dead_letters: list[DeadLetterRow] = _rows()
    trimmed: list[tuple[int, int, int]] = _rows()
    """Run, seq, count: of the run's entries up to that line, all but the last `count` are dropped."""
    dropped_scopes: list[str] = _rows()
    """The scopes whose results are all removed."""
    dequeued: list[int] = _rows()
    moments_done: list[str] = _rows()
    letters_settled: list[int] = _rows()
    """The lines of its dead letters that are no longer kept."""
    unheld: list[tuple[int, int]] = _rows()
    """Run, eid."""
    forgotten_elements: list[int] = _rows()
    """Their marks and labels are removed with them; their keys stay."""
    forgotten_runs: list[int] = _rows()
    """Their contexts, entries and snapshots are removed with them; the marks they made stay."""
    removed_agents: list[int] = _rows()
    """The numbers of removed agents, whose rows are all removed."""

    def __bool__(self) -> bool:
        return any(self.__dict__.values())

    def share(self, eids: Container[int]) -> None:
        """Store the bytes of some of its new elements once for all agents."""
        self.shared += (added for added in self.elements if added.element.eid in eids)
        self.elements[:] = [added for added in self.elements if added.element.eid not in eids]

    def put_result(self, row: ResultRow) -> None:
        """Add a result, or replace that of its key."""
        self.results[row.scope, row.key] = row

    def drop_result(self, scope: str, key: str) -> None:
        """Remove a result."""
        self.results[scope, key] = None

    def results_in(self, scope: str) -> dict[str, ResultRow | None]:
        """The new results of a scope, by key; None for a removed one."""
        return {key: row for (of, key), row in self.results.items() if of == scope}

    def record(self, change: Change) -> None:
        """Put a change of memory into its slot, without reservations, which follow from the calls."""
        put = _PUT.get(type(change))
        if put is not None:
            put(self, change)


SLOTS = tuple(name for name, slot in vars(Batch).items() if isinstance(slot, _Rows))
"""The names of the slots."""


def _put_added(batch: Batch, change: changes.Added) -> None:
    batch.elements.append(change)
    if change.held:
        batch.held.append((change.held, change.element.eid))


def _put_held(batch: Batch, change: changes.Held) -> None:
    for eid in change.eids:
        batch.held.append((change.run, eid))


def _put_used(batch: Batch, change: changes.Used) -> None:
    batch.marks += [MarkRow(*change.scope, eid, change.run) for eid in change.eids]


def _put_withdrawn(batch: Batch, change: changes.Withdrawn) -> None:
    batch.outdated.extend(change.eids)
    batch.withdrawals.update((eid, WithdrawalRow(eid, change.why, False)) for eid in change.eids)


def _put_forgotten(batch: Batch, change: changes.Forgotten) -> None:
    batch.forgotten_elements.extend(change.eids)
    batch.forgotten_runs.extend(change.runs)


_PUT: dict[type, Callable[[Batch, Any], None]] = {
    changes.Added: _put_added,
    changes.Held: _put_held,
    changes.Unheld: lambda batch, change: batch.unheld.extend((change.run, eid) for eid in change.eids),
    changes.Used: _put_used,
    changes.Outdated: lambda batch, change: batch.outdated.extend(change.eids),
    changes.Withdrawn: _put_withdrawn,
    changes.Doubted: lambda batch, change: batch.withdrawals.update(
        (eid, WithdrawalRow(eid, "", True)) for eid in change.eids
    ),
    changes.Confirmed: lambda batch, change: batch.withdrawals.update(dict.fromkeys(change.eids)),
    changes.Keyed: lambda batch, change: batch.keys.append((change.name, change.expression, change.value)),
    changes.Labelled: lambda batch, change: batch.labels.extend((change.eid, name) for name in change.labels),
    changes.Undeclared: lambda batch, change: batch.undeclared.extend(change.eids),
    changes.Forgotten: _put_forgotten,
}
