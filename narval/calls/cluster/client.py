"""The client of a cluster as narval uses it: on the loop of its link's thread, until the scheduler is lost.

A task is known by its key: submitted twice, it runs once. A kept task is also published under a name that
contains its key. So the scheduler retains it when this daemon is gone, and the next daemon finds it (G69).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from contextlib import suppress
from itertools import groupby
from operator import attrgetter, methodcaller
from pathlib import Path
from typing import Any, NamedTuple

from distributed import Client, Future, KilledWorker, Security, Variable, wait
from distributed.client import FuturesCancelledError

from narval.calls.cluster import remote
from narval.calls.cluster.frames import (
    LOST,
    ClusterReply,
    ClusterSize,
    ClusterTask,
    Replied,
    Tell,
    joined,
    mark_of,
    parted,
    read_news,
    read_reply,
)
from narval.calls.workers.frames import FrameError
from narval.core.engines.events import Failure
from narval.files.outside.cluster import CERTIFICATES

log = logging.getLogger("narval.cluster")

_CONNECTING, _LOOK, _FAREWELL = 10.0, 1.0, 1.0
"""Seconds that connecting may take, between checks of the cluster's size, and for leaving it."""


class FinishedTasks:
    """The finished tasks, by key: those whose results are not handed out yet, and those handed out but not
    settled.

    At most `memory` bytes of unsettled results are handed out, but at least one result.
    """

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._keys: dict[str, None] = {}
        self._given: dict[str, int] = {}
        """The bytes of each result handed out."""
        self.results: dict[str, bytes] = {}
        """The results that arrived with news, by key."""
        self._some = asyncio.Event()

    def add(self, key: str) -> None:
        """Add a finished task."""
        self._keys[key] = None
        self._some.set()

    async def take(self) -> list[str]:
        """Wait until there is a new result, or room; return the keys of all finished tasks, in order."""
        await self._some.wait()
        self._some.clear()
        keys, self._keys = list(self._keys), {}
        return keys

    def fitting(self, sizes: dict[str, int]) -> list[str]:
        """The keys of results that fit into the remaining room; the others stay finished."""
        keys, held = list[str](), sum(self._given.values())
        for key, size in sizes.items():
            if held and held + size > self._memory:
                self._keys[key] = None
                continue
            held += size
            self._given[key] = size
            keys.append(key)
        return keys

    def settle(self, key: str) -> None:
        """Forget a task."""
        self._keys.pop(key, None)
        self.results.pop(key, None)
        if self._given.pop(key, None) is not None and self._keys:
            self._some.set()


