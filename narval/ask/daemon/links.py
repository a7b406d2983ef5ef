"""Operations on links: exchanges with peers, and the state of each link (G39 to G42)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any

from narval.ask import json_forms
from narval.ask.registry import operation
from narval.core.agent_name import row_of_peer
from narval.core.definitions.suggestions import closest
from narval.core.errors import NotFoundError, RequestError
from narval.daemon.daemon import Daemon
from narval.daemon.links.link_mail import LinkMailbox, senders_there
from narval.daemon.links.sent import ended
from narval.daemon.messages.post_office import Contact
from narval.files.outside.peers import PEERS_FILE, PeerSettings
from narval.store.letters import WaitingRow

IDLE, WAITING, CONNECTED, FAULT, ELSEWHERE = "idle", "waiting", "connected", "fault", "elsewhere"
"""The states of a link: nothing heard recently; the same, with messages waiting; heard of within a minute;
stopped by a fault; active at another daemon of the store.
"""

PROGRAM_GONE = "narval web, which has the connection, has ended here; start it: narval web"

OF_LATE = 60.0
"""Seconds for which a link counts as connected after a frame; an idle exchange is answered every 30."""


@operation("write")
async def exchange(daemon: Daemon, peer: str, frame: bytes | None = None, wait: float = 0.0) -> bytes:
    """Take a frame that a peer has sent, and return the next frame for it; for the program that holds the
    connection. Without `frame` the link starts again: at first, and when sent frames may be lost.

    A frame without a message waits for one, at most `wait` seconds and at most 30. The asking side has two
    requests under way: in one the other side waits for messages of its own; before the other, this side waits
    for messages to send. Frames may be lost, repeated, reordered. Raises RequestError for an invalid frame,
    and if the link cannot continue: then nothing is recorded.
    """
    peers = daemon.files.snapshot.peers
    if peer not in peers:
        raise NotFoundError(f"there is no peer {peer!r:.80} in {PEERS_FILE}{closest(peer, peers)}")
    if wait < 0:
        raise RequestError(f"expected wait to be seconds, 0 or more, got {wait:g}")
    async with daemon.agents.asked(row_of_peer(peer)) as host:
        mailbox = host.mail.mailbox
        assert isinstance(mailbox, LinkMailbox)
        try:
            return await mailbox.exchange(frame, wait, partial(host.submit, is_whole=True))
        except asyncio.CancelledError:  # the program that asked is gone
            mailbox.contact.failed(PROGRAM_GONE)
            raise


@operation("write")
async def note_link(daemon: Daemon, peer: str, why: str) -> dict[str, Any]:
    """Record why a peer cannot be reached, until it is heard of; the connection's program asks it."""
    if peer not in daemon.files.snapshot.peers:
        raise NotFoundError(f"there is no peer {peer!r:.80} in {PEERS_FILE}")
    async with daemon.agents.asked(row_of_peer(peer)) as host:
        mailbox = host.mail.mailbox
        assert isinstance(mailbox, LinkMailbox)
        mailbox.contact.failed(why)
    return {"peer": peer}


@operation("read")
async def links(daemon: Daemon) -> list[dict[str, Any]]:
    """The links with the peers, by name: address, state, messages waiting here, messages sent and taken so
    far, when the peer was last heard of, and why nothing arrives.
    """
    return links_of(daemon)


def links_of(daemon: Daemon) -> list[dict[str, Any]]:
    """The links with the peers as they are now."""
    peers = daemon.files.snapshot.peers
    if not peers:
        return []
    numbers = {name: daemon.agents.rows.number(row_of_peer(name)) for name in peers}
    waiting: dict[int, list[WaitingRow]] = {}
    for row in daemon.store.letters.waiting():
        waiting.setdefault(row.agent, []).append(row)
    return [_form(daemon, peers[name], numbers[name], waiting) for name in sorted(peers)]


