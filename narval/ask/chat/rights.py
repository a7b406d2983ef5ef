"""The chats of a home: their state, their boxes, and the guarantee that a message takes effect once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakValueDictionary

from narval.agent.turn import Turn
from narval.ask import json_forms
from narval.ask.asker import Asker
from narval.ask.registry import operation
from narval.core.definitions.suggestions import closest
from narval.core.errors import RequestError
from narval.daemon.agents.agent_host import ASKER_CONTEXT, Work
from narval.daemon.daemon import Daemon
from narval.files.outside.chats import ChatSettings
from narval.people.chat.boxes import ChatBox

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
        raise RequestError(f"there is no chat {name!r:.80} in etc/narval.toml{hint}")
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
