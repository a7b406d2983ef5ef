"""Operations on messages: what agents send one another, and what could not be delivered (G23, G32)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from narval.agent.turn import Turn
from narval.ask import json_forms
from narval.ask.asker import PROGRAM, Asker
from narval.ask.documents import elements_in
from narval.ask.lookup import command
from narval.ask.paging import check_limit
from narval.ask.registry import operation
from narval.core.agent_name import peer_of, stands_for_peer
from narval.core.elements.element import Element
from narval.core.errors import NotFoundError, RequestError, UnreadableError
from narval.daemon.daemon import Daemon
from narval.daemon.links.sent import ended
from narval.daemon.messages.agent_mail import send_from_outside
from narval.daemon.messages.envelope import ELEMENT, Outgoing, unseal
from narval.store.batch import MessageRow
from narval.store.letters import KeptLetter, PairRow

Row = TypeVar("Row", MessageRow, KeptLetter)


@operation("write")
async def send(
    daemon: Daemon, to: str, elements: list[bytes], keep: float | None = None, *, asker: Asker = PROGRAM
) -> dict[str, Any]:
    """Send elements to another agent: of each document the root, or each child of a root `memory`.

    The addressed agent sends them in one turn; returns the ids of the messages once that is recorded. A
    message that is not taken within `keep` seconds becomes a dead letter.
    """
    parsed, mail = await elements_in(elements), daemon.host.mail
    _find_receiver(daemon, to)
    if keep is not None and keep <= 0:
        raise RequestError(f"expected keep to be seconds, more than 0, got {keep:g}")

    who = {"by": asker.person, "actor": asker.through}

    def work(turn: Turn) -> list[str]:
        return send_from_outside(mail, turn, to, parsed, **who, keep=keep)

    return {"to": to, "messages": await daemon.host.submit(work)}


def _find_receiver(daemon: Daemon, name: str) -> None:
    """Check that the addressed agent may write to an agent of a name. Raises RequestError."""
    mail = daemon.host.mail
    if mail.office.addresses.find_for(mail.identity.name, name) is not None:
        return
    if peer_of(name):
        raise RequestError(mail.office.addresses.why_not(mail.identity.name, name))
    daemon.agents.rows.find(name)  # its error lists the agents


@operation("read")
async def letters(
    daemon: Daemon, dead: bool = False, limit: int | None = None, before: str | None = None
) -> list[dict[str, Any]]:
    """The messages that the agent has sent or that are sent to it, and that are not taken yet; with `dead`,
    those it has sent that could not be taken (G32).

    Without `limit`, all of them. With `limit`, the newest, newest first; with `before`, the number of a dead
    letter or the id of a message, those after it in that order.
    """
    check_limit(limit)
    pending, own = daemon.store.letters, daemon.agent.store.agent
    rows: list[MessageRow] | list[KeptLetter]
    if dead:
        rows = _page(pending.dead(own), lambda row: (row.line,), lambda row: str(row.line), limit, before)
        return [_letter(row) | {"letter": row.line, "reason": row.reason} for row in rows]
    names = {row.agent: row.name for row in daemon.store.agents()}
    by_pair = {row[:3]: row for row in (*pending.sent(own), *pending.messages(own))}
    for peer in {row.agent for row in by_pair.values() if stands_for_peer(names.get(row.agent, ""))}:
        to_peer = [row for row in by_pair.values() if row.agent == peer]
        for row in ended(daemon.store.of(peer), to_peer, daemon.rounds.clock.now()):
            del by_pair[row[:3]]
    rows = _page([*by_pair.values()], lambda row: (row.at, row.number), lambda row: row.id, limit, before)
    return [_letter(row) | {"to": _receiver(row, names.get(row.agent, "?"))} for row in rows]


def _receiver(row: MessageRow, name: str) -> str:
    """The receiver of a message; `name` is that of its row, which may be a peer's."""
    if not stands_for_peer(name):
        return name
    try:
        return f"{unseal(row.origin).to}{name}"
    except UnreadableError:
        return name


