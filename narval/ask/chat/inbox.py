"""The operations for incoming messages: each is taken once, handled once, answered once.

`chat_asked` lists the work items that a message may answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import msgspec

from narval.agent.turn import Turn
from narval.ask.asker import CHAT
from narval.ask.chat.chats import chat_box, done_before, linked_by, may_be_code, settings_of
from narval.ask.documents import raise_if_over_limit, raise_if_refused
from narval.ask.registry import operation
from narval.core.elements.element import Origin
from narval.core.errors import NarvalError, RequestError
from narval.core.memory.labels import CHAT as CHAT_LABEL
from narval.daemon.daemon import Daemon
from narval.files.outside.chats import ChatSettings
from narval.people.chat.answering import (
    asked_by,
    asked_in,
    asked_since,
    settle_answering,
    settle_question,
    was_written_before,
)
from narval.people.chat.boxes import IN, MOST_WAITING, OWED, ChatBox
from narval.people.chat.messages import (
    Answering,
    AskedBack,
    Incoming,
    Reply,
    Taken,
    chat_message,
    without_name,
)

MOST_OF_A_STRANGER = 30
"""The most messages of a stranger that become elements within a minute."""

A_DAY = 86_400.0

NOBODY = "belongs to no person in etc/people.toml: their messages are ignored"

Form = TypeVar("Form")

Also = Callable[[Turn, ChatBox, Taken], None]

log = logging.getLogger("narval.chat")


@operation("write")
async def chat_take(
    daemon: Daemon, chat: str, messages: list[dict[str, Any]], position: str = ""
) -> list[dict[str, Any]]:
    """Take incoming messages, and the position after them, in one turn. Messages of people wait in the inbox
    and are returned, each with its number.

    A message already taken is not taken again. Messages of strangers are taken only if the chat makes
    elements of them; a code that `chat_link` made links its sender.
    """
    box, settings, incoming = chat_box(daemon, chat), settings_of(daemon, chat), _read(messages)
    if daemon.home is not None and any(message.file is not None for message in incoming):
        files = daemon.agents.own.chat_outbox.files
        files.sweep_beside(daemon.home.path)  # even if there is no room for it now

    def work(turn: Turn) -> list[Taken]:
        taken, waiting, full = list[Taken](), dict[str, int](), set[str]()
        for message in incoming:
            person = turn.agent.lookup.people.by_chat(f"{settings.kind}:{message.sender}")
            if person is None and not _may_matter(daemon, turn, settings, message):
                _tell_strange(turn, box, settings, message, NOBODY)
            elif not box.see(turn, message, is_strange=person is None):
                continue
            elif person is None:
                _take_strange(daemon, turn, box, settings, message)
            elif _is_for_us(settings, message, daemon.files.settings.name):
                number = waiting.setdefault(person.name, box.waiting_of(person.name))
                if number < MOST_WAITING:
                    waiting[person.name] += 1
                    taken.append(box.take(turn, message, person.name))
                elif person.name not in full:
                    full.add(person.name)
                    log.warning(
                        "%s has %d messages waiting at %s; no more are taken", person.name, number, chat
                    )
        if position != box.position:
            box.draw(turn, position)
        return taken

    return [_form(one) for one in await daemon.agents.own.submit(work)]


def _read(messages: list[dict[str, Any]]) -> list[Incoming]:
    try:
        return msgspec.convert(messages, list[Incoming])
    except msgspec.ValidationError as error:
        raise RequestError(f"expected messages as a kind of chat gives them: {error}") from None


def _is_for_us(settings: ChatSettings, message: Incoming, own: str) -> bool:
    """True for a direct message; in a room of the settings, for lines that begin with our name."""
    if not message.room:
        return True
    if message.room not in settings.rooms:
        return False
    return without_name(message.text, settings.called or own) is not None


# --- strangers ----------------------------------------------------------------------------------------------


def _may_matter(daemon: Daemon, turn: Turn, settings: ChatSettings, message: Incoming) -> bool:
    """True if a stranger's text may have an effect; anything else is not recorded."""
    if message.room:
        return False
    return settings.strangers == "element" or may_be_code(daemon, message.text, turn.at)


