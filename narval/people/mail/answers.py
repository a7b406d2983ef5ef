"""Answers by mail: the token of the notice that a mail answers, the act that a person wrote (P61), and
whether a server confirms the writer (P65).

A token is `57-NONCE-MAC`: the item, 80 bits, 120 bits, in base32. It is derived from a key in the store and
from what it identifies. So it need not be stored, and a repeated notice has the same token.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b32encode
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

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
    latest = None
    for call, notice in state.notices.items():
        if notice.until is not None:
            due = token_of(key, agent, state.eid, notice.to, f"{agent}.{call}", state.shown, notice.until)
            if hmac.compare_digest(due.encode(), token.encode()):
                latest = call
    return latest


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


# --- the act ----------------------------------------------------------------------------------------------

ACTS = ("claim", "release", "refuse")
"""Acts besides the outcomes that the first line may name."""


def or_acts(is_voted: bool) -> str:
    """The sentence that offers the other acts on an item; if several people answer, nobody has it alone."""
    return "Or write refuse." if is_voted else f"Or write one of {', '.join(ACTS)}."


_MOVE = re.compile(r"move[ \t]+(\S+)")
_FIELD = re.compile(r"([A-Za-z_][\w.-]*)[ \t]*:[ \t]*(.*)")
_OWN = re.compile(r"[^\s\u200b\ufeff](?:.*[^\s\u200b\ufeff])?", re.DOTALL)
"""A line without the blanks around it, also without those that have no width."""


class MailAnswer(NamedTuple):
    """The act that a mail requests, and its arguments."""

    act: str
    arguments: dict[str, Any]


def read_answer(body: str, outcomes: Collection[str], fields: Iterable[str] = ()) -> MailAnswer:
    """The act that a text requests, of an item with these outcomes and fields. Raises ValueError with the
    line that is not understood, "" if there is no line.

    The first line that is neither blank nor quoted is an outcome or another act, alone, or `move STATE`. The
    lines after it, up to a blank line, a quotation or `-- `, are fields.
    """
    lines = [own[0] if (own := _OWN.search(line)) is not None else "" for line in body.splitlines()]
    first = next((at for at, line in enumerate(lines) if line and not line.startswith(">")), None)
    if first is None:
        raise ValueError("")
    word, names, values = lines[first].lower(), [*fields], dict[str, Any]()
    if (moved := _MOVE.fullmatch(word)) is not None:
        return MailAnswer("move", {"state": moved[1]})
    if word not in outcomes and word not in ACTS:
        raise ValueError(lines[first])
    for line in lines[first + 1 :]:
        if not line or line.startswith(">") or line == "--":
            break
        match = _FIELD.fullmatch(line)
        if match is None:
            raise ValueError(line)
        values.setdefault(field_named(match[1], names), []).append(match[2])
    if word in outcomes:
        return MailAnswer("answer", {"outcome": word, "fields": values})
    return MailAnswer(word, {"reason": " ".join(values.get(field_named("reason", values), ()))})


def field_named(name: str, names: Iterable[str]) -> str:
    """The one of these names that a person wrote, if only its case differs; else the name as written."""
    there = [*names]
    same = [one for one in there if one.lower() == name.lower()]
    return same[0] if name not in there and len(same) == 1 else name


# --- the writer -----------------------------------------------------------------------------------------


def is_authentic(results: str, sender: str) -> bool:
    """True if the results of a server (RFC 8601) say that a mail comes from the domain of its sender: dmarc
    passed, or dkim with a signature of that domain or of a parent domain. Unreadable results confirm nothing.
    """
    domain = sender.rpartition("@")[2].lower()
    for result in _without_comments(results).split(";"):
        words = re.sub(r"\s*=\s*", "=", result).lower().split()
        said: Mapping[str, str] = dict(word.split("=", 1) for word in words if "=" in word)
        of = (said.get("header.d") or said.get("header.i", "").rpartition("@")[2]).strip(".")
        signs = "." in of and (domain == of or domain.endswith(f".{of}"))
        if words and words[0] == "dmarc=pass" and said.get("header.from", domain) == domain:
            return True
        if words and words[0] == "dkim=pass" and signs:
            return True
    return False


def _without_comments(results: str) -> str:
    """The results without comments, which may be nested, and with `"` for each quoted text.

    It is empty if a comment or a quoted text has no end, or an end has no beginning.
    """
    lines: list[str] = []
    depth, is_quoted = 0, False
    characters = iter(results)
    for character in characters:
        if character == "\\" and (depth or is_quoted):
            next(characters, "")
        elif is_quoted:
            is_quoted = character != '"'
        elif character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            lines.append(" ")
            if depth < 0:
                return ""
        elif not depth and character == '"':
            is_quoted = True
            lines.append(character)
        elif not depth:
            lines.append(character)
    return "" if depth or is_quoted else "".join(lines)
