"""Follow a home: agents its folders and what is published, and the rows of peers its `etc/peers.toml`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

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


class PeerRows:
    """Makes the row of a peer that comes, and removes that of one that goes, with what waits for it.

    Where daemons share a store, a row is at work at one of those whose file names the peer: when that is
    gone, at the first other one that is asked to exchange something.
    """

    def __init__(self, agents: Agents, files: FilesInForce, store: Store) -> None:
        self._agents, self._files, self._store = agents, files, store

    async def follow(self) -> None:
        """Bring the rows in line with the file, now and after each change."""
        self._files.hear_of_changes(self._bring_in_line)
        await self._bring_in_line()

    async def _bring_in_line(self) -> None:
        peers, rows = self._files.followers.snapshot.peers, self._agents.rows
        if self._agents.own.loop.record_only or not (peers or rows.peers()):
            return
        for name in peers:
            try:
                if await self._agents.pinned(row_of_peer(name)) is None:
                    await self._agents.add_peer(name)
                    await self._agents.pinned(row_of_peer(name))
                    log.info("a link with %s can begin: %s", name, PEERS_FILE)
            except ElsewhereError as error:
                log.warning("the link with %s is at work elsewhere: %s", name, error)
        if any(fault.path == PEERS_FILE for fault in self._files.faults):
            return  # nobody knows which peers there are
        for row in rows.peers():
            if peer_of(row) not in peers and await self._is_of_this_home(row):
                log.warning(
                    "%s names the peer %s no more: what waits for it comes back", PEERS_FILE, peer_of(row)
                )
                try:
                    await self._agents.remove(row, now=True)
                except RequestError as error:  # another daemon has it by now
                    log.warning("the link with %s: %s", peer_of(row), error)

    async def _is_of_this_home(self, row: str) -> bool:
        """True unless another home of a shared store may have it."""
        leases = self._store.leases
        return leases is None or self._agents.rows.number(row) in leases.pinned()


async def follow(
    home: Home | None, store: Store, files: FilesInForce, agents: Agents, fleet: Fleet | None
) -> None:
    """Have agents follow what is published, where daemons share the store, and the folders of agents; and the
    rows of peers the file that names these.
    """
    if store.published is not None and home is not None:
        from narval.daemon.fleet.roaming import RoamingAgents

        roaming = RoamingAgents(home.path, store, store.published, files, agents)
        await roaming.begin()
        if fleet is not None:
            fleet.follow(roaming)
    await FolderAgents(agents, files).follow()
    await PeerRows(agents, files, store).follow()
