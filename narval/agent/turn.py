"""One turn of an agent, before it is recorded (§ "One turn")."""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from typing import Any

from msgspec.structs import replace

from narval.agent.agent import OVER_LIMIT, AgentState, is_open, watching
from narval.agent.controls import Controls
from narval.agent.effects import TurnEffects, do_later
from narval.agent.forgetting import forget_run
from narval.agent.labelling import labels_of_files, note_files
from narval.agent.lookup import BRINGING_IN
from narval.agent.replay import as_far_as_readable, rebuild
from narval.agent.run import Run
from narval.agent.runs import start_run
from narval.agent.timers import LATE_AFTER, LATE_KEPT, ForgetRun, Job
from narval.agent.transaction import Transaction
from narval.agent.view import HostApi, TurnView
from narval.agent.within_grant import given_within
from narval.core.elements.element import Origin
from narval.core.elements.own_elements import make_error
from narval.core.engines.commands import FLOW, Answer, Call, CancelCall, Command, Finish
from narval.core.engines.engine import Wait
from narval.core.engines.events import (
    CallApproved,
    CallStarting,
    Cancelled,
    Event,
    Failure,
    Matched,
    Produced,
    Returned,
    Signalled,
    TimerFired,
)
from narval.core.errors import ActionError, StoreError, UnreadableError
from narval.core.memory.labels import NONE
from narval.store import codec
from narval.store.batch import Advance, Offer, SnapshotRow

log = logging.getLogger("narval.turn")

UNANSWERED = frozenset(
    {
        *("bad-prompt", "over-budget", "no-such-service", "no-secret", "unreachable", "too-slow"),
        "login-wanted",
        *("model-busy", "model-failed", "timeout", "interrupted", "no-worker"),
        *("unknown-target", "no-function", "rejected", "refused-by-rule"),
    }
)
"""The errors of a call that brought nothing in. All others may contain text of the party that was called.
"""


