"""The connection of XMPP: slixmpp, hardened.

Nothing is read as a message before TLS is checked and the login is done. Redirections to another server are
not followed: `see-other-host` would have the certificate checked for a name chosen by an attacker. A document
type is refused, and only the outermost element is kept of a stanza that is too large or too deep. Messages
and presences never reach slixmpp's own stanzas: `heard` gets them as plain elements.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any, Literal
from xml.etree import ElementTree
from xml.parsers import expat

from slixmpp import ClientXMPP
from slixmpp.exceptions import IqError, IqTimeout

from narval.surfaces.chat.contract import ChatError

CLIENT = "{jabber:client}"
RESOURCE = "narval"
"""The resource of each connection: a new one ends the previous one, with all requests under way."""
DIRECT_TLS_PORTS = (443, 5223)
"""The ports where TLS starts with the connection."""

_SECONDS = 30.0
"""The longest time, in seconds, for connecting and for each answer of a server."""
_MOST_BYTES = 8 * 1024 * 1024
"""The most bytes of a stanza: more end the connection. Servers allow users less than one megabyte."""
_MOST_TEXT, _MOST_ELEMENTS, _MOST_DEPTH = 512 * 1024, 2_000, 40
"""The limits above which a stanza is emptied."""
_WRONG_LOGIN = frozenset({"not-authorized", "account-disabled", "credentials-expired", "invalid-authzid"})


class StreamError(Exception):
    """A stream that is not XMPP, or is refused."""


class StanzaParser:
    """The parser of a stream, in place of `XMLPullParser`: `feed`, then `read_events`."""

    def __init__(self) -> None:
        # The encoding is set here, as a stream is UTF-8 whatever it declares.
        self._expat = parser = expat.ParserCreate("utf-8", "}")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._data
        parser.StartDoctypeDeclHandler = self._doctype
        if hasattr(parser, "SetReparseDeferralEnabled"):
            parser.SetReparseDeferralEnabled(False)
        self._tree = ElementTree.TreeBuilder()
        self._events: list[tuple[str, ElementTree.Element]] = []
        self._fault: StreamError | None = None
        self._depth = self._built = self._bytes = self._text = self._elements = 0
        self._is_too_large = False

    def feed(self, data: bytes | str) -> None:
        """Parse data; `read_events` raises a fault in it."""
        self._bytes += len(data)
        try:
            if self._fault is None and self._bytes > _MOST_BYTES:
                raise StreamError(f"a stanza of more than {_MOST_BYTES:,} bytes")
            if self._fault is None:
                self._expat.Parse(data, False)
        except StreamError as fault:
            self._fault = fault
        except expat.ExpatError as fault:
            self._fault = StreamError(str(fault))

    def read_events(self) -> Iterator[tuple[str, ElementTree.Element]]:
        """The start and end events of elements since the last call. Raises StreamError after them."""
        events, self._events = self._events, []
        yield from events
        if self._fault is not None:
            raise self._fault

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._count(sum(map(len, attributes.values())), elements=1)
        # An element is built if its parent is: `_built` counts those that are open and built.
        if self._depth == self._built + 1 and (not self._is_too_large or self._depth <= 2):
            self._built += 1
            named = {_tag(key): value for key, value in attributes.items()}
            self._events.append(("start", self._tree.start(_tag(name), named)))

    def _end(self, name: str) -> None:
        if self._depth == self._built:
            self._built -= 1
            element = self._tree.end(_tag(name))
            if self._depth == 2:
                if self._is_too_large:
                    element[:] = []
                    element.text = None
                self._bytes = self._text = self._elements = 0
                self._is_too_large = False
            self._events.append(("end", element))
        self._depth -= 1

    def _data(self, text: str) -> None:
        self._count(len(text), elements=0)
        if self._depth > 1 and self._depth == self._built:
            self._tree.data(text)

    def _count(self, text: int, *, elements: int) -> None:
        self._text += text
        self._elements += elements
        if self._text > _MOST_TEXT or self._elements > _MOST_ELEMENTS or self._depth > _MOST_DEPTH:
            self._is_too_large = True

    def _doctype(self, *_: object) -> None:
        raise StreamError("a document type, which XMPP forbids")


def _tag(name: str) -> str:
    return f"{{{name}" if "}" in name else name


class Stream(ClientXMPP):
    """A connection of an account, from `opened` until `lost` is done."""

    def __init__(self, user: str, secret: str, tls: ssl.SSLContext) -> None:
        super().__init__(f"{user}/{RESOURCE}", secret, ssl_context=tls)
        self.lost: asyncio.Future[Exception] = self.loop.create_future()
        """Done with the reason when the connection is lost."""
        self._heard: Callable[[ElementTree.Element], None] = _ignore
        self._is_open = False
        self._wrong_login = ""
        self._last_failure = ""
        for name in ("IM", "IMError", "Presence", "Stream Error", "Roster Update"):
            if not self.remove_handler(name):
                raise RuntimeError(f"this slixmpp has no handler {name!r} to remove")
        for name, handler in (
            ("session_start", self._begun),
            ("connection_failed", self._attempt_failed),
            ("reconnect_delay", self._gave_up),
            ("ssl_invalid_chain", self._not_trusted),
            ("failed_auth", self._refused),
            ("failed_all_auth", self._not_let_in),
            ("disconnected", self._ended),
        ):
            self.add_event_handler(name, handler)
        self._begun_once = asyncio.Event()

    def give_to(self, heard: Callable[[ElementTree.Element], None]) -> None:
        """Set the receiver of incoming messages and presences."""
        self._heard = heard

    async def opened(self, host: str, port: int) -> None:
        """Connect and log in; without a host, to the one that DNS names for the domain of the account.

        Raises ChatError (final) for a wrong login, else ConnectionError.
        """
        self.enable_direct_tls = not host or port in DIRECT_TLS_PORTS
        self.enable_starttls = not host or port not in DIRECT_TLS_PORTS
        self.connect(host or None, port or None)
        try:
            async with asyncio.timeout(_SECONDS):
                await self.unless_lost(asyncio.ensure_future(self._begun_once.wait()))
        except TimeoutError:
            tail = f": {self._last_failure}" if self._last_failure else ""
            raise ConnectionError(f"no connection within {_SECONDS:g} s{tail}") from None

    async def ask(
        self, kind: Literal["get", "set"], payload: ElementTree.Element, to: str = ""
    ) -> ElementTree.Element:
        """The answer of a server to a query. Raises ChatError if it refuses, ConnectionError without an
        answer.
        """
        iq = self.make_iq(ito=to or None, itype=kind)
        iq.append(payload)
        try:
            answer = await self.unless_lost(iq.send(timeout=_SECONDS))  # type: ignore[no-untyped-call]
        except IqTimeout:
            self.lose(ConnectionError(f"no answer of {to or 'the server'} within {_SECONDS:g} s"))
            raise ConnectionError(f"no answer of {to or 'the server'} within {_SECONDS:g} s") from None
        except IqError as error:
            condition, text = error.iq["error"]["condition"], error.iq["error"]["text"]
            raise ChatError(f"{to or 'the server'}: {condition}{f' ({text:.200})' if text else ''}") from None
        return answer.xml  # type: ignore[no-any-return]

    async def unless_lost(self, future: asyncio.Future[Any]) -> Any:
        """The result of a future. Raises the reason in `lost` if that comes first."""
        try:
            await asyncio.wait((future, self.lost), return_when=asyncio.FIRST_COMPLETED)
            if future.done():
                return future.result()
            raise self.lost.result()
        finally:
            if not future.done():
                future.cancel()

    def lose(self, why: Exception) -> None:
        """Hang up at once, for a reason."""
        if not self.lost.done():
            self.lost.set_result(why)
        self._is_open = False
        self.cancel_connection_attempt()
        self.abort()

    async def closed(self) -> None:
        """Close the stream, and cancel what still runs."""
        if self.transport is not None and not self.lost.done():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2):
                    await self.disconnect(wait=1.0)
        self.lose(ConnectionError("hung up"))
        if self._run_out_filters is not None:
            self._run_out_filters.cancel()

    @property
    def _has_tls(self) -> bool:
        return isinstance(self.socket, ssl.SSLObject | ssl.SSLSocket)

    # --- what slixmpp calls -----------------------------------------------------------------------------

    def init_parser(self) -> None:
        """Begin a stream again, with a bounded parser."""
        self.xml_depth, self.xml_root = 0, None
        self.parser = StanzaParser()  # type: ignore[assignment]

    def data_received(self, data: bytes | str) -> None:
        """Parse data; an error of the parser or a handler ends the connection."""
        self._acknowledge_at_once()
        try:
            super().data_received(data)
        except StreamError as error:
            self.lose(ConnectionError(f"the server says what is refused: {error}"))
        except Exception as error:
            self.lose(ConnectionError(f"what came could not be read: {type(error).__name__}: {error}"))

    def _acknowledge_at_once(self) -> None:
        """Have the system acknowledge received data at once. Otherwise a server that answers in two small
        writes holds back the second, which costs 40 ms for each query to the archive. It must be set each
        time.
        """
        wire = None if self.transport is None else self.transport.get_extra_info("socket")
        if wire is not None and hasattr(socket, "TCP_QUICKACK"):
            with contextlib.suppress(OSError):
                wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    def _spawn_event(self, xml: ElementTree.Element) -> None:
        """Pass a stanza to its handler; slixmpp itself gets those of the login, and answers."""
        if not isinstance(self.parser, StanzaParser):
            raise RuntimeError("this slixmpp does not ask `init_parser` for its parser")
        if xml.tag in (f"{CLIENT}message", f"{CLIENT}presence"):
            if self._is_open:
                self._heard(xml)
        elif xml.tag == f"{{{self.stream_ns}}}error":
            conditions = [child.tag.rpartition("}")[2] for child in xml]
            self.lose(ConnectionError(f"the server ended the connection: {', '.join(conditions)[:200]}"))
        elif xml.tag != f"{CLIENT}iq" or xml.get("type") in ("result", "error") or self._is_ours(xml):
            super()._spawn_event(xml)

    def _is_ours(self, xml: ElementTree.Element) -> bool:
        """True for stanzas of our own server: queries of others are not answered."""
        return xml.get("from", "") in ("", self.boundjid.bare, self.boundjid.host)

    async def _handle_stream_features(self, features: Any) -> Any:
        """Continue only with TLS."""
        if not self._has_tls and "starttls" not in features["features"]:
            self.lose(ConnectionError("the server offers no TLS, so nothing is said to it"))
            return True
        return await super()._handle_stream_features(features)

    # --- events -----------------------------------------------------------------------------------------

    def _begun(self, _: object) -> None:
        if not self._has_tls:
            self.lose(ConnectionError("the server began a session without TLS"))
            return
        self._is_open = True
        self._begun_once.set()

    def _attempt_failed(self, error: object) -> None:
        self._last_failure = _reason(error)

    def _gave_up(self, _: object) -> None:
        self.lose(
            ConnectionError(f"the server cannot be reached: {self._last_failure or 'it has no address'}")
        )

    def _not_trusted(self, error: object) -> None:
        self.lose(ConnectionError(_reason(error)))

    def _refused(self, failure: Any) -> None:
        self._wrong_login = str(failure["condition"])

    def _not_let_in(self, _: object) -> None:
        condition = self._wrong_login
        if condition in _WRONG_LOGIN:
            self.lose(
                ChatError(f"the server refuses the login of {self.boundjid.bare}: {condition}", final=True)
            )
        elif condition:
            self.lose(ConnectionError(f"the login failed: {condition}"))
        else:
            self.lose(ConnectionError("the server offers no way to log in that is known here"))

    def _ended(self, reason: object) -> None:
        is_refusal = isinstance(reason, ssl.SSLError)
        lost = f"the connection was lost{f': {reason}' if reason else ''}"
        self.lose(ConnectionError(_reason(reason) if is_refusal else lost))


def _reason(error: object) -> str:
    """The reason why there is no connection, with advice about a certificate."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the certificate of the server is not trusted: {error.verify_message}; if its authority is your "
            f"own, name the file of its certificate by tls_ca"
        )
    return f"{error or type(error).__name__}"


def _ignore(_: ElementTree.Element) -> None:
    pass


def silence() -> None:
    """Keep slixmpp from logging, as it would log what strangers write."""
    logging.getLogger("slixmpp").setLevel(logging.CRITICAL + 1)
