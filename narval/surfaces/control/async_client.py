"""The asynchronous client of the control socket: many requests at once over one lasting connection.

For programs that ask on behalf of many, like `narval web`; `client` is for a command that asks once.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narval.core.errors import STILL_AT_IT, DaemonGoneError, NarvalError, SilentError, UnansweredError
from narval.surfaces.control import wire
from narval.surfaces.control.client import ANSWER, PATIENCE, seconds_for
from narval.system.file_events import FileEvents

if TYPE_CHECKING:
    from narval.ask.asker import Scope

AT_ONCE = 12
"""The most requests under way on a connection; others wait here, so that the daemon need not hold them."""

AGAIN = 1.0
"""Seconds until a daemon that refused is asked again, or is looked for if no folder can be watched."""

SETTLE = 0.05
"""Seconds from an event in the folder of the socket to the next look: the store's files lie there, too."""

LOOK = 60.0
"""The most seconds for which a folder is watched before the path of the socket is found again."""

_NO_LISTENER = (FileNotFoundError, ConnectionRefusedError)
"""The errors of a connection if no daemon listens."""


class AsyncClient:
    """A connection to the daemon whose socket `find` names, made with the first request. `start` is the
    command that starts that daemon.

    With a `scope` it is limited to that before any other request (M7, M70). The next request reopens a broken
    connection; requests under way raise DaemonGoneError, or UnansweredError if they may have altered
    something.
    """

    def __init__(
        self,
        find: Callable[[], Path | str | None],
        scope: Scope | None = None,
        start: str = "narval run",
        answer: float = ANSWER,
    ) -> None:
        self._find, self._scope, self.start, self._answer = find, scope, start, answer
        self._number = 0
        self._waiting: dict[int, tuple[asyncio.Future[Any], list[Any]]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._connecting = asyncio.Lock()
        self._free = asyncio.Semaphore(AT_ONCE)
        self._coming: asyncio.Task[None] | None = None
        self._returned = -math.inf

    async def ask(
        self,
        method: str,
        /,
        *,
        agent: str = "",
        acting_as: str = "",
        session: str = "",
        once: str = "",
        **params: Any,
    ) -> Any:
        """The answer to an operation, asked of an agent, in a person's name, in a session, and `once` for a
        chat message; "" for none.

        Raises the daemon's error, or DaemonGoneError; after the request was sent UnansweredError, or
        SilentError if it can only read.
        """
        asking = {
            name: value
            for name, value in (("agent", agent), ("as", acting_as), ("session", session), ("once", once))
            if value
        }
        if params.get("wait"):  # it takes no place: the daemon counts it separately, too
            return await self._asked(method, params, asking)
        async with self._free:
            return await self._asked(method, params, asking)

    async def again(self) -> None:
        """Wait until asking again makes sense after an error: until a daemon listens, if there was none,
        otherwise for a moment. The folder of the socket shows a new daemon; nothing is polled. If it was just
        waited for in vain, as with a daemon that hangs up on everybody, it first waits for a moment.
        """
        clock = asyncio.get_running_loop().time
        if self._writer is not None or clock() - self._returned < AGAIN:
            await asyncio.sleep(AGAIN)
        if self._writer is None:
            if self._coming is None or self._coming.done():
                self._coming = asyncio.create_task(self._come())
            await asyncio.shield(self._coming)
        self._returned = clock()

    async def close(self) -> None:
        """Hang up; requests under way raise DaemonGoneError or UnansweredError."""
        if self._coming is not None:
            self._coming.cancel()
        self._hang_up("the connection was closed")
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reading

    async def _come(self) -> None:
        """Connect as soon as a daemon listens. After another error return: the next request tells it."""
        with contextlib.suppress(NarvalError):
            while self._writer is None:
                if (path := self._find()) is not None:
                    await _connect_when_one_listens(Path(path).parent, self._connected)
                else:  # a short path, which the daemon makes
                    await asyncio.sleep(AGAIN)

    async def _connected(self) -> None:
        async with self._connecting:
            if self._writer is None:
                await self._connect()

    async def _asked(self, method: str, params: dict[str, Any], asking: dict[str, str]) -> Any:
        await self._connected()
        return await self._send(method, params, *([asking] if asking else []))

    async def _send(self, method: str, params: dict[str, Any], *asking: dict[str, str]) -> Any:
        writer = self._writer
        if writer is None:
            raise DaemonGoneError("the daemon has hung up")
        self._number += 1
        number = self._number
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer, []
        limit = seconds_for(params, self._answer)
        try:
            writer.write(wire.frame(wire.REQUEST, number, method, params, *asking))
            async with asyncio.timeout(limit):
                with contextlib.suppress(OSError):  # the daemon hung up; the reader reports that
                    await writer.drain()
                return await answer
        except TimeoutError:
            if self._scope == "read":
                raise _silent(limit) from None
            silent = f"the daemon has not answered within {limit:g} seconds, {STILL_AT_IT}"
            raise UnansweredError(silent) from None
        finally:
            self._waiting.pop(number, None)

    @property
    def _none_at_work(self) -> str:
        return f"no daemon is running on this home; start it: {self.start}"

    async def _connect(self) -> None:
        path = self._find()
        if path is None:
            raise DaemonGoneError(self._none_at_work)
        try:
            async with asyncio.timeout(PATIENCE):
                with wire.address(path) as name:
                    reader, writer = await asyncio.open_unix_connection(name)
                _, _, refusal, _ = wire.fields(await _frame(reader))
        except TimeoutError:
            raise _silent(PATIENCE) from None
        except _NO_LISTENER as error:
            raise DaemonGoneError(self._none_at_work) from error
        except (OSError, EOFError, wire.WireError) as error:
            raise DaemonGoneError(f"no daemon answers at {path}: {error}") from error
        if refusal is not None:
            writer.close()
            raise wire.error_of(refusal)
        self._writer = writer
        self._reading = asyncio.create_task(self._read(reader))
        if self._scope is not None:
            try:
                await self._send("limit", {"scope": self._scope})
            except BaseException:
                self._hang_up("it could not be limited")  # nothing is asked with more rights than needed
                raise

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                kind, number, error, result = wire.fields(await _frame(reader))
                answer, items = self._waiting.get(number, (None, []))
                if answer is None or answer.done():
                    continue
                if error is not None:
                    answer.set_exception(self._unless_it_reads(wire.error_of(error)))
                elif kind == wire.PART and isinstance(result, list):
                    items += result
                else:
                    answer.set_result(items + result if items else result)
        except (OSError, EOFError, wire.WireError) as error:
            self._hang_up("" if isinstance(error, EOFError) else str(error))

    def _hang_up(self, why: str) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
            self._writer = None
        because = f": {why}" if why else ""
        gone = self._unless_it_reads(UnansweredError(f"the daemon ended before it answered{because}"))
        for answer, _ in self._waiting.values():
            if not answer.done():
                answer.set_exception(gone)

    def _unless_it_reads(self, error: NarvalError) -> NarvalError:
        """The error of a request; one that can only read has recorded nothing."""
        if self._scope == "read" and isinstance(error, UnansweredError):
            return DaemonGoneError(error.what)
        return error


async def _connect_when_one_listens(folder: Path, connect: Callable[[], Awaitable[None]]) -> None:
    """Watch the folder of a socket and connect as soon as a daemon listens; return if nothing happens there
    for a while. Raises any other NarvalError of connecting after a moment.
    """
    came = asyncio.Event()
    events = FileEvents(folder.parent, {folder.name: False}, lambda _: came.set())
    try:
        while True:
            came.clear()
            seconds = AGAIN
            with contextlib.suppress(OSError):
                await asyncio.to_thread(events.arm)
                seconds = LOOK if folder.parent.is_dir() else AGAIN
            try:
                await connect()
                return
            except NarvalError as error:
                if not isinstance(error.__cause__, _NO_LISTENER):
                    await asyncio.sleep(AGAIN)
                    raise
            async with asyncio.timeout(seconds):
                await came.wait()
            await asyncio.sleep(SETTLE)
    except TimeoutError:
        return
    finally:
        events.close()


def _silent(seconds: float) -> SilentError:
    why = "it is at work on something long, or has stopped (narval log says more)"
    return SilentError(f"the daemon has not answered for {seconds:g} seconds: {why}")


async def _frame(reader: asyncio.StreamReader) -> bytes:
    """The body of the next frame. Raises EOFError (IncompleteReadError), OSError, WireError."""
    return await reader.readexactly(wire.length(await reader.readexactly(wire.HEADER)))
