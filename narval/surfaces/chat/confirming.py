"""Confirmation: commands that are done when their sender says yes.

The last question to each person is recorded with the message that asks it, so a yes is valid even if the
program was restarted in between. Any other message cancels it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from narval.people.chat.messages import AskedBack, Reply
from narval.surfaces.chat.line import Dealt, Handler, Line

SECONDS = 600.0
"""Seconds for which a question waits."""

YES, NO = "yes", "no"


def ask_back(line: Line, text: str, command: str, *, private_to: str = "") -> Dealt:
    """Ask the sender of a line whether to do a command."""
    number = line.taken.number
    buttons = tuple((f"{_token(number)}.{word}", word) for word in (YES, NO))
    reply = Reply(text=f"{text} ({YES} or {NO})", to=private_to, buttons=buttons)
    return Dealt((reply,), question=AskedBack(number=number, command=command, at=time.time()))


def doing(handlers: Sequence[Handler]) -> Handler:
    """The handler of a yes or a no to a confirmation, which passes the command to `handlers`."""

    async def handle(line: Line) -> Dealt | None:
        """Do the command in question if a line says yes; None for a line about something else."""
        asked = await line.asked()
        if (question := asked["question"]) is None or time.time() - question["at"] > SECONDS:
            return None
        token, _, word = line.message.button.partition(".")
        if not line.message.button:  # a reply to a message about an item is about that item
            word = "" if asked["about"] else line.text.strip().strip(".!").casefold()
        elif token != _token(question["number"]):
            word = ""
        if word not in (YES, NO):
            return None
        text, command = "Nothing was done.", line.confirmed(question["command"])
        if word == YES:
            for one in handlers:
                if (dealt := await one(command)) is not None:
                    return dealt
            text = f"that is no command: {command.text}"
        return Dealt.saying(text, private_to=line.name if line.is_in_room else "")

    return handle


def _token(number: int) -> str:
    """The prefix of the data of buttons below a question."""
    return f"q{number}"
