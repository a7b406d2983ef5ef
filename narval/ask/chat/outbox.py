"""The operations for outgoing messages: what to send, and the result."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from narval.agent.turn import Turn
from narval.ask.chat.chats import chat_box, settings_of
from narval.ask.registry import operation
from narval.core.errors import NotFoundError
from narval.daemon.daemon import Daemon
from narval.files.outside.chats import ChatSettings
from narval.people.chat.boxes import OUT, ChatBox, outbox_in
from narval.people.chat.messages import Outbound

AT_ONCE = 50
"""The most messages returned at a time."""

MOST_TRIES = 34
"""The number of tries before a message is given up: about a day's worth."""

A_DAY = 86_400.0

LONGEST_PAUSE = 3600.0
"""The longest pause before a refused message is tried again, in seconds."""

log = logging.getLogger("narval.chat")


@operation("read")
async def chat_outgoing(daemon: Daemon, chat: str, wait: float = 0.0) -> list[dict[str, Any]]:
    """The messages of a chat that are to be sent now, oldest first; waits `wait` seconds for one if there is
    none.

    Each has its `place`. `handed` is true for one that was returned before, even by an earlier daemon.
    `begun` is how often sending it began, as recorded by `chat_begun`.
    """
    box, settings, deadline = chat_box(daemon, chat), settings_of(daemon, chat), time.monotonic() + wait
    while True:
        box.news.clear()
        now = daemon.rounds.clock.now()
        await _give_up_stranded(daemon, box, settings, now)
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
    """The messages that are due, each with its place; those behind a failed one at the same place wait."""
    held = set[str]()
    for outbound in sorted(box.outbox.values(), key=lambda one: one.number):
        place = _place_of(daemon, box, settings, outbound)
        if outbound.not_before > now:
            held.update([place] if outbound.tries else [])
        elif place and place not in held:
            yield outbound, place


def _place_of(daemon: Daemon, box: ChatBox, settings: ChatSettings, outbound: Outbound) -> str:
    """The place a message goes to; "" if there is none yet."""
    if outbound.address and not _is_of(daemon, settings, outbound.address, outbound.to):
        return ""  # the person's link with it ended after the question was queued
    return outbound.place or whereabouts_of(daemon, box, settings, outbound.to)[1]


async def _give_up_stranded(daemon: Daemon, box: ChatBox, settings: ChatSettings, now: float) -> None:
    """Give up messages that were due a day ago and still have no place."""
    stranded = [
        outbound.id
        for outbound in box.outbox.values()
        if now - max(outbound.at, outbound.not_before) > A_DAY
        and not _place_of(daemon, box, settings, outbound)
    ]

    def work(turn: Turn) -> None:
        outbox = outbox_in(turn, box)
        for id in stranded:
            if id in outbox:
                _give_up(turn, box, outbox[id], "its person has no address there any more")

    if stranded:
        await daemon.agents.own.submit(work)


def whereabouts_of(daemon: Daemon, box: ChatBox, settings: ChatSettings, name: str) -> tuple[str, str]:
    """The address of a person at a chat, and the place to write to: where they wrote last, or their first
    address. Both are "" for a person who has none, or no longer.
    """
    if (wrote := box.wrote.get(name)) is not None and _is_of(daemon, settings, wrote.address, name):
        return wrote.address, wrote.place
    person = daemon.agents.own.agent.lookup.people.person(name)
    prefix = f"{settings.kind}:"
    addresses = [one for one in person.chat if one.startswith(prefix)] if person is not None else []
    address = addresses[0].removeprefix(prefix) if addresses else ""
    return address, address


def _is_of(daemon: Daemon, settings: ChatSettings, address: str, name: str) -> bool:
    person = daemon.agents.own.agent.lookup.people.by_chat(f"{settings.kind}:{address}")
    return person is not None and person.name == name


def _outbound(turn: Turn, box: ChatBox, id: str) -> Outbound:
    """A message in the outbox, as altered in this turn. Raises RequestError if it does not exist."""
    outbound = outbox_in(turn, box).get(id)
    if outbound is None:
        raise NotFoundError(f"there is no message {id!r:.80} in the outbox of {box.name}")
    return outbound


@operation("write")
async def chat_begun(daemon: Daemon, chat: str, id: str, back: bool = False) -> dict[str, Any]:
    """Record that sending a message begins, at a service without message ids: after a crash it is known that
    it may have been sent. With `back`, record that this try certainly did not send it.
    """
    box = chat_box(daemon, chat)

    def work(turn: Turn) -> int:
        outbound = _outbound(turn, box, id)
        begun = max(0, outbound.begun + (-1 if back else 1))
        box.put(turn, OUT, id, msgspec.structs.replace(outbound, begun=begun))
        return begun

    return {"id": id, "begun": await daemon.agents.own.submit(work)}


@operation("write")
async def chat_sent(daemon: Daemon, chat: str, id: str, message_ids: list[str]) -> dict[str, Any]:
    """Record that a message was sent, as one or more messages of the service with these ids."""
    box, settings = chat_box(daemon, chat), settings_of(daemon, chat)

    def work(turn: Turn) -> None:
        outbound = _outbound(turn, box, id)
        address, place = outbound.address, outbound.place
        if not place:
            address, place = whereabouts_of(daemon, box, settings, outbound.to)
        placed = msgspec.structs.replace(outbound, address=address, place=place)
        box.were_sent(turn, placed, dict.fromkeys(message_ids))

    await daemon.agents.own.submit(work)
    return {"id": id}


@operation("write")
async def chat_unsent(daemon: Daemon, chat: str, id: str, why: str, final: bool = False) -> dict[str, Any]:
    """Record that a message could not be sent: it is tried again after a growing pause, or given up, in any
    case after a day of tries.
    """
    box = chat_box(daemon, chat)

    def work(turn: Turn) -> bool:
        outbound = _outbound(turn, box, id)
        tries = outbound.tries + 1
        if final or tries >= MOST_TRIES:
            _give_up(turn, box, outbound, why)
            return True
        pause = min(2.0**tries, LONGEST_PAUSE)
        later = msgspec.structs.replace(outbound, tries=tries, not_before=turn.at + pause)
        box.put(turn, OUT, id, later)
        return False

    return {"id": id, "final": await daemon.agents.own.submit(work)}


def _give_up(turn: Turn, box: ChatBox, outbound: Outbound, why: str) -> None:
    """Record that a message is given up, and log it."""
    box.drop(turn, OUT, outbound.id)
    to = outbound.place or outbound.to
    log.warning("a message to %.100s by %s is given up: %.500s", to, box.name, why)
