"""Answers at a chat to questions: by a button, a number, a word, or `answer N …`.

A person always answers a text that they have seen: that of the message that they reply to or whose button
they press, or of the only message that waits for an answer. Its digest is sent with the answer, so that
nothing else is approved. Nothing is decided here: the operations on work check permissions and report errors.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from narval.core.definitions.reminder import shown_moment
from narval.core.errors import DaemonGoneError, NarvalError, WorkRefusedError
from narval.people.chat.messages import Answering, Asked, OpenForm, Reply
from narval.people.mail.answers import ACTS, field_named, read_answer
from narval.surfaces.chat.forms import (
    NUMBER,
    STOP,
    Question,
    given,
    next_field,
    numbered,
    outcome_of,
    question,
    value_of_button,
    values_of,
)
from narval.surfaces.chat.line import Dealt, Line, own_words

FORM_SECONDS = 3600.0
"""Seconds for which a question about a field waits: later lines are not taken as its value."""

_ANSWER = re.compile(
    r"(answer|claim|release|refuse|move)\s+([0-9]{1,18})\b[ \t]*(.*)", re.IGNORECASE | re.DOTALL
)
_BUTTON = re.compile(r"([0-9]{1,18})\.([0-9]{1,3})\.([0-9a-f]{8})(?:@(.+))?")
_FIELD = re.compile(r"([A-Za-z_][\w-]*)=(\"[^\"]*\"|\S+)")
_ONE_LINE_REASON = re.compile(r"(refuse|release)[ \t]+(.+)", re.IGNORECASE)

ALTERING = frozenset({"answer", *ACTS, "move"})
"""The operations that alter an item."""


class Ask(Protocol):
    """Asks an operation of an agent ("" is the home's own) in the name of the person who wrote."""

    def __call__(self, method: str, /, *, agent: str = "", **params: Any) -> Awaitable[Any]: ...


class Said(NamedTuple):
    """A message of a person: its text, the button that it pressed, the item of the message that it answers.

    `asked` are the items that wait at this chat for their answer, `form` the answer that they have started,
    `at` the moment.
    """

    text: str
    at: float
    button: str = ""
    about: Asked | None = None
    asked: Sequence[Asked] = ()
    form: OpenForm | None = None
    is_early: bool = False
    """True if it was written before the person was asked about any of `asked`."""
    since: Sequence[Asked] = ()
    """The items about which the person was asked after the question of `form`."""


class AboutLine(msgspec.Struct, frozen=True):
    """The items that a message may be about, from the operation `chat_asked`."""

    about: Asked | None
    asked: list[Asked]
    form: OpenForm | None
    early: bool
    since: list[Asked]


class Answered(NamedTuple):
    """The answer to a message, and its effects.

    `form` is the answer that is being given, or None; `done` is the item that the person has handled, so that
    its message no longer waits for an answer; `until` is the moment at which a claim ends.
    """

    text: str
    buttons: tuple[tuple[str, str], ...] = ()
    form: OpenForm | None = None
    done: Asked | None = None
    item: Asked | None = None
    until: float | None = None


async def handle(line: Line) -> Dealt | None:
    """Handle a line that answers a question; None for any other line."""
    said = await _said(line)
    result = await answered(partial(_ask, line), said) if said is not None else None
    return _dealt(line, said, result)


async def handle_rest(line: Line) -> Dealt | None:
    """Handle an unintelligible reply to a message about an item; None for any other line."""
    said = await _said(line)
    result = await not_understood(partial(_ask, line), said) if said is not None else None
    return _dealt(line, said, result)


async def _ask(line: Line, method: str, /, *, agent: str = "", **params: Any) -> Any:
    """Ask in the person's name; an operation that alters an item of the home's own agent is done once."""
    if agent:
        return await line.ask(method, agent=agent, **params)
    return await (line.once if method in ALTERING else line.ask)(method, **params)


async def _said(line: Line) -> Said | None:
    """The message of a line, with the questions it may answer. In a room, and for a confirmed command, it is
    only an answer if it has the number of an item; it is never a value of a form.
    """
    if line.is_in_room or line.is_confirmed:
        return Said(line.text, 0.0) if _ANSWER.fullmatch(line.text.strip()) else None
    about = msgspec.convert(await line.asked(), AboutLine)
    text, now, button = own_words(line.text), time.time(), line.message.button
    return Said(text, now, button, about.about, about.asked, about.form, about.early, about.since)


def _dealt(line: Line, said: Said | None, result: Answered | None) -> Dealt | None:
    if said is None or result is None:
        return None
    asked, text = result.item or Asked(item=0), result.text
    if result.until is not None:
        text += f" until {shown_moment(result.until, time.time(), line.person['zone'])}"
    reply = Reply(
        text=text,
        to=line.name if line.is_in_room else "",
        buttons=result.buttons,
        item=asked.item,
        shown=asked.shown,
        agent=asked.agent,
        title=asked.title,
    )
    closing = f"{asked.item} {asked.title}".rstrip()
    answering = Answering(form=result.form, done=result.done, said=f"{closing}: {text}")
    return Dealt((reply,), answering=answering)


async def answered(ask: Ask, line: Said) -> Answered | None:
    """Carry out a message that answers a question; None for any other message."""
    form = line.form if line.form is not None and line.at - line.form.at <= FORM_SECONDS else None
    if line.button:
        return await _pressed(ask, line, form)
    text = line.text.strip()
    if form is not None and (line.about is None or _is_same(line.about, form.asked)):
        newer = () if line.about is not None else [one for one in line.since if not _is_same(one, form.asked)]
        return await _filled_in(ask, form, line.text, line.at, newer)
    if (match := _ANSWER.fullmatch(text)) is not None:
        return await _addressed(ask, line, match)
    if line.about is not None:
        return await _about(ask, line.about, text, line.at, is_reply=True)
    return await _not_addressed(ask, line, text)


def _is_same(one: Asked, other: Asked) -> bool:
    """True for the same item: agents number their items separately."""
    return (one.item, one.agent) == (other.item, other.agent)


async def not_understood(ask: Ask, line: Said) -> Answered | None:
    """The answer to an unintelligible reply; None for a message that does not reply to an item."""
    if line.about is None:
        return None
    try:
        item = await ask("work_item", item=line.about.item, agent=line.about.agent)
    except WorkRefusedError as error:
        return Answered(f"{error}", item=line.about)
    words = numbered([row["name"] for row in item["outcomes"]])
    return Answered(f"Not understood. Expected one of: {words}; or {', '.join(ACTS)}.", item=line.about)


# --- which item is meant --------------------------------------------------------------------------------


async def _pressed(ask: Ask, line: Said, form: OpenForm | None) -> Answered:
    match = _BUTTON.fullmatch(line.button)
    if match is not None:
        asked = Asked(item=int(match[1]), agent=match[4] or "")
        there = (*([line.about] if line.about else ()), *line.asked)
        asked = next((one for one in there if _is_same(one, asked)), asked)
        item = await _item(ask, asked)
        if isinstance(item, Answered):
            return item
        outcomes = [row["name"] for row in item["outcomes"]]
        if not item["shown"].startswith(match[3]) or not 1 <= int(match[2]) <= len(outcomes):
            return Answered(f"{asked.item} shows another text now; look at it again", item=asked)
        asked = replace(asked, shown=item["shown"])
        return await _choose(ask, asked, item, outcomes[int(match[2]) - 1], {}, line.at)
    if form is not None:
        item = await _item(ask, form.asked)
        if isinstance(item, Answered):
            return item
        value = value_of_button(item["fields"], form, line.button)
        if value is not None:
            return await _filled_in(ask, form, value, line.at)
    return Answered("This button was of an earlier question; nothing was done", form=form)


async def _addressed(ask: Ask, line: Said, match: re.Match[str]) -> Answered:
    """Carry out `answer N …`, or another act with the number of an item."""
    act, number, rest = match[1].lower(), int(match[2]), match[3].strip()
    there = [asked for asked in (*([line.about] if line.about else ()), *line.asked) if asked.item == number]
    if any(not _is_same(there[0], another) for another in there):
        agents = ", ".join(dict.fromkeys(asked.agent or "the home" for asked in there))
        return Answered(f"{number} is an item of several agents ({agents}): reply to its message")
    asked = there[0] if there else Asked(item=number)
    if act != "answer":
        if act == "claim" and rest:
            return Answered(f"expected `claim {number}` alone; found {rest!r:.80}", item=asked)
        return await _act(ask, asked, act, rest)
    head, _, below = rest.partition("\n")
    outcome, _, written = head.partition(" ")
    if written.strip() and _FIELD.sub("", written).strip():
        expectation = f"expected answer {number} OUTCOME FIELD=VALUE, with quotation marks around blanks"
        return Answered(f"{expectation}; found {written.strip()!r:.80}", item=asked)
    item = await _item(ask, asked)
    if isinstance(item, Answered):
        return item
    names, fields = [row["name"] for row in item["fields"]], dict[str, list[str]]()
    for field in _FIELD.finditer(written):
        fields.setdefault(field_named(field[1], names), []).append(field[2].strip('"'))
    outcomes = [row["name"] for row in item["outcomes"]]
    try:
        said = read_answer(f"{outcome_of(outcome, outcomes)}\n{below}", outcomes, names)
    except ValueError:
        return Answered(f"expected answer {number} and one of {numbered(outcomes)}", item=asked)
    return await _choose(
        ask, asked, item, said.arguments["outcome"], said.arguments["fields"] | fields, line.at
    )


async def _about(ask: Ask, asked: Asked, text: str, at: float, *, is_reply: bool = False) -> Answered | None:
    """Carry out what a text says about an item; None if it is not about the item. If the item cannot be seen,
    a reply that may be an outcome gets the reason; any other word is not about it.
    """
    if (reason := _ONE_LINE_REASON.fullmatch(text)) is not None:
        return await _act(ask, asked, reason[1].lower(), reason[2])
    word = text.partition("\n")[0].strip().lower()
    item = await _item(ask, asked)
    if isinstance(item, Answered):
        is_answer = NUMBER.fullmatch(word) or word in ACTS or (is_reply and word.isidentifier())
        return item if is_answer else None
    outcomes = [row["name"] for row in item["outcomes"]]
    try:
        lines, names = text.splitlines()[1:], [row["name"] for row in item["fields"]]
        said = read_answer("\n".join([outcome_of(word, outcomes), *lines]), outcomes, names)
    except ValueError:
        return None
    if said.act != "answer":
        return await _act(
            ask, asked, said.act, said.arguments.get("reason") or said.arguments.get("state", "")
        )
    return await _choose(ask, asked, item, said.arguments["outcome"], said.arguments["fields"], at)


async def _not_addressed(ask: Ask, line: Said, text: str) -> Answered | None:
    """Take a number or a word as the answer to the one waiting item. If several wait, or the person was asked
    only after writing it, ask which one.
    """
    word = text.partition("\n")[0].strip().lower()
    if not line.asked:
        return None if not NUMBER.fullmatch(word) else Answered("Nothing waits for your answer here")
    if len(line.asked) == 1 and not line.is_early:
        return await _about(ask, line.asked[0], text, line.at)
    if not NUMBER.fullmatch(word) and word not in await _outcomes_of(ask, line.asked):
        return None
    waiting = "\n".join(f"{asked.item} {asked.title}".rstrip() for asked in line.asked)
    how = f"Reply to its message, or write for example: answer {line.asked[-1].item} {word}"
    first = "You wrote this before you were asked:" if line.is_early else "Which one?"
    return Answered(f"{first}\n{waiting}\n{how}")


async def _outcomes_of(ask: Ask, several: Sequence[Asked]) -> set[str]:
    """The words that may answer one of several items."""
    items = [await _item(ask, asked) for asked in several]
    rows = (row for item in items if not isinstance(item, Answered) for row in item["outcomes"])
    return {*ACTS, *(row["name"] for row in rows)}


# --- what is done ---------------------------------------------------------------------------------------


async def _item(ask: Ask, asked: Asked) -> Mapping[str, Any] | Answered:
    """The item, or the reply if it can no longer be seen. Raises DaemonGoneError."""
    try:
        item: Mapping[str, Any] = await ask("work_item", item=asked.item, agent=asked.agent)
    except DaemonGoneError:
        raise
    except NarvalError as error:
        return Answered(str(error), item=asked)
    return item


async def _choose(
    ask: Ask, asked: Asked, item: Mapping[str, Any], outcome: str, fields: Mapping[str, list[str]], at: float
) -> Answered:
    """Answer with an outcome; if the item has fields and none was given, ask for the first one."""
    values = {row["name"]: list[str]() for row in item["fields"]} | dict(fields) if fields else {}
    form = OpenForm(asked=asked, outcome=outcome, values=values, at=at)
    row = next_field(item["fields"], form)
    if row is None or "answer" not in item["may"]:
        return await _finish(ask, asked, item, form)
    return _asking(asked, item, form, row["name"])


def _asking(asked: Asked, item: Mapping[str, Any], form: OpenForm, name: str, trouble: str = "") -> Answered:
    row = next(row for row in item["fields"] if row["name"] == name)
    asks: Question = question(item["fields"], row, form, trouble)
    return Answered(asks.text, asks.buttons, replace(form, field=name), item=asked)


async def _filled_in(ask: Ask, form: OpenForm, text: str, at: float, newer: Sequence[Asked] = ()) -> Answered:
    """Take what a person wrote as the value of the current field; ask again for what may answer an item that
    the person was asked about since.
    """
    asked = form.asked
    if text.strip().lower() == STOP:
        return Answered(f"Nothing was answered; {asked.item} still waits", item=asked)
    item = await _item(ask, asked)
    if isinstance(item, Answered):
        return item
    row = next((row for row in item["fields"] if row["name"] == form.field), None)
    if row is None:
        return Answered(f"{asked.item} asks for other things now; look at it again", item=asked)
    form, word = replace(form, at=at), text.strip().lower()
    if newer and (NUMBER.fullmatch(word) or word in await _outcomes_of(ask, newer)):
        trouble = f"Which one? To answer {newer[-1].item}, write: answer {newer[-1].item} {word}"
        return _asking(asked, item, form, form.field, trouble)
    try:
        values = values_of(row, form.outcome, text)
    except ValueError as error:
        return _asking(asked, item, form, form.field, str(error))
    form = replace(form, values={**form.values, form.field: values})
    row = next_field(item["fields"], form)
    if row is not None and "answer" in item["may"]:
        return _asking(asked, item, form, row["name"])
    return await _finish(ask, asked, item, form)


async def _finish(ask: Ask, asked: Asked, item: Mapping[str, Any], form: OpenForm) -> Answered:
    """Give an answer; ask again for fields that the engine refuses."""
    values: dict[str, Any] = {"fields": given(form)} if given(form) else {}
    if asked.shown:
        values["shown"] = asked.shown
    try:
        result = await ask("answer", item=asked.item, outcome=form.outcome, agent=asked.agent, **values)
    except WorkRefusedError as error:
        rows = json.loads(error.detail) if error.kind == "bad-field" and error.detail else []
        names = {row["name"] for row in item["fields"]}
        wrong = {row["field"]: row["message"] for row in rows if row.get("field") in names}
        if not wrong or len(wrong) < len({row.get("field") for row in rows}):
            return Answered(f"Not taken: {error}", item=asked)
        right = {name: values for name, values in form.values.items() if name not in wrong}
        first = next(row["name"] for row in item["fields"] if row["name"] in wrong)
        return _asking(asked, item, replace(form, values=right), first, "\n".join(wrong.values()))
    if result["state"] == "done":
        return Answered(f"{asked.item} is done: {form.outcome}", done=asked, item=asked)
    own = result["answered"]
    count = f" ({own['has']} of {own['needs']})" if own else ""
    said = f"{asked.item}: you answered {form.outcome}{count}; it waits for others"
    return Answered(said, done=asked, item=asked)


async def _act(ask: Ask, asked: Asked, act: str, words: str) -> Answered:
    """Do an act other than an answer: claim, release, refuse, move."""
    params: dict[str, Any] = {"item": asked.item}
    if act in ("claim", "move") and asked.shown:
        params["shown"] = asked.shown
    if act == "move":
        params["state"] = words.strip()
    elif words and act != "claim":
        params["reason"] = words
    try:
        result = await ask(act, agent=asked.agent, **params)
    except WorkRefusedError as error:
        return Answered(f"Not taken: {error}", item=asked)
    done = asked if act == "refuse" else None
    said = {
        "claim": f"{asked.item} is yours",
        "release": f"{asked.item} is offered again",
        "refuse": f"You will not be asked about {asked.item} again",
        "move": f"{asked.item}: the task moves to {result.get('to', '')}",
    }[act]
    return Answered(said, done=done, item=asked, until=result.get("until") if act == "claim" else None)
