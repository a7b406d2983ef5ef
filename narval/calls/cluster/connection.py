"""The connection to a cluster: opened when a call needs it, closed when none does (G65).

A cluster on this machine is started by the daemon when it is needed, and ended by its reaper. The link is a
client of dask on its own loop, in a thread (G67). There, importing dask (half a second), TLS and reading
large results delay nothing else. A link is called, and calls its listener, on the daemon's loop. Any client
that can connect to a cluster can make all its members unpickle anything, so both sides always show
certificates.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import narval
from narval.calls.cluster.frames import ClusterReply, ClusterSize, ClusterTask, LinkListener, News
from narval.calls.programs.backend import ProgramBackend
from narval.calls.programs.process_group import CommandRunner, EndedWithLease
from narval.calls.programs.spawn import CannotStartError
from narval.core.definitions.action.needs import shown_resources
from narval.core.engines.events import Failure
from narval.files.outside.cluster import CERTIFICATES, CLUSTER_PACKAGE, LOCAL_CLUSTER, ClusterSettings
from narval.system.extras import install_command, is_installed

if TYPE_CHECKING:
    from narval.calls.cluster.client import ClusterClient

log = logging.getLogger("narval.cluster")

_NONE_SET = 'none is set; write cluster = "local", or the address of a scheduler, into etc/narval.toml'
_STARTING, _NO_WORKERS, _CONNECTING = "it is starting", "it has no workers", "connecting"
_SOON = 0.5
"""Seconds until a local cluster that ended is started again."""


class ClusterConnection:
    """The link to the cluster that the settings name, and the local cluster if they name that.

    `listener` gets the reports of the link. `why` is the reason why there is no cluster, "" while there is
    one; `since` is the time of the monotonic clock at which that began.
    """

    def __init__(self, programs: ProgramBackend, settings: ClusterSettings, listener: LinkListener) -> None:
        self._programs, self._listener = programs, listener
        self.settings, self.size, self.why = settings, ClusterSize(0, ()), _STARTING
        self.since = 0.0
        self.link: ClusterLink | None = None
        self.missing = ""
        """The reason why there can be no cluster until somebody acts; "" if there can."""
        self._local: LocalCluster | None = None
        self._again: asyncio.TimerHandle | None = None
        self._rest: asyncio.TimerHandle | None = None
        self._ending: asyncio.Future[None] | None = None
        """The end of the previous local cluster, which may still be ending."""

    def open(self) -> None:
        """Provide a cluster, now or as soon as possible, and tell the listener. Check again whatever was
        missing: nothing reports its arrival.
        """
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
        if self.link is not None or self._local is not None or self._again is not None:
            return
        if not self.missing:
            self.since = time.monotonic()
        self.missing = ""
        if not self.settings.address:
            self.missing = _NONE_SET
            self.away(_NONE_SET)
        elif not is_installed(CLUSTER_PACKAGE):
            install = f"install it, then narval reload: {install_command('cluster')}"
            self.missing = f"expected the package {CLUSTER_PACKAGE}; {install}"
            self.away(self.missing)
        elif self.settings.address == LOCAL_CLUSTER:
            folder, commands = self._programs.reaper.folder, self._programs.commands
            self._local = LocalCluster(
                commands, self.settings, folder, self._join, self._local_ended, after=self._ending
            )
            self.away(_STARTING)
        else:
            self._join(self.settings.address, Path(self.settings.certificates))
            self.away(f"{_CONNECTING} to {self.settings.address}")

    def close_after(self, seconds: float) -> None:
        """Leave the cluster after `seconds` seconds, unless it is opened again before."""
        if self._rest is None:
            self._rest = asyncio.get_running_loop().call_later(seconds, self.leave)

    def leave(self) -> None:
        """Leave the cluster; a local one begins to end."""
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
        if self.link is not None:
            self.link.close()
        self.link, self.size, self.why, self.missing = None, ClusterSize(0, ()), _STARTING, ""
        if self._again is not None:
            self._again.cancel()
            self._again = None
        if self._local is not None:
            self._ending = self._local.end()
            self._local = None

    async def close(self) -> None:
        """Leave the cluster, and wait until a local one is gone."""
        self.leave()
        if self._ending is not None:
            await asyncio.wait([self._ending])

    def use(self, settings: ClusterSettings) -> bool:
        """Use other settings; True if the cluster was left for them."""
        is_other, self.settings = settings != self.settings, settings
        if is_other:
            self.leave()
        return is_other

    def why_for_long(self) -> str:
        """The reason why there is no cluster, and for how long; "" while there is one."""
        if not self.why:
            return ""
        return f"{self.why} (for {time.monotonic() - self.since:.0f} s)"

    def shown(self, tasks: int, queued: int) -> dict[str, Any]:
        """The cluster as `status` shows it, with the numbers of tasks on it and of calls that wait here."""
        away = self.why if tasks or queued or not self.why else "nobody needs it"
        return {"threads": self.size.threads, "tasks": tasks, "queued": queued, "away": away}

    def _open_again(self) -> None:
        self._again = None
        self.open()

    def _join(self, address: str, certificates: Path) -> None:
        topic, memory = f"narval-{self._programs.reaper.store}", self.settings.memory
        loop = asyncio.get_running_loop()
        self.link = ClusterLink(loop, self, address, certificates, topic=topic, memory=memory)

    def _local_ended(self, why: str) -> None:
        self._local = None
        self.leave()
        self._again = asyncio.get_running_loop().call_later(_SOON, self._open_again)
        self.away(why)

    # --- reports of the link --------------------------------------------------------------------------

    def joined(self, size: ClusterSize) -> None:
        """Record that the cluster has joined or changed its size."""
        if not size.threads:
            self.away(_NO_WORKERS)
            return
        if self.why:
            log.info("the cluster is there; threads: %d", size.threads)
        self.size, self.why = size, ""
        self._listener.joined(size)

    def away(self, why: str) -> None:
        """Record that there is no cluster, or no longer one."""
        if why != self.why:
            is_new = self._local is not None and self.why == _STARTING  # its workers follow
            is_coming = why.startswith((_STARTING, _CONNECTING)) or (is_new and why == _NO_WORKERS)
            self.since = time.monotonic()
            log.log(logging.INFO if is_coming else logging.WARNING, "there is no cluster: %s", why)
        self.size, self.why = ClusterSize(0, ()), why
        self._listener.away(why)

    def replied(self, key: str, replies: list[ClusterReply] | Failure) -> None:
        """Handle the replies to a task's calls, or the reason why there are none."""
        self._listener.replied(key, replies)

    def told(self, news: News) -> None:
        """Handle news of a task or of a call."""
        self._listener.told(news)


