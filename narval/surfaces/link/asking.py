"""The asking side of links: a task of `narval web` that exchanges messages with peers that have an address.

Two requests to a peer are under way. In one, the peer waits for messages of its own; before the other, this
side waits for messages, and then sends them. So one open port is enough for both directions. An unreachable
peer is asked again after one second, doubling to sixty.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from narval.core.errors import DaemonGoneError, NarvalError, SettingsError, UnansweredError
from narval.files.outside.peers import NO_PEERS, PEERS_FILE, Peers, PeerSettings, PeersFile
from narval.surfaces.control.async_client import AsyncClient
from narval.surfaces.link import protocol
from narval.surfaces.link.protocol import trusting
from narval.system.file_events import FileEvents

log = logging.getLogger("narval.link")

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds after which an unreachable peer is asked again: at first, and at most."""

CONNECTING = 10.0
"""Seconds for a peer to accept a connection."""

SILENT = 20.0
"""Seconds without a byte, in addition to the wait of an exchange, until a peer counts as unreachable."""

LARGEST = 18 * 1024 * 1024
"""The most bytes of an answer."""


class _LaterError(NarvalError):
    """The peer takes nothing for `seconds` seconds."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class LinkAsking:
    """Asks the peers in the file of a home, until it is cancelled."""

    def __init__(self, asks: AsyncClient, home: Path) -> None:
        self._asks, self._home, self._file = asks, home, PeersFile(home)
        self._tasks: dict[str, tuple[PeerSettings, asyncio.Task[None]]] = {}

    async def run(self) -> None:
        """Ask the peers; changes take effect when their file is saved."""
        changed, folder = asyncio.Event(), Path(PEERS_FILE).parent.name
        events = FileEvents(self._home, {folder: False}, lambda _: changed.set())
        try:
            while True:
                changed.clear()
                with suppress(OSError):
                    await asyncio.to_thread(events.arm)
                self._take_up(self._peers())
                await changed.wait()
        finally:
            events.close()
            self._take_up(NO_PEERS)

    def _peers(self) -> Peers:
        """The peers; if the file has faults, the previous ones, so that a typing error ends no link."""
        try:
            return self._file.current()
        except SettingsError as error:
            log.error("%s is not taken over: %s", PEERS_FILE, error)
            return {name: peer for name, (peer, _) in self._tasks.items()}

    def _take_up(self, peers: Peers) -> None:
        """Ask exactly these peers from now on."""
        for name, (peer, task) in [*self._tasks.items()]:
            if peers.get(name) != peer:
                task.cancel()
                del self._tasks[name]
        for name, peer in peers.items():
            if peer.url is not None and name not in self._tasks:
                link = PeerAsking(self._asks, peer, self._home)
                self._tasks[name] = peer, asyncio.create_task(link.run())


class PeerAsking:
    """Asks one peer, until it is cancelled."""

    def __init__(self, asks: AsyncClient, peer: PeerSettings, home: Path) -> None:
        self._asks, self._peer, self._home = asks, peer, home
        self._url = f"{peer.url}{protocol.EXCHANGE}"
        self._pause = FIRST_PAUSE
        self._why = ""
        """The logged reason why nothing is exchanged; "" if there is none."""

    async def run(self) -> None:
        """Ask until cancelled, with pauses after errors."""
        while True:
            pause = 0.0
            try:
                async with await self._client() as client:
                    await self._exchange(client)
            except* _LaterError as group:
                pause = max(_first(group, _LaterError).seconds, 1.0)
                await self._note(str(_first(group, _LaterError)))
            except* NarvalError as group:
                await self._note(str(_first(group, NarvalError)))
            except* Exception as group:
                log.exception("the link with %s broke", self._peer.name)
                await self._note(str(_first(group, Exception)))
            await asyncio.sleep(max(pause, self._pause))
            self._pause = min(2 * self._pause, LONGEST_PAUSE)

    async def _exchange(self, client: Any) -> None:
        """Exchange frames until an error occurs. Raises NarvalError."""
        begun = await self._post(client, await self._frame(None))
        self._pause = FIRST_PAUSE
        log.info("the link with %s is connected", self._peer.name)
        self._why = ""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._go_on(client, begun, here=0.0, there=protocol.LONGEST_WAIT))
            tasks.create_task(self._go_on(client, begun, here=protocol.LONGEST_WAIT, there=0.0))

    async def _go_on(self, client: Any, answer: bytes, *, here: float, there: float) -> None:
        """Exchange frames, each waiting for messages: `here` seconds on this side, `there` on the other."""
        while True:
            answer = await self._post(client, await self._frame(answer, here), there)

    async def _frame(self, answer: bytes | None, wait: float = 0.0) -> bytes:
        """The next frame to send, after the answer is recorded. Raises NarvalError."""
        while True:
            try:
                frame: bytes = await self._asks.ask("exchange", peer=self._peer.name, frame=answer, wait=wait)
                return frame
            except UnansweredError:
                raise
            except DaemonGoneError:  # the answer is not recorded
                await self._asks.again()

    async def _client(self) -> Any:
        """The HTTP client for the peer. Raises OperatorError."""
        httpx2 = await asyncio.to_thread(importlib.import_module, "httpx2")
        for name in ("httpx2", "httpcore2"):
            logging.getLogger(name).setLevel(logging.WARNING)
        token = protocol.token_for(self._peer, self._home)
        tls = await asyncio.to_thread(trusting, self._peer.ca_file(self._home), self._peer.name)
        headers = {**protocol.HEADERS, "content-type": protocol.FRAMES, "authorization": f"Bearer {token}"}
        return httpx2.AsyncClient(verify=tls, trust_env=False, headers=headers)

    async def _post(self, client: Any, frame: bytes, wait: float = 0.0) -> bytes:
        """The frame with which the peer answers. Raises NarvalError."""
        httpx2, name, url = importlib.import_module("httpx2"), self._peer.name, str(self._peer.url)
        timeout = httpx2.Timeout(SILENT + wait, connect=CONNECTING)
        try:
            async with client.stream(
                "POST", self._url, content=frame, headers={protocol.WAIT: f"{wait:g}"}, timeout=timeout
            ) as response:
                body = bytearray()
                async for piece in response.aiter_raw():
                    body += piece
                    if len(body) > LARGEST:
                        raise DaemonGoneError(f"the peer {name} answers with more than {LARGEST:,} bytes")
                status, headers = response.status_code, response.headers
        except (httpx2.HTTPError, OSError) as error:
            why = str(error) or type(error).__name__
            raise DaemonGoneError(f"the peer {name} cannot be reached at {url}: {why}") from None
        if status != 200:
            raise _refused(status, headers, bytes(body), name, url)
        protocol.check_versions(headers.get(protocol.VERSIONS), name)
        return bytes(body)

    async def _note(self, why: str) -> None:
        """Report to the log and the daemon why nothing is exchanged, if the reason is a new one."""
        if why != self._why:
            log.warning("the link with %s: %s; it is asked again", self._peer.name, why)
            with contextlib.suppress(NarvalError):  # the daemon is gone, which is reported elsewhere
                await self._asks.ask("note_link", peer=self._peer.name, why=why)
        self._why = why


def _refused(status: int, headers: Mapping[str, str], body: bytes, peer: str, url: str) -> NarvalError:
    """The error for an answer without a frame, with the wait that it asks for."""
    error = protocol.refusal_of(status, body, peer, url)
    seconds = headers.get("retry-after", "")
    if seconds.isascii() and seconds.isdecimal():
        return _LaterError(str(error), min(float(seconds[:4]), LONGEST_PAUSE))
    return error


def _first(group: BaseExceptionGroup[Any], kind: type[Any]) -> Any:
    """The first error of a group that has a type."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            return _first(error, kind)
        if isinstance(error, kind):
            return error
    return group
