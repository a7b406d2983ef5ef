"""The operations `chats` and `chat_state`: the chats of the home and their state."""

from __future__ import annotations

from typing import Any

from narval.ask import json_forms
from narval.ask.chat.rights import chat_box
from narval.ask.registry import operation
from narval.daemon.daemon import Daemon

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
