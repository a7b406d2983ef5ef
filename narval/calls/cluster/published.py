"""Tasks that outlive the daemon that asked for them: published on the cluster under narval's names (G69)."""

from __future__ import annotations

import asyncio
import time
from typing import Any, NamedTuple

from distributed import Future

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

    def __init__(self, client: Any, known: dict[str, PublishedTask]) -> None:
        self._client, self._published = client, known
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
        found = self._published.pop(key, None)
        if found is not None and self._coming.pop(key, None) is None:
            self._going.append(found.name)
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
    known = {found.key: found for name in names if (found := PublishedTask.of(name)) is not None}
    old = [found for found in known.values() if found.at < time.time() - _DAY]
    if not old:
        return known
    states = await client.scheduler.get_task_status(keys=[found.key for found in old])
    over = [found for found in old if states.get(found.key) in _NO_MORE]
    now = int(time.time())
    again = [found._replace(at=now, over=True) for found in over if not found.over]
    if again:
        futures: dict[str, Any] = {found.name: Future(found.key, client=client) for found in again}
        await client.publish_dataset(futures, override=True)
    if over:
        await client.unpublish_dataset([found.name for found in over])
    gone = {found.key for found in over if found.over}
    known.update((found.key, found) for found in again)
    return {key: found for key, found in known.items() if key not in gone}
