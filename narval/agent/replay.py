"""The state of a run, from snapshot and journal: what was recorded is applied, nothing is decided again."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from narval.agent.agent import AgentState
from narval.agent.run import Run, origin_of
from narval.core.definitions.parsing import read_definition
from narval.core.elements.element import Element
from narval.core.engines.commands import Command
from narval.core.engines.effects import EFFECTS, InForce
from narval.core.engines.engine import resumed_from
from narval.core.engines.events import Event, Migrated
from narval.core.errors import DefinitionError, NarvalError, StoreError, UnreadableError
from narval.store import codec
from narval.store.batch import Advance, JournalRow
from narval.store.store import AgentStore, RunHistory


def rebuild(
    agent: AgentState, run: Run, pending: Iterable[Advance], history: RunHistory | None = None
) -> float:
    """Restore a run's state and what it waits for, from snapshot, journal, and uncommitted entries. Return
    the moment of the last entry in the journal.

    `history` is what the store has of the run, if it is read already. Raises UnreadableError, and then the
    run has no state.
    """
    run.load(definition_of(agent, run))
    replay = _Replay(agent, run, history)
    if replay.fault is not None:
        raise replay.fault
    for advance in pending:
        replay.follow(advance.event, advance.changes, advance.commands)
    run.rebuilt(replay.state, replay.in_force)
    if run.retry_of:
        agent.runs.note_retry(run)
    agent.wait(run)
    return replay.latest


def state_of(agent: AgentState, run: Run) -> Any:
    """The state of a run; for an ended one, from the journal."""
    if run.state is not None:
        return run.state
    replay = _Replay(agent, run)
    if replay.fault is not None:
        raise replay.fault
    return replay.state


def past(agent: AgentState, run: Run) -> tuple[tuple[str, ...], int]:
    """The people who answered a run, and the run that it continues, or 0.

    For an ended run the journal is read once, as far as it is readable.
    """
    if run.past is not None:
        return run.past
    state = run.state if run.state is not None else as_far_as_readable(agent, run)[1]
    again = resumed_from(run.engine, state) if state is not None else None
    earlier = tuple(state.answerers) if state is not None else (), again[0] if again is not None else 0
    if not run.active:
        run.recall(earlier)
    return earlier


def as_far_as_readable(agent: AgentState, run: Run) -> tuple[Any, Any]:
    """The definition and the last readable state of a run that cannot be read completely, or Nones."""
    try:
        replay = _Replay(agent, run)
    except UnreadableError:
        return None, None
    return replay.definition, replay.state


def definition_of(agent: AgentState, run: Run) -> Any:
    """The version of its definition that a run follows. Raises UnreadableError."""
    if run.definition is not None:
        return run.definition
    current = agent.library.get(run.engine.definition_kind, run.name)
    if current is not None and current.digest == run.digest:
        return current
    stored = agent.store.definition(run.digest)
    if stored is None:
        raise UnreadableError(
            f"the store lacks version {run.digest[:12]} of {run.name}, which run {run.eid} follows"
        )
    try:
        return read_definition(stored.kind, stored.path, stored.source)
    except NarvalError as error:
        raise UnreadableError(
            f"version {run.digest[:12]} of {run.name}, which run {run.eid} follows, cannot be read: {error}"
        ) from error


def migration_in(row: JournalRow) -> dict[str, Any] | None:
    """The event of an entry, as plain data, if it is a migration."""
    if Migrated.__name__.encode() not in row.data:
        return None
    event, _ = codec.read_entry(row.data)
    return event if event["type"] == Migrated.__name__ else None


def former_version(run: Run, event: dict[str, Any]) -> Any:
    """The version that a run followed before a migration. Raises UnreadableError."""
    try:
        return _read(run.engine.definition_kind, event["path"], event["former"])
    except DefinitionError as error:
        raise UnreadableError(f"the version before line {event['id']} cannot be read: {error}") from error


def definition_before(agent: AgentState, run: Run, rows: Iterable[JournalRow]) -> Any:
    """The version that a run followed before these entries, which are all entries after some point.

    Raises UnreadableError.
    """
    for row in rows:
        if (event := migration_in(row)) is not None:
            return former_version(run, event)
    return definition_of(agent, run)


_read = lru_cache(maxsize=64)(read_definition)
"""Read a version once for all runs that followed it: a thousand may migrate back together."""


class _Replay:
    """A state advanced by the journal, and the commands in force.

    `fault` says why it stops before the end of the journal: the state is then that of the entry before.
    """

    def __init__(self, agent: AgentState, run: Run, history: RunHistory | None = None) -> None:
        self.agent, self.run, self.engine = agent, run, run.engine
        self.definition = definition_of(agent, run)
        self.state = run.engine.state_type.blank(run.eid, self.definition)
        self.in_force = InForce()
        self.latest = 0.0
        self.fault: UnreadableError | None = None
        try:
            self._read(agent.store, run, history)
        except UnreadableError as error:
            self.fault = error
        except StoreError:
            raise
        except Exception as error:
            self.fault = UnreadableError(f"run {run.eid} of {run.name} cannot be rebuilt: {error!r}")

    def _read(self, store: AgentStore, run: Run, history: RunHistory | None) -> None:
        snapshot = store.snapshot(run.eid) if history is None else history.snapshot
        if snapshot is not None:
            self.state, commands = codec.decode_snapshot(snapshot.data, run.engine.state_type, self._element)
            self._give(commands)
        else:
            rows = store.journal(run.eid) if history is None else history.entries
            self.state = self.engine.state_type.blank(run.eid, definition_before(self.agent, run, rows))
        after = snapshot.seq if snapshot is not None else 0
        for row in store.journal(run.eid, after) if history is None else history.entries:
            entry = codec.decode_entry(row.data, run.engine.changes, self._element)
            self.latest = row.at
            self.follow(entry.event, entry.changes, entry.commands)

    def _element(self, eid: int) -> Element | None:
        """An element that a pattern in force refers to; the run itself (`$plan`) is as it was then."""
        if eid != self.run.eid:
            return self.agent.memory.element(eid)
        xml = self.engine.render(self.definition, self.state, self.agent.memory.contexts.of(eid))
        return Element(eid, xml, self.run.started, origin_of(self.run))

    def follow(self, event: Event | None, changes: Iterable[Any], commands: Iterable[Command]) -> None:
        """Apply one more entry; `event` may be None if it settles nothing in force."""
        self.in_force.note(event)
        for change in changes:
            change.apply(self.state)
        self._give(commands)

    def _give(self, commands: Iterable[Command]) -> None:
        """Add commands to those in force, or remove what they take back."""
        for command in commands:
            in_force = EFFECTS[type(command)].in_force
            if in_force is not None:
                in_force(self.in_force, command)
