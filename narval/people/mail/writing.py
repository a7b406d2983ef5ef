"""Mails to send: their texts, made valid for XML and bounded; composed from drafts, put into a Maildir or
sent by SMTP (N37, docs/reference/modules/mail.md).
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import threading
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from itertools import starmap
from pathlib import Path
from typing import NamedTuple

from lxml import etree

from narval.calls.context import call, now
from narval.core.elements.element import Element
from narval.core.elements.own_elements import xml_safe
from narval.core.errors import ActionError
from narval.people.mail.account import MailAccount

# --- texts ------------------------------------------------------------------------------------------------

MAX_VALUE = 1_000

_LONGEST = 72
"""The most characters of a broken line."""

VALUE = "| "
"""The prefix of each line of a text from elsewhere, so that none looks like narval's own words."""


def one_line(text: str, most: int = MAX_VALUE) -> str:
    """A text in one line of at most `most` characters that XML can hold. Runs of blanks and line breaks
    become one blank, a character that is invalid in XML becomes U+FFFD, and a text that is cut ends with an
    ellipsis.
    """
    line = " ".join(xml_safe(text[: most * 4]).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def timestamp(moment: datetime | None = None) -> str:
    """A moment in ISO 8601 and UTC, to the second, such as `2026-11-24T09:00:00Z`; by default now, by the
    clock of runs. A moment without a zone is taken in the machine's zone.
    """
    utc = (moment or now()).astimezone(UTC)
    return utc.isoformat(timespec="seconds").replace("+00:00", "Z")


def flowed(text: str) -> str:
    """A text in format=flowed (RFC 3676): long lines are broken at blanks, and readers join them again.
    Blanks at the end of a line are dropped. A line of a value, which begins with `| `, is not broken: a
    reader that does not join lines would show its rest like narval's own words (P11).
    """
    lines = []
    for line in text.split("\n"):
        words = line.rstrip(" ")
        while len(words) > _LONGEST and not line.startswith(VALUE) and (at := _break(words)):
            lines.append(_stuffed(words[:at]))
            words = words[at:]
        lines.append(_stuffed(words))
    return "\n".join(lines)


def _break(line: str) -> int:
    """The position after the blank at which a line is best broken; 0 if it has none."""
    return line.rfind(" ", 1, _LONGEST) + 1 or line.find(" ", _LONGEST) + 1


def _stuffed(line: str) -> str:
    return f" {line}" if line.startswith((" ", ">", "From ")) else line


# --- composing --------------------------------------------------------------------------------------------

MAX_ADDRESSES = 50
"""The most recipients of a mail; a mail with more is not sent."""

_PLAIN_ADDRESS = re.compile(
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,188}[A-Za-z0-9])?"
)
_PLAIN_ID = re.compile(r"[!-;=?-~]{1,250}")
MOST_IN_LINE = 78
_PLAIN_NAME = re.compile(r"[A-Za-z0-9]+(?: [A-Za-z0-9]+)*")
_PLAIN_VALUE = re.compile(r"[!-~]+(?: [!-~]+)*")
_PLAIN_TEXT = re.compile(rf"(?:[\t -~]{{0,{MOST_IN_LINE}}}\n)*")
_TEXT_FIELD = 'Content-Type: text/plain; charset="utf-8"'
_FLOWED = "flowed"
_ANSWERED = re.compile(r"(re|aw|sv|antw|r[eé]f)\s*(\[\d+\])?:", re.IGNORECASE)


def compose_mail(
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
    once: str = "",
    flows: bool = False,
    about: str = "",
    key: str = "",
) -> bytes:
    """Compose a mail, without sending it: the XML of an `email` element of this `kind`.

    `identity` has the `address` and `name` of the sender; a `signature` follows its text. `to` and `cc` are
    addresses separated by blanks. For an answer, `answered` has the attributes of the mail that it answers;
    they give subject and thread. `auto` is the `Auto-Submitted` of RFC 3834. The id begins with `about` and
    derives from the call and, for a call that composes several mails, from the `key` of each, so that a
    repeated call composes the same mail. Of several mails with the same `once`, memory keeps the first. If it
    `flows`, long lines are broken, and readers join them. Raises ActionError (`bad-address`, final).
    """
    me = identity.attributes
    ident = f"{about}{_digest(f'{call().id} {key}'.rstrip())}@{me.get('address', '').rpartition('@')[2]}"
    facts = {
        "kind": kind,
        "message-id": ident,
        "thread": ident,
        "date": timestamp(),
        "auto": auto,
        "once": once,
    }
    facts["format"] = _FLOWED if flows else ""
    facts |= {"from": me.get("address", ""), "from-name": me.get("name", "")}
    facts |= {"to": to, "cc": cc, "subject": subject}
    if answered is not None:
        asked, about = answered.get("message-id", ""), answered.get("subject") or "your message"
        chain = f"{answered.get('references', '')} {asked}".strip()
        facts |= {"in-reply-to": asked, "references": chain, "thread": answered.get("thread", "")}
        facts["subject"] = about if _ANSWERED.match(about) else f"Re: {about}"
    for name in ("from", "to", "cc"):
        _addresses(facts[name], name)
    mail = etree.Element("email", {name: one_line(value, 14_000) for name, value in facts.items() if value})
    closing = f"\n\n-- \n{signature.text.strip()}" if signature else ""
    etree.SubElement(mail, "body").text = text.strip() + closing
    return etree.tostring(mail, encoding="utf-8")


