"""Mail: reading it from a Maildir, an mbox or over IMAP, answering and sending (N30, N36, N37).

Real mail lies about its charset, its dates, its structure and its size, so nothing here trusts it. A mail is
cut into slices along its boundaries: Python's own parser takes 40 times the size of a hostile mail and 25 s.
Every text is made valid for XML and bounded. A survivable fault becomes a `problem` child of the element; an
unusable mail is kept as a file and reported by an `error`. A mailbox is only read.
"""

from __future__ import annotations

import asyncio
import logging
import re
import shlex
import threading
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from lxml import etree

from narval import ActionError, Element, Input, Needs, Output, action, call
from narval.api import MailAccount, compose_mail, one_line, send_mail, timestamp

from .boxes import Batch, batches, letters_as_they_come, opened
from .letters import Signal
from .mailbox import Mailbox

log = logging.getLogger("narval.mail")

SAFE_SECONDS = 60
"""Seconds after which a bookmark moves past a recorded mail: it must not survive if the record may not."""
ACKNOWLEDGEMENT = """Dear {from-name},

your message "{subject}" has arrived and will be read by a person.

This acknowledgement was sent automatically, once."""
MOST_REPEATED = 78
"""The most characters of a stranger's subject or name that an acknowledgement repeats: a line."""
MAILBOX = Input(
    "mailbox",
    "mailbox[@path or @host]",
    holds={"kind": ("maildir", "mbox", "imap"), "since": "date"},
    reads="name kind path host port tls user secret folder account since",
)
MAILS = Output(
    "mails",
    "email[not(@kind)]",
    list=True,
    optional=True,
    unique="@key",
    own=["@key", "@size", "@mailbox", "@account", "@seen", "@answered", "raw"],
)
OF_MAILBOX = {"mails/@mailbox": "mailbox", "mails/@account": "mailbox"}
TROUBLES = Output("troubles", "error[@mailbox]", list=True, optional=True, unique="@key")
"""The output for errors, declared so that one bad mail blocks no others, and each is reported once."""
IDENTITY = Input("identity", "identity[@address]", reads="name address")
SIGNATURE = Input("signature", "signature", optional=True, reads="name")
DRAFT = Input("draft", "draft", use=True, reads="to cc subject auto")
OUTBOX = Input(
    "outbox",
    "outbox[@path or @host]",
    holds={"kind": ("maildir", "smtp")},
    reads="name kind path host port tls user secret",
)
SENT = Output("sent", "sent", own=["@at"])
COMPOSED = ["@kind", "@date", "@message-id", "@auto"]
"""The parts of a composed mail that do not depend on the writer or the text."""
WRITER = {"@from": "identity/@address", "@from-name": "identity/@name"}
READS = Needs(
    hosts=["{mailbox/@host}:{mailbox/@port}"],
    folders=["{mailbox/@path} r"],
    secrets=["{mailbox/@secret}"],
)
SENDS = Needs(
    hosts=["{outbox/@host}:{outbox/@port}"],
    folders=["{outbox/@path} rw"],
    secrets=["{outbox/@secret}"],
)


@action(
    source=True,
    inputs=[MAILBOX],
    outputs=[MAILS, TROUBLES],
    description="Each mail of a mailbox.",
    where=["mailbox"],
    keeps=OF_MAILBOX,
    label="mail",
    needs=READS,
)
async def watch(mailbox: Element) -> AsyncIterator[list[bytes]]:
    """Yield the mails of a mailbox, then those that arrive; after a restart, what was not recorded before."""
    here = call()
    box = Mailbox(mailbox.attributes, here.home)
    signal, room = Signal(), threading.Semaphore(2)
    arrived: asyncio.Queue[Batch | Exception] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def tell(news: Batch | Exception) -> None:
        with suppress(RuntimeError):  # the loop has just been closed
            loop.call_soon_threadsafe(arrived.put_nowait, news)

    def follow() -> None:
        try:
            for batch in letters_as_they_come(box, set(box.bookmark()), signal):
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

    name = f"mail.watch {box}"
    threading.Thread(target=here.context().run, args=(follow,), name=name, daemon=True).start()
    try:
        while True:
            batch = await arrived.get()
            if isinstance(batch, Exception):
                raise batch
            if batch.elements:
                yield batch.elements
            bookmark_later(batch.idents)
            if batch.old:
                log.warning("%s", _left_out(box, batch.old))
            if batch.is_last:
                here.caught_up()
            if batch.is_well:
                here.recovered()
            room.release()
    finally:
        for timer in bookmarks:  # a running timer would keep a reference to this call's daemon
            timer.cancel()
        signal.stop()
        room.release()


