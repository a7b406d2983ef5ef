"""What travels to a cluster and back: bytes of declared types, of which nothing is unpickled (G66)."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest

from narval.calls.cluster import frames, remote
from narval.calls.record import Outcome
from narval.calls.workers.frames import FrameError
from narval.core.engines.events import OutputElement

REPLY = frames.ClusterReply(Outcome([OutputElement(b"<a/>", "out")]), 0.5)
READERS = (frames.read_sent, frames.read_reply, frames.read_news, frames.parted)


class Worker:
    """A worker of dask, as far as news go."""

    address = "tls://here:1"

    def __init__(self) -> None:
        self.told: list[bytes] = []

    def log_event(self, topic: str, news: bytes) -> None:
        self.told.append(news)


class Trap:
    """Does harm where it is unpickled."""

    def __reduce__(self) -> Any:
        return pytest.fail, ("it was unpickled",)


def test_G66_a_reply_comes_back_as_it_was_sent() -> None:
    (body,) = frames.parted(frames.joined([frames.written(REPLY)]))
    assert frames.read_reply(body) == REPLY


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    "body",
    [b"", b"\xc1", b"\x80", frames.written(REPLY)[:-1], pickle.dumps(Trap()), "text", None, [b"x"], REPLY],
)
def test_G66_what_is_no_message_of_its_type_is_refused_at_both_ends(read: Any, body: Any) -> None:
    with pytest.raises(FrameError, match="what is no message of this narval"):
        read(body)


@pytest.mark.parametrize(
    "calls", [b"\xc1", pickle.dumps(Trap()), frames.joined([b"\xc1"]), frames.joined([frames.written(REPLY)])]
)
def test_G66_bytes_that_are_no_call_are_answered_and_nothing_is_raised(
    calls: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker()
    monkeypatch.setattr(remote.distributed, "get_worker", lambda: worker)
    replies = asyncio.run(remote.answer(b"task", calls, "topic"))
    (reply,) = map(frames.read_reply, frames.parted(replies))
    assert reply.outcome.problem is not None
    assert "what is no message of this narval" in reply.outcome.problem.message
    assert frames.read_news(worker.told[-1]) == frames.Replied("task", replies)
