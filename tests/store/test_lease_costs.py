"""What heartbeats and takeovers cost PostgreSQL, in statements and rows read, by number of agents (G46)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import psycopg
import pytest

from narval.store.open import open_store
from narval.store.postgresql.leases import PORTION
from narval.store.postgresql.ownership import MOST_COUNTED, ServerLeases

READ = """
SELECT (SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables
            WHERE schemaname = current_schema())
    + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = current_schema())"""

HOMES = ("attic", "barn", "cellar")


class Cost(NamedTuple):
    """The statements that were executed, and the rows that they read of tables and indexes."""

    statements: int
    rows: int


class Fleet:
    """Daemons of three homes, each with a third of some agents."""

    def __init__(self, url: str, agents: int, ends: ExitStack) -> None:
        self.server = ends.enter_context(psycopg.connect(url, autocommit=True))
        self.leases: list[ServerLeases] = []
        for home in HOMES:
            leases = ends.enter_context(open_store(url)).leases
            assert isinstance(leases, ServerLeases)
            leases.join(home, "here", "1")
            self.leases.append(leases)
        first, last = 1000, 999 + agents
        self.server.execute(
            "INSERT INTO agents (agent, id, name, state, why) SELECT n, md5(n::text), 'a' || n, 'passive', ''"
            " FROM generate_series(%s::bigint, %s::bigint) n",
            (first, last),
        )
        for place, leases in enumerate(self.leases):
            self.server.execute(
                "INSERT INTO leases (agent, owner, epoch) SELECT n, %s, 1"
                " FROM generate_series(%s::bigint, %s::bigint) n WHERE n %% 3 = %s",
                (leases.daemon, first, last, place),
            )
            leases.add(range(first + (place - first) % 3, last + 1, 3))
        self.server.execute("VACUUM ANALYZE leases, agents, daemons, messages")
        for leases in self.leases:
            leases.renew()

    @contextmanager
    def measured(self, leases: ServerLeases, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Cost]]:
        """The cost of what is asked meanwhile."""
        costs: list[Cost] = []
        before, count = self._read(leases), 0
        execute = psycopg.Connection.execute

        def counted(connection: Any, *given: Any, **how: Any) -> Any:
            nonlocal count
            count += 1
            return execute(connection, *given, **how)

        with monkeypatch.context() as patch:
            patch.setattr(psycopg.Connection, "execute", counted)
            yield costs
        costs.append(Cost(count, self._read(leases) - before))

    def _read(self, leases: ServerLeases) -> int:
        """The rows that were read up to now, once the server has counted them."""
        with leases._asking() as connection:
            connection.execute("SELECT pg_stat_force_next_flush()")
        [(rows,)] = self.server.execute(READ.encode())
        return int(rows)


def cost_of_a_heartbeat(url: str, agents: int, monkeypatch: pytest.MonkeyPatch) -> Cost:
    with ExitStack() as ends:
        fleet = Fleet(url, agents, ends)
        with fleet.measured(fleet.leases[0], monkeypatch) as costs:
            beat = fleet.leases[0].renew()
        assert sum(row.agents for row in beat.daemons) == agents + len(HOMES)
        return costs[0]


def test_a_heartbeat_costs_the_same_at_a_hundred_and_at_ten_thousand_agents(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = cost_of_a_heartbeat(postgres_url, 100, monkeypatch)
    with psycopg.connect(postgres_url, autocommit=True) as server:
        server.execute("DELETE FROM leases WHERE agent >= 1000")
        server.execute("DELETE FROM agents WHERE agent >= 1000")
        server.execute("DELETE FROM daemons")
    many = cost_of_a_heartbeat(postgres_url, 10_000, monkeypatch)
    assert many.statements == few.statements
    assert many.rows <= few.rows + 50, (few, many)


def test_agents_that_nobody_holds_are_counted_up_to_a_number_and_taken_at_the_cost_of_a_portion(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as ends:
        fleet = Fleet(postgres_url, 15_000, ends)
        lost, taker, other = fleet.leases
        fleet.server.execute("UPDATE daemons SET until = clock_timestamp() WHERE daemon = %s", (lost.daemon,))
        with fleet.measured(taker, monkeypatch) as costs:
            assert taker.renew().free == MOST_COUNTED
        assert costs[0].rows < 3 * MOST_COUNTED, costs
        first = taker.take()
        with fleet.measured(taker, monkeypatch) as costs:
            second = taker.take()
        assert len(first) == len(second) == PORTION
        assert not {one.row for one in first} & {one.row for one in second}
        assert costs[0].rows < 20 * PORTION, costs
        assert len(other.take()) == PORTION, "whatever the first has taken meanwhile"
        with fleet.measured(taker, monkeypatch) as costs:
            taker.hand_over([one.row.agent for one in first[:5]], other.daemon)
            assert other.renew().unknown == 5
        assert costs[0].rows < 3 * MOST_COUNTED + 200, costs
