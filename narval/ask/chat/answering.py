"""The operation `chat_asked`: the work items that a message may answer."""

from __future__ import annotations

from typing import Any

import msgspec

from narval.ask.chat.rights import chat_box, done_before
from narval.ask.registry import operation
from narval.daemon.daemon import Daemon
from narval.people.chat.answering import asked_by, asked_in


@operation("read")
async def chat_asked(daemon: Daemon, chat: str, message: int) -> dict[str, Any]:
    """The questions that a message in the inbox of a chat may answer.

    `about` is the item of the message that it replies to, or whose button was pressed. `asked` are the
    waiting items about which its person was asked in that chat. `form` is the answer that the person has
    begun, and `question` the command that the person was asked to confirm.
    """
    box = chat_box(daemon, chat)
    taken = box.inbox.get(message) or box.owed.get(message)
    if taken is None:
        raise done_before(f"{chat}/{message}")
    sent = box.sent.get(taken.message.replies_to)
    is_theirs = sent is not None and sent.item and sent.to == taken.person
    return {
        "about": msgspec.to_builtins(asked_by(sent)) if sent is not None and is_theirs else None,
        "asked": msgspec.to_builtins(asked_in(box, taken.person, daemon.rounds.clock.now())),
        "form": msgspec.to_builtins(box.forms.get(taken.person)),
        "question": msgspec.to_builtins(box.questions.get(taken.person)),
    }
