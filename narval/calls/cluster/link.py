"""The daemon's side of a cluster: a client of dask on its own loop, in a thread (G67).

In that thread, importing dask (half a second), TLS and reading large results delay nothing else. A link is
called, and calls its listener, on the daemon's loop. Any client that can connect to a cluster can make all
its members unpickle anything, so both sides always show certificates.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING

from narval.calls.cluster.messages import ClusterTask, LinkListener
from narval.files.outside.cluster import CERTIFICATES
from narval.system.extras import install_command

if TYPE_CHECKING:
    from narval.calls.cluster.client import ClusterClient

_FIRST_PAUSE, _LAST_PAUSE = 0.2, 5.0
"""Seconds between attempts to connect: at first, and at most."""

_REACHING = 10.0
"""Seconds that a connection may take, for a machine that does not even refuse it."""


class ClusterLink:
    """The thread in which the client lives, from its creation until `close`.

    It tries to connect until that succeeds, and again when the cluster is lost. At most `memory` bytes of
    unsettled results are handed out. News of its tasks arrive on the `topic`.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: LinkListener,
        address: str,
        certificates: Path,
        *,
        topic: str,
        memory: int,
    ) -> None:
        self._loop, self._listener = loop, listener
        self._asked = (address, certificates, self._tell, topic, memory)
        self._inner = asyncio.new_event_loop()
        self._client: ClusterClient | None = None
        """Set while connected; used only in the link's thread."""
        self._closed = False
        self._work = self._inner.create_task(self._serve())
        threading.Thread(target=self._live, name="narval-cluster", daemon=True).start()

    def submit(self, tasks: list[ClusterTask]) -> None:
        """Have tasks answered, and wait for those that the cluster already has."""
        self._ask(lambda client: client.submit(tasks))

    def end(self, task: str, calls: list[str], worker: str, *, whole: bool) -> None:
        """Kill the workers of calls, at the cluster worker that has their task ("": unknown); if `whole`,
        give up the task.
        """
        self._ask(lambda client: client.end(task, calls, worker, whole=whole))

    def settled(self, task: str, *, once: bool) -> None:
        """Drop a task whose result is recorded or not wanted."""
        self._ask(lambda client: client.settled(task, once=once))

    def close(self) -> None:
        """Disconnect; kept tasks continue. Nothing more is reported."""
        self._closed = True
        with suppress(RuntimeError):  # its loop has ended
            self._inner.call_soon_threadsafe(self._work.cancel)

    # --- in the thread of the link --------------------------------------------------------------------

    def _ask(self, what: Callable[[ClusterClient], None]) -> None:
        def ask() -> None:
            if self._client is not None:
                what(self._client)

        with suppress(RuntimeError):  # its loop has ended
            self._inner.call_soon_threadsafe(ask)

    def _tell(self, what: Callable[[LinkListener], None]) -> None:
        with suppress(RuntimeError):  # the daemon has ended
            self._loop.call_soon_threadsafe(self._say, what)

    def _say(self, what: Callable[[LinkListener], None]) -> None:
        if not self._closed:
            what(self._listener)

    def _live(self) -> None:
        asyncio.set_event_loop(self._inner)
        with suppress(asyncio.CancelledError):
            self._inner.run_until_complete(self._work)
        self._inner.close()

    async def _serve(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                await _reach(*self._asked[:2])
                from narval.calls.cluster.client import ClusterClient  # dask: 0.5 s, 40 MB

                self._client = await ClusterClient.connect(*self._asked)
                pause = _FIRST_PAUSE
                why = await self._client.serve()
            except ImportError as error:
                why = f"expected the package {error.name}; install it: {install_command('cluster')}"
            except OSError as error:
                why = f"no scheduler answers at {self._asked[0]}: {error}"
            self._client = None
            self._tell(methodcaller("away", why))
            await asyncio.sleep(pause)
            pause = min(_LAST_PAUSE, 2 * pause)


async def _reach(address: str, certificates: Path) -> None:
    """Make sure that a scheduler listens at an address: dask would retry for a long time before it reports an
    error.

    Raises OSError.
    """
    host, _, port = address.removeprefix("tls://").rpartition(":")
    authority, own, key = (str(certificates / name) for name in CERTIFICATES)
    try:
        secured = ssl.create_default_context(cafile=authority)
        secured.load_cert_chain(own, key)
    except OSError as error:
        raise OSError(f"the certificates in {certificates} cannot be read: {error}") from None
    secured.check_hostname = False  # as dask does: the authority decides who belongs to the cluster
    try:
        async with asyncio.timeout(_REACHING):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=secured)
            writer.transport.abort()  # a clean close would wait for an answer
    except UnicodeError:
        raise OSError(f"there is no machine {host}") from None
    except OverflowError:
        raise OSError(f"there is no port {port}") from None
    except TimeoutError:
        raise OSError(f"nothing came back within {_REACHING:g} s") from None