def _addresses(text: str, name: str) -> list[str]:
    """The addresses in an attribute. Raises ActionError for an address that cannot be alone in a header."""
    addresses = text.split()
    for address in addresses:
        if not _PLAIN_ADDRESS.fullmatch(address) or ".." in address:
            raise _wrong(
                f"expected addresses like name@example.org in {name}, got {address!r}", "bad-address"
            )
    return addresses


def _wrong(message: str, kind: str) -> ActionError:
    """The error for a mail that cannot be sent as it is, however often it is tried."""
    return ActionError(message, kind, final=True)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


# --- sending ----------------------------------------------------------------------------------------------


class Outgoing(NamedTuple):
    """A mail ready to send: its Message-ID, its envelope, and its text with CRLF line ends."""

    ident: str
    sender: str
    to: list[str]
    data: bytes


def outgoing(mail: Element, call_id: str) -> Outgoing:
    """Prepare an `email` element for sending. Raises ActionError for contents that cannot be intended."""
    from email.utils import format_datetime

    attributes = mail.attributes
    senders, to, cc = (_addresses(attributes.get(name, ""), name) for name in ("from", "to", "cc"))
    if len(senders) != 1 or not to:
        raise _wrong("expected one address in from, and at least one in to", "bad-address")
    if len(to) + len(cc) > MAX_ADDRESSES:
        message = f"expected at most {MAX_ADDRESSES} recipients, got {len(to) + len(cc)}"
        raise _wrong(message, "too-many-recipients")
    for name in ("from-name", "subject", "auto", "date"):
        if re.search(r"[\x00-\x1f\x7f]", attributes.get(name, "")):
            raise _wrong(f"{name} holds a line break, which could pass for a header", "header-injection")
    fields = {"From": _writer(attributes.get("from-name", ""), senders[0]), "To": ", ".join(to)}
    fields |= {"Cc": ", ".join(cc)} if cc else {}
    fields |= {
        "Subject": attributes.get("subject", ""),
        "Date": format_datetime(_moment(attributes.get("date"))),
    }
    if attributes.get("auto"):
        fields["Auto-Submitted"] = attributes["auto"]
    text = re.sub(r"\r\n?", "\n", mail.tree().findtext("body") or "")
    ident = attributes.get("message-id") or f"{_digest(call_id)}@{senders[0].rpartition('@')[2]}"
    if not _PLAIN_ID.fullmatch(ident):
        raise _wrong(f"expected a message-id like word@example.org, got {ident!r}", "header-injection")
    header = _id_fields(ident, attributes) + "".join(starmap(_field, fields.items())).encode("ascii")
    data = header + _content(text, flows=attributes.get("format") == _FLOWED)
    return Outgoing(ident, senders[0], list(dict.fromkeys([*to, *cc])), data)


def _writer(name: str, address: str) -> str:
    """An address in the form for From, with or without a name."""
    from email.headerregistry import Address

    if _PLAIN_NAME.fullmatch(name):
        return f"{name} <{address}>"
    return str(Address(name, addr_spec=address))


def _field(name: str, value: str) -> str:
    """A header field; the standard library folds and encodes what does not fit a line unchanged."""
    from email.policy import SMTP

    line = f"{name}: {value}"
    if len(line) <= MOST_IN_LINE and _PLAIN_VALUE.fullmatch(value) and "=?" not in value:
        return f"{line}\r\n"
    folded: str = SMTP.fold(name, SMTP.header_factory(name, value))
    return folded


def _content(text: str, *, flows: bool = False) -> bytes:
    """The fields of a text, a blank line, and the text; if it is not plain, in the shortest encoding."""
    from base64 import encodebytes
    from email.quoprimime import body_encode

    text = flowed(text) if flows else text
    encoding, body = "7bit", f"{text.removesuffix(chr(10))}\n"
    if not _PLAIN_TEXT.fullmatch(body):
        data = body.encode("utf-8", "replace")
        encoding, body = "quoted-printable", body_encode(data.decode("latin-1"))
        if 3 * len(body) > 4 * len(data):  # the size in base64
            encoding, body = "base64", encodebytes(data.replace(b"\n", b"\r\n")).decode("ascii")
    field = f"{_TEXT_FIELD}; format=flowed" if flows else _TEXT_FIELD
    fields = f"{field}\nContent-Transfer-Encoding: {encoding}\nMIME-Version: 1.0\n"
    return f"{fields}\n{body}".replace("\n", "\r\n").encode("ascii")


