"""A run at any point of its history: what was recorded up to it is applied, nothing is decided.

A point is the number of a line of the journal; lines of other runs lie between those of one run. Within an
entry the changes come before the commands given with them, so memory is shown as at the end of the point's
entry. If the first entries of a run are no longer kept, it can be shown from its snapshot on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from narval.agent.agent import AgentState
from narval.agent.replay import definition_before, former_version, migration_in
from narval.agent.run import Run
from narval.core.elements.element import Element
from narval.core.engines.events import Reusable
from narval.core.errors import RequestError, UnreadableError
from narval.store import codec
from narval.store.batch import JournalRow


class RunAt(NamedTuple):
    """A run after line `seq` of its history: the moment of that line, its state, and what it held then.

    `finish` has the fields of its end (state, phase, error), or None if it had not ended yet; `ended` is when
    it did.
    """

    seq: int
    at: float
    definition: Any
    state: Any
    context: tuple[int, ...]
    finish: dict[str, Any] | None
    ended: float | None


def given(agent: AgentState, run: Run) -> Iterator[Reusable]:
    """The elements that a run's calls were given, by step and input."""
    for row in agent.store.journal(run.eid):
        for fields in codec.describe_entry(row.data, None, row.seq):
            if fields["what"] == "Call":
                for slot, eids in fields.get("inputs", ()):
                    yield Reusable(fields["step"], slot, tuple(eids))


def environment_at_start(agent: AgentState, run: Run) -> dict[str, str]:
    """The attributes that a run began with. Raises RequestError if its beginning is no longer kept."""
    first = next(agent.store.journal(run.eid, most=1), None)
    began = codec.describe_entry(first.data)[0] if first is not None else {}
    if began.get("what") != "Started":
        raise RequestError(f"the beginning of run {run.eid} of {run.name} is no longer kept")
    return dict(began.get("environment", {}))


class _Line(NamedTuple):
    """One line of history: a fact, typed if it is a change, and the moment of its entry."""

    entry: int
    seq: int
    at: float
    what: str
    change: Any
    fields: dict[str, Any]


def past(agent: AgentState, run: Run, seq: int) -> RunAt:
    """The run after line `seq`. Raises RequestError if its history does not reach that far."""
    begun = snapshot_before(agent, run, seq)
    rows = list(agent.store.journal(run.eid))
    lines = [line for row in rows for line in _lines(agent, run, row)]
    if not begun.first <= seq <= lines[-1].seq:
        raise _out_of(run, f"lines {begun.first} to {lines[-1].seq}, got {seq}", whole=begun.whole)
    definition = definition_before(agent, run, (row for row in rows if row.seq > seq))
    reached, finish, ended = lines[0], None, None
    joined: dict[int, None] = {}
    for line in lines:
        if line.seq > seq and line.entry >= seq:
            break
        if line.seq <= seq:
            reached = line
        if line.change is not None:
            if begun.reached < line.seq <= seq:
                line.change.apply(begun.state)
            continue
        joined.update(dict.fromkeys(_joining(line)))
        if line.what == "Finish" and begun.state.status == line.fields["state"]:
            finish, ended = line.fields, line.at
    context = _context(agent, run, lines, joined, reached.at)
    return RunAt(reached.seq, reached.at, definition, begun.state, context, finish, ended)


class LastMigration(NamedTuple):
    """The migration that is the last entry of a run: its line and moment, the version before, and the line of
    the migration that it took back, or 0.
    """

    seq: int
    at: float
    definition: Any
    undoes: int


def last_migration(agent: AgentState, run: Run) -> LastMigration | None:
    """The migration of a run, if nothing has happened to the run since; else None."""
    row = next(agent.store.journal(run.eid, before=_LAST, most=1), None)
    event = migration_in(row) if row is not None else None
    if row is None or event is None or not _is_all_there_is(row):
        return None
    return LastMigration(row.seq, row.at, former_version(run, event), event.get("undoes", 0))


def state_before(agent: AgentState, run: Run, seq: int) -> Any:
    """The state of a run before the entry of line `seq`. Raises RequestError if it is not kept."""
    return past(agent, run, seq - 1).state


_QUIET = frozenset({"Watch", "Unwatch", "SetTimer", "CancelTimer"})
"""The commands of a migration after which the run still only waits, possibly for something else."""


def _is_all_there_is(row: JournalRow) -> bool:
    """True if the entry of a migration has no command, such as a call, that advanced the run at once."""
    _, asked = codec.read_entry(row.data)
    return all(command["type"] in _QUIET for command in asked)


