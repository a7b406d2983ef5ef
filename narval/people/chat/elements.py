"""Elements of messages: `<chat-message>`, with the text of a message and its file."""

from __future__ import annotations

import re

from lxml import etree

from narval.files.outside.chats import ChatSettings
from narval.people.chat.messages import Incoming

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