class ClusterClient:
    """A connected client, and the tasks for which it waits.

    `tell` passes reports to the daemon. At most `memory` bytes of unsettled results are handed out.
    """

    def __init__(self, client: Any, publisher: Publisher, tell: Tell, topic: str, memory: int) -> None:
        self._client, self._tell, self._topic = client, tell, topic
        self._futures: dict[str, Any] = {}
        self._publisher = publisher
        self._finished = FinishedTasks(memory)
        self._work: set[asyncio.Task[None]] = set()
        self._over: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @classmethod
    async def connect(
        cls, address: str, certificates: Path, tell: Tell, topic: str, memory: int
    ) -> ClusterClient:
        """Connect to a scheduler, both sides showing certificates. Raises OSError."""
        for name in ("distributed", "distributed.client"):  # the daemon logs losses itself
            logging.getLogger(name).setLevel(logging.CRITICAL)
        authority, own, key = (str(certificates / name) for name in CERTIFICATES)
        security = Security(
            tls_ca_file=authority, tls_client_cert=own, tls_client_key=key, require_encryption=True
        )
        connection = Client(
            address, security=security, asynchronous=True, timeout=_CONNECTING, set_as_default=False
        )
        await connection
        publisher = Publisher(connection, await find_published(connection))
        made = cls(connection, publisher, tell, topic, memory)
        connection.subscribe_topic(topic, made._heard)
        return made

    async def serve(self) -> str:
        """Wait for tasks until the scheduler is lost, or `close` is called; return the reason."""
        try:
            for work in (self._follow_size(), self._collect(), self._publisher.run()):
                self._begin(work)
            return await self._over
        finally:
            for task in self._work:
                task.cancel()
            with suppress(OSError, TimeoutError, asyncio.CancelledError):
                await asyncio.wait_for(self._publisher.flush(), _FAREWELL)
            with suppress(OSError, TimeoutError, asyncio.CancelledError):
                await self._client.close(timeout=_FAREWELL)

    # --- requests of the daemon -----------------------------------------------------------------------

    def submit(self, tasks: list[ClusterTask]) -> None:
        """Have tasks answered, in one message for each set of resources. Tasks whose keys are already under
        way, here or on the cluster, are not started again.
        """
        asked = [task for task in tasks if task.key not in self._futures]
        for task in asked:
            if task.only_found and task.key not in self._publisher:
                self._reply(task.key, LOST)
        asked = [task for task in asked if task.key in self._publisher or not task.only_found]
        by_resources = attrgetter("resources")
        for resources, group in groupby(sorted(asked, key=by_resources), key=by_resources):
            to_submit = list(group)
            keys = [task.key for task in to_submit]
            arguments = ([key.encode() for key in keys], [joined(task.bodies) for task in to_submit])
            futures = self._client.map(
                remote.answer, *arguments, key=keys, pure=False, resources=dict(resources), topic=self._topic
            )
            self._futures.update(zip(keys, futures, strict=True))
        for task in asked:
            if task.kept:
                self._publisher.add(task.key, self._futures[task.key])
            self._begin(self._watch(task.key))

    def end(self, task: str, calls: list[str], worker: str, *, whole: bool) -> None:
        """Kill the workers of calls, at the cluster worker that has their task if it is known; if `whole`,
        give up the task.
        """
        future = self._futures.get(task)
        self._begin(self._end(future if whole else None, calls, worker))
        if whole:
            self.settled(task, once=False)

    def settled(self, task: str, *, once: bool) -> None:
        """Drop a task whose result is recorded or not wanted."""
        future = self._futures.pop(task, None)
        self._publisher.drop(task)
        self._finished.settle(task)
        if future is not None:
            future.release()
        if once:
            Variable(mark_of(task), client=self._client).delete()

    def close(self) -> None:
        """Disconnect; kept tasks continue."""
        self._end_with("")

    # --- the work -------------------------------------------------------------------------------------

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(self._done(work))
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _done(self, work: Coroutine[Any, Any, None]) -> None:
        """Do some work. If the scheduler does not answer or anything fails, treat the scheduler as lost, so
        that another client starts again: otherwise calls would wait for ever.
        """
        try:
            await work
        except OSError as error:
            self._end_with(f"the scheduler was lost: {error}")
        except Exception as error:
            log.exception("the connection to the cluster broke down, and is made again")
            self._end_with(f"the connection to the scheduler broke down: {error!r:.500}")

    def _reply(self, key: str, replies: list[ClusterReply] | Failure) -> None:
        self._tell(methodcaller("replied", key, replies))

    def _end_with(self, why: str) -> None:
        if not self._over.done():
            self._over.set_result(why)

    async def _watch(self, key: str) -> None:
        if key not in self._futures:
            return
        future = self._futures[key]
        try:
            with self._client.as_current():
                waiting = wait([future])
            await waiting
        except (asyncio.CancelledError, FuturesCancelledError):
            if key in self._futures and self._futures[key] is future:
                if future.status != "cancelled":
                    raise
                self._end_with("the scheduler was lost")  # if it is back by now, it does not know the tasks
            return
        if self._futures.get(key) is future:
            self._finished.add(key)

    async def _collect(self) -> None:
        """Hand out failures, and results as they arrive and as there is room for them."""
        while True:
            finished = [key for key in await self._finished.take() if key in self._futures]
            erred = [key for key in finished if self._futures[key].status == "error"]
            for key in erred:
                self._reply(key, _failure(await self._futures[key].exception()))
            well = [key for key in finished if key not in erred]
            sizes = {key: len(self._finished.results.get(key, b"")) for key in well}
            if unknown := [key for key, size in sizes.items() if not size]:
                sizes_there = await self._client.nbytes(unknown, summary=False)
                sizes.update((key, int(sizes_there.get(key) or 0)) for key in unknown)
            if fitting := self._finished.fitting(sizes):
                await self._give(fitting)

    async def _give(self, keys: list[str]) -> None:
        here = self._finished.results
        asked = {key: self._futures[key] for key in keys if key in self._futures}
        results: dict[str, object] = {key: here.pop(key) for key in keys if key in here}
        if far := {key: future for key, future in asked.items() if key not in results}:
            results |= await self._client.gather(far, errors="skip")
        for key in asked:
            if key in results:
                self._reply(key, _replies(results[key]))
            else:  # its worker was lost: it runs again
                self._finished.settle(key)
                self._begin(self._watch(key))

    async def _end(self, future: Any, calls: list[str], worker: str) -> None:
        if future is not None:
            await self._client.cancel([future], force=True)
        workers = [worker] if worker else None
        await self._client.run(remote.end, calls, workers=workers, on_error="ignore")

    async def _follow_size(self) -> None:
        """Report the size of the cluster, at first and after each change."""
        last: ClusterSize | None = None
        while True:
            identity = await self._client.scheduler.identity(n_workers=-1)
            workers = identity["workers"].values()
            resources = tuple(tuple(sorted(worker["resources"].items())) for worker in workers)
            size = ClusterSize(sum(worker["nthreads"] for worker in workers), resources)
            if size != last:
                last = size
                self._tell(methodcaller("joined", size))
            await asyncio.sleep(_LOOK)

    def _heard(self, event: tuple[float, object]) -> None:
        with suppress(FrameError):  # from another program
            news = read_news(event[1])
            if not isinstance(news, Replied):
                self._tell(methodcaller("told", news))
            elif news.key in self._futures:
                self._finished.results[news.key] = news.replies


