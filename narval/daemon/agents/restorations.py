"""Restorations: agents that are brought back from the store, a large one in slices (G10).

Rows of a large agent are read in a thread, and the event loop goes on between two pieces: nobody else's event
waits for longer than for one. Nobody has the agent before all of it is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sized

from narval.agent.recovery import PIECE, Read, at_once, restoring
from narval.core.errors import NarvalError
from narval.daemon.agents.agent_host import AgentHost
from narval.daemon.agents.agent_rows import AgentRows
from narval.daemon.agents.detached_calls import DetachedCalls
from narval.daemon.agents.host_maker import HostMaker
from narval.daemon.followers import Followers
from narval.store.batch import SUSPENDED, AgentRow

Then = Callable[[AgentHost, float], None]
"""The next to be done, with the host of an agent that is back, and the latest moment of its runs."""


class Restorations:
    """The agents that are being restored, whose hosts `maker` makes.

    `calls` are those of agents that are not at work. `wake` is called when one that took longer is there,
    or cannot be.
    """

    def __init__(
        self,
        rows: AgentRows,
        maker: HostMaker,
        followers: Followers,
        calls: DetachedCalls,
        wake: Callable[[], None],
    ) -> None:
        self._rows, self._maker, self._followers, self.calls = rows, maker, followers, calls
        self.are_possible = not maker.store.is_volatile
        self._wake = wake
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._dropped: set[asyncio.Task[None]] = set()
        self._is_over = False

    def __contains__(self, name: str) -> bool:
        return name in self._under_way

    def are_under_way(self) -> bool:
        """True while an agent is being restored."""
        return bool(self._under_way)

    def begin(self, row: AgentRow, then: Then, failed: Callable[[Exception], None]) -> None:
        """Restore an agent, and call `then`, or `failed`: at once, unless a piece of it is a whole one."""
        try:
            self._followers.require(row.name)
            host = self._blank(row)
            work = restoring(host.agent)
            try:
                rows = next(work)()
                while len(rows) < PIECE:
                    rows = work.send(rows)()
            except StopIteration as done:
                then(host, done.value)
                return
        except Exception as error:
            failed(error)
            return
        going_on = self._in_slices(row.name, host, work, rows, then, failed)
        self._under_way[row.name] = asyncio.create_task(going_on)

    async def finish(self, row: AgentRow, then: Then) -> None:
        """Restore an agent, and call `then`. Raises what it cannot be restored for."""
        failures: list[Exception] = []
        self.begin(row, then, failures.append)
        await self.over(row.name)
        if failures:
            raise failures[0]

    async def prepare(self, name: str) -> None:
        """Have all be here that an agent follows, if that can be. Raises StoreError."""
        await self._followers.fetch_for(name)

    async def over(self, name: str) -> None:
        """Wait until an agent that is being restored is there, or cannot be."""
        if (task := self._under_way.get(name)) is not None:
            await asyncio.wait([task])

    def drop(self, name: str) -> None:
        """Restore an agent no further, if it is being restored."""
        if (task := self._under_way.pop(name, None)) is not None:
            self._dropped.add(task)
            task.add_done_callback(self._dropped.discard)

    async def close(self) -> None:
        """Restore nothing more: agents that are not there yet are dropped, as if killed."""
        self._is_over = True
        await self._followers.close()
        if tasks := [*self._under_way.values(), *self._dropped]:
            await asyncio.wait(tasks)

    async def shown(self, row: AgentRow, why: NarvalError) -> AgentHost:
        """The host of an agent as the store has it, to be looked at: whatever it is told to do is refused
        with `why`. Raises StoreError.
        """
        host = self._blank(row._replace(state=SUSPENDED))
        host.give_up(why)
        await asyncio.to_thread(at_once, restoring(host.agent))
        self._followers.show(host)
        return host

    def _blank(self, row: AgentRow) -> AgentHost:
        """The host of an agent that has nothing yet of what the store has."""
        counts, is_suspended = self._followers.of(row.name), row.state == SUSPENDED
        return self._maker.make(
            row.agent,
            row.name,
            counts.loaded.library,
            counts.schemas,
            counts.settings,
            since=self._rows.own.agent.clockwork.since,
            calls=None if is_suspended else self.calls.of(row.id),
            record_only=is_suspended,
        )

    async def _in_slices(
        self,
        name: str,
        host: AgentHost,
        work: Generator[Read, Sized, float],
        rows: Sized,
        then: Then,
        failed: Callable[[Exception], None],
    ) -> None:
        try:
            try:
                while not self._is_over and asyncio.current_task() not in self._dropped:
                    rows = await asyncio.to_thread(work.send(rows))
            except StopIteration as done:
                if asyncio.current_task() not in self._dropped:
                    then(host, done.value)
        except Exception as error:
            if asyncio.current_task() not in self._dropped:
                failed(error)
        finally:
            work.close()
            if asyncio.current_task() not in self._dropped:
                del self._under_way[name]
            self._wake()
