"""Mailboxes: their letters as elements, in batches, as long as they are watched (N36, N37)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

from lxml import etree

from narval.api import one_line

from .folders import maildir, mbox
from .imap import imap
from .letters import Letter, Session, Signal, UnreachableError
from .mailbox import Mailbox
from .reading import read_mail

BATCH, BATCH_BYTES = 50, 4 * 1024 * 1024
"""The most letters and bytes of one `yield`, so that a thousand mails are not a thousand commits."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0
"""The seconds before an unreachable mailbox is retried; each pause is twice the one before."""

ELSEWHERE = "read it with another program"
"""The advice for an unusable mail."""


class Batch(NamedTuple):
    """Elements to be recorded together, and the letters they come from; `old` is the number of those from
    before the mailbox's `since`. A wait follows the last batch. `is_well` says that the mailbox works:
    reported troubles have ended.
    """

    idents: list[str]
    elements: list[bytes]
    is_last: bool = False
    old: int = 0
    is_well: bool = False


WELL = Batch([], [], is_well=True)


def letters_as_they_come(box: Mailbox, seen: set[str], signal: Signal) -> Iterator[Batch]:
    """The letters of a mailbox, then those that arrive, until the signal stops.

    An unreachable one is retried, less and less often, and each cause is reported once until a wait for news
    has succeeded: a server that returns its letters and then hangs up counts as unreachable.
    """
    pause, reported = FIRST_PAUSE, set[str]()
    while not signal.stopped:
        try:
            with opened(box, signal) as session:
                stands = True
                while stands and not signal.stopped:
                    yield from batches(box, session.letters(seen), seen)
                    if session.is_local:
                        yield WELL
                    stands = session.wait()
                    if not session.is_local:
                        yield WELL
                    pause, reported = FIRST_PAUSE, set()
        except UnreachableError as error:
            cause = type(error.__cause__).__name__
            if cause not in reported and not signal.stopped:
                reported.add(cause)
                said = f"{error}; it is tried again; if that is the wrong place, set {box.element} right"
                yield Batch([], [_error(box, error.kind, said)], is_last=True)
            signal.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


def batches(box: Mailbox, letters: Iterator[Letter], seen: set[str]) -> Iterator[Batch]:
    """Letters made into elements, in batches; old ones are only marked as known."""
    idents: list[str] = []
    elements: list[bytes] = []
    old = 0
    for letter in letters:
        seen.add(letter.ident)
        idents.append(letter.ident)
        if letter.is_old:
            old += 1
            continue
        elements.append(element_of(box, letter))
        if len(elements) == BATCH or sum(map(len, elements)) > BATCH_BYTES:
            yield Batch(idents, elements)
            idents, elements = [], []
    yield Batch(idents, elements, is_last=True, old=old)


def element_of(box: Mailbox, letter: Letter) -> bytes:
    """A letter as an `email`, or as an `error` that says why it is unusable. Raises for a full disk."""
    if letter.fault:
        key = hashlib.sha256(f"{box}\0{letter.ident}".encode()).hexdigest()
        return _error(box, "bad-mail", f"{letter.where}: {letter.fault}; {ELSEWHERE}", {"key": key})
    try:
        return read_mail(letter.raw, box, letter.flags)
    except OSError:
        raise
    except Exception as error:  # an error caused by a hostile mail affects only that mail
        files = box.keep([letter.raw], "mail.eml")
        where = files | {"key": files["sha256"]}
        said = f"{letter.where} cannot be read as a mail: {error}; {ELSEWHERE}, or its copy '{files['file']}'"
        return _error(box, "bad-mail", said, where)


def _error(box: Mailbox, kind: str, message: str, where: dict[str, str] | None = None) -> bytes:
    error = etree.Element("error", {"type": kind, "mailbox": one_line(str(box))} | (where or {}))
    etree.SubElement(error, "message").text = one_line(message)
    return etree.tostring(error, encoding="utf-8")


Opener = Callable[[Mailbox, Signal], AbstractContextManager[Session]]
OPENERS: dict[str, Opener] = {"maildir": maildir, "mbox": mbox, "imap": imap}
"""The functions that open a mailbox, by its kind."""


def opened(box: Mailbox, signal: Signal) -> AbstractContextManager[Session]:
    """A session on a mailbox. Raises ActionError for an impossible one, UnreachableError for a lost one."""
    return box.choose(OPENERS, "imap")(box, signal)
