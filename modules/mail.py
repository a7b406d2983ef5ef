"""Mail: what arrives in a Maildir, an mbox or over IMAP, answered and sent (N30, N36, N37; docs/mail.md).

Real mail lies about its charset, its dates, its structure and its size, so nothing here trusts it. A mail is
cut into slices along its boundaries: Python's own parser takes 40 times the size of a hostile mail and 25 s.
Every text is made fit for XML and bounded. What is wrong and survivable becomes a `problem` child of the
element; a mail that nothing can be made of is kept as a file and told by an `error`. A mailbox is only read.
"""

from __future__ import annotations

import asyncio
import binascii
import codecs
import fcntl
import hashlib
import os
import re
import socket
import tempfile
import threading
import unicodedata
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from email.message import Message
from email.parser import HeaderParser
from email.utils import format_datetime, getaddresses, parsedate_to_datetime
from functools import cache, partial
from itertools import islice
from pathlib import Path
from stat import S_ISREG
from typing import IO, Any, NamedTuple, TypeVar

from lxml import etree

from narval import ActionError, Element, Input, Output, action, call

MAX_MAIL = 64 * 1024 * 1024
"""A mail of more bytes stays where it is and is told by an error."""
MAX_HEADER = 256 * 1024
MAX_BODY = 100_000
"""Characters of readable text in an element; all of it is in the raw file."""
MAX_VALUE = 1_000
MAX_PARTS, MAX_DEPTH = 500, 30
MAX_ADDRESSES = 50
"""A mail to more recipients is not sent."""
BATCH, BATCH_BYTES = 50, 4 * 1024 * 1024
"""What one `yield` carries at most, so that a thousand mails are not a thousand commits."""
QUIET_SECONDS = 0.05
"""A mailbox is read once it has been left alone for this long: not everyone delivers in one stroke."""
IDLE_SECONDS = 5 * 60
"""An IDLE is renewed after this long; RFC 2177 allows 29 minutes, but routers forget silent connections."""
SAFE_SECONDS = 60
"""A bookmark moves this long after a mail was recorded: it must not survive where the record may not."""
SERVER_SECONDS = 30
"""How long a server may take to answer a command."""
CHUNK = 1 << 20

MAILBOX = Input("mailbox", "mailbox[@path or @host]")
MAILS = Output("mails", "email[not(@kind)]", list=True, optional=True, unique="@key")
TROUBLES = Output("troubles", "error[@mailbox]", list=True, optional=True, unique="@key")
"""Declared, so that one bad mail does not end the reading of the others, and each is told of once."""
IDENTITY = Input("identity", "identity[@address]")
SIGNATURE = Input("signature", "signature", optional=True)
DRAFT = Input("draft", "draft", use=True)


# --- actions ----------------------------------------------------------------------------------------------


@action(source=True, inputs=[MAILBOX], outputs=[MAILS, TROUBLES], description="Each mail of a mailbox.")
async def watch(mailbox: Element) -> AsyncIterator[list[bytes]]:
    """Give the mails of a mailbox, then those that arrive; after a restart, what was not recorded before."""
    here = call()
    box = Account(mailbox.attributes, here.home)
    signal, room = Signal(), threading.Semaphore(2)
    arrived: asyncio.Queue[Batch | Exception] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def tell(news: Batch | Exception) -> None:
        with suppress(RuntimeError):  # the loop has just been closed
            loop.call_soon_threadsafe(arrived.put_nowait, news)

    def follow() -> None:
        try:
            for batch in _follow(box, set(box.bookmark()), signal):
                tell(batch)
                room.acquire()
                if signal.stopped:
                    return
        except Exception as error:
            tell(error)

    bookmarks: deque[asyncio.TimerHandle] = deque()

    def bookmark_later(idents: list[str]) -> None:
        while bookmarks and bookmarks[0].when() <= loop.time():
            bookmarks.popleft()
        bookmarks.append(loop.call_later(SAFE_SECONDS, box.advance_bookmark, idents))

    threading.Thread(target=follow, name=f"mail.watch {box}", daemon=True).start()
    try:
        while True:
            batch = await arrived.get()
            if isinstance(batch, Exception):
                raise batch
            if batch.elements:
                yield batch.elements
            bookmark_later(batch.idents)
            if batch.is_last:
                here.caught_up()
            room.release()
    finally:
        for timer in bookmarks:  # it would hold the daemon that this call belongs to
            timer.cancel()
        signal.stop()
        room.release()


@action(inputs=[MAILBOX], outputs=[MAILS, TROUBLES], description="The mails that a mailbox holds now.")
def read(mailbox: Element) -> list[bytes]:
    """Give the mails that a mailbox holds now."""
    here = call()
    box = Account(mailbox.attributes, here.home)
    found: list[bytes] = []
    known: set[str] = set()
    once = Signal()
    once.stop()
    with box.opener(box, once) as session:
        for batch in _batches(box, session.letters(known), known):
            found += batch.elements
            here.progress(len(found))
    return found


@action(
    inputs=[
        Input("mail", "email[@from and not(@kind) and not(@list) and not(@auto)]", use=True),
        IDENTITY,
        Input("template", "ack-template", optional=True),
        SIGNATURE,
    ],
    outputs=[Output("answer", "email[@kind='ack']")],
    description="Compose an acknowledgement of a mail that a person wrote.",
    pure=True,
)
def acknowledge(
    mail: Element, identity: Element, template: Element | None = None, signature: Element | None = None
) -> bytes:
    """Compose the acknowledgement of a mail; lists and automata get none, and it goes to the sender of the
    envelope where that is known (RFC 3834).
    """
    asked = mail.attributes
    words = {name: asked.get(name, "") for name in ("from", "from-name", "subject", "date")}
    words["from-name"] = words["from-name"] or words["from"]
    text = template.text.strip() if template else ACKNOWLEDGEMENT
    text = re.sub(r"\{([a-z-]+)\}", lambda word: words.get(word[1], word[0]), text)
    to = asked.get("return-path") or asked.get("from", "")
    return _compose("ack", identity, signature, text, to=to, answered=asked, auto="auto-replied")


@action(
    inputs=[Input("mail", "email[@from and not(@kind)]"), DRAFT, IDENTITY, SIGNATURE],
    outputs=[Output("answer", "email[@kind='reply']")],
    description="Compose an answer to a mail.",
    pure=True,
)
def reply(mail: Element, draft: Element, identity: Element, signature: Element | None = None) -> bytes:
    """Compose an answer to a mail; the draft holds its text."""
    asked = mail.attributes
    to = asked.get("reply-to") or asked.get("from", "")
    return _compose("reply", identity, signature, draft.text, to=to, answered=asked)


