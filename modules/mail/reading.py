"""A mail as an element: its structure, its header, its readable text, its files (N36)."""

from __future__ import annotations

import binascii
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from lxml import etree

from narval.api import one_line, timestamp, xml_safe

from .mailbox import Mailbox, file_name
from .texts import CHUNK, Problems, base64_decoded, decode, readable, unflow, unwrap

if TYPE_CHECKING:
    from email.message import Message

MAX_HEADER = 256 * 1024
MAX_BODY = 100_000
"""The most characters of readable text in an element; the raw file has all of it."""
MAX_PARTS, MAX_DEPTH = 500, 30
MAX_ADDRESSES = 50
"""The most addresses kept of a field, as many as a mail from narval may have."""
MAX_SERVERS = 10
"""The most servers whose results on the origin of a mail are kept."""


# --- structure --------------------------------------------------------------------------------------------


_HEADERS = re.compile(
    rb"(?:>?From [^\n]*\n)?(?:[!-9;-~]+[ \t]*:[^\n]*(?:\n|\Z)|[ \t]+[^\r\n \t][^\n]*(?:\n|\Z))*"
)
_BLANK_LINE = re.compile(rb"[ \t]*\r?\n")


@dataclass
class Part:
    """A slice of a mail, with its header parsed and its body not copied. `choice` distinguishes the parts of
    one multipart/alternative from those of another.
    """

    header: Message
    start: int
    end: int
    choice: int | None = None

    @cached_property
    def kind(self) -> str:
        """Its media type."""
        return self.header.get_content_type()

    @cached_property
    def is_text(self) -> bool:
        """True if it is part of the readable mail, not an attached file."""
        disposition = str(self.header.get("content-disposition", "")).partition(";")[0].strip().lower()
        return self.kind in ("text/plain", "text/html") and disposition != "attachment" and not self.name

    @cached_property
    def name(self) -> str:
        """The file name it requests; empty without one."""
        return self.parameter("filename", "content-disposition") or self.parameter("name")

    def parameter(self, name: str, of: str = "content-type") -> str:
        """A parameter of a header, with RFC 2231 and RFC 2047 decoded; empty without one."""
        if name not in str(self.header.get(of, "")).lower():
            return ""
        try:
            value = self.header.get_param(name, "", of)
        except Exception:  # the standard library raises various errors on hostile ones
            return ""
        if isinstance(value, tuple):
            return decode(value[2].encode("latin-1", "replace"), value[0] or "", {})
        return unwrap(value or "", {})


def _open(raw: bytes, start: int, end: int, problems: Problems, choice: int | None = None) -> Part:
    """The part that begins at `start`: its header is parsed, within limits, and its body found."""
    from email.parser import HeaderParser

    limit = min(end, start + MAX_HEADER)
    fields = _HEADERS.match(raw, start, limit)
    stop = fields.end() if fields else start
    header = HeaderParser().parsestr(decode(raw[start:stop], "utf-8", problems))
    if stop == limit < end:
        problems["header-too-large"] = f"only the first {MAX_HEADER:,} bytes of a header were read"
        gaps = (raw.find(gap, stop, end) for gap in (b"\n\n", b"\n\r\n"))
        stop = min((gap + 1 for gap in gaps if gap >= 0), default=end)
    blank = _BLANK_LINE.match(raw, stop, end)
    return Part(header, blank.end() if blank else stop, end, choice)


def _split(raw: bytes, part: Part, boundary: str, problems: Problems) -> Iterator[tuple[int, int]]:
    """The spans of the children of a multipart; without a closing boundary the last extends to the end."""
    word = re.escape(boundary.encode("utf-8", "replace"))
    # For speed, search for the rare text first, and only then back to the line's beginning.
    delimiter = re.compile(rb"--%b(?<=\n--%b)(--)?[ \t]*\r?(?:\n|\Z)" % (word, word))
    begun: int | None = None
    for match in delimiter.finditer(raw, part.start, part.end):
        if begun is not None:
            before = match.start() - (2 if raw[match.start() - 2] == 0x0D else 1)
            yield begun, max(begun, before)
        if match[1]:
            return
        begun = match.end()
    if begun is None:
        problems["bad-boundary"] = "a multipart whose boundary never comes; read as one text"
    else:
        problems["cut-short"] = "a multipart ends without its closing boundary"
        yield begun, part.end