def _id_fields(ident: str, attributes: Mapping[str, str]) -> bytes:
    """The fields with message ids, one id a line: the standard library would encode long ones like words, and
    no reader would find the thread.
    """
    answered, chain = attributes.get("in-reply-to", ""), attributes.get("references", "")
    text = ""
    for name, value in (("Message-ID", ident), ("In-Reply-To", answered), ("References", chain)):
        ids = [f"<{ident}>" for ident in value.split() if _PLAIN_ID.fullmatch(ident)]
        if ids:
            text += f"{name}: " + "\r\n ".join(ids) + "\r\n"
    return text.encode("ascii")


def _moment(text: str | None) -> datetime:
    try:
        return datetime.fromisoformat(text or timestamp()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise _wrong(f"expected date in ISO 8601, got {text!r}", "bad-date") from None


async def _deliver(outbox: MailAccount, letter: Outgoing) -> list[str]:
    """Deliver to a Maildir, which refuses no recipient."""
    try:
        await asyncio.to_thread(put, outbox.path, letter)
    except OSError as error:
        raise ActionError(f"account {outbox} did not take the mail: {error}", "not-sent") from error
    return []


def put(maildir: Path, letter: Outgoing) -> None:
    """Put a mail into a Maildir, once: its file is named after it, so a second delivery finds the first, even
    if it has been read and flagged since. The file is written atomically.
    """
    name = f"narval.{_digest(letter.ident)}"
    target = maildir / "new" / name
    draft = maildir / "tmp" / f"{name}.{os.getpid()}.{threading.get_ident()}"
    for folder in ("tmp", "new", "cur"):
        if not os.path.isdir(f"{maildir}/{folder}"):
            (maildir / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    if target.exists() or any(read.startswith(name) for read in os.listdir(maildir / "cur")):
        return
    with draft.open("wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(letter.data.replace(b"\r\n", b"\n"))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(target)
    folder_file = os.open(maildir / "new", os.O_RDONLY)
    try:
        os.fsync(folder_file)
    finally:
        os.close(folder_file)


async def _submit(outbox: MailAccount, letter: Outgoing) -> list[str]:
    """Send by SMTP; return the recipients that were refused while others were not."""
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
        said = f"account {outbox} did not take the mail: {error}"
        raise ActionError(said, "not-sent", final=_is_for_good(error)) from error
    return list(refused)


def _is_for_good(error: Exception) -> bool:
    """True if the server will answer the same again (5xx of RFC 5321); a refused login may be corrected."""
    import aiosmtplib

    if isinstance(error, aiosmtplib.SMTPRecipientsRefused):
        return all(map(_is_for_good, error.recipients))
    if isinstance(error, aiosmtplib.SMTPAuthenticationError):
        return False
    return isinstance(error, aiosmtplib.SMTPResponseException) and 500 <= error.code < 600


Carrier = Callable[[MailAccount, Outgoing], Awaitable[list[str]]]
"""A function that delivers a mail; it returns the recipients that were refused while others were not."""
CARRIERS: dict[str, Carrier] = {"maildir": _deliver, "smtp": _submit}
"""The ways to deliver mails, by the kind of the outbox."""


class SentMail(NamedTuple):
    """A delivered mail: its Message-ID, its recipients, and those of them that were refused."""

    message_id: str
    to: tuple[str, ...]
    refused: tuple[str, ...]


async def send_mail(mail: Element, outbox: MailAccount) -> SentMail:
    """Send an `email` element: to a Maildir exactly once, by SMTP at least once, recognizable by its
    Message-ID.

    Raises ActionError: `bad-address`, `too-many-recipients`, `header-injection`, `bad-date` or `bad-account`
    (all final); `not-sent` if no recipient got it, also final if the server will give the same answer again.
    """
    letter = outgoing(mail, call().id)
    refused = await outbox.choose(CARRIERS, "smtp")(outbox, letter)
    return SentMail(letter.ident, tuple(letter.to), tuple(refused))


async def send_text(
    account: MailAccount, to: str, subject: str, text: str, *, about: str = "", key: str = ""
) -> str:
    """Send a text with the account of `[mail]` in the settings; return its Message-ID. Raises ActionError.

    A call that sends several texts gives each a `key`, so that each has its own id.
    """
    me = etree.Element("identity", name=account.given.get("name", "narval"), address=account.given["from"])
    identity, auto = Element(0, etree.tostring(me)), "auto-generated"
    mail = compose_mail(
        "notice", identity, None, text, to=to, subject=subject, auto=auto, flows=True, about=about, key=key
    )
    return (await send_mail(Element(0, mail), account)).message_id