@action(
    inputs=[DRAFT, IDENTITY, SIGNATURE],
    outputs=[Output("mail", "email[@kind='new']")],
    description="Compose a mail from a draft.",
    pure=True,
)
def compose(draft: Element, identity: Element, signature: Element | None = None) -> bytes:
    """Compose a mail: `<draft to="…" cc="…" subject="…">text</draft>`."""
    given = draft.attributes
    to, cc, subject = (given.get(name, "") for name in ("to", "cc", "subject"))
    return _compose("new", identity, signature, draft.text, to=to, cc=cc, subject=subject)


@action(
    inputs=[Input("mail", "email[@kind]", use=True), Input("outbox", "outbox[@path or @host]")],
    outputs=[Output("sent", "sent")],
    description="Deliver a composed mail to a Maildir, or send it by SMTP.",
)
async def send(mail: Element, outbox: Element) -> bytes:
    """Send a mail: to a Maildir exactly once, by SMTP at least once, known by its Message-ID (N37)."""
    here = call()
    account = Account(outbox.attributes, here.home)
    letter = _outgoing(mail, here.id)
    refused = await account.carrier(account, letter)
    sent = etree.Element("sent", {"message-id": letter.ident}, at=_now(), outbox=_fit(str(account)))
    facts = {"in-reply-to": mail.attributes.get("in-reply-to"), "to": " ".join(letter.to)}
    for name, value in (facts | {"refused": " ".join(refused)}).items():
        if value:
            sent.set(name, value)
    return etree.tostring(sent, encoding="utf-8")


# --- texts ------------------------------------------------------------------------------------------------

Problems = dict[str, str]
"""What is wrong with a mail and survivable: a stable word, and a sentence for people."""

_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_ENCODED_WORD = re.compile(r"=\?([^?\s*]+)(?:\*[^?\s]*)?\?([bq])\?([^?]*)\?=", re.IGNORECASE)
_NO_CHARSETS = ("idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined")
"""Python calls these text encodings too; the first two take a time that grows with the square of the text."""
_LATIN = ("", "ascii", "us-ascii", "latin-1", "latin1", "iso-8859-1", "iso-8859-15", "windows-1252", "cp1252")
_SUPERSETS = {
    label: codec
    for codec, labels in (
        ("cp1252", "latin-1 latin1 iso-8859-1"),
        ("cp932", "shift_jis x-sjis windows-31j"),
        ("cp949", "euc-kr ks_c_5601-1987"),
        ("big5hkscs", "big5"),
        ("gb18030", "gb2312 gbk x-gbk"),
        ("iso2022_jp_ext", "iso-2022-jp"),
        ("utf-7", "unicode-1-1-utf-7"),
    )
    for label in labels.split()
}
"""Labels that are used for more than they say, and the charset that reads what is really sent under them."""


def _decode(data: bytes, label: str, problems: Problems) -> str:
    """Bytes as text, whatever the label says: what is valid UTF-8 is UTF-8, the last resort is Latin-1."""
    label = label.strip(" \t'\"").lower()[:60]
    if label in (*_LATIN, "utf-8"):
        with suppress(UnicodeDecodeError):
            text = data.decode("utf-8")
            if label != "utf-8" and not text.isascii():
                problems["bad-charset"] = f"declared {label or 'no charset'}, is UTF-8"
            return text
    try:
        codec = codecs.lookup(_SUPERSETS.get(label, label))
        if codec.name in _NO_CHARSETS:
            raise LookupError(f"no charset: {label}")
        return data.decode(codec.name)
    except (LookupError, ValueError) as error:
        problems["bad-charset"] = f"cannot be read as {label or 'ASCII'}: {error}"
    if data.decode("utf-8", "ignore").isascii():  # not one character of UTF-8 in it
        return data.decode("cp1252", "replace")
    return data.decode("utf-8", "replace")


def _unwrap(text: str, problems: Problems) -> str:
    """The encoded words of RFC 2047 decoded; neighbours are joined first: some end within a character."""
    pieces: list[tuple[str, bytes]] = []  # charset and bytes; plain text counts as UTF-8
    end = 0
    for word in _ENCODED_WORD.finditer(text):
        between = text[end : word.start()]
        if not pieces or between.strip():
            pieces.append(("", between.encode("utf-8", "replace")))
        payload = word[3].encode("utf-8", "replace")
        if word[2] in "bB":
            data = b"".join(_base64([payload], problems))
        else:
            data = binascii.a2b_qp(payload, header=True)
        if pieces[-1][0] == word[1].lower():
            pieces[-1] = (pieces[-1][0], pieces[-1][1] + data)
        else:
            pieces.append((word[1].lower(), data))
        end = word.end()
    pieces.append(("", text[end:].encode("utf-8", "replace")))
    return "".join(_decode(data, label, problems) if label else data.decode() for label, data in pieces)


def _fit(text: str, most: int = MAX_VALUE) -> str:
    """A text of one line that XML can hold and a person can read: bounded, blanks collapsed."""
    line = " ".join(_UNFIT.sub("\ufffd", text[: most * 4]).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _unflow(text: str, delete_space: bool) -> str:
    """The paragraphs of format=flowed text in one line each (RFC 3676)."""
    lines: list[str] = []
    flowing = -1  # the quote depth of the paragraph that goes on; -1 for none
    for line in text.split("\n"):
        content = line.lstrip(">")
        depth = len(line) - len(content)
        content = content.removeprefix(" ")
        flows = content.endswith(" ") and content != "-- "
        shown = content[:-1] if flows and delete_space else content
        if depth == flowing:
            lines[-1] += shown
        else:
            lines.append(f"{'>' * depth} {shown}" if depth else shown)
        flowing = depth if flows else -1
    return "\n".join(lines)


_BREAKS = {
    tag: space
    for space, tags in (
        ("\x02", "blockquote h1 h2 h3 h4 h5 h6 ol p pre table ul"),
        ("\x01", "address article aside dd div dl dt figure footer form header hr li main nav section tr"),
        (" ", "td th"),
    )
    for tag in tags.split()
}
"""What sets an element apart: \\x02 a blank line, \\x01 a new line."""
_HIDDEN = ("head", "script", "style", "template", "title", "object", "svg")


def _readable(html: str) -> str:
    """The text of an HTML page as a person would copy it: no markup, blocks apart, links spelled out."""
    parser = etree.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True)
    parser.feed(b"<html>" + _UNFIT.sub("", html).encode())
    root = parser.close()
    out: list[str] = []
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, node in walk:
        tag, opening = str(node.tag), event == "start"
        out.append(_BREAKS.get(tag, ""))
        if opening and (tag in _HIDDEN or "display:none" in node.get("style", "").replace(" ", "")):
            walk.skip_subtree()
        elif opening:
            out.append({"br": "\n", "li": "- ", "img": node.get("alt") or ""}.get(tag, ""))
            out.append(re.sub(r"\s+", " ", node.text or ""))
        else:
            target = node.get("href") or ""
            if tag == "a" and target.startswith("http") and target != (node.text or "").strip():
                out.append(f" <{target}>")
            out.append(re.sub(r"\s+", " ", node.tail or ""))
    text = re.sub(r"[ \xa0]+", " ", "".join(out))
    text = re.sub(r"[\s\x01]*\x02[\s\x01\x02]*", "\n\n", text)
    return re.sub(r"\n{3,}", "\n\n", re.sub(r" *(\n|\x01)[ \x01]*", "\n", text)).strip()


