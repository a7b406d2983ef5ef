"""An executor that holds every call until it is told to answer one: in any order, in any way."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from random import Random
from typing import Any

from narval.calls.book import CallBook
from narval.calls.context import CallContext
from narval.calls.conversion import answer_at_once
from narval.calls.in_daemon import SourceTroubles
from narval.calls.record import ABANDONED, CallRecord, Outcome
from narval.core.engines.events import Failure, OutputElement
from narval.core.engines.view import FileTimes
from narval.core.errors import NarvalError
from narval.system.clock import RunClock
from tests.simulator.invariants import Ledger


class InterleavedBook(CallBook):
    """The book of a daemon whose calls end by chance."""

    async def close(self, grace: float = 0.0) -> None:
        """Some calls end in time."""
        assert isinstance(self.executor, Interleaving)
        self.executor.end_some(grace)
        self.is_closing = True
        for record in self:
            record.leave()
        await self.executor.close()


class Interleaving:
    """Stands in the place of `Executor`. What comes of a call, and when, is a matter of chance.

    `kind` is 0 where actions do as they are written, and 1 where they fail in all ways that there are.
    """

    answers_inline_calls = False
    """Nothing is answered at once but by chance."""

    is_simulated = False

    def __init__(self, chance: Random, clock: Any, ledger: Ledger) -> None:
        self.chance, self.clock, self.ledger = chance, RunClock(clock), ledger
        self.troubles, self.cluster, self.servers, self.changed = SourceTroubles(), None, None, _nothing
        self.held: dict[str, CallRecord] = {}
        self.confined: dict[Any, Any] = {}
        self.given_up_calls: set[str] = set()
        self.rough = True
        self._yielded: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    # --- what the runtime asks ------------------------------------------------------------------------

    def start(self, record: CallRecord) -> None:
        """Hold a call; now and then, answer it at once."""
        call = record.call
        self.ledger.begun(call.id)
        assert call.id not in self.held, f"call {call.id} is made while it is under way"
        self.held[call.id] = record
        if not record.is_once:
            record.begin()
        if not call.is_source and self.chance.random() < 0.2:
            self.answer(call.id)

    def go(self, record: CallRecord) -> None:
        """Begin an announced call."""
        if record.go() and record.is_once:
            self.ledger.went(record.call.id)

    def abandon(self, record: CallRecord) -> None:
        """Give a call up, some time: it may come back before that."""
        self.given_up_calls.add(record.call.id)

    def waits_for(self, record: CallRecord) -> str:
        """None waits for room."""
        return ""

    def has_caught_up(self, record: CallRecord) -> bool:
        """Always: who waits until idle does not wait for chance."""
        return True

    @property
    def programs(self) -> Interleaving:
        """The simulator knows by itself when calls are to be ended."""
        return self

    reaper = workers = budget = programs
    queued = given_up = restarts = 0

    def hold_until(self, moment: float) -> None:
        """Do nothing."""

    async def end_former(self) -> None:
        """No call here is a program."""

    def end_some(self, grace: float) -> None:
        """Some calls end in time, where there is any."""
        for call in [call for call, each in self.held.items() if grace > 0 and not each.call.is_source]:
            if self.chance.random() < 0.5:
                self.answer(call)

    async def close(self) -> None:
        """Hold nothing any more."""
        self.held.clear()
        for task in self._tasks:
            task.cancel()

    def replace(self) -> None:
        """Modules have changed: nothing here has imported them."""

    def share(self, is_shared: Callable[[], bool]) -> None:
        """None is taken from anybody."""

    def limit(self, limits: Any) -> None:
        """However many calls there are, all are held."""

    def allow(self, call: CallContext) -> None:
        """None fetches anything."""

    def notify(self, changed: Callable[[], None]) -> None:
        """Who waits until idle does not wait for chance."""

    def is_up_to_date(
        self, directory: str, creates: tuple[str, ...], needs: tuple[str, ...], times: FileTimes
    ) -> bool:
        """No call here is a program."""
        return False

    def next(self) -> None:
        """No call sleeps: each is held until it is answered."""

    def release(self) -> None:
        """Nothing to wake."""

    # --- what the simulation asks ---------------------------------------------------------------------

    def overdue(self) -> list[str]:
        """The calls whose time is over."""
        now = self.clock.now()
        return [
            call
            for call, each in self.held.items()
            if each.call.timeout is not None and each.since + each.call.timeout <= now
        ]

    def answer(self, call: str) -> None:
        """A call comes back, or a source yields."""
        record = self.held[call]
        if call in self.given_up_calls and self.chance.random() < 0.8:
            self._end(call, ABANDONED)
        elif record.state == "waiting":  # it must not be made twice (N29)
            if record.begin():
                self.ledger.went(call)
        elif record.state == "announced" or (record.call.is_source and self._source(record)):
            return
        else:
            self._end(call, self._outcome(record.call))

    def expire(self, call: str) -> None:
        """A call has outlived its time limit."""
        self._end(call, Outcome(problem=Failure("timeout", "it did not come back in time")))

    def _end(self, call: str, outcome: Outcome) -> None:
        record = self.held.pop(call)
        self.given_up_calls.discard(call)
        record.answer(outcome)

    def _source(self, record: CallRecord) -> bool:
        """A source yields what it would yield next; False when it ends."""
        if self.chance.random() < (0.1 if self.rough else 0.5):
            return False
        number = self._yielded.get(record.call.id, 0)
        self._yielded[record.call.id] = number + 1
        raws = [OutputElement(f"<drop n='{number}'/>".encode(), "drop")]
        if self.rough and self.chance.random() < 0.05:
            raws = [OutputElement(b"<puddle/>", "drop")]
        task = asyncio.get_running_loop().create_task(_yield(record, raws))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    def _outcome(self, call: CallContext) -> Outcome:
        if self.rough and self.chance.random() < 0.25:
            return self._failure()
        if call.is_source:
            return Outcome([])
        return answer_at_once(call)

    def _failure(self) -> Outcome:
        return self.chance.choice(
            (
                Outcome(problem=Failure("ValueError", "it did not like it")),
                Outcome(problem=Failure("crash", "its worker died", "line 1\nline 2")),
                Outcome([OutputElement(b"<puddle/>")]),
                Outcome([OutputElement(b"<note/>"), OutputElement(b"<note/>"), OutputElement(b"<ack/>")]),
                Outcome([OutputElement(b"<error type='odd'><message>as an element</message></error>")]),
                Outcome([OutputElement(b"<note/>"), OutputElement(b"<error/>"), OutputElement(b"<error/>")]),
                Outcome([]),
                Outcome([OutputElement(b"<start-plan recipe='w.none'/>")]),
            )
        )


async def _yield(record: CallRecord, raws: list[OutputElement]) -> None:
    with contextlib.suppress(NarvalError, asyncio.CancelledError):
        await record.listener.produced(record, raws)


def _nothing(*_: object) -> None:
    """Do nothing: what comes of a call is a matter of chance."""
