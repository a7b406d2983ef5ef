"""A server that is away for a while, and commits whose connection was cut (G51, G52)."""

from __future__ import annotations

import random
import tempfile
import threading
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path

import pytest

from narval.core.errors import FencedError, StoreAwayError, StoreError
from narval.store.batch import HOME_AGENT, AgentRow
from narval.store.open import open_store
from narval.store.postgresql.database import SharedDatabase
from tests.postgres import Server
from tests.store.cutting import AFTER, BEFORE, LATE, Cutting, cutting
from tests.store.sharing import leases_of
from tests.store.stores import added, batch, entry

ADA = AgentRow(10, "a" * 32, "ada")


def joined(url: str, home: str = "attic", away_for: float | None = None) -> SharedDatabase:
    store = open_store(url, "power", away_for=away_for)
    assert isinstance(store, SharedDatabase)
    leases_of(store).join(home, f"{home}.example", "1.0")
    return store


def eids(store: SharedDatabase, agent: int = HOME_AGENT) -> list[int]:
    return [kept.element.eid for kept in store.of(agent).elements()]


@pytest.fixture
def way(postgres_url: str) -> Iterator[Cutting]:
    with (
        tempfile.TemporaryDirectory(prefix="npg-", dir="/tmp") as folder,
        cutting(postgres_url, Path(folder)) as made,
    ):
        yield made


# --- cut --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cuts", [[BEFORE], [AFTER], [LATE], [BEFORE] * 2 + [AFTER], [LATE, "", AFTER]])
def test_G51_a_commit_whose_connection_was_cut_is_recorded_once(way: Cutting, cuts: list[str]) -> None:
    with joined(way.url) as store:
        store.commit(batch(agents=[ADA]))
        way.cuts = iter(cuts)
        store.commit(batch(elements=[added(1)]), batch(ADA.agent, elements=[added(2)], journal=[entry(9, 1)]))
        store.commit(batch(elements=[added(3)]))
        assert way.made >= 1
        assert (eids(store), eids(store, ADA.agent)) == ([1, 3], [2])
        assert len(list(store.of(ADA.agent).journal(9))) == 1
        assert store.away is None


def test_G51_of_many_commits_that_are_cut_anywhere_nothing_is_lost_and_nothing_there_twice(
    way: Cutting, monkeypatch: pytest.MonkeyPatch
) -> None:
    from narval.store.postgresql import server

    monkeypatch.setattr(server, "FIRST_WAIT", 0.001)
    rng = random.Random(7)
    with joined(way.url) as store:
        store.commit(batch(agents=[ADA]))
        way.cuts = (rng.choice(["", BEFORE, AFTER, LATE]) for _ in count())
        for turn in range(1, 121):
            both = batch(journal=[entry(1, turn)]), batch(ADA.agent, journal=[entry(2, turn)])
            store.commit(*both[: 1 + turn % 2])
        way.cuts = iter(())
        assert way.made > 60
        assert [row.seq for row in store.of().journal(1)] == list(range(1, 121))
        assert [row.seq for row in store.of(ADA.agent).journal(2)] == list(range(1, 121, 2))


def test_G51_an_agent_that_was_made_by_a_commit_without_an_answer_is_held(way: Cutting) -> None:
    with joined(way.url) as store:
        for number, cut in enumerate((BEFORE, AFTER, LATE), ADA.agent):
            way.cuts = iter([cut])
            row = AgentRow(number, f"{number:032x}", f"made-{cut}")
            store.commit(batch(agents=[row]))
            store.commit(batch(number, elements=[added(1)]))
            way.cuts = iter([cut])
            store.commit(batch(removed_agents=[number]))
            assert leases_of(store).find(row.name) is None
        assert leases_of(store).held() == {HOME_AGENT}


