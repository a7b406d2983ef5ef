"""Joining: a home becomes a daemon of the store that it shares with others (G46), and tells the program
that renews its lease that it lives; that program is restarted if it dies.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

import msgspec

from narval import __version__
from narval.core.definitions.people.directory import Directory
from narval.core.errors import ElsewhereError, StoreError
from narval.daemon.start_and_stop import Note
from narval.files.home import Home
from narval.files.people_file import load_people
from narval.files.settings import Settings
from narval.store.batch import AgentRow
from narval.store.postgresql.leases import LEASE, PULSE, DaemonRow, Leases
from narval.store.store import Store
from narval.system.clock import Clock
from narval.system.pipes import read_pipe

log = logging.getLogger("narval.daemon")

OF_THE_MACHINE = (
    "name", "store", "store_patience", "listen", "fleet_weight", "threads", "workers", "worker_memory",
    "active_memory", "log_level",
)  # fmt: skip
"""The settings in which the daemons of a store may differ."""

LOOKS = 0.2
"""Seconds between two checks whether the daemon of a home has renewed or ended."""

STANDBY_LOOKS = 1.0
"""Seconds between two checks by a standby."""

RENEWALS_UNDER_WAY = 2
"""The renewals that the server may still commit after a daemon was killed: its own, and its renewer's."""


async def join(leases: Leases, settings: Settings, people: Directory, *, standby: bool = False) -> AgentRow:
    """Become a daemon of a store; return the own agent of the home.

    This waits for a killed daemon of the home until its lease ends; with `standby`, for any daemon of it.
    Raises ElsewhereError if one is running, SettingsError, StoreError.
    """
    name, digest = settings.name, digest_of(settings, people)
    address = f"{socket.gethostname()}, program {os.getpid()}"  # as shown to people
    before: DaemonRow | None = None
    renewals = 0
    while True:
        try:
            weight = settings.fleet_weight
            return await asyncio.to_thread(leases.join, name, address, __version__, digest, weight)
        except ElsewhereError:
            row_and_holder = await asyncio.to_thread(leases.find, name)
            holder = row_and_holder[1] if row_and_holder is not None else None
            if holder is not None and before is not None and holder.daemon == before.daemon:
                renewals += holder.until > before.until
            if renewals > RENEWALS_UNDER_WAY and not standby:
                raise
        if holder is not None and before is None:
            log.warning("waiting for the daemon of %s at %s to end", name, holder.address)
        before = holder or before
        await asyncio.sleep(STANDBY_LOOKS if standby else LOOKS)


async def join_store(
    home: Home, settings: Settings, store: Store, clock: Clock, starting: ExitStack, closing: ExitStack,
    note: Note, *, standby: bool, is_short: bool,
) -> RenewerClient | None:  # fmt: skip
    """Be a daemon of a store that others share, as in `join`, and hold its own agent until `closing` ends.
    Return the program that renews for it from now on; there is none on a simulated clock, or if none can
    reach the store.

    That program starts at once. For a command that `is_short`, because it only records, it starts after a
    third of the lease that joining gives. Until the end of `starting` a thread sends the signs of life:
    reading a home's files and restoring its own agent block the event loop for seconds.
    """
    assert store.leases is not None
    leases, renewer = store.leases, None
    if standby:
        note(is_standby=True)
    own = await join(leases, settings, load_people(home.path), standby=standby)
    store.use_own(own.agent)
    if leases.url and not clock.is_simulated:
        renewer = RenewerClient(leases.url, leases.daemon, after=LEASE / 3 if is_short else 0.0)
        renewer.begin()
        starting.callback(renewer.pulse_by_thread())
    closing.callback(_leave, leases, renewer)
    if standby:
        note(is_standby=False)
    return renewer


def find_own(store: Store, name: str) -> None:
    """Make the agent of a name the home's own. Raises StoreError if it has never been active."""
    own = next((row for row in store.agents() if row.name == name), None)
    if own is None:
        raise StoreError(
            f"the store has no agent {name} yet: start the daemon of this home once (narval run)"
        )
    store.use_own(own.agent)


def _leave(leases: Leases, renewer: RenewerClient | None) -> None:
    """Give back all agents, and leave the store; if the store is away, the lease expires."""
    if renewer is not None:
        renewer.close()
    try:
        if leases.daemon:
            leases.leave()
    except StoreError as error:
        log.warning("other daemons may take the agents of this one in some seconds: %s", error)


