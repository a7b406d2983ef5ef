"""Messages between a daemon and a cluster: tasks, and frames of bytes, checked against their types at both
ends (G66).

A call goes to the cluster as `SentCall`, and returns as `ClusterReply`. In between, a worker of the cluster
sends `News` on the topic of the daemon's home; small replies arrive there too. dask carries the bytes
without interpreting them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from narval.calls.record import Outcome
from narval.calls.workers.frames import MOST, CallFrame, FrameError
from narval.core.definitions.action.needs import Resources
from narval.core.engines.events import INTERRUPTED, LOOK, Failure


class SentCall(msgspec.Struct, frozen=True):
    """To the cluster: answer this call, within `timeout` seconds from when it begins (None: no limit).

    `key` identifies the call. If it is `once`, it must not begin twice. `memory` is the number of bytes that
    its worker may add to what it has at its start (None: no limit).
    """

    key: str
    frame: CallFrame
    timeout: float | None
    once: bool
    memory: int | None


class ClusterReply(msgspec.Struct, frozen=True):
    """From the cluster: the outcome of a call, and how long it took, in seconds."""

    outcome: Outcome
    seconds: float


class Begun(msgspec.Struct, frozen=True, tag=True):
    """From the cluster: a task (a call or a group of calls) begins at the worker with this address."""

    key: str
    worker: str


class Reported(msgspec.Struct, frozen=True, tag=True):
    """From the cluster: the progress of a call."""

    key: str
    done: float
    total: float | None


class Printed(msgspec.Struct, frozen=True, tag=True):
    """From the cluster: a line that a call printed."""

    key: str
    line: str


class Replied(msgspec.Struct, frozen=True, tag=True):
    """From the cluster: a task has ended; its replies are small, and joined."""

    key: str
    replies: bytes


Message = TypeVar("Message")
News = Begun | Reported | Printed

_encoder = msgspec.msgpack.Encoder()
_calls = msgspec.msgpack.Decoder(SentCall)
_replies = msgspec.msgpack.Decoder(ClusterReply)
_news: msgspec.msgpack.Decoder[News | Replied] = msgspec.msgpack.Decoder(News | Replied)
_bodies = msgspec.msgpack.Decoder(list[bytes])


def written(message: SentCall | ClusterReply | News | Replied) -> bytes:
    """A message as bytes. Raises FrameError if it is too large."""
    body = _encoder.encode(message)
    if len(body) > MOST:
        raise FrameError(
            f"expected at most {MOST:,} bytes of elements, got {len(body):,}; keep them as files, and give "
            "back where these are"
        )
    return body


def joined(bodies: list[bytes]) -> bytes:
    """The calls of a task, or its replies, as one byte string: dask takes 4 ms for a list of a hundred."""
    return _encoder.encode(bodies)


def parted(text: object) -> list[bytes]:
    """The bodies that `joined` joined. Raises FrameError."""
    return _read(_bodies, text)


def read_sent(body: object) -> SentCall:
    """The call in these bytes. Raises FrameError."""
    return _read(_calls, body)


def read_reply(body: object) -> ClusterReply:
    """The reply in these bytes. Raises FrameError."""
    return _read(_replies, body)


def read_news(body: object) -> News | Replied:
    """The news or replies in these bytes. Raises FrameError."""
    return _read(_news, body)


def _read(decoder: msgspec.msgpack.Decoder[Message], body: object) -> Message:
    try:
        if not isinstance(body, bytes):
            raise TypeError(f"{type(body).__name__} in place of bytes")
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, TypeError) as error:
        raise FrameError(f"the other side sent what is no message of this narval: {error}") from None


class ClusterTask(NamedTuple):
    """A task for a cluster: calls as bytes, answered one after another.

    A `kept` task outlives the daemon: its result is found by its key after a restart (G69). For a `once` task
    the scheduler records that it has begun; an `only_found` task has begun, and must not begin again.
    """

    key: str
    bodies: list[bytes]
    resources: Resources
    kept: bool
    once: bool
    only_found: bool = False


class ClusterSize(NamedTuple):
    """The threads of a cluster, and the resources of each of its workers."""

    threads: int
    resources: tuple[tuple[tuple[str, float], ...], ...]

    def can(self, resources: Resources) -> bool:
        """True if some worker has these resources."""
        return not resources or any(
            all(dict(there).get(name, 0.0) >= number for name, number in resources)
            for there in self.resources
        )


class LinkListener(Protocol):
    """The owner of a link to a cluster."""

    def joined(self, size: ClusterSize) -> None:
        """Handle that the cluster has joined or changed its size."""

    def away(self, why: str) -> None:
        """Handle that there is no cluster, or no longer one; its tasks may be lost."""

    def replied(self, key: str, replies: list[ClusterReply] | Failure) -> None:
        """Handle the replies to a task's calls, or the reason why there are none."""

    def told(self, news: News) -> None:
        """Handle news of a task or of a call."""


Tell = Callable[[Callable[[LinkListener], None]], None]
"""Takes a function, which is called with the listener of a link, on the daemon's loop."""

LOST = Failure(
    INTERRUPTED,
    "the worker or the scheduler of the cluster that had the call was lost, and it is not to be repeated: "
    + LOOK,
    final=True,
)


def mark_of(key: str) -> str:
    """The name of the scheduler's variable that records that a call has begun."""
    return f"narval-begun-{key}"
