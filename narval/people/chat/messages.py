"""Messages of chats: those that came, those to be sent, and those that were sent."""

from __future__ import annotations

import msgspec

Buttons = tuple[tuple[str, str], ...]
"""The data and the label of each button."""

ASKED, ENDED, CLOSED, SENT, REMINDER = "asked", "ended", "closed", "send", "reminder"
"""Reasons for messages: they ask about work, say that it asks no more, take the buttons from the message that
did (and are nothing in a chat without: an answer would be read twice), are the text of an action, or a
reminder.
"""


class IncomingFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that came with a message."""

    name: str
    """The name that its sender gave to it: never a path."""
    media_type: str
    """Its media type as its sender says."""
    size: int | None
    """Its bytes as the server says; None: unknown."""
    reference: str
    """The words by which the kind fetches it."""


class Incoming(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message that came."""

    id: str
    """The id of the message, as the kind has it."""
    position: str
    """The place from which to go on after it: an archive id, a sync token, the offset of an update."""
    sender: str
    """The address of who wrote it, without the kind, as the server has proved it: ann@example.org."""
    place: str
    """The place to which an answer goes: the address, or the room."""
    text: str = ""
    """The text that was written."""
    room: str = ""
    """The room where it was written; "" between two."""
    name: str = ""
    """The name that its sender uses: never trusted."""
    at: float | None = None
    """The moment at which the server got it, in seconds since 1970; None: unknown."""
    replies_to: str = ""
    """The kind's id of our message that it answers."""
    button: str = ""
    """The data of our button that was pressed."""
    file: IncomingFile | None = None
    """The file that came with it."""
    is_edit: bool = False
    """True of one that alters or withdraws an earlier one."""
    is_forwarded: bool = False
    """True of one whose text somebody else wrote."""
    is_encrypted: bool = False
    """True of one that cannot be read here, as it is encrypted from end to end."""


class Taken(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message that was taken and is not dealt with yet."""

    number: int
    """Its number, by which operations name it; no other of the chat ever has it."""
    person: str
    """The person who wrote it."""
    message: Incoming
    """The message as it came."""
    operation: str = ""
    """The operation that was done because of it, whose answer has yet to be given."""


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message to be sent, as it is asked for."""

    text: str
    """Its text, plain."""
    place: str = ""
    """The address or the room to which it goes; "": that of the person, or of the message it answers."""
    to: str = ""
    """The person to whom it goes, where no place is named."""
    address: str = ""
    """The address of that person, without its kind, where it is not sent unless they have it still."""
    buttons: Buttons = ()
    """The data and the label of each button, where the kind has them."""
    replies_to: str = ""
    """The kind's id of the message that it answers."""
    edits: str = ""
    """The kind's id of a message of ours that it replaces, where the kind can."""
    item: int = 0
    """The item of work that it is about."""
    shown: str = ""
    """The digest of what it shows of that."""
    agent: str = ""
    """The agent whose item that is; "" for the home's own."""
    title: str = ""
    """The title of the item."""
    purpose: str = "reply"
    """The reason for it: reply, asked, ended, closed, reminder or send."""
    not_before: float = 0.0
    """The moment before which it is not sent, in seconds since 1970."""


class Outbound(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """A message that waits in the outbox."""

    id: str
    """Its id, which no other message has."""
    number: int
    """Its number: messages go out in the order of these."""
    at: float = 0.0
    """The moment at which it came into the outbox."""
    tries: int = 0
    """The times that it was tried in vain."""
    begun: int = 0
    """The times that it was begun to be sent, as far as that is recorded."""

    def was_due(self, at: float) -> bool:
        """True if somebody may have sent it before a moment: quiet hours do not hold it back."""
        return self.not_before <= at or self.tries > 0


class Sent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message that was sent, by which a reply to it is understood."""

    id: str
    """Its id, as it had in the outbox."""
    number: int
    """Its number there."""
    place: str
    """The address or the room where it went."""
    to: str = ""
    """The person to whom it went."""
    address: str = ""
    """The address of that person, without its kind, if they were looked up."""
    item: int = 0
    """The item of work that it is about."""
    shown: str = ""
    """The digest of what it shows of that."""
    agent: str = ""
    """The agent whose item that is; "" for the home's own."""
    title: str = ""
    """The title of the item."""
    purpose: str = "reply"
    """The reason for it."""


class Whereabouts(msgspec.Struct, frozen=True, kw_only=True):
    """The address from which a person wrote last, and the place where they are answered."""

    address: str
    """The address, without its kind."""
    place: str
    """The place where an answer goes."""
    at: float
    """The moment at which they wrote, in seconds since 1970."""


class Asked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An item that somebody was asked about at a chat, by the digest of the text that they were shown."""

    item: int
    """The item."""
    shown: str = ""
    """The digest of the text; "" if they were not shown one there."""
    agent: str = ""
    """The agent whose item it is; "" for the home's own."""
    title: str = ""
    """The title of the item."""


class OpenForm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An answer to work that a person has begun to give at a chat."""

    asked: Asked
    """The item that they answer."""
    outcome: str
    """The outcome that they chose."""
    values: dict[str, list[str]] = {}
    """The values so far; a field that was left as it is has none."""
    field: str = ""
    """The field that is asked now."""
    at: float = 0.0
    """The moment at which it was asked, in seconds since 1970."""


class AskedBack(msgspec.Struct, frozen=True, kw_only=True):
    """A command that a person was asked back about at a chat, and that is done if they say yes next."""

    number: int
    """The number of the message because of which they were asked: the data of the buttons name it."""
    command: str
    """The command, as they would write it."""
    at: float
    """The moment at which they were asked, in seconds since 1970."""


class Answering(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The items that a person answers at a chat, as far as a message has altered that."""

    form: OpenForm | None = None
    """The answer that they are giving; None: none."""
    done: Asked | None = None
    """The item that they have just dealt with."""
    said: str = ""
    """The words that then stand in place of the message that asked."""
