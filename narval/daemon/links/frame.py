"""The frame of an exchange: what one side of a link sends the other at once, and how it is read."""

from __future__ import annotations

from typing import Annotated

import msgspec

from narval.core.errors import RequestError

VERSION = 1
"""The version of frames that this narval sends, and the only one that it reads."""

MOST_MESSAGES = 500
"""The messages of a frame at most."""

MOST_BYTES = 1024 * 1024
"""The bytes of the messages of a frame at most; a single message may be larger."""

MOST_SENDERS = 20_000
"""The agents of a home that may send over a link, at most."""

MOST_RESTORED = 1_000
"""The backups of a home that a link tells of, at most."""

LARGEST = 18 * 1024 * 1024
"""The bytes of a frame at most: the largest message is one of 16 MB."""

_Id = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
_MessageId = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\.[!#-%'-;=?-~]{1,300}\Z")]
"""An id of 128 bits, a dot, and what nothing has to be written in another way for in XML."""
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
    """Its number among those of the sender for this home, from 1."""
    id: _MessageId
    """The outside id of the call that sent it, or that it answers."""
    kind: Annotated[str, msgspec.Meta(pattern=r"^[a-z-]{1,40}\Z")]
    """Its kind (`messages.kinds`)."""
    at: float
    """The moment at which it was sent."""
    until: float | None
    """The moment until which it may wait."""
    to: Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_-]{0,62}\Z")]
    """The name of its receiver in this home."""
    envelope: bytes
    """All that it was made of (`messages.envelope`)."""
    data: bytes
    """All that it says."""

    @property
    def size(self) -> int:
        """The bytes that it takes in a frame, about."""
        return len(self.data) + len(self.envelope) + 200


class Standing(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The numbers of one side as a link begins, by the id of its sender: the last message that was sent, and
    the last that is not kept any more because the other side has taken it.

    `restored` has, by each incarnation that a backup which was put back has made, the last that was sent as
    it was there; `names` are those of the senders.
    """

    sent: _Numbers = {}
    dropped: _Numbers = {}
    restored: Annotated[dict[_Id, _Numbers], msgspec.Meta(max_length=MOST_RESTORED)] = {}
    names: Annotated[dict[_Id, _Sender], msgspec.Meta(max_length=MOST_SENDERS)] = {}


class Frame(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """All that one side says at once."""

    version: int
    """The version of the form of frames."""
    link: _Id
    """The id that it has given the link."""
    incarnation: _Id
    """The incarnation of its store, which is another once a backup was put back."""
    run: _Id
    """The id of its activation."""
    number: _Number
    """The number of the frame within that."""
    answers: _Number = 0
    """The number of the frame of the other side that this one answers; 0: none."""
    meets: str = ""
    """The link and the incarnation of the other side that it knows of."""
    asks: bool = False
    """True if it wants the standing of the other side."""
    standing: Standing | None = None
    """Its own standing, where a link begins."""
    messages: tuple[Message, ...] = ()
    """The messages, of each sender in order."""
    taken: _Numbers = {}
    """The number of the last message that it has taken, by the id of the sender."""
    held: Annotated[tuple[_Id, ...], msgspec.Meta(max_length=MOST_SENDERS)] = ()
    """The senders of whom it takes no more until there is room here."""


class _Head(msgspec.Struct, gc=False):
    """The version of a frame of any release."""

    version: int


encode = msgspec.msgpack.Encoder().encode
"""Write a frame."""

_decode = msgspec.msgpack.Decoder(Frame).decode
_decode_head = msgspec.msgpack.Decoder(_Head).decode


def decode(data: bytes) -> Frame:
    """Read a frame of the other side. Raises RequestError for what is none, or of another version."""
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
