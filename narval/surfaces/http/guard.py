"""The guard of the pages: what a request must satisfy before any page sees it, and the headers of answers.

The order of checks: size of the header, Host, method, Origin, session and role, rate, form and token (M66,
M68, M69, M74). Webhooks, calls, metrics and the health check skip everything after the method: cookies are
ignored there. They have tokens of their own, except the last, which reveals nothing.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from email.utils import formatdate
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote

from narval.surfaces.http.page import BY_PAGE, FIELDS, MODE, NAVIGATE, REFUSED, VISITOR, Fields, Visitor
from narval.surfaces.http.place import WebPlace
from narval.surfaces.http.saved_forms import LONG, NOT_ANSWERED, SavedForms
from narval.surfaces.http.sessions import PeopleOfHome, Sessions, WebSession, form_token

log = logging.getLogger("narval.web")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

LOGIN, LOGOUT, KEPT, STATIC, LIVE = "/login", "/logout", "/kept", "/static/", "/live"
HOOKS, CALLS, METRICS, HEALTH = "/hook/", "/call/", "/metrics", "/healthz"
TOKEN = "token"  # noqa: S105
"""The name of the field in which a form has the token of its session."""

SECRET = "narval.secret"  # noqa: S105
"""The key in the scope of a request under which the secret of its session is left for the login pages."""

ENDED = "narval.ended"
"""The key in the scope of a request under which an ended session of a browser is left."""

ADMITTED = "narval.admitted"
"""The key in the scope of a request that has shown a valid session, or the token of a webhook."""

FORM = "application/x-www-form-urlencoded"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; worker-src 'self'"
)
"""The content security policy of every answer."""

SECURITY: Mapping[str, str] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""The headers of every answer, also of errors; static files have their own `cache-control`."""


class RequestLimits(NamedTuple):
    """The limits on requests; times in seconds, sizes in bytes."""

    header: int = 16_384
    body: int = 1_000_000
    login: int = 4_096
    """of a form without a login"""
    fields: int = 500
    sending: float = 10.0
    """for a request to arrive"""
    taking: float = 10.0
    """for a client to read what was written to it"""
    rate: int = 50
    """requests of a session in a second"""
    known: float = 15.0
    """for which a role is cached while a page is followed"""


class RefusedError(Exception):
    """A request that no page may see: the status, a sentence, and headers of the answer."""

    def __init__(self, status: int, sentence: str, **headers: str) -> None:
        super().__init__(sentence)
        self.status, self.headers = status, {name.replace("_", "-"): text for name, text in headers.items()}