# --- the link -------------------------------------------------------------------------------------------

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


# --- a cluster on this machine --------------------------------------------------------------------------

_PROGRAM = "narval.calls.cluster.local_program"
_CALL = "cluster"
_ALWAYS = 10 * 365 * 86400.0
_FOLDER = str(Path(narval.__file__).parent.parent)
_LOG = "cluster.log"


class LocalCluster:
    """A program that is a scheduler and starts workers, from its creation until `end`.

    `started` is called with its address and the folder of its certificates. The folder is made for this
    program below `folder` (None: among temporary files). `ended` is called with the reason if the program
    ends by itself. It begins as soon as `after` is done: the end of a previous one.
    """

    def __init__(
        self,
        commands: CommandRunner,
        settings: ClusterSettings,
        folder: Path | None,
        started: Callable[[str, Path], None],
        ended: Callable[[str], None],
        *,
        after: asyncio.Future[None] | None,
    ) -> None:
        self._started, self._ended, self._after = started, ended, after
        self._heard = b""
        self._program = asyncio.ensure_future(self._live(commands, settings, folder))

    def end(self) -> asyncio.Future[None]:
        """End the program, and return a future that is done when all of it is gone."""
        self._program.cancel()
        return self._program

    async def _live(self, commands: CommandRunner, settings: ClusterSettings, above: Path | None) -> None:
        if self._after is not None:
            await asyncio.wait([self._after])
        why = "the local cluster cannot be started"
        try:
            with ExitStack() as cleanup:
                folder = _made(above)
                cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
                log = cleanup.enter_context(open(folder / _LOG, "w", encoding="utf-8"))
                words = [sys.executable, "-m", _PROGRAM, str(folder)]
                words += [str(settings.workers), shown_resources(settings.resources)]
                hear = partial(self._hear, folder, log)
                status = await commands.run(
                    words, hear, call=_CALL, seconds=_ALWAYS, environment=dict(os.environ), directory=_FOLDER
                )
                why = f"the local cluster ended with status {status}: {_last_line(folder / _LOG)}"
        except (CannotStartError, OSError) as error:
            why = f"{why}: {error}"
        except EndedWithLease:
            why = "the local cluster was ended, as the lease of this daemon was over"
        self._ended(why)

    def _hear(self, folder: Path, log: TextIO, data: bytes, is_error: bool) -> None:
        """Read the address, which is printed first; log lines go to a file."""
        if is_error or self._heard.endswith(b"\n"):
            log.write(data.decode("utf-8", "replace"))
            log.flush()
            return
        self._heard += data
        if self._heard.endswith(b"\n"):
            self._started(self._heard.decode().strip(), folder)


def _made(above: Path | None) -> Path:
    """Make the folder of a cluster, readable by this user alone, and remove leftovers of a former one."""
    if above is None:
        return Path(tempfile.mkdtemp(prefix="narval-cluster-"))
    folder = above / "cluster"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    return folder


def _last_line(path: Path) -> str:
    """The last line of a log, which is the most telling."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return lines[-1] if lines else "it said nothing"
