"""The dispatcher hands each outer command to the part that performs it, and returns its result as an event.

An immediate result is returned; any other is posted for a later turn.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from narval.agent.agent import AgentState
from narval.agent.loop import Delivery, Request
from narval.agent.run import Run, given_up_by
from narval.agent.trace_ids import traceparent
from narval.agent.turn import Turn
from narval.calls.approvals import Approvals
from narval.calls.book import Activation, AgentCalls, Post, internal_failure, refused, returned
from narval.calls.confining import beyond_files, beyond_grant, granted_needs, reach_of_program
from narval.calls.context import CallContext, Inputs, SendsByChat, Target
from narval.calls.conversion import answer_at_once
from narval.calls.of_kinds import Prepare, begin_run
from narval.calls.record import CallRecord
from narval.calls.targets import CallTargets, PreparedCall
from narval.core.engines.commands import SEND, SIGNAL, Call, CancelCall, Outer
from narval.core.engines.events import (
    INTERRUPTED,
    LOOK,
    CallApproved,
    CallStarting,
    Cancelled,
    Failure,
    Returned,
)
from narval.core.engines.registry import runnable_kinds
from narval.core.errors import ActionError, InternalError
from narval.core.kinds import UNDOING
from narval.store.batch import AgentRow

log = logging.getLogger("narval.perform")

InTurn = Callable[[Run, Call, Turn], None]
"""Answers a call within a turn, which records the effects, or has it answered later."""

STOPPED = Failure(
    INTERRUPTED,
    f"the daemon stopped while the call was under way, and it is not to be repeated: {LOOK}",
    final=True,
)

NOTHING_UNDONE = frozenset[int]()
"""The runs that a call must wait for: none, unless its run undoes others."""

_ANSWERS = (Returned, CallApproved)
"""The events that decide a call."""

_WITH_TARGETS = ("action", "transform", "program")
"""The kinds of calls that have a target."""

_GOING_ON = frozenset({"source", "cluster"})
"""Calls that may survive a restart of the daemon: a source continues, a cluster keeps its tasks."""

_UNLIMITED = frozenset({"source", "program"})
"""Calls without a time limit unless their step sets one; others have the limit of the home."""


class Dispatcher:
    """Performs the commands of one agent; `calls` are those under way, including those of former activations.

    External ids of calls begin with the id of the agent (G1). `preparer` returns the function that prepares a
    kind of calls, if it has one; `in_turn` has the kinds that are answered within a turn. `moved` is told the
    run of each call that has advanced without an event for a turn.
    """

    def __init__(
        self,
        agent: AgentState,
        calls: AgentCalls,
        targets: CallTargets,
        post: Post,
        *,
        identity: AgentRow,
        preparer: Callable[[str], Prepare | None],
        in_turn: Mapping[str, InTurn],
        moved: Callable[[int], None],
        sends_by_chat: SendsByChat | None = None,
    ) -> None:
        self._moved, self._sends_by_chat = moved, sends_by_chat
        self._agent, self.calls, self.targets = agent, calls, targets
        self.approvals = Approvals(agent, post, targets.home, calls.book.executor.clock)
        self.identity, self._executor = identity, calls.book.executor
        self._prefix = f"{identity.id}."
        """The prefix of each call's external id."""
        self.is_stopping, self._post = False, post
        self._made_again: set[str] = set()
        """The calls to be made that may have begun before the last stop."""
        self._preparer, self._in_turn = preparer, in_turn
        self._ways: dict[str, Callable[[Run, Call], Returned | None]] = {}
        """The functions that make calls, by kind; each is determined at the first call."""

    def stop(self) -> None:
        """Stop performing commands: later ones are left to the next daemon (N34)."""
        self.is_stopping = True

    def dispatch(self, run: Run, command: Outer) -> Returned | None:
        """Perform a command, unless the daemon is stopping.

        The result of a call is returned if it is immediate; otherwise it will be posted.
        """
        if self.is_stopping:
            return None
        try:
            if isinstance(command, Call):
                return (self._ways.get(command.kind) or self._way(command.kind))(run, command)
            if isinstance(command, CancelCall):
                self._abandon(run, command)
            return None  # the turn gives an Answer, as soon as it is recorded
        except Exception as error:
            log.exception("%s of run %d could not be performed", type(command).__name__, run.eid)
            return refused(command, internal_failure(error)) if isinstance(command, Call) else None

    def answer(self, run: Run, command: Outer) -> Returned | None:
        """Make a call that need not wait until it is recorded, an inline call of a pure action; return its
        result.

        Return None for any other command, which is not performed.
        """
        if type(command) is not Call or command.kind != "action" or self.is_stopping:
            return None
        target = self.targets.find(run, command)
        if target is None or not target.pure or target.where != "inline":
            return None
        if command.on_restart == "error" or command.undoable:  # it is announced
            return None
        return self.dispatch(run, command)

    def attach(self) -> None:
        """Have the calls under way report to this agent."""
        self.calls.attach(Activation(self._agent, self._post, self._resume_lost, self._moved))

    def resume(self) -> None:
        """Perform again what was under way when the last daemon stopped, and no longer is (N35, N29, G7).

        If a moment of a run or its callers came in between, the run is told that first: it may give up what
        it had under way.
        """
        self.attach()
        clockwork = self._agent.clockwork
        due = {run for at, (run, _), _ in clockwork.timers.waiting() if at <= clockwork.since}
        answered = {event.call for _, _, event in self._agent.queue if isinstance(event, _ANSWERS)}
        for run in list(self._agent.runs.active.values()):
            if not self._agent.runs.is_awaited(run):
                self._post(Delivery(run.eid, Cancelled(0, 0.0, "its caller is over")))
            for call in list(run.calls.values()):
                if call.call in answered:
                    continue
                self._resume_after(self._turns_until_told(run, due), run, call)

    def _resume_lost(self, run: int, call: str) -> None:
        """Perform a call again that was ended with the daemon's lease, or report that it was interrupted.

        This happens after the next turn, which begins as soon as the daemon is sure again that it holds the
        agent.
        """
        holder = self._agent.runs.active.get(run)
        if holder is not None and call in holder.calls:
            self._resume_after(1, holder, holder.calls[call])

    def _turns_until_told(self, run: Run, due: set[int]) -> int:
        """The number of turns until a run has been told what is due: one, and one more for each caller."""
        callers = enumerate(self._agent.runs.with_callers(run), 1)
        return next((turns for turns, holder in callers if holder.eid in due), 0)

    def _resume_after(self, turns: int, run: Run, call: Call) -> None:
        """Perform a call again after `turns` turns, if its run still waits for it then."""
        if not turns:
            self._resume_call(run, call)
            return

        def settle(_: Any, failure: BaseException | None) -> None:
            if failure is None and run.active and call.call in run.calls:
                self._resume_after(turns - 1, run, run.calls[call.call])

        self._post(Request(lambda turn: None, settle))

    def _resume_call(self, run: Run, call: Call) -> None:
        if call.agent or call.kind == SIGNAL:
            return  # it was sent together with the record that asked for it
        child = self._agent.runs.by_call.get(call.call)
        record = self.calls.records.get(self.external_id(call.call))
        if call.call in run.abandoned:
            if child is not None:
                self._post(Delivery(child, given_up_by(run)))
            elif record is not None:
                self.calls.abandon(record)
            else:
                self._post(Delivery(run.eid, Returned(0, 0.0, call.call, abandoned=True)))
        elif child is not None or record is not None:
            return  # it continues by itself
        else:
            is_lost = call.begun and call.on_restart == "error" and call.kind != SEND
            is_lost = is_lost and not self.targets.outlives(run, call)
            if not is_lost and self._may_have_begun(run, call):
                self._made_again.add(call.call)
            back = refused(call, STOPPED) if is_lost else self.dispatch(run, call)
            if back is not None:
                self._post(Delivery(run.eid, back))

    def _may_have_begun(self, run: Run, call: Call) -> bool:
        """True for a repeated call that may have had an effect before the daemon ended."""
        target = self.targets.find(run, call) if call.kind in _WITH_TARGETS else None
        if target is None or target.pure or target.where in _GOING_ON:
            return False
        return call.begun or not call.is_announced

    def external_id(self, call: str) -> str:
        """The id of a call as actions see it: the same for each try, unique across agents."""
        return self._prefix + call

    def find(self, call: str) -> CallRecord | None:
        """The record of a call that was asked for and has no answer yet."""
        return self.calls.find(self.external_id(call))

    def waits_for(self, call: str) -> str:
        """The reason why a call under way waits, if it does."""
        record = self.find(call)
        return "" if record is None else self.calls.waits_for(record)

    # --- calls ----------------------------------------------------------------------------------------

    def _way(self, kind: str) -> Callable[[Run, Call], Returned | None]:
        way: Callable[[Run, Call], Returned | None]
        if kind in _WITH_TARGETS:
            way = self._call_target
        elif (answer := self._in_turn.get(kind)) is not None:
            way = partial(self._send, answer) if kind == SEND else partial(self._call_in_turn, answer)
        elif (prepare := self._preparer(kind)) is not None:
            way = partial(self._call_prepared, prepare)
        elif kind in runnable_kinds():
            way = partial(self._call_in_turn, begin_run)
        else:
            raise InternalError(f"expected a kind of calls, got {kind!r}")
        self._ways[kind] = way
        return way

    def _call_in_turn(self, work: InTurn, run: Run, call: Call) -> None:
        """Have a call answered within the next turn, or by a run that begins there."""
        self._post(Request(partial(work, run, call)))

    def _send(self, answer: InTurn, run: Run, call: Call) -> Returned | None:
        """Have elements sent within the next turn, as soon as those that leave the home may go."""
        if not call.begun and (stopped := self.approvals.stop(run, call)) is not None:
            return stopped.refusal
        self._call_in_turn(answer, run, call)
        return None

    def _call_target(self, run: Run, call: Call) -> Returned | None:
        """Call an action, apply a stylesheet, or run a program (hot path, counted by test_work_counted)."""
        lookup, labels = self._agent.lookup, self._agent.memory.labels
        target = self.targets.find(run, call)
        if target is None:
            return refused(call, Failure("unknown-target", f"there is no {call.kind} named {call.name}"))
        inputs: Inputs = {}
        if call.inputs or target.inputs:
            elements = self.targets.inputs(call, target)
            if isinstance(elements, Failure):
                return refused(call, elements)
            inputs = elements
        if lookup.grants is not None and (beyond := beyond_grant(self._agent, run, call, target, inputs)):
            return refused(call, beyond)
        asks_by_label = labels.pages and (lookup.rules is not None or labels.has_hearsay)
        if asks_by_label or call.approve or call.always or lookup.people.approvals or lookup.destroying:
            if outside := beyond_files(target, inputs, self.targets.home):
                return refused(call, outside)
            if (stopped := self.approvals.stop(run, call)) is not None:
                return stopped.refusal
        return self._make(run, call, target, inputs)

    def _call_prepared(self, prepare: Prepare, run: Run, call: Call) -> Returned | None:
        """Make a call that a function of its kind prepares."""
        try:
            prepared = prepare(run, call, self._limit(call))
        except ActionError as error:
            return refused(call, Failure(error.kind, str(error), final=error.final))
        return self._make(run, call, prepared.target, {}, prepared)

    def _limit(self, call: Call) -> float | None:
        """The time limit of a call: that of its step, or of the home."""
        return call.timeout if call.timeout is not None else self._agent.home.now.call_timeout

    def _make(
        self, run: Run, call: Call, target: Target, inputs: Inputs, prepared: PreparedCall | None = None
    ) -> Returned | None:
        """Make a call: answer it now if it is inline and allowed to be, else enter it in the book."""
        context = CallContext(
            self._prefix + call.call,
            run.eid,
            call.step,
            self.targets.home,
            call.attempt,
            target,
            inputs,
            clock=self._executor.clock,
            payload=None if prepared is None else prepared.payload,
            agent=self.identity.name,
            sends_by_chat=self._sends_by_chat,
        )
        if self._made_again and call.call in self._made_again:
            self._made_again.discard(call.call)
            self._post(Delivery(run.eid, CallStarting(0, 0.0, call.call)))
        behind = self._undone(run, target) if run.kind in UNDOING else NOTHING_UNDONE
        finish = None if prepared is None else prepared.finish
        if (
            target.where == "inline"
            and not (call.on_restart == "error" or call.undoable)  # it is announced
            and self._executor.answers_inline_calls
            and not self.calls.book.is_closing
            and not (behind and self.calls.behind.is_under_way(behind))
        ):
            outcome = answer_at_once(context)  # hot path, counted by test_work_counted
            return returned(call.call, outcome if finish is None else finish(outcome))
        limit = call.timeout if target.where in _UNLIMITED else self._limit(call)
        trace = None
        if self._agent.samples is not None and target.where != "inline":  # an inline call asks no service
            trace = partial(traceparent, self._agent, self.identity.id, run, call.call, call.attempt)
        context = replace(  # it may wait, and go outside
            context,
            timeout=limit if prepared is None else prepared.timeout,
            family=run.eid if run.caller is None else self._agent.runs.top(run),
            program=call.program,
            reaches=None if call.program is None else reach_of_program(self._agent, run, call.program),
            granted=granted_needs(self._agent, run),
            has_begun=call.begun and call.on_restart == "error",
            trace=trace,
        )
        self.calls.start(context, asked=call, finish=finish, behind=behind)
        return None

    def _undone(self, run: Run, target: Target) -> frozenset[int]:
        """The runs whose calls must end before a call that undoes them; none for a pure action."""
        if target.pure or run.state is None:
            return NOTHING_UNDONE
        return frozenset(one.eid for one in self._agent.runs.within(run.state.undone_run))

    # --- cancelling -----------------------------------------------------------------------------------

    def _abandon(self, run: Run, command: CancelCall) -> None:
        child = self._agent.runs.by_call.get(command.call)
        if child is not None:
            self._post(Delivery(child, given_up_by(run)))
        elif (record := self.find(command.call)) is not None:
            self.calls.abandon(record)
        else:
            call = run.calls.get(command.call)
            if (
                call is not None and call.kind == SEND
            ):  # it is not in the book, and notices that it was given up
                self.dispatch(run, call)
