"""Servers for tests of what daemons share: each gives stores, one for each daemon (G46 to G50)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Protocol

import psycopg

from narval.store.batch import HOME_AGENT
from narval.store.open import open_store
from narval.store.postgresql.leases import Leases
from narval.store.store import Store
from tests.postgres import fresh_schema, shared_server
from tests.simulator.server import Server
from tests.simulator.shared_store import SharedStore
from tests.store.stores import content


class Shared(Protocol):
    """A server with nothing in it."""

    def store(self) -> Store:
        """One store more, which no daemon has joined."""

    def is_over(self, daemon: int) -> None:
        """The time of a daemon is over: it did not renew for as long as a lease lasts."""


class Simulated:
    """The server of the simulator."""

    def __init__(self, folder: Path, stores: ExitStack) -> None:
        self._stores = stores
        self._server = stores.enter_context(closing(Server(folder / "server.db")))

    def store(self) -> SharedStore:
        """One store more."""
        return self._stores.enter_context(SharedStore(self._server))

    def is_over(self, daemon: int) -> None:
        """Its row says that it was until now."""
        known = self._server.daemons[daemon]
        self._server.daemons[daemon] = known._replace(until=self._server.now())


class OnPostgreSQL:
    """A schema of a real server."""

    def __init__(self, _: Path, stores: ExitStack) -> None:
        self._stores = stores
        self._url = stores.enter_context(fresh_schema(shared_server()))

    def store(self) -> Store:
        """One store more."""
        return self._stores.enter_context(open_store(self._url))

    def is_over(self, daemon: int) -> None:
        """Its row says that it was until now."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute("UPDATE daemons SET until = clock_timestamp() WHERE daemon = %s", (daemon,))


SHARED: dict[str, Callable[[Path, ExitStack], Shared]] = {"simulated": Simulated, "postgresql": OnPostgreSQL}
"""The kinds of servers there are."""


class Member:
    """A daemon that has joined: its store and its leases."""

    def __init__(self, shared: Shared, home: str, version: str = "1.0") -> None:
        self.store = shared.store()
        self.leases = leases_of(self.store)
        self.own = self.leases.join(home, f"{home}.example", version, "d1")

    @property
    def number(self) -> int:
        """The number of the daemon."""
        return self.leases.daemon

    def elements(self, agent: int = HOME_AGENT) -> list[int]:
        """The eids that the store has of an agent."""
        return [eid for eid, *_ in content(self.store, agent)["elements"]]


def leases_of(store: Store) -> Leases:
    """The leases of a store that has some."""
    assert store.leases is not None
    return store.leases
