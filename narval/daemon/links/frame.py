"""The frame of an exchange: everything that one side of a link sends at once, and how it is parsed."""

from __future__ import annotations

from typing import Annotated

import msgspec

from narval.core.errors import RequestError

VERSION = 1
"""The version of frames that this narval sends, and the only one that it accepts."""

MOST_MESSAGES = 500
"""The most messages of a frame."""

MOST_BYTES = 1024 * 1024
"""The most bytes of the messages of a frame; a single message may be larger."""

MOST_SENDERS = 20_000
"""The most agents of a home that may send over a link."""

MOST_RESTORED = 1_000
"""The most backups of a home that a link reports."""

LARGEST = 18 * 1024 * 1024
"""The most bytes of a frame: the largest message has 16 MB."""

_Id = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
_MessageId = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\.[!#-%'-;=?-~]{1,300}\Z")]
"""An id of 128 bits, a dot, and characters that XML does not escape."""
_Number = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
_Numbers = Annotated[dict[_Id, _Number], msgspec.Meta(max_length=MOST_SENDERS)]
_Sender = Annotated[str, msgspec.Meta(pattern=r"^([a-z][a-z0-9_-]{0,62})?\Z")]


class Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message on its way to another home."""

    sender: _Sender
    """The name of the agent there that sends it; "" is the home itself."""
    sender_id: _Id
    """The id of that agent."""
    number: Annotated[int, msgspec.Meta(ge=1, lt=2**62)]
    """Its number among the messages of the sender to this home, from 1."""
    id: _MessageId
    """The external id of the call that sent it, or that it answers."""
    kind: Annotated[str, msgspec.Meta(pattern=r"^[a-z-]{1,40}\Z")]
    """Its kind (`messages.kinds`)."""
    at: float
    """The moment at which it was sent."""
    until: float | None
    """The moment until which it may wait; None for no limit."""
    to: Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_-]{0,62}\Z")]
    """The name of its receiver in this home."""
    envelope: bytes
    """The sender, sources and labels of the message (`messages.envelope`)."""
    data: bytes
    """The content of the message."""

    @property
    def size(self) -> int:
        """The approximate number of bytes that it takes in a frame."""
        return len(self.data) + len(self.envelope) + 200


class Standing(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The numbers of one side when a link begins, by the id of its sender: of the last message sent, and of
    the last one dropped because the other side has taken it.

    `restored` has, for each incarnation made by restoring a backup, the last number sent at that time;
    `names` are those of the senders.
    """

    sent: _Numbers = {}
    dropped: _Numbers = {}
    restored: Annotated[dict[_Id, _Numbers], msgspec.Meta(max_length=MOST_RESTORED)] = {}
    names: Annotated[dict[_Id, _Sender], msgspec.Meta(max_length=MOST_SENDERS)] = {}


class Frame(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """Everything that one side sends at once."""

    version: int
    """The version of the frame format."""
    link: _Id
    """The id that the sending side has given the link."""
    incarnation: _Id
    """The incarnation of its store, which changes when a backup is restored."""
    run: _Id
    """The id of the sender's activation."""
    number: _Number
    """The number of the frame within that activation."""
    answers: _Number = 0
    """The number of the other side's frame that this one answers; 0 for none."""
    meets: str = ""
    """The link and the incarnation of the other side, as known to the sender."""
    asks: bool = False
    """True if it requests the standing of the other side."""
    standing: Standing | None = None
    """The sender's own standing, when a link begins."""
    messages: tuple[Message, ...] = ()
    """The messages, in order for each sender."""
    taken: _Numbers = {}
    """The number of the last message that it has taken, by the id of the sender."""
    held: Annotated[tuple[_Id, ...], msgspec.Meta(max_length=MOST_SENDERS)] = ()
    """The senders from which it takes no more messages until there is room."""


class _Head(msgspec.Struct, gc=False):
    """The version of a frame of any release."""

    version: int


encode = msgspec.msgpack.Encoder().encode
"""Encode a frame."""

_decode = msgspec.msgpack.Decoder(Frame).decode
_decode_head = msgspec.msgpack.Decoder(_Head).decode


def decode(data: bytes) -> Frame:
    """Parse a frame of the other side. Raises RequestError for anything else, and for another version."""
    if len(data) > LARGEST:
        raise RequestError(f"expected a frame of a link of {LARGEST:,} bytes at most, got {len(data):,}")
    try:
        version = _decode_head(data).version
        if version != VERSION:
            older = "the other side" if version < VERSION else "this side"
            raise RequestError(
                f"links: {older} has the older narval, and has to be brought up to date "
                f"(it sends frames of version {version}, and this one reads {VERSION})"
            )
        return _decode(data)
    except msgspec.MsgspecError as error:
        raise RequestError(f"expected a frame of a link: {error}") from None
