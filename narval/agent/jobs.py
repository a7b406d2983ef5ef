"""Jobs: work deferred to a moment, without an active run."""

from __future__ import annotations

import msgspec

from narval.store.codec import read


class ForgetRun(msgspec.Struct, frozen=True, tag=True):
    """Forget an ended run, with what only it holds."""

    run: int


class StartRun(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """Start a top-level run, after its back-off, on behalf of whoever started the first of them."""

    name: str
    """The full name of its definition."""
    elements: tuple[int, ...] = ()
    """The elements that it is given."""
    attempt: int = 0
    """The number of failures in a row before it."""
    by: str = ""
    """The person or program that started the first of them."""
    actor: str = ""
    """The program that did so in that person's name."""
    ancestors: dict[str, int] = {}
    """The runs it descends from by start-plan: the first for each definition."""
    hearsay: bool = False
    """The flag recorded before there were labels."""
    labels: tuple[str, ...] = ()
    """The labels of its cause."""
    laps: int = 0
    """The earlier starts of the definition in a row, each caused only by the one before."""
    slowed: str = ""
    """The version of its definition, if it starts late because of its `laps`; else ""."""
    circle: tuple[str, ...] = ()
    """The definitions that wake one another, if it is slowed because of what its runs use; () if they use
    nothing.
    """
    after: int = 0
    """The run that caused it; 0 if none did, or an older release recorded it."""


class GiveUpCall(msgspec.Struct, frozen=True, tag=True):
    """Stop waiting for another agent to confirm that it has given up a call."""

    run: int
    call: str


Job = ForgetRun | StartRun | GiveUpCall

_decode = msgspec.msgpack.Decoder(Job).decode


def encode_job(job: Job) -> bytes:
    """Encode a job for the store."""
    return msgspec.msgpack.encode(job)


def decode_job(data: bytes) -> Job:
    """Decode a job from the store. Raises UnreadableError."""
    job: Job = read("what is to be done at a moment", _decode, data)
    return job
