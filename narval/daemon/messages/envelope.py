"""The envelope: the sender of a message, and the sources of its content (G23); the element in it is stamped
with the sender and the id of the message (G26).
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec
from lxml import etree

from narval.core.elements.element import CONTROL, parse
from narval.core.errors import UnreadableError
from narval.store.batch import MessageRow
from narval.store.codec import reader

ELEMENT, UNDELIVERED, RECEIPT = "element", "undelivered", "receipt"
"""Kinds of messages: an element; the error element for a message that could not be taken; the receipt for one
that was.
"""


class Envelope(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The sender by name and id (G1); the run and step that sent the message; the eids of what was sent, as
    numbered by the sender; the person on whose behalf it was sent, and the actor (P39).

    `awaited`: a call waits until it is taken. `labels`: those of what was sent and of the run that sent it.
    """

    sender: str
    sender_id: str
    run: int = 0
    step: str = ""
    inputs: tuple[int, ...] = ()
    by: str = ""
    actor: str = ""
    awaited: bool = False
    hearsay: bool = False
    """The label of older messages, from before there were labels."""
    labels: tuple[str, ...] = ()
    made_from: tuple[int, ...] = ()
    """The eids of its sources if it was never in memory, as numbered by the sender."""
    came_from: tuple[str, ...] = ()
    """The elements by which its labels came in, each as its root with attributes only; () if unknown."""
    to: str = ""
    """The name of the receiver in its home, if that is another home."""
    letter: bytes = b""
    """The message that another home returns because no agent there takes it (`undelivered.Letter`)."""


class Outgoing(NamedTuple):
    """A message that has no number yet: its kind, id, envelope and content."""

    kind: str
    id: str
    envelope: Envelope
    data: bytes = b""


class Refusal(NamedTuple):
    """The reason why a message cannot be taken: an error type, and a text for people."""

    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


OVERDUE = Refusal("expired", "it waited for longer than it was to be kept")

seal = msgspec.msgpack.Encoder().encode
"""Encode an envelope, or the content of a message, for the store."""

unseal = reader("the envelope of a message", Envelope)
"""Read an envelope from the store. Raises UnreadableError."""


def sender_of(row: MessageRow) -> str:
    """The name of the agent that sent a message, for people; its number if the name cannot be read."""
    try:
        return unseal(row.origin).sender
    except UnreadableError:
        return f"agent number {row.sender}"


FROM, MESSAGE = f"{{{CONTROL}}}from", f"{{{CONTROL}}}message"
"""The attributes of the root, as lxml writes their names."""

_ROOT = re.compile(rb"<[^\s/>]+")


def stamped(xml: bytes, sender: str, message: str) -> bytes:
    """An element with the stamp on its root, replacing any that it has.

    `sender` and `message` have only characters that XML does not escape.
    """
    if b"xmlns" not in xml and (root := _ROOT.match(xml)) is not None:  # no stamp to replace
        end = root.end()
        stamp = f' xmlns:al="{CONTROL}" al:from="{sender}" al:message="{message}"'
        return xml[:end] + stamp.encode() + xml[end:]
    tree = parse(xml)
    for name in (FROM, MESSAGE):
        tree.attrib.pop(name, None)
    if CONTROL not in tree.nsmap.values() and "al" not in tree.nsmap:
        made = etree.Element(tree.tag, dict(tree.attrib), {**tree.nsmap, "al": CONTROL})
        made.text = tree.text
        made.extend(list(tree))
        tree = made
    tree.set(FROM, sender)
    tree.set(MESSAGE, message)
    return etree.tostring(tree, encoding="utf-8")
