"""Waiters: futures of answers, of the ends of runs, of their answers to signals, and of the next turn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any

from narval.core.engines.commands import Answer
from narval.core.errors import NarvalError
from narval.daemon.news import News
from narval.store.batch import Advance, Batch


class Waiters:
    """The futures of those who wait for the end of a run, for its answer to a signal, or for the next turn;
    `news` is for those who follow the changes of turns.
    """

    __slots__ = ("_over", "_turned", "asked", "news")

    def __init__(self) -> None:
        self.asked: dict[str, asyncio.Future[Answer]] = {}
        """The awaited answers, by signal."""
        self._over: dict[int, set[asyncio.Future[None]]] = {}
        self._turned: asyncio.Event | None = None
        """An event for the next turn; None until it is first waited for."""
        self.news = News()

    @contextmanager
    def end_of(self, run: int) -> Iterator[asyncio.Future[None]]:
        """A future that is done when the run has ended; it exists only within the `with` block."""
        made = future()
        waiters = self._over.setdefault(run, set())
        waiters.add(made)
        try:
            yield made
        finally:
            waiters.discard(made)
            if not waiters:
                self._over.pop(run, None)

    def answer_to(self, signal: str) -> asyncio.Future[Answer]:
        """A future of the answer to a signal, which may come in a later turn."""
        made = self.asked[signal] = future()
        made.add_done_callback(lambda _: self.asked.pop(signal, None))
        return made

    def answered(self, journal: Iterable[Advance]) -> None:
        """Hand out the answers among the commands of a recorded turn."""
        for command in chain.from_iterable(advance.commands for advance in journal):
            if type(command) is Answer and (waiting := self.asked.get(command.signal)) is not None:
                settle(waiting, command)

    async def turn(self, wait: float) -> None:
        """Wait for the next turn, at most `wait` seconds."""
        self._turned = self._turned or asyncio.Event()
        self._turned.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._turned.wait(), wait)

    def over(self, run: int) -> None:
        """Answer those who wait for the end of a run."""
        for waiting in self._over.pop(run, ()):
            settle(waiting)

    def turned(self, batch: Batch, at: float) -> None:
        """Wake those who wait for a turn, which is now recorded."""
        if self._turned is not None:
            self._turned.set()
        if self.news.is_kept:
            self.news.note(batch, at)

    def give_up(self, error: NarvalError) -> None:
        """Answer all waiters with `error`: there will be no more turns."""
        everybody: Iterable[Iterable[asyncio.Future[Any]]] = (*self._over.values(), [*self.asked.values()])
        for futures in everybody:
            for waiting in futures:
                settle(waiting, None, error)
        self._over.clear()
        if self._turned is not None:
            self._turned.set()
        self.news.close()


def future() -> asyncio.Future[Any]:
    """Make a future whose error need not be retrieved: its waiter may be gone."""
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
