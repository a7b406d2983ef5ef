"""XMPP: the kind of chat for an account at any XMPP server, by slixmpp.

The archive of the account (XEP-0313) is authoritative: a message is identified by its id there, and messages
from a time without connection are read from it. A message that is delivered late is not taken as delivered:
the archive is asked for everything after the position. Our own messages are found there by the id that we
gave them, so one that was sent before the connection was lost is not sent again.
"""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

from slixmpp import JID, InvalidJID

from narval.core.errors import OperatorError
from narval.files.outside.chats import ChatSettings
from narval.files.people_file import PeopleNow
from narval.surfaces.chat.contract import ChatError, IncomingFile, Kind, Outgoing, Take, Tell
from narval.surfaces.chat.kinds.xmpp_archive import Room
from narval.surfaces.chat.kinds.xmpp_session import Session
from narval.surfaces.chat.kinds.xmpp_stanzas import bare
from narval.surfaces.chat.kinds.xmpp_stream import Stream, silence
from narval.surfaces.chat.web_api import not_allowed
from narval.system.fetch import FetchError, fetched

_CONNECTING_SECONDS = 20.0
"""Seconds for which an outgoing message waits for the connection."""
_FINAL = frozenset({"bad-address", "bad-answer", "too-large"})


class XmppChat:
    """The chat of an account of XMPP; see `Kind`."""

    can = frozenset({"edit", "ids", "rooms", "files"})

    def __init__(
        self, settings: ChatSettings, home: Path, name: str, secret: str, tls: ssl.SSLContext
    ) -> None:
        self._settings, self._secret, self._tls = settings, secret, tls
        self._people = PeopleNow(home)
        self._name, self._user = name, bare(settings.user)
        self._tls_ca = home / settings.tls_ca if settings.tls_ca else None
        self._place = _host_and_port(settings.server)
        self._sent: dict[str, None] = {}
        self.session: Session | None = None
        """The current session; None while there is no connection."""
        self.is_ready = asyncio.Event()

    async def listen(self, position: str, take: Take, tell: Tell) -> None:
        """Connect, take messages after a position, then new ones; see `Kind`."""
        stream = Stream(self._user, self._secret, self._tls)
        rooms = {bare(room): Room(room, self._name) for room in self._settings.rooms}
        session = Session(stream, self._user, rooms, position, self._sent, self._is_known)
        try:
            await stream.opened(*self._place)
            await session.start(take)
            self.session = session
            self.is_ready.set()
            await session.follow(take, tell)
        finally:
            self.is_ready.clear()
            self.session = None
            await stream.closed()

    async def send(self, message: Outgoing) -> str:
        """Send a message; see `Kind`. A message that is already in the archive is not sent again."""
        try:
            JID(message.place)
        except InvalidJID:
            raise ChatError(f"{message.place!r:.100} is no address of XMPP", final=True) from None
        if self.session is None:
            try:
                async with asyncio.timeout(_CONNECTING_SECONDS):
                    await self.is_ready.wait()
            except TimeoutError:
                raise ConnectionError(f"{self._user} is not connected") from None
        if self.session is None:
            raise ConnectionError(f"{self._user} is not connected")
        if message.id not in self._sent:
            await self.session.send(message)
        return message.id

    async def fetch(self, file: IncomingFile, path: Path, most: int) -> None:
        """Fetch a file that a message links, by https and from the public internet; see `Kind`."""
        if not file.reference.startswith("https://"):
            raise ChatError(f"expected a file by https, got {file.reference[:100]!r}", final=True)
        try:
            answer = await fetched(file.reference, allow=self._settings.allow, most=most, tls_ca=self._tls_ca)
        except FetchError as error:
            if error.kind == "forbidden":
                raise not_allowed(self._settings, file.reference) from None
            raise ChatError(str(error), final=error.kind in _FINAL) from None
        if not answer.url.startswith("https://"):
            raise ChatError("expected a file by https, was led to one without", final=True)
        if answer.status != 200:
            raise ChatError(f"the server of the file answers {answer.status} {answer.reason}", final=True)
        await asyncio.to_thread(path.write_bytes, answer.body)

    async def close(self) -> None:
        """Hang up: `listen` ends with ConnectionError."""
        if self.session is not None:
            await self.session.close()

    def _is_known(self, address: str) -> bool:
        """True if an address belongs to a person of the directory."""
        return self._people.by_chat(f"xmpp:{address}") is not None


def open_chat(settings: ChatSettings, home: Path, secret: str) -> Kind:
    """Prepare the chat of an account. Raises OperatorError for settings without an account."""
    silence()
    expected = f"{settings} in etc/narval.toml: expected"
    try:
        account = JID(settings.user)
    except InvalidJID:
        account = JID("")
    if not account.user or not account.domain:
        raise OperatorError(f'{expected} user = "narval@example.org", an account, found {settings.user!r}')
    if not secret:
        raise OperatorError(f"{expected} secret, the name of what has the password of {settings.user}")
    try:
        tls = ssl.create_default_context(cafile=str(home / settings.tls_ca) if settings.tls_ca else None)
    except (OSError, ssl.SSLError) as error:
        raise OperatorError(
            f"{expected} tls_ca, a file of certificates: {settings.tls_ca}: {error}"
        ) from None
    try:
        return XmppChat(settings, home, settings.called or account.user, secret, tls)
    except ValueError:
        raise OperatorError(
            f"{expected} server, a host with or without a port, found {settings.server!r}"
        ) from None


def _host_and_port(server: str) -> tuple[str, int]:
    """The host and port of a server, by default 5222; neither if DNS must be asked."""
    if not server:
        return "", 0
    if server.startswith("[") or server.count(":") == 1:
        host, _, port = server.rpartition(":") if not server.endswith("]") else (server, "", "5222")
        return host.strip("[]"), int(port)
    return server.strip("[]"), 5222
