"""Those who wait for something of a daemon: a request's answer, the end of a run, the next turn."""

from __future__ import annotations

import asyncio
from typing import Any

from narval.errors import NarvalError


class Waiters:
    """Who waits for the ends of runs, and for the next turn."""

    __slots__ = ("_over", "_turned")

    def __init__(self) -> None:
        self._over: dict[int, set[asyncio.Future[None]]] = {}
        self._turned: set[asyncio.Future[None]] = set()

    def end_of(self, run: int) -> asyncio.Future[None]:
        """Done when the run is over."""
        made = future()
        self._over.setdefault(run, set()).add(made)
        return made

    def no_longer(self, run: int, waiting: asyncio.Future[None]) -> None:
        """Somebody does not wait for the end of a run any more."""
        waiters = self._over.get(run, set())
        waiters.discard(waiting)
        if not waiters:
            self._over.pop(run, None)

    async def turn(self, wait: float) -> None:
        """Wait for the next turn, so many seconds at most."""
        made = future()
        self._turned.add(made)
        await asyncio.wait([made], timeout=wait)
        self._turned.discard(made)

    def over(self, run: int) -> None:
        """A run is over."""
        for each in self._over.pop(run, ()):
            settle(each)

    def turned(self) -> None:
        """A turn has come to its end."""
        turned, self._turned = self._turned, set()
        for each in turned:
            settle(each)

    def give_up(self, error: NarvalError) -> None:
        """There will be no more turns: all who wait are told why."""
        for futures in self._over.values():
            for each in futures:
                settle(each, None, error)
        self._over.clear()
        self.turned()


def future() -> asyncio.Future[Any]:
    """A future whose error may go unheard: who waits for it may be gone."""
    made: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    made.add_done_callback(lambda done: done.cancelled() or done.exception())
    return made


def settle(waiting: asyncio.Future[Any], result: Any = None, error: BaseException | None = None) -> None:
    """Give a future its result, or its error, unless it has one."""
    if waiting.done():
        return
    if error is None:
        waiting.set_result(result)
    else:
        waiting.set_exception(error)
