"""A room of XMPP (XEP-0045): its occupants, by the addresses that the room itself reports.

A nick is only a claim, and changes. The sender of a line is known only in a room that shows all addresses to
everyone; elsewhere no sender is known, whatever the line itself claims.
"""

from __future__ import annotations

import asyncio
from xml.etree.ElementTree import Element

from narval.surfaces.chat.contract import ChatError
from narval.surfaces.chat.kinds import xmpp_stanzas

_OURS, _SHOWN = "110", ("100", "172")
"""The status codes of our own presence, and of a room that shows addresses."""
_HIDDEN = ("173", "174")
"""The status codes of a room that stops showing addresses."""
_MOST_REMEMBERED = 1_000


class Room:
    """A room, and its state since it was entered; `known_as` is its name in the settings."""

    def __init__(self, known_as: str, name: str) -> None:
        self.known_as, self.address = known_as, xmpp_stanzas.bare(known_as)
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
            xmpp_stanzas.resource(xml.get("from", "")),
            xmpp_stanzas.room_codes(xml),
            xml.get("type", ""),
        )
        if kind == "error":
            self.refuse(xmpp_stanzas.stanza_error(xml) or ChatError("it refuses"))
        elif kind == "unavailable":
            self._addresses.pop(nick, None)
            if _OURS in codes and "303" not in codes:
                self.is_entered = False
        elif not kind:
            addresses = list(xmpp_stanzas.real_addresses(xml))
            self._addresses[nick] = addresses[0] if len(addresses) == 1 else ""
            if _OURS in codes:
                self.nick, self.is_entered = nick, True
                self.shows_addresses = "100" in codes or self.shows_addresses
                self.answered.set()

    def heard(self, message: Element) -> None:
        """Record a change of the room from a message that the room itself sent."""
        if xmpp_stanzas.resource(message.get("from", "")) or message.get("type") != "groupchat":
            return
        codes = xmpp_stanzas.room_codes(message)
        if codes.intersection(_HIDDEN):
            self.shows_addresses = False
            self._addresses.clear()
        elif codes.intersection(_SHOWN):
            # Present occupants are known after the room lists them again.
            self.shows_addresses = True

    def is_mine(self, message: Element) -> bool:
        """True for a line of ours that the room sends back."""
        mine = (
            message.get("type") == "groupchat" and xmpp_stanzas.resource(message.get("from", "")) == self.nick
        )
        if mine and self.is_entered:
            if len(self.ours) >= _MOST_REMEMBERED:
                del self.ours[next(iter(self.ours))]
            for known_as in xmpp_stanzas.archive_ids(message, self.address):
                self.ours[known_as] = xmpp_stanzas.origin_id(message)
        return mine

    def writer(self, message: Element, *, is_live: bool) -> str:
        """The address of the sender of a line; "" if it is unknown.

        For a line from the archive it is the address that the archive adds. If there are two, the sender
        forged one of them, so neither is used.
        """
        if not self.shows_addresses:
            return ""
        if is_live:
            return self._addresses.get(xmpp_stanzas.resource(message.get("from", "")), "")
        addresses = list(xmpp_stanzas.real_addresses(message))
        return addresses[0] if len(addresses) == 1 else ""
