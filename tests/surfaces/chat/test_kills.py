"""Each message is taken, done and answered once, however often program and daemon end (C12, C18)."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from narval.core.errors import DaemonGoneError
from narval.surfaces.chat import connection
from narval.surfaces.chat.program import serve
from narval.surfaces.control.async_client import AsyncClient
from tests.daemon.at_work import in_a_loop
from tests.surfaces.chat.at_work import chat_at_work, make_chat_home
from tests.surfaces.chat.stand_in import SERVICES, Service


async def written_while_killed(folder: Path, messages: int, kills: int, seed: int) -> Service:
    """The service at which so many messages were written while programs and daemons ended."""
    chance, home = random.Random(seed), make_chat_home(folder)
    SERVICES["here"] = service = Service()
    left = messages
    for kill in range(kills + 1):
        number = left if kill == kills else min(left, messages // (kills + 1))
        async with chat_at_work(home) as chat:
            for _ in range(number):
                left -= 1
                await service.write(
                    f"thing {messages - left}", chance.choice(["ann", "ben"]) + "@example.org"
                )
                if chance.random() < 0.3:
                    await asyncio.sleep(chance.random() / 100)
            if chance.random() < 0.5:
                await chat.kill()
                await asyncio.sleep(chance.random() / 50)
                chat.begin()
            if kill == kills:
                await chat.settled()
                rows = await chat.ask("memory", xpath="chat-message")
                texts = Counter(row["xml"].partition(">")[2].partition("<")[0] for row in rows)
                assert texts == Counter(f"thing {number}" for number in range(1, messages + 1))
    return service


@in_a_loop
async def test_C18_messages_are_taken_and_answered_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("narval.surfaces.chat.connection.LINES", 100_000)
    service = await written_while_killed(tmp_path, 60, 5, seed=1)
    assert len(service.sent) == 60
    assert len({message.id for message in service.sent}) == 60


@pytest.mark.soak
@in_a_loop
async def test_C18_a_thousand_messages_and_fifty_kills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("narval.surfaces.chat.connection.LINES", 100_000)
    service = await written_while_killed(tmp_path, 1000, 50, seed=2)
    assert len(service.sent) == 1000


@in_a_loop
async def test_C12_one_whose_answer_was_lost_is_sent_again_once_and_marked(tmp_path: Path) -> None:
    async with chat_at_work(make_chat_home(tmp_path)) as chat:
        chat.service.can = frozenset()
        await chat.kill()
        chat.begin()
        chat.service.loses = {0}
        await chat.service.write("help")
        first, second = await chat.service.answers(2)
        assert (first.is_repeated, second.is_repeated, first.id) == (False, True, second.id)
        await chat.settled()
        assert len(chat.service.sent) == 2


@in_a_loop
async def test_C12_one_with_an_id_is_not_sent_twice(tmp_path: Path) -> None:
    async with chat_at_work(make_chat_home(tmp_path)) as chat:
        chat.service.loses = {0}
        await chat.service.write("help")
        await chat.settled()
        assert len(chat.service.sent) == 1


@in_a_loop
async def test_C12_one_that_never_went_out_is_neither_lost_nor_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "FIRST", 0.01)
    async with chat_at_work(make_chat_home(tmp_path)) as chat:
        chat.service.can = frozenset()
        await chat.kill()
        chat.begin()
        chat.service.failures = [ConnectionError("no route"), OSError("no route"), ConnectionError("busy")]
        assert "status" in await chat.says("help")
        await chat.settled()
        assert [message.is_repeated for message in chat.service.sent] == [False]


@in_a_loop
async def test_a_message_that_a_kind_cannot_send_keeps_no_other_from_going_out(tmp_path: Path) -> None:
    async with chat_at_work(make_chat_home(tmp_path)) as chat:
        chat.service.failures = [KeyError("room_id")]
        await chat.service.write("help")
        await chat.says("help", "ben@example.org")
        assert len(await chat.service.answers(2)) == 2


class Forgetful:
    """The way to a daemon that ends once it has taken messages, before it answers."""

    def __init__(self, asks: AsyncClient) -> None:
        self._asks = asks
        self.forgets = True

    async def ask(self, method: str, /, **params: Any) -> Any:
        answer = await self._asks.ask(method, **params)
        if method == "chat_take" and params["messages"] and self.forgets:
            self.forgets = False
            raise DaemonGoneError("it ended")
        return answer

    async def again(self) -> None:
        pass


@in_a_loop
async def test_C12_what_was_taken_is_dealt_with_though_nobody_was_told(tmp_path: Path) -> None:
    async with chat_at_work(make_chat_home(tmp_path), begin=False) as chat:
        asks = Forgetful(AsyncClient(chat.home.known_socket))
        program = asyncio.get_running_loop().create_task(serve(chat.home.path, asks))
        assert "status" in await chat.says("help")
        assert not asks.forgets
        await chat.settled()
        assert len(chat.service.sent) == 1
        program.cancel()