def _leaves(raw: bytes, root: Part, problems: Problems) -> Iterator[Part]:
    """The parts with content, in order. An attached mail is one of them: it is kept whole."""
    todo = [(root, 0)]
    opened = 1
    while todo:
        part, depth = todo.pop()
        if not part.kind.startswith("multipart/"):
            yield part
            continue
        if depth == MAX_DEPTH:
            problems["too-deep"] = f"parts nested deeper than {MAX_DEPTH} are kept as a file"
            yield part
            continue
        choice = part.start if part.kind == "multipart/alternative" else part.choice
        spans = _split(raw, part, part.parameter("boundary").rstrip() or "\0", problems)
        children = [_open(raw, *span, problems, choice) for span in islice(spans, MAX_PARTS - opened)]
        opened += len(children)
        if opened == MAX_PARTS:
            problems["too-many-parts"] = f"only the first {MAX_PARTS} parts were read"
        if "bad-boundary" in problems and not children:
            part.header.replace_header("content-type", "text/plain")
            yield replace(part)
        todo.extend((child, depth + 1) for child in reversed(children))


def _content(raw: bytes, part: Part, problems: Problems) -> Iterator[bytes]:
    """The content of a part, transfer-decoded, a chunk at a time."""
    encoding = str(part.header.get("content-transfer-encoding", "")).strip().lower()
    chunks = _chunks(raw, part.start, part.end)
    if encoding == "base64":
        return base64_decoded(chunks, problems)
    if encoding == "quoted-printable":
        return (binascii.a2b_qp(chunk) for chunk in chunks)
    if encoding not in ("", "7bit", "8bit", "binary"):
        problems["bad-encoding"] = f"unknown transfer encoding {encoding!r}, left as it is"
    return chunks


def _chunks(raw: bytes, start: int, end: int) -> Iterator[bytes]:
    """A slice in pieces of about a megabyte, of whole lines."""
    while start < end:
        newline = raw.find(b"\n", start + CHUNK, min(start + 2 * CHUNK, end))
        stop = min(newline + 1 if newline >= 0 else start + CHUNK, end)
        yield raw[start:stop]
        start = stop


def _start(chunks: Iterable[bytes], most: int) -> bytes:
    """The first bytes of a series of chunks."""
    data = bytearray()
    for chunk in chunks:
        data += chunk
        if len(data) >= most:
            break
    return bytes(data[:most])


def _body(raw: bytes, texts: list[Part], problems: Problems) -> str:
    """The readable text: plain text, and HTML made readable if it has no plain alternative."""
    read: list[tuple[Part, str]] = []
    room = 4 * MAX_BODY
    for part in texts:
        data = _start(_content(raw, part, problems), room)
        room -= len(data)
        text = decode(data, part.parameter("charset"), problems).replace("\r\n", "\n").replace("\r", "\n")
        if part.kind == "text/plain" and part.parameter("format").lower() == "flowed":
            text = unflow(text, part.parameter("delsp").lower() == "yes")
        if text.strip():
            read.append((part, text))
    in_plain = {part.choice for part, _ in read if part.kind == "text/plain"} - {None}
    parts = [
        text if part.kind == "text/plain" else readable(text)
        for part, text in read
        if part.kind == "text/plain" or part.choice not in in_plain
    ]
    text = "\n\n".join(text.strip("\n") for text in parts)
    if text != (safe := xml_safe(text)):
        problems["control-characters"] = "control characters in its text were replaced"
    return safe


# --- header -----------------------------------------------------------------------------------------------


_ID = re.compile(r"<([^<>\s]+)>|([^<>\s]+@[^<>\s]+)")
_ADDRESS = re.compile(r"[^\s@<>,;\"]+@[^\s@<>,;\"]+")
_PLAIN = r"[\w+-]{1,20}(?:\.[\w+-]{1,20}){0,3}@[A-Za-z0-9-]{1,30}(?:\.[A-Za-z0-9-]{1,30}){0,4}"
_PLAIN_ADDRESS = re.compile(rf"(?:(\w{{1,60}}(?: \w{{1,60}}){{0,2}}) )?<({_PLAIN})>|({_PLAIN})", re.ASCII)
"""The usual form, which needs no parser: `name@example.org`, `Their Name <name@example.org>`."""
_OF_SERVER = re.compile(
    r"\s*(?P<server>[^\s();\"\\]+)(?:\s+[0-9]+|\s*\([^()\\]*\))*\s*(?:;(?P<results>.*))?", re.DOTALL
)
"""The results of a server, by RFC 8601: its name, its version, comments; then the results."""
_LIST_SIGNS = ("list-post", "list-unsubscribe", "list-help", "mailing-list", "x-mailing-list")
_AUTO_SIGNS = ("x-autoreply", "x-autorespond", "x-autoresponder")
_SUPPRESS = re.compile(r"\b(all|oof|autoreply)\b", re.IGNORECASE)
_ROBOT = re.compile(
    r"(mailer-daemon|postmaster|listserv|majordomo|(do[-_.]?)?not?[-_.]?reply|bounces?"
    r"|owner-[^@]*|[^@]*-(request|owner|bounces))([-+=][^@]*)?@",
    re.IGNORECASE,
)
"""Senders that nobody reads: RFC 3834 and later usage."""


