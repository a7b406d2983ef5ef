"""Jobs: what is to be done at a moment, when no run is alive to be told of it."""

from __future__ import annotations

import msgspec

from narval.store.codec import read


class ForgetRun(msgspec.Struct, frozen=True, tag=True):
    """Forget a run that has ended, with what it alone holds."""

    run: int


class StartRun(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """Begin a top-level run, after its back-off, by who began the first of them.

    `ancestors` are the runs it descends from by start-plan: of each definition the first. It has the
    `labels` of what has it begin.
    """

    name: str
    elements: tuple[int, ...] = ()
    attempt: int = 0
    by: str = ""
    actor: str = ""
    ancestors: dict[str, int] = {}
    hearsay: bool = False
    """As it was recorded before there were labels."""
    labels: tuple[str, ...] = ()


class GiveUpCall(msgspec.Struct, frozen=True, tag=True):
    """Wait no more for another agent to say that it has given up a call."""

    run: int
    call: str


Job = ForgetRun | StartRun | GiveUpCall

_decode = msgspec.msgpack.Decoder(Job).decode


def encode_job(job: Job) -> bytes:
    """A job for the store."""
    return msgspec.msgpack.encode(job)


def decode_job(data: bytes) -> Job:
    """A job from the store. Raises UnreadableError."""
    job: Job = read("what is to be done at a moment", _decode, data)
    return job
