"""Following a home: an agent for each folder in `agents/` (G2) and for each peer in `etc/peers.toml`, and
the published collections.

    a folder appears         its agent is made, or resumed if it was suspended because the folder was gone
    a folder disappears      its agent is suspended; nothing of it is lost
    agent.toml has faults    the former settings stay active; if there were none, the agent is suspended

The names of agents with folders are a fact of the store, so a folder removed while no daemon ran is
noticed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from narval.core.agent_name import peer_of, row_of_peer
from narval.core.errors import ElsewhereError, RequestError
from narval.daemon.agents.agents import Agents
from narval.daemon.files_in_force import FilesInForce
from narval.files.agents.collections import AGENTS, folder_of
from narval.files.agents.settings import AGENT_FILE
from narval.files.outside.peers import PEERS_FILE
from narval.store.batch import ACTIVE, SUSPENDED, AgentRow
from narval.store.store import Store

if TYPE_CHECKING:
    from narval.store.postgresql.leases import Leases

log = logging.getLogger("narval.daemon")
_links_log = logging.getLogger("narval.links")


async def follow(
    store: Store, files: FilesInForce, agents: Agents
) -> Callable[[], Coroutine[Any, Any, None]]:
    """Make agents follow their folders and, if daemons share the store, published collections; keep the rows
    of peers in line with the file that names them. Return what tries again to have the agents with a folder
    that another daemon had.
    """
    supervisor = agents.supervisor
    if (roaming := supervisor.roaming) is not None:

        async def go_on() -> None:
            """Continue the agents whose collections have arrived."""
            roaming.restore_folders()
            for name in sorted(roaming.waiting):
                supervisor.need(name, at_once=True)

        files.on_change.append(go_on)
        await roaming.begin()
    folders = FolderAgents(agents, files)
    await folders.follow()
    await PeerRows(agents, files, store).follow()
    return folders.try_again


RECORDED = "folders"
"""The fact of the store with the names of the agents that have folders."""


class FolderAgents:
    """Keeps the agents of a home in line with its folders."""

    def __init__(self, agents: Agents, files: FilesInForce) -> None:
        self._agents, self._files, self._elsewhere = agents, files, agents.elsewhere
        self._known: frozenset[str] | None = None
        """The agents that have, or had, a folder; None until that is read."""

    async def follow(self) -> None:
        """Update the agents to match their folders, now and after each change."""
        self._files.on_change.append(self._change)
        await self._follow()

    async def try_again(self) -> None:
        """Update the agents that another daemon had."""
        for name in sorted(self._elsewhere):
            if name in self._files.snapshot.agents:
                await self._bring_in_line(name)

    async def _change(self) -> None:
        await self._follow()
        for name in self._files.always_active:
            if name in self._agents.rows and self._agents.rows[name].state != SUSPENDED:
                self._agents.supervisor.need(name, at_once=True)

    async def _follow(self) -> None:
        folders, rows, takes = self._files.snapshot.agents, self._agents.rows, self._agents.takes
        if self._known is None and (folders or len(rows) or takes != "none"):
            self._known = frozenset(self._agents.own.agent.facts.get(RECORDED, "").split())
        if not folders and not self._known:
            return
        for name in self._elsewhere.keys() - folders.keys():
            del self._elsewhere[name]
        before = self._known or frozenset()
        left = sorted(before - folders.keys())
        for name in left if takes == "all" else ():
            with suppress(RequestError):  # by now another home's, or removed
                await self._agents.here(name)
        await self._note((*folders, *(name for name in left if name in rows or takes == "asked")))
        for name in folders if takes != "asked" else folders.keys() - before:
            await self._bring_in_line(name)
        for name in left:
            if name in rows and rows[name].state != SUSPENDED:
                log.warning("%s/%s is gone: its agent is suspended until it is back", AGENTS, name)
                await self._agents.suspend(name, gone(name))

    async def _note(self, names: Iterable[str]) -> None:
        """Record which agents have a folder, before agents are created for them."""
        noted = frozenset(names)
        if noted != self._known:
            await self._agents.own.record((RECORDED, " ".join(sorted(noted))))
            self._known = noted

    async def _bring_in_line(self, name: str) -> None:
        is_good = self._files.snapshot.agents[name].given is not None
        try:
            row = await self._agents.pinned(name)
            self._elsewhere.pop(name, None)
            if row is None:
                await self._agents.add(name, ACTIVE)
                await self._agents.pinned(name)
                log.info("agent %s is there: %s/%s", name, AGENTS, name)
            if not is_good and (row is None or row.state != SUSPENDED):
                await self._agents.suspend(name, faulty(name))
            elif row is None:
                self._agents.supervisor.need(name, at_once=True)
            elif is_good and is_held(row):
                log.info("agent %s goes on: %s/%s is back", name, AGENTS, name)
                await self._agents.resume(name)
        except ElsewhereError as error:
            if self._elsewhere.get(name) != str(error):
                log.warning("%s/%s has no effect: %s", AGENTS, name, error)
            self._elsewhere[name] = str(error)
        except RequestError as error:  # the same was requested just before
            log.warning("%s/%s: %s", AGENTS, name, error)


def gone(name: str) -> str:
    """The reason for suspending an agent whose folder is gone."""
    return f"{AGENTS}/{name} is gone"


def faulty(name: str) -> str:
    """The reason for suspending an agent whose settings have never been free of faults."""
    return f"{AGENTS}/{name}/{AGENT_FILE} has faults"


def is_held(row: AgentRow) -> bool:
    """True if an agent is suspended for a fault of its folder, and continues when the fault is corrected."""
    return row.state == SUSPENDED and row.why in (gone(row.name), faulty(row.name))


def stored_files(store: Store, path: str) -> Sequence[bytes]:
    """The last good version of a file, as stored for the agents that follow it."""
    folder = folder_of(path)
    if not folder:
        return store.of().stored_files(path)
    owner = folder.removeprefix(f"{AGENTS}/").rstrip("/") if folder.startswith(AGENTS) else ""
    numbers = (row.agent for row in store.agents() if owner in ("", row.name))
    return next((files for number in numbers if (files := store.of(number).stored_files(path))), ())


NAMED, LEFT = "peers", "peers left"
"""The facts that a home with a shared store records: the peers in its file, and removed peers until another
home has taken the link or the link is ended.
"""


class PeerRows:
    """Creates the row of each added peer. Removes the row of a deleted peer, with the messages that wait for
    it.

    If daemons share a store, the row is active at one daemon whose file names the peer. When that daemon is
    gone, or no longer names the peer, the row becomes active at the first other daemon that is asked to
    exchange something. The last running daemon to name the peer removes the row, even if no daemon holds it.
    Each daemon first records the peers in its file; only then does it check the other daemons' peers, and
    whether the row is free.
    """

    def __init__(self, agents: Agents, files: FilesInForce, store: Store) -> None:
        self._agents, self._files, self._store = agents, files, store

    async def follow(self) -> None:
        """Update the rows to match the file, now and after each change."""
        self._files.on_change.append(self._bring_in_line)
        await self._bring_in_line()

    async def _bring_in_line(self) -> None:
        peers, rows = self._files.snapshot.peers, self._agents.rows
        if self._agents.own.loop.record_only:
            return
        is_faulty = any(fault.path == PEERS_FILE for fault in self._files.faults)
        left = [] if is_faulty else await self._note(peers)
        if not (peers or left or rows.peers()):
            return
        for name in peers:
            try:
                if await self._agents.pinned(row_of_peer(name)) is None:
                    await self._agents.add_peer(name)
                    await self._agents.pinned(row_of_peer(name))
                    _links_log.info("a link with %s can begin: %s", name, PEERS_FILE)
            except ElsewhereError as error:
                _links_log.warning("the link with %s is at work elsewhere: %s", name, error)
        if is_faulty:
            return  # it is unknown which peers there are
        for row in sorted({*rows.peers(), *map(row_of_peer, left)}):
            if peer_of(row) not in peers:
                await self._end_or_leave(row)
        if left:
            await self._agents.own.record((LEFT, ""))

    async def _end_or_leave(self, row: str) -> None:
        """Remove the row of a peer that the file no longer names, unless another home should have it."""
        peer = peer_of(row)
        if row in self._agents.rows and (others := await self._others_that_name(peer)):
            _links_log.info("the link with %s is left to %s", peer, " and ".join(others))
            await self._leave(row)
        try:
            if await self._others_that_name(peer) or await self._agents.pinned(row) is None:
                return
            _links_log.warning(
                "%s names the peer %s no longer: what waits for it is returned", PEERS_FILE, peer
            )
            await self._agents.remove(row, now=True)
        except RequestError as error:  # another daemon has it by now
            _links_log.warning("the link with %s: %s", peer, error)

    async def _note(self, peers: Iterable[str]) -> list[str]:
        """Record the peers in the file, for the other homes of a store; return those no longer in it."""
        if self._store.leases is None:
            return []
        facts, names = self._agents.own.agent.facts, " ".join(sorted(peers))
        before = facts.get(NAMED, "")
        left = sorted({*before.split(), *facts.get(LEFT, "").split()} - {*peers})
        if before != names:
            await self._agents.own.record((NAMED, names), (LEFT, " ".join(left)))
        return left

    async def _others_that_name(self, peer: str) -> list[str]:
        """The other homes of a shared store whose daemons are running and name a peer."""
        leases, own = self._store.leases, self._agents.rows.own.name
        return [] if leases is None else await asyncio.to_thread(_naming, self._store, leases, peer, own)

    async def _leave(self, row: str) -> None:
        """Release the row of a peer to any home that names the peer."""
        leases, number = self._store.leases, self._agents.rows.number(row)
        if leases is not None and number is not None:
            self._agents.supervisor.lose({number})
            await self._agents.supervisor.calls.ended(number)
            await asyncio.to_thread(leases.give, [number])


def _naming(store: Store, leases: Leases, peer: str, own: str) -> list[str]:
    homes = [home for home, names in store.facts(NAMED).items() if home != own and peer in names.split()]
    holders = ((home, leases.find(home)) for home in homes)
    now = leases.latest.at if leases.latest is not None else 0.0
    return [
        home
        for home, row_and_holder in holders
        if row_and_holder and row_and_holder[1] is not None and row_and_holder[1].until > now
    ]
