"""Asking back: what is done once who asked for it says yes.

The last question to each person is kept by the program alone. One that is started again knows none: a yes
then does nothing, and who said it asks again.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from narval.people.chat.messages import Reply
from narval.surfaces.chat.line import Dealt, Line

SECONDS = 600.0
"""Seconds for which a question waits."""

YES, NO = "yes", "no"


class Question(NamedTuple):
    """A question, and what is done by the line that says yes; it gives the answer."""

    text: str
    do: Callable[[Line], Awaitable[str | Dealt]]


class AskedBack(NamedTuple):
    """A question that was asked: the data of its buttons begin with `token`, and what comes of it is told
    `private_to` a person, if it came from a room.
    """

    question: Question
    token: str
    until: float
    private_to: str


def ask_back(line: Line, question: Question, *, private_to: str = "") -> Dealt:
    """Ask who wrote a line."""
    asked = AskedBack(question, secrets.token_hex(4), time.monotonic() + SECONDS, private_to)
    line.asked_back[line.name] = asked
    buttons = tuple((f"{asked.token}.{word}", word) for word in (YES, NO))
    text = f"{question.text} ({YES} or {NO})"
    return Dealt((Reply(text=text, to=private_to, buttons=buttons),))


async def handle(line: Line) -> Dealt | None:
    """Do what was asked back about, if the next line says yes; None of a line about something else.

    Any other line takes the question back. Raises NarvalError.
    """
    asked = line.asked_back.get(line.name)
    if asked is None:
        return None
    del line.asked_back[line.name]
    token, _, word = line.message.button.partition(".")
    if not line.message.button:
        word = "" if await _is_about_work(line) else line.text.strip().strip(".!").casefold()
    elif token != asked.token:
        word = ""
    if word not in (YES, NO) or time.monotonic() > asked.until:
        return None
    answer = await asked.question.do(line) if word == YES else "Nothing was done."
    return answer if isinstance(answer, Dealt) else Dealt.saying(answer, private_to=asked.private_to)


async def _is_about_work(line: Line) -> bool:
    """True of a reply to a message about an item of work."""
    sent = await line.sent()
    return sent is not None and bool(sent["item"])