def _tell_strange(turn: Turn, box: ChatBox, settings: ChatSettings, message: Incoming, why: str) -> None:
    """Log once a day why nothing is taken from a stranger."""
    if box.strangers.is_news(message.sender, turn.at, A_DAY):
        log.info("%s %.200r %s", settings, f"{settings.kind}:{message.sender}", why)


def _take_strange(
    daemon: Daemon, turn: Turn, box: ChatBox, settings: ChatSettings, message: Incoming
) -> None:
    """Link a stranger, make an element of their text, or ignore it and log that."""
    address, at = f"{settings.kind}:{message.sender}", turn.at
    if (text := linked_by(daemon, message.text, address, at)) is not None:
        box.send(turn, Reply(text=text, place=message.place))
        return
    if settings.strangers == "element" and not message.is_edit:
        why = f"wrote more than {MOST_OF_A_STRANGER} messages within a minute"
        if box.strangers.may(message.sender, at, MOST_OF_A_STRANGER):
            xml = chat_message(settings, message, person="")
            try:
                raise_if_refused(turn, [xml])
                raise_if_over_limit(turn, [xml])
            except NarvalError as error:  # a stranger's message must not block others
                why = f"wrote what is not taken: {error}"
            else:
                with turn.transaction.coming_with(turn.agent.memory.labels.number([CHAT_LABEL])):
                    turn.add(xml, Origin(step=f"{CHAT}:{settings.name}"))
                return
    else:
        why = NOBODY
    _tell_strange(turn, box, settings, message, why)


# --- handling -----------------------------------------------------------------------------------------------


def _form(taken: Taken) -> dict[str, Any]:
    """A message that waits, as plain data."""
    form: dict[str, Any] = msgspec.to_builtins(taken)
    return {"operation": "", **form}


@operation("read")
async def chat_inbox(daemon: Daemon, chat: str) -> list[dict[str, Any]]:
    """The messages of a chat that are not handled, oldest first; also those not answered yet, with the
    `operation` that was performed.
    """
    box = chat_box(daemon, chat)
    return [
        _form(one) for one in sorted([*box.owed.values(), *box.inbox.values()], key=lambda one: one.number)
    ]