class Guard:
    """The application of all pages behind the guard.

    `scarce` limits, by the last part of an address, how many times an hour a session may send a form there.
    """

    def __init__(
        self,
        application: Application,
        place: WebPlace,
        sessions: Sessions,
        people: PeopleOfHome,
        forms: SavedForms,
        *,
        scarce: Mapping[str, int] | None = None,
        limits: RequestLimits | None = None,
    ) -> None:
        self._application, self._place, self._sessions, self._people = application, place, sessions, people
        self._forms, self._scarce, self._limits = forms, scarce or {}, limits or RequestLimits()
        self._counts: dict[str, tuple[int, dict[int, int]]] = {}
        """For each counted kind of request: its second or hour, and the count of each session in it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request (ASGI)."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._application(scope, receive, send)
            return
        answer = _Answer(send, keeps_cache=scope["path"].startswith(STATIC))
        try:
            receive = await self._admit(scope, receive, answer)
            await self._application(scope, receive, answer.send)
        except RefusedError as refusal:
            await answer.refuse(refusal)
        except Exception:
            log.exception("the answer to %s %s broke", scope["method"], scope["path"])
            if not answer.begun:
                await answer.refuse(RefusedError(500, "This broke down; the log of narval web says where."))

    # --- a request --------------------------------------------------------------------------------------

    async def _admit(self, scope: Scope, receive: Receive, answer: _Answer) -> Receive:
        """The messages that the application may receive. Raises RefusedError."""
        headers, path, method = self._headers(scope), scope["path"], scope["method"]
        scope["scheme"], scope[BY_PAGE] = self._place.scheme, headers.get(MODE, NAVIGATE) == NAVIGATE
        if method not in ("GET", "HEAD", "POST"):
            raise RefusedError(405, "Pages are asked for by GET, and acts by POST.", allow="GET, HEAD, POST")
        receive = in_time(receive, self._limits.sending)
        if path.startswith((HOOKS, CALLS)) or path in (METRICS, HEALTH):
            return receive
        if method == "POST":
            self._check_origin(headers)
        secret, visitor, ended = "", None, None
        if not path.startswith(STATIC):
            act = path if method == "POST" else ""
            secret, visitor, ended = await self._visitor(headers.get("cookie", ""), act)
            if visitor is None and path != LOGIN:
                if ended is not None and method == "POST":
                    await self._keep(scope, headers, receive, secret, ended)
                raise _not_logged_in(scope, has_ended=ended is not None)
        if visitor is not None:
            answer.follow(lambda data: self._goes_on(secret, data))
            scope[ADMITTED] = True
        scope[VISITOR], scope[SECRET], scope[ENDED] = visitor, secret, ended
        if method != "POST":
            return receive
        most = self._limits.login if visitor is None else self._limits.body
        try:
            fields = await self._form(headers, receive, most)
        except RefusedError as refusal:
            if visitor is None or path in (LOGIN, LOGOUT, KEPT):
                raise
            scope[REFUSED] = refusal
            return _nothing_more(receive)
        if path != LOGIN and not (visitor is not None and _is_of(fields, visitor.token)):
            raise RefusedError(403, "This form is of another session: reload the page, and send it again.")
        scope[FIELDS] = fields if path == LOGIN else _without_token(fields)
        if visitor is not None:
            self._forms.drop(int(visitor.session), _target(scope))
            if scope[BY_PAGE]:
                answer.undone = partial(self._forms.keep_undone, visitor, _target(scope), scope[FIELDS])
        return _nothing_more(receive)

    def _headers(self, scope: Scope) -> Mapping[str, str]:
        """The headers of a request that is small enough and whose Host is ours. Raises RefusedError."""
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        target = scope.get("raw_path") or scope["path"].encode()
        length = len(target) + len(scope["query_string"])
        if length + sum(len(name) + len(value) + 4 for name, value in headers) > self._limits.header:
            raise RefusedError(431, f"A request's header is at most {self._limits.header:,} bytes long.")
        by_name: dict[str, str] = {}
        for name, value in headers:
            by_name[name] = f"{by_name[name]}; {value}" if name in by_name else value
        if "transfer-encoding" in by_name and ("content-length" in by_name or scope["http_version"] == "1.0"):
            # a proxy may see the end of this request elsewhere than we do, and the rest as another request
            why = "A request has Content-Length or, in HTTP/1.1, Transfer-Encoding, not both."
            raise RefusedError(400, why, connection="close")
        hosts = [value for name, value in headers if name == "host"]
        if len(hosts) != 1 or not self._place.accepts(hosts[0]) or not target.startswith(b"/"):
            raise RefusedError(400, f"Expected the address {self._place.address or 'of this machine'}.")
        return by_name

    def _check_origin(self, headers: Mapping[str, str]) -> None:
        """Raise RefusedError unless a form comes from one of our own pages.

        A browser that sends no referrer sends `null` as Origin, for our own pages too: then Sec-Fetch-Site
        decides, which no page can forge.
        """
        origin = headers.get("origin", "null")
        is_same = headers.get("sec-fetch-site") == "same-origin"
        if not (is_same if origin == "null" else origin.lower() == self._place.origin(headers["host"])):
            raise RefusedError(403, "A form is taken from these pages alone, not from another site.")

    async def _keep(
        self, scope: Scope, headers: Mapping[str, str], receive: Receive, secret: str, ended: WebSession
    ) -> None:
        """Keep a form of an ended session, if it comes from one of its pages. Raises RefusedError."""
        fields = await self._form(headers, receive, LONG)
        if scope["path"] != LOGOUT and _is_of(fields, form_token(secret)):
            self._forms.keep(ended, _target(scope), _without_token(fields))

    async def _visitor(self, cookies: str, act: str) -> tuple[str, Visitor | None, WebSession | None]:
        """The secret of a session and the visitor, if it is valid; else the session, if it has ended.

        A session whose role changed has ended. `act` is the address of a form. The daemon is not asked for a
        session over its rate limit.
        """
        last: tuple[str, None, WebSession | None] = "", None, None
        for cookie in cookies.split(";"):
            name, _, secret = cookie.strip().partition("=")
            if name != self._place.cookie:
                continue
            session = self._sessions.find(secret)
            if session is not None:
                self._check_rate(session.number, act)
                if await self._holds(session):
                    visitor = Visitor(str(session.number), session.person, session.role, form_token(secret))
                    return secret, visitor, None
            if (ended := self._sessions.ended(secret)) is not None:
                last = secret, None, ended
        return last

    async def _holds(self, session: WebSession, not_older: float = 0.0) -> bool:
        """True if the person of a session still has the role it was begun with; else the session is ended."""
        people = await self._people.people(not_older)
        if people is None:
            return True
        if any(one["person"] == session.person and one["web"] == session.role for one in people):
            return True
        self._sessions.end(session.number)
        return False

    async def _goes_on(self, secret: str, data: bytes) -> bool:
        """True if data may be sent on a stream: its session is valid. The daemon is not asked for a ping."""
        session = self._sessions.peek(secret)
        if session is None or data.startswith(b":"):
            return session is not None
        return await self._holds(session, self._limits.known)

    def _check_rate(self, number: int, path: str) -> None:
        """Raise RefusedError if a session exceeds its rate limit."""
        now = time.monotonic()
        self._count(number, "", int(now), self._limits.rate, "1")
        if (last := path.rpartition("/")[2]) in self._scarce:
            self._count(number, last, int(now // 3600), self._scarce[last], "3600")

    def _count(self, number: int, what: str, period: int, most: int, wait: str) -> None:
        begun, counts = self._counts.get(what, (period, {}))
        self._counts[what] = period, (counts := counts if begun == period else {})
        counts[number] = count = counts.get(number, 0) + 1
        if count > most:
            rate = f"{most} an hour" if what else f"{most} a second"
            raise RefusedError(429, f"Too many requests of one session: at most {rate}.", retry_after=wait)

    async def _form(self, headers: Mapping[str, str], receive: Receive, most: int) -> Fields:
        """The fields of a form of at most `most` bytes. Raises RefusedError."""
        kind, _, charset = headers.get("content-type", "").lower().replace(" ", "").partition(";")
        if kind != FORM or charset not in ("", "charset=utf-8"):
            raise RefusedError(403, f"Acts are sent as {FORM}.")
        too_long = RefusedError(413, f"A form is at most {most:,} bytes long.", connection="close")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > 18 or int(length) > most:
            raise too_long
        body, more = bytearray(), True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise RefusedError(400, "The request ended before its form did.")
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > most:
                raise too_long
        try:
            text = body.decode("ascii")
            return Fields(parse_qsl(text, True, errors="strict", max_num_fields=self._limits.fields))
        except ValueError:
            raise RefusedError(400, f"A form has at most {self._limits.fields} fields, in UTF-8.") from None


class _Answer:
    """The output of one answer: it adds the headers, and ends with the session of its reader."""

    undone: Callable[[str], None] | None = None
    """Called with the reason why no daemon answered, before the reader can follow a link or disconnect."""

    def __init__(self, send: Send, *, keeps_cache: bool) -> None:
        self._send, self._keeps_cache = send, keeps_cache
        self.begun, self._is_stream, self._is_over = False, False, False
        self._goes_on: Callable[[bytes], Awaitable[bool]] | None = None

    def follow(self, goes_on: Callable[[bytes], Awaitable[bool]]) -> None:
        """Check before each send on a stream."""
        self._goes_on = goes_on

    async def send(self, message: Message) -> None:
        """Send what the application answers."""
        if self._is_over:
            return
        if message["type"] == "http.response.start":
            if (why := NOT_ANSWERED.get(message["status"])) and self.undone is not None:
                self.undone(why)
            self.begun = True
            message = {**message, "headers": self._headers(message.get("headers", ()))}
        elif self._is_stream and self._goes_on and not await self._goes_on(message.get("body", b"")):
            message, self._is_over = {"type": "http.response.body", "body": b""}, True
        await self._send(message)

    async def refuse(self, refusal: RefusedError) -> None:
        """Answer with the refusal's sentence."""
        body = f"{refusal}\n".encode()
        headers = {"content-type": "text/plain; charset=utf-8", "content-length": str(len(body))}
        encoded = [(name.encode(), text.encode()) for name, text in {**headers, **refusal.headers}.items()]
        await self.send({"type": "http.response.start", "status": refusal.status, "headers": encoded})
        await self.send({"type": "http.response.body", "body": body})

    def _headers(self, raw: Any) -> list[tuple[bytes, bytes]]:
        headers = [(name.lower(), value) for name, value in raw]
        self._is_stream = any(
            name == b"content-type" and value.startswith(b"text/event-stream") for name, value in headers
        )
        caches = self._keeps_cache and any(name == b"cache-control" for name, _ in headers)
        own = [(name.encode(), text.encode()) for name, text in SECURITY.items()]
        own = [pair for pair in own if not (caches and pair[0] == b"cache-control")]
        named = {name for name, _ in own}
        date = (b"date", formatdate(usegmt=True).encode())
        return [date, *own, *(pair for pair in headers if pair[0] not in named)]


