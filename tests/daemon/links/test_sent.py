"""The messages that a peer has, or may have, are known until they are answered, within bounds (G40)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from narval.daemon.links import sent
from narval.daemon.links.sent import SentMessages
from narval.store.batch import Batch, MessageRow
from narval.store.links import SENT

ME = "a" * 32


class Peer:
    """The messages to a peer, and what a store has of them."""

    def __init__(self) -> None:
        self.stored: dict[str, Any] = {}
        self.numbers = 0
        self.open()

    def open(self) -> None:
        self.messages = SentMessages(self, lambda turn, rows: None)  # type: ignore[arg-type]
        self.messages.restore()

    def results(self, scope: str) -> list[Any]:
        assert scope == SENT
        return [*reversed(self.stored.values())]

    def put(self, to: str) -> str:
        self.numbers += 1
        row = MessageRow(2, 1, self.numbers, f"{ME}.{self.numbers}", "element", 0.0, None, b"", b"")
        self.messages.put(ME, row, to)
        return row.id

    def turn(self, work: Any, *arguments: Any) -> None:
        batch = Batch(2)
        result = work(SimpleNamespace(transaction=SimpleNamespace(batch=batch), at=0.0), *arguments)
        assert result is None or list(result)
        for (_, key), row in batch.results.items():
            self.stored.pop(key, None)
            if row is not None:
                self.stored[key] = row

    def take(self) -> None:
        self.turn(self.messages.taken, ME, self.numbers)


def test_as_many_are_known_as_there_is_room_for_whoever_they_were_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sent, "MOST_TAKEN", 3)
    monkeypatch.setattr(sent, "MOST_IN_ALL", 5)
    peer = Peer()
    ids = [peer.put(f"agent-{number // 4}") for number in range(12)]
    peer.take()
    for _ in range(2):
        assert [id for id in ids if peer.messages.may_be_answered(id)] == ids[6:8] + ids[9:]
        assert [*peer.stored] == ids[6:8] + ids[9:]
        peer.open()


def test_what_is_answered_before_the_peer_says_that_it_has_it_is_so_after_a_restart() -> None:
    peer = Peer()
    id = peer.put("shop")
    peer.turn(peer.messages.answered, id)
    peer.numbers = 0
    peer.open()
    assert peer.put("shop") == id
    assert not peer.messages.may_be_answered(id)
    peer.take()
    assert not peer.messages.may_be_answered(id)
    assert peer.stored == {}
