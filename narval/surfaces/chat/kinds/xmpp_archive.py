"""The rooms and archives of XMPP (XEP-0045, XEP-0313).

A room has its occupants, by the addresses that the room itself reports. The account has an archive, and so
have some rooms. An archive has its own id for each message, and returns the messages after an id. So a taken
message is recognised later, whatever a server says about it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import NamedTuple
from uuid import uuid4
from xml.etree.ElementTree import Element

import msgspec

from narval.surfaces.chat.contract import ChatError
from narval.surfaces.chat.kinds.xmpp_stanzas import (
    ARCHIVE,
    PAGES,
    archive_ids,
    archive_query,
    bare,
    forwarded_message,
    origin_id,
    real_addresses,
    resource,
    room_codes,
    stanza_error,
)
from narval.surfaces.chat.kinds.xmpp_stream import Stream

_OURS, _SHOWN = "110", ("100", "172")
"""The status codes of our own presence, and of a room that shows addresses."""
_HIDDEN = ("173", "174")
"""The status codes of a room that stops showing addresses."""
_MOST_OWN = 1_000


class Room:
    """A room, and its state since it was entered; `known_as` is its name in the settings."""

    def __init__(self, known_as: str, name: str) -> None:
        self.known_as, self.address = known_as, bare(known_as)
        self.name = self.nick = name
        self.is_entered = False
        self.shows_addresses = False
        self.fault: ChatError | None = None
        self.answered = asyncio.Event()
        """Set when the room has admitted or refused us."""
        self.ours: dict[str, str] = {}
        """Our lines: the room's id of each, and ours."""
        self._addresses: dict[str, str] = {}

    @property
    def trouble(self) -> str:
        """The reason why its lines cannot be used; "" if they can."""
        if not self.is_entered:
            why = self.fault.message if self.fault is not None else "it was left"
            return f"room {self.address} is not entered: {why}"
        if not self.shows_addresses:
            return f"room {self.address} shows no addresses, so no person is known there"
        return ""

    def enter(self) -> None:
        """Start to enter: no occupant is known yet."""
        self.is_entered = self.shows_addresses = False
        self.fault = None
        self._addresses.clear()
        self.answered.clear()

    def refuse(self, fault: ChatError) -> None:
        """Record why the room refuses us."""
        self.fault = fault
        self.answered.set()

    def presence(self, xml: Element) -> None:
        """Record who joins, leaves or is renamed, and what the room says about itself."""
        nick, codes, kind = (
            resource(xml.get("from", "")),
            room_codes(xml),
            xml.get("type", ""),
        )
        if kind == "error":
            self.refuse(stanza_error(xml) or ChatError("it refuses"))
        elif kind == "unavailable":
            self._addresses.pop(nick, None)
            if _OURS in codes and "303" not in codes:
                self.is_entered = False
        elif not kind:
            addresses = list(real_addresses(xml))
            self._addresses[nick] = addresses[0] if len(addresses) == 1 else ""
            if _OURS in codes:
                self.nick, self.is_entered = nick, True
                self.shows_addresses = "100" in codes or self.shows_addresses
                self.answered.set()

    def heard(self, message: Element) -> None:
        """Record a change of the room from a message that the room itself sent."""
        if resource(message.get("from", "")) or message.get("type") != "groupchat":
            return
        codes = room_codes(message)
        if codes.intersection(_HIDDEN):
            self.shows_addresses = False
            self._addresses.clear()
        elif codes.intersection(_SHOWN):
            # Present occupants are known after the room lists them again.
            self.shows_addresses = True

    def is_mine(self, message: Element) -> bool:
        """True for a line of ours that the room sends back."""
        mine = message.get("type") == "groupchat" and resource(message.get("from", "")) == self.nick
        if mine and self.is_entered:
            if len(self.ours) >= _MOST_OWN:
                del self.ours[next(iter(self.ours))]
            for known_as in archive_ids(message, self.address):
                self.ours[known_as] = origin_id(message)
        return mine

    def writer(self, message: Element, *, is_live: bool) -> str:
        """The address of the sender of a line; "" if it is unknown.

        For a line from the archive it is the address that the archive adds. If there are two, the sender
        forged one of them, so neither is used.
        """
        if not self.shows_addresses:
            return ""
        if is_live:
            return self._addresses.get(resource(message.get("from", "")), "")
        addresses = list(real_addresses(message))
        return addresses[0] if len(addresses) == 1 else ""


PAGE = 100
"""The messages of an archive requested at once."""
_MOST_REMEMBERED = 20_000
"""The most ids of messages that are remembered, so that none is taken or sent twice."""


class Archived(NamedTuple):
    """A message with its id in an archive, the moment when it arrived, and whether it arrived live."""

    id: str
    message: Element
    at: float | None
    is_live: bool = False


