"""The tasks that a daemon has on a cluster: single calls, and groups of short ones (G71)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from narval.calls.cluster.frames import Begun, ClusterReply, ClusterTask, News, Reported, SentCall, written
from narval.calls.output_capture import log_print
from narval.calls.record import CallRecord, Outcome
from narval.calls.workers.frames import frame_of
from narval.core.engines.events import Failure
from narval.files.settings import CallLimits

_SHORT = 0.005
"""Seconds below which a call is short."""


class TaskUnderWay:
    """A task on the cluster, or on its way there: its calls in order, None for those that have ended.

    `worker` is the address of the worker that has it, "" while unknown. `begun` are the event loop's times at
    which a worker began it. `sent` is None until the start of its calls is recorded.
    """

    def __init__(self, key: str, calls: list[CallRecord]) -> None:
        self.key, self.worker = key, ""
        self.begun: list[float] = []
        self.calls: list[CallRecord | None] = [*calls]
        self.sent: ClusterTask | None = None
        self._unrecorded = len(calls)

    @property
    def first(self) -> CallRecord:
        """Its first call that has not ended."""
        return self.living()[0]

    def living(self) -> list[CallRecord]:
        """Its calls that have not ended."""
        return [record for record in self.calls if record is not None]

    def send(self, task: ClusterTask) -> None:
        """Record that the task goes to the cluster, with a body for each call that has not ended."""
        self.sent = task
        self.calls = [*self.living()]
        self._unrecorded = len(self.calls)

    @property
    def limit_runs_from(self) -> float | None:
        """The time from which the time limit of its call runs. None if the call has not begun, and for a
        group, where it is unknown which calls have begun.
        """
        return self.begun[0] if self.begun and len(self.calls) == 1 else None

    def begin(self, worker: str, at: float) -> None:
        """Record that a worker began the task at a time of the event loop."""
        self.worker = worker
        self.begun.append(at)

    def lost(self) -> None:
        """Record that the cluster is lost. From then on, a task that must not begin twice is only looked for
        there.
        """
        self.worker = ""
        if self.sent is not None and self.sent.once:
            self.sent = self.sent._replace(only_found=True)

    def outcomes(self, replies: list[ClusterReply] | Failure) -> Iterator[tuple[CallRecord, Outcome, float]]:
        """The outcome and duration in seconds of each call that has not ended."""
        if not isinstance(replies, Failure) and len(replies) != len(self.calls):
            message = f"expected {len(self.calls)} replies of the cluster, got {len(replies)}"
            replies = Failure("no-worker", message)
        for number, record in enumerate(self.calls):
            if record is None:
                continue
            if isinstance(replies, Failure):
                yield record, Outcome(problem=replies), math.inf
            else:
                yield record, replies[number].outcome, replies[number].seconds

    def recorded(self) -> bool:
        """Record that the outcome of a call is recorded; True if it was the last."""
        self._unrecorded -= 1
        return not self._unrecorded


class TasksUnderWay:
    """All tasks, and their calls."""

    def __init__(self) -> None:
        self._tasks: dict[str, TaskUnderWay] = {}
        self._calls: dict[str, CallRecord] = {}
        """The calls by key."""

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[TaskUnderWay]:
        return iter(tuple(self._tasks.values()))

    def add(self, task: TaskUnderWay) -> None:
        """Add a task, and its calls."""
        self._tasks[task.key] = task
        for record in task.calls:
            if record is not None:
                record.give_to(task)
                self._calls[key_of(record)] = record

    def task(self, key: str) -> TaskUnderWay | None:
        """The task of a key, while it is under way."""
        return self._tasks.get(key)

    def first_calls(self) -> list[CallRecord]:
        """A call of each task."""
        return [task.first for task in self._tasks.values()]

    def calls(self) -> Iterator[CallRecord]:
        """All calls under way."""
        return iter(tuple(self._calls.values()))

    def told(self, news: News, at: float) -> None:
        """Handle news of a task or a call; drop news of those that have ended."""
        if isinstance(news, Begun):
            if (task := self._tasks.get(news.key)) is not None:
                task.begin(news.worker, at)
        elif (record := self._calls.get(news.key)) is None:
            return
        elif isinstance(news, Reported):
            record.call.progress(news.done, news.total)
        else:
            log_print(news.line, record.call.id, record.call.run, record.call.step)

    def drop(self, record: CallRecord) -> bool:
        """Drop a call that has ended; True if its task has ended with it."""
        task: TaskUnderWay = record.place
        del self._calls[key_of(record)]
        task.calls[task.calls.index(record)] = None
        if any(task.calls):
            return False
        del self._tasks[task.key]
        return True


class ShortCalls:
    """The actions whose last call was short. Their next calls go in groups."""

    def __init__(self) -> None:
        self._actions: set[str] = set()

    def took(self, record: CallRecord, seconds: float) -> None:
        """Record how long a call took."""
        if seconds < _SHORT:
            self._actions.add(record.call.target.action)
        else:
            self._actions.discard(record.call.target.action)

    def has(self, record: CallRecord) -> bool:
        """True if a call may go in a group: it is most likely short, and has no special requirements."""
        target = record.call.target
        alone = target.resources or is_once(record) or record.is_announced
        return target.action in self._actions and not alone


def body_of(record: CallRecord, limits: CallLimits) -> bytes:
    """A call in the form that is sent. Raises FrameError if it is too large."""
    frame = frame_of(record.call, limits)
    kept_to = (record.call.timeout, is_once(record), limits.worker_memory)
    return written(SentCall(key_of(record), frame, *kept_to))


def key_of(record: CallRecord) -> str:
    """The key of a call on a cluster: the same when the daemon makes it again after a loss, another for each
    retry.

    dask adds up durations by the text before the first hyphen, which is the action.
    """
    call = record.call
    again = f"#{call.attempt}" if call.attempt > 1 else ""
    return f"{call.target.action}-{call.id}{again}"


def is_once(record: CallRecord) -> bool:
    """True if a call must not begin twice."""
    return record.is_once or record.call.has_begun


def limit_runs_from(record: CallRecord) -> float | None:
    """The event loop's time from which the limit of a call on a cluster runs; None before it begins."""
    task: TaskUnderWay | None = record.place
    return None if task is None else task.limit_runs_from


def run_limit(record: CallRecord, now: float, expire: Callable[[CallRecord], None]) -> None:
    """Start the time limit of a call here, unless it runs already. It counts from when the call first began,
    else from now.
    """
    if record.call.timeout is None or record.timer is not None:
        return
    since = limit_runs_from(record)
    has_passed = 0.0 if since is None else now - since
    record.after(max(0.0, record.call.timeout - has_passed), expire)
