"""Senders: external programs that send with their own token, each within its limits.

Cookies are ignored. The token is checked before the body is read. A body of JSON, a form, or XML becomes one
element. JSON is mapped as everywhere (`core/elements/json_mapping.py`), but without its types, as it is not
written back. A form is an object whose values are texts. XML stays unchanged if its root has the name of the
element; otherwise it is wrapped in such an element.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from lxml import etree
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from narval.core.elements.canonical import parse_untrusted
from narval.core.elements.json_mapping import JsonError, element_of_json, parse_json
from narval.core.errors import (
    DaemonGoneError,
    ElementError,
    NarvalError,
    NotOfferedError,
    SilentError,
    UnansweredError,
)
from narval.files.agents.senders import owner_of
from narval.surfaces.control.async_client import AsyncClient
from narval.surfaces.http.guard import ADMITTED, RefusedError
from narval.system.minute import UsedMinute

KNOWN = 1.0
"""Seconds for which the list of senders is cached."""

STATUS_OF_GONE: Mapping[type[NarvalError], int] = {
    UnansweredError: 504,
    SilentError: 504,
    DaemonGoneError: 503,
}
"""The HTTP status of a request without an answer that may have been recorded, of one that a daemon does not
answer, and of one that reached no daemon.
"""

Sender = dict[str, Any]
"""A sender as an operation lists it."""


class Senders:
    """The senders that an operation lists, each with `sha256` of its token, and its `calls` per minute.

    `key` is the key of their names.
    """

    def __init__(
        self, asks: AsyncClient, operation: str, key: str, seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._asks, self._operation, self._key, self._seconds = asks, operation, key, seconds
        self.known: dict[str, Sender] = {}
        """The senders listed last, by name."""
        self._listed: float | None = None
        self._used = UsedMinute(seconds)
        self._asking = asyncio.Lock()

    async def all(self) -> dict[str, Sender]:
        """The senders by name, at most a second old. Raises NarvalError."""
        async with self._asking:  # once for all concurrent requests
            now = self._seconds()
            if self._listed is None or now - self._listed > KNOWN:
                self.known = {one[self._key]: one for one in await self._asks.ask(self._operation)}
                self._listed = now
            return self.known

    async def with_token(self, token: str) -> Sender | None:
        """The sender with a token. Raises NarvalError."""
        senders = await self.all()
        name = owner_of(token, {name: one["sha256"] for name, one in senders.items()})
        return senders[name] if name is not None else None

    def take(self, sender: Sender, limit: str) -> None:
        """Count a call. Raises RefusedError if there were `limit` calls in the last minute."""
        excess = self._used.take(sender[self._key], sender["calls"])
        if excess is not None:
            sentence = f"Too many calls: {limit} {sender['calls']} a minute."
            raise RefusedError(429, sentence, retry_after=str(excess.seconds))


# --- a request ----------------------------------------------------------------------------------------------


def token_of(headers: Mapping[str, str]) -> str:
    """The token in the headers of a request; "" if there is none."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def media_type_of(request: Request) -> str:
    """The media type of a body, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def body_of(request: Request) -> AsyncIterator[bytes]:
    """The body of a request with a valid token. Raises RefusedError if it arrives too late."""
    request.scope[ADMITTED] = True
    try:
        async for piece in request.stream():
            yield piece
    except ClientDisconnect:
        raise RefusedError(400, "The request ended before its body did.", connection="close") from None


async def body_within(pieces: AsyncIterator[bytes], most: int) -> bytes:
    """The bytes of a body. Raises RefusedError for more than `most`, without reading the rest."""
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) > most:
            raise RefusedError(413, f"Expected at most {most:,} bytes.", connection="close")
    return bytes(body)


# --- bodies as elements -------------------------------------------------------------------------------------


FIELDS = 500
"""The most fields of a form."""


class BodyError(ValueError):
    """A body that does not match its type, or is too large; the message says what was expected."""


def of_json(name: str, body: bytes) -> bytes:
    """The element of a body of JSON. Raises BodyError."""
    try:
        return _element(name, parse_json(body))
    except JsonError as error:
        raise BodyError(str(error)) from None


def of_form(name: str, body: bytes) -> bytes:
    """The element of a body of fields. Raises BodyError."""
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, max_num_fields=FIELDS, errors="strict"
        )
    except ValueError as error:
        raise BodyError(f"expected at most {FIELDS} fields of a form, in UTF-8: {error}") from None
    fields: dict[str, Any] = {}
    for key, value in pairs:
        fields.setdefault(key, []).append(value)
    return _element(name, {key: values[0] if len(values) == 1 else values for key, values in fields.items()})


def of_xml(name: str, body: bytes) -> bytes:
    """The element of a body of XML. Raises BodyError."""
    try:
        root = parse_untrusted(body)
    except ElementError as error:
        raise BodyError(f"{error.line}:{error.column}: {error}") from None
    if root.tag != name:
        outer = etree.Element(name)
        outer.append(root)
        root = outer
    return etree.tostring(root, encoding="utf-8")


BODY_READERS: Mapping[str, Callable[[str, bytes], bytes]] = {
    "application/json": of_json,
    "application/x-www-form-urlencoded": of_form,
    "application/xml": of_xml,
    "text/xml": of_xml,
}
"""The readers of bodies by their media type."""


def elements_of_json(body: bytes) -> list[bytes]:
    """The elements of a JSON object: each key names one, or one for each value of a list. Raises
    BodyError.
    """
    try:
        content = parse_json(body)
        if not isinstance(content, dict):
            raise BodyError('expected an object of elements by their names, such as {"order": {"n": 1}}')
        listed = ((name, value if isinstance(value, list) else [value]) for name, value in content.items())
        return [_element(name, value) for name, values in listed for value in values]
    except JsonError as error:
        raise BodyError(str(error)) from None
    except ValueError as error:
        raise BodyError(f"expected the names of elements as keys: {error}") from None


def _element(name: str, content: Any) -> bytes:
    return etree.tostring(element_of_json(name, content, typed=False), encoding="utf-8")


# --- refusals -----------------------------------------------------------------------------------------------

_STATUSES: Mapping[type[Exception], int] = {BodyError: 400, NotOfferedError: 403, ElementError: 422}

_NO_XML = ("malformed", "doctype")
"""The kinds of ElementError of a body that does not match its type."""

WITH_KEY = "with an Idempotency-Key send it again, and it is done once; without one look before you do"
"""The advice to a sender whose request was not answered."""


def no_token(of: str, then: str = "") -> RefusedError:
    """The refusal of a request without a valid token; `then` follows the expectation."""
    needed = f"Expected the token {of}: Authorization: Bearer TOKEN{then}."
    return RefusedError(401, needed, www_authenticate="Bearer")


def refusal_of(
    error: RefusedError | BodyError | NarvalError, *, then: str = "", other: int = 400
) -> RefusedError:
    """The refusal for an error. `then` follows the advice when no daemon runs; `other` is the status for
    errors that have none.
    """
    if isinstance(error, RefusedError):
        return error
    if isinstance(error, UnansweredError):
        return RefusedError(STATUS_OF_GONE[UnansweredError], f"{UnansweredError(error.what, WITH_KEY)}.")
    if isinstance(error, DaemonGoneError):
        sentence = f"No daemon is running; start it (narval run){then}."
        return RefusedError(STATUS_OF_GONE[DaemonGoneError], sentence, retry_after="10")
    status = next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), other)
    if isinstance(error, ElementError) and error.kind in _NO_XML:
        status = 400
    return RefusedError(status, str(error) if str(error).endswith((".", "?")) else f"{error}.")


def refused(refusal: RefusedError, headers: Mapping[str, str] = {}) -> Response:
    """The response for a refusal, with these headers and its own."""
    return JSONResponse({"error": str(refusal)}, refusal.status, {**headers, **refusal.headers})
