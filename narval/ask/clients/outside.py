"""Requests from outside the home, each within the rights of its sender.

Webhooks add the element of a call, once for each key of a sender. Programs call an agent's offers over HTTP
(`http:NAME` in its `offers`). Peers ask operations with the rights that the peer's table gives.
"""

from __future__ import annotations

from typing import Any

from narval.agent.request_keys import check_key
from narval.agent.run import Run
from narval.agent.turn import Turn
from narval.ask import json_forms
from narval.ask.asker import CALLER, NOBODY, PEER, Asker, Scope
from narval.ask.clients.calling import followed_form
from narval.ask.documents import admitted, raise_if_over_limit, raise_if_refused
from narval.ask.labels import giving
from narval.ask.lookup import files_of
from narval.ask.operations import OPERATIONS, invoke
from narval.ask.registry import Form, operation
from narval.ask.runs.acts import start_in_turn
from narval.core.definitions.suggestions import closest
from narval.core.elements.canonical import canonical_given
from narval.core.elements.element import Element, Origin
from narval.core.elements.names import CONTROLS
from narval.core.errors import ElementError, NotFoundError, NotOfferedError, RequestError
from narval.core.memory.labels import HOOK, STORE
from narval.daemon.daemon import Daemon
from narval.files.agents.senders import CALL_ORIGIN, HOOK_ORIGIN, Caller
from narval.files.outside.peers import PEERS_FILE, PeerSettings, load_peers

STATUSES = (400, 401, 408, 413, 415, 422, 429)
"""The statuses with which a call of a webhook is refused."""


@operation("read")
async def hooks(daemon: Daemon) -> list[dict[str, Any]]:
    """The webhooks of `etc/narval.toml`: the element of each, its limits, the digest of its token.

    Each has the number of accepted calls, the moment of the last and its element; and the calls refused since
    the daemon began, by the status that was answered.
    """
    meta, refused = daemon.agent.facts, daemon.main_loop.numbers.refused
    return [
        {
            "hook": hook.name,
            "element": hook.element,
            "bytes": hook.bytes,
            "calls": hook.calls,
            "sha256": hook.sha256,
            **_taken(meta.get(f"{HOOK_ORIGIN}{hook.name}")),
            "refused": {str(status): refused[hook.name, status] for status in STATUSES
                        if refused[hook.name, status]},
        }
        for hook in daemon.files.settings.hooks.values()
    ]  # fmt: skip


def _taken(fact: str | None) -> dict[str, Any]:
    """The calls that a webhook has accepted: their number, the moment of the last, and its element."""
    if fact is None:
        return {"taken": 0, "last": None, "eid": None}
    count, at, eid = fact.split(" ")
    return {"taken": int(count), "last": json_forms.moment(float(at)), "eid": int(eid)}


@operation("write")
async def note_refused(daemon: Daemon, name: str, statuses: dict[str, int]) -> dict[str, Any]:
    """Count refused calls of a webhook, by the status that was answered."""
    if name not in daemon.files.settings.hooks:
        raise NotFoundError(f"there is no webhook {name!r:.80} in etc/narval.toml")
    if wrong := [status for status in statuses if status not in map(str, STATUSES)]:
        raise RequestError(f"expected statuses of {', '.join(map(str, STATUSES))}, got {wrong[0]!r:.20}")
    for status, count in statuses.items():
        daemon.main_loop.numbers.refused[name, int(status)] += max(0, count)
    return {"hook": name}


@operation("write")
async def take_hook(daemon: Daemon, name: str, element: bytes, key: str = "") -> dict[str, Any]:
    """Add the element of a call of a webhook; `again` is true if the sender had used the key before.

    The last 1,024 keys are remembered, each recorded with its element. Raises ElementError for text that is
    not an element, has another name, or is refused by its schema.
    """
    hook = daemon.files.settings.hooks.get(name)
    if hook is None:
        there = daemon.files.settings.hooks
        raise NotFoundError(f"there is no webhook {name!r:.80} in etc/narval.toml{closest(name, there)}")
    check_key(key)
    xml = canonical_given(element)
    if (name_of_element := Element(0, xml).name) != hook.element:
        raise ElementError(
            "invalid", f"the webhook {name} gives <{hook.element}>, not <{name_of_element:.80}>"
        )

    def work(turn: Turn) -> dict[str, Any]:
        fact, facts, keys = f"{HOOK_ORIGIN}{name}", turn.transaction.batch.meta, turn.agent.request_keys
        if (before := keys.eid(fact, key)) is not None:
            return {"hook": name, "eid": before, "again": True}
        raise_if_refused(turn, [xml])
        raise_if_over_limit(turn, [xml])
        with turn.transaction.coming_with(turn.agent.memory.labels.number([f"{HOOK}{name}"])):
            eid = turn.add(xml, Origin(step=f"{HOOK_ORIGIN}{name}"))
        last = next((text for each, text in reversed(facts) if each == fact), turn.agent.facts.get(fact))
        count = _taken(last)["taken"]
        facts.append((fact, f"{count + 1} {turn.at} {eid}"))
        keys.record(facts, fact, key, eid)
        return {"hook": name, "eid": eid, "again": False}

    return dict(await daemon.host.submit(work))


# --- programs that call -------------------------------------------------------------------------------------


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
        raise NotFoundError(f"there is no run {run} that the caller {who.name} has started")
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
        raise NotFoundError(f"there is no caller {name!r:.80} in etc/narval.toml{hint}")
    return caller


# --- peers --------------------------------------------------------------------------------------------------


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
        raise NotFoundError(f"there is no peer {peer!r:.80} in {PEERS_FILE}")
    asked = OPERATIONS.get(method)
    if asked is not None and asked.scope != "people" and asked.scope not in table.asks:
        may = " and ".join(table.asks) or "ask nothing"
        why = f"{method} needs the right to {asked.scope}, and the peer {peer} may {may} there"
        raise RequestError(f'{why}; its owner allows it in {PEERS_FILE}: asks = ["{asked.scope}"]')
    return await invoke(daemon, asker_of(table).asking(agent_asked), method, arguments or {})
