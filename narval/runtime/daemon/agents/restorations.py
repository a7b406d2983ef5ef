"""Restorations: agents that are brought back from the store, a large one in slices (G10).

Rows of a large agent are read in a thread, and the event loop goes on between two pieces: nobody else's event
waits for longer than for one. Nobody has the agent before all of it is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sized

from narval.runtime.agent.recovery import PIECE, Read

Work = Generator[Read, Sized, float]
"""The restoring of an agent; it results in the latest moment that was recorded of a run."""


class Restorations:
    """The agents that are being restored; `wake` is called when one is there, or cannot be."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._is_over = False

    def __contains__(self, name: str) -> bool:
        return name in self._under_way

    def __bool__(self) -> bool:
        return bool(self._under_way)

    def begin(
        self, name: str, work: Work, then: Callable[[float], None], failed: Callable[[Exception], None]
    ) -> None:
        """Restore an agent, and call `then`: at once, unless a piece of it is a whole one.

        What is raised later is given to `failed`.
        """
        try:
            rows = next(work)()
            while len(rows) < PIECE:
                rows = work.send(rows)()
        except StopIteration as done:
            then(done.value)
            return
        self._under_way[name] = asyncio.create_task(self._in_slices(name, work, rows, then, failed))

    async def over(self, name: str) -> None:
        """Wait until an agent that is being restored is there, or cannot be."""
        if (task := self._under_way.get(name)) is not None:
            await asyncio.wait([task])

    async def close(self) -> None:
        """Restore nothing more: agents that are not there yet are dropped, as if killed."""
        self._is_over = True
        if self._under_way:
            await asyncio.wait(list(self._under_way.values()))

    async def _in_slices(
        self,
        name: str,
        work: Work,
        rows: Sized,
        then: Callable[[float], None],
        failed: Callable[[Exception], None],
    ) -> None:
        try:
            latest = await self._restored(work, rows)
            del self._under_way[name]
            if latest is not None:
                then(latest)
        except Exception as error:
            self._under_way.pop(name, None)
            failed(error)
        self._wake()

    async def _restored(self, work: Work, rows: Sized) -> float | None:
        while not self._is_over:
            try:
                read = work.send(rows)
            except StopIteration as done:
                latest: float = done.value
                return latest
            rows = await asyncio.to_thread(read)
        work.close()
        return None
