"""What each inner command does to an agent (§ "One turn").

`AT_ONCE` are those that a later decision of the same advance may see: their effect is undone when the advance
raises. `AFTERWARDS` are those that none can see: they wait until the advance stands.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from narval.engines import commands
from narval.engines.events import Failure, Matched, Returned
from narval.memory.elements import changes
from narval.memory.elements.error_element import read_error
from narval.memory.retention import next_chunk
from narval.runtime.agent.jobs import ForgetRun, Job, StartRun
from narval.runtime.agent.run import Run

if TYPE_CHECKING:
    from narval.runtime.agent.turn import Turn

log = logging.getLogger("narval.turn")

IN_USE = 60.0
"""Seconds until what was to be forgotten, but for a call that still uses it, is looked at again."""

FORGOTTEN_AT_ONCE = 250
"""So many elements and runs are forgotten before the loop looks at its time again."""

Effect = Callable[["Turn", Run, Any], None]


# --- at once --------------------------------------------------------------------------------------------


def _add(turn: Turn, run: Run, command: commands.Add) -> None:
    turn.enter(command.element, held=run if command.held else None)


def _hold(turn: Turn, run: Run, command: commands.AddToContext) -> None:
    holds = turn.memory.contexts.holds
    new = tuple(eid for eid in command.eids if eid in turn.memory and not holds(run.eid, eid))
    if new:
        turn.fact(changes.Held(run.eid, new))


def _mark(turn: Turn, run: Run, command: commands.MarkUsed) -> None:
    marked = turn.memory.marks.get(command.scope, ())
    new = tuple(eid for eid in command.eids if eid not in marked)
    if new:
        turn.fact(changes.Used(command.scope, new))


def _reserve(turn: Turn, run: Run, command: commands.Reserve) -> None:
    turn.fact(changes.Reserved(tuple(eid for eid in command.eids if eid not in turn.memory.reserved)))
    run.reserved.update(dict.fromkeys(command.eids))


def _release(turn: Turn, run: Run, command: commands.Release) -> None:
    _let_go(turn, run, command.eids)
    for eid in command.eids:
        element = turn.memory.element(eid)
        if element is not None:
            turn.offer(element)


def _outdate(turn: Turn, run: Run, command: commands.Outdate) -> None:
    _let_go(turn, run, command.eids)
    turn.fact(changes.Outdated(tuple(eid for eid in command.eids if eid not in turn.memory.outdated)))


def _let_go(turn: Turn, run: Run, eids: tuple[int, ...]) -> None:
    turn.fact(changes.Released(tuple(eid for eid in eids if eid in turn.memory.reserved)))
    for eid in eids:
        run.reserved.pop(eid, None)


def _key(turn: Turn, run: Run, command: commands.RecordUnique) -> None:
    key = (command.name, command.expression, command.value)
    if key not in turn.memory.unique_values:
        turn.fact(changes.Keyed(*key))


def _watch(turn: Turn, run: Run, command: commands.Watch) -> None:
    turn.agent.watch(run, command)


def _unwatch(turn: Turn, run: Run, command: commands.Unwatch) -> None:
    turn.agent.unwatch(run, command.watch)


# --- afterwards -----------------------------------------------------------------------------------------


def _wake(turn: Turn, run: Run, command: commands.SetTimer) -> None:
    run.wakes[command.wake] = command
    turn.agent.timers.push(command.at, (run.eid, command.wake), None)


def _unwake(turn: Turn, run: Run, command: commands.CancelTimer) -> None:
    if run.wakes.pop(command.wake, None) is not None:
        turn.agent.timers.discard((run.eid, command.wake))


def _replaced(turn: Turn, run: Run, command: commands.Outdate) -> None:
    """What replaces a declared element is declared in its place; who waited for that one hears of it."""
    for eid in command.eids:
        if eid in turn.memory.declared:
            turn.transfer_declaration(eid, run)
    _tell_of_gone(turn, run, command)


def _tell_of_gone(turn: Turn, run: Run, command: commands.Outdate) -> None:
    """Steps that wait for a reserved element to come free hear that it was replaced (N18)."""
    for eid in command.eids:
        element = turn.memory.element(eid)
        if element is not None and turn.agent.outdated_watchers:
            tree = turn.memory.tree(element)
            for waiting, watch in turn.agent.outdated_watchers:
                bounds = turn.agent.runs[waiting].watches[watch].conditions
                if any(bound.test(tree) for bound in bounds):
                    turn.agent.queue.append((0, waiting, Matched(0, 0.0, watch, eid)))


def _forget(turn: Turn, run: Run, command: commands.ScheduleForget) -> None:
    run.decays = True
    turn.later(command.at, ForgetRun(run.eid))


def _start(turn: Turn, run: Run, command: commands.Start) -> None:
    deed = StartRun(command.name, command.elements, command.attempt)
    if command.at is None:
        _start_run(turn, deed)
    else:
        turn.later(command.at, deed)


def _finish(turn: Turn, run: Run, command: commands.Finish) -> None:
    run.phase, run.ended, run.error = command.phase, turn.at, command.error
    if run.reserved:  # a run that is over keeps nothing from others
        _release(turn, run, commands.Release(tuple(run.reserved)))
    turn.agent.end_run(run)
    turn.ended.append(run)
    if run.caller is not None:
        caller = turn.agent.active.get(run.caller.run)
        given_up = caller is not None and run.caller.call in caller.abandoned
        problem = None if command.phase == "done" else _problem_of(turn, run)
        back = Returned(0, 0.0, run.caller.call, eids=command.eids, problem=problem, abandoned=given_up)
        turn.agent.queue.append((0, run.caller.run, back))
    if turn.agent.idle is not None:
        turn.agent.idle.added(run.eid, turn.at)


def _problem_of(turn: Turn, run: Run) -> Failure:
    element = turn.memory.element(run.error) if run.error is not None else None
    if element is None:
        why = f"run {run.eid} of {run.name} was {run.phase}"
        return Failure(f"run-{run.phase}", why, final=run.phase == "cancelled")
    kind, message, _ = read_error(element)
    return Failure(kind, message)


def _call(turn: Turn, run: Run, command: commands.Call) -> None:
    run.calls[command.call] = command
    if turn.agent.idle is not None:
        for _, eids in command.inputs:
            turn.agent.idle.used(eids, turn.at)
    if command.inputs:
        turn.lend(command)
    turn.outer.append((run, command))


def _abandon(turn: Turn, run: Run, command: commands.CancelCall) -> None:
    run.abandoned[command.call] = None
    turn.outer.append((run, command))


def _answer(turn: Turn, run: Run, command: commands.Answer) -> None:
    turn.outer.append((run, command))


# --- at a moment ----------------------------------------------------------------------------------------


def do(turn: Turn, deed: Job) -> None:
    """Do what was to be done at a moment that has come."""
    _DEEDS[type(deed)](turn, deed)


def _forget_run(turn: Turn, deed: ForgetRun) -> None:
    """Forget a run and those it called, innermost first, part by part; what is left is for later turns."""
    agent = turn.agent
    top = agent.runs.get(deed.run)
    if top is None or top.active:
        return
    room, goes_too = FORGOTTEN_AT_ONCE, partial(agent.is_over_within, deed.run)
    while room > 0:
        run = agent.innermost(deed.run)
        going, staying, last = next_chunk(agent.memory, run, goes_too, room)
        if not turn.lent().isdisjoint(going):
            turn.later(turn.at + IN_USE, deed)
            return
        if staying and not last:  # else they leave with the run
            turn.change(changes.Unheld(run, staying))
            agent.runs[run].shown = None
        turn.forget(changes.Forgotten(going, (run,) if last else ()))
        if last and run == deed.run:
            return
        room -= len(going) + len(staying) + 1
    turn.later(turn.at, deed)


def _start_run(turn: Turn, deed: StartRun) -> None:
    there = tuple(eid for eid in deed.elements if eid in turn.memory)
    if turn.start(deed.name, there, attempt=deed.attempt) is None:
        log.warning("%s was to start again, but no such definition is loaded", deed.name)


# --- the tables -----------------------------------------------------------------------------------------

AT_ONCE: Mapping[type, Effect] = MappingProxyType(
    {
        commands.Add: _add,
        commands.AddToContext: _hold,
        commands.MarkUsed: _mark,
        commands.Reserve: _reserve,
        commands.Release: _release,
        commands.Outdate: _outdate,
        commands.RecordUnique: _key,
        commands.Watch: _watch,
        commands.Unwatch: _unwatch,
    }
)
AFTERWARDS: Mapping[type, Effect] = MappingProxyType(
    {
        commands.Outdate: _replaced,
        commands.SetTimer: _wake,
        commands.CancelTimer: _unwake,
        commands.ScheduleForget: _forget,
        commands.Start: _start,
        commands.Finish: _finish,
        commands.Call: _call,
        commands.CancelCall: _abandon,
        commands.Answer: _answer,
    }
)
_DEEDS: Mapping[type, Callable[[Turn, Any], None]] = MappingProxyType(
    {ForgetRun: _forget_run, StartRun: _start_run}
)