# --- structure --------------------------------------------------------------------------------------------

_HEADERS = re.compile(
    rb"(?:>?From [^\n]*\n)?(?:[!-9;-~]+[ \t]*:[^\n]*(?:\n|\Z)|[ \t]+[^\r\n \t][^\n]*(?:\n|\Z))*"
)
_BLANK_LINE = re.compile(rb"[ \t]*\r?\n")
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
_NOT_BASE64 = bytes(set(range(256)) - set(_BASE64))


class Part(NamedTuple):
    """A slice of a mail: its header read, its body still lying where it lies. `choice` tells the parts of one
    multipart/alternative from those of another.
    """

    header: Message
    start: int
    end: int
    choice: int | None = None

    @property
    def kind(self) -> str:
        """Its media type."""
        return self.header.get_content_type()

    @property
    def is_text(self) -> bool:
        """Whether it is to be read as part of the mail, rather than a file that came along."""
        disposition = str(self.header.get("content-disposition", "")).partition(";")[0].strip().lower()
        return self.kind in ("text/plain", "text/html") and disposition != "attachment" and not self.name

    @property
    def name(self) -> str:
        """The file name it asks for; empty when it asks for none."""
        return self.parameter("filename", "content-disposition") or self.parameter("name")

    def parameter(self, name: str, of: str = "content-type") -> str:
        """A parameter of a header, RFC 2231 and RFC 2047 undone; empty when there is none."""
        try:
            value = self.header.get_param(name, "", of)
        except Exception:  # the standard library raises this and that on hostile ones
            return ""
        if isinstance(value, tuple):
            return _decode(value[2].encode("latin-1", "replace"), value[0] or "", {})
        return _unwrap(value or "", {})


def _open(raw: bytes, start: int, end: int, problems: Problems, choice: int | None = None) -> Part:
    """The part that begins at `start`: its header is read, bounded, and its body found."""
    limit = min(end, start + MAX_HEADER)
    fields = _HEADERS.match(raw, start, limit)
    stop = fields.end() if fields else start
    header = HeaderParser().parsestr(_decode(raw[start:stop], "utf-8", problems))
    if stop == limit < end:
        problems["header-too-large"] = f"only the first {MAX_HEADER:,} bytes of a header were read"
        gaps = (raw.find(gap, stop, end) for gap in (b"\n\n", b"\n\r\n"))
        stop = min((gap + 1 for gap in gaps if gap >= 0), default=end)
    blank = _BLANK_LINE.match(raw, stop, end)
    return Part(header, blank.end() if blank else stop, end, choice)


def _split(raw: bytes, part: Part, boundary: str, problems: Problems) -> Iterator[tuple[int, int]]:
    """Where the children of a multipart lie; without a closing boundary the last one reaches to the end."""
    word = re.escape(boundary.encode("utf-8", "replace"))
    # What is rare comes first, and only then a look back for the line's beginning: that makes it fast.
    delimiter = re.compile(rb"--%b(?<=\n--%b)(--)?[ \t]*\r?(?:\n|\Z)" % (word, word))
    begun: int | None = None
    for found in delimiter.finditer(raw, part.start, part.end):
        if begun is not None:
            before = found.start() - (2 if raw[found.start() - 2] == 0x0D else 1)
            yield begun, max(begun, before)
        if found[1]:
            return
        begun = found.end()
    if begun is None:
        problems["bad-boundary"] = "a multipart whose boundary never comes; read as one text"
    else:
        problems["cut-short"] = "a multipart ends without its closing boundary"
        yield begun, part.end


def _leaves(raw: bytes, root: Part, problems: Problems) -> Iterator[Part]:
    """The parts that hold something, in order. An attached mail is one of them: it is kept whole."""
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
            yield part
        todo.extend((child, depth + 1) for child in reversed(children))


def _content(raw: bytes, part: Part, problems: Problems) -> Iterator[bytes]:
    """What a part holds, its transfer encoding undone, a chunk at a time."""
    encoding = str(part.header.get("content-transfer-encoding", "")).strip().lower()
    chunks = _chunks(raw, part.start, part.end)
    if encoding == "base64":
        return _base64(chunks, problems)
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


def _base64(chunks: Iterable[bytes], problems: Problems) -> Iterator[bytes]:
    """Base64 decoded as it comes; what follows the padding, such as a list's footer, is not part of it."""
    left = b""
    for chunk in chunks:
        left, padding, _ = (left + chunk.translate(None, _NOT_BASE64)).partition(b"=")
        whole = len(left) // 4 * 4
        yield binascii.a2b_base64(left[:whole])
        left = left[whole:]
        if padding:
            break
    if len(left) == 1:
        problems["bad-encoding"] = "base64 that was cut short"
        left = b""
    yield binascii.a2b_base64(left + b"=" * (-len(left) % 4))


def _start(chunks: Iterable[bytes], most: int) -> bytes:
    """The first bytes of what comes in chunks."""
    data = bytearray()
    for chunk in chunks:
        data += chunk
        if len(data) >= most:
            break
    return bytes(data[:most])


