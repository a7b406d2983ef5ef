"""The driver of a network: runs it, performs the outside work it asks for, and enforces its time limit.

A network is driven in the daemon's event loop. Between two slices everything else has its turn: other
transactions (T56), agents, surfaces. Outside work is done by tasks of that loop, which continue only while
there is room (TA41): a source waits while any operator of the network is behind, other work while an operator
that it feeds is behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any, Protocol

from narval.core.engines.dates import restart_wait
from narval.core.engines.events import Failure
from narval.core.errors import ActionError
from narval.kinds.dataflow.calls.performers.performing import MakePerformer, Performer
from narval.kinds.dataflow.engine.network import requests
from narval.kinds.dataflow.engine.network.batches import FlowError, Relation, TupleBatch
from narval.kinds.dataflow.engine.network.transaction import Network
from narval.system.long_work import TimeSlice

TURNS = 8
"""The turns of a network between two checks of its requests and the time."""

OVERDUE = "time-to-live"

FlowInput = Relation | str | int | float | None
"""An input: a relation, which has all tuples of a stream, or a value."""

Place = tuple[str, str, int]
"""An instance of an operator: its frame, its call, its epoch."""


class Show(Protocol):
    """The receiver of a dataflow's outputs."""

    def tuples(self, output: str, batch: TupleBatch) -> None:
        """Take tuples of an output."""

    def retracted(self, output: str, batch: TupleBatch) -> None:
        """Take back tuples that only a void try gave, unless they stand outside already."""

    def value(self, output: str, value: Any) -> None:
        """Take the value of an output, in place of that of a void try."""

    def over(self, output: str, cancelled: bool) -> None:
        """Handle the end of an output."""


class TimeToLive:
    """The time that a transaction has after its last progress (T30, TA26), in seconds of the loop's clock."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._progress, self._moved = -1, 0.0

    def note(self, progress: int) -> None:
        """Restart the countdown if there is progress."""
        if progress != self._progress:
            self._progress, self._moved = progress, asyncio.get_running_loop().time()

    @property
    def left(self) -> float:
        """The seconds left."""
        return self._moved + self.seconds - asyncio.get_running_loop().time()


class FlowDriver:
    """Drives one transaction, which ends after `ttl` seconds without progress, if set (T30, TA26).

    `moved` is called whenever the transaction may have made progress.
    """

    def __init__(
        self,
        network: Network,
        make: MakePerformer,
        show: Show,
        ttl: float | None = None,
        moved: Callable[[], None] | None = None,
    ) -> None:
        self._network, self._make, self._show, self._moved = network, make, show, moved
        self._ttl = TimeToLive(ttl) if ttl is not None else None
        self._performers: dict[Place, Performer] = {}
        self._tasks: dict[int, tuple[asyncio.Task[None], Place]] = {}
        self._others: set[asyncio.Task[None]] = set()
        self._wake, self._room, self._turn = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._stopped: Failure | None = None

    async def drive(self, inputs: Mapping[str, FlowInput]) -> requests.TransactionOver:
        """Run the transaction to its end."""
        if self._ttl is not None:
            self._also(self._watch(self._ttl))
        try:
            return await self._drive(inputs)
        finally:
            pending = [*(task for task, _ in self._tasks.values()), *self._others]
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    async def _drive(self, inputs: Mapping[str, FlowInput]) -> requests.TransactionOver:
        network, slice = self._network, TimeSlice()
        network.start()
        for name, flow_input in inputs.items():
            network.give(name, flow_input)
        while True:
            busy = network.run(TURNS)
            if self._ttl is not None:
                self._ttl.note(network.progress)
            if self._moved is not None:
                self._moved()
            over = self._hear()
            if over is not None:
                return over if self._stopped is None else requests.TransactionOver("failed", self._stopped)
            self._turn.set()
            self._turn = asyncio.Event()
            if network.is_crowded:
                self._room.clear()
            else:
                self._room.set()
            if busy:
                await slice.yield_if_due()
            else:
                await self._wake.wait()
            self._wake.clear()

    # --- requests of the network ----------------------------------------------------------------------

    def _hear(self) -> requests.TransactionOver | None:
        over = None
        for event in self._network.take():
            match event:
                case requests.OutputTuples(output=output, batch=batch):
                    self._show.tuples(output, batch)
                case requests.OutputRetracted(output=output, batch=batch):
                    self._show.retracted(output, batch)
                case requests.OutputValue(output=output, value=value):
                    self._show.value(output, value)
                case requests.OutputOver(output=output, cancelled=cancelled):
                    self._show.over(output, cancelled)
                case requests.OperatorRequest():
                    place = (event.frame, event.call.key, event.epoch)
                    self._tasks[event.id] = (asyncio.create_task(self._perform(event, place)), place)
                case requests.RequestsWithdrawn():
                    self._withdraw(event)
                case requests.RestartRequest():
                    self._also(self._restart(event))
                case requests.TransactionOver():
                    over = event
        return over

    def _also(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._others.add(task)
        task.add_done_callback(self._others.discard)
        return task

    async def _restart(self, asked: requests.RestartRequest) -> None:
        await asyncio.sleep(restart_wait(asked.attempt))
        self._network.restart(asked.frame)
        self._wake.set()

    def _withdraw(self, event: requests.RequestsWithdrawn) -> None:
        for request in event.requests:
            task, place = self._tasks.pop(request, (None, None))
            if task is not None:
                task.cancel()
            if place is not None:
                self._performers.pop(place, None)

    # --- outside work ---------------------------------------------------------------------------------

    async def _perform(self, request: requests.OperatorRequest, place: Place) -> None:
        network = self._network
        is_source = request.phase == "run" and not request.call.lifted
        try:
            if place not in self._performers:
                self._performers[place] = self._make(request)
            async with aclosing(self._performers[place].perform(request)) as answers:
                async for answer in answers:
                    if is_source:
                        await self._room.wait()
                    while network.is_crowded_behind(request.id):
                        await self._turn.wait()
                    network.answer(request.id, *answer)
                    self._wake.set()
                    if is_source:
                        await asyncio.sleep(0)  # pass its output on first; that may fill the next operators
            network.done(request.id)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            network.fail(request.id, failure_in(error))
        finally:
            self._tasks.pop(request.id, None)
            self._wake.set()

    # --- time -----------------------------------------------------------------------------------------

    async def _watch(self, ttl: TimeToLive) -> None:
        """End the transaction if it makes no progress within its time to live."""
        ttl.note(self._network.progress)
        while (left := ttl.left) > 0:
            await asyncio.sleep(left)
        self._stopped = Failure(OVERDUE, f"nothing has moved for {ttl.seconds:g} s", final=True)
        self._network.stop()
        self._wake.set()


def with_place(failure: Failure) -> str:
    """The message of a failure, with its place."""
    return f"{failure.message} ({failure.detail})" if failure.detail else failure.message


def failure_in(error: Exception) -> Failure:
    """The failure of an outside operator. A failure of user code may be temporary, as in an action."""
    if isinstance(error, FlowError):
        return error.failure
    if isinstance(error, ActionError):
        return Failure(error.kind, str(error), final=error.final)
    return Failure(type(error).__name__, str(error) or repr(error))
