"""Addresses: the agents that can be written to from here, by their names (G30)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from narval.core.agent_name import AT, peer_of, stands_for_peer
from narval.files.outside.peers import NO_PEERS, PEERS_FILE, Peers
from narval.store.batch import STORE, AgentRow

if TYPE_CHECKING:  # a home whose store is its own has none
    from narval.daemon.messages.other_daemons import OtherDaemons

Find = Callable[[str], AgentRow | None]
"""A function that finds an agent by its name."""


class Addresses:
    """The agents that `here` finds, or else `elsewhere` at other daemons of the store. Some agents may not
    write to all `peers`.
    """

    def __init__(
        self,
        here: Find,
        peers: Callable[[], Peers] = lambda: NO_PEERS,
        elsewhere: OtherDaemons | None = None,
    ) -> None:
        self._here, self._peers = here, peers
        self.elsewhere = elsewhere
        """The agents of other daemons; None if this one has all."""
        self._are_any = False

    def let_be_any(self) -> None:
        """Treat any name as that of an agent, for a simulation; one that does not exist takes nothing."""
        self._are_any = True

    def find(self, name: str) -> AgentRow | None:
        """An agent by its name, regardless of the asker. Raises StoreError."""
        found = self._here(name)
        if self.elsewhere is not None:
            if found is None:
                return self.elsewhere.find(name)
            self.elsewhere.forget(name)
        return found or (AgentRow(STORE, "", name) if self._are_any else None)

    def find_same(self, name: str, id: str) -> AgentRow | None:
        """An agent by its name, if it still is the one with that id (G1)."""
        found = self.find(name)
        if AT in name:
            return found  # only the other home knows whether it is still the same agent
        if found is not None and found.id != id and self.elsewhere is not None:
            self.elsewhere.forget(name)
            found = self.find(name)
        return found if found is not None and found.id == id else None

    def may_write(self, agent: str, peer: str) -> bool:
        """True if an agent of this home and those of a peer may write to one another."""
        settings = self._peers().get(peer)
        return settings is not None and settings.may_address(agent)

    def find_for(self, sender: str, name: str) -> AgentRow | None:
        """An agent by its name, if the sender may write to it."""
        if AT in name and not self.may_write(sender, peer_of(name)):
            return None
        return self.find(name)

    def why_not(self, sender: str, name: str) -> str:
        """The reason why `find_for` returned None."""
        peer = peer_of(name)
        if not peer or stands_for_peer(name):
            return f"there is no agent {name!r:.80} here"
        if peer not in self._peers():
            return f"there is no peer {peer!r:.80} ({PEERS_FILE}); `narval link add` makes one"
        if self.may_write(sender, peer):
            return f"the link with {peer} is not at work yet"
        return (
            f"{sender} may not write to agents of {peer}: `agents` of its table in {PEERS_FILE} names who may"
        )