def test_G47_who_lost_its_agents_while_cut_off_records_nothing(way: Cutting, postgres_url: str) -> None:
    with joined(way.url) as store, joined(postgres_url, "barn") as other:
        store.commit(batch(agents=[ADA]))

        def cut() -> Iterator[str]:
            leases_of(store).give([ADA.agent])
            assert leases_of(other).take()
            yield BEFORE

        way.cuts = cut()
        with pytest.raises(FencedError) as lost:
            store.commit(batch(elements=[added(1)]), batch(ADA.agent, elements=[added(1)]))
        assert lost.value.agents == {ADA.agent}
        assert (eids(store), eids(store, ADA.agent)) == ([], [])
        store.commit(batch(elements=[added(1)]))


# --- away -------------------------------------------------------------------------------------------------


def wait_for(told: Callable[[], object]) -> None:
    while not told():
        threading.Event().wait(0.01)


def test_G52_a_commit_waits_for_a_server_that_is_stopped_and_goes_on(postgres: Server) -> None:
    with joined(postgres.url) as store:
        store.commit(batch(elements=[added(1)]))
        postgres.stop("immediate")
        commit = threading.Thread(target=lambda: store.commit(batch(elements=[added(2)])))
        commit.start()
        wait_for(lambda: store.away)
        assert store.away is not None
        assert "the server of the store does not answer" in store.away[1]
        for ask in (lambda: eids(store), lambda: list(store.agents()), lambda: leases_of(store).renew()):
            with pytest.raises(StoreAwayError):
                ask()
        postgres.start()
        commit.join()
        assert (store.away, eids(store)) == (None, [1, 2])
        leases_of(store).renew()


def test_G52_what_was_confirmed_is_there_however_often_the_server_is_killed(postgres: Server) -> None:
    confirmed: list[int] = []
    ends = threading.Event()

    def work() -> None:
        for turn in count(1):
            if ends.is_set():
                return
            store.commit(batch(journal=[entry(1, turn)]))
            confirmed.append(turn)

    with joined(postgres.url) as store:
        worker = threading.Thread(target=work)
        worker.start()
        for _ in range(3):
            before = len(confirmed)
            wait_for(lambda before=before: len(confirmed) > before + 50)
            postgres.kill()
            postgres.start()
        ends.set()
        worker.join()
        assert [row.seq for row in store.of().journal(1)] == confirmed


def test_G52_closing_ends_the_wait(postgres: Server) -> None:
    store = joined(postgres.url)
    postgres.stop("immediate")
    errors: list[StoreError] = []

    def commit() -> None:
        try:
            store.commit(batch(elements=[added(1)]))
        except StoreError as error:
            errors.append(error)

    worker = threading.Thread(target=commit)
    worker.start()
    wait_for(lambda: store.away)
    store.close()
    worker.join()
    assert [type(error) for error in errors] == [StoreAwayError]


def test_closing_ends_what_a_server_that_hangs_was_asked(postgres: Server) -> None:
    store = joined(postgres.url)
    errors: list[StoreError] = []

    def commit() -> None:
        try:
            for eid in count(1):
                store.commit(batch(elements=[added(eid)]))
        except StoreError as error:
            errors.append(error)

    worker = threading.Thread(target=commit)
    worker.start()
    wait_for(lambda: eids(store))
    with postgres.hanging():
        store.close()
        worker.join()
    assert len(errors) == 1


def test_G52_a_daemon_gives_up_after_the_patience_of_its_store(postgres: Server) -> None:
    with joined(postgres.url, away_for=0.2) as store:
        postgres.stop("immediate")
        with pytest.raises(StoreAwayError, match=r"given up after 0.2 seconds \(store_patience\)"):
            store.commit(batch(elements=[added(1)]))
        with pytest.raises(StoreError):
            store.commit(batch(elements=[added(2)]))


def test_readers_find_a_server_that_was_started_anew(postgres: Server) -> None:
    with joined(postgres.url) as store:
        store.commit(batch(elements=[added(1)]))
        assert eids(store) == [1]
        postgres.stop()
        postgres.start()
        assert eids(store) == [1]
        assert len(list(islice(store.agents(), 2))) == 1
