"""The operations by which messages go out: what is to be sent, and what came of that."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from narval.agent.turn import Turn
from narval.ask.chat.rights import chat_box, settings_of
from narval.ask.registry import operation
from narval.core.definitions.people.directory import Person
from narval.core.errors import RequestError
from narval.daemon.daemon import Daemon
from narval.files.outside.chats import ChatSettings
from narval.people.chat.boxes import OUT, ChatBox
from narval.people.chat.messages import Outbound

AT_ONCE = 50
"""The most messages that are given at a time."""

LONGEST_PAUSE = 3600.0
"""The most seconds until a message that was refused is tried again."""

log = logging.getLogger("narval.chat")


@operation("read")
async def chat_outgoing(daemon: Daemon, chat: str, wait: float = 0.0) -> list[dict[str, Any]]:
    """The messages of a chat that are to be sent now, oldest first; `wait` seconds for one if there is none.

    Each has its `place`; `handed` is true of one that was given before, or by a daemon before, and `begun`
    are the times that it was begun to be sent, as far as `chat_begun` was asked.
    """
    box, settings, deadline = chat_box(daemon, chat), settings_of(daemon, chat), time.monotonic() + wait
    while True:
        box.news.clear()
        now = daemon.rounds.clock.now()
        due = [
            {**msgspec.to_builtins(outbound), "place": place, "handed": outbound.id in box.handed}
            for outbound, place in islice(_due(daemon, box, settings, now), AT_ONCE)
        ]
        left = deadline - time.monotonic()
        if due or left <= 0:
            box.handed.update(row["id"] for row in due)
            return due
        later = [one.not_before - now for one in box.outbox.values() if one.not_before > now]
        waiting = asyncio.ensure_future(box.news.wait())
        try:
            await daemon.main_loop.wait_for(waiting, min([left, *later]))
        finally:
            waiting.cancel()


def _due(daemon: Daemon, box: ChatBox, settings: ChatSettings, now: float) -> Iterator[tuple[Outbound, str]]:
    """The messages that are due, each with its place; what is behind one that failed at a place waits."""
    held = set[str]()
    for outbound in sorted(box.outbox.values(), key=lambda one: one.number):
        if outbound.address and not _is_of(daemon, settings, outbound.address, outbound.to):
            continue  # it was linked with its person when they were asked, and is no more
        place = outbound.place or whereabouts_of(daemon, box, settings, outbound.to)[1]
        if outbound.not_before > now:
            held.update([place] if outbound.tries else [])
        elif place and place not in held:
            yield outbound, place


def whereabouts_of(daemon: Daemon, box: ChatBox, settings: ChatSettings, name: str) -> tuple[str, str]:
    """The address of a person at a chat, and the place where they are written to: where they wrote from last,
    else their first address. Both are "" of one who has none there (any more).
    """
    if (wrote := box.wrote.get(name)) is not None and _is_of(daemon, settings, wrote.address, name):
        return wrote.address, wrote.place
    person = daemon.agents.own.agent.lookup.people.person(name)
    addresses = _addresses(person, settings.kind) if person is not None else []
    return (addresses[0], addresses[0]) if addresses else ("", "")


def _is_of(daemon: Daemon, settings: ChatSettings, address: str, name: str) -> bool:
    person = daemon.agents.own.agent.lookup.people.by_chat(f"{settings.kind}:{address}")
    return person is not None and person.name == name


def _addresses(person: Person, kind: str) -> list[str]:
    return [one.removeprefix(f"{kind}:") for one in person.chat if one.startswith(f"{kind}:")]


def _outbound(daemon: Daemon, chat: str, id: str) -> tuple[ChatBox, Outbound]:
    box = chat_box(daemon, chat)
    if id not in box.outbox:
        raise RequestError(f"there is no message {id!r:.80} in the outbox of {chat}")
    return box, box.outbox[id]


@operation("write")
async def chat_begun(daemon: Daemon, chat: str, id: str) -> dict[str, Any]:
    """Record that a message is begun to be sent, where the service does not know ids: whoever finds it so
    later knows that it may have been sent.
    """
    box, outbound = _outbound(daemon, chat, id)
    begun = msgspec.structs.replace(outbound, begun=outbound.begun + 1)
    await daemon.agents.own.submit(lambda turn: box.put(turn, OUT, id, begun))
    return {"id": id, "begun": begun.begun}


@operation("write")
async def chat_sent(daemon: Daemon, chat: str, id: str, message_ids: list[str]) -> dict[str, Any]:
    """Record that a message was sent, as one or several of the service, by their ids there."""
    box, outbound = _outbound(daemon, chat, id)
    address, place = outbound.address, outbound.place
    if not place:
        address, place = whereabouts_of(daemon, box, settings_of(daemon, chat), outbound.to)
    placed = msgspec.structs.replace(outbound, address=address, place=place)
    await daemon.agents.own.submit(lambda turn: box.were_sent(turn, placed, dict.fromkeys(message_ids)))
    return {"id": id}


@operation("write")
async def chat_unsent(daemon: Daemon, chat: str, id: str, why: str, final: bool = False) -> dict[str, Any]:
    """Record that a message could not be sent: it is tried again after a growing pause, or given up."""
    box, outbound = _outbound(daemon, chat, id)
    tries = outbound.tries + 1
    if final:
        log.warning("a message to %.100s by %s is given up: %.500s", outbound.place or outbound.to, chat, why)
    pause = min(2.0**tries, LONGEST_PAUSE)

    def work(turn: Turn) -> None:
        if final:
            box.drop(turn, OUT, id)
        else:
            later = msgspec.structs.replace(outbound, tries=tries, not_before=turn.at + pause)
            box.put(turn, OUT, id, later)

    await daemon.agents.own.submit(work)
    return {"id": id, "final": final}


@operation("read")
async def chat_message(daemon: Daemon, chat: str, id: str) -> dict[str, Any] | None:
    """A message that was sent, by its id at the service: the person and the item it was for; None of another.

    The last 2,000 of a chat are remembered.
    """
    sent = chat_box(daemon, chat).sent.get(id)
    return {"item": 0, "shown": "", "to": "", **msgspec.to_builtins(sent)} if sent is not None else None
