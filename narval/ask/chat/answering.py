"""The operation `chat_asked`: the items of work that a message may answer."""

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

    `about` is the item of our message that it replies to or whose button was pressed. `asked` are the waiting
    items that its person was asked about there. `form` is the answer that they have begun to give, `question`
    the command that they were asked to confirm.
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
