"""The chats of a home: their state, their boxes, the accounts linked with people, and the guarantee that a
message takes effect once.

An account is linked by a code that it sends.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakValueDictionary

from narval.agent.turn import Turn
from narval.ask import json_forms
from narval.ask.asker import Asker
from narval.ask.people import no_such_person
from narval.ask.registry import operation
from narval.core.definitions.suggestions import closest
from narval.core.errors import NotFoundError, RequestError
from narval.daemon.agents.agent_host import ASKER_CONTEXT, Work
from narval.daemon.daemon import Daemon
from narval.files.outside.chats import ChatSettings
from narval.people.chat.boxes import ChatBox, LinkCode

_UNDER_WAY: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()
"""The locks for the acts in progress that messages cause, by box and message."""


@asynccontextmanager
async def once(daemon: Daemon, asker: Asker, operation: str) -> AsyncIterator[None]:
    """Bind the first work submitted inside the context to a message: both are recorded once, in the same
    turn.

    Raises RequestError if the message is not, or no longer, in the inbox.
    """
    box, number = message_named(daemon, asker.once)
    if asker.agent not in ("", daemon.files.settings.name):
        raise RequestError("what a message asks for is done by the home's own agent")
    lock = _UNDER_WAY.setdefault((id(box), asker.once), asyncio.Lock())
    async with lock:
        if number not in box.inbox:
            raise done_before(asker.once)
        token = ASKER_CONTEXT.set(_Once(box, number, operation))
        try:
            yield
        finally:
            ASKER_CONTEXT.reset(token)


class _Once:
    """The change to the first submitted work: it also takes the message out of the inbox."""

    def __init__(self, box: ChatBox, number: int, operation: str) -> None:
        self._box, self._number, self._operation = box, number, operation
        self._is_used = False

    def __call__(self, work: Work) -> Work:
        if self._is_used:
            return work
        self._is_used = True

        def with_message(turn: Turn) -> Any:
            if not self._box.is_there(turn, self._number):
                raise done_before(f"{self._box.name}/{self._number}")
            result = work(turn)
            self._box.owe(turn, self._number, self._operation)
            return result

        return with_message


def done_before(message: str) -> RequestError:
    """The error for a message that was already handled."""
    return RequestError(f"the message {message} is dealt with already: this was done because of it, or is")


def settings_of(daemon: Daemon, name: str) -> ChatSettings:
    """The settings of a chat. Raises RequestError for an unknown name."""
    chats = {chat.name: chat for chat in daemon.files.settings.chats}
    if name not in chats:
        hint = closest(name, chats) or f"; write a table [chats.{name:.32}]"
        raise NotFoundError(f"there is no chat {name!r:.80} in etc/narval.toml{hint}")
    return chats[name]


def chat_box(daemon: Daemon, name: str) -> ChatBox:
    """The box of a chat of the settings. Raises RequestError for an unknown name."""
    return daemon.agents.own.chats.box(settings_of(daemon, name).name)


def message_named(daemon: Daemon, once: str) -> tuple[ChatBox, int]:
    """The box and the number of the message CHAT/NUMBER. Raises RequestError."""
    chat, _, number = once.partition("/")
    if not (number.isascii() and number.isdecimal() and len(number) < 16):
        raise RequestError(f"expected once to be CHAT/NUMBER, got {once!r:.80}")
    return chat_box(daemon, chat), int(number)


MOST_OF_A_FAULT = 500
"""The most characters of a fault that are kept."""


@operation("read")
async def chats(daemon: Daemon) -> list[dict[str, Any]]:
    """The chats of `etc/narval.toml`: kind, server, account, whether each is connected, and how many messages
    wait.

    `state` is `connected` (`warning` names a remaining problem), `broken` (`fault` says why) or `unknown`
    until a program reports; `since` is its moment. `inbox` counts unhandled messages, `owed` unanswered ones,
    `outbox` those to be sent.
    """
    return [
        _row(daemon, chat.name, chat.kind, chat.server, chat.user) for chat in daemon.files.settings.chats
    ]


def _row(daemon: Daemon, name: str, kind: str, server: str, user: str) -> dict[str, Any]:
    box = chat_box(daemon, name)
    state = "unknown" if not box.since else "broken" if box.fault else "connected"
    return {
        "chat": name,
        "kind": kind,
        "server": server,
        "user": user,
        "state": state,
        "fault": box.fault,
        "warning": box.warning,
        "since": json_forms.moment(box.since) if box.since else None,
        "position": box.position,
        "inbox": len(box.inbox),
        "owed": len(box.owed),
        "outbox": len(box.outbox),
    }


@operation("write")
async def chat_state(daemon: Daemon, chat: str, fault: str = "", warning: str = "") -> dict[str, Any]:
    """Record that a chat is connected, or the fault that prevents it, and a warning."""
    box = chat_box(daemon, chat)
    fault, warning = (" ".join(words.split())[:MOST_OF_A_FAULT] for words in (fault, warning))
    box.is_told(fault, daemon.rounds.clock.now(), warning)
    return {"chat": chat, "fault": fault, "warning": warning}


# --- accounts -----------------------------------------------------------------------------------------------


VALID = 600.0
"""Seconds for which a code is valid."""

MOST_TRIES = 20
"""The number of wrong codes from strangers after which a code is invalid."""

_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"
_LENGTH = 10


@operation("write")
async def chat_link(daemon: Daemon, person: str) -> dict[str, Any]:
    """Make a code that links a person with the account that sends it to a chat, once and within ten minutes.
    An earlier code of the person becomes invalid.
    """
    people = daemon.agents.own.agent.lookup.people
    if people.person(person) is None:
        raise NotFoundError(no_such_person(person, people))
    if people.owner == person:
        raise RequestError(
            f"there is no etc/people.toml to have the address: write one with [people.{person}], "
            f'login = "{person}" and web = "operator"'
        )
    if not daemon.files.settings.chats:
        raise RequestError(
            "there is no chat in etc/narval.toml: write a table [chats.NAME] (docs/reference/chat.md)"
        )
    code = "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
    until = daemon.rounds.clock.now() + VALID
    daemon.agents.own.chats.links[person] = LinkCode(_digest(code), until)
    return {
        "person": person,
        "code": code,
        "seconds": VALID,
        "chats": [one.name for one in daemon.files.settings.chats],
    }


@operation("read")
async def chat_linked(daemon: Daemon, person: str, wait: float = 0.0) -> dict[str, Any]:
    """The address, with its kind, from which a person's code was sent, or "" so far; waits `wait` seconds for
    it. `valid` is false once the code is invalid.
    """
    links, deadline = daemon.agents.own.chats.links, time.monotonic() + wait
    while True:
        link = links.get(person)
        left = min(
            deadline - time.monotonic(), link.until - daemon.rounds.clock.now() if link is not None else 0
        )
        if link is None or link.address or left <= 0:
            is_valid = link is not None and (link.address != "" or daemon.rounds.clock.now() < link.until)
            return {"person": person, "address": link.address if link is not None else "", "valid": is_valid}
        waiting = asyncio.ensure_future(link.found.wait())
        try:
            with link.waiting_for_it():
                await daemon.main_loop.wait_for(waiting, left)
        finally:
            waiting.cancel()


def may_be_code(daemon: Daemon, text: str, at: float) -> bool:
    """True for a text that looks like a code, while a valid code has not been sent."""
    links, code = daemon.agents.own.chats.links, text.strip().lower()
    if len(code) != _LENGTH or not set(code) <= set(_LETTERS):
        return False
    return any(not link.address and at < link.until for link in links.values())


def linked_by(daemon: Daemon, text: str, address: str, at: float) -> str | None:
    """The answer to a stranger who sent a person's code; None if the text is not such a code."""
    if not may_be_code(daemon, text, at):
        return None
    links, digest = daemon.agents.own.chats.links, _digest(text.strip().lower())
    for person, link in list(links.items()):
        if link.address:
            continue
        if at < link.until and hmac.compare_digest(link.digest, digest):
            link.was_sent(address)
            return _linked(person, address, is_waited_for=link.waiting > 0)
        link.was_not(MOST_TRIES)
    return None


def _linked(person: str, address: str, *, is_waited_for: bool) -> str:
    """The reply to the right code of a person."""
    if is_waited_for:
        return f"The code is right: you are linked once etc/people.toml has this address of {person}."
    return (
        f"The code is right, but `narval chat link {person}`, which made it, has ended: you are not linked. "
        f"Give that command again and send the new code while it waits, or add "
        f'"{address}" to chat of [people.{person}] in etc/people.toml'
    )


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode()).digest()