@operation("write")
async def chat_reply(
    daemon: Daemon,
    chat: str,
    message: int,
    replies: list[dict[str, Any]],
    answering: dict[str, Any] | None = None,
    question: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Handle a message in one turn: it leaves the inbox, and its replies are queued.

    A reply has a `text`. It may have `place` or `to` (a person), by default the place of the message, and
    `buttons`, `item`, `shown`, `agent`, `title`, `purpose`, `not_before`, `replies_to`, `edits`. `answering`
    says which answer to work its person has begun (`form`, or none), and which item they have just handled
    (`done`). `question` is the command that they are asked to confirm; without it no question is open.
    """
    also = None
    if answering is not None:
        also = partial(settle_answering, daemon.agents.own.chats, _as(answering, Answering, "answering"))
    asked = None if question is None else _as(question, AskedBack, "question")
    box = chat_box(daemon, chat)
    return await _deal(daemon, box, message, _replies(replies), None, also=also, question=asked)


@operation("write")
async def chat_element(
    daemon: Daemon, chat: str, message: int, path: str = "", otherwise: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """Handle a message by adding a `chat-message` with its text and the file at a path: it leaves the inbox
    in the same turn.

    A forwarded text or a file, which somebody else wrote, has the label `chat`. `taken` is false if no
    condition waits for such an element; then the replies `otherwise` are sent.
    """
    box, settings = chat_box(daemon, chat), settings_of(daemon, chat)
    if message not in box.inbox:
        raise done_before(f"{chat}/{message}")
    taken = box.inbox[message]
    said = _without_room(taken.message, settings, daemon)
    xml = chat_message(settings, said, person=taken.person, path=path)
    return await _deal(daemon, box, message, _replies(otherwise or []), xml, unless_taken=True)


def _replies(replies: list[dict[str, Any]]) -> list[Reply]:
    return _as(replies, list[Reply], "replies with their texts")


def _as(value: Any, type: type[Form], expectation: str) -> Form:
    try:
        return msgspec.convert(value, type)
    except msgspec.ValidationError as error:
        raise RequestError(f"expected {expectation}: {error}") from None


async def _deal(
    daemon: Daemon,
    box: ChatBox,
    number: int,
    replies: list[Reply],
    xml: bytes | None,
    *,
    unless_taken: bool = False,
    also: Also | None = None,
    question: AskedBack | None = None,
) -> dict[str, Any]:
    """Handle a message in one turn; `also` runs in the same turn.

    With `unless_taken`, the replies are sent only if no run takes the element.
    """

    def work(turn: Turn) -> dict[str, Any]:
        part = next((part for part in (IN, OWED) if box.is_there(turn, number, part)), None)
        if part is None:
            raise done_before(f"{box.name}/{number}")
        taken = (box.inbox if part == IN else box.owed)[number]
        eid, is_taken = None, False
        if xml is not None:
            eid = _added(turn, box.name, taken, xml)
            element = turn.agent.memory.element(eid)
            is_taken = element is not None and bool(
                turn.agent.watches.index.wakes(turn.agent.memory.tree(element))
            )
        box.drop(turn, part, str(number))
        for reply in replies if not (unless_taken and is_taken) else ():
            box.send(turn, _addressed(reply, taken))
        if also is not None:
            also(turn, box, taken)
        settle_question(turn, box, taken, question)
        return {"eid": eid, "taken": is_taken}

    return dict(await daemon.agents.own.submit(work))


def _without_room(message: Incoming, settings: ChatSettings, daemon: Daemon) -> Incoming:
    """A message without the name that opens a line addressed to us in a room."""
    if not message.room:
        return message
    text = without_name(message.text, settings.called or daemon.files.settings.name)
    return msgspec.structs.replace(message, text=text or "")


def _addressed(reply: Reply, taken: Taken) -> Reply:
    """A reply with its place: that of the message, unless the reply names a place or a person.

    A reply that names the sender goes to them alone, even if they wrote in a room.
    """
    if reply.place or reply.to:
        return reply
    return msgspec.structs.replace(reply, place=taken.message.place, to=taken.person)


def _added(turn: Turn, chat: str, taken: Taken, xml: bytes) -> int:
    """Add the element that a message becomes."""
    raise_if_refused(turn, [xml])
    raise_if_over_limit(turn, [xml])
    origin = Origin(by=taken.person, way=CHAT, session=chat)
    if not (taken.message.is_forwarded or taken.message.file is not None):
        return turn.add(xml, origin)
    with turn.transaction.coming_with(turn.agent.memory.labels.number([CHAT_LABEL])):
        return turn.add(xml, origin)


@operation("read")
async def chat_asked(daemon: Daemon, chat: str, message: int) -> dict[str, Any]:
    """The questions that a message in the inbox of a chat may answer.

    `about` is the item of the message that it replies to, or whose button was pressed. `asked` are the
    waiting items about which its person was asked in that chat; `early` is true if the message was written
    before that. `form` is the answer that the person has begun, and `question` the command that the person
    was asked to confirm; `since` are the items about which they were asked after one of these.
    """
    box = chat_box(daemon, chat)
    taken = box.inbox.get(message) or box.owed.get(message)
    if taken is None:
        raise done_before(f"{chat}/{message}")
    at, sent = daemon.rounds.clock.now(), box.sent.get(taken.message.replies_to)
    question, form = box.questions.get(taken.person), box.forms.get(taken.person)
    is_theirs = sent is not None and sent.item and sent.to == taken.person
    return {
        "about": msgspec.to_builtins(asked_by(sent)) if sent is not None and is_theirs else None,
        "asked": msgspec.to_builtins(asked_in(box, taken.person, at)),
        "early": was_written_before(box, taken, at),
        "form": msgspec.to_builtins(form),
        "question": msgspec.to_builtins(question),
        "since": msgspec.to_builtins(asked_since(box, taken.person, question or form, at)),
    }
