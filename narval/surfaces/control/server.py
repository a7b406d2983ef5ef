"""The control socket: a daemon's operations for the programs of its own user, as frames over a Unix socket.

The system decides which programs may ask: the socket has mode 0600 in a folder of mode 0700, and the
credentials of each client are checked too. No client can take the daemon down or starve the others: frames
are bounded before they are read, requests under way are limited for each connection, and a partial frame or
an unread answer is abandoned after a timeout. `wire` has the frames.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import socket
import stat
import time
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from narval import __version__
from narval.ask.asker import Asker, user
from narval.core.errors import (
    DaemonGoneError,
    InternalError,
    NarvalError,
    OperatorError,
    RequestError,
    UnansweredError,
)
from narval.surfaces.control import wire
from narval.surfaces.control.peer_credentials import peer_call, peer_uid

log = logging.getLogger(__name__)

_AT_ONCE = 4
"""The connections accepted in a row before they are checked; some are closed at once."""
_SHORT_OF_FILES = 0.25
"""Seconds without accepting if the system has no descriptor left; new clients wait that long."""
_SHARE = 4
"""The share of the daemon's descriptors that clients may take: one in four. The rest is for its own work."""

LIMIT = "limit"
"""The one request about the connection itself: it drops the scopes that it does not need."""

WAIT = "wait"
"""The parameter that makes an operation wait for something: an end, a line, an object."""

Invoke = Callable[[Asker, str, dict[str, Any]], Awaitable[Any]]
"""Performs an operation for an asker, by its name and arguments. Raises NarvalError."""


class ControlLimits(NamedTuple):
    """The limits on clients of one daemon; times in seconds."""

    connections: int = 64
    waiting: int = 1024
    """further ones, on which all requests under way wait for something to happen"""
    requests: int = 16
    """under way on one connection; further ones wait in the socket"""
    frame: float = 30.0
    """for the rest of a frame after its start, and for a client to read its answer"""
    idle: float = 600.0
    """without a request, until the connection is closed"""
    mute: float = 1.0
    """without a request, until the connection may be closed to make room for another program"""
    grace: float = 5.0
    """for requests of a client that has gone: a complete one is performed"""
    closing: float = 0.25
    """for requests under way when the daemon ends"""


class ControlServer:
    """A server of operations at a socket, until it is closed; made by `open`."""

    def __init__(
        self,
        path: Path,
        invoke: Invoke,
        limits: ControlLimits,
        uid_of: Callable[[Any], int],
        call_of: Callable[[Any], str],
    ) -> None:
        self._path, self._invoke, self._limits = path, invoke, limits
        self._uid_of, self._call_of = uid_of, call_of
        self._peers: dict[_Peer, asyncio.Task[None]] = {}
        self._opened, self._closing = 0, False
        self._is_short = False
        """True after a connection could not be accepted, until the next one is."""
        self._welcomes: set[asyncio.Task[None]] = set()
        self._listener: socket.socket

    @classmethod
    async def open(
        cls,
        path: Path,
        invoke: Invoke,
        *,
        limits: ControlLimits | None = None,
        uid_of: Callable[[Any], int] | None = None,
        kept: Container[int] | None = None,
    ) -> ControlServer:
        """Listen at `path`. The caller must hold the home's lock: a socket found there is stale.

        With `kept`, all programs that this process starts answer calls, except those with these process ids.
        """
        limits = limits or ControlLimits()
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _SHARE
        connections = max(1, min(limits.connections, files))
        waiting = max(1, min(limits.waiting, files - connections))
        limits = limits._replace(connections=connections, waiting=waiting)
        call_of = peer_call if kept is None else partial(peer_call, daemon=os.getpid(), kept=kept)
        server = cls(path, invoke, limits, uid_of or peer_uid, call_of)
        server._listener = listener_at(path)
        server._listen()
        return server

    @property
    def connections(self) -> int:
        """The number of programs that are connected."""
        return len(self._peers)

    async def close(self) -> None:
        """Stop listening; answer or refuse requests under way; hang up. The home's lock is still held."""
        self._closing = True
        asyncio.get_running_loop().remove_reader(self._listener)
        self._listener.close()
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        tasks = list(self._peers.values())
        await asyncio.gather(*(peer.close() for peer in list(self._peers)), return_exceptions=True)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _listen(self) -> None:
        if not self._closing:
            asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        """Accept a few connections; if descriptors run out, pause, and log it once.

        asyncio's own server would try a hundred times, with a traceback for each.
        """
        loop = asyncio.get_running_loop()
        for _ in range(_AT_ONCE):
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if not self._is_short:
                    log.error("no program can connect for now: %s", error)
                self._is_short = True
                loop.remove_reader(self._listener)
                loop.call_later(_SHORT_OF_FILES, self._listen)
                return
            self._is_short = False
            task = loop.create_task(self._welcome(connection))
            self._welcomes.add(task)
            task.add_done_callback(self._welcomes.discard)

    async def _welcome(self, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=connection)
        if self._closing:
            writer.transport.abort()  # without a greeting: as if no daemon listened
            return
        uid = self._uid_of(writer.get_extra_info("socket"))
        self._opened += 1
        asker = user(uid, "socket", str(self._opened))
        asker = msgspec.structs.replace(asker, call=self._call_of(writer.get_extra_info("socket")))
        peer = _Peer(reader, writer, self._invoke, asker, self._limits)
        refusal = self._refusal(uid)
        if refusal is not None:
            await peer.refuse(refusal)
            return
        task = asyncio.current_task()
        assert task is not None
        self._peers[peer] = task
        try:
            await peer.serve()
        finally:
            del self._peers[peer]

    def _refusal(self, uid: int) -> NarvalError | None:
        """The error for a program that is refused, or None."""
        own = os.geteuid()
        if uid not in (own, 0):
            log.warning("refused a program of user %d at the control socket", uid)
            return OperatorError(f"this daemon answers user {own} and root, not user {uid}")
        there = [peer for peer in self._peers if not peer.dropped]
        busy = [peer for peer in there if not peer.is_waiting]
        if len(busy) < self._limits.connections and len(there) - len(busy) < self._limits.waiting:
            return None
        longest = max(busy, key=_Peer.mute_for, default=None)
        if longest is None or longest.mute_for() < self._limits.mute:
            return DaemonGoneError(f"the daemon is busy with {len(there)} programs; try again")
        longest.drop()
        return None