def _body(raw: bytes, texts: list[Part], problems: Problems) -> str:
    """What there is to read: plain text, and HTML made readable where it has no plain alternative."""
    read: list[tuple[Part, str]] = []
    room = 4 * MAX_BODY
    for part in texts:
        data = _start(_content(raw, part, problems), room)
        room -= len(data)
        text = _decode(data, part.parameter("charset"), problems).replace("\r\n", "\n").replace("\r", "\n")
        if part.kind == "text/plain" and part.parameter("format").lower() == "flowed":
            text = _unflow(text, part.parameter("delsp").lower() == "yes")
        if text.strip():
            read.append((part, text))
    in_plain = {part.choice for part, _ in read if part.kind == "text/plain"} - {None}
    shown = [
        text if part.kind == "text/plain" else _readable(text)
        for part, text in read
        if part.kind == "text/plain" or part.choice not in in_plain
    ]
    text, unfit = _UNFIT.subn("\ufffd", "\n\n".join(text.strip("\n") for text in shown))
    if unfit:
        problems["control-characters"] = "control characters in its text were replaced"
    return text


# --- header -----------------------------------------------------------------------------------------------

_ID = re.compile(r"<([^<>\s]+)>|([^<>\s]+@[^<>\s]+)")
_ADDRESS = re.compile(r"[^\s@<>,;\"]+@[^\s@<>,;\"]+")
_LIST_SIGNS = ("list-post", "list-unsubscribe", "list-help", "mailing-list", "x-mailing-list")
_AUTO_SIGNS = ("x-autoreply", "x-autorespond", "x-autoresponder")
_SUPPRESS = re.compile(r"\b(all|oof|autoreply)\b", re.IGNORECASE)
_ROBOT = re.compile(
    r"(mailer-daemon|postmaster|listserv|majordomo|(do[-_.]?)?not?[-_.]?reply|bounces?"
    r"|owner-[^@]*|[^@]*-(request|owner|bounces))([-+=][^@]*)?@",
    re.IGNORECASE,
)
"""Senders that nobody reads: RFC 3834 and what has come into use since."""


class Header:
    """The header of a mail, asked by name; never raises, whatever was sent."""

    def __init__(self, message: Message, problems: Problems) -> None:
        self._problems = problems
        self._fields: dict[str, str] = {}
        for name, value in message.raw_items():
            self._fields.setdefault(name.lower(), str(value)[: MAX_HEADER // 4])

    def __bool__(self) -> bool:
        return bool(self._fields)

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def raw(self, name: str) -> str:
        """The first field of that name as it was sent."""
        return self._fields.get(name, "")

    def text(self, name: str) -> str:
        """A field as a person reads it."""
        return _fit(_unwrap(self.raw(name), self._problems))

    def ids(self, name: str) -> list[str]:
        """The message ids a field names; where they are very many, the first and the last of them."""
        found = [_fit(bracketed or bare, 250) for bracketed, bare in _ID.findall(self.raw(name))]
        return found if len(found) <= 20 else found[:1] + found[-19:]

    def addresses(self, name: str) -> list[tuple[str, str]]:
        """The (name, address) pairs of a field."""
        value = " ".join(self.raw(name)[:16_000].split())
        try:
            pairs = [pair for pair in getaddresses([value]) if pair[1]]
        except Exception:  # the standard library raises this and that, RecursionError included
            pairs = []
        good = [
            (_fit(_unwrap(person, self._problems), 200), address)
            for person, address in pairs
            if len(address) <= 254 and _ADDRESS.fullmatch(address) and not _UNFIT.search(address)
        ]
        if len(good) < max(len(pairs), "@" in value):
            self._problems["bad-address"] = f"{name} names something that is no address"
        return good[:MAX_ADDRESSES]

    def moment(self, name: str) -> str:
        """A date in ISO 8601 and UTC, so that dates sort as texts do."""
        value = self.raw(name).rpartition(";")[2].strip()
        if not value:
            return ""
        try:
            moment = parsedate_to_datetime(value)
            return _iso(moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC))
        except Exception:  # ValueError, TypeError, IndexError, OverflowError: as the date pleases
            self._problems["bad-date"] = f"{name} is no date: {_fit(value, 100)!r}"
            return ""

    def list_sign(self) -> str:
        """By what the mail shows that it went to many: its List-Id, or the name of another sign."""
        if "list-id" in self:
            name = self.text("list-id")
            return name.rpartition("<")[2].rstrip("> ") or "list-id"
        precedence = self.text("precedence").lower()
        bulk = precedence if precedence in ("list", "bulk", "junk") else ""
        return next((sign for sign in _LIST_SIGNS if sign in self), bulk)

    def auto_sign(self, kind: str, sender: str) -> str:
        """By what the mail shows that no person wrote it (RFC 3834)."""
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


# --- the element ------------------------------------------------------------------------------------------


def read_mail(raw: bytes, box: Account) -> bytes:
    """A mail as an `email` element; its attachments and its original are kept as files.

    Raises ValueError for what is no mail at all.
    """
    problems: Problems = {}
    root = _open(raw, 0, len(raw), problems)
    header = Header(root.header, problems)
    if not header:
        raise ValueError("there is no header in it")
    facts = _facts(raw, root, header, problems)
    facts |= {"size": str(len(raw)), "mailbox": str(box), "account": box.given.get("account", "")}
    mail = etree.Element("email", {name: _fit(value, 14_000) for name, value in facts.items() if value})
    parts = list(_leaves(raw, root, problems))
    texts = [part for part in parts if part.is_text]
    body = _body(raw, texts, problems)
    etree.SubElement(mail, "body").text = body[:MAX_BODY] or None
    if len(body) > MAX_BODY or sum(part.end - part.start for part in texts) > 4 * MAX_BODY:
        mail[0].set("truncated", "yes")
    for part in parts:
        if not part.is_text:
            kind = _fit(part.kind, 100)
            name = _file_name(part.name, kind)
            kept = box.keep(_content(raw, part, problems), name)
            etree.SubElement(mail, "attachment", {"name": name, "type": kind} | kept)
    etree.SubElement(mail, "raw", box.keep([raw], "mail.eml"))
    for problem, sentence in problems.items():
        etree.SubElement(mail, "problem", type=problem).text = _fit(sentence)
    return etree.tostring(mail, encoding="utf-8")


def _facts(raw: bytes, root: Part, header: Header, problems: Problems) -> dict[str, str]:
    """What a mail's header says; what it does not say is empty, and a problem where it ought to have."""
    key = _key(raw, root, header)
    own, answered, chain = (header.ids(name) for name in ("message-id", "in-reply-to", "references"))
    writer, sender = (header.addresses("from") or header.addresses("sender") or [("", "")])[0]
    for name in ("date", "from", "message-id"):
        if not header.raw(name).strip():
            problems[f"no-{name}"] = f"it has no {name}"
    if any(_UNFIT.search(header.raw(name)) for name in ("subject", "from", "to")):
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
        "list": _fit(header.list_sign(), 200),
        "auto": _fit(header.auto_sign(root.kind, sender), 100),
    }