def _failure(error: BaseException) -> Failure:
    """The failure of a task that dask could not get answered."""
    if isinstance(error, KilledWorker):
        lost = f"{error.allowed_failures + 1} workers of the cluster were lost while they had the call"
        return Failure("crashed", lost)
    where = "the same narval has to be installed on all workers of the cluster"
    return Failure("no-worker", f"the cluster could not make the call: {error!r:.500}; {where}")


def _replies(answer: object) -> list[ClusterReply] | Failure:
    """The replies that a task returned, checked."""
    try:
        return [read_reply(body) for body in parted(answer)]
    except FrameError as error:
        return Failure("no-worker", str(error))


_DAY = 86400.0
_NO_MORE = ("memory", "erred", "forgotten", None)
"""The final states of tasks in dask."""
_OURS, _ASKED, _OVER = "narval", "asked", "over"


class PublishedTask(NamedTuple):
    """A published task: when it was published (seconds since 1970), and whether it had ended by then."""

    key: str
    at: int
    over: bool

    @property
    def name(self) -> str:
        """The name under which it is published."""
        return f"{_OURS}|{_OVER if self.over else _ASKED}|{self.at}|{self.key}"

    @classmethod
    def of(cls, name: object) -> PublishedTask | None:
        """The task that is published under a name; None if the name is another program's."""
        parts = name.split("|", 3) if isinstance(name, str) else []
        if len(parts) != 4 or parts[0] != _OURS or not parts[2].isdigit():
            return None
        return cls(parts[3], int(parts[2]), parts[1] == _OVER)


class Publisher:
    """The published tasks by key, including those that are about to be published or withdrawn.

    `run` updates the scheduler in batches and in order: a task that ends before its turn is never published.
    `known` are the tasks that are published already.
    """

    def __init__(self, client: Any, published: dict[str, PublishedTask]) -> None:
        self._client, self._published = client, published
        self._coming: dict[str, Any] = {}
        self._going: list[str] = []
        self._some = asyncio.Event()

    def __contains__(self, key: object) -> bool:
        return key in self._published

    def add(self, key: str, future: Any) -> None:
        """Publish a task, unless it is already published."""
        if key not in self._published:
            self._published[key] = PublishedTask(key, int(time.time()), over=False)
            self._coming[key] = future
            self._some.set()

    def drop(self, key: str) -> None:
        """Stop publishing a task."""
        task = self._published.pop(key, None)
        if task is not None and self._coming.pop(key, None) is None:
            self._going.append(task.name)
            self._some.set()

    async def run(self) -> None:
        """Update the scheduler, until cancelled."""
        while True:
            await self._some.wait()
            await self.flush()

    async def flush(self) -> None:
        """Send the pending changes to the scheduler."""
        self._some.clear()
        coming, self._coming = self._coming, {}
        going, self._going = self._going, []
        if coming:
            datasets = {self._published[key].name: future for key, future in coming.items()}
            await self._client.publish_dataset(datasets, override=True)
        if going:
            await self._client.unpublish_dataset(going)


async def find_published(client: Any) -> dict[str, PublishedTask]:
    """The published tasks, by key. Drop those that ended a day ago and were not collected."""
    names = await client.list_datasets()
    published = {task.key: task for name in names if (task := PublishedTask.of(name)) is not None}
    old = [task for task in published.values() if task.at < time.time() - _DAY]
    if not old:
        return published
    states = await client.scheduler.get_task_status(keys=[task.key for task in old])
    over = [task for task in old if states.get(task.key) in _NO_MORE]
    now = int(time.time())
    again = [task._replace(at=now, over=True) for task in over if not task.over]
    if again:
        futures: dict[str, Any] = {task.name: Future(task.key, client=client) for task in again}
        await client.publish_dataset(futures, override=True)
    if over:
        await client.unpublish_dataset([task.name for task in over])
    gone = {task.key for task in over if task.over}
    published.update((task.key, task) for task in again)
    return {key: task for key, task in published.items() if key not in gone}
