"""Notices between daemons on a real server: soon, few, in no commit; whatever is lost is no matter (G44)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

from narval.store.batch import PASSIVE
from narval.store.open import open_store
from narval.store.postgresql.leases import DaemonNotices, Leases
from tests.store.sharing import leases_of

PATIENCE = 60.0


class Ear:
    """A daemon that listens, and what it has heard."""

    def __init__(self, url: str, home: str, ends: ExitStack) -> None:
        store = ends.enter_context(open_store(url))
        self.leases: Leases = leases_of(store)
        self.own = self.leases.join(home, f"{home}.example", "1.0").agent
        self.heard: list[frozenset[int]] = []
        notices = store.listen(self.heard.append)
        assert notices is not None
        self.notices: DaemonNotices = notices
        ends.callback(notices.close)

    def has_heard(self, *agents: int) -> bool:
        return frozenset(agents) <= frozenset().union(*self.heard)


def until(fact: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE
    while not fact():
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.fixture
def ears(postgres_url: str) -> Iterator[tuple[Ear, Ear]]:
    with ExitStack() as ends:
        attic, barn = Ear(postgres_url, "attic", ends), Ear(postgres_url, "barn", ends)
        for ear in (attic, barn):  # it listens from now on
            until(lambda ear=ear: ear.notices.tell(ear.own) or time.sleep(0.01) or ear.heard)
        yield attic, barn


def test_who_holds_an_agent_is_told_of_a_message_for_it(ears: tuple[Ear, Ear]) -> None:
    attic, barn = ears
    made = barn.leases.make("bob", PASSIVE)
    assert made is not None
    attic.notices.tell(made.row.agent)
    attic.notices.tell(barn.own)
    until(lambda: barn.has_heard(made.row.agent, barn.own))
    assert not attic.has_heard(made.row.agent)
    barn.leases.give([made.row.agent])
    assert attic.leases.claim("bob") is not None
    barn.notices.tell(made.row.agent)
    until(lambda: attic.has_heard(made.row.agent))


def test_many_messages_are_few_notices(ears: tuple[Ear, Ear]) -> None:
    attic, barn = ears
    agents = [made.row.agent for n in range(100) if (made := barn.leases.make(f"b{n}", PASSIVE)) is not None]
    barn.heard.clear()
    for _ in range(50):
        for agent in agents:
            attic.notices.tell(agent)
    until(lambda: barn.has_heard(*agents))
    assert len(barn.heard) < 50


def test_more_agents_than_a_notice_has_room_for_are_told_of_in_general(
    ears: tuple[Ear, Ear], postgres_url: str
) -> None:
    attic, barn = ears
    agents = range(10**12, 10**12 + 800)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        held = "INSERT INTO leases (agent, owner) SELECT unnest(%s::bigint[]), %s"
        connection.execute(held, (list(agents), barn.leases.daemon))
    barn.heard.clear()
    for agent in agents:
        attic.notices.tell(agent)
    until(lambda: frozenset() in barn.heard)


def test_a_connection_that_broke_is_made_anew(ears: tuple[Ear, Ear], postgres_url: str) -> None:
    attic, barn = ears
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_notify%' "
            "AND pid <> pg_backend_pid()"
        )
    barn.heard.clear()
    until(lambda: attic.notices.tell(barn.own) or time.sleep(0.05) or barn.heard)