def _key(raw: bytes, root: Part, header: Header) -> str:
    """Who a mail is (N37): equal for all its copies, and different where two mails share one Message-ID."""
    digest = hashlib.sha256()
    for name in ("message-id", "from", "date", "subject"):
        digest.update("".join(header.raw(name).split()).encode("utf-8", "replace") + b"\n")
    end = len(raw) - len(raw[-64:]) + len(raw[-64:].rstrip())
    for chunk in _chunks(raw, root.start, end):
        digest.update(chunk.translate(None, b"\r"))
    return digest.hexdigest()[:40]


_SUFFIXES = {"message/delivery-status": ".txt", "message/rfc822": ".eml", "text/calendar": ".ics"}
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


def _file_name(asked: str, kind: str) -> str:
    """A name under which a file can be kept anywhere: one path component, printable, at most 200 bytes."""
    name = unicodedata.normalize("NFC", asked[:2_000]).replace("\\", "/").rpartition("/")[2]
    name = "".join(letter for letter in name if unicodedata.category(letter)[0] != "C")
    name = " ".join(re.sub(r'[<>:"|?*]', "_", name).split()).strip(". ")
    if not name:
        short = re.fullmatch(r"[a-z]+/([a-z]{2,4})", kind)
        usual = f".{short[1]}" if short else ".txt" if kind.startswith("text/") else ".bin"
        return "attachment" + _SUFFIXES.get(kind, usual)
    if name.startswith("-") or _RESERVED.fullmatch(name):
        name = "_" + name
    if len(name.encode()) > 200:
        stem, suffix = os.path.splitext(name)
        suffix = suffix if len(suffix.encode()) <= 20 else ""
        name = stem.encode()[: 200 - len(suffix.encode())].decode("utf-8", "ignore") + suffix
    return name


# --- mailboxes --------------------------------------------------------------------------------------------


Way = TypeVar("Way")


class Account(NamedTuple):
    """What a `mailbox` or `outbox` element gives, and the home it belongs to; None for a home in memory."""

    given: Mapping[str, str]
    home: Path | None = None

    def __str__(self) -> str:
        return self.given.get("name") or self.given.get("path") or self.given.get("host") or "unnamed"

    def fault(self, message: str) -> ActionError:
        """What to raise when the element asks for something impossible."""
        return ActionError(f"account {self}: {message}", "bad-account")

    @property
    def opener(self) -> Opener:
        """How mails are read from it."""
        return self._of_kind(OPENERS, "imap")

    @property
    def carrier(self) -> Carrier:
        """How mails are given to it."""
        return self._of_kind(CARRIERS, "smtp")

    def _of_kind(self, kinds: Mapping[str, Way], usual: str) -> Way:
        kind = self.given.get("kind") or ("maildir" if "path" in self.given else usual)
        if kind not in kinds:
            raise self.fault(f"expected kind to be one of {', '.join(kinds)}, got {kind!r}")
        return kinds[kind]

    @property
    def path(self) -> Path:
        """Where its files lie; a relative path begins at the home."""
        if not self.given.get("path"):
            raise self.fault("expected a path, got none")
        return (self.home or Path()) / Path(self.given["path"]).expanduser()

    @property
    def tls(self) -> str:
        """How its connection is protected; only a connection within the machine may be without."""
        tls = self.given.get("tls", "implicit")
        if tls not in ("implicit", "starttls", "none"):
            raise self.fault(f"expected tls to be implicit, starttls or none, got {tls!r}")
        if tls == "none" and self.given.get("host") not in ("localhost", "127.0.0.1", "::1"):
            raise self.fault("without tls, mail and password would go through the net in the clear")
        return tls

    def port(self, **usual: int) -> int:
        """The port given, or the usual one for its protection."""
        port = self.given.get("port") or str(usual[self.tls])
        if not port.isdecimal() or not 0 < int(port) < 65536:
            raise self.fault(f"expected port to be a number below 65536, got {port!r}")
        return int(port)

    def secret(self) -> str:
        """The password, from the environment variable or the file in etc/ that `secret` names."""
        name = self.given.get("secret", "")
        if name in os.environ:
            return os.environ[name]
        file = (self.home or Path()) / "etc" / _file_name(name, "")
        if not name or not file.is_file():
            raise self.fault(f"its secret is neither in the environment nor a file of etc/: {name!r}")
        if file.stat().st_mode & 0o077:
            raise self.fault(f"others may read its secret: chmod 600 {file}")
        return file.read_text("utf-8").strip()

    def keep(self, chunks: Iterable[bytes], name: str) -> dict[str, str]:
        """Keep content as a file of the home, found by its digest: keeping it twice is keeping it once."""
        folder = self._folder()
        digest, size = hashlib.sha256(), 0
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".new-", delete=False) as file:
            try:
                for chunk in chunks:
                    digest.update(chunk)
                    size += file.write(chunk)
                file.flush()
                target = folder / digest.hexdigest()[:2] / digest.hexdigest() / name
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                os.replace(file.name, target)
            except BaseException:
                os.unlink(file.name)
                raise
        shown = target.relative_to(self.home) if self.home else target
        return {"size": str(size), "file": shown.as_posix(), "sha256": digest.hexdigest()}

    def bookmark(self) -> list[str]:
        """The letters of this mailbox that were recorded before: a shortcut only, as keys decide (N37)."""
        with suppress(FileNotFoundError):
            return self._bookmark_file().read_text("utf-8", "replace").split("\n")
        return []

    def advance_bookmark(self, idents: Iterable[str]) -> None:
        """These letters are recorded."""
        lines = "".join(f"{ident}\n" for ident in idents)
        with suppress(OSError):
            if lines:
                with self._bookmark_file().open("a", encoding="utf-8", errors="replace") as file:
                    file.write(lines)

    def _bookmark_file(self) -> Path:
        names = ("kind", "path", "host", "port", "user", "folder")
        where = "\0".join(self.given.get(name, "") for name in names)
        return self._folder() / f"seen-{hashlib.sha256(where.encode()).hexdigest()[:16]}"

    def _folder(self) -> Path:
        folder = (self.home / "var" if self.home else Path(_scratch().name)) / "mail"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder


@cache
def _scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder for the files of a home in memory, gone when the program ends."""
    return tempfile.TemporaryDirectory(prefix="narval-")


class Letter(NamedTuple):
    """A mail as its mailbox has it: `ident` is the mailbox's own name for it, `where` helps people find it,
    `fault` says why it has no `raw`.
    """

    ident: str
    where: str
    raw: bytes = b""
    fault: str = ""

    @classmethod
    def bounded(cls, ident: str, where: str, raw: bytes | None) -> Letter:
        """A letter whose content is left out when it is too large."""
        if raw is not None and len(raw) <= MAX_MAIL:
            return cls(ident, where, raw)
        return cls(ident, where, fault=f"larger than {MAX_MAIL >> 20} MB; left where it is")


class Batch(NamedTuple):
    """Elements to be recorded together, and the letters they come from; a wait follows the last one."""

    idents: list[str]
    elements: list[bytes]
    is_last: bool = False


class Session(NamedTuple):
    """An open mailbox: its letters that are not known yet, and a way to wait until there may be more."""

    letters: Callable[[set[str]], Iterator[Letter]]
    wait: Callable[[], None]


class UnreachableError(ActionError):
    """A server cannot be reached, or went away: it may come back."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "mailbox-unreachable")


class Signal:
    """How the thread that follows a mailbox hears that something changed, or that nobody listens any more."""

    def __init__(self) -> None:
        self._changed = threading.Event()
        self.stopped = False
        self.only: Path | None = None
        self.interrupt: Callable[[], None] = lambda: None

    def dispatch(self, event: Any) -> None:
        """Hear of a change; called by watchdog, in a thread of its own."""
        if self.only is None or os.fspath(self.only) in (event.src_path, event.dest_path):
            self._changed.set()

    def stop(self) -> None:
        """End whatever wait there is, and allow no other."""
        self.stopped = True
        self._changed.set()
        with suppress(OSError):
            self.interrupt()

    def wait(self, seconds: float | None = None) -> None:
        """Wait for a change, and until there has been none for a moment."""
        changed = self._changed.wait(seconds)
        for _ in range(100):
            if self.stopped or not changed:
                return
            self._changed.clear()
            changed = self._changed.wait(QUIET_SECONDS)


def _follow(box: Account, known: set[str], signal: Signal) -> Iterator[Batch]:
    """What a mailbox holds, then what arrives, until the signal says stop; a lost server is called again."""
    pause = 1.0
    while not signal.stopped:
        try:
            with box.opener(box, signal) as session:
                while not signal.stopped:
                    yield from _batches(box, session.letters(known), known)
                    pause = 1.0
                    session.wait()
        except UnreachableError as error:
            if pause == 1.0 and not signal.stopped:
                yield Batch([], [_trouble(box, error.kind, str(error))])
            signal.wait(pause)
            pause = min(2 * pause, 300.0)


def _batches(box: Account, letters: Iterator[Letter], known: set[str]) -> Iterator[Batch]:
    """Letters made into elements, some at a time."""
    idents: list[str] = []
    elements: list[bytes] = []
    for letter in letters:
        known.add(letter.ident)
        idents.append(letter.ident)
        elements.append(_element(box, letter))
        if len(elements) == BATCH or sum(map(len, elements)) > BATCH_BYTES:
            yield Batch(idents, elements)
            idents, elements = [], []
    yield Batch(idents, elements, is_last=True)


def _element(box: Account, letter: Letter) -> bytes:
    """A letter as an `email`, or as an `error` that says why it is none; a full disk is another matter."""
    if letter.fault:
        key = hashlib.sha256(f"{box}\0{letter.ident}".encode()).hexdigest()
        return _trouble(box, "bad-mail", f"{letter.where}: {letter.fault}", {"key": key})
    try:
        return read_mail(letter.raw, box)
    except OSError:
        raise
    except Exception as error:  # whatever a hostile mail provokes costs that mail alone
        kept = box.keep([letter.raw], "mail.eml")
        where = kept | {"key": kept["sha256"]}
        return _trouble(box, "bad-mail", f"{letter.where} cannot be read as a mail: {error}", where)


def _trouble(box: Account, kind: str, message: str, where: dict[str, str] | None = None) -> bytes:
    error = etree.Element("error", {"type": kind, "mailbox": _fit(str(box))} | (where or {}))
    etree.SubElement(error, "message").text = _fit(message)
    return etree.tostring(error, encoding="utf-8")


@contextmanager
def _watched(folders: Iterable[Path], signal: Signal) -> Iterator[None]:
    """Have the system tell the signal what changes in these folders."""
    if signal.stopped:
        yield
        return
    from watchdog.events import FileClosedEvent, FileCreatedEvent, FileModifiedEvent, FileMovedEvent
    from watchdog.observers import Observer

    observer = Observer()
    handler: Any = signal
    for folder in folders:
        changes = [FileClosedEvent, FileCreatedEvent, FileModifiedEvent, FileMovedEvent]
        observer.schedule(handler, os.fspath(folder), event_filter=changes)
    observer.start()
    try:
        yield
    finally:
        observer.stop()
        observer.join()


@contextmanager
def _maildir(box: Account, signal: Signal) -> Iterator[Session]:
    folders = [box.path / name for name in ("new", "cur") if (box.path / name).is_dir()]
    if not folders:
        raise box.fault(f"expected a Maildir, with new/ or cur/ in it, at {box.path}")
    with _watched(folders, signal):
        yield Session(partial(_maildir_letters, folders), signal.wait)


def _maildir_letters(folders: Iterable[Path], known: set[str]) -> Iterator[Letter]:
    """The letters of a Maildir, oldest first. No flag or move makes a letter new; growing does, as not every
    program delivers in one stroke, and so does being made readable.
    """
    found: list[tuple[str, str, Path, int]] = []
    for folder in folders:
        for path in folder.iterdir():
            with suppress(FileNotFoundError):  # moved or deleted just now
                name, state = path.name.partition(":")[0], path.stat()
                if S_ISREG(state.st_mode) and state.st_size and not name.startswith("."):
                    ident = f"{_fit(name)}/{state.st_size}/{state.st_mode:o}"
                    found.append((name, ident, path, state.st_size))
    for _, ident, path, size in sorted(found):
        if ident in known:
            continue
        try:
            yield Letter.bounded(ident, str(path), path.read_bytes() if size <= MAX_MAIL else None)
        except FileNotFoundError:  # if it was moved, the next listing has it
            continue
        except OSError as error:
            yield Letter(ident, str(path), fault=f"cannot be read: {error.strerror}")


