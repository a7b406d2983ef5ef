"""Reading messages of XMPP: their content, their sender, and whether each is taken now, later or never."""

from __future__ import annotations

import time
from collections.abc import Mapping
from uuid import uuid4
from xml.etree.ElementTree import Element

from narval.surfaces.chat.contract import Incoming
from narval.surfaces.chat.kinds import xmpp_stanzas
from narval.surfaces.chat.kinds.xmpp_archive import Archived, Archives
from narval.surfaces.chat.kinds.xmpp_rooms import Room


class Reading:
    """The reader of the messages of an account and of its rooms."""

    def __init__(self, user: str, archives: Archives, rooms: Mapping[str, Room]) -> None:
        self._user, self._archives, self._rooms = user, archives, rooms
        self.is_behind = False
        """True if the archives must be asked before anything else is taken."""
        self.expected: set[str] = set()
        """The ids that an archive should have, according to live messages."""

    def fall_behind(self) -> None:
        """Require a query of the archives, the only authority. Expected ids are dropped: if an archive does
        not have them, they were forged, or are old.
        """
        self.is_behind = True
        self.expected.clear()

    def catch_up(self) -> None:
        """Record that the archives are being asked."""
        self.is_behind = False

    def live(self, xml: Element) -> Incoming | None:
        """A live message, if it has content and is new; if that is uncertain, the archive is asked."""
        received = xml.find(f"{{{xmpp_stanzas.CARBONS}}}received")
        if received is not None or xml.find(f"{{{xmpp_stanzas.CARBONS}}}sent") is not None:
            forwarded = xmpp_stanzas.forwarded_message(received) if received is not None else None
            if forwarded is None or xml.get("from", self._user) != self._user:
                return None
            xml = forwarded[0]
        archive = xmpp_stanzas.bare(xml.get("from", "")) if xml.get("type") == "groupchat" else ""
        if archive and archive not in self._rooms:
            return None
        owner = self._archives.owner(archive)
        ids = xmpp_stanzas.archive_ids(xml, owner) if owner is not None else []
        if ids and all(map(self._archives.has_taken, ids)):
            return None
        is_late = xml.find(xmpp_stanzas.DELAY) is not None
        if ids and (not archive or is_late or len(ids) > 1):
            # The archive has it, and delivers it once. What the message itself claims may be forged.
            self.expected.update(ids)
            self.is_behind = True
            return None
        if archive and is_late:
            return None
        at = time.time()
        if ids:
            return self.from_archive(archive, Archived(ids[0], xml, at, is_live=True))
        # Without an archive, a message is identified by its sender's id.
        known_as = f"{xmpp_stanzas.bare(xml.get('from', ''))} {xmpp_stanzas.origin_id(xml) or uuid4().hex}"
        is_new = self._archives.is_new(known_as)
        return self._incoming(archive, Archived(known_as, xml, at, is_live=True)) if is_new else None

    def from_archive(self, archive: str, archived: Archived) -> Incoming | None:
        """A message of an archive, which becomes the position; None if it is empty or already taken."""
        if self._archives.was_sent(archive, archived.message):
            return None
        return self._incoming(archive, archived) if self._archives.advance(archive, archived) else None

    def _incoming(self, archive: str, archived: Archived) -> Incoming | None:
        message = archived.message
        sender, kind = xmpp_stanzas.bare(message.get("from", "")), message.get("type", "normal")
        said = xmpp_stanzas.written(message)
        if archive:
            room = self._rooms[archive]
            sender = room.writer(message, is_live=archived.is_live)
            if said is None or not sender or kind != "groupchat":
                return None
            replies_to = room.ours.get(said.replies_to, said.replies_to)
        else:
            # A private message of an occupant of a room comes from the address of the room.
            is_private = sender in self._rooms or message.find(f"{xmpp_stanzas.MUC_USER}x") is not None
            if said is None or sender in ("", self._user) or is_private or kind not in ("chat", "normal"):
                return None
            replies_to = said.replies_to
        return Incoming(
            id=f"{archive}/{archived.id}" if archive else archived.id,
            position=self._archives.position,
            sender=sender,
            place=archive or sender,
            text=said.text,
            room=self._rooms[archive].known_as if archive else "",
            name=xmpp_stanzas.resource(message.get("from", "")) if archive else "",
            at=archived.at,
            replies_to=replies_to,
            file=said.file,
            is_edit=said.is_edit,
            is_forwarded=said.is_forwarded,
            is_encrypted=said.is_encrypted,
        )
