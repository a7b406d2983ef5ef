"""The loop of dataflows: their networks run in a thread of their own, so nothing of the daemon waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

Result = TypeVar("Result")


class FlowLoop:
    """A loop of events in a thread, there as long as something runs in it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._count = 0

    async def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine there; its result. It is cancelled with who waits for it."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=_forever, args=(self._loop,), name="narval-flows", daemon=True
                ).start()
            self._count += 1
            future: Future[Result] = asyncio.run_coroutine_threadsafe(work, self._loop)
        # with the lock free, as it is called at once if all is done already
        future.add_done_callback(self._over)
        return await asyncio.wrap_future(future)

    def _over(self, _: Future[Any]) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0 and self._loop is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._loop = None


def _forever(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
        pending = asyncio.all_tasks(loop)
        for task in pending:
            task.cancel()
        if pending:
            loop.run_until_complete(asyncio.wait(pending))
    finally:
        loop.close()
