"""Calls answered on a cluster (G65-G73): each goes there when it has a place, and comes back once.

At most twice as many tasks are on the cluster as it has threads, so that a thread that is free has work at
once; the others wait here, agents in turn. Calls that begin together go in one message, and short ones in
groups. Nothing of dask is imported here: that is done by the link, in a thread of its own.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from functools import partial
from typing import Any

from narval.calls.backend import ABANDONED, Outcome, RunningCall
from narval.calls.cluster.connection import ClusterConnection
from narval.calls.cluster.frames import ClusterReply, News
from narval.calls.cluster.messages import ClusterSize, ClusterTask
from narval.calls.cluster.tasks import (
    ShortCalls,
    TasksUnderWay,
    TaskUnderWay,
    body_of,
    is_once,
    key_of,
)
from narval.calls.fair_queue import QueuedBackend
from narval.calls.programs.backend import ProgramBackend
from narval.calls.workers.frames import FrameError
from narval.core.definitions.action.resources import shown_resources
from narval.core.engines.events import Failure
from narval.files.outside.cluster import LOCAL
from narval.files.settings import CallLimits

_MOST_IN_GROUP = 100


class WaitingLimits:
    """The calls whose time runs because there is no cluster; those that outlive it are given to `expire`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, expire: Callable[[RunningCall], None]) -> None:
        self._loop, self._expire = loop, expire
        self._timers: dict[RunningCall, asyncio.TimerHandle] = {}

    def run(self, calls: Iterable[RunningCall]) -> None:
        """Let the time of calls run from now on, if it does not yet."""
        for running in calls:
            if running.call.timeout is not None and running not in self._timers:
                self._timers[running] = self._loop.call_later(running.call.timeout, self._over, running)

    def stop(self) -> None:
        """Let no time run any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def drop(self, running: RunningCall) -> None:
        """Forget a call that is over."""
        if (timer := self._timers.pop(running, None)) is not None:
            timer.cancel()

    def _over(self, running: RunningCall) -> None:
        del self._timers[running]
        self._expire(running)


class Cluster(QueuedBackend):
    """The calls that are on a cluster, and those that wait for it."""

    given_up = 0

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: CallLimits, programs: ProgramBackend) -> None:
        super().__init__("places on the cluster")
        self._loop, self._limits = loop, limits
        self.connection = ClusterConnection(programs, limits.cluster, self)
        self._tasks = TasksUnderWay()
        self._lacking: dict[RunningCall, None] = {}
        """Calls that ask for resources that no worker has."""
        self._waiting_limits = WaitingLimits(loop, self._expire)
        self._outbox: list[TaskUnderWay] = []
        self._short = ShortCalls()

    # --- calls ----------------------------------------------------------------------------------------

    @property
    def queued(self) -> int:
        """The number of calls that wait for room."""
        return len(self._waiting) + len(self._lacking)

    def start(self, running: RunningCall) -> None:
        """Answer a call as soon as there is room."""
        if self.connection.why:
            self._waiting_limits.run((running,))
        super().start(running)
        self.connection.open()

    def abandon(self, running: RunningCall) -> None:
        """Take a call out of the queue, or have its worker killed where it has begun."""
        self._end(running, ABANDONED)

    def waits_for(self, running: RunningCall) -> str:
        """The reason why a call waits: for a cluster, for resources, for a place, or for a thread there."""
        task, why = self._tasks.of(running), self.connection.why
        if why:
            return f"there is no cluster: {why}"
        if running in self._lacking:
            return f"no worker of the cluster has {shown_resources(running.call.target.resources)}"
        if task is not None:
            return "" if task.worker else "it is on the cluster, which has no thread for it"
        return super().waits_for(running)

    def shown(self) -> dict[str, Any]:
        """The cluster as `status` shows it."""
        return self.connection.shown(len(self._tasks), self.queued)

    def limit(self, limits: CallLimits) -> None:
        """Keep to other limits from now on; calls that are on another cluster by now are made again."""
        self._limits = limits
        if self.connection.use(limits.cluster) and (self._tasks or self.queued):
            self.away(self.connection.why)
            self.connection.open()

    async def close(self) -> None:
        """Leave the cluster; what is kept there goes on."""
        self._waiting.clear()
        self._waiting_limits.stop()
        await self.connection.close()

    # --- to the cluster -------------------------------------------------------------------------------

    def _most(self) -> int:
        return 2 * self.connection.size.threads

    def _taken(self) -> Collection[RunningCall]:
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
            self._tasks.add(task := TaskUnderWay(key, calls))
            for running in calls:
                # its time limit is kept on the cluster, where it may wait for a thread first
                running.begin(self._loop, None, partial(self._send, task))

    def _short_ones(self, full: Container[str]) -> Iterator[RunningCall]:
        """Take the short calls whose turn it is for a group, but leave some to the other threads."""
        most = min(_MOST_IN_GROUP, len(self._waiting) // self.connection.size.threads) - 1
        for _ in range(most):
            if not self._waiting.has_but(full) or not self._short.has(self._waiting.first(full)):
                return
            yield self._waiting.next(full)

    def _send(self, task: TaskUnderWay) -> None:
        """Send a task, once all of its calls may begin, with those that are sent in the same turn."""
        if not all(running.under_way for running in task.living()):
            return
        bodies = list[bytes]()
        for running in task.living():
            try:
                bodies.append(body_of(running, self._limits))
            except FrameError as error:
                self._over(running, Outcome(problem=Failure(error.kind, str(error), final=True)))
        if not bodies:
            return
        call, once = task.first.call, is_once(task.first)
        kept = len(task.calls) == 1 and self._limits.cluster.address != LOCAL
        task.send(ClusterTask(task.key, bodies, call.target.resources, kept, once, call.has_begun))
        if not self._outbox:
            self._loop.call_soon(self._empty_outbox)
        self._outbox.append(task)

    def _empty_outbox(self) -> None:
        tasks, self._outbox = self._outbox, []
        if self.connection.link is not None:
            self.connection.link.submit([task.sent for task in tasks if task.sent is not None])

    # --- over -----------------------------------------------------------------------------------------

    def _over(self, running: RunningCall, outcome: Outcome) -> bool:
        """Answer a call that had begun; True if its task is over with it."""
        self._waiting_limits.drop(running)
        is_last = self._tasks.drop(running)
        running.answer(outcome)
        self._hand_out()
        self._rest_if_idle()
        return is_last

    def _stop(self, running: RunningCall, outcome: Outcome) -> None:
        """Kill its worker, and take it from the cluster if it is alone in its task."""
        task = self._tasks.of(running)
        assert task is not None
        key = key_of(running)
        is_last = self._over(running, outcome)
        if self.connection.link is not None and task.sent is not None:
            self.connection.link.end(task.key, [key], task.worker, whole=is_last)

    def _end(self, running: RunningCall, outcome: Outcome) -> None:
        """Answer a call, wherever it is."""
        if running.begun:
            self._stop(running, outcome)
            return
        if running in self._lacking:
            del self._lacking[running]
        else:
            self._waiting.remove(running)
        self._waiting_limits.drop(running)
        running.answer(outcome)
        self._rest_if_idle()

    def _rest_if_idle(self) -> None:
        if not (self._tasks or self.queued):
            self.connection.close_after(self._limits.worker_idle)

    def _expire(self, running: RunningCall) -> None:
        limit = f"{running.call.timeout:g} s"
        message = f"{running.call.target.action} did not come back within {limit}; {self.waits_for(running)}"
        self._end(running, Outcome(problem=Failure("timeout", message)))

    def _recorded(self, task: TaskUnderWay, *, once: bool) -> None:
        """Have a task dropped, once the outcomes of all of its calls are recorded."""
        if task.recorded() and self.connection.link is not None:
            self.connection.link.settled(task.key, once=once)

    # --- what is told of the cluster ------------------------------------------------------------------

    def joined(self, size: ClusterSize) -> None:
        """Send what is to go to the cluster, which is there or has another size; it knows what it has."""
        self._waiting_limits.stop()
        for running in tuple(self._lacking):
            if size.can(running.call.target.resources):
                del self._lacking[running]
                self._waiting.add(running)
        self._outbox += [task for task in self._tasks if task.sent is not None and task not in self._outbox]
        self._empty_outbox()
        self._hand_out()

    def away(self, why: str) -> None:
        """Let the time of calls run that had none of the cluster, or whose cluster is lost."""
        self._waiting_limits.run((*self._waiting, *self._lacking, *self._tasks.calls()))
        for task in self._tasks:
            task.lost()

    def replied(self, key: str, replies: list[ClusterReply] | Failure) -> None:
        """Answer the calls of a task."""
        task = self._tasks.task(key)
        if task is None:  # given up meanwhile
            return
        recorded = partial(self._recorded, task, once=is_once(task.first))
        for running, outcome, seconds in task.outcomes(replies, recorded):
            self._short.took(running, seconds)
            self._over(running, outcome)

    def told(self, news: News) -> None:
        """Take news of a task or a call; those of what is over by now are dropped."""
        self._tasks.told(news)
