"""Requests from outside the home, each within the rights of its sender: from programs that call an agent's
offers over HTTP (`http:NAME` in its `offers`), and from peers, whose table gives their rights.
"""

from __future__ import annotations

from typing import Any

from narval.agent.request_keys import check_key
from narval.agent.run import Run
from narval.agent.turn import Turn
from narval.ask import json_forms
from narval.ask.asker import CALLER, NOBODY, PEER, Asker, Scope
from narval.ask.clients.calling import followed_form
from narval.ask.documents import admitted
from narval.ask.labels import giving
from narval.ask.lookup import files_of
from narval.ask.operations import OPERATIONS, invoke
from narval.ask.registry import Form, operation
from narval.ask.runs.acts import start_in_turn
from narval.core.definitions.suggestions import closest
from narval.core.elements.element import Element
from narval.core.elements.names import CONTROLS
from narval.core.errors import ElementError, NotOfferedError, RequestError
from narval.core.memory.labels import STORE
from narval.daemon.daemon import Daemon
from narval.files.agents.senders import CALL_ORIGIN, Caller
from narval.files.outside.peers import PEERS_FILE, PeerSettings, load_peers

MOST_WAIT = 60.0
"""The longest wait for the end of a run, in seconds."""


@operation("read")
async def callers(daemon: Daemon) -> list[Form]:
    """The callers of `etc/narval.toml`, programs that call over HTTP: limits, digest of each token."""
    return [
        {"caller": one.name, "bytes": one.bytes, "calls": one.calls, "sha256": one.sha256}
        for one in daemon.files.settings.callers.values()
    ]


@operation("write")
async def call_offered(
    daemon: Daemon, caller: str, definition: str, elements: list[bytes], key: str = "", wait: float = 0.0
) -> Form:
    """Call a definition for a program that calls over HTTP, and wait for its end for at most `wait` seconds.

    The answer is that of `offered_run`, with `again` true if this key of the caller had started it before. If
    that run has ended and is forgotten, its `phase` is `forgotten`, and nothing is started. The last 1,024
    keys are remembered, each recorded with its run. Raises NotOfferedError if `offers` of the agent does not
    name `http:NAME` for the definition, ElementError for a refused element.
    """
    who = _caller(daemon, caller)
    check_key(key)
    refusal = daemon.host.mail.calls.refusal("the definition", definition, who.person)
    if refusal is not None:
        raise NotOfferedError(refusal.message)
    parsed = await admitted(files_of(daemon).schemas, elements)
    for element in parsed:
        if (name := Element(0, element).name) in CONTROLS:
            raise ElementError("reserved", f"a caller cannot give <{name}>, which narval obeys")
    asker = Asker(who.person, NOBODY, CALLER, labels=(who.person,))

    def work(turn: Turn) -> tuple[Run | int, bool]:
        sender, of_definition = f"{CALL_ORIGIN}{caller}", f"{definition} {key}" if key else ""
        if (before := turn.agent.request_keys.eid(sender, of_definition)) is not None:
            return turn.agent.runs.get(before) or before, True
        [run] = start_in_turn(turn, daemon, definition, [parsed], None, asker)
        turn.agent.request_keys.record(turn.transaction.batch.meta, sender, of_definition, run.eid)
        return run, False

    with giving(asker):
        run, again = await daemon.host.submit(work)
    if isinstance(run, int):
        return {**json_forms.forgotten_run(run, definition), "active": False, "again": again}
    return {**await _answer(daemon, who, run, wait), "again": again}


@operation("read")
async def offered_run(daemon: Daemon, caller: str, run: int, wait: float = 0.0) -> Form:
    """A run that a program has started over HTTP, once it has ended, or still `active` after `wait` seconds.

    Once it has ended, `elements` are its results.
    """
    who, started = _caller(daemon, caller), daemon.agent.runs.get(run)
    if started is None or started.by != who.person:
        raise RequestError(f"there is no run {run} that the caller {who.name} has started")
    return await _answer(daemon, who, started, wait)


async def _answer(daemon: Daemon, caller: Caller, run: Run, wait: float) -> Form:
    """A run of a caller, once it has ended, or after `wait` seconds."""
    if run.active and wait > 0:
        await daemon.host.ended(run, min(wait, MOST_WAIT))
    return followed_form(daemon, run, caller.secrets)


def _caller(daemon: Daemon, name: str) -> Caller:
    """The caller with a name. Raises RequestError."""
    there = daemon.files.settings.callers
    if (caller := there.get(name)) is None:
        hint = closest(name, there)
        raise RequestError(f"there is no caller {name!r:.80} in etc/narval.toml{hint}")
    return caller


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
