"""The server in memory: what a connection that is cut, or gone for a while, does to a store (G51, G52)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from narval.core.errors import FencedError, StoreAwayError
from narval.store.batch import PASSIVE, AgentRow
from tests.simulator.server import Server
from tests.simulator.shared_store import BACK, OUT, SharedStore
from tests.store.stores import added, batch, content

ADA = AgentRow(10, "a" * 32, "ada", PASSIVE)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with closing(Server(tmp_path / "server.db")) as made:
        yield made


@pytest.fixture
def store(server: Server) -> Iterator[SharedStore]:
    with SharedStore(server) as made:
        made.leases.join("attic", "attic.example", "1.0")
        made.commit(batch(agents=[ADA]))
        yield made


def eids(store: SharedStore, agent: int) -> list[int]:
    return [eid for eid, *_ in content(store, agent)["elements"]]


@pytest.mark.parametrize("cuts", [[OUT], [BACK], [OUT, OUT, BACK], [BACK, OUT, OUT], [OUT, "", BACK]])
def test_G51_a_commit_whose_connection_was_cut_is_recorded_once(store: SharedStore, cuts: list[str]) -> None:
    store.link.cuts = iter(cuts)
    store.commit(batch(elements=[added(1)]), batch(ADA.agent, elements=[added(2)]))
    store.commit(batch(elements=[added(3)]))
    assert (eids(store, 1), eids(store, ADA.agent)) == ([1, 3], [2])


def test_G51_a_daemon_that_lost_its_agents_meanwhile_learns_of_it(store: SharedStore, server: Server) -> None:
    with SharedStore(server) as other:
        other.leases.join("barn", "barn.example", "1.0")

        def wait() -> None:
            server.drop(store.leases.daemon)
            other.leases.take()

        store.link.wait = wait
        store.link.cuts = iter([BACK])
        with pytest.raises(FencedError) as lost:
            store.commit(batch(ADA.agent, elements=[added(1)]))
    assert lost.value.agents == {ADA.agent}
    assert eids(store, ADA.agent) == [1]


def test_G52_while_the_server_is_away_nothing_is_read_and_a_commit_waits(store: SharedStore) -> None:
    store.link.is_away = True
    for ask in (
        lambda: list(store.agents()),
        lambda: list(store.of().elements()),
        lambda: store.letters.waiting(),
        lambda: store.leases.renew(),
        lambda: store.commit(batch(elements=[added(1)])),
    ):
        with pytest.raises(StoreAwayError):
            ask()

    def wait() -> None:
        store.link.is_away = False

    store.link.is_away, store.link.wait = True, wait
    store.commit(batch(elements=[added(2)]))
    assert eids(store, 1) == [2]


def test_what_a_daemon_has_without_knowing_it_takes_again(store: SharedStore, server: Server) -> None:
    with SharedStore(server) as other:
        other.leases.join("barn", "barn.example", "1.0")
        store.link.cuts = iter([OUT])
        with pytest.raises(StoreAwayError):
            store.leases.give([ADA.agent])
        assert other.leases.take() == []
        assert [taken.row for taken in store.leases.take()] == [ADA]
        store.leases.give([ADA.agent])
        other.link.cuts = iter([BACK])
        with pytest.raises(StoreAwayError):
            other.leases.take()
        assert other.leases.renew().free == 1
        assert [taken.row for taken in other.leases.take(of_others=False)] == [ADA]
        other.commit(batch(ADA.agent, elements=[added(1)]))
