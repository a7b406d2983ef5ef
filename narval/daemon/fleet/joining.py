"""Joining: a home becomes a daemon of the store that it shares with others (G46)."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import socket
from contextlib import ExitStack

import msgspec

from narval import __version__
from narval.core.definitions.people.directory import Directory
from narval.core.errors import ElsewhereError, StoreError
from narval.daemon.fleet.renewer_client import RenewerClient
from narval.daemon.opening import Note
from narval.files.home import Home
from narval.files.people_file import load_people
from narval.files.settings import Settings
from narval.store.batch import AgentRow
from narval.store.postgresql.leases import LEASE, DaemonRow, Leases
from narval.store.store import Store
from narval.system.clock import Clock

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
    name, address, digest = settings.name, address_of_this(), digest_of(settings, people)
    before: DaemonRow | None = None
    renewals = 0
    while True:
        try:
            weight = settings.fleet_weight
            return await asyncio.to_thread(leases.join, name, address, __version__, digest, weight)
        except ElsewhereError:
            holder = await asyncio.to_thread(_holder, leases, name)
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


def address_of_this() -> str:
    """The machine and the program, as shown to people."""
    return f"{socket.gethostname()}, program {os.getpid()}"


def digest_of(settings: Settings, people: Directory) -> str:
    """The digest of settings and people, which must be the same for all daemons of a store."""
    known = msgspec.structs.asdict(settings).items()
    said = {name: value for name, value in known if name not in OF_THE_MACHINE}
    plain = msgspec.json.encode((said, people.digest), order="sorted", enc_hook=dict)
    return hashlib.sha256(plain).hexdigest()


def _holder(leases: Leases, name: str) -> DaemonRow | None:
    found = leases.find(name)
    return found[1] if found is not None else None