class Turn:
    """The part of an agent's work between two commits: events are delivered to runs, requests are done.

    One object makes all turns of an agent; `begin` starts each. `add`, `start` and `controls` are for
    requests. With `record_only` no run is told anything and nothing is performed: requests are recorded for
    the next daemon.
    """

    def __init__(self, agent: AgentState, host_api: HostApi, *, record_only: bool = False) -> None:
        self.agent, self.host_api = agent, host_api
        self.transaction = Transaction(agent, record_only=record_only)
        self._effects = TurnEffects(self.transaction)
        label, note_sources = self.transaction.label, self.transaction.made_of.__setitem__
        self.view = TurnView(agent, host_api, self._effects.apply, label, note_sources)
        self.controls = Controls(self.transaction, host_api.schema_fault)
        self.add = self.controls.add
        self.start = partial(start_run, self.transaction)
        self.begin = self.transaction.begin
        """Begin the next turn, at a moment."""

    @property
    def at(self) -> float:
        """The moment of the turn."""
        return self.transaction.at

    # --- events -----------------------------------------------------------------------------------------

    def deliver_next(self) -> None:
        """Deliver the first event of the queue; for an offer, offer it to the next watch that may take it."""
        queue = self.agent.queue
        row, run, event = queue[0]
        if isinstance(event, Offer):
            if queue.waiters is None:
                queue.wait_in_line(self._watches_for(event))
            if is_open(self.agent, event):
                _tell_next(self, event.eid)
            if queue.waiters and is_open(self.agent, event):
                return
            queue.wait_in_line(None)
        else:
            self.tell(run, event)
        queue.popleft()
        if row:
            self.transaction.batch.dequeued.append(row)

    def _watches_for(self, offer: Offer) -> deque[tuple[int, str]]:
        memory, telling = self.agent.memory, self.transaction.telling
        element = memory.element(offer.eid)
        if element is None or (telling.poisonous and _leaves_out(self.transaction, offer)):
            return deque()
        try:
            return deque(watching(self.agent, offer, memory.tree(element)))
        except Exception:
            telling.blame(0, offer)
            raise

    def tell(self, run_eid: int, event: Event, is_labelled: bool = False) -> bool:
        """Deliver one event to a run, and apply what follows; False if the event is obsolete. Raises
        StoreError.

        `is_labelled`: its contents are labelled already.
        """
        agent, transaction = self.agent, self.transaction
        run = agent.runs.active.get(run_eid)
        if run is None:
            return False
        if type(event) is Returned or type(event) is Produced:
            call, lookup = run.calls.get(event.call), agent.lookup
            if call is None:
                return False
            # What happens to a result before its run gets it; every step passes here, so few functions are
            # called.
            if not is_labelled:
                if event.elements and agent.home.now.mail is not None:  # mail may answer work
                    event = self.host_api.hear(self, event)
                brings_in = call.name in lookup.bringing_in or call.kind in BRINGING_IN
                if brings_in and (labels := _labels_of_what_came(transaction, run, call, event)):
                    with transaction.coming_with(labels):  # all that follows from it gets its labels
                        return self.tell(run_eid, event, is_labelled=True)
            # files are recorded, grants checked
            if lookup.grants is not None or agent.memory.labels.pages or transaction.comes_with:
                event = _looked_through(transaction, run, call, event)
            if event.elements:
                if event.elements[-1].to:  # messages to other agents come last among its elements
                    return self.host_api.tell_and_send(self, run, event)
                free, memory = agent.free, agent.memory
                if free.eids < memory.next_eid or free.bytes < memory.elements.bytes:
                    event = _within_limits(transaction, run, event)
        elif type(event) is CallStarting or type(event) is CallApproved:
            if event.call not in run.calls:
                return False
        elif type(event) is Matched and not agent.may_take(run, event):
            return False
        telling = transaction.telling
        try:
            if run.state is None:
                self.fail_unreadable(run)
                return False
            if telling.poisonous and (why := telling.reason(run_eid, event)):
                self.fail(run, "internal-error", why)
                return True
            event = replace(event, id=agent.numbers.last + 1, at=transaction.at)
            try:
                decision = self.view.decision(run, event)
                run.engine.advance(decision, event)
                self.view.leave()
                decided, wished = decision.changes, decision.commands
                if wished and agent.lookup.made_once:
                    wished = [*map(agent.lookup.as_recorded, wished)]
            except StoreError:
                raise
            except ActionError as error:  # a function called within the decision failed
                log.warning("run %d of %s cannot go on: %s", run.eid, run.name, error)
                self._undo(run, event, error.kind, str(error))
            except Exception as error:
                log.exception("run %d of %s broke down", run.eid, run.name)
                self._undo(
                    run, event, "internal-error", f"narval failed as it followed {run.name}: {error!r}"
                )
            else:
                if decided or wished or type(event) is not Matched:
                    self.record(run, event, decided, wished)
                if type(event) is CallApproved and (agreed := run.calls.get(event.call)) is not None:
                    goes_by = transaction.remote if agreed.agent else transaction.outer
                    goes_by.append((run, agreed))
        except Exception:
            telling.blame(run_eid, event)
            raise
        return True

    def signal(self, run_eid: int, event: Signalled) -> list[Answer]:
        """Deliver a signal to a run under the next id; return its answer, unless it comes in a later turn."""
        signal, before = str(self.agent.numbers.last + 1), len(self.transaction.outer)
        self.tell(run_eid, replace(event, signal=signal))
        commands = [command for _, command in self.transaction.outer[before:]]
        return [one for one in commands if isinstance(one, Answer) and one.signal == signal]

    def fire(self, run_eid: int, wake: str, due: float) -> None:
        """Tell a run that its timer, due at `due`, fired, if the run still waits for it."""
        run = self.agent.runs.active.get(run_eid)
        if run is not None and wake in run.wakes:
            (_fire if self.transaction.at - due <= LATE_AFTER else _fire_late)(self, run, wake, due)

    def record(self, run: Run, event: Event, decided: list[Any], wished: list[Command]) -> None:
        """Record the result of one advance, and apply its deferred commands."""
        agent, transaction = self.agent, self.transaction
        if transaction.unsettled:
            transaction.settle()
            if transaction.pending.controls:
                self.controls.execute_all()
        agent.numbers.draw(1 + len(decided) + len(wished))
        transaction.batch.journal.append(Advance(run.eid, event.id, event, tuple(decided), tuple(wished)))
        run.note(event)
        if wished:
            self._effects.complete(run, wished)
        if decided or wished:  # its context may have grown though its state is unchanged
            if run.restate():
                transaction.alter(run)
            watches, kind = agent.watches, run.kind
            if kind in watches.altered:
                watches.alter(kind, run.eid)
            if watches.index.interested(kind):
                _show(transaction, run)
        if transaction.unsettled:
            transaction.settle()
            if transaction.pending.controls:
                self.controls.execute_all()
        if run.entries >= run.save_at and run.active:
            _save(self.transaction, run)

    # --- runs that fail ---------------------------------------------------------------------------------

    def _undo(self, run: Run, event: Event, kind: str, message: str) -> None:
        """Take back an advance that raised: restore its run from the journal, and fail it there."""
        self.transaction.undo()
        self.agent.unwait(run)
        pending = [advance for advance in self.transaction.batch.journal if advance.run == run.eid]
        try:
            rebuild(self.agent, run, pending)
        except UnreadableError as error:
            run.lose(str(error))
        if run.state is None:
            self.fail_unreadable(run)
        else:
            self.fail(run, kind, message, event)

    def fail_unreadable(self, run: Run) -> None:
        """Fail a run that the store cannot restore, keeping as much of it as is known."""
        why = run.unreadable or "its state is not known"
        log.error("run %d of %s is lost: %s", run.eid, run.name, why)
        run.load(*as_far_as_readable(self.agent, run))
        if run.state is not None:
            self.fail(run, "unreadable", why)
            return
        eid = self._add_error(run, "unreadable", why)
        event = Cancelled(self.agent.numbers.last + 1, self.at, why)
        self.record(run, event, [], [Finish("failed", "failed", (eid,), eid)])

    def fail(self, run: Run, kind: str, message: str, event: Event | None = None) -> None:
        """Fail a run where it is; the others continue."""
        event = event or Cancelled(self.agent.numbers.last + 1, self.at, message)
        eid = self._add_error(run, kind, message)
        decision = self.view.decision(run, event)
        self.view.leave()
        if not run.state.over:
            run.engine.fail(decision, eid)
        self.record(run, event, decision.changes, [*map(CancelCall, run.calls), *decision.commands])

    def _add_error(self, run: Run, kind: str, message: str) -> int:
        error = make_error(kind, message, plan=run.eid, recipe=run.name)
        return self.transaction.add(error, Origin(run.eid), held=run)

    def do(self, job: Job) -> None:
        """Do a job that is due."""
        try:
            if self.transaction.telling.poisonous and _leaves_out(self.transaction, job):
                return
            if isinstance(job, ForgetRun):
                forget_run(self.transaction, job)
            else:
                do_later(self.transaction, job)
        except Exception:
            self.transaction.telling.blame(0, job)
            raise