def digest_of(settings: Settings, people: Directory) -> str:
    """The digest of settings and people, which must be the same for all daemons of a store."""
    values = msgspec.structs.asdict(settings).items()
    said = {name: value for name, value in values if name not in OF_THE_MACHINE}
    plain = msgspec.json.encode((said, people.digest), order="sorted", enc_hook=dict)
    return hashlib.sha256(plain).hexdigest()


# --- the program that renews ----------------------------------------------------------------------------


class RenewerClient:
    """The program that renews for a daemon, by its number, in the store at a URL, from `begin` to `close`.

    It is started after `after` seconds. A command that ends before that, within the lease that joining gave
    it, needs none.
    """

    def __init__(self, url: str, daemon: int, after: float = 0.0) -> None:
        self._url, self._daemon = url, daemon
        self._from, self._using = time.monotonic() + after, threading.Lock()
        self._renewed: Callable[[float], None] | None = None
        self._program: subprocess.Popen[bytes] | None = None
        self._pulse: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int | None:
        """The process id of the running renewer, or None."""
        return self._program.pid if self._program is not None else None

    def begin(self) -> None:
        """Send the renewer a sign of life whenever the event loop runs, from now on."""
        loop = asyncio.get_running_loop()
        with self._using:
            if self._is_started(loop):
                self._write(b"%f\n" % time.monotonic())
        self._pulse = loop.call_later(PULSE, self.begin)

    def tell_of_renewals(self, renewed: Callable[[float], None]) -> None:
        """Call a function in the event loop with the sending time of each answered renewal."""
        self._renewed = renewed

    def pulse_by_thread(self) -> Callable[[], None]:
        """Send signs of life from a thread, although the event loop is blocked; return a function that ends
        the thread, and waits for its end.

        A stopped program sends no sign of life. One that hangs during its start, as in the code of an
        imported module, is renewed until it is ended: only a standby of the same home could take anything
        from it.
        """
        is_over, loop = threading.Event(), asyncio.get_running_loop()

        def pulse() -> None:
            while not is_over.wait(PULSE):
                with self._using:
                    if self._is_started(loop):
                        self._write(b"%f\n" % time.monotonic())

        thread = threading.Thread(target=pulse, name="narval-pulses", daemon=True)
        thread.start()

        def end() -> None:
            is_over.set()
            thread.join()

        return end

    def close(self) -> None:
        """Stop renewing."""
        if self._pulse is not None:
            self._pulse.cancel()
        self._end()

    def _is_started(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Start the program if it is time and none is running; True if one is running."""
        if self._program is None and time.monotonic() >= self._from:
            self._start(loop)
        return self._program is not None

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._program = subprocess.Popen(
            [sys.executable, "-m", "narval.daemon.fleet.renewer", str(self._daemon)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        for pipe in (self._program.stdin, self._program.stdout):
            os.set_blocking(pipe.fileno(), False)
        self._write(self._url.encode() + b"\n")
        loop.call_soon_threadsafe(self._listen, self._program)

    def _listen(self, program: subprocess.Popen[bytes]) -> None:
        if program is self._program:
            assert program.stdout is not None
            asyncio.get_running_loop().add_reader(program.stdout.fileno(), self._hear)

    def _hear(self) -> None:
        assert self._program is not None
        assert self._program.stdout is not None
        data = read_pipe(self._program.stdout.fileno())
        if data == b"":
            self._end()  # the next pulse starts another one
        elif data and self._renewed is not None:
            self._renewed(max(map(float, data.split())))  # it writes whole lines, each in one write

    def _write(self, line: bytes) -> None:
        """Write a line; drop it if the renewer has no room, as it would be late anyway."""
        assert self._program is not None
        assert self._program.stdin is not None
        with suppress(OSError):  # the end of a dead one is noticed elsewhere
            os.write(self._program.stdin.fileno(), line)

    def _end(self) -> None:
        with self._using:
            program, self._program = self._program, None
        if program is None:
            return
        assert program.stdin is not None
        assert program.stdout is not None
        asyncio.get_running_loop().remove_reader(program.stdout.fileno())
        program.stdin.close()
        program.stdout.close()
        program.kill()
        program.wait()
