"""Each message is taken, done and answered once, however often program and daemon end (C12, C18)."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest

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