@action(
    inputs=[MAILBOX],
    outputs=[MAILS, TROUBLES],
    outside=False,
    description="The mails that a mailbox holds now.",
    where=["mailbox"],
    keeps=OF_MAILBOX,
    label="mail",
    needs=READS,
)
def read(mailbox: Element) -> list[bytes]:
    """Return the current mails of a mailbox."""
    here = call()
    box = Mailbox(mailbox.attributes, here.home)
    elements: list[bytes] = []
    seen: set[str] = set()
    once = Signal()
    once.stop()
    with opened(box, once) as session:
        for batch in batches(box, session.letters(seen), seen):
            elements += batch.elements
            here.progress(len(elements))
    return elements


@action(
    inputs=[
        Input("mail", "email[@from and not(@kind) and not(@list) and not(@auto)]", use=True),
        IDENTITY,
        Input("template", "ack-template", optional=True, reads="name"),
        SIGNATURE,
    ],
    outputs=[Output("answer", "email[@kind='ack']", optional=True, unique="@once", own=COMPOSED)],
    runs="inline",
    description="Compose an acknowledgement of a mail that a person wrote, one for an address in a day.",
    pure=True,
    keeps={f"answer/{part}": source for part, source in WRITER.items()}
    | {"answer/@to": ["mail/@return-path", "mail/@from"], "answer/@subject": "mail/@subject"}
    | {
        "answer/body": [
            *("template", "signature"),
            *("mail/@from", "mail/@from-name", "mail/@return-path", "mail/@subject", "mail/@date"),
        ]
    },
)
def acknowledge(
    mail: Element, identity: Element, template: Element | None = None, signature: Element | None = None
) -> bytes:
    """Compose the acknowledgement of a mail; lists and automata get none, and it goes only to the envelope
    sender if that is known (RFC 3834).

    A second one for an address within a day (UTC) is dropped by its `once`. Little of a stranger's text is
    repeated: it may be intended for somebody else.
    """
    asked = mail.attributes
    words = {
        name: one_line(asked.get(name, ""), MOST_REPEATED)
        for name in ("from", "from-name", "subject", "date")
    }
    words["from-name"] = words["from-name"] or words["from"]
    text = template.text.strip() if template else ACKNOWLEDGEMENT
    text = re.sub(r"\{([a-z-]+)\}", lambda word: words.get(word[1], word[0]), text)
    to = _first(asked.get("return-path")) or _first(asked.get("from"))
    day = datetime.fromtimestamp(mail.added, UTC).date().isoformat()
    return compose_mail(
        "ack",
        identity,
        signature,
        text,
        to=to,
        answered={**asked, "subject": words["subject"]},
        auto="auto-replied",
        once=f"{_mailbox_of(to)} {day}",
    )


@action(
    inputs=[Input("mail", "email[@from and not(@kind)]"), DRAFT, IDENTITY, SIGNATURE],
    outputs=[Output("answer", "email[@kind='reply']", own=COMPOSED)],
    description="Compose an answer to a mail.",
    pure=True,
    keeps={f"answer/{part}": source for part, source in WRITER.items()}
    | {"answer/@to": ["mail/@reply-to", "mail/@from"], "answer/@subject": "mail/@subject"}
    | {"answer/body": ["draft", "signature"]},
)
def reply(mail: Element, draft: Element, identity: Element, signature: Element | None = None) -> bytes:
    """Compose an answer to a mail with the draft's text, to one address even if several are requested."""
    asked = mail.attributes
    to = _first(asked.get("reply-to")) or _first(asked.get("from"))
    return compose_mail("reply", identity, signature, draft.text, to=to, answered=asked)


