"""An executor that holds every call until it is told to answer one: in any order, in any way."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from narval.calls.backend import ABANDONED, Announce, Counts, Outcome, Produced
from narval.calls.context import CallContext
from narval.calls.conversion import answer_at_once
from narval.calls.coroutines import SourceTroubles
from narval.calls.executor import Done
from narval.core.engines.events import Failure, OutputElement
from narval.core.errors import NarvalError
from tests.simulator.invariants import Ledger


@dataclass(eq=False)
class Held:
    """A call that waits, is announced, or is under way."""

    call: CallContext
    done: Done
    produced: Produced
    deadline: float | None
    announce: Announce | None
    announced: bool = False
    under_way: bool = False


class NoPlaces:
    """Stands in the place of `Places`: there is one for each call."""

    cluster = None
    """None is asked for anything."""

    def share(self, is_shared: Callable[[], bool]) -> None:
        """None is taken from anybody."""

    def limit(self, agent: str, most: int | None) -> None:
        """However many an agent may have, all are held."""


class Interleaving:
    """Stands in the place of `Executor`. What comes of a call, and when, is a matter of chance.

    `kind` is 0 where actions do as they are written, and 1 where they fail in all ways that there are.
    """

    def __init__(self, chance: Random, clock: Any, ledger: Ledger) -> None:
        self.chance, self.clock, self.ledger = chance, clock, ledger
        self.places, self.troubles = NoPlaces(), SourceTroubles()
        self.held: dict[str, Held] = {}
        self.given_up: set[str] = set()
        self.rough = True
        self.closed = False
        self._yielded: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    # --- what the runtime asks ------------------------------------------------------------------------

    def start(
        self, call: CallContext, done: Done, produced: Produced, announce: Announce | None = None
    ) -> None:
        """Hold a call; now and then, answer it at once."""
        if self.closed:
            return
        self.ledger.begun(call.id)
        assert call.id not in self.held, f"call {call.id} is made while it is under way"
        deadline = self.clock.now() + call.timeout if call.timeout is not None else None
        self.held[call.id] = Held(call, done, produced, deadline, announce, under_way=announce is None)
        if not call.is_source and self.chance.random() < 0.2:
            self.answer(call.id)

    def at_once(self, call: CallContext) -> None:
        """Nothing is answered at once but by chance."""

    def abandon(self, call: str) -> bool:
        """Give a call up, some time: it may come back before that."""
        if call in self.held:
            self.given_up.add(call)
        return call in self.held

    @property
    def programs(self) -> Interleaving:
        """The simulator knows by itself when calls are to be ended."""
        return self

    reaper = programs

    def hold_until(self, moment: float) -> None:
        """Do nothing."""

    async def end_former(self) -> None:
        """No call here is a program."""

    async def close(self, grace: float = 0.0) -> None:
        """Some calls end in time."""
        if grace > 0:
            for call in [call for call, each in self.held.items() if not each.call.is_source]:
                if self.chance.random() < 0.5:
                    self.answer(call)
        self.closed = True
        self.held.clear()
        for task in self._tasks:
            task.cancel()

    def renew(self) -> None:
        """Modules have changed: nothing here has imported them."""

    def limit(self, limits: Any) -> None:
        """However many calls there are, all are held."""

    def notify(self, on_caught_up: Callable[[str], None]) -> None:
        """Who waits until idle does not wait for chance."""

    def is_up_to_date(self, directory: str, creates: tuple[str, ...], needs: tuple[str, ...]) -> bool:
        """No call here is a program."""
        return False

    def caught_up(self, call: str) -> bool:
        """Always: who waits until idle does not wait for chance."""
        return True

    def is_busy(self) -> bool:
        """Never: who waits until idle does not wait for chance."""
        return False

    def next(self) -> None:
        """No call sleeps: each is held until it is answered."""

    def release(self) -> None:
        """Nothing to wake."""

    @property
    def progress(self) -> dict[str, tuple[float, float | None]]:
        """Nobody says how far it is."""
        return {}

    def find(self, call: str) -> None:
        """Nobody asks how long a call goes on, or what it waits for."""

    @property
    def counts(self) -> Counts:
        """How many calls are held."""
        return Counts(running=len(self.held), queued=0, given_up=0, worker_restarts=0)

    # --- what the simulation asks ---------------------------------------------------------------------

    def overdue(self) -> list[str]:
        """The calls whose time is over."""
        now = self.clock.now()
        return [
            call for call, each in self.held.items() if each.deadline is not None and each.deadline <= now
        ]

    def answer(self, call: str) -> None:
        """A call comes back, or a source yields."""
        held = self.held[call]
        if call in self.given_up and self.chance.random() < 0.8:
            self._end(call, ABANDONED)
        elif not held.under_way:
            self._announce(held)
        elif held.call.is_source and self._source(held):
            return
        else:
            self._end(call, self._outcome(held.call))

    def expire(self, call: str) -> None:
        """A call has outlived its time limit."""
        self._end(call, Outcome(problem=Failure("timeout", "it did not come back in time")))

    def _announce(self, held: Held) -> None:
        """What must not be made twice is said to begin, once, and begins when that is recorded (N29)."""
        if held.announce is not None and not held.announced:
            held.announced = True
            held.announce(partial(self._go, held))

    def _go(self, held: Held) -> None:
        if self.held.get(held.call.id) is held:
            self.ledger.went(held.call.id)
            held.under_way = True

    def _end(self, call: str, outcome: Outcome) -> None:
        held = self.held.pop(call)
        self.given_up.discard(call)
        held.done(outcome)

    def _source(self, held: Held) -> bool:
        """A source yields what it would yield next; False when it ends."""
        if self.chance.random() < (0.1 if self.rough else 0.5):
            return False
        number = self._yielded.get(held.call.id, 0)
        self._yielded[held.call.id] = number + 1
        raws = [OutputElement(f"<drop n='{number}'/>".encode(), "drop")]
        if self.rough and self.chance.random() < 0.05:
            raws = [OutputElement(b"<puddle/>", "drop")]
        task = asyncio.get_running_loop().create_task(_yield(held, raws))
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


async def _yield(held: Held, raws: list[OutputElement]) -> None:
    with contextlib.suppress(NarvalError, asyncio.CancelledError):
        await held.produced(raws)
