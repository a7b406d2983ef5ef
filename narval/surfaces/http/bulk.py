"""Acts on many things at once: each waits for a while first, and can be ended before and while it runs.

Only the program that serves the pages holds them: items not started when it ends are never done.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from narval.core.errors import DaemonGoneError, NarvalError, RequestError

log = logging.getLogger("narval.web")

WAIT = 10.0
"""Seconds before the first item is done, during which the act can be undone."""

AT_A_TIME = 20
"""The most acts that may wait or run."""

REMEMBERED = 200
"""The most acts that are remembered, the newest."""

WAITING, GOING_ON, ENDED, UNDONE, STOPPED = "waiting", "going on", "ended", "undone", "stopped"
"""The states of an act; `undone` before its first item, `stopped` after some, `ended` after all."""


class BulkResult(msgspec.Struct, frozen=True):
    """The result for one item: its number, its new number, or why it was refused."""

    number: int
    became: int | None
    why: str = ""


class BulkAct:
    """One act on many items: what is done to which numbers of an agent, by whom, when it starts, and its
    progress.

    `begin` returns at the start which numbers are still to be acted on; `do` acts on one. Both may raise
    NarvalError.
    """

    def __init__(
        self,
        agent: str,
        what: str,
        numbers: Sequence[int],
        by: str,
        begin: Callable[[Sequence[int]], Awaitable[Sequence[int]]],
        do: Callable[[int], Awaitable[int]],
    ) -> None:
        self.agent, self.what, self.numbers, self.by = agent, what, tuple(numbers), by
        self.name = secrets.token_hex(8)
        self.begins = time.time() + WAIT
        self.state = WAITING
        self.results: list[BulkResult] = []
        self._begin, self._do, self._end = begin, do, asyncio.Event()

    @property
    def is_over(self) -> bool:
        """True if nothing more will be done."""
        return self.state not in (WAITING, GOING_ON)

    @property
    def seconds_left(self) -> float:
        """The seconds until it begins."""
        return max(0.0, self.begins - time.time())

    @property
    def left(self) -> list[int]:
        """The numbers that were not acted on."""
        done = {result.number for result in self.results}
        return [number for number in self.numbers if number not in done]

    def end(self) -> None:
        """End it before its next item: a waiting one is undone, a running one is stopped."""
        self._end.set()

    async def run(self) -> None:
        """Wait, then act on the items one after the other."""
        try:
            await asyncio.wait_for(self._end.wait(), self.seconds_left)
        except TimeoutError:
            await self._go_on()
        else:
            self.state = UNDONE

    async def _go_on(self) -> None:
        self.state, after = GOING_ON, STOPPED
        try:
            still = await self._begin(self.numbers)
            gone = [number for number in self.numbers if number not in set(still)]
            self.results += [BulkResult(number, None, "it was dealt with meanwhile") for number in gone]
            for number in still:
                if self._end.is_set():
                    break
                await self._act_on(number)
            else:
                after = ENDED
        except NarvalError as error:  # the rest cannot even be read
            self.results += [BulkResult(number, None, str(error)) for number in self.left]
        except Exception:
            log.exception("%s of %d by %s broke", self.what, len(self.numbers), self.by)
        finally:
            self.state = after
        log.info("%s of %d by %s %s", self.what, len(self.numbers), self.by, after)

    async def _act_on(self, number: int) -> None:
        try:
            self.results.append(BulkResult(number, await self._do(number)))
        except DaemonGoneError as error:
            self.results.append(BulkResult(number, None, str(error)))
            self.end()
        except NarvalError as error:
            self.results.append(BulkResult(number, None, str(error)))


class BulkActs:
    """The bulk acts of one program, including ended ones while they are remembered."""

    def __init__(self) -> None:
        self._acts: dict[str, BulkAct] = {}
        self._tasks = set[asyncio.Task[None]]()
        self._known_since = time.time()
        """The moment after which an act due to start is known here, or never started."""

    def add(self, act: BulkAct) -> BulkAct:
        """Start an act after its wait. If the same act still waits or runs, return it, as a form may be
        sent twice. Raises RequestError if too many wait or run.
        """
        under_way = [one for one in self._acts.values() if not one.is_over]
        for one in under_way:
            if (one.agent, one.what, one.numbers) == (act.agent, act.what, act.numbers):
                return one
        if len(under_way) >= AT_A_TIME:
            raise RequestError(f"{AT_A_TIME} acts on many runs already wait or run; wait for one of them")
        self._acts[act.name] = act
        task = asyncio.create_task(act.run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        over = [name for name, one in self._acts.items() if one.is_over]
        for name in over[: max(0, len(self._acts) - REMEMBERED)]:
            self._known_since = max(self._known_since, self._acts.pop(name).begins)
        return act

    def find(self, agent: str, name: str) -> BulkAct | None:
        """The act of a name; None if this program has none, or no longer remembers it."""
        act = self._acts.get(name)
        return act if act is not None and act.agent == agent else None

    def was_never_begun(self, begins: float) -> bool:
        """True if an act that was due to start at a moment, and is not found, has done nothing."""
        return begins > self._known_since
