"""Events of Matrix, reduced to what matters in a chat."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from narval.surfaces.chat.contract import IncomingFile

KEYS = tuple(f"{number}\ufe0f\u20e3" for number in range(1, 10))
"""The reactions that are buttons: the digits from 1 on, as keys."""
_FILES = ("m.audio", "m.file", "m.image", "m.video")
_TEXTS = ("m.text", "m.emote")
_MEDIA = re.compile(r"mxc://[A-Za-z0-9.:\[\]-]+/[A-Za-z0-9_-]+")
_EVENT = re.compile(r"\$[^\s/][^\s]*")
_FORWARDED = ("m.forwarded", "org.matrix.msc2723.forwarded")


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a room."""

    id: str
    """Its id at the server."""
    sender: str
    """The account that sent it, which the servers have proved."""
    at: float | None
    """The moment that its server gave it."""
    text: str = ""
    """The text that was written."""
    file: IncomingFile | None = None
    """The file that came with it."""
    replies_to: str = ""
    """The event that it answers."""
    reacts_to: str = ""
    """The event to which it is a reaction."""
    key: str = ""
    """The reaction itself."""
    member: str = ""
    """The account whose membership it changes."""
    membership: str = ""
    """The new state of that account: join, invite, leave, ban."""
    was: str = ""
    """The state before, if the server says it."""
    is_edit: bool = False
    """True if it replaces the text of another event."""
    is_forwarded: bool = False
    """True if another person wrote its text."""
    is_encrypted: bool = False
    """True if it cannot be decrypted."""
    turns_encryption_on: bool = False
    """True if the room is encrypted from then on."""

    @property
    def is_message(self) -> bool:
        """True if it is a message to those in the room."""
        return bool(self.text or self.file or self.reacts_to or self.is_encrypted)

    @property
    def alters_the_room(self) -> bool:
        """True if it may change who is in the room, or who can read there."""
        return bool(self.member) or self.turns_encryption_on


def read(events: Iterable[object]) -> list[Event]:
    """The relevant events of a server; events of an invalid form are left out."""
    return [made for event in events if isinstance(event, dict) and (made := _readable(event)) is not None]


def entry(events: Sequence[Event], user: str) -> tuple[int, int]:
    """The indices of the events by which an account entered the room and was invited; -1 if there is none."""
    own = [number for number, event in enumerate(events) if event.member == user]
    for index in range(len(own) - 1, -1, -1):
        event = events[own[index]]
        if event.membership == "join" and event.was != "join":
            is_invited = index > 0 and events[own[index - 1]].membership == "invite"
            return own[index], own[index - 1] if is_invited else -1
    return -1, -1


def _readable(event: Mapping[str, Any]) -> Event | None:
    """An event, if its form is valid: anyone in a room may send an invalid one."""
    try:
        return _read(event)
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError):
        return None


def _read(event: Mapping[str, Any]) -> Event | None:
    content, identifier, sender = event.get("content"), event.get("event_id"), event.get("sender")
    if not isinstance(content, dict) or not isinstance(identifier, str) or not isinstance(sender, str):
        return None
    moment = event.get("origin_server_ts")
    at = moment / 1000 if isinstance(moment, int) else None
    match event.get("type"):
        case "m.room.message":
            return _message(content, Event(id=identifier, sender=sender, at=at))
        case "m.reaction":
            relation = _relation(content)
            pressed = str(relation.get("key", "")).replace("\ufe0f", "")  # some clients leave that out
            key = next((one for one in KEYS if one.replace("\ufe0f", "") == pressed), "")
            target = _event_id(relation.get("event_id"))
            return Event(id=identifier, sender=sender, at=at, reacts_to=target, key=key) if key else None
        case "m.room.encrypted":
            return Event(id=identifier, sender=sender, at=at, is_encrypted=True)
        case "m.room.encryption":
            return Event(id=identifier, sender=sender, at=at, turns_encryption_on=True)
        case "m.room.member":
            before = (event.get("unsigned") or {}).get("prev_content") or event.get("prev_content") or {}
            return Event(
                id=identifier,
                sender=sender,
                at=at,
                member=str(event.get("state_key", "")),
                membership=str(content.get("membership", "")),
                was=str(before.get("membership", "")),
            )
    return None


def _message(content: Mapping[str, Any], event: Event) -> Event | None:
    relation = _relation(content)
    is_edit = relation.get("rel_type") == "m.replace"
    if is_edit and isinstance(content.get("m.new_content"), dict):
        content = content["m.new_content"]
    kind, body = content.get("msgtype"), content.get("body")
    if not isinstance(body, str) or kind not in (*_TEXTS, *_FILES):
        return None  # no m.notice: programs send it, and must not answer one another
    answered = _event_id((relation.get("m.in_reply_to") or {}).get("event_id"))
    if relation.get("rel_type") == "m.thread" and relation.get("is_falling_back"):
        answered = _event_id(relation.get("event_id"))
    text, file = (_without_quote(body) if answered else body), None
    if kind in _FILES:
        file = _file(content)
        text = text if content.get("filename", body) != body else ""
    return msgspec.structs.replace(
        event,
        text=text,
        file=file,
        replies_to=answered,
        is_edit=is_edit,
        is_forwarded=any(mark in content for mark in _FORWARDED),
    )


def _file(content: Mapping[str, Any]) -> IncomingFile | None:
    url, about = content.get("url"), content.get("info") or {}
    if not isinstance(url, str) or not _MEDIA.fullmatch(url):
        return None
    size = about.get("size")
    return IncomingFile(
        name=str(content.get("filename") or content["body"]),
        media_type=str(about.get("mimetype") or "application/octet-stream"),
        size=size if type(size) is int and 0 <= size < 2**53 else None,
        reference=url,
    )


def _without_quote(body: str) -> str:
    """The text of an answer without the quoted lines that older clients put before it."""
    lines = body.split("\n")
    while lines and lines[0].startswith("> "):
        del lines[0]
    return "\n".join(lines).strip("\n")


def _relation(content: Mapping[str, Any]) -> dict[str, Any]:
    relation = content.get("m.relates_to")
    return relation if isinstance(relation, dict) else {}


def _event_id(value: object) -> str:
    return value if isinstance(value, str) and _EVENT.fullmatch(value) else ""