@contextmanager
def _mbox(box: Account, signal: Signal) -> Iterator[Session]:
    signal.only = box.path
    with _watched([box.path.parent], signal):
        yield Session(partial(_mbox_letters, box.path), signal.wait)


def _mbox_letters(path: Path, known: set[str]) -> Iterator[Letter]:
    """The letters of an mbox, in order."""
    if not path.exists():
        return
    with path.open("rb") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:  # it is being delivered to; the end of that will wake us
            return
        for raw in _mbox_mails(file):
            ident = hashlib.sha256(raw).hexdigest()[:40]
            if ident not in known:
                yield Letter.bounded(ident, str(path), raw)


def _mbox_mails(file: IO[bytes]) -> Iterator[bytes]:
    """The mails of an mbox, `>From ` unquoted; of one that is too large, a little more than is allowed."""
    lines: list[bytes] = []
    size, after_blank = 0, True
    for line in iter(partial(file.readline, CHUNK), b""):
        if after_blank and line.startswith(b"From "):
            if lines:
                yield b"".join(lines)
            lines, size = [], 0
        elif size <= MAX_MAIL:
            lines.append(re.sub(rb"^>(>*From )", rb"\1", line))
            size += len(line)
        after_blank = line in (b"\n", b"\r\n")
    if lines:
        yield b"".join(lines)


@contextmanager
def _imap(box: Account, signal: Signal) -> Iterator[Session]:
    """An IMAP session on the mailbox's folder, opened read only."""
    import ssl

    import imap_tools

    opener = {"implicit": "MailBox", "starttls": "MailBoxStartTls", "none": "MailBoxUnencrypted"}[box.tls]
    # Without a context of ours, the standard library would check no certificate.
    secure = {} if box.tls == "none" else {"ssl_context": ssl.create_default_context()}
    port, secret = box.port(implicit=993, starttls=143, none=143), box.secret()
    with _reaching(box):
        host = box.given.get("host", "")
        server = getattr(imap_tools, opener)(host, port, timeout=SERVER_SECONDS, **secure)
    try:
        with _reaching(box):
            try:
                server.login(box.given.get("user", ""), secret, initial_folder=None)
                server.folder.set(box.given.get("folder", "INBOX"), readonly=True)
            except (imap_tools.MailboxLoginError, imap_tools.MailboxFolderSelectError) as error:
                raise box.fault(f"the server refuses it: {error}") from None
            epoch = (server.client.response("UIDVALIDITY")[1][0] or b"0").decode()
        signal.interrupt = partial(server.client.sock.shutdown, socket.SHUT_RDWR)
        yield Session(partial(_imap_letters, box, server, epoch), partial(_imap_wait, box, server, signal))
    finally:
        for farewell in (server.logout, server.client.shutdown):
            with suppress(Exception):  # the connection may be gone already
                farewell()


def _imap_letters(box: Account, server: Any, epoch: str, known: set[str]) -> Iterator[Letter]:
    """The letters of an IMAP folder, peeked at, so that they stay unread there."""
    more = True
    while more:
        read = [int(uid) for ident in known for at, _, uid in [ident.partition(".")] if at == epoch]
        with _reaching(box):
            server.client.response("EXISTS")  # taken away: what is there later came meanwhile
            uids = sorted(map(int, server.uids(f"UID {max(read, default=0) + 1}:*", charset=None)))
        for uid in uids:
            ident = f"{epoch}.{uid}"
            if ident not in known:
                with _reaching(box):
                    _, data = server.client.uid("fetch", str(uid), f"(BODY.PEEK[]<0.{MAX_MAIL + 1}>)")
                for piece in data:
                    if isinstance(piece, tuple):  # there is none when the mail was deleted meanwhile
                        yield Letter.bounded(ident, f"{box} uid {uid}", piece[1])
        more = server.client.response("EXISTS")[1] != [None]


def _imap_wait(box: Account, server: Any, signal: Signal) -> None:
    """Wait until the server says that something changed; one that cannot is asked once a minute."""
    with _reaching(box):
        if "IDLE" in server.client.capabilities:
            server.idle.start()
            if not _has_buffered(server):
                server.idle.poll(timeout=IDLE_SECONDS)
            server.idle.stop()
        else:
            signal.wait(60)
            server.client.noop()


def _has_buffered(server: Any) -> bool:
    """Whether news came in one packet with the answer to IDLE: imap-tools waits for the next packet only."""
    server.client.sock.settimeout(0)
    try:
        return bool(server.client.file.peek(1))
    except OSError:  # over TLS, the way to say that there is nothing
        return False
    finally:
        server.client.sock.settimeout(SERVER_SECONDS)


@contextmanager
def _reaching(box: Account) -> Iterator[None]:
    """Tell what a server, or the way to it, does wrong from what is wrong here."""
    import imaplib

    from imap_tools import ImapToolsError

    try:
        yield
    except (OSError, imaplib.IMAP4.error, ImapToolsError) as error:
        raise UnreachableError(f"{box}: {error}") from error


Opener = Callable[[Account, Signal], AbstractContextManager[Session]]
OPENERS: dict[str, Opener] = {"maildir": _maildir, "mbox": _mbox, "imap": _imap}


# --- composing --------------------------------------------------------------------------------------------

ACKNOWLEDGEMENT = """Dear {from-name},

your message "{subject}" has arrived and will be read by a person.

This acknowledgement was sent automatically, once."""

_PLAIN_ADDRESS = re.compile(
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,188}[A-Za-z0-9])?"
)
_PLAIN_ID = re.compile(r"[!-;=?-~]{1,250}")
_ANSWERED = re.compile(r"(re|aw|sv|antw|r[eé]f)\s*(\[\d+\])?:", re.IGNORECASE)