def _not_logged_in(scope: Scope, *, has_ended: bool) -> RefusedError:
    """The refusal of a stranger: a page leads to the login, and so does a form of an ended session.

    Anything else gets a plain refusal, as does a script, which would take the login page for its answer.
    """
    is_form = scope["method"] == "POST"
    is_page = scope[BY_PAGE] if has_ended else not is_form
    if scope["path"].endswith((".json", LIVE)) or not is_page:
        who = "Your session has ended" if has_ended else "Nobody is logged in here, or no longer"
        return RefusedError(401, f"{who}: narval web login makes a link to log in.")
    query = scope["query_string"].decode("latin-1")
    target = KEPT if is_form else _target(scope) + (f"?{query}" if query else "")
    return RefusedError(303, "Log in first.", location=f"{LOGIN}?next={quote(target, safe='')}")


def _target(scope: Scope) -> str:
    """The path of a request as it was sent."""
    return str(scope["raw_path"].decode("latin-1"))


def _is_of(fields: Fields, token: str) -> bool:
    """True for a form with the token of a session, compared in constant time."""
    return hmac.compare_digest(fields.get(TOKEN).encode(), token.encode())


def _without_token(fields: Fields) -> Fields:
    return Fields([pair for pair in fields.pairs if pair[0] != TOKEN])


def in_time(receive: Receive, within: float) -> Receive:
    """The same `receive`, for a request that must arrive within `within` seconds. It raises RefusedError."""
    until, arrived = time.monotonic() + within, False

    async def received() -> Message:
        nonlocal arrived
        if arrived:
            return await receive()
        try:
            async with asyncio.timeout(max(0.0, until - time.monotonic())):
                message = await receive()
        except TimeoutError:
            problem = f"The request did not arrive within {within:g} seconds."
            raise RefusedError(408, problem, connection="close") from None
        arrived = not message.get("more_body", False)
        return message

    return received


def _nothing_more(receive: Receive) -> Receive:
    """The messages after a form was read: nothing, then the end of the connection."""
    read = False

    async def after() -> Message:
        nonlocal read
        if not read:
            read = True
            return {"type": "http.request", "body": b"", "more_body": False}
        return await receive()

    return after
