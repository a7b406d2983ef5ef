"""What is to be done at a moment by whoever runs then: no run is alive to be woken for it."""

from __future__ import annotations

import msgspec

from narval.runtime.store.codec import read


class ForgetRun(msgspec.Struct, frozen=True, tag=True):
    """A run that has ended is to be forgotten, with what it alone holds (N5)."""

    run: int


class StartRun(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """A top-level run is to begin, after its back-off (N28)."""

    name: str
    elements: tuple[int, ...] = ()
    attempt: int = 0


Job = ForgetRun | StartRun

_decode = msgspec.msgpack.Decoder(Job).decode


def encode_deed(deed: Job) -> bytes:
    """A deed for the store."""
    return msgspec.msgpack.encode(deed)


def decode_deed(data: bytes) -> Job:
    """A deed from the store. Raises UnreadableError."""
    deed: Job = read("what is to be done at a moment", _decode, data)
    return deed
