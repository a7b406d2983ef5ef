"""A home that a command opens itself when no daemon runs; imported only then, with the whole runtime."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import Any

from msgspec.structs import replace

from narval.ask.asker import Asker, user
from narval.ask.operations import OPERATIONS, invoke
from narval.core.errors import HomeHeldError, StoreError, UnansweredError
from narval.daemon.daemon import Daemon
from narval.files.home import Home, refuse_lost_store
from narval.files.settings import Settings
from narval.store.open import look_into
from narval.store.page import RunsPage
from narval.store.store import Store
from narval.surfaces.control import client
from narval.system.long_work import LoneThread
from narval.system.startup_gc import suspended

log = logging.getLogger("narval.daemon")

ATTEMPTS = 5
"""The most times that a query is repeated because a daemon wrote to the store during it."""


class HomeView:
    """A home opened for queries: it takes no lock, alters nothing and waits for nothing."""

    record_only = True

    def __init__(self, home: Home, acting_as: str = "", agent: str = "") -> None:
        self._asker = replace(_asker(home, acting_as, agent), scopes=frozenset({"read"}))
        self._home, self._runner, self._ends = home, asyncio.Runner(), ExitStack()
        self._store: Store | None = None
        self._daemon: Daemon | None = None
        self._page: RunsPage | None = None
        """The current page of runs; None for all remembered ones."""

    def ask(self, method: str, /, **params: Any) -> Any:
        """The answer to an operation of the scope `read`. Raises NarvalError."""
        page = OPERATIONS[method].page(params)
        if self._daemon is not None and page != self._page:
            self._end()
        self._page = page
        for _ in range(ATTEMPTS):
            try:
                answer = self._runner.run(self._answer(method, params))
            except Exception:
                if self._store is None or self._store.is_still():
                    raise
            else:
                if self._store is None or self._store.is_still():
                    return answer
            self._end()  # a daemon has started and written what was read
        raise StoreError(f"the store is being written all the time: {self._home.store}; try again")

    async def _answer(self, method: str, params: dict[str, Any]) -> Any:
        if self._daemon is None:
            with suspended():
                home, settings = self._home, Settings.for_query(self._home.path)
                where = settings.store or home.store
                if not settings.store:
                    refuse_lost_store(home)
                self._store = self._ends.enter_context(look_into(where, home.is_held, self._page))
                self._daemon = await Daemon.look(home, settings, self._store)
        return await invoke(self._daemon, self._asker, method, params)

    def _end(self) -> None:
        daemon, self._daemon, self._store = self._daemon, None, None
        with self._ends:
            if daemon is not None:
                self._runner.run(daemon.close())

    def close(self) -> None:
        """Release the home."""
        try:
            self._end()
        finally:
            self._runner.close()


class RecordOnlyHome:
    """A home opened for requests that are recorded, for the next daemon to act upon."""

    record_only = True

    def __init__(self, home: Home, acting_as: str = "", agent: str = "") -> None:
        self._asker, self._runner = _asker(home, acting_as, agent), asyncio.Runner()
        try:
            self._daemon = self._runner.run(Daemon.open(home, record_only=True))
        except BaseException:
            self._runner.close()
            raise

    def ask(self, method: str, /, **params: Any) -> Any:
        """The answer to one operation. Raises NarvalError."""
        return self._runner.run(invoke(self._daemon, self._asker, method, params))

    def close(self) -> None:
        """Release the home."""
        try:
            self._runner.run(self._daemon.close())
        finally:
            self._runner.close()


class WorkingHome:
    """A home with a daemon that lives only as long as this command."""

    record_only = False

    def __init__(self, home: Home, acting_as: str = "", agent: str = "") -> None:
        self._asker, self._runner = _asker(home, acting_as, agent), asyncio.Runner()
        self._serving = serving(home)
        try:
            self._daemon = self._runner.run(self._serving.__aenter__())
        except BaseException:
            self._runner.close()
            raise
        self._work = self._runner.get_loop().create_task(self._daemon.main_loop.run())

    def ask(self, method: str, /, **params: Any) -> Any:
        """The answer to one operation. Raises NarvalError."""
        return self._runner.run(self._answer(invoke(self._daemon, self._asker, method, params)))

    async def _answer(self, operation: Coroutine[Any, Any, Any]) -> Any:
        answer = asyncio.ensure_future(operation)
        await asyncio.wait([answer, self._work], return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            answer.cancel()
            await self._work  # raises what ended it
            raise UnansweredError("the work was stopped before this was answered")
        return await answer

    def close(self) -> None:
        """Stop in good order, and release the home."""
        try:
            self._runner.run(self._end())
        finally:
            self._runner.close()

    async def _end(self) -> None:
        self._daemon.stop.request()
        await asyncio.wait([self._work])
        await self._serving.__aexit__(None, None, None)


def _asker(home: Home, acting_as: str, agent: str) -> Asker:
    """The user of this command, or the person in whose name it acts, asking an agent. Raises RequestError."""
    asker = user(os.geteuid(), "terminal").asking(agent)
    return asker.acting_as(acting_as, owner=home.path.stat().st_uid) if acting_as else asker


@asynccontextmanager
async def serving(home: Home, *, as_daemon: bool = False, standby: bool = False) -> AsyncIterator[Daemon]:
    """A daemon of a home, which listens at its control socket. Raises HomeHeldError.

    With `as_daemon` it stays until it is stopped, and fails only if another such daemon runs; a `standby`
    waits for the end of a daemon that runs on a copy of the home.
    """
    from narval.calls.output_capture import capture_output
    from narval.surfaces.control.server import ControlServer  # here: a query needs no server

    restore_output = capture_output()  # before it resumes calls
    try:
        daemon = await (_opened_in_the_end(home, standby=standby) if as_daemon else _opened(home))
        try:
            answer = partial(invoke, daemon)
            kept = daemon.kept if as_daemon else None
            server = await ControlServer.open(home.socket(), answer, kept=kept)
            try:
                daemon.follow_files()
                yield daemon
            finally:
                await server.close()
        finally:
            await daemon.close()
    finally:
        restore_output()


async def _opened_in_the_end(home: Home, *, standby: bool) -> Daemon:
    """The daemon, after other programs than daemons have released the home, however long they work."""
    waited_for = None
    while True:
        try:
            return await _opened(home, as_daemon=True, standby=standby)
        except HomeHeldError:
            holder = home.holder()
            if holder is not None and holder.is_daemon:
                raise
            if holder is not None and holder.pid and holder != waited_for:
                waited_for = holder
                log.warning("waiting for %s, which is no daemon, to let go of %s", holder, home.path)
        await LoneThread(home.wait_until_released, "narval-waits").done


async def _opened(home: Home, *, as_daemon: bool = False, standby: bool = False) -> Daemon:
    """The daemon, after a command that holds the home for a moment has released it."""
    deadline = time.monotonic() + client.PATIENCE
    while True:
        try:
            return await Daemon.open(home, as_daemon=as_daemon, standby=standby)
        except HomeHeldError:
            other = client.Client.reach(home.socket())
            if other is not None:
                other.close()
            if other is not None or time.monotonic() > deadline:
                raise
        await asyncio.sleep(client.PAUSE)