def _tell_next(turn: Turn, eid: int) -> None:
    """Offer an element to the next watch in line that may have it. If one watch refuses it, all with the same
    scopes would: they are skipped, since many may wait for what the first of them uses.
    """
    queue, active, refused = turn.agent.queue, turn.agent.runs.active, None
    while queue.waiters:
        of, name = queue.waiters.popleft()
        run = active.get(of)
        if run is None or (watch := run.watches.get(name)) is None or watch.scopes == refused:
            continue
        if turn.tell(of, Matched(0, 0.0, name, eid)):
            return
        if run.active and eid not in turn.agent.memory.doubtful:
            refused = watch.scopes


def _leaves_out(transaction: Transaction, piece: Job | Offer) -> bool:
    """True if this is skipped because it made the agent fail before; an error element then says so."""
    if why := transaction.telling.reason(0, piece):
        transaction.add(make_error("internal-error", why))
    return bool(why)


def _labels_of_what_came(transaction: Transaction, run: Run, call: Call, event: Returned | Produced) -> int:
    """The labels of a call's result, also of an error; NONE if the current block already adds them. The run
    gets them too, but of a source's elements only if they contain a language model's answer. An error of a
    dataflow may quote what its session has received, whatever else was not answered.
    """
    brought_nothing = isinstance(event, Returned) and (
        event.abandoned or (event.problem is not None and event.problem.kind in UNANSWERED)
    )
    if brought_nothing and call.kind != FLOW:
        return NONE
    memory = transaction.agent.memory
    labels = memory.labels.number(transaction.agent.lookup.labels_of(run, call, event, memory))
    labels = memory.labels.join(labels, labels_of_files(transaction.agent, run, call, event))
    if isinstance(event, Returned) or memory.labels.is_hearsay(labels):
        transaction.label(run.eid, labels)
    return labels if memory.labels.join(labels, transaction.comes_with) != transaction.comes_with else NONE