class _FrameWriter:
    """The output to one client: writes frames of several answers, one at a time, until the client goes."""

    def __init__(self, writer: asyncio.StreamWriter, limits: ControlLimits) -> None:
        self._writer, self._limits = writer, limits
        self._lock = asyncio.Lock()

    async def write(self, frames: Iterable[bytes]) -> None:
        """Write frames, each after the client has read enough of the previous ones; others may interleave."""
        for data in frames:
            async with self._lock:
                if self._writer.is_closing():
                    return
                try:
                    async with asyncio.timeout(self._limits.frame):
                        self._writer.write(data)
                        await self._writer.drain()
                except OSError:  # gone, or not reading: TimeoutError is an OSError
                    self.abort()
                    return
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Hang up after the client has read everything written, or after `closing` seconds."""
        self._writer.close()
        with contextlib.suppress(OSError):
            async with asyncio.timeout(self._limits.closing):
                await self._writer.wait_closed()
        self.abort()

    def abort(self) -> None:
        """Hang up at once."""
        self._writer.transport.abort()


class _Peer:
    """One connection: reads requests, and answers each in a task of its own as soon as it can."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        invoke: Invoke,
        asker: Asker,
        limits: ControlLimits,
    ) -> None:
        self._reader, self._output = reader, _FrameWriter(writer, limits)
        self._invoke, self._asker, self._limits = invoke, asker, limits
        self._free = asyncio.Semaphore(limits.requests)
        self._tasks: dict[asyncio.Task[None], bool] = {}
        """The answers under way; True for a request that waits for something to happen."""
        self._reading: asyncio.Task[None] | None = None
        self._last_request = time.monotonic()
        self.dropped = False

    def mute_for(self) -> float:
        """The seconds since the last request was answered; 0 while one is under way."""
        return 0.0 if self._tasks else time.monotonic() - self._last_request

    @property
    def is_waiting(self) -> bool:
        """True while only waiting requests are under way: then the connection takes no place."""
        return bool(self._tasks) and all(self._tasks.values())

    def drop(self) -> None:
        """Hang up without a message, to make room for another client."""
        self.dropped = True
        self._output.abort()

    async def refuse(self, error: NarvalError) -> None:
        """Tell the client why it is refused, and hang up."""
        await self._output.write([wire.frame(wire.GREETING, None, wire.error_form(error), None)])
        await self._output.close()

    async def serve(self) -> None:
        """Greet, answer until the client disconnects or breaks the protocol, and hang up."""
        about = {"narval": __version__, "protocol": wire.PROTOCOL}
        try:
            await self._output.write([wire.frame(wire.GREETING, None, None, about)])
            self._reading = asyncio.create_task(self._read())
            await asyncio.wait([self._reading])
            await self._settle(self._limits.grace)
        finally:
            await self._output.close()

    async def close(self) -> None:
        """Make `serve` end, as the daemon does."""
        if self._reading is not None:
            self._reading.cancel()
        await self._settle(self._limits.closing)

    async def _settle(self, within: float) -> None:
        """Wait for the requests under way, and cancel those that take longer than `within` seconds."""
        late = await _remaining(self._tasks, within)
        for task in late:
            task.cancel()
        if await _remaining(late, self._limits.closing):
            self._output.abort()  # the client does not even read the reason
            await _remaining(late, self._limits.frame)

    # --- reading --------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        try:
            while True:
                await self._free.acquire()
                request = wire.request(await self._frame())
                task = asyncio.create_task(self._answer(request))
                self._tasks[task] = bool(request.params.get(WAIT))
                task.add_done_callback(self._answered)
        except (EOFError, OSError):  # the client is gone, or counts as gone
            return
        except wire.WireError as error:
            form = wire.error_form(RequestError(f"not understood: {error}"))
            await self._output.write([wire.frame(wire.REPLY, None, form, None)])

    async def _frame(self) -> bytes:
        first = await self._first()
        async with asyncio.timeout(self._limits.frame):
            size = wire.length(first + await self._reader.readexactly(wire.HEADER - 1))
            return await self._reader.readexactly(size)

    async def _first(self) -> bytes:
        """The first byte of a frame; while a request is under way there is no time limit."""
        while True:
            try:
                async with asyncio.timeout(self._limits.idle):
                    first = await self._reader.read(1)
            except TimeoutError:
                if self._tasks:
                    continue
                raise
            if not first:
                raise EOFError
            return first

    # --- answering ------------------------------------------------------------------------------------------

    async def _answer(self, request: wire.WireRequest) -> None:
        number, method = request.number, request.method
        try:
            result = await self._perform(request)
        except NarvalError as error:
            await self._output.write([_failure(number, error)])
        except asyncio.CancelledError:  # only by `_settle`, the only holder of this task
            gone = UnansweredError("the daemon did not go on with this, as it ends or you had hung up")
            await self._output.write([_failure(number, gone)])
        except Exception as error:
            log.exception("the operation %s raised", method)
            raised = InternalError(f"{method} raised {error!r}; see the log")
            await self._output.write([_failure(number, raised)])
        else:
            await self._output.write(_success(number, result))

    async def _perform(self, request: wire.WireRequest) -> Any:
        """The result of a request. Raises NarvalError."""
        if request.method == LIMIT:
            self._asker = self._asker.limited(request.params)
            return {"scopes": sorted(self._asker.scopes)}
        asker = self._asker.asking(request.agent)
        if request.acting_as:
            asker = asker.acting_as(request.acting_as, owner=os.geteuid(), session=request.session)
        if request.once:
            asker = msgspec.structs.replace(asker, once=request.once)
        return await self._invoke(asker, request.method, request.params)

    def _answered(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        self._last_request = time.monotonic()
        self._free.release()
        if not task.cancelled() and task.exception() is not None:
            log.error("an answer could not be given", exc_info=task.exception())


def _success(number: int, result: Any) -> Iterator[bytes]:
    """The frames of an answer, or of the error if it cannot be sent."""
    try:
        yield from wire.answer(number, result)
    except NarvalError as error:
        yield _failure(number, error)
    except (TypeError, ValueError, OverflowError) as error:
        log.exception("an answer is no plain data")
        yield _failure(number, InternalError(f"the answer is no plain data: {error}"))


def _failure(number: int, error: NarvalError) -> bytes:
    return wire.frame(wire.REPLY, number, wire.error_form(error), None)


async def _remaining(tasks: Iterable[asyncio.Task[None]], within: float) -> set[asyncio.Task[None]]:
    """The tasks that have not ended after `within` seconds."""
    waiting = list(tasks)
    return (await asyncio.wait(waiting, timeout=within))[1] if waiting else set()


_BACKLOG = 128


def listener_at(path: Path) -> socket.socket:
    """A socket that listens at `path`, in a folder that is only ever open to its user."""
    folder = path.parent
    if stat.S_IMODE(folder.stat().st_mode) & 0o077:
        folder.chmod(0o700)
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    listener = socket.socket(socket.AF_UNIX)
    try:
        with wire.address(path) as name:
            listener.bind(name)
        listener.listen(_BACKLOG)
        path.chmod(0o600)  # the last event of the file: its watchers can connect now
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener
