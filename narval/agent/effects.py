"""The effects of commands within a turn, by the table of `narval.core.engines.effects` (§ "One turn")."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from narval.agent.agent import OVER_LIMIT, AgentState
from narval.agent.run import Run
from narval.agent.runs import answer_run, cannot_start, deliver_signal, end_run, start_run, take_back
from narval.agent.timers import ForgetRun, GiveUpCall, StartRun
from narval.agent.transaction import CallGivenUp, Transaction
from narval.core.elements import changes
from narval.core.elements.element import Element, Origin
from narval.core.elements.own_elements import FAILURE
from narval.core.engines import commands
from narval.core.engines.commands import Command
from narval.core.engines.effects import EFFECTS
from narval.core.engines.events import Matched, Returned
from narval.core.engines.registry import runnable
from narval.core.errors import ActionError
from narval.core.memory.labels import recorded
from narval.core.memory.lineage import in_force
from narval.store.batch import Offer

log = logging.getLogger("narval.turn")

Handler = Callable[[Any, Any, Any], None]
"""A function of the effects of a turn, the run, and the command."""


class TurnEffects:
    """The acts of an agent that follow from commands: some take effect as they are given, others after the
    decision.
    """

    def __init__(self, transaction: Transaction) -> None:
        self._transaction, self._agent = transaction, transaction.agent

    def apply(self, run: int, command: Command) -> None:
        """Apply a command that later decisions of the same advance may read."""
        kind = type(command)
        facts = _FACTS.get(kind)
        if facts is not None:
            for fact in facts(run, command):
                self._transaction.fact(fact)
        at_once = _AT_ONCE.get(kind)
        if at_once is not None:
            in_force, act = at_once
            active = self._agent.runs[run]
            if in_force is not None:
                in_force(active, command)
            if act is not None:
                act(self, active, command)

    def complete(self, run: Run, commands: Iterable[Command]) -> None:
        """Apply the commands that are deferred until `advance` returns."""
        for command in commands:
            in_force, act = _DEFERRED[type(command)]
            if in_force is not None:
                in_force(run, command)
            if act is not None:
                act(self, run, command)

    # --- elements -------------------------------------------------------------------------------------

    def offer_released(self, run: Run, command: commands.Release) -> None:
        """Offer the released elements to the runs that watch for them."""
        for eid in command.eids:
            element = self._agent.memory.element(eid)
            if element is not None:
                self._transaction.offer(element)

    def follow_outdated(self, run: Run, command: commands.Outdate) -> None:
        """Declare what replaces a declared element, and tell runs that wait for a reserved one (N18)."""
        agent = self._agent
        for eid in command.eids:
            if eid in agent.memory.declared:
                self._transfer_declaration(run, eid)
        notify_of_gone(agent, command.eids)

    def _transfer_declaration(self, run: Run, eid: int) -> None:
        """Declare, in place of an element, the one of the same name that a run has just made from it: what
        memory.xml declares must not be forgotten.
        """
        memory, added = self._agent.memory, self._transaction.batch.elements
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
            self._transaction.change(changes.Undeclared((eid,)))

    # --- watches and timers -----------------------------------------------------------------------------

    def watch(self, run: Run, command: commands.Watch) -> None:
        """Wake the run for matching elements."""
        self._agent.watches.add(run.eid, command)

    def unwatch(self, run: Run, command: commands.Unwatch) -> None:
        """Stop waking the run for matching elements."""
        self._agent.watches.remove(run.eid, command.watch)

    def admit_timer(self, run: Run, command: commands.SetTimer) -> None:
        """Raise ActionError if the agent already waits for the maximum number of moments."""
        if command.wake not in run.wakes and (over := self._agent.excess_of_timers()):
            raise ActionError(over, OVER_LIMIT, final=True)

    def set_timer(self, run: Run, command: commands.SetTimer) -> None:
        """Wake the run at a moment."""
        self._agent.clockwork.timers.push(command.at, (run.eid, command.wake), None)

    def cancel_timer(self, run: Run, command: commands.CancelTimer) -> None:
        """Cancel the wake-up of the run at a moment."""
        self._agent.clockwork.timers.discard((run.eid, command.wake))

    # --- runs -------------------------------------------------------------------------------------------

    def schedule_forget(self, run: Run, command: commands.ScheduleForget) -> None:
        """Forget the run at a moment."""
        run.schedule_forget()
        self._transaction.later(command.at, ForgetRun(run.eid))

    def start_run(self, run: Run, command: commands.Start) -> None:
        """Start another run, now or at a moment."""
        job = StartRun(
            command.name,
            command.elements,
            command.attempt,
            run.by,
            run.actor,
            dict(run.ancestors),
            after=run.eid,
        )
        agent, at = self._agent, command.at
        if not command.attempt:
            at, job = agent.pacing.pace(run, self._transaction.at, at, job)
        if at is None:
            start_again(self._transaction, job)
        else:
            self._transaction.later(at, job)

    def finish_run(self, run: Run, command: commands.Finish) -> None:
        """End the run, tell its caller, and release its reservations."""
        if run.reserved:
            release = commands.Release(tuple(run.reserved))
            self.apply(run.eid, release)
        end_run(self._transaction, run, command)
        if self._agent.clockwork.held:
            start_what_may(self._transaction)
        if run.retry_of and run.caller is None and command.phase != "cancelled":
            _settle_failure(self._transaction, run.retry_of)
        if command.after and command.phase == "done":
            _settle_row(self._transaction, command.after)

    # --- outside ----------------------------------------------------------------------------------------

    def make_call(self, run: Run, command: commands.Call) -> None:
        """Queue the call, made once the turn is recorded; one to another agent is in the record (G33)."""
        if command.inputs:
            idle = self._agent.clockwork.idle
            if idle is not None:
                for _, eids in command.inputs:
                    idle.used(eids, self._transaction.at)
            self._transaction.in_use.add(command)
        if command.kind == commands.SIGNAL:
            deliver_signal(self._transaction, run, command)
        elif command.agent:
            self._transaction.remote.append((run, command))
        else:
            self._transaction.outer.append((run, command))

    def perform(self, run: Run, command: commands.CancelCall | commands.Answer) -> None:
        """Queue the command to be performed once the turn is recorded. A call that another agent answers is
        given up there; one between two runs is settled within the turn.
        """
        if isinstance(command, commands.Answer) and answer_run(self._transaction, run, command):
            return
        call = run.calls.get(command.call) if isinstance(command, commands.CancelCall) else None
        if call is not None and call.kind == commands.SIGNAL:
            take_back(self._transaction, run, call)
        elif call is not None and call.agent:
            self._transaction.remote.append((run, CallGivenUp(call)))
        else:
            self._transaction.outer.append((run, command))


_ACTS: dict[type, Handler] = {kind: getattr(TurnEffects, row.act) for kind, row in EFFECTS.items() if row.act}
_FACTS = {kind: row.facts for kind, row in EFFECTS.items() if row.facts is not None}
_AT_ONCE = {kind: (row.in_force, _ACTS.get(kind)) for kind, row in EFFECTS.items() if row.at_once}
_AT_ONCE |= {kind: (None, getattr(TurnEffects, row.admit)) for kind, row in EFFECTS.items() if row.admit}
_DEFERRED = {
    kind: (None, None) if row.at_once else (row.in_force, _ACTS.get(kind)) for kind, row in EFFECTS.items()
}


def _settle_row(transaction: Transaction, run: int) -> None:
    """Outdate the failure of a run, of the failed run that it followed, and so on."""
    while run:
        failure = _settle_failure(transaction, run)
        run = int(failure.attributes.get("after", 0)) if failure is not None else 0


def _settle_failure(transaction: Transaction, run: int) -> Element | None:
    """Outdate the failure of a run and return it, if there is one: another run has succeeded in its place, or
    has a failure of its own.
    """
    memory = transaction.agent.memory
    for eid in reversed(list(memory.contexts.of(run))):
        element = memory.element(eid)
        origin = element.origin if element is not None and element.name == FAILURE else None
        if origin is not None and (origin.run, origin.call) == (run, ""):
            if eid not in memory.outdated:
                outdate(transaction, (eid,))
            return element
    return None


def outdate(transaction: Transaction, eids: tuple[int, ...]) -> None:
    """Outdate elements that no run replaced, and tell runs that watch for that."""
    transaction.change(changes.Outdated(eids))
    notify_of_gone(transaction.agent, eids)


def notify_of_gone(agent: AgentState, eids: tuple[int, ...], *, are_forgotten: bool = False) -> None:
    """Notify runs that depend on these elements that they are replaced or about to be forgotten."""
    for eid in eids if agent.watches.any_of_gone else ():
        for waiting, watch in agent.watches.watchers_of(eid):
            agent.queue.put_first(waiting, Matched(0, 0.0, watch, eid))
        run = agent.runs.get(eid)
        if run is not None and not agent.watches.misses(run.kind):
            continue
        element = agent.memory.element(eid)
        if element is None or not agent.watches.misses(element.name):
            continue
        if not are_forgotten:
            agent.queue.append((0, 0, Offer(eid, gone=True)))
            continue
        for waiting, watch in agent.watches.watchers_of_gone(agent.memory.tree(element)):
            agent.queue.append((0, waiting, Matched(0, 0.0, watch, eid)))


def do_later(transaction: Transaction, job: StartRun | GiveUpCall) -> None:
    """Do what was put off: start a run, or stop waiting for a call that was given up (G35)."""
    if isinstance(job, GiveUpCall):
        transaction.agent.queue.append((0, job.run, Returned(0, 0.0, job.call, abandoned=True)))
    else:
        start_again(transaction, job)


def start_again(transaction: Transaction, job: StartRun) -> None:
    """Start a top-level run with the current versions of its elements.

    While something prevents the start, it waits.
    """
    agent = transaction.agent
    if why := keeps_from_beginning(agent, job):
        log.warning("%s starts again, and waits: %s", job.name, why)
        transaction.later(None, job)
        return
    memory = agent.memory
    there = tuple(dict.fromkeys(version for eid in job.elements for version in in_force(memory, eid)))
    origin = Origin(by=job.by, actor=job.actor)
    more: dict[str, Any] = {
        "attempt": job.attempt,
        "after": job.after if job.attempt else 0,
        "origin": origin,
        "ancestors": job.ancestors,
        "laps": job.laps,
    }
    with transaction.coming_with(memory.labels.number(recorded(job.labels, job.hearsay))):
        start_run(transaction, job.name, there, **more)


def keeps_from_beginning(agent: AgentState, job: StartRun) -> str:
    """The reason why a run cannot start yet: the agent has reached its limit of runs, or the definition is
    not loaded or cannot start, such as one whose needs are not granted; "" if it can.
    """
    if over := agent.excess_of_runs():
        return f"{OVER_LIMIT}: {over}"
    definition = runnable(agent.library, job.name)
    if definition is None:
        return f"no definition {job.name} is loaded"
    return (cannot_start(agent, definition) or ("", ""))[1]


def drop_starts(transaction: Transaction, name: str) -> int:
    """Drop the scheduled starts of a definition, and return their number."""
    clockwork = transaction.agent.clockwork
    dropped = [identifier for identifier, job in clockwork.starts.items() if job.name == name]
    for identifier in dropped:
        clockwork.drop_start(identifier)
    transaction.batch.moments_done.extend(dropped)
    return len(dropped)


def start_what_may(transaction: Transaction) -> None:
    """Start the held runs that are allowed to start now: a run has ended, or definitions, grants or limits
    have changed.
    """
    agent, begun = transaction.agent, 0
    for identifier, job in list(agent.clockwork.held.items()):
        if agent.excess_of_runs(1 + begun):
            return
        if not keeps_from_beginning(agent, job):
            agent.clockwork.release(transaction.at, identifier)
            begun += 1


def start_what_changed(transaction: Transaction) -> None:
    """Start at once the runs that are slowed, or wait after failures, if their definition has changed."""
    agent = transaction.agent
    for identifier, job in list(agent.clockwork.starts.items()):
        if identifier in agent.clockwork.held:
            continue  # it starts as soon as it may
        failed = agent.runs.get(job.after) if job.attempt else None
        before = job.slowed or (failed.digest if failed is not None else "")
        definition = runnable(agent.library, job.name) if before else None
        if definition is not None and definition.digest != before:
            agent.clockwork.drop_start(identifier)
            transaction.batch.moments_done.append(identifier)
            if job.slowed:
                agent.pacing.recover(job.name, "it has another version now")
            fresh = {"attempt": min(job.attempt, 1), "laps": 0, "slowed": "", "circle": ()}
            start_again(transaction, msgspec.structs.replace(job, **fresh))