def _page(
    rows: list[Row],
    order: Callable[[Row], tuple[float, ...]],
    name: Callable[[Row], str],
    limit: int | None,
    before: str | None,
) -> list[Row]:
    """A page of rows, the newest first; without a limit all, unchanged. Raises RequestError for a `before`
    that is not among them.
    """
    if limit is None and before is None:
        return rows
    newest = sorted(rows, key=order, reverse=True)
    if before is not None:
        behind = next((at for at, row in enumerate(newest, 1) if name(row) == before), None)
        if behind is None:
            raise RequestError(f"letter {before!r:.80} is no longer listed; begin again, without before")
        newest = newest[behind:]
    return newest[:limit]


MOST_PAIRS = 1_000
"""The most pairs of agents in an answer."""


@operation("read")
async def message_counts(daemon: Daemon, name: str | None = None, limit: int = 200) -> dict[str, Any]:
    """The pairs of agents that exchanged messages, sender and receiver, or those of one agent: how many
    messages were sent, were taken, and wait, and since when the oldest waits.

    Pairs with the most waiting messages come first, then those with the most sent; `more` says that there are
    others after the first `limit`. A removed agent has no name. Raises RequestError.
    """
    if not 1 <= limit <= MOST_PAIRS:
        raise RequestError(f"expected limit to be from 1 to {MOST_PAIRS:,}, got {limit}")
    store = daemon.store

    def read() -> tuple[dict[int, str], list[PairRow]]:
        names = {row.agent: row.name for row in store.agents()}
        numbers = [number for number, its in names.items() if its == name]
        if name is not None and not numbers:
            return names, []
        return names, store.letters.pairs(numbers[0] if numbers else 0, limit + 1)

    names, pairs = read() if store.is_volatile else await asyncio.to_thread(read)
    if name is not None and name not in names.values():
        daemon.agents.rows.find(name)  # its error lists the agents
    return {
        "pairs": [
            {
                "from": names.get(row.sender),
                "to": names.get(row.agent),
                "sent": row.sent,
                "taken": row.taken,
                "open": row.many,
                "oldest": json_forms.moment(row.oldest),
            }
            for row in pairs[:limit]
        ],
        "more": len(pairs) > limit,
    }


@operation("write")
async def resend(daemon: Daemon, letter: int) -> dict[str, Any]:
    """Send a dead letter again, to the agent that now has the name of its receiver."""
    mail = daemon.host.mail

    def work(turn: Turn) -> dict[str, Any]:
        row = _dead_letter(daemon, turn, letter)
        if row.kind != ELEMENT:
            raise RequestError(f"letter {letter} is a {row.kind} whose sender no longer waits for the answer")
        _find_receiver(daemon, row.receiver)
        lacking = mail.lacking(turn, [(row.receiver, row.data)])
        if lacking is not None:
            raise RequestError(f"there is no {lacking[1]}; send again when some are taken")
        mail.send(turn, row.receiver, Outgoing(row.kind, row.id, unseal(row.origin), row.data))
        turn.transaction.batch.letters_settled.append(letter)
        return {"letter": letter, "to": row.receiver, "message": row.id}

    return dict(await daemon.host.submit(work))


@operation("write")
async def drop_letter(daemon: Daemon, letter: int) -> dict[str, Any]:
    """Delete a dead letter."""

    def work(turn: Turn) -> None:
        _dead_letter(daemon, turn, letter)
        turn.transaction.batch.letters_settled.append(letter)

    await daemon.host.submit(work)
    return {"letter": letter, "dropped": True}


def _dead_letter(daemon: Daemon, turn: Turn, letter: int) -> KeptLetter:
    """A dead letter of the agent. Raises RequestError for an unknown number."""
    for row in daemon.store.letters.dead(daemon.agent.store.agent):
        if row.line == letter and letter not in turn.transaction.batch.letters_settled:
            return row
    listed = command(daemon, "letters --dead")
    raise NotFoundError(f"there is no dead letter {letter}; `{listed}` lists them")


def _letter(row: MessageRow | KeptLetter) -> dict[str, Any]:
    envelope = unseal(row.origin)
    return {
        "message": row.id,
        "from": envelope.sender,
        "to": getattr(row, "receiver", ""),
        "kind": row.kind,
        "element": Element(0, row.data).name if row.kind == ELEMENT else None,
        "bytes": len(row.data),
        "at": json_forms.moment(row.at),
        "until": json_forms.moment(row.until),
    }
