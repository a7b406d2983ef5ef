"""An agent as its store says it is (N35): what was recorded is applied, nothing is decided again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec
from lxml import etree

from narval.engines import RUN_KINDS
from narval.engines.commands import Abandon, Call, Release, Reserve, Unwake, Unwatch, Wake, Watch
from narval.engines.events import Caller
from narval.errors import NarvalError, StoreError, UnreadableError
from narval.memory.element import Element
from narval.runtime import codec
from narval.runtime.agents import Agent, Run, origin_of
from narval.runtime.deeds import Forgetting, decode_deed
from narval.runtime.loader import read_definition
from narval.runtime.losses import LostDeed, LostEvent, LostOrigin
from narval.runtime.store import Advance, KeptElement, RunRow, Store


def restore(agent: Agent, store: Store) -> None:
    """Fill an empty agent from its store."""
    memory = agent.memory
    agent.render = partial(render, agent, store)
    memory.fill(_noted(agent, store.elements()))
    for run, held in groupby(store.contexts(), key=itemgetter(0)):
        memory.contexts.join(run, [eid for _, eid in held])
    for definition, place, slot, eid in store.marks():
        memory.marks.setdefault((definition, place, slot), set()).add(eid)
    memory.keys.update(store.keys())
    memory.next_eid = max(memory.next_eid, int(store.meta.get("next_eid", "1")))
    agent.sequence = int(store.meta.get("sequence", "0"))


def _noted(agent: Agent, kept: Iterable[KeptElement]) -> Iterator[tuple[Element, str, bool]]:
    """What memory is filled with, while the agent learns what else there is to know of each."""
    for element, declared, outdated, fault in kept:
        if fault:
            agent.losses.append(LostOrigin(fault, element.eid))
        if agent.idle is not None:
            agent.idle.added(element.eid, element.added)
        yield element, declared, outdated


def restore_runs(agent: Agent, store: Store) -> None:
    """Bring the runs back: those under way whole, those that are over by their row alone."""
    for row in store.runs():
        run = _run_of(row)
        agent.enlist(run)
        agent.latest = max(agent.latest, row.started, row.ended or 0.0)
        if agent.idle is not None and row.ended is not None:
            agent.idle.used(agent.memory.contexts.of(row.eid), row.ended)
            agent.idle.added(row.eid, row.ended)
    for run in agent.active.values():
        try:
            rebuild(agent, store, run, ())
        except UnreadableError as error:
            agent.unreadable[run.eid] = str(error)
    for run in agent.active.values():
        _nest(agent, run)
    for number, run_eid, data in store.queue():
        try:
            agent.queue.append((number, run_eid, codec.decode_event(data)))
        except UnreadableError as error:
            agent.losses.append(LostEvent(str(error), number, run_eid))
            if run_eid in agent.active:
                agent.unreadable.setdefault(run_eid, str(error))
    for identifier, at, data in store.moments():
        try:
            deed = decode_deed(data)
        except UnreadableError as error:
            agent.losses.append(LostDeed(str(error), identifier, at))
            continue
        agent.moments.push(at, (0, identifier), deed)
        if isinstance(deed, Forgetting) and deed.run in agent.runs:
            agent.runs[deed.run].decays = True


def rebuild(agent: Agent, store: Store, run: Run, pending: Iterable[Advance]) -> None:
    """The state of a run, and what it waits for, from snapshot, journal, and entries not committed yet.

    Raises UnreadableError, and then the run has no state.
    """
    run.state = None
    run.definition = definition_of(agent, store, run)
    replay = _Replay(agent, store, run)
    if replay.fault is not None:
        raise replay.fault
    for each in pending:
        event = msgspec.structs.asdict(each.event)
        replay.follow(type(each.event).__name__, event, each.changes, each.commands)
    run.state, run.entries = replay.state, replay.entries
    run.word = run.engine.word(run.state)
    run.reserved.clear()
    run.version += 1
    for command in replay.force.values():
        if isinstance(command, Call):
            run.calls[command.call] = command
        elif isinstance(command, Watch):
            agent.watch(run, command)
        elif isinstance(command, Wake):
            run.wakes[command.wake] = command
            agent.moments.push(command.at, (run.eid, command.wake), None)
        elif isinstance(command, Abandon):
            run.abandoned[command.call] = None
        elif isinstance(command, Reserve):
            memory = agent.memory
            kept = (eid for eid in command.eids if eid in memory and eid not in memory.outdated)
            run.reserved.update(dict.fromkeys(kept))
            agent.memory.reserved.update(run.reserved)


def render(agent: Agent, store: Store, eid: int) -> Element:
    """A run as an element of memory, rendered once for each version of its state (N2)."""
    run = agent.runs[eid]
    if run.shown is None or run.shown[0] != run.version:
        try:
            state, definition = state_of(agent, store, run), definition_of(agent, store, run)
            xml = run.engine.render(definition, state, agent.memory.contexts.of(run.eid))
        except UnreadableError:
            xml = _outline(run)
        run.shown = (run.version, Element(run.eid, xml, run.started, origin_of(run)))
    shown = run.shown[1]
    if not run.active:
        agent.keep_drawn(run)
    return shown


def state_of(agent: Agent, store: Store, run: Run) -> Any:
    """The state of a run; of one that is over, from the journal."""
    if run.state is not None:
        return run.state
    replay = _Replay(agent, store, run)
    if replay.fault is not None:
        raise replay.fault
    return replay.state


def as_far_as_readable(agent: Agent, store: Store, run: Run) -> tuple[Any, Any]:
    """The definition and the last state that can be read of a run that cannot be read whole, or Nones."""
    try:
        replay = _Replay(agent, store, run)
    except UnreadableError:
        return None, None
    return replay.definition, replay.state


def _outline(run: Run) -> bytes:
    """A run of which nothing is known but its row."""
    root = etree.Element(run.kind, name=run.name, state=run.word, unreadable="yes")
    return etree.tostring(root, encoding="utf-8")


def definition_of(agent: Agent, store: Store, run: Run) -> Any:
    """The version of the definition that a run began with."""
    if run.definition is not None:
        return run.definition
    current = agent.library.get(run.engine.definition_kind, run.name)
    if current is not None and current.digest == run.digest:
        return current
    stored = store.definition(run.digest)
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


def in_force(run: Run) -> list[codec.Tracked]:
    """The commands of a run whose effect goes on: what a snapshot keeps beside the state."""
    tracked: list[codec.Tracked] = [*run.calls.values(), *run.watches.values(), *run.wakes.values()]
    tracked += [Abandon(call) for call in run.abandoned]
    return [*tracked, Reserve(tuple(run.reserved))] if run.reserved else tracked


class _Replay:
    """A state that grows by what the journal says, and the commands in force.

    `fault` says why it ends before the journal does: then the state is that of the entry before.
    """

    def __init__(self, agent: Agent, store: Store, run: Run) -> None:
        self.agent, self.run, self.engine = agent, run, run.engine
        self.definition = definition_of(agent, store, run)
        self.state = run.engine.begin(run.eid, self.definition)
        self.force: dict[tuple[type, str], codec.Tracked] = {}
        self.entries = 0
        self.fault: UnreadableError | None = None
        try:
            self._read(store, run)
        except UnreadableError as error:
            self.fault = error
        except StoreError:
            raise
        except Exception as error:
            self.fault = UnreadableError(f"run {run.eid} of {run.name} cannot be rebuilt: {error!r}")

    def _read(self, store: Store, run: Run) -> None:
        snapshot = store.snapshot(run.eid)
        if snapshot is not None:
            self.state, commands = codec.decode_snapshot(snapshot.data, run.engine.state_type, self._element)
            for command in commands:
                _track(self.force, command)
        for row in store.journal(run.eid, snapshot.seq if snapshot is not None else 0):
            entry = codec.decode_entry(row.data, run.engine.changes, self._element)
            self.agent.latest = max(self.agent.latest, row.at)
            self.follow(str(entry.event.get("type")), entry.event, entry.changes, entry.commands)

    def _element(self, eid: int) -> Element | None:
        """An element that a pattern in force refers to; the run itself (`$plan`) is as it was by then."""
        if eid != self.run.eid:
            return self.agent.memory.element(eid)
        xml = self.engine.render(self.definition, self.state, self.agent.memory.contexts.of(eid))
        return Element(eid, xml, self.run.started, origin_of(self.run))

    def follow(
        self, what: str, event: dict[str, Any], changes: Iterable[Any], commands: Iterable[Any]
    ) -> None:
        """One entry more."""
        self.entries += 1
        if what == "Returned":
            self.force.pop((Call, event["call"]), None)
            self.force.pop((Abandon, event["call"]), None)
        elif what == "Begun" and isinstance(call := self.force.get((Call, event["call"])), Call):
            self.force[Call, call.call] = msgspec.structs.replace(call, begun=True)
        elif what == "Woken":
            self.force.pop((Wake, event["wake"]), None)
        for change in changes:
            self.engine.apply(self.state, change)
        for command in commands:
            _track(self.force, command)


def _track(force: dict[tuple[type, str], codec.Tracked], command: codec.Tracked) -> None:
    """Add a command to those in force, or end the one it takes back."""
    if isinstance(command, Call):
        force[Call, command.call] = command
    elif isinstance(command, Watch):
        force[Watch, command.watch] = command
    elif isinstance(command, Unwatch):
        force.pop((Watch, command.watch), None)
    elif isinstance(command, Wake):
        force[Wake, command.wake] = command
    elif isinstance(command, Unwake):
        force.pop((Wake, command.wake), None)
    elif isinstance(command, Abandon):
        force[Abandon, command.call] = command
    elif isinstance(command, Reserve | Release):
        held = force.get((Reserve, ""))
        eids = dict.fromkeys(held.eids if isinstance(held, Reserve) else ())
        if isinstance(command, Reserve):
            eids.update(dict.fromkeys(command.eids))
        else:
            for eid in command.eids:
                eids.pop(eid, None)
        force[Reserve, ""] = Reserve(tuple(eids))


def _nest(agent: Agent, run: Run) -> None:
    """What was nearest to the calling step stands in the call, not in the row of the run."""
    parent = agent.active.get(run.caller.run) if run.caller is not None else None
    call = parent.calls.get(run.caller.call) if parent is not None and run.caller is not None else None
    if run.caller is not None and call is not None:
        run.caller = msgspec.structs.replace(run.caller, near=call.near)


def _run_of(row: RunRow) -> Run:
    engine = RUN_KINDS[row.kind]
    caller = None
    if row.parent_run is not None:
        caller = Caller(row.parent_run, row.parent_step, row.parent_call)
    run = Run(row.eid, engine, row.name, row.digest, row.started or 0.0, caller, row.attempt)
    run.word, run.phase, run.ended, run.error = row.state, row.phase, row.ended, row.error
    return run