class Header:
    """The header of a mail, read by name; it never raises, whatever was sent."""

    def __init__(self, message: Message, problems: Problems) -> None:
        self._problems = problems
        self._fields: dict[str, str] = {}
        self.authentication: dict[str, str] = {}
        """The results of servers on the origin of the mail: the last that each added (RFC 8601)."""
        for name, value in message.raw_items():
            if name.lower() == "authentication-results" and len(self.authentication) < MAX_SERVERS:
                server, results = _word_of_server(str(value))
                self.authentication.setdefault(server, results)
            self._fields.setdefault(name.lower(), str(value)[: MAX_HEADER // 4])

    def __bool__(self) -> bool:
        return bool(self._fields)

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def raw(self, name: str) -> str:
        """The first field of that name as it was sent."""
        return self._fields.get(name, "")

    def text(self, name: str) -> str:
        """A field in readable form."""
        return one_line(unwrap(self.raw(name), self._problems))

    def ids(self, name: str) -> list[str]:
        """The message ids in a field; of very many, the first and the last."""
        ids = [one_line(bracketed or bare, 250) for bracketed, bare in _ID.findall(self.raw(name))]
        return ids if len(ids) <= 20 else ids[:1] + ids[-19:]

    def addresses(self, name: str) -> list[tuple[str, str]]:
        """The (name, address) pairs of a field."""
        from email.utils import getaddresses

        value = " ".join(self.raw(name)[:16_000].split())
        if not value:
            return []
        if plain := _PLAIN_ADDRESS.fullmatch(value):
            return [(plain[1] or "", plain[2] or plain[3])]
        try:
            pairs = [pair for pair in getaddresses([value]) if pair[1]]
        except Exception:  # the standard library raises various errors, RecursionError included
            pairs = []
        good = [
            (one_line(unwrap(person, self._problems), 200), address)
            for person, address in pairs
            if len(address) <= 254 and _ADDRESS.fullmatch(address) and address == xml_safe(address)
        ]
        if len(good) < max(len(pairs), "@" in value):
            self._problems["bad-address"] = f"{name} names something that is no address"
        return good[:MAX_ADDRESSES]

    def moment(self, name: str) -> str:
        """A date in ISO 8601 and UTC, so that dates sort like texts."""
        from email.utils import parsedate_to_datetime

        value = self.raw(name).rpartition(";")[2].strip()
        if not value:
            return ""
        try:
            moment = parsedate_to_datetime(value)
            return timestamp(moment.replace(tzinfo=moment.tzinfo or UTC))
        except Exception:  # ValueError, TypeError, IndexError, OverflowError: depending on the date
            self._problems["bad-date"] = f"{name} is no date: {one_line(value, 100)!r}"
            return ""

    def list_sign(self) -> str:
        """The sign that the mail went to many: its List-Id, or the name of another sign."""
        if "list-id" in self:
            name = self.text("list-id")
            return name.rpartition("<")[2].rstrip("> ") or "list-id"
        precedence = self.text("precedence").lower()
        bulk = precedence if precedence in ("list", "bulk", "junk") else ""
        return next((sign for sign in _LIST_SIGNS if sign in self), bulk)

    def auto_sign(self, kind: str, sender: str) -> str:
        """The sign that no person wrote the mail (RFC 3834)."""
        submitted = re.split(r"[;(\s]", self.text("auto-submitted").lower())[0]
        signs = {
            submitted: submitted not in ("", "no"),
            "report": kind == "multipart/report",
            "auto-reply": "auto" in self.text("precedence") or any(sign in self for sign in _AUTO_SIGNS),
            "suppress": bool(_SUPPRESS.search(self.text("x-auto-response-suppress"))),
            "null-return-path": self.raw("return-path").strip() == "<>",
            "robot": bool(_ROBOT.match(sender)),
        }
        return next((sign for sign, holds in signs.items() if holds), "")


def _word_of_server(field: str) -> tuple[str, str]:
    """The name of a server and its results. There are no results if they cannot be told from a comment or are
    too long, since a part of them may say the opposite.
    """
    match = _OF_SERVER.fullmatch(field)
    if match is None:
        return one_line(field.partition(";")[0], 250).partition(" ")[0].lower(), ""
    results = match["results"] or ""
    return one_line(match["server"], 250).lower(), one_line(results, 4_000) if len(results) <= 4_000 else ""


# --- the element ------------------------------------------------------------------------------------------


def read_mail(raw: bytes, box: Mailbox, flags: Iterable[str] = ()) -> bytes:
    """A mail as an `email` element, with the flags set; its attachments and its original are kept as files.

    Raises ValueError for anything but a mail.
    """
    problems: Problems = {}
    root = _open(raw, 0, len(raw), problems)
    header = Header(root.header, problems)
    if not header:
        raise ValueError("there is no header in it")
    facts = _facts(raw, root, header, problems)
    facts |= {"size": str(len(raw)), "mailbox": str(box), "account": box.given.get("account", "")}
    facts |= dict.fromkeys(flags, "yes")
    mail = etree.Element("email", {name: one_line(value, 14_000) for name, value in facts.items() if value})
    parts = list(_leaves(raw, root, problems))
    texts = [part for part in parts if part.is_text]
    body = _body(raw, texts, problems)
    etree.SubElement(mail, "body").text = body[:MAX_BODY] or None
    if texts and not any(part.kind == "text/plain" for part in texts):
        mail[0].set("html", "yes")
    if len(body) > MAX_BODY or sum(part.end - part.start for part in texts) > 4 * MAX_BODY:
        mail[0].set("truncated", "yes")
    for server, results in header.authentication.items():
        etree.SubElement(mail, "authentication", server=server).text = results or None
    for part in parts:
        if not part.is_text:
            kind = one_line(part.kind, 100)
            name = file_name(part.name, kind)
            path = box.keep(_content(raw, part, problems), name)
            etree.SubElement(mail, "attachment", {"name": name, "type": kind} | path)
    etree.SubElement(mail, "raw", box.keep([raw], "mail.eml"))
    for problem, sentence in problems.items():
        etree.SubElement(mail, "problem", type=problem).text = one_line(sentence)
    return etree.tostring(mail, encoding="utf-8")


def _facts(raw: bytes, root: Part, header: Header, problems: Problems) -> dict[str, str]:
    """The facts of a mail's header; a missing one is empty, and a problem if it is required."""
    key = _key(raw, root, header)
    own, answered, chain = (header.ids(name) for name in ("message-id", "in-reply-to", "references"))
    writer, sender = (header.addresses("from") or header.addresses("sender") or [("", "")])[0]
    for name in ("date", "from", "message-id"):
        if not header.raw(name).strip():
            problems[f"no-{name}"] = f"it has no {name}"
    if any(xml_safe(raw) != raw for raw in map(header.raw, ("subject", "from", "to"))):
        problems["control-characters"] = "control characters in its header were replaced"
    several = {
        name: " ".join(address for _, address in header.addresses(name))
        for name in ("to", "cc", "reply-to", "return-path")
    }
    return {
        "key": key,
        "message-id": own[0] if own else "",
        "thread": (chain or answered or own or [key])[0],
        "in-reply-to": answered[0] if answered else "",
        "references": " ".join(chain),
        "from": sender,
        "from-name": writer,
        **several,
        "subject": header.text("subject"),
        "date": header.moment("date"),
        "received": header.moment("received"),
        "list": one_line(header.list_sign(), 200),
        "auto": one_line(header.auto_sign(root.kind, sender), 100),
    }


def _key(raw: bytes, root: Part, header: Header) -> str:
    """The identity of a mail (N37): equal for all its copies, different for mails that share a Message-ID."""
    digest = hashlib.sha256()
    for name in ("message-id", "from", "date", "subject"):
        digest.update("".join(header.raw(name).split()).encode("utf-8", "replace") + b"\n")
    end = len(raw) - len(raw[-64:]) + len(raw[-64:].rstrip())
    for chunk in _chunks(raw, root.start, end):
        digest.update(chunk.translate(None, b"\r"))
    return digest.hexdigest()[:40]
