"""The part that runs in a worker of the cluster: it has calls answered by narval's workers there (G68).

Its functions are sent to dask by name, and never raise. Each call's worker is a separate program, so a crash,
a hang or too much memory affects that call alone.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any

import distributed

from narval.calls.cluster import frames
from narval.calls.cluster.frames import LOST, mark_of
from narval.calls.context import CallContext
from narval.calls.record import CallListener, CallRecord, Outcome
from narval.calls.workers.child import Child
from narval.calls.workers.frames import FrameError, unpacked_call
from narval.calls.workers.pool import Workers
from narval.core.engines.events import Failure
from narval.files.settings import CallLimits

_ENDED = Failure("cancelled", "the call was given up", final=True)
_MOST_ENDED, _MOST_WORKERS = 10_000, 1_000
_LOOK, _UNTOLD = 0.01, 0.05
"""Seconds for which the scheduler is asked whether a call has begun before, and after which it is told where
a task is. Most tasks have ended by then.
"""
_SMALL = 16 * 1024
"""The largest result in bytes that is sent with the news and need not be fetched. The scheduler keeps the
last thousand news.
"""


class RemoteWorkers(Workers):
    """The workers of one home within one worker of the cluster, and the calls that they answer.

    News of the calls go to the home's topic. At most as many workers are busy as dask has threads, so there
    is always a place.
    """

    def __init__(self, worker: distributed.Worker, topic: str, limits: CallLimits) -> None:
        super().__init__(asyncio.get_running_loop(), limits, None, lambda: False)
        self._worker, self._topic = worker, topic
        self._records: dict[str, CallRecord] = {}
        self._keys: dict[CallRecord, str] = {}

    async def outcome(self, sent: frames.SentCall) -> Outcome:
        """Return the outcome of a call when it has ended."""
        done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        call = unpacked_call(sent.frame, sent.timeout)
        call.attach(partial(self._progressed, sent.key))
        record = CallRecord(call, CallListener(done.set_result))
        self._records[sent.key], self._keys[record] = record, sent.key
        try:
            self.start(record)
            return await done
        finally:
            del self._records[sent.key], self._keys[record]

    def end(self, key: str) -> None:
        """Kill the worker of a call."""
        if key in self._records:
            self.abandon(self._records[key])

    def child_printed(self, child: Child, line: str) -> None:
        """Report a line that a call printed."""
        if child.record is not None and (key := self._keys.get(child.record)) is not None:
            _tell(self._worker, self._topic, frames.Printed(key, line))

    def _progressed(self, key: str, call: CallContext) -> None:
        if call.progressed is not None:
            _tell(self._worker, self._topic, frames.Reported(key, *call.progressed))


class CallsHere:
    """The workers in this worker of the cluster, by their home's topic and the memory they may add, and the
    latest calls that were given up.
    """

    def __init__(self, worker: distributed.Worker) -> None:
        self._worker = worker
        self._workers: dict[tuple[str, int | None], RemoteWorkers] = {}
        self.ended: OrderedDict[str, None] = OrderedDict()

    def of(self, topic: str, memory: int | None) -> RemoteWorkers:
        """The workers of a home that may add `memory` bytes to what they have at their start."""
        if (topic, memory) not in self._workers:
            limits = CallLimits(workers=_MOST_WORKERS, worker_memory=memory)
            self._workers[topic, memory] = RemoteWorkers(self._worker, topic, limits)
        return self._workers[topic, memory]

    def end(self, keys: list[str]) -> None:
        """Kill the workers of calls, and keep calls that have not begun from beginning."""
        for key in keys:
            self.ended[key] = None
            for workers in self._workers.values():
                workers.end(key)
        while len(self.ended) > _MOST_ENDED:
            self.ended.popitem(last=False)


@lru_cache(maxsize=1)
def _at_work(worker: distributed.Worker) -> CallsHere:
    """The `CallsHere` of this worker of the cluster."""
    return CallsHere(worker)


async def answer(task: bytes, calls: bytes, topic: str) -> bytes:
    """Answer the calls of a task one after another: bytes in, bytes out.

    News of the calls go to the topic. So does a small result, which then need not be fetched after dask's own
    message that the task has ended. The task's key comes as bytes, because dask replaces a string that is the
    key of a task by its result.
    """
    worker, key = distributed.get_worker(), task.decode()
    begun = partial(_tell, worker, topic, frames.Begun(key, worker.address))
    timer = asyncio.get_running_loop().call_later(_UNTOLD, begun)
    try:
        replies = frames.joined([await _replied(worker, body, topic) for body in frames.parted(calls)])
    except FrameError as error:
        replies = frames.joined([_refusal(error)])
    finally:
        timer.cancel()
    if len(replies) <= _SMALL:
        _tell(worker, topic, frames.Replied(key, replies))
    return replies


async def end(keys: list[str], dask_worker: distributed.Worker) -> None:
    """Give up the calls with these keys."""
    _at_work(dask_worker).end(keys)


async def _replied(worker: distributed.Worker, body: bytes, topic: str) -> bytes:
    """The reply to a call, whatever happens."""
    began = time.monotonic()
    try:
        outcome = await _outcome(worker, frames.read_sent(body), topic)
        return frames.written(frames.ClusterReply(outcome, time.monotonic() - began))
    except FrameError as error:
        return _refusal(error)
    except Exception as error:
        problem = Failure("internal-error", f"the cluster could not make the call: {error!r}")
        return frames.written(frames.ClusterReply(Outcome(problem=problem), 0.0))


def _refusal(error: FrameError) -> bytes:
    """The reply to bytes that are not a valid call."""
    return frames.written(
        frames.ClusterReply(Outcome(problem=Failure(error.kind, str(error), final=True)), 0.0)
    )


async def _outcome(worker: distributed.Worker, sent: frames.SentCall, topic: str) -> Outcome:
    at_work = _at_work(worker)
    if sent.once and await _has_begun(worker, sent.key):
        return Outcome(problem=LOST)
    if sent.key in at_work.ended:
        return Outcome(problem=_ENDED)
    outcome = await at_work.of(topic, sent.memory).outcome(sent)
    return Outcome(problem=_ENDED) if outcome.abandoned else outcome


async def _has_begun(worker: distributed.Worker, key: str) -> bool:
    """True if a call that must not be made twice has begun before; record that it has begun now.

    The scheduler keeps the record, because a lost worker takes its knowledge with it.
    """
    scheduler: Any = worker.scheduler
    with suppress(TimeoutError):
        await scheduler.variable_get(name=mark_of(key), client="narval", timeout=_LOOK)
        return True
    await scheduler.variable_set(name=mark_of(key), key=None, data=1, client="narval", timeout=None)
    return False


def _tell(worker: distributed.Worker, topic: str, news: frames.News | frames.Replied) -> None:
    worker.log_event(topic, frames.written(news))
