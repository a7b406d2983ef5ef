"""Moving and flagging letters in their mailboxes, only in those that the settings name (N37).

A letter is identified by the digest of its original, so no other is mistaken for it. The effect of an
earlier try of the call is recognized, and not repeated.
"""

from __future__ import annotations

import re

from lxml import etree

from narval import ActionError, Element, Input, Needs, Output, action, call, service
from narval.api import one_line

from .filing_imap import ServerFiler
from .filing_maildir import MaildirFiler
from .mailbox import Mailbox
from .wanted import FLAGS, Filer, Wanted

MAIL = Input("mail", "email[@mailbox and raw/@sha256]")
MAILBOXES = Input("mailboxes", "mailbox[@path or @host]", list=True)
FILES = Needs(
    hosts=["{mailbox/@host}:{mailbox/@port}"],
    folders=["{mailbox/@path} rw"],
    secrets=["{mailbox/@secret}"],
)
_KEYWORD = re.compile(r"[A-Za-z0-9$_.-]{1,64}")


@action(
    inputs=[MAIL, Input("move", "move[@to]", reads="to"), MAILBOXES],
    outputs=[Output("moved", "moved[@to]")],
    description="A letter in another folder of its mailbox.",
    where=["mail/@mailbox", "mail/raw", "move/@to", "mailboxes"],
    needs=FILES,
    describe='Move "{substring($mail/@subject, 1, 80)}" to {$move/@to}',
)
def move(mail: Element, move: Element, mailboxes: list[Element]) -> etree._Element:
    """Move a letter to `<move to="FOLDER"/>`, which must exist; one already there stays."""
    to = move.attributes["to"]
    if not to.isprintable():  # on a server, a line break would start another command
        raise ActionError(f"expected the name of a folder, got {to!r:.80}", "no-such-folder", final=True)
    _filer(mail, mailboxes).move(to)
    return _told("moved", mail, to=to)


@action(
    inputs=[MAIL, Input("flag", "flag[@add or @remove]", reads="add remove"), MAILBOXES],
    outputs=[Output("flagged", "flagged[@mail]")],
    description="A letter with other flags.",
    where=["mail/@mailbox", "mail/raw", "mailboxes"],
    needs=FILES,
    describe='Flag "{substring($mail/@subject, 1, 80)}"',
)
def flag(mail: Element, flag: Element, mailboxes: list[Element]) -> etree._Element:
    """Add flags to a letter, and remove some: `<flag add="seen flagged" remove="draft"/>`."""
    add, remove = (_flags(flag.attributes.get(name, "")) for name in ("add", "remove"))
    _filer(mail, mailboxes).flag(add, remove)
    return _told("flagged", mail, add=" ".join(add), remove=" ".join(remove))


def _flags(text: str) -> list[str]:
    """The flags named in a text. Raises ActionError."""
    words = text.split()
    for name in words:
        if name.lower() == "deleted" or not (name in FLAGS or _KEYWORD.fullmatch(name)):
            wish = f"expected {', '.join(FLAGS)} or a keyword such as $Later"
            raise ActionError(f"{wish}, got {name!r:.80}", "bad-flag", final=True)
    return words


def _filer(mail: Element, mailboxes: list[Element]) -> Filer:
    """The way to the letter of an element. Raises ActionError if nothing may be altered."""
    home, name = call().home, mail.attributes["mailbox"]
    granted = service("mailboxes", name)
    if not granted.write:
        raise ActionError(
            f"{granted} in etc/narval.toml may not be altered; where it may be, write there: write = true",
            "not-granted",
            final=True,
        )
    accounts = [Mailbox(element.attributes, home) for element in mailboxes]
    named = [account for account in accounts if one_line(str(account)) == name]
    if len(named) != 1:
        names = ", ".join(map(str, accounts))
        raise ActionError(
            f"expected one mailbox of the name {name!r}, found {len(named)} among {names}",
            "no-such-mailbox",
            final=True,
        )
    raw = mail.tree().find("raw")
    attributes = dict(raw.attrib) if raw is not None else {}
    wanted = Wanted(
        mail.attributes.get("message-id", ""), str(attributes.get("sha256")), int(attributes.get("size") or 0)
    )
    kinds: dict[str, type[ServerFiler] | type[MaildirFiler]] = {"imap": ServerFiler, "maildir": MaildirFiler}
    return named[0].choose(kinds, "imap")(named[0], wanted)


def _told(name: str, mail: Element, **facts: str) -> etree._Element:
    attributes = mail.attributes
    facts = {"mail": str(mail.eid), "mailbox": attributes["mailbox"]} | facts
    facts["message-id"] = attributes.get("message-id", "")
    return etree.Element(name, {key: value for key, value in facts.items() if value})