def _compose(
    kind: str,
    identity: Element,
    signature: Element | None,
    text: str,
    *,
    to: str,
    cc: str = "",
    subject: str = "",
    answered: Mapping[str, str] | None = None,
    auto: str = "",
) -> bytes:
    """A mail that was not sent yet, as an `email[@kind]`; its id derives from the call, so that composing it
    again composes the same mail.
    """
    me = identity.attributes
    ident = f"{_digest(call().id)}@{me.get('address', '').rpartition('@')[2]}"
    facts = {"kind": kind, "message-id": ident, "thread": ident, "date": _now(), "auto": auto}
    facts |= {"from": me.get("address", ""), "from-name": me.get("name", "")}
    facts |= {"to": to, "cc": cc, "subject": subject}
    if answered is not None:
        asked, about = answered.get("message-id", ""), answered.get("subject") or "your message"
        chain = f"{answered.get('references', '')} {asked}".strip()
        facts |= {"in-reply-to": asked, "references": chain, "thread": answered.get("thread", "")}
        facts["subject"] = about if _ANSWERED.match(about) else f"Re: {about}"
    for name in ("from", "to", "cc"):
        _addresses(facts[name], name)
    mail = etree.Element("email", {name: _fit(value, 14_000) for name, value in facts.items() if value})
    closing = f"\n\n-- \n{signature.text.strip()}" if signature else ""
    etree.SubElement(mail, "body").text = text.strip() + closing
    return etree.tostring(mail, encoding="utf-8")


def _addresses(text: str, name: str) -> list[str]:
    """The addresses in an attribute. Raises ActionError for one that could not stand in a header alone."""
    addresses = text.split()
    for address in addresses:
        if not _PLAIN_ADDRESS.fullmatch(address) or ".." in address:
            raise ActionError(
                f"expected addresses like name@example.org in {name}, got {address!r}", "bad-address"
            )
    return addresses


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def _now() -> str:
    return _iso(datetime.now(UTC))


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


# --- sending ----------------------------------------------------------------------------------------------


class Outgoing(NamedTuple):
    """A mail ready to be sent: its Message-ID, its envelope, and its text with CRLF line ends."""

    ident: str
    sender: str
    to: list[str]
    data: bytes


def _outgoing(mail: Element, call_id: str) -> Outgoing:
    """An `email` element as it goes out. Raises ActionError for what its author cannot have meant."""
    from email.headerregistry import Address
    from email.message import EmailMessage
    from email.policy import SMTP

    given = mail.attributes
    senders, to, cc = (_addresses(given.get(name, ""), name) for name in ("from", "to", "cc"))
    if len(senders) != 1 or not to:
        raise ActionError("expected one address in from, and at least one in to", "bad-address")
    if len(to) + len(cc) > MAX_ADDRESSES:
        message = f"expected at most {MAX_ADDRESSES} recipients, got {len(to) + len(cc)}"
        raise ActionError(message, "too-many-recipients")
    for name in ("from-name", "subject", "auto", "date"):
        if re.search(r"[\x00-\x1f\x7f]", given.get(name, "")):
            raise ActionError(f"{name} holds a line break, which could pass for a header", "header-injection")
    mime = EmailMessage(policy=SMTP.clone(cte_type="7bit"))
    mime["From"] = Address(given.get("from-name", ""), addr_spec=senders[0])
    mime["To"] = ", ".join(to)
    if cc:
        mime["Cc"] = ", ".join(cc)
    mime["Subject"] = given.get("subject", "")
    mime["Date"] = format_datetime(_moment(given.get("date")))
    if given.get("auto"):
        mime["Auto-Submitted"] = given["auto"]
    mime.set_content(re.sub(r"\r\n?", "\n", mail.tree().findtext("body") or ""))
    ident = given.get("message-id") or f"{_digest(call_id)}@{senders[0].rpartition('@')[2]}"
    if not _PLAIN_ID.fullmatch(ident):
        raise ActionError(f"expected a message-id like word@example.org, got {ident!r}", "header-injection")
    return Outgoing(
        ident, senders[0], list(dict.fromkeys([*to, *cc])), _id_fields(ident, given) + mime.as_bytes()
    )


def _id_fields(ident: str, given: Mapping[str, str]) -> bytes:
    """The fields that name mails, an id a line: the standard library would encode long ones as if they were
    words, and no reader would find its thread.
    """
    answered, chain = given.get("in-reply-to", ""), given.get("references", "")
    text = ""
    for name, value in (("Message-ID", ident), ("In-Reply-To", answered), ("References", chain)):
        ids = [f"<{each}>" for each in value.split() if _PLAIN_ID.fullmatch(each)]
        if ids:
            text += f"{name}: " + "\r\n ".join(ids) + "\r\n"
    return text.encode("ascii")


def _moment(text: str | None) -> datetime:
    try:
        return datetime.fromisoformat(text or _now()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ActionError(f"expected date in ISO 8601, got {text!r}", "bad-date") from None


async def _deliver(outbox: Account, letter: Outgoing) -> list[str]:
    """Deliver to a Maildir, which refuses nobody."""
    await asyncio.to_thread(_put, outbox.path, letter)
    return []


def _put(maildir: Path, letter: Outgoing) -> None:
    """Put a mail into a Maildir, once: its file is named after it, so a second delivery finds the first, even
    if it was read and flagged since. The whole file is there or none of it.
    """
    for folder in ("tmp", "new", "cur"):
        (maildir / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    name = f"narval.{_digest(letter.ident)}"
    if (maildir / "new" / name).exists() or any((maildir / "cur").glob(f"{name}*")):
        return
    draft = maildir / "tmp" / f"{name}.{os.getpid()}.{threading.get_ident()}"
    with draft.open("wb") as file:
        file.write(letter.data.replace(b"\r\n", b"\n"))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(maildir / "new" / name)
    folder_file = os.open(maildir / "new", os.O_RDONLY)
    try:
        os.fsync(folder_file)
    finally:
        os.close(folder_file)


async def _submit(outbox: Account, letter: Outgoing) -> list[str]:
    """Send by SMTP; returns the recipients that were refused while others were not."""
    import aiosmtplib

    user = outbox.given.get("user")
    try:
        refused, _ = await aiosmtplib.send(
            letter.data,
            sender=letter.sender,
            recipients=letter.to,
            hostname=outbox.given.get("host", ""),
            port=outbox.port(implicit=465, starttls=587, none=25),
            username=user,
            password=outbox.secret() if user else None,
            use_tls=outbox.tls == "implicit",
            start_tls=outbox.tls == "starttls",
            timeout=60,
        )
    except (aiosmtplib.SMTPException, OSError) as error:
        raise ActionError(f"account {outbox} did not take the mail: {error}", "not-sent") from error
    return list(refused)


Carrier = Callable[[Account, Outgoing], Awaitable[list[str]]]
"""Gives a mail to those it is for; tells which of them were refused."""
CARRIERS: dict[str, Carrier] = {"maildir": _deliver, "smtp": _submit}
