"""Jobs: work put off to a moment, for which no run is alive."""

from __future__ import annotations

import msgspec

from narval.store.codec import read


class ForgetRun(msgspec.Struct, frozen=True, tag=True):
    """Forget a run that has ended, with what it alone holds."""

    run: int


class StartRun(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """Begin a top-level run, after its back-off, on behalf of whoever began the first of them."""

    name: str
    """The full name of its definition."""
    elements: tuple[int, ...] = ()
    """The elements that it is given."""
    attempt: int = 0
    """The failures in a row before it."""
    by: str = ""
    """The person or program that began the first of them."""
    actor: str = ""
    """The program that did so in the name of that person."""
    ancestors: dict[str, int] = {}
    """The runs it descends from by start-plan: of each definition the first."""
    hearsay: bool = False
    """The flag that was recorded before there were labels."""
    labels: tuple[str, ...] = ()
    """The labels of what has it begin."""
    laps: int = 0
    """The earlier starts of the definition in a row, each caused by the one before and nothing else."""
    slowed: str = ""
    """The version of its definition, if it begins late because of its `laps`; else ""."""
    circle: tuple[str, ...] = ()
    """The definitions that wake one another, if it is slowed because of what its runs use; () if they use
    nothing.
    """
    after: int = 0
    """The run that has it begin; 0 where none has, or an older release recorded it."""


class GiveUpCall(msgspec.Struct, frozen=True, tag=True):
    """Stop waiting for another agent to confirm that it has given up a call."""

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
