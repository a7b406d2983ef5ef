"""The stanzas of XMPP that a chat reads and writes, as plain elements.

This module only reads what a message claims. The callers, which know where it came from, judge who its
sender is and whether an archive's id is genuine.
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit
from xml.etree.ElementTree import Element, SubElement

import msgspec

from narval.core.definitions.wall import in_utc
from narval.surfaces.chat.contract import ChatError, IncomingFile, Outgoing

CLIENT = "{jabber:client}"
ARCHIVE = "urn:xmpp:mam:2"
CARBONS = "urn:xmpp:carbons:2"
DATA_FORM = "jabber:x:data"
DELAY = "{urn:xmpp:delay}delay"
FORWARDED = "{urn:xmpp:forward:0}forwarded"
MUC, MUC_USER = "http://jabber.org/protocol/muc", "{http://jabber.org/protocol/muc#user}"
PAGES = "http://jabber.org/protocol/rsm"

_IDS = "urn:xmpp:sid:0"
_CORRECTION = "urn:xmpp:message-correct:0"
_FALLBACK = "{urn:xmpp:fallback:0}"
_OMEMO = ("{eu.siacs.conversations.axolotl}", "{urn:xmpp:omemo:2}")
_OTHERS_ENCRYPTED = ("{urn:xmpp:openpgp:0}openpgp", "{jabber:x:encrypted}x")
_WITHDRAWN = ("{urn:xmpp:message-retract:0}retract", "{urn:xmpp:message-retract:1}retract")
_LONGEST_TEXT, _LONGEST_ID, _LONGEST_URL = 64_000, 500, 2_000
"""The most characters of a message's text, of an id and of a URL: many messages go to the daemon at once."""
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a message."""

    text: str = ""
    """Its text, without the quotation that clients put before an answer."""
    replies_to: str = ""
    """The id of the message that it answers."""
    file: IncomingFile | None = None
    """The file that it links."""
    is_edit: bool = False
    """True if it alters or withdraws an earlier one."""
    is_forwarded: bool = False
    """True if another person wrote its text."""
    is_encrypted: bool = False
    """True if it is encrypted."""


def element(tag: str, **attributes: str) -> Element:
    """An element with attributes."""
    return Element(tag, attributes)


def bare(address: str) -> str:
    """An address without its resource, with A to Z in lower case.

    No other letters are folded: two accounts that a server distinguishes stay two.
    """
    return re.sub("[A-Z]", lambda letter: letter[0].lower(), address.partition("/")[0])


def resource(address: str) -> str:
    """The resource of an address: in a room, the nick."""
    return address.partition("/")[2]


def archive_ids(message: Element, by: str) -> list[str]:
    """The ids in an archive that a message claims; if there is more than one, none can be trusted."""
    return [
        child.get("id", "")
        for child in message.findall(f"{{{_IDS}}}stanza-id")
        if bare(child.get("by", "")) == by
    ]


def origin_id(message: Element) -> str:
    """The id that the sender gave a message."""
    origin = message.find(f"{{{_IDS}}}origin-id")
    said = (origin.get("id", "") if origin is not None else "") or message.get("id", "")
    return said[:_LONGEST_ID]


def moment(stamp: str) -> float | None:
    """The moment of a stamp of XMPP (XEP-0082), in seconds since 1970."""
    try:
        read = datetime.fromisoformat(stamp)
        return read.replace(tzinfo=read.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def forwarded_message(parent: Element) -> tuple[Element, float | None] | None:
    """The message that an element forwards, with the moment when it arrived."""
    forwarded = parent.find(FORWARDED)
    message = forwarded.find(f"{CLIENT}message") if forwarded is not None else None
    if forwarded is None or message is None:
        return None
    delay = forwarded.find(DELAY)
    return message, None if delay is None else moment(delay.get("stamp", ""))


def written(message: Element) -> Written | None:
    """The content of a message; None for one without: a receipt, a typing notification."""
    body = message.findtext(f"{CLIENT}body") or ""
    if _is_encrypted(message, body):
        return Written(is_encrypted=True)
    forwarded = forwarded_message(message)
    if forwarded is not None:
        inner = forwarded[0].findtext(f"{CLIENT}body") or ""
        text = (body or inner)[:_LONGEST_TEXT]
        return Written(text=text, is_forwarded=True) if text else None
    if not body:
        return None
    file = _file(message)
    reply = message.find("{urn:xmpp:reply:0}reply")
    edits = message.find(f"{{{_CORRECTION}}}replace") is not None
    text = _without_fallback(message, body)
    return Written(
        text="" if file is not None and text.strip() == file.reference else text[:_LONGEST_TEXT],
        replies_to=reply.get("id", "")[:_LONGEST_ID] if reply is not None else "",
        file=file,
        is_edit=edits or any(message.find(name) is not None for name in _WITHDRAWN),
    )


def message_of(message: Outgoing, kind: str) -> Element:
    """The stanza of a message to be sent, of the type `chat` or `groupchat`."""
    stanza = Element(f"{CLIENT}message", {"to": message.place, "type": kind, "id": message.id})
    # Text that XML cannot hold would end the connection, and then the next one.
    SubElement(stanza, f"{CLIENT}body").text = _NOT_XML.sub("\ufffd", message.text)
    SubElement(stanza, f"{{{_IDS}}}origin-id", {"id": message.id})
    SubElement(stanza, "{urn:xmpp:styling:0}unstyled")
    if message.edits:
        SubElement(stanza, f"{{{_CORRECTION}}}replace", {"id": message.edits})
    if message.replies_to:
        SubElement(stanza, "{urn:xmpp:reply:0}reply", {"to": message.place, "id": message.replies_to})
    return stanza


def archive_query(
    query: str, *, after: str = "", before: str | None = None, start: float | None = None, most: int
) -> Element:
    """A query to an archive, for a page after or before an id; `before=""` is the last page."""
    asked = Element(f"{{{ARCHIVE}}}query", {"queryid": query})
    if start is not None:
        form = SubElement(asked, f"{{{DATA_FORM}}}x", {"type": "submit"})
        for name, value in (("FORM_TYPE", ARCHIVE), ("start", in_utc(start))):
            field = SubElement(form, f"{{{DATA_FORM}}}field", {"var": name})
            SubElement(field, f"{{{DATA_FORM}}}value").text = value
    page = SubElement(asked, f"{{{PAGES}}}set")
    SubElement(page, f"{{{PAGES}}}max").text = str(most)
    if after:
        SubElement(page, f"{{{PAGES}}}after").text = after
    if before is not None:
        SubElement(page, f"{{{PAGES}}}before").text = before
    return asked


def _is_encrypted(message: Element, body: str) -> bool:
    # An OMEMO message without a payload only carries keys: nobody wrote it.
    payloads = (message.find(f"{space}encrypted/{space}payload") for space in _OMEMO)
    return (
        any(payload is not None for payload in payloads)
        or any(message.find(name) is not None for name in _OTHERS_ENCRYPTED)
        or body.startswith("?OTR")
    )


def _without_fallback(message: Element, body: str) -> str:
    """A text without the fallback for clients that do not support replies (XEP-0428)."""
    for fallback in message.findall(f"{_FALLBACK}fallback"):
        part = fallback.find(f"{_FALLBACK}body")
        if fallback.get("for") == "urn:xmpp:reply:0" and part is not None:
            try:
                start, end = int(part.get("start", "0")), int(part.get("end", len(body)))
            except ValueError:
                continue
            if 0 <= start <= end:
                return body[:start] + body[end:]
    return body


def _file(message: Element) -> IncomingFile | None:
    """The file that a message links (XEP-0066), only by https."""
    url = (message.findtext("{jabber:x:oob}x/{jabber:x:oob}url") or "").strip()
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if parts.scheme != "https" or not parts.hostname or len(url) > _LONGEST_URL:
        return None
    name = PurePosixPath(unquote(parts.path)).name
    guessed = mimetypes.guess_type(name)[0]
    return IncomingFile(name=name, media_type=guessed or "application/octet-stream", size=None, reference=url)


def stanza_error(stanza: Element) -> ChatError | None:
    """The fault in a stanza of the type `error`; final if another try cannot help."""
    error = stanza.find(f"{CLIENT}error")
    if stanza.get("type") != "error" or error is None:
        return None
    space = "{urn:ietf:params:xml:ns:xmpp-stanzas}"
    names = [child.tag.removeprefix(space) for child in error if child.tag.startswith(space)]
    text = error.findtext(f"{space}text") or ""
    condition = next((name for name in names if name != "text"), "it is refused")
    said = f"{condition}{f' ({text:.200})' if text else ''}"
    return ChatError(said, final=error.get("type") in ("cancel", "modify", "auth"))


def real_addresses(stanza: Element) -> Iterator[str]:
    """The real addresses that a room reports for the sender of a stanza."""
    for item in stanza.iterfind(f"{MUC_USER}x/{MUC_USER}item"):
        yield bare(item.get("jid", ""))


def room_codes(stanza: Element) -> set[str]:
    """The status codes with which a room reports changes."""
    return {status.get("code", "") for status in stanza.iterfind(f"{MUC_USER}x/{MUC_USER}status")}
