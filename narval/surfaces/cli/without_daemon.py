"""A home opened by a command itself where no daemon runs; imported only then, with all of the runtime."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from narval.errors import DaemonGoneError, HomeHeldError, OperatorError
from narval.operations.asker import user
from narval.operations.operations import OPERATIONS, invoke
from narval.runtime.daemon.daemon import Daemon
from narval.runtime.home.home import Home
from narval.surfaces.control import client
from narval.surfaces.control.server import ControlServer


class RecordOnlyHome:
    """A home opened to be asked something, which is recorded and left to the next daemon to act upon."""

    record_only = True

    def __init__(self, home: Home) -> None:
        self._runner, self._ends = asyncio.Runner(), ExitStack()
        self._asker = user(os.geteuid(), "terminal")
        self._refusal: OperatorError | None = None
        try:
            self._daemon = self._runner.run(self._opened(home))
        except BaseException:
            self._ends.close()
            self._runner.close()
            raise

    async def _opened(self, home: Home) -> Daemon:
        """The home, or a copy of its store where one may only read it."""
        try:
            return await Daemon.open(home, record_only=True)
        except OperatorError as error:
            if not home.may_be_copied():
                raise
            self._refusal = error
            folder = self._ends.enter_context(TemporaryDirectory(prefix="narval-"))
            return await Daemon.open(home.copied(Path(folder)), record_only=True)

    def ask(self, method: str, /, **params: Any) -> Any:
        """The answer to one operation. Raises NarvalError."""
        if self._refusal is not None and method in OPERATIONS and OPERATIONS[method].scope != "read":
            raise self._refusal
        return self._runner.run(invoke(self._daemon, self._asker, method, params))

    def close(self) -> None:
        """Release the home."""
        try:
            self._runner.run(self._daemon.close())
        finally:
            self._ends.close()
            self._runner.close()


class WorkingHome:
    """A home at work for as long as this command asks it: a daemon whose end comes with the command's."""

    record_only = False

    def __init__(self, home: Home) -> None:
        self._runner, self._asker = asyncio.Runner(), user(os.geteuid(), "terminal")
        self._serving = serving(home)
        try:
            self._daemon = self._runner.run(self._serving.__aenter__())
        except BaseException:
            self._runner.close()
            raise
        self._work = self._runner.get_loop().create_task(self._daemon.host.run())

    def ask(self, method: str, /, **params: Any) -> Any:
        """The answer to one operation. Raises NarvalError."""
        return self._runner.run(self._answer(invoke(self._daemon, self._asker, method, params)))

    async def _answer(self, operation: Coroutine[Any, Any, Any]) -> Any:
        answer = asyncio.ensure_future(operation)
        await asyncio.wait([answer, self._work], return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            answer.cancel()
            await self._work  # raises what ended it
            raise DaemonGoneError("the work was stopped before this was answered")
        return await answer

    def close(self) -> None:
        """Stop in good order, and release the home."""
        try:
            self._runner.run(self._end())
        finally:
            self._runner.close()

    async def _end(self) -> None:
        self._daemon.host.stop.request()
        await asyncio.wait([self._work])
        await self._serving.__aexit__(None, None, None)


@asynccontextmanager
async def serving(home: Home) -> AsyncIterator[Daemon]:
    """A daemon on a home, which listens at its control socket. Raises HomeHeldError."""
    daemon = await _opened(home)
    try:
        server = await ControlServer.open(home.socket(), partial(invoke, daemon))
        try:
            daemon.follow_files()
            yield daemon
        finally:
            await server.close()
    finally:
        await daemon.close()


async def _opened(home: Home) -> Daemon:
    """The daemon, once a command that holds the home for a moment has let it go."""
    deadline = time.monotonic() + client.PATIENCE
    while True:
        try:
            return await Daemon.open(home)
        except HomeHeldError:
            other = client.Client.reach(home.socket())
            if other is not None:
                other.close()
            if other is not None or time.monotonic() > deadline:
                raise
        await asyncio.sleep(client.PAUSE)