class Page(NamedTuple):
    """A page of an archive; `last` is the id of its last message, `is_last` says that no page follows."""

    messages: list[Archived]
    last: str
    is_last: bool


class Owner(NamedTuple):
    """An address that has an archive, and the sender of our messages there."""

    address: str
    ours: str


class Archives:
    """The archives that are read, by the address of their room; "" is that of the account.

    `position` has the last message taken from each: its id and its moment. `sent` are the ids of our own
    messages that are still remembered.
    """

    def __init__(self, stream: Stream, user: str, position: str, sent: dict[str, None]) -> None:
        self._stream, self._user, self.sent = stream, user, sent
        self._positions = _read_position(position)
        self._owners: dict[str, Owner] = {}
        self._seen: dict[str, None] = {}
        self._pages: dict[str, tuple[str, list[Archived]]] = {}

    @property
    def position(self) -> str:
        """The positions of all, as text."""
        return msgspec.json.encode(self._positions).decode()

    @property
    def names(self) -> list[str]:
        """The archives that are read."""
        return list(self._owners)

    def owner(self, archive: str) -> str | None:
        """The address that owns an archive; None for one that is not read."""
        owner = self._owners.get(archive)
        return None if owner is None else owner.address

    def has_taken(self, known_as: str) -> bool:
        """True for the id of a taken message that is still remembered."""
        return known_as in self._seen

    def is_new(self, known_as: str) -> bool:
        """True, once, for the id of a message that was not taken."""
        is_new = known_as not in self._seen
        remember(self._seen, known_as)
        return is_new

    def advance(self, archive: str, archived: Archived) -> bool:
        """Make a message the last one taken; True if it is new."""
        self._positions[archive] = (archived.id, archived.at or time.time())
        return self.is_new(archived.id)

    def hear(self, sender: str, result: Element) -> None:
        """Take a message from an archive, if it answers our query."""
        archive, messages = self._pages.get(result.get("queryid", ""), ("", None))
        forwarded = forwarded_message(result)
        if messages is None or forwarded is None or (sender or self._user) != (archive or self._user):
            return
        messages.append(Archived(result.get("id", ""), *forwarded))

    async def open(self, archive: str, ours: str) -> None:
        """Read an archive from now on; `ours` is the sender of our messages there.

        The messages just before the position are remembered, both taken and sent ones. Without a position,
        the last message of the archive becomes the position.
        """
        self._owners[archive] = Owner(archive or self._user, ours)
        last, at = self._positions.get(archive, ("", time.time()))
        remember(self._seen, last)
        try:
            page = await self._page(archive, before=last)
        except ChatError:
            page = await self._page(archive, before="")
        for archived in page.messages:
            is_old = archive not in self._positions or last or (archived.at or at) < at
            if not self.was_sent(archive, archived.message) and is_old:
                remember(self._seen, archived.id)
        if archive not in self._positions:
            moments = [archived.at or at for archived in page.messages]
            self._positions[archive] = (page.last, moments[-1]) if moments else ("", at)

    def was_sent(self, archive: str, message: Element) -> bool:
        """True for a message of ours, whose id is then remembered.

        It never becomes the position, so that our last messages are found again after it.
        """
        sender = message.get("from", "")
        is_ours = (sender if archive else bare(sender)) == self._owners[archive].ours
        if is_ours:
            remember(self.sent, origin_id(message))
        return is_ours

    async def next_page(self, archive: str, after: str) -> Page:
        """The next page after an id; "" is the position. If its message is gone, its moment is used."""
        last, at = self._positions[archive]
        if last := after or last:
            with contextlib.suppress(ChatError):
                return await self._page(archive, after=last)
        return await self._page(archive, start=at)

    async def _page(
        self, archive: str, *, after: str = "", before: str | None = None, start: float | None = None
    ) -> Page:
        """A page of an archive; see `archive_query`."""
        query, messages = uuid4().hex, list[Archived]()
        self._pages[query] = (archive, messages)
        try:
            asked = archive_query(query, after=after, before=before, start=start, most=PAGE)
            answer = await self._stream.ask("set", asked, to=archive)
        finally:
            del self._pages[query]
        end = answer.find(f"{{{ARCHIVE}}}fin")
        if end is None:
            return Page(messages, "", is_last=True)
        last = end.findtext(f"{{{PAGES}}}set/{{{PAGES}}}last") or ""
        return Page(messages, last, is_last=end.get("complete") in ("true", "1"))


def remember(ids: dict[str, None], known_as: str) -> None:
    """Remember an id; if there are too many, forget the oldest."""
    ids[known_as] = None
    if len(ids) > _MOST_REMEMBERED:
        del ids[next(iter(ids))]


def _read_position(position: str) -> dict[str, tuple[str, float]]:
    """The positions in a text; empty if it has none."""
    if not position:
        return {}
    try:
        return msgspec.json.decode(position, type=dict[str, tuple[str, float]])
    except msgspec.DecodeError:
        return {}
