"""Calls answered on a cluster (G65-G73): each goes there when there is a place for it, and returns once.

The cluster has at most twice as many tasks as threads, so that a free thread has work at once. The others
wait here, and agents take turns. Calls that begin together go in one message, and short ones in groups. This
module imports nothing of dask: the link does that, in its own thread.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Container, Iterable, Iterator
from functools import partial
from typing import Any

from narval.calls.backend import QueuedBackend
from narval.calls.cluster.connection import ClusterConnection
from narval.calls.cluster.frames import Begun, ClusterReply, ClusterSize, ClusterTask, News
from narval.calls.cluster.tasks import (
    ShortCalls,
    TasksUnderWay,
    TaskUnderWay,
    body_of,
    is_once,
    key_of,
    limit_runs_from,
    run_limit,
)
from narval.calls.programs.backend import ProgramBackend
from narval.calls.record import ABANDONED, CallRecord, Outcome
from narval.calls.workers.frames import FrameError
from narval.core.definitions.action.needs import shown_resources
from narval.core.engines.events import Failure
from narval.files.outside.cluster import LOCAL_CLUSTER
from narval.files.settings import CallLimits

_MOST_IN_GROUP = 100


class Cluster(QueuedBackend):
    """The calls that are on a cluster, and those that wait for it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limits: CallLimits,
        programs: ProgramBackend,
        is_shared: Callable[[], bool],
    ) -> None:
        super().__init__("places on the cluster", is_shared)
        self._loop, self._limits = loop, limits
        self.connection = ClusterConnection(programs, limits.cluster, self)
        self._tasks = TasksUnderWay()
        self._lacking: dict[CallRecord, None] = {}
        """Calls that ask for resources that no worker has."""
        self._outbox: list[TaskUnderWay] = []
        self._short = ShortCalls()

    # --- calls ----------------------------------------------------------------------------------------

    @property
    def queued(self) -> int:
        """The number of calls that wait for room."""
        return len(self._waiting) + len(self._lacking)

    def start(self, record: CallRecord) -> None:
        """Answer a call as soon as there is room."""
        if self.connection.why:
            run_limit(record, self._loop.time(), self._expire)
        self._waiting.add(record)
        self._hand_out()
        self.connection.open()

    def abandon(self, record: CallRecord) -> None:
        """Take a call out of the queue, or have its worker killed if it has begun."""
        self._end(record, ABANDONED)

    def waits_for(self, record: CallRecord) -> str:
        """The reason why a call waits: for a cluster, for resources, for a place, or for a thread there."""
        if why := self.connection.why_for_long():
            return f"there is no cluster: {why}"
        if record in self._lacking:
            return f"no worker of the cluster has {shown_resources(record.call.target.resources)}"
        if record.has_room:
            return "" if record.place.worker else "it is on the cluster, which has no thread for it"
        return super().waits_for(record)

    def waits_in_vain(self, record: CallRecord) -> bool:
        """True if a call waits for a cluster that cannot exist until somebody acts."""
        return bool(self.connection.missing) and record.call.target.where == "cluster" and not record.has_room

    def shown(self) -> dict[str, Any]:
        """The cluster as `status` shows it."""
        return self.connection.shown(len(self._tasks), self.queued)

    def limit(self, limits: CallLimits) -> None:
        """Apply other limits from now on. If they name another cluster, calls are made again there."""
        self._limits = limits
        if self.connection.use(limits.cluster) and (self._tasks or self.queued):
            self.away(self.connection.why)
            self.connection.open()

    def look_again(self) -> None:
        """Look again for a missing cluster that calls wait for."""
        if self.connection.missing and self.queued:
            self.connection.open()

    async def close(self) -> None:
        """Leave the cluster; kept tasks continue there."""
        self._waiting.clear()
        await self.connection.close()

    # --- to the cluster -------------------------------------------------------------------------------

    def _most(self) -> int:
        return 2 * self.connection.size.threads

    def _taken(self) -> Iterable[CallRecord]:
        return self._tasks.first_calls()

    def _hand_out(self) -> None:
        while self._waiting and len(self._tasks) < self._most():
            full = self._full()
            if not self._waiting.has_but(full):
                return
            first = self._waiting.next(full)
            if not self.connection.size.can(first.call.target.resources):
                self._lacking[first] = None
                continue
            calls, key = [first], key_of(first)
            if self._short.has(first) and (others := list(self._short_ones(full))):
                calls += others
                key = f"{first.call.target.action}-group-{secrets.token_hex(16)}"
            self._tasks.add(TaskUnderWay(key, calls))
            for record in calls:
                # the cluster keeps its time limit, as it may wait there for a thread first
                if record.begin():
                    self.go(record)

    def _short_ones(self, full: Container[str]) -> Iterator[CallRecord]:
        """Take the short calls that are next in turn for a group, but leave some for the other threads."""
        most = min(_MOST_IN_GROUP, len(self._waiting) // self.connection.size.threads) - 1
        for _ in range(most):
            if not self._waiting.has_but(full) or not self._short.has(self._waiting.first(full)):
                return
            yield self._waiting.next(full)

    def go(self, record: CallRecord) -> None:
        """Send the task of a call, with those of the same turn, as soon as all its calls may begin."""
        task: TaskUnderWay = record.place
        if not all(record.state == "running" for record in task.living()):
            return
        bodies = list[bytes]()
        for record in task.living():
            try:
                bodies.append(body_of(record, self._limits))
            except FrameError as error:
                self._over(record, Outcome(problem=Failure(error.kind, str(error), final=True)))
        if not bodies:
            return
        call, once = task.first.call, is_once(task.first)
        is_kept = len(task.calls) == 1 and self._limits.cluster.address != LOCAL_CLUSTER
        task.send(ClusterTask(task.key, bodies, call.target.resources, is_kept, once, call.has_begun))
        if not self._outbox:
            self._loop.call_soon(self._empty_outbox)
        self._outbox.append(task)

    def _empty_outbox(self) -> None:
        tasks, self._outbox = self._outbox, []
        if self.connection.link is not None:
            self.connection.link.submit([task.sent for task in tasks if task.sent is not None])

    # --- over -----------------------------------------------------------------------------------------

    def _over(self, record: CallRecord, outcome: Outcome) -> bool:
        """Answer a call that had begun; True if its task has ended with it."""
        is_last = self._tasks.drop(record)
        record.answer(outcome)
        self._hand_out()
        self._rest_if_idle()
        return is_last

    def _stop(self, record: CallRecord, outcome: Outcome) -> None:
        """Kill the call's worker, and remove the task from the cluster if the call was its last."""
        task: TaskUnderWay = record.place
        key = key_of(record)
        is_last = self._over(record, outcome)
        if self.connection.link is not None and task.sent is not None:
            self.connection.link.end(task.key, [key], task.worker, whole=is_last)

    def _end(self, record: CallRecord, outcome: Outcome) -> None:
        """Answer a call, wherever it is."""
        if record.has_room:
            self._stop(record, outcome)
            return
        if record in self._lacking:
            del self._lacking[record]
        else:
            self._waiting.remove(record)
        record.answer(outcome)
        self._rest_if_idle()

    def _rest_if_idle(self) -> None:
        if not (self._tasks or self.queued):
            self.connection.close_after(self._limits.worker_idle)

    def _expire(self, record: CallRecord) -> None:
        limit = f"{record.call.timeout:g} s"
        why = self.waits_for(record) or "a worker of the cluster, or the scheduler, was lost meanwhile"
        message = f"{record.call.target.action} did not come back within {limit}; {why}"
        self._end(record, Outcome(problem=Failure("timeout", message)))

    def _recorded(self, task: TaskUnderWay, *, once: bool) -> None:
        """Have a task dropped as soon as the outcomes of all its calls are recorded."""
        if task.recorded() and self.connection.link is not None:
            self.connection.link.settled(task.key, once=once)

    # --- reports from the cluster ---------------------------------------------------------------------

    def joined(self, size: ClusterSize) -> None:
        """Send all pending tasks to a cluster that has joined or changed its size; it knows which it has."""
        for record in (*self._waiting, *self._lacking, *self._tasks.calls()):
            if limit_runs_from(record) is None:
                record.stop_timer()
        for record in tuple(self._lacking):
            if size.can(record.call.target.resources):
                del self._lacking[record]
                self._waiting.add(record)
        self._outbox += [task for task in self._tasks if task.sent is not None and task not in self._outbox]
        self._empty_outbox()
        self._hand_out()

    def away(self, why: str) -> None:
        """Start the time limit of calls that are not on a cluster, or whose cluster is lost."""
        for record in (*self._waiting, *self._lacking, *self._tasks.calls()):
            run_limit(record, self._loop.time(), self._expire)
        for task in self._tasks:
            task.lost()

    def replied(self, key: str, replies: list[ClusterReply] | Failure) -> None:
        """Answer the calls of a task."""
        task = self._tasks.task(key)
        if task is None:  # given up by now
            return
        recorded = partial(self._recorded, task, once=is_once(task.first))
        for record, outcome, seconds in task.outcomes(replies):
            record.when_recorded(recorded)
            self._short.took(record, seconds)
            self._over(record, outcome)

    def told(self, news: News) -> None:
        """Handle news of a task or a call; the limit of a call that begins again is then enforced here."""
        self._tasks.told(news, self._loop.time())
        task = self._tasks.task(news.key) if isinstance(news, Begun) else None
        if task is not None and len(task.begun) > 1 and task.limit_runs_from is not None:
            run_limit(task.first, self._loop.time(), self._expire)
