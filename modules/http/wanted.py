"""Requests described by elements, parsed into requests to send."""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from lxml import etree

import narval
from narval import ActionError, Element, call
from narval.api import JsonError, WebService, json_of_element, size, text_within

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
TEXT_BYTES, FILE_BYTES, MOST_BYTES = 1024 * 1024, 10 * 1024 * 1024, 100 * 1024 * 1024
USUAL_SECONDS, MOST_SECONDS = 60.0, 3600.0
OURS = (
    "authorization",
    "cookie",
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
    "te",
)
"""Headers that no element may set: those with credentials, and those that frame a request."""


class Wanted(NamedTuple):
    """A request described by its element; `target` says where the answer is saved."""

    url: str
    service: WebService | None
    method: str
    headers: Mapping[str, str]
    body: bytes | None
    accept: str
    target: Element | None
    most: int
    seconds: float

    @classmethod
    def of(cls, element: Element) -> Wanted:
        """Parse the element. Raises ActionError (`bad-request`, final)."""
        tree, attributes = element.tree(), element.attributes
        unknown = [str(child.tag) for child in tree.iterchildren("*") if child.tag not in _PARTS]
        if unknown:
            raise _wrong(f"expected {', '.join(_PARTS)} in a request, found <{unknown[0]}>")
        bodies = [child for child in tree.iterchildren("*") if child.tag in _BODIES]
        if len(bodies) > 1:
            raise _wrong(f"expected one of {', '.join(_BODIES)} in a request, found {len(bodies)}")
        headers, body = _headers(tree), None
        if bodies:
            type, body = _BODIES[str(bodies[0].tag)](bodies[0])
            headers.setdefault("Content-Type", type)
        if attributes.get("once") == "yes":
            headers.setdefault("Idempotency-Key", _key())
        method = attributes.get("method", "POST" if bodies else "GET").upper()
        if method not in METHODS:
            raise _wrong(f"expected method to be one of {', '.join(METHODS)}, found {method[:80]!r}")
        target = tree.find("save")
        usual = TEXT_BYTES if target is None else FILE_BYTES
        return cls(
            url=_address(attributes, tree),
            service=narval.service("services", attributes["service"]) if "service" in attributes else None,
            method=method,
            headers=headers,
            body=body,
            accept=_accept(attributes.get("accept", "")),
            target=None if target is None else Element(0, etree.tostring(target, with_tail=False)),
            most=_most(attributes["most"]) if "most" in attributes else usual,
            seconds=_seconds(attributes["seconds"]) if "seconds" in attributes else USUAL_SECONDS,
        )

    @property
    def shown(self) -> str:
        """The request in the form for messages."""
        where = f"{self.service.name} {self.url}" if self.service is not None else self.url
        return f"{self.method} {where[:200]}"

    def told(self, text: str) -> str:
        """A text without the address of the service, which may contain a credential."""
        return text if self.service is None else text.replace(self.service.url.rstrip("/"), "", 1)

    def accepts(self, status: int) -> bool:
        """True if a status other than success is accepted as an answer."""
        return self.accept == "any" or str(status) in self.accept.split()


def _address(attributes: Mapping[str, str], tree: etree._Element) -> str:
    """The address with the segments and the query from elements. Raises ActionError."""
    if "service" in attributes:
        url = attributes.get("path", "")
        if "url" in attributes or not re.fullmatch(r"(/[^?#\\\s]*)?", url):
            raise _wrong(
                "expected a request of a service to have a path that begins with /, and its query in query "
                f"elements; found {(attributes.get('url') or url)[:200]!r}"
            )
    else:
        url = attributes["url"].strip()
        if "@" in _host(url):
            raise _wrong("expected an address without user and password; name a service that has a secret")
        url = url.partition("#")[0]
    before, mark, query = url.partition("?")
    for child in tree.iterchildren("segment"):
        said = text_within(child)
        if said in ("", ".", ".."):
            raise _wrong(f"expected a segment of a path, found {said!r}")
        before = f"{before.rstrip('/')}/{quote(said, safe='')}"
    pairs = [(_name(child), text_within(child)) for child in tree.iterchildren("query")]
    added = urlencode(pairs, quote_via=quote)
    return before + (mark or ("?" if added else "")) + "&".join(part for part in (query, added) if part)


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc
    except ValueError:
        raise _wrong(f"expected an address of http or https, found {url[:200]!r}") from None


def _headers(tree: etree._Element) -> dict[str, str]:
    headers: dict[str, str] = {}
    for child in tree.iterchildren("header"):
        name, value = _name(child), text_within(child)
        if not re.fullmatch(r"[A-Za-z0-9-]{1,100}", name) or not re.fullmatch(r"[\t\x20-\x7e]*", value):
            raise _wrong(f"expected a header in printable ASCII, found {name[:80]!r}")
        if name.lower() in OURS or name.lower().startswith("proxy-"):
            raise _wrong(f"the header {name} cannot be set; a service of the settings has its secret")
        headers[name] = value
    return headers


def _json(node: etree._Element) -> tuple[str, bytes]:
    try:
        return "application/json", json_of_element(node).encode()
    except JsonError as error:
        raise _wrong(str(error)) from None


def _form(node: etree._Element) -> tuple[str, bytes]:
    fields = [(_name(child), text_within(child)) for child in node.iterchildren("field")]
    return "application/x-www-form-urlencoded", urlencode(fields).encode()


def _body(node: etree._Element) -> tuple[str, bytes]:
    return node.get("type", "text/plain; charset=utf-8"), text_within(node).encode()


_BODIES: Mapping[str, Callable[[etree._Element], tuple[str, bytes]]] = {
    "json": _json,
    "form": _form,
    "body": _body,
}
_PARTS = ("segment", "query", "header", *_BODIES, "save")


def _name(node: etree._Element) -> str:
    name = node.get("name")
    if name is None:
        raise _wrong(f"expected a {node.tag!s} to have a name")
    return name


def _accept(text: str) -> str:
    if text != "any" and not all(re.fullmatch("[3-5][0-9][0-9]", word) for word in text.split()):
        raise _wrong(f"expected accept to be any, or statuses such as 404, found {text[:80]!r}")
    return text


def _most(text: str) -> int:
    try:
        if (number := size(text)) <= MOST_BYTES:
            return number
    except ValueError:
        pass
    raise _wrong(f'expected most to be a text such as "5M", of 100M at most, found {text[:80]!r}')


def _seconds(text: str) -> float:
    try:
        if 0 < float(text) <= MOST_SECONDS:
            return float(text)
    except ValueError:
        pass
    raise _wrong(f"expected seconds to be a number up to {MOST_SECONDS:g}, found {text[:80]!r}")


def _key() -> str:
    """A key that is the same for each try of this call, and differs from all others."""
    here = call()
    return hashlib.sha256(f"{platform.node()} {here.home} {here.agent} {here.id}".encode()).hexdigest()[:32]


def _wrong(message: str) -> ActionError:
    return ActionError(message, "bad-request", final=True)
