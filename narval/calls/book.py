"""The book of calls: all calls under way in a daemon, by agent and external id (N33, G7, G14).

Each call has one record, from the request until its outcome is recorded. The calls that wait, the calls that
an agent has under way, and the outcomes it has not been told yet are views of these records.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Container, Iterator
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from itertools import count
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from narval.agent.agent import AgentState
from narval.agent.loop import Delivery, Request
from narval.agent.relying import NOT_UNDONE
from narval.agent.turn import Turn
from narval.calls.backend import Behind, Slots
from narval.calls.context import CallContext, Target
from narval.calls.conversion import raisable
from narval.calls.executor import Executor
from narval.calls.record import ABANDONED, CallListener, CallRecord, Finish, Outcome
from narval.core.engines.commands import Call
from narval.core.engines.events import CallStarting, Event, Failure, OutputElement, Produced, Returned
from narval.core.errors import ActionError, InternalError
from narval.core.source.secrets import without_secrets
from narval.files.settings import CallLimits

log = logging.getLogger("narval.perform")

Post = Callable[[Delivery | Request], None]
Result = TypeVar("Result")


class Counts(msgspec.Struct, frozen=True):
    """The numbers that `status` shows: calls under way, calls waiting for room, calls given up whose thread
    or coroutine still lives, and workers that died or were killed.
    """

    running: int
    queued: int
    given_up: int
    worker_restarts: int


class CallBook:
    """The calls of all agents; `executor` answers them.

    The book and its listeners are created and used on the thread of a running loop.
    """

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.is_closing = False
        self._agents: dict[int, AgentCalls] = {}
        self._open = 0
        """The number of calls that have not ended."""
        self.answered: Counter[str] = Counter()
        """The number of answered calls, by where they are made."""
        self._has_ended = asyncio.Event()
        self.parts = count(1)
        """The numbers of parts of calls."""

    def of(self, agent: int) -> AgentCalls:
        """The calls of an agent, by its number."""
        calls = self._agents.get(agent)
        if calls is None:
            calls = self._agents[agent] = AgentCalls(self, agent)
        return calls

    def drop(self, calls: AgentCalls) -> None:
        """Remove an agent that is not active and has no calls."""
        if self._agents.get(calls.number) is calls:
            del self._agents[calls.number]

    def count(self, agent: int) -> int:
        """The number of calls of an agent."""
        calls = self._agents.get(agent)
        return 0 if calls is None else len(calls.records)

    def hold(self, agent: int) -> None:
        """Start no call of an agent that takes a slot, until `release`."""
        if (calls := self._agents.get(agent)) is not None:
            calls.slots.hold()

    def release(self, agent: int) -> None:
        """Start calls of an agent again."""
        if (calls := self._agents.get(agent)) is not None:
            calls.slots.release()
            calls.begin_waiting()

    def is_quiet(self, agent: int) -> bool:
        """True if no call of an agent runs, may begin by itself, or has an unrecorded outcome. Sources are
        ignored: they run for ever, and can begin again anywhere.
        """
        calls = self._agents.get(agent)
        records = () if calls is None else calls.records.values()
        return all(
            record.call.is_source or (calls is not None and calls.slots.awaited_by(record))
            for record in records
        )

    def end(self, agent: int) -> None:
        """Give up all calls of an agent."""
        if (calls := self._agents.get(agent)) is not None:
            calls.end()

    def is_ending(self, agent: int) -> bool:
        """True while calls of an agent that were given up are still ending."""
        calls = self._agents.get(agent)
        return calls is not None and calls.ending is not None

    async def ended(self, agent: int) -> None:
        """Wait until the calls of an agent that were given up have ended."""
        calls = self._agents.get(agent)
        if calls is not None and calls.ending is not None:
            await asyncio.wait([calls.ending])

    def opened(self, calls: AgentCalls) -> None:
        """Count a call of an agent, even one that the book dropped when its last call was lost."""
        self._agents.setdefault(calls.number, calls)
        self._open += 1

    def over(self, record: CallRecord) -> None:
        """Stop counting a call that has ended."""
        self._open -= 1
        self.answered[record.call.target.where] += 1
        self._has_ended.set()
        self.executor.changed()  # reported even if its agent is not active

    # --- all of them ----------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[CallRecord]:
        """The calls that have no answer yet."""
        for calls in tuple(self._agents.values()):
            for record in tuple(calls.records.values()):
                if not record.is_over:
                    yield record

    @property
    def counts(self) -> Counts:
        """The numbers of calls under way."""
        executor = self.executor
        queued = executor.queued + sum(
            calls.slots.queued + len(calls.behind) for calls in self._agents.values()
        )
        return Counts(self._open - queued, queued, executor.given_up, executor.workers.budget.restarts)

    def busy(self) -> Iterator[CallRecord]:
        """The calls that may still advance by themselves. A call that has caught up waits for the outside
        world. One that waits for a slot of its agent waits for other calls, which may advance.
        """
        for calls in self._agents.values():
            for record in calls.records.values():
                if not (
                    record.is_over or calls.slots.awaited_by(record) or self.executor.has_caught_up(record)
                ):
                    yield record

    def limit(self, limits: CallLimits) -> None:
        """Apply other limits from now on. Calls under way continue, but fetch only what is granted now."""
        self.executor.limit(limits)
        for record in self:
            self.executor.allow(record.call)

    async def close(self, grace: float = 0.0) -> None:
        """Close the book: end sources at once, other calls when they are done or after `grace` seconds.

        No outcome is reported for sources, nor for calls that have not ended by then. They are left to
        recovery, like calls that still wait for room and calls that are requested from now on.
        """
        self.is_closing = True
        for calls in tuple(self._agents.values()):
            calls.leave_what_waits()
        loop = asyncio.get_running_loop()
        end = loop.time() + grace
        while self._open and (left := end - loop.time()) > 0:
            self._has_ended.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._has_ended.wait(), left)
        for record in self:
            record.leave()
        await self.executor.close()


class Activation(NamedTuple):
    """An active agent, as its calls see it."""

    agent: AgentState
    post: Post
    """Gets the reports of calls, including those made while the agent was not active."""
    resume: Callable[[int, str], None]
    """Told the run and id of each lost call."""
    moved: Callable[[int], None]
    """Told the run of a call that has advanced without an event for a turn."""


class PartListener(CallListener):
    """The listener of a part of a call; `outcome` is for the call that waits for it."""

    def __init__(self) -> None:
        self.outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    def answered(self, record: CallRecord, outcome: Outcome) -> None:
        """Give the waiting call the outcome, unless it has been given up."""
        record.settle()
        if not self.outcome.done():
            self.outcome.set_result(outcome)


class AgentCalls(CallListener):
    """The calls of one agent, whether it is active or not (G7): its part of the book, and its reports.

    The outcome of a journalled call is reported to the agent. The record stays until the agent has recorded
    the outcome. `slots` limit how many calls are under way at once.
    """

    def __init__(self, book: CallBook, number: int) -> None:
        self.book, self.number = book, number
        self.records: dict[str, CallRecord] = {}
        """Each call by its external id; of a repeated call, the latest record."""
        self.slots = Slots()
        self.ending: asyncio.Future[None] | None = None
        """Set once all calls are given up, and done when they have ended; else None."""
        self._activation: Activation | None = None
        self._activate: Callable[[], None] = _ignore
        """Called when there is something to report and the agent is not active."""
        self.behind = Behind(self.records)
        self._is_beginning = False
        self._unrecorded: dict[asyncio.Future[None], Callable[[Turn], None]] = {}
        """The work that a turn must do for calls that wait until it is recorded."""

    # --- the activation they belong to ----------------------------------------------------------------

    def attach(self, activation: Activation) -> None:
        """Give the calls to an activation."""
        self._activation, self._activate = activation, _ignore
        for report in self.reports():
            activation.post(report)
        for recorded in self._unrecorded:
            self._post_work(recorded)

    def detach(self, activate: Callable[[], None]) -> None:
        """Detach from an activation that is given up; from then on `activate` is called for each report."""
        self._activation, self._activate = None, activate
        self._drop_if_empty()

    def moved(self, run: int) -> None:
        """Report that a call of a run has advanced without an event for a turn."""
        if self._activation is not None:
            self._activation.moved(run)

    def reports(self) -> list[Delivery]:
        """The latest unrecorded report of each call."""
        return [record.report for record in self.records.values() if record.report is not None]

    def need_memory(self) -> bool:
        """True while the code of a process answers a call, because it works on objects in memory (section
        8).
        """
        return any(record.finish is not None for record in self.records.values())

    def end(self) -> None:
        """Give up all calls; their outcomes are dropped."""
        self.ending = self.ending or asyncio.get_running_loop().create_future()
        self.detach(_ignore)
        for record in tuple(self.records.values()):
            if record.is_over:
                self._forget(record)
            else:
                self.abandon(record)

    # --- the life of a call ---------------------------------------------------------------------------

    def find(self, id: str) -> CallRecord | None:
        """A call that was asked for and has no answer yet, by its external id."""
        record = self.records.get(id)
        return None if record is None or record.is_over else record

    def start(
        self,
        call: CallContext,
        *,
        asked: Call | None = None,
        finish: Finish | None = None,
        listener: CallListener | None = None,
        behind: Container[int] = (),
    ) -> CallRecord:
        """Have a call answered when there is room. An inline call is answered before this returns, unless it
        is announced.

        Either the journal `asked` for the call, or only `listener` is told its outcome. Once the book is
        closing, nothing is started: the call is left to recovery. It waits until no call of the runs `behind`
        is under way. Raises the error that keeps the call from being made.
        """
        if self.find(call.id) is not None:
            raise InternalError(f"the call {call.id} is under way already")
        since = self.book.executor.clock.now()
        record = CallRecord(
            call, self if listener is None else listener, self._over, asked=asked, finish=finish, since=since
        )
        self._start(record, partial(self._begin, record, behind))
        return record

    def _start(self, record: CallRecord, begin: Callable[[], None]) -> None:
        """Enter a call in the book, and begin it. Raises the error that keeps it from beginning."""
        self.records[record.call.id] = record
        self.book.opened(self)
        try:
            begin()
        except Exception:
            record.leave()
            self._forget(record)
            raise

    def _begin(self, record: CallRecord, behind: Container[int] = ()) -> None:
        """Begin a call: now, or when no call of the runs `behind` is under way and there is a slot for it."""
        if self.book.is_closing:
            record.leave()
        elif self.behind.is_under_way(behind):
            self.behind.add(record, behind)
        elif self.slots.take(record):
            self.book.executor.start(record)

    def begin_waiting(self) -> None:
        """Start calls that wait for a slot while any is free; a call that ends at once frees its own."""
        if self._is_beginning or self.book.is_closing:
            return  # an outer frame does that, or they are left to recovery
        self._is_beginning = True
        try:
            while (record := self.slots.next()) is not None:
                self._go(partial(self.book.executor.start, record), record)
        finally:
            self._is_beginning = False

    def limit(self, most: int | None) -> None:
        """Let at most `most` calls have a slot from now on; None for any number."""
        self.slots.limit(most)
        self.begin_waiting()

    async def part(self, of: CallContext, work: Callable[[], Result], timeout: float | None = None) -> Result:
        """Do a part of a coroutine's call in a thread. Its result is for the call alone, and is not recorded.

        The part takes no slot because its call has one: otherwise calls could wait for their own parts. It is
        given up with its waiter. Raises what the work raises, and ActionError for a part that is not done,
        such as `timeout` after `timeout` seconds in its thread.
        """
        result, context, book = Future[Result](), copy_context(), self.book

        def keep() -> None:
            try:
                result.set_result(context.run(work))
            except BaseException as error:
                result.set_exception(raisable(error))

        part = CallContext(
            f"{of.id}/{next(book.parts)}",
            of.run,
            of.step,
            target=Target(action=of.target.action, where="thread", function=keep),
            timeout=timeout,
            family=of.family,
            agent=of.agent,
            trace=of.trace,
        )
        listener = PartListener()
        record = CallRecord(part, listener, self._over, since=book.executor.clock.now())
        self._start(record, partial(book.executor.start, record))
        try:
            outcome = await listener.outcome
        except asyncio.CancelledError:
            self.abandon(record)
            raise
        if result.done():
            return result.result()
        problem = outcome.problem
        raise ActionError(problem.message, problem.kind) if problem else asyncio.CancelledError

    def waits_for(self, record: CallRecord) -> str:
        """The reason why a call waits; "" if it does not."""
        if record in self.behind:
            return "a call of the run that it undoes has not ended"
        return self.slots.waits_for(record) or self.book.executor.waits_for(record)

    def leave_what_waits(self) -> None:
        """Leave sources, and calls that still wait for room, to recovery; stop the sources that run."""
        for record in tuple(self.records.values()):
            if record.is_over or isinstance(record.listener, PartListener):
                continue
            if record.call.is_source or record.state == "waiting":
                record.leave(self.abandon)

    def abandon(self, record: CallRecord) -> None:
        """Give up a call: end it if possible; its outcome says so."""
        if record in self.behind or self.slots.awaited_by(record):
            record.answer(ABANDONED)
        elif not record.is_over:
            self.book.executor.abandon(record)

    def _over(self, record: CallRecord, outcome: Outcome | None) -> None:
        """Free what a call held, and tell its listener the outcome, unless it is left to recovery."""
        self.slots.free(record)
        self.begin_waiting()
        if record.outlives:
            record.when_ended_late(self._ended_late)
            if record.call.timeout is not None:
                record.after(record.call.timeout, self._wait_no_more)
        self._begin_each(self.behind.over(record))
        if record.asked is None:  # no result of it is recorded
            self._forget(record)
        self.book.over(record)
        if outcome is not None:
            record.listener.answered(record, outcome)

    def _ended_late(self, record: CallRecord, outcome: Outcome | None) -> None:
        """Record the late result of code that outlived its answer, and start the calls that waited for it."""
        self._begin_each(self.behind.over(record))
        if outcome is not None and record.asked is not None:
            _log_late(record, outcome)
            if self._activation is not None:
                run, event = record.call.run, returned(record.asked.call, outcome)
                self._activation.post(Request(lambda turn: _record_late(turn, run, event), _ignore))
        self._drop_if_empty()

    def _wait_no_more(self, record: CallRecord) -> None:
        """Stop waiting for the code of an abandoned call that has not ended within its time limit; report
        that.
        """
        call = record.call
        code = f"{call.target.action}, which run {call.run} called in step {call.step},"

        def tell(turn: Turn) -> None:
            turn.transaction.add_error(
                NOT_UNDONE,
                f"the code of {code} has not ended {call.timeout:g} s after it was given up: the undoing "
                "goes on without waiting for it, and what that code still does is not undone",
            )

        freed = self.behind.wait_no_more(record)
        self._begin_each(freed)
        if freed and self._activation is not None:
            self._activation.post(Request(tell, _ignore))
        self._drop_if_empty()

    def _begin_each(self, records: list[CallRecord]) -> None:
        """Begin calls that waited for others to end."""
        for record in records:
            if not record.is_over:
                self._go(partial(self._begin, record), record)

    # --- reports on calls of the journal --------------------------------------------------------------

    def announce(self, record: CallRecord) -> None:
        """Report that an announced call begins; it does so as soon as that is recorded (N29)."""
        self._report(record, CallStarting(0, 0.0, _asked(record).call))

    async def produced(self, record: CallRecord, elements: list[OutputElement]) -> None:
        """Report the elements of a source, which continues as soon as they are recorded (N36)."""
        taken = asyncio.get_running_loop().create_future()
        self._report(record, Produced(0, 0.0, _asked(record).call, tuple(elements)), taken)
        await taken

    def answered(self, record: CallRecord, outcome: Outcome) -> None:
        """Report the outcome of a call. For a lost call, report that it must be made again."""
        call = _asked(record).call
        if self.ending is not None:
            self._settle(record)
        elif outcome.lost:
            self._forget(record)
            if self._activation is not None:
                self._activation.resume(record.call.run, call)
            self._activate()  # the next activation does not find it under way
        else:
            event = returned(call, record.finish(outcome) if record.finish else outcome)
            self._report(record, event, also=record.also)

    async def keep(self, work: Callable[[Turn], None]) -> None:
        """Have a turn of the agent, in any activation, record something for a call.

        Returns when that is recorded. `work` may run twice, and must not fail.
        """
        recorded = asyncio.get_running_loop().create_future()
        self._unrecorded[recorded] = work
        self._post_work(recorded)
        try:
            await recorded
        finally:
            self._unrecorded.pop(recorded, None)

    def _post_work(self, recorded: asyncio.Future[None]) -> None:
        if self._activation is None:
            self._activate()
            return

        def settle(_: object, error: BaseException | None) -> None:
            if recorded.done():
                return
            if error is None:
                recorded.set_result(None)
            else:
                self._activate()  # its activation may have been dropped: tell the next

        self._activation.post(Request(self._unrecorded[recorded], settle))

    def _report(
        self,
        record: CallRecord,
        event: Event,
        taken: asyncio.Future[None] | None = None,
        also: Callable[[Turn], None] | None = None,
    ) -> None:
        """Report on a call to its agent, as soon as the agent is active."""
        if self.ending is not None:
            return
        report = Delivery(record.call.run, event, partial(self._recorded, record, event), also)
        record.tell(report, taken)
        if self._activation is not None:
            self._activation.post(report)
        else:
            self._activate()

    def _recorded(self, record: CallRecord, event: Event, error: BaseException | None) -> None:
        """Continue a call after its report is recorded."""
        if record.report is None or record.report.event is not event:  # there is a later report
            return
        if error is not None:
            self._activate()  # its activation may have been dropped: tell the next
            return
        taken = record.taken
        record.tell(None)
        if record.state == "announced":
            self._begin_announced(record)
        elif record.state == "reported":
            self._settle(record)
        elif taken is not None and not taken.done():
            taken.set_result(None)

    def _begin_announced(self, record: CallRecord) -> None:
        call = _asked(record).call
        activation = self._activation
        run = activation.agent.runs.active.get(record.call.run) if activation is not None else None
        if run is None or call not in run.calls or call in run.abandoned:
            self.abandon(record)
            return
        self._go(partial(self.book.executor.go, record), record)

    def _go(self, begin: Callable[[], None], record: CallRecord) -> None:
        """Start a call that has waited; if that fails, the failure is its outcome."""
        try:
            begin()
        except Exception as error:
            log.exception("call %s of run %d could not be begun", record.call.id, record.call.run)
            record.answer(Outcome(problem=internal_failure(error)))

    def _settle(self, record: CallRecord) -> None:
        record.settle()
        self._forget(record)

    def _forget(self, record: CallRecord) -> None:
        if self.records.get(record.call.id) is record:
            del self.records[record.call.id]
        self._drop_if_empty()

    def _drop_if_empty(self) -> None:
        if self._activation is None and not self.records:
            if self.behind.has_all_ended:
                self.book.drop(self)
            if self.ending is not None and not self.ending.done():
                self.ending.set_result(None)


def _record_late(turn: Turn, eid: int, event: Returned) -> None:
    """Record the late result of an abandoned call, unless the call is being made again; no run is told."""
    run = turn.agent.runs.get(eid)
    if run is not None and event.call not in run.calls:
        late = replace(event, id=turn.agent.numbers.last + 1, at=turn.at, late=True)
        turn.record(run, late, [], [])


def _log_late(record: CallRecord, outcome: Outcome) -> None:
    """Log the late result of an abandoned call: as a warning, unless the call has no effects outside."""
    call, problem = record.call, outcome.problem
    what = f"{call.target.action}, which run {call.run} called in step {call.step} and gave up, came back"
    failed = f"{problem.kind}: {without_secrets(problem.message)}" if problem is not None else ""
    said = failed or "what it has done stays done"
    log.log(logging.INFO if call.target.pure else logging.WARNING, "%s: %s", what, said)


def returned(call: str, outcome: Outcome) -> Returned:
    """The event that returns an outcome."""
    elements = tuple(outcome.elements)
    return Returned(0, 0.0, call, elements, (), outcome.problem, outcome.abandoned, outcome.value)


def refused(call: Call, failure: Failure) -> Returned:
    """The event for a call that could not be made."""
    return Returned(0, 0.0, call.call, problem=failure)


def internal_failure(error: Exception) -> Failure:
    """The failure of a call that narval could not make."""
    return Failure("internal-error", f"narval could not make the call: {error!r}")


def _asked(record: CallRecord) -> Call:
    """The command of a call of the journal."""
    assert record.asked is not None
    return record.asked


def _ignore(*_: object) -> None:
    """Do nothing: the agent is active, or nobody waits for the call."""