_LAST = 2**62
"""A line after all lines of history."""


class RunSnapshot(NamedTuple):
    """The state of a run after line `reached`, from which its later entries continue. The run can be shown
    from line `first` on, which is its own beginning if it is `whole`.
    """

    definition: Any
    state: Any
    first: int
    whole: bool
    reached: int


def snapshot_before(agent: AgentState, run: Run, after: int) -> RunSnapshot:
    """The latest kept state of a run at or before line `after`; if its first entries are no longer kept, that
    of its snapshot. An unreadable snapshot is ignored if all entries are there. Raises RequestError if
    nothing is kept, and UnreadableError.
    """
    oldest = next(agent.store.journal(run.eid, most=1), None)
    if oldest is None:
        raise RequestError(f"run {run.eid} of {run.name} has no history yet")
    begun = codec.describe_entry(oldest.data)[0]
    first, is_whole = oldest.seq, begun["what"] == "Started"
    saved = agent.store.snapshot(run.eid) if not is_whole or after > first else None
    if saved is not None and (not is_whole or saved.seq <= after):
        definition = definition_before(agent, run, agent.store.journal(run.eid, saved.seq))
        try:
            state = codec.decode_snapshot(saved.data, run.engine.state_type, _elements(agent)).state
            return RunSnapshot(definition, state, first if is_whole else saved.seq, is_whole, saved.seq)
        except UnreadableError:
            if not is_whole:  # else its entries contain everything
                raise
    if not is_whole:
        raise _out_of(run, "nothing to go by", whole=False)
    definition = definition_before(agent, run, agent.store.journal(run.eid))
    return RunSnapshot(definition, run.engine.state_type.blank(run.eid, definition), first, True, 0)


class ReplayedEntry(NamedTuple):
    """One entry of the history of a run: its row (None if it is not shown), its changes, and the version that
    the run follows from then on, if it changes.
    """

    row: JournalRow | None
    changes: list[Any]
    definition: Any


def replayed_entries(agent: AgentState, run: Run, reached: int, after: int) -> Iterator[ReplayedEntry]:
    """The entries of a run after line `reached`, read lazily; those up to line `after` are not shown. Raises
    UnreadableError.
    """
    for row in agent.store.journal(run.eid, reached):
        entry = codec.decode_entry(row.data, run.engine.changes, _elements(agent))
        is_told = row.seq + entry.lines - 1 > after
        definition = None
        if migration_in(row) is not None:  # the store keeps a version between two only with the later one
            definition = definition_before(agent, run, agent.store.journal(run.eid, row.seq))
        yield ReplayedEntry(row if is_told else None, entry.changes, definition)


def _out_of(run: Run, reaches: str, *, whole: bool) -> RequestError:
    remark = "" if whole else "; what was before is no longer kept"
    return RequestError(f"the history of run {run.eid} of {run.name} has {reaches}{remark}")


def _lines(agent: AgentState, run: Run, row: JournalRow) -> Iterator[_Line]:
    """The lines of one entry: the event, the changes, the commands."""
    changes = codec.decode_entry(row.data, run.engine.changes, _elements(agent)).changes
    for at, fields in enumerate(codec.describe_entry(row.data, None, row.seq)):
        change = changes[at - 1] if 0 < at <= len(changes) else None
        yield _Line(row.seq, fields["seq"], row.at, fields["what"], change, fields)


def _elements(agent: AgentState) -> codec.Lookup:
    """The lookup for variables of patterns, which are read here but not evaluated; it does not find the run
    itself.
    """

    def element(eid: int) -> Element | None:
        return agent.memory.element(eid) if not agent.memory.is_run(eid) else None

    return element


def _joining(line: _Line) -> tuple[int, ...]:
    """The elements that a command adds to the context of the run."""
    if line.change is None and line.what == "AddToContext":
        return tuple(line.fields["eids"])
    if line.change is None and line.what == "Add" and line.fields.get("held", True):
        return (line.fields["element"],)
    return ()


def _context(
    agent: AgentState, run: Run, lines: list[_Line], joined: dict[int, None], at: float
) -> tuple[int, ...]:
    """The context of the run: elements that had joined by then, and those whose joining is not in the
    journal.
    """
    dated = {eid for line in lines for eid in _joining(line)}
    for eid in agent.memory.contexts.of(run.eid):
        element = agent.memory.element(eid)
        if eid not in dated and element is not None and element.added <= at:
            joined[eid] = None
    return tuple(sorted(joined))