def links_in_trouble(daemon: Daemon) -> Iterator[tuple[str, float | None]]:
    """The links that have stopped, and those over which messages wait in vain: a sentence each, with the
    moment since when they wait. Peers without waiting messages cost nothing.
    """
    now, peers = daemon.rounds.clock.now(), daemon.files.snapshot.peers
    for name in sorted(peers):
        host = daemon.agents.supervisor.host(row_of_peer(name))
        mailbox = host.mail.mailbox if host is not None else None
        if host is None or not isinstance(mailbox, LinkMailbox):
            continue
        contact, since = _contact(daemon, host.agent.store.agent), mailbox.waits_since
        if mailbox.fault:
            yield f"the link with the peer {name} has stopped: {mailbox.fault}", since
        elif since is not None and (contact.trouble or now - max(since, contact.heard_at or 0.0) > OF_LATE):
            why = " ".join(_reasons(peers[name], WAITING, contact.trouble, contact.heard_at, 0))
            yield f"messages to the peer {name} wait: {why}", since


def _contact(daemon: Daemon, number: int) -> Contact:
    return daemon.host.mail.office.contacts.get(number, Contact())


def _form(
    daemon: Daemon, peer: PeerSettings, number: int | None, waiting: dict[int, list[WaitingRow]]
) -> dict[str, Any]:
    rows = waiting.get(number or 0, [])
    host = daemon.agents.supervisor.host(row_of_peer(peer.name))
    mailbox = host.mail.mailbox if host is not None else None
    contact = _contact(daemon, number or 0)
    heard_at, fault, oldest, held = contact.heard_at, "", None, 0
    if isinstance(mailbox, LinkMailbox):
        fault, oldest, held = mailbox.fault, mailbox.state.out.oldest, len(mailbox.state.held)
    many, size = sum(row.many for row in rows), sum(row.size for row in rows)
    pairs = (
        [row for row in daemon.store.letters.pairs(number, 2**31) if row.agent == number] if number else []
    )
    if oldest is None and pairs:
        oldest = min((row.oldest for row in pairs if row.oldest is not None), default=None)
    now = daemon.rounds.clock.now()
    if number and any(row.until is not None and row.until <= now for row in rows):
        messages = daemon.store.letters.messages(number)
        over = ended(daemon.store.of(number), messages, now)
        left = [message for message in messages if message not in over]
        many, size = len(left), sum(len(message.data) for message in left)
        oldest = min((message.at for message in left), default=None)
    state = _state(daemon, number, None if contact.trouble else heard_at, fault, many)
    return {
        "peer": peer.name,
        "url": peer.url,
        "state": state,
        "messages": many,
        "bytes": size,
        "oldest": json_forms.moment(oldest),
        "sent": sum(row.sent for row in pairs),
        "taken": _taken(daemon, number),
        "held": held,
        "heard": json_forms.moment(heard_at),
        "why": " ".join(_reasons(peer, state, fault or contact.trouble, heard_at, held)) or None,
    }


def _state(daemon: Daemon, number: int | None, heard_at: float | None, fault: str, many: int) -> str:
    if number is None:
        return ELSEWHERE if daemon.store.is_shared else IDLE
    if fault:
        return FAULT
    if heard_at is not None and daemon.rounds.clock.now() - heard_at <= OF_LATE:
        return CONNECTED
    return WAITING if many else IDLE


def _taken(daemon: Daemon, number: int | None) -> int:
    """The number of messages of the peer taken so far."""
    if number is None:
        return 0
    return sum(last for _, last, _ in senders_there(daemon.store.of(number)))


def _reasons(peer: PeerSettings, state: str, fault: str, heard_at: float | None, held: int) -> Iterator[str]:
    """The reasons why messages do not arrive or leave."""
    if fault:
        yield fault
    elif state in (IDLE, WAITING):
        asks = (
            f"it has not answered at {peer.url}" if peer.url else f"{peer.name} asks this home, and has not"
        )
        since = "yet" if heard_at is None else "for a minute"
        yield f"{asks} {since}; the program that has the connection is narval web"
    if held:
        yield f"{held} of its agents wait for room in mailboxes here"
    if not peer.agents:
        yield f"no agent of this home may write to it: `agents` of its table in {PEERS_FILE} is empty"
