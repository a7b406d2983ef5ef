"""The requests of peers: operations asked of this home with the rights that the peer's table gives."""

from __future__ import annotations

from typing import Any

from narval.ask.asker import NOBODY, PEER, Asker, Scope
from narval.ask.operations import OPERATIONS, invoke
from narval.ask.registry import operation
from narval.core.errors import RequestError
from narval.core.memory.labels import STORE
from narval.daemon.daemon import Daemon
from narval.files.outside.peers import PEERS_FILE, PeerSettings, load_peers


def asker_of(peer: PeerSettings) -> Asker:
    """The asker for a peer: no person, and never the owner of the home."""
    scopes: frozenset[Scope] = frozenset(peer.asks)
    return Asker("", NOBODY, PEER, peer.name, scopes=scopes, labels=(f"{STORE}{peer.name}",))


@operation("write")
async def ask_for_peer(
    daemon: Daemon,
    peer: str,
    method: str,
    arguments: dict[str, Any] | None = None,
    agent_asked: str = "",
    wait: float = 0.0,
) -> Any:
    """Ask an operation for a peer, with the rights that `asks` of its table gives.

    The caller has checked the peer's token. `wait` is how long, in seconds, the arguments make the daemon
    wait.
    """
    table = load_peers(daemon.home.path if daemon.home is not None else None).get(peer)
    if table is None:
        raise RequestError(f"there is no peer {peer!r:.80} in {PEERS_FILE}")
    asked = OPERATIONS.get(method)
    if asked is not None and asked.scope != "people" and asked.scope not in table.asks:
        may = " and ".join(table.asks) or "ask nothing"
        why = f"{method} needs the right to {asked.scope}, and the peer {peer} may {may} there"
        raise RequestError(f'{why}; its owner allows it in {PEERS_FILE}: asks = ["{asked.scope}"]')
    return await invoke(daemon, asker_of(table).asking(agent_asked), method, arguments or {})
