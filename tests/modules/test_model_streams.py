"""What a language model sends, however small its pieces are, costs no more than their length."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import narval
from narval import Fetched
from narval.calls import models
from narval.calls.context import CallContext
from narval.core.errors import ActionError
from narval.files.outside.services import LanguageModel


class Counted(bytes):
    """A piece that counts the bytes of what it is put behind."""

    copied = 0

    def __radd__(self, before: bytes) -> bytes:
        Counted.copied += len(before)
        return bytes(before) + bytes(self)


@pytest.mark.parametrize("first", [b"", b'data: {"choices": []}\n'])
def test_an_answer_byte_by_byte_is_not_copied_for_each(monkeypatch: pytest.MonkeyPatch, first: bytes) -> None:
    async def fetch(url: str, received: Callable[[bytes], None], **_: Any) -> Fetched:
        received(first)
        for _ in range(10_000):
            received(Counted(b"x"))
        return Fetched(200, "OK", url, {}, first + b"x" * 10_000)

    def ask() -> None:
        model = LanguageModel(name="near", url="http://127.0.0.1/v1", model="tiny")
        asyncio.run(models.Chat(model, 5.0).ask([], models.Reply(), 100, None))

    monkeypatch.setattr(narval, "fetch", fetch)
    with pytest.raises(ActionError):
        CallContext("home/run-7/ask/1", 7, "ask", None).context().run(ask)
    assert Counted.copied == 0
