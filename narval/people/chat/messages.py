"""Messages of chats: received, to be sent, and sent; and the elements of received ones, `<chat-message>`."""

from __future__ import annotations

import re

import msgspec
from lxml import etree

from narval.files.outside.chats import ChatSettings

Buttons = tuple[tuple[str, str], ...]
"""The data and the label of each button."""

ASKED, ENDED, CLOSED, SENT, REMINDER = "asked", "ended", "closed", "send", "reminder"
"""Purposes of messages: they ask about work, say that an item is no longer asked about, take the buttons from
the message that asked (a chat without buttons sends none, or an answer would be read twice), are the text of
an action, or are a reminder.
"""


class IncomingFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that came with a message."""

    name: str
    """The name given by its sender: never a path."""
    media_type: str
    """Its media type, as stated by its sender."""
    size: int | None
    """Its size in bytes, as stated by the server; None: unknown."""
    reference: str
    """The reference by which the chat's kind fetches it."""


class Incoming(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message received."""

    id: str
    """The id of the message in the chat's kind."""
    position: str
    """The position from which to continue after it: an archive id, a sync token, the offset of an update."""
    sender: str
    """The address of its writer, without the kind, as proved by the server: ann@example.org."""
    place: str
    """The place to which an answer goes: the address, or the room."""
    text: str = ""
    """The text that was written."""
    room: str = ""
    """The room where it was written; "" for a direct conversation."""
    name: str = ""
    """The name that its sender uses: never trusted."""
    at: float | None = None
    """The moment at which the server received it, in seconds since 1970; None: unknown."""
    replies_to: str = ""
    """The kind's id of our message that it answers."""
    button: str = ""
    """The data of our button that was pressed."""
    file: IncomingFile | None = None
    """The file that came with it."""
    is_edit: bool = False
    """True for a message that alters or withdraws an earlier one."""
    is_forwarded: bool = False
    """True for a message whose text another person wrote."""
    is_encrypted: bool = False
    """True for a message that cannot be read here because it is encrypted end to end."""


class Taken(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message that was received and is not yet handled."""

    number: int
    """Its number, by which operations name it; unique in the chat."""
    person: str
    """The person who wrote it."""
    message: Incoming
    """The message as received."""
    operation: str = ""
    """The operation done because of it, if its answer is still to be sent."""


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message to send, as requested."""

    text: str
    """Its plain text."""
    place: str = ""
    """The address or the room to which it goes; "": that of the person, or of the message it answers."""
    to: str = ""
    """The person to whom it goes, if no place is named."""
    address: str = ""
    """The address of that person, without its kind; the message is sent only if the person still has it."""
    buttons: Buttons = ()
    """The data and the label of each button, if the kind has buttons."""
    replies_to: str = ""
    """The kind's id of the message that it answers."""
    edits: str = ""
    """The kind's id of a message of ours that it replaces, if the kind supports that."""
    item: int = 0
    """The item of work that it is about."""
    shown: str = ""
    """The digest of the item's text that it shows."""
    agent: str = ""
    """The agent whose item that is; "" for the home's own."""
    title: str = ""
    """The title of the item."""
    purpose: str = "reply"
    """Its purpose: reply, asked, ended, closed, reminder or send."""
    not_before: float = 0.0
    """The moment before which it is not sent, in seconds since 1970."""


class Outbound(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """A message that waits in the outbox."""

    id: str
    """Its id, unique among messages."""
    number: int
    """Its number: messages are sent in this order."""
    at: float = 0.0
    """The moment at which it entered the outbox."""
    tries: int = 0
    """The number of failed attempts."""
    begun: int = 0
    """The number of recorded attempts to send it."""

    def was_due(self, at: float) -> bool:
        """True if it may have been sent before a moment: quiet hours do not hold it back."""
        return self.not_before <= at or self.tries > 0

    @property
    def sent_after(self) -> float:
        """The moment before which it was not sent."""
        return self.at if self.tries else max(self.at, self.not_before)


class Sent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A sent message, kept to understand replies to it."""

    id: str
    """Its id, as it had in the outbox."""
    number: int
    """Its number there."""
    sent_after: float = 0.0
    """The moment before which it was not sent, in seconds since 1970."""
    place: str
    """The address or the room to which it went."""
    to: str = ""
    """The person to whom it went."""
    address: str = ""
    """The address of that person, without its kind, if they were looked up."""
    item: int = 0
    """The item of work that it is about."""
    shown: str = ""
    """The digest of the item's text that it shows."""
    agent: str = ""
    """The agent whose item that is; "" for the home's own."""
    title: str = ""
    """The title of the item."""
    purpose: str = "reply"
    """Its purpose."""


class Whereabouts(msgspec.Struct, frozen=True, kw_only=True):
    """The address from which a person last wrote, and the place to which answers go."""

    address: str
    """The address, without its kind."""
    place: str
    """The place to which an answer goes."""
    at: float
    """The moment at which the person wrote, in seconds since 1970."""


class Asked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An item that a person was asked about in a chat, with the digest of the text shown."""

    item: int
    """The item."""
    shown: str = ""
    """The digest of the text; "" if none was shown there."""
    agent: str = ""
    """The agent whose item it is; "" for the home's own."""
    title: str = ""
    """The title of the item."""


class OpenForm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An answer to work that a person has begun to give in a chat."""

    asked: Asked
    """The item that it answers."""
    outcome: str
    """The chosen outcome."""
    values: dict[str, list[str]] = {}
    """The values so far; a field that was left unchanged has none."""
    field: str = ""
    """The field being asked for."""
    at: float = 0.0
    """The moment at which it was asked for, in seconds since 1970."""


class AskedBack(msgspec.Struct, frozen=True, kw_only=True):
    """A command that needs a person's confirmation in a chat; it is done if the person says yes next."""

    number: int
    """The number of the message that led to the question; the data of the buttons name it."""
    command: str
    """The command, as the person would write it."""
    at: float
    """The moment at which the person was asked, in seconds since 1970."""


class Answering(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The items that a person is answering in a chat, as changed by a message."""

    form: OpenForm | None = None
    """The answer in progress, or None."""
    done: Asked | None = None
    """The item just finished."""
    said: str = ""
    """The text that then replaces the message that asked."""


MESSAGE = "chat-message"
"""The name of these elements."""

LONGEST_TEXT = 64_000
"""The most characters of an element's text."""

LONGEST_NAME = 200
"""The most characters of a name given by a stranger."""

_NO_XML = re.compile(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def chat_message(settings: ChatSettings, message: Incoming, person: str, path: str = "") -> bytes:
    """The XML of a message from a person, or from a stranger if `person` is "".

    Its `thread` is the room, or the place of a direct conversation; a file is a child element with its
    `path`.
    """
    root = etree.Element(MESSAGE)
    if person:
        root.set("person", person)
    else:
        root.set("from", _plain(f"{settings.kind}:{message.sender}", LONGEST_NAME))
        if message.name:
            root.set("name", _plain(message.name, LONGEST_NAME))
    root.set("chat", settings.name)
    root.set("thread", _plain(message.room or message.place, LONGEST_NAME))
    if message.is_forwarded:
        root.set("forwarded", "yes")
    root.text = _plain(message.text, LONGEST_TEXT)
    if message.file is not None:
        file = etree.SubElement(root, "file")
        if path:
            file.set("path", path)
        file.set("name", _plain(message.file.name, LONGEST_NAME))
        file.set("type", _plain(message.file.media_type, LONGEST_NAME))
    return etree.tostring(root, encoding="utf-8")


def without_name(text: str, name: str) -> str | None:
    """The rest of a line after the name at its start; None for a line that does not start with the name."""
    line = text.lstrip().removeprefix("@")
    if line[: len(name)].casefold() != name.casefold():
        return None
    rest = line[len(name) :]
    return rest.lstrip(":,").strip() if not rest[:1].isalnum() and rest[:1] not in ("-", "_") else None


def _plain(text: str, most: int) -> str:
    """A text without characters that are invalid in XML, cut to `most` characters."""
    return _NO_XML.sub("\ufffd", text[:most])
