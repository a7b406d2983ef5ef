"""Tokens: they identify a reply to a notice.

A token is `57-NONCE-MAC`: the item, 80 bits, 120 bits, in base32. It is derived from a key in the store and
from what it identifies. So it need not be stored, and a repeated notice has the same token.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b32encode
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from narval.kinds.work.engine.state import WorkState

KEY = "mail_key"
"""The fact of the store that has the key of an agent, in hexadecimal."""

_BREAK = rb"(?:(?:[\s>|]|&gt;|&#1[03];){1,80}+)?+"
"""The bytes that a mail program may put into a token: blanks, line ends, then quotation signs."""


def _letters(count: int) -> bytes:
    return rb"([a-z2-7](?:%s[a-z2-7]){%d})" % (_BREAK, count - 1)


TOKEN = re.compile(_BREAK.join([rb"([0-9]{1,18})", rb"-", _letters(16), rb"-", _letters(24)]), re.IGNORECASE)
"""A token in a text or in XML, whole or broken over lines."""

_BREAKS = re.compile(rb"&gt;|&#1[03];|[\s>|]")
_NEAR = 200
_BROKEN_NUMBER = re.compile(rb"([0-9]{1,17})" + _BREAK.removesuffix(rb")?+") + rb")\Z")

BLANK = b"[token]"

NOTICE_ID = re.compile(rb"work\.([0-9]{1,18})\.[0-9a-f]{32}@")
"""The Message-ID of a notice, which names its item; 0 for a list of several."""


def token_of(key: bytes, agent: str, item: int, person: str, call: str, shown: str, until: float) -> str:
    """The token for one person, one item, one text; `call` is the outside id of the call that sends it."""
    nonce = _mac(key, 10, "nonce", call)
    return f"{item}-{nonce}-{_mac(key, 15, agent, str(item), person, nonce, shown, repr(until))}"


def _mac(key: bytes, size: int, *words: str) -> str:
    text = "\0".join(words).encode()
    return b32encode(hmac.digest(key, text, "sha256")[:size]).decode().lower()


def hash_of(token: str) -> str:
    """The hash that replaces a token in journal and log."""
    return hashlib.sha256(token.encode()).hexdigest()[:32]


def notice_of(key: bytes, agent: str, state: WorkState, token: str) -> str | None:
    """The notice of an item that a token belongs to, by its call; compared in constant time."""
    found = None
    for call, notice in state.notices.items():
        if notice.until is not None:
            due = token_of(key, agent, state.eid, notice.to, f"{agent}.{call}", state.shown, notice.until)
            if hmac.compare_digest(due.encode(), token.encode()):
                found = call
    return found


def last_token(text: str) -> list[str]:
    """The last token in a text, without breaks; two forms if its number may begin before a break."""
    data = text.encode()
    matches = [*TOKEN.finditer(data)]
    if not matches:
        return []
    match = matches[-1]
    number, *parts = map(_whole, match.groups())
    before = _BROKEN_NUMBER.search(data, max(0, match.start() - _NEAR), match.start())
    numbers = [number] if before is None else [number, before[1].decode() + number]
    return ["-".join([each, *parts]) for each in numbers]


def blanked(xml: bytes) -> bytes:
    """An element without its tokens, and without parts of them elsewhere."""
    parts = {_whole(part) for match in TOKEN.findall(xml) for part in match[1:]}
    xml = TOKEN.sub(rb"\1-%s-%s" % (BLANK, BLANK), xml)
    for part in parts:
        if part.encode() in xml.lower():  # usually it was only in the token
            xml = re.sub(re.escape(part.encode()), BLANK, xml, flags=re.IGNORECASE)
    return xml


def _whole(part: bytes) -> str:
    """A part of a token without the bytes that broke it."""
    return _BREAKS.sub(b"", part).decode().lower()