def _fire(turn: Turn, run: Run, wake: str, due: float) -> None:
    turn.tell(run.eid, TimerFired(0, 0.0, wake))


def _fire_late(turn: Turn, run: Run, wake: str, due: float) -> None:
    """Tell a run that its timer fired, and record that it fired late.

    If a run waits for very many moments, the record names no part: searching all of them for each one would
    take quadratic time.
    """
    clockwork = turn.agent.clockwork
    if clockwork.fresh >= LATE_KEPT:
        _fire(turn, run, wake, due)
        return
    if len(run.wakes) > LATE_KEPT:
        _fire(turn, run, wake, due)
        clockwork.note_late(due, turn.at, run.eid, run.name)
        return
    part = next((wait.id for wait in _waits(run) if wait.until == due), "")
    _fire(turn, run, wake, due)
    to_come = (wait for wait in _waits(run) if wait.what == "time" and wait.id == part)
    dropped = any((wait.until or 0.0) > turn.at for wait in to_come)
    clockwork.note_late(due, turn.at, run.eid, run.name, part, dropped=dropped)


def _waits(run: Run) -> list[Wait]:
    """The things a run is waiting for now."""
    if run.state is None or not run.active:
        return []
    return list(run.engine.waiting_for(run.definition, run.state, run.watches))


def _looked_through(
    transaction: Transaction, run: Run, call: Call, event: Returned | Produced
) -> Returned | Produced:
    """Check a call's result against the grant and record the files it wrote; return the event to deliver."""
    agent = transaction.agent
    if event.elements and agent.lookup.grants is not None:
        event = given_within(transaction, run, event)
    if agent.memory.labels.pages or transaction.comes_with:
        has_failed = type(event) is Returned and (event.problem is not None or event.abandoned)
        if event.elements or has_failed:
            note_files(transaction, run, call, event)
    return event


def _within_limits(transaction: Transaction, run: Run, event: Returned | Produced) -> Returned | Produced:
    """Return the event to deliver for a call's result: a failure if memory has no room for it.

    A source is then cancelled.
    """
    over = transaction.agent.excess_of_elements([element.xml for element in event.elements])
    if not over:
        return event
    log.warning("run %d of %s: over-limit: %s", run.eid, run.name, over)
    if type(event) is Produced:
        transaction.outer.append((run, CancelCall(event.call)))
    return Returned(0, 0.0, event.call, problem=Failure(OVER_LIMIT, over, final=True))


def _show(transaction: Transaction, run: Run) -> None:
    """Offer the element of a run to the watches for it."""
    element = transaction.agent.memory.element(run.eid)
    if element is not None:
        transaction.offer(element)


def _save(transaction: Transaction, run: Run) -> None:
    """Save the whole state of a run: recovery starts from it, and the journal to read stays bounded."""
    batch, last = transaction.batch, transaction.agent.numbers.last
    data = codec.encode_snapshot(run.state, run.commands())
    batch.snapshots.append(SnapshotRow(run.eid, last, data))
    batch.trimmed.append((run.eid, last, transaction.agent.home.now.history_entries))
    run.snapshot_taken(len(data))
