"""A session of XMPP: the messages of one connection, in the order of the archive, each once.

A message is read for its content and its sender, and for whether it is taken now, later or never.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Mapping
from uuid import uuid4
from xml.etree.ElementTree import Element

from narval.surfaces.chat.contract import AmbiguousError, ChatError, Incoming, Outgoing, Take, Tell
from narval.surfaces.chat.kinds.xmpp_archive import PAGE, Archived, Archives, Room, remember
from narval.surfaces.chat.kinds.xmpp_stanzas import (
    ARCHIVE,
    CARBONS,
    CLIENT,
    DELAY,
    MUC,
    MUC_USER,
    archive_ids,
    bare,
    element,
    forwarded_message,
    message_of,
    origin_id,
    resource,
    stanza_error,
    written,
)
from narval.surfaces.chat.kinds.xmpp_stream import Stream

_MOST_WAITING = 5_000
"""The most live messages that wait; any more are read from the archive."""
_QUIET_SECONDS = 60.0
"""Seconds of silence after which the server is pinged, and lost rooms are entered."""
_LATE_SECONDS = 1.0
_PING = "{urn:xmpp:ping}ping"
_INFO = "http://jabber.org/protocol/disco#info"


class Session:
    """The session of one connection."""

    def __init__(
        self,
        stream: Stream,
        user: str,
        rooms: Mapping[str, Room],
        position: str,
        sent: dict[str, None],
        is_known: Callable[[str], bool],
    ) -> None:
        self.xml_stream, self._user, self._is_known = stream, user, is_known
        self._archives = Archives(stream, user, position, sent)
        self._rooms = rooms
        self._reading = Reading(user, self._archives, self._rooms)
        self._waiting: deque[Element] = deque()
        self._is_news = asyncio.Event()
        self._outcomes: dict[str, tuple[str, asyncio.Future[Element]]] = {}
        stream.give_to(self.heard)

    # --- the course of a session ------------------------------------------------------------------------

    async def _begin(self) -> None:
        """Query the features of the server, announce our presence, and enter the rooms."""
        features = await self._features(self._user)
        if ARCHIVE in features:
            with contextlib.suppress(ChatError):  # a server that keeps everything may not allow changes
                await self.xml_stream.ask("set", element(f"{{{ARCHIVE}}}prefs", default="always"))
        with contextlib.suppress(ChatError):
            await self.xml_stream.ask("set", element(f"{{{CARBONS}}}enable"))
        self._say(element(f"{CLIENT}presence"))
        if ARCHIVE in features:
            await self._archives.open("", self._user)
        for room in self._rooms.values():
            await self._enter(room)

    async def _catch_up(self, take: Take) -> None:
        """Take what the archives have after the positions."""
        self._reading.is_behind = False
        for archive in self._archives.names:
            is_last, last = False, ""
            while not is_last:
                page = await self._archives.next_page(archive, last)
                last = page.last
                is_last = page.is_last or not page.messages
                taken = [self._reading.from_archive(archive, archived) for archived in page.messages]
                self._reading.expected.difference_update(archived.id for archived in page.messages)
                if batch := [message for message in taken if message is not None]:
                    await take(batch, self._archives.position)

    async def start(self, take: Take) -> None:
        """Start, and take what the archives have; the position is recorded even if that is nothing."""
        await self._begin()
        await self._catch_up(take)
        await take((), self._archives.position)

    async def follow(self, take: Take, tell: Tell) -> None:
        """Take new messages until the connection is lost, and report problems of the rooms."""
        while True:
            await tell("; ".join(filter(None, (room.trouble for room in self._rooms.values()))))
            if not self._waiting and not self._reading.is_behind:
                await self._pause()
            batch: list[Incoming] = []
            while self._waiting and not self._reading.is_behind and len(batch) < PAGE:
                message = self._reading.live(self._waiting.popleft())
                if message is not None:
                    batch.append(message)
            if batch:
                await take(batch, self._archives.position)
            if self._reading.is_behind:
                await self._catch_up(take)

    async def send(self, message: Outgoing) -> None:
        """Send a message, and wait until the server has it. Raises what `Kind.send` does."""
        room = self._rooms.get(bare(message.place))
        if room is not None and not room.is_entered:
            raise ChatError(f"the room {room.address} is not entered")
        outcome: asyncio.Future[Element] = self.xml_stream.loop.create_future()
        self._outcomes[message.id] = (bare(message.place), outcome)
        self._say(message_of(message, "chat" if room is None else "groupchat"))
        try:
            if room is None:
                await self.ping()  # it is answered after everything sent before
            else:
                async with asyncio.timeout(_QUIET_SECONDS / 2):
                    await self.xml_stream.unless_lost(asyncio.shield(outcome))
        except (OSError, TimeoutError) as error:
            if ("" if room is None else room.address) in self._archives.names:
                raise ConnectionError(str(error)) from None  # the archive will show whether it was sent
            raise AmbiguousError(f"it may have been sent: {error}") from None
        finally:
            self._outcomes.pop(message.id, None)
        if outcome.done() and (fault := stanza_error(outcome.result())) is not None:
            raise ChatError(f"{message.place}: {fault.message}", final=fault.final)
        remember(self._archives.sent, message.id)

    async def close(self) -> None:
        """Hang up."""
        await self.xml_stream.closed()

    # --- incoming stanzas -------------------------------------------------------------------------------

    def heard(self, xml: Element) -> None:
        """Handle an incoming presence or message."""
        sender = xml.get("from", "")
        room = self._rooms.get(bare(sender))
        kind = xml.get("type", "")
        if room is not None:
            room.heard(xml)
        if xml.tag == f"{CLIENT}presence":
            if room is not None:
                room.presence(xml)
            elif kind == "subscribe" and self._is_known(bare(sender)):
                self._say(element(f"{CLIENT}presence", to=bare(sender), type="subscribed"))
        elif (result := xml.find(f"{{{ARCHIVE}}}result")) is not None:
            self._archives.hear(sender, result)
        elif kind == "error" or (room is not None and room.is_mine(xml)):
            place, outcome = self._outcomes.get(origin_id(xml), ("", None))
            if outcome is not None and not outcome.done() and bare(sender) in (place, self._user, ""):
                outcome.set_result(xml)
        elif len(self._waiting) >= _MOST_WAITING:
            self._reading.fall_behind()
        else:
            self._waiting.append(xml)
        self._is_news.set()

    # --- asking -----------------------------------------------------------------------------------------

    async def _features(self, address: str) -> set[str]:
        """The features that an address reports; none if it does not answer."""
        try:
            answer = await self.xml_stream.ask("get", element(f"{{{_INFO}}}query"), to=address)
        except ChatError:
            return set()
        return {feature.get("var", "") for feature in answer.iterfind(f"{{{_INFO}}}query/{{{_INFO}}}feature")}

    async def _enter(self, room: Room) -> None:
        """Enter a room, under another nick if ours is taken."""
        for nick in (room.name, f"{room.name}-2"):
            room.enter()
            presence = element(f"{CLIENT}presence", to=f"{room.address}/{nick}")
            asked = element(f"{{{MUC}}}x")
            asked.append(element(f"{{{MUC}}}history", maxstanzas="0"))
            presence.append(asked)
            self._say(presence)
            try:
                async with asyncio.timeout(_QUIET_SECONDS / 4):
                    await self.xml_stream.unless_lost(asyncio.ensure_future(room.answered.wait()))
            except TimeoutError:
                room.refuse(ChatError("it does not answer"))
            if room.fault is None or room.fault.message != "conflict":
                break
        if room.fault is None and ARCHIVE in await self._features(room.address):
            await self._archives.open(room.address, f"{room.address}/{room.nick}")

    async def _pause(self) -> None:
        """Wait for news; after a long silence ping the server, and enter rooms again."""
        self._is_news.clear()
        seconds = _LATE_SECONDS if self._reading.expected else _QUIET_SECONDS
        try:
            async with asyncio.timeout(seconds):
                await self.xml_stream.unless_lost(asyncio.ensure_future(self._is_news.wait()))
        except TimeoutError:
            if self._reading.expected:  # an archive may be a little late
                self._reading.fall_behind()
                return
            await self.ping()
            for room in self._rooms.values():
                if not room.is_entered:
                    await self._enter(room)

    async def ping(self) -> None:
        """Wait until the server has everything sent. Raises ConnectionError."""
        with contextlib.suppress(ChatError):  # a refusal is an answer, too
            await self.xml_stream.ask("get", element(_PING))

    def _say(self, stanza: Element) -> None:
        self.xml_stream.send_xml(stanza)


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

    def live(self, xml: Element) -> Incoming | None:
        """A live message, if it has content and is new; if that is uncertain, the archive is asked."""
        received = xml.find(f"{{{CARBONS}}}received")
        if received is not None or xml.find(f"{{{CARBONS}}}sent") is not None:
            forwarded = forwarded_message(received) if received is not None else None
            if forwarded is None or xml.get("from", self._user) != self._user:
                return None
            xml = forwarded[0]
        archive = bare(xml.get("from", "")) if xml.get("type") == "groupchat" else ""
        if archive and archive not in self._rooms:
            return None
        owner = self._archives.owner(archive)
        ids = archive_ids(xml, owner) if owner is not None else []
        if ids and all(map(self._archives.has_taken, ids)):
            return None
        is_late = xml.find(DELAY) is not None
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
        known_as = f"{bare(xml.get('from', ''))} {origin_id(xml) or uuid4().hex}"
        is_new = self._archives.is_new(known_as)
        return self._incoming(archive, Archived(known_as, xml, at, is_live=True)) if is_new else None

    def from_archive(self, archive: str, archived: Archived) -> Incoming | None:
        """A message of an archive, which becomes the position; None if it is empty or already taken."""
        if self._archives.was_sent(archive, archived.message):
            return None
        return self._incoming(archive, archived) if self._archives.advance(archive, archived) else None

    def _incoming(self, archive: str, archived: Archived) -> Incoming | None:
        message = archived.message
        sender, kind = bare(message.get("from", "")), message.get("type", "normal")
        said = written(message)
        if archive:
            room = self._rooms[archive]
            sender = room.writer(message, is_live=archived.is_live)
            if said is None or not sender or kind != "groupchat":
                return None
            replies_to = room.ours.get(said.replies_to, said.replies_to)
        else:
            # A private message of an occupant of a room comes from the address of the room.
            is_private = sender in self._rooms or message.find(f"{MUC_USER}x") is not None
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
            name=resource(message.get("from", "")) if archive else "",
            at=archived.at,
            replies_to=replies_to,
            file=said.file,
            is_edit=said.is_edit,
            is_forwarded=said.is_forwarded,
            is_encrypted=said.is_encrypted,
        )
