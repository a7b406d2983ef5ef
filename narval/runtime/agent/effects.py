"""The effects of each command: on a transaction, and on a run that is replayed (§ "One turn").

`EFFECTS` has a row for each command there is:

- `at_once`: its effect when it is given, for later decisions of the same advance may read it; undone when the
  advance raises.
- `deferred`: its effect once `advance` has returned, which no later decision of the same advance reads.
- `replayed`: its effect on the commands in force, as the journal of a run is read back.
- `restored`: its effect on an agent, where it is still in force at the end of the journal.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from narval.engines import commands
from narval.engines.events import Matched
from narval.memory.elements import changes
from narval.memory.elements.element import Origin
from narval.runtime.agent.agent import AgentState
from narval.runtime.agent.jobs import ForgetRun, StartRun
from narval.runtime.agent.run import Run
from narval.runtime.agent.runs import end_run, start_run
from narval.runtime.agent.transaction import Transaction
from narval.runtime.store.codec import Tracked

log = logging.getLogger("narval.turn")

InForce = dict[tuple[type, str], Tracked]
"""The commands of a run whose effect goes on, by type and what they name."""


class Effect(NamedTuple):
    """A row of the table: the effects of one command, None where it has none."""

    at_once: Callable[[Transaction, Run, Any], None] | None = None
    deferred: Callable[[Transaction, Run, Any], None] | None = None
    replayed: Callable[[InForce, Any], None] | None = None
    restored: Callable[[AgentState, Run, Any], None] | None = None


# --- memory ---------------------------------------------------------------------------------------------


def _add(transaction: Transaction, run: Run, command: commands.Add) -> None:
    transaction.enter(command.element, held=run if command.held else None)


def _add_to_context(transaction: Transaction, run: Run, command: commands.AddToContext) -> None:
    memory = transaction.agent.memory
    holds = memory.contexts.holds
    new = tuple(eid for eid in command.eids if eid in memory and not holds(run.eid, eid))
    if new:
        transaction.fact(changes.Held(run.eid, new))


def _mark_used(transaction: Transaction, run: Run, command: commands.MarkUsed) -> None:
    marked = transaction.agent.memory.marks.get(command.scope, ())
    new = tuple(eid for eid in command.eids if eid not in marked)
    if new:
        transaction.fact(changes.Used(command.scope, new, run.eid))


def _record_unique(transaction: Transaction, run: Run, command: commands.RecordUnique) -> None:
    key = (command.name, command.expression, command.value)
    if key not in transaction.agent.memory.unique_values:
        transaction.fact(changes.Keyed(*key))


# --- reservations ---------------------------------------------------------------------------------------


def _reserve(transaction: Transaction, run: Run, command: commands.Reserve) -> None:
    reserved = transaction.agent.memory.reserved
    transaction.fact(changes.Reserved(tuple(eid for eid in command.eids if eid not in reserved)))
    run.reserved.update(dict.fromkeys(command.eids))


def _release(transaction: Transaction, run: Run, command: commands.Release) -> None:
    _let_go(transaction, run, command.eids)
    for eid in command.eids:
        element = transaction.agent.memory.element(eid)
        if element is not None:
            transaction.offer(element)


def _outdate(transaction: Transaction, run: Run, command: commands.Outdate) -> None:
    _let_go(transaction, run, command.eids)
    outdated = transaction.agent.memory.outdated
    transaction.fact(changes.Outdated(tuple(eid for eid in command.eids if eid not in outdated)))


def _let_go(transaction: Transaction, run: Run, eids: tuple[int, ...]) -> None:
    reserved = transaction.agent.memory.reserved
    transaction.fact(changes.Released(tuple(eid for eid in eids if eid in reserved)))
    for eid in eids:
        run.reserved.pop(eid, None)


def _outdated(transaction: Transaction, run: Run, command: commands.Outdate) -> None:
    """Declare what replaces a declared element; tell runs that wait for a reserved one of it (N18)."""
    agent = transaction.agent
    for eid in command.eids:
        if eid in agent.memory.declared:
            _transfer_declaration(transaction, run, eid)
    for eid in command.eids if agent.watches.any_of_outdated else ():
        element = agent.memory.element(eid)
        if element is not None:
            for waiting, watch in agent.watches.of_outdated(agent.memory.tree(element), agent.runs):
                agent.queue.append((0, waiting, Matched(0, 0.0, watch, eid)))


def _transfer_declaration(transaction: Transaction, run: Run, eid: int) -> None:
    """Declare in place of an element the one of its name that a run has just made of it, so that what
    memory.xml says is always there is not forgotten (N4, N5).
    """
    memory, added = transaction.agent.memory, transaction.batch.elements
    old = memory.element(eid)
    made = [
        place
        for place, (new, origin) in enumerate((row.element, row.element.origin) for row in added)
        if origin is not None and origin.run == run.eid and eid in origin.inputs
        if old is not None and new.name == old.name
    ]
    if len(made) == 1:
        new, key = added[made[0]].element, memory.declared[eid]
        added[made[0]] = changes.Added(new, key)
        memory.declared[new.eid] = key
        transaction.change(changes.Undeclared((eid,)))


def _keep_reserved(force: InForce, command: commands.Reserve) -> None:
    _reserve_in(force, {**_reserved_in(force), **dict.fromkeys(command.eids)})


def _keep_released(force: InForce, command: commands.Release) -> None:
    _reserve_in(force, {eid: None for eid in _reserved_in(force) if eid not in command.eids})


def _reserved_in(force: InForce) -> dict[int, None]:
    held = force.get((commands.Reserve, ""))
    return dict.fromkeys(held.eids if isinstance(held, commands.Reserve) else ())


def _reserve_in(force: InForce, eids: dict[int, None]) -> None:
    force[commands.Reserve, ""] = commands.Reserve(tuple(eids))


def _restore_reserved(agent: AgentState, run: Run, command: commands.Reserve) -> None:
    memory = agent.memory
    run.reserved.update((eid, None) for eid in command.eids if eid in memory and eid not in memory.outdated)
    memory.reserved.update(run.reserved)


# --- watches and timers ---------------------------------------------------------------------------------


def _watch(transaction: Transaction, run: Run, command: commands.Watch) -> None:
    transaction.agent.watches.add(run, command)


def _unwatch(transaction: Transaction, run: Run, command: commands.Unwatch) -> None:
    transaction.agent.watches.remove(run, command.watch)


def _restore_watch(agent: AgentState, run: Run, command: commands.Watch) -> None:
    agent.watches.add(run, command)


def _set_timer(transaction: Transaction, run: Run, command: commands.SetTimer) -> None:
    run.wakes[command.wake] = command
    transaction.agent.clockwork.timers.push(command.at, (run.eid, command.wake), None)


def _cancel_timer(transaction: Transaction, run: Run, command: commands.CancelTimer) -> None:
    if run.wakes.pop(command.wake, None) is not None:
        transaction.agent.clockwork.timers.discard((run.eid, command.wake))


def _restore_timer(agent: AgentState, run: Run, command: commands.SetTimer) -> None:
    run.wakes[command.wake] = command
    agent.clockwork.timers.push(command.at, (run.eid, command.wake), None)


# --- runs -----------------------------------------------------------------------------------------------


def _schedule_forget(transaction: Transaction, run: Run, command: commands.ScheduleForget) -> None:
    run.schedule_forget()
    transaction.later(command.at, ForgetRun(run.eid))


def _start(transaction: Transaction, run: Run, command: commands.Start) -> None:
    job = StartRun(command.name, command.elements, command.attempt, run.by)
    if command.at is None:
        start_again(transaction, job)
    else:
        transaction.later(command.at, job)


def start_again(transaction: Transaction, job: StartRun) -> None:
    """Begin a top-level run with those of its elements that are still there."""
    there = tuple(eid for eid in job.elements if eid in transaction.agent.memory)
    if start_run(transaction, job.name, there, attempt=job.attempt, origin=Origin(by=job.by)) is None:
        log.warning("%s was to start again, but no such definition is loaded", job.name)


def _finish(transaction: Transaction, run: Run, command: commands.Finish) -> None:
    if run.reserved:  # a run that is over keeps nothing from others
        _release(transaction, run, commands.Release(tuple(run.reserved)))
    end_run(transaction, run, command)


# --- calls ----------------------------------------------------------------------------------------------


def _call(transaction: Transaction, run: Run, command: commands.Call) -> None:
    run.calls[command.call] = command
    if command.inputs:
        idle = transaction.agent.clockwork.idle
        if idle is not None:
            for _, eids in command.inputs:
                idle.used(eids, transaction.at)
        transaction.in_use.add(command)
    transaction.outer.append((run, command))


def _cancel_call(transaction: Transaction, run: Run, command: commands.CancelCall) -> None:
    run.abandoned[command.call] = None
    transaction.outer.append((run, command))


def _answer(transaction: Transaction, run: Run, command: commands.Answer) -> None:
    transaction.outer.append((run, command))


def _restore_call(agent: AgentState, run: Run, command: commands.Call) -> None:
    run.calls[command.call] = command


def _restore_cancelled(agent: AgentState, run: Run, command: commands.CancelCall) -> None:
    run.abandoned[command.call] = None


# --- what goes on ---------------------------------------------------------------------------------------


def _name_of(command: Tracked) -> str:
    """The name of a call, watch or timer: the first field of the commands about it."""
    name: str = getattr(command, command.__struct_fields__[0])
    return name


def _keep(force: InForce, command: Tracked) -> None:
    force[type(command), _name_of(command)] = command


def _drop(begun: type) -> Callable[[InForce, Tracked], Any]:
    """The end of what a command of type `begun` has begun."""
    return lambda force, command: force.pop((begun, _name_of(command)), None)


# --- the table ------------------------------------------------------------------------------------------

EFFECTS: Mapping[type, Effect] = MappingProxyType(
    {
        commands.Add: Effect(_add),
        commands.AddToContext: Effect(_add_to_context),
        commands.MarkUsed: Effect(_mark_used),
        commands.RecordUnique: Effect(_record_unique),
        commands.Reserve: Effect(_reserve, None, _keep_reserved, _restore_reserved),
        commands.Release: Effect(_release, None, _keep_released),
        commands.Outdate: Effect(_outdate, _outdated),
        commands.Watch: Effect(_watch, None, _keep, _restore_watch),
        commands.Unwatch: Effect(_unwatch, None, _drop(commands.Watch)),
        commands.SetTimer: Effect(None, _set_timer, _keep, _restore_timer),
        commands.CancelTimer: Effect(None, _cancel_timer, _drop(commands.SetTimer)),
        commands.ScheduleForget: Effect(None, _schedule_forget),
        commands.Start: Effect(None, _start),
        commands.Finish: Effect(None, _finish),
        commands.Call: Effect(None, _call, _keep, _restore_call),
        commands.CancelCall: Effect(None, _cancel_call, _keep, _restore_cancelled),
        commands.Answer: Effect(None, _answer),
    }
)
AT_ONCE = {command: row.at_once for command, row in EFFECTS.items() if row.at_once is not None}
DEFERRED = {command: row.deferred for command, row in EFFECTS.items() if row.deferred is not None}
REPLAYED = {command: row.replayed for command, row in EFFECTS.items() if row.replayed is not None}
RESTORED = {command: row.restored for command, row in EFFECTS.items() if row.restored is not None}
