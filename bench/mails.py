"""A Maildir of so many mails, made from the demo: of ten, one is of a list, nine of a person each."""

from __future__ import annotations

import re
from pathlib import Path

DEMO = Path(__file__).resolve().parent.parent / "data/demo/Maildir/new"
OF_TEN = ("M01", "M02", "M01", "M06", "M25", "M01", "M02", "M03", "M05", "M41")
"""The demo's mails that ten are made of: plain, of two forms, in another charset, with files, of a list."""
OF_LISTS = frozenset({"M25"})
_SENDER = re.compile(rb"(?m)^((?:From|Return-Path):[^\n]*<[^@\n]*)@")
_IDENT = re.compile(rb"(?im)^(Message-Id: <)")


def templates() -> list[bytes]:
    """The ten mails."""
    return [next(DEMO.glob(f"*.{name}-*")).read_bytes() for name in OF_TEN]


def mail(template: bytes, number: int) -> bytes:
    """A mail from somebody of its own, with an id of its own."""
    return _IDENT.sub(rb"\g<1>%d." % number, _SENDER.sub(rb"\g<1>.%d@" % number, template))


def fill(maildir: Path, count: int) -> int:
    """Make a Maildir with so many mails; how many of them ask for an answer."""
    for name in ("tmp", "new", "cur"):
        (maildir / name).mkdir(parents=True)
    mails = templates()
    for number in range(count):
        shape = number % len(mails)
        (maildir / "new" / f"{number:07}.{OF_TEN[shape]}.example.org").write_bytes(mail(mails[shape], number))
    return sum(OF_TEN[number % len(mails)] not in OF_LISTS for number in range(count))