@action(
    inputs=[DRAFT, IDENTITY, SIGNATURE],
    outputs=[Output("mail", "email[@kind='new']", own=["@kind", "@date", "@message-id", "@thread"])],
    description="Compose a mail from a draft.",
    pure=True,
    keeps={f"mail/{part}": source for part, source in WRITER.items()}
    | {f"mail/{part}": f"draft/{part}" for part in ("@to", "@cc", "@subject", "@auto")}
    | {"mail/body": ["draft", "signature"]},
)
def compose(draft: Element, identity: Element, signature: Element | None = None) -> bytes:
    """Compose a mail: `<draft to="…" cc="…" subject="…" auto="…">text</draft>`."""
    return _of_draft(draft, identity, signature)


@action(
    inputs=[DRAFT, IDENTITY, OUTBOX, SIGNATURE],
    outputs=[SENT],
    description="Compose a mail from a draft and deliver or send it, in one.",
    where=["draft/@to", "draft/@cc", "outbox"],
    needs=SENDS,
    describe="To {$draft/@to}: {$draft/@subject}\n\n{substring($draft, 1, 4000)}",
)
async def write(
    draft: Element, identity: Element, outbox: Element, signature: Element | None = None
) -> bytes:
    """Compose and send a mail: `compose` and `send` in one call, which is retried as one (N29, N37)."""
    return await _delivered(Element(draft.eid, _of_draft(draft, identity, signature)), outbox)


@action(
    inputs=[Input("mail", "email[@kind]", use=True), OUTBOX],
    outputs=[SENT],
    description="Deliver a composed mail to a Maildir, or send it by SMTP.",
    where=["mail/@to", "mail/@cc", "outbox"],
    needs=SENDS,
    describe="To {$mail/@to}: {$mail/@subject}\n\n{substring($mail/body, 1, 4000)}",
)
async def send(mail: Element, outbox: Element) -> bytes:
    """Send a mail: to a Maildir exactly once, by SMTP at least once, recognizable by its Message-ID (N37).

    An error that is not final is temporary: the server is away, or asks to wait (N29).
    """
    return await _delivered(mail, outbox)


def _first(addresses: str | None) -> str:
    """The first of several addresses: an answer to a stranger goes to only one."""
    return next(iter((addresses or "").split()), "")


def _mailbox_of(address: str) -> str:
    """The mailbox behind an address, by the usual rules: ignoring case, and a part after `+`."""
    local, _, domain = address.lower().rpartition("@")
    return f"{local.partition('+')[0]}@{domain}"


def _left_out(box: Mailbox, count: int) -> str:
    """A line about the mails from before the mailbox's `since`, and what happens to them."""
    lie = "mail lies there that was" if count == 1 else "mails lie there that were"
    said = f"mailbox {box}: {count:,} {lie} delivered before {box.given['since']}; none is read or answered"
    if "path" not in box.given:
        return f"{said} (`since` of the mailbox says so)"
    home = f"--home {shlex.quote(str(box.home))} " if box.home is not None else ""
    return f"{said}; what would be: narval {home}simulate mail.triage --mails {shlex.quote(str(box.path))}"


def _of_draft(draft: Element, identity: Element, signature: Element | None) -> bytes:
    """The mail for a draft, as an `email[@kind='new']`."""
    attributes = draft.attributes
    facts: dict[str, Any] = {name: attributes.get(name, "") for name in ("to", "cc", "subject", "auto")}
    return compose_mail("new", identity, signature, draft.text, **facts)


async def _delivered(mail: Element, outbox: Element) -> bytes:
    """Send a mail, and return its report. Raises ActionError."""
    here = call()
    account = MailAccount(outbox.attributes, here.home)
    try:
        delivered = await send_mail(mail, account)
    except ActionError as error:
        said = f"{error}; when that is mended, `narval retry {here.run}` sends it again"
        raise ActionError(said, error.kind, final=error.final) from error
    sent = etree.Element("sent", {"message-id": delivered.message_id}, at=timestamp())
    sent.set("outbox", one_line(str(account)))
    facts = {"in-reply-to": mail.attributes.get("in-reply-to"), "to": " ".join(delivered.to)}
    for name, value in (facts | {"refused": " ".join(delivered.refused)}).items():
        if value:
            sent.set(name, value)
    return etree.tostring(sent, encoding="utf-8")
