"""Follow a home: agents follow folders and published collections, rows of peers `etc/peers.toml`."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from narval.agent.turn import Turn
from narval.core.agent_name import peer_of, row_of_peer
from narval.core.errors import ElsewhereError, RequestError
from narval.daemon.agents.agents import Agents
from narval.daemon.agents.folder_agents import FolderAgents
from narval.daemon.reload import FilesInForce
from narval.files.home import Home
from narval.files.outside.peers import PEERS_FILE
from narval.store.store import Store

if TYPE_CHECKING:  # a store of one daemon has none
    from narval.daemon.fleet.fleet import Fleet

log = logging.getLogger("narval.links")

NAMED = "peers"
"""The fact of a home that shares a store: the peers that its file names."""


class PeerRows:
    """Makes the row of each peer that is added, and removes that of one that goes, with the messages that
    wait for it.

    Where daemons share a store, the row is at work at one daemon whose file names the peer. When that daemon
    is gone, or no longer names the peer, it is at work at the first other one that is asked to exchange
    something.
    """

    def __init__(self, agents: Agents, files: FilesInForce, store: Store) -> None:
        self._agents, self._files, self._store = agents, files, store

    async def follow(self) -> None:
        """Bring the rows in line with the file, now and after each change."""
        self._files.hear_of_changes(self._bring_in_line)
        await self._bring_in_line()

    async def _bring_in_line(self) -> None:
        peers, rows = self._files.followers.snapshot.peers, self._agents.rows
        if self._agents.own.loop.record_only:
            return
        is_faulty = any(fault.path == PEERS_FILE for fault in self._files.faults)
        if not is_faulty:
            await self._note(" ".join(sorted(peers)))
        if not (peers or rows.peers()):
            return
        for name in peers:
            try:
                if await self._agents.pinned(row_of_peer(name)) is None:
                    await self._agents.add_peer(name)
                    await self._agents.pinned(row_of_peer(name))
                    log.info("a link with %s can begin: %s", name, PEERS_FILE)
            except ElsewhereError as error:
                log.warning("the link with %s is at work elsewhere: %s", name, error)
        if is_faulty:
            return  # nobody knows which peers there are
        for row in rows.peers():
            if peer_of(row) not in peers and await self._is_of_this_home(row):
                if others := self._others_that_name(peer_of(row)):
                    log.info("the link with %s is left to %s", peer_of(row), " and ".join(others))
                    await self._leave(row)
                    continue
                log.warning(
                    "%s names the peer %s no more: what waits for it comes back", PEERS_FILE, peer_of(row)
                )
                try:
                    await self._agents.remove(row, now=True)
                except RequestError as error:  # another daemon has it by now
                    log.warning("the link with %s: %s", peer_of(row), error)

    async def _is_of_this_home(self, row: str) -> bool:
        """True unless another home of a shared store may have the row."""
        leases = self._store.leases
        return leases is None or self._agents.rows.number(row) in leases.pinned()

    async def _note(self, names: str) -> None:
        """Record which peers the file names, for the other homes of a shared store."""
        own = self._agents.own
        if self._store.leases is not None and own.agent.facts.get(NAMED, "") != names:

            def work(turn: Turn) -> None:
                turn.transaction.batch.meta.append((NAMED, names))

            await own.submit(work)

    def _others_that_name(self, peer: str) -> list[str]:
        """The other homes of a shared store that name a peer."""
        own, by_home = (
            self._agents.rows.own_name(),
            {} if self._store.leases is None else self._store.facts(NAMED),
        )
        return [home for home, names in by_home.items() if home != own and peer in names.split()]

    async def _leave(self, row: str) -> None:
        """Let any home that names a peer have its row."""
        leases, number = self._store.leases, self._agents.rows.number(row)
        if leases is not None and number is not None:
            self._agents.supervisor.lose({number})
            await self._agents.supervisor.calls.ended(number)
            await asyncio.to_thread(leases.give, [number])


async def follow(
    home: Home | None, store: Store, files: FilesInForce, agents: Agents, fleet: Fleet | None
) -> None:
    """Have agents follow their folders and, where daemons share the store, what is published; keep the rows
    of peers in line with the file that names these.
    """
    if store.published is not None and home is not None:
        from narval.daemon.fleet.roaming import RoamingAgents

        roaming = RoamingAgents(home.path, store, store.published, files, agents)
        await roaming.begin()
        if fleet is not None:
            fleet.follow(roaming)
    await FolderAgents(agents, files).follow()
    await PeerRows(agents, files, store).follow()
