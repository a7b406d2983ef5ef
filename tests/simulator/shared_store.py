"""The store of one daemon that shares it, at the server of `server.py`.

A `Link` is how that daemon reaches it, and may be away, or cut, before or after what it asked for was done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from narval.core.errors import FencedError, StoreAwayError, StoreError
from narval.store.batch import AgentRow, Batch
from narval.store.letters import DatabaseLetters
from narval.store.postgresql.leases import (
    PORTION,
    WEIGHT,
    Beat,
    DaemonNotices,
    DaemonRow,
    Leases,
    Ownership,
    Taken,
)
from narval.store.reading import DatabaseAgent, Tables
from narval.store.sqlite import File
from narval.store.store import Store
from tests.simulator.server import Mark, Server, fenced

T = TypeVar("T")

OUT, BACK = "before", "after"
"""When a connection is cut: before what was asked is done, or after, so that only the answer is lost."""


class CutError(Exception):
    """The connection is gone before an answer came."""


class Link:
    """The way of one daemon to the server.

    `is_away` says that nothing gets through; `cuts` has for each of the next statements if it is cut, and
    when. `wait` blocks while the server is away, and raises StoreAwayError where nobody wants to wait.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.is_away = False
        self.cuts: Iterator[str] = iter(())
        self.wait: Callable[[], None] = self._no_wait

    def ask(self, statement: Callable[..., T], *given: Any) -> T:
        """What the server answers. Raises CutError."""
        self.check()
        cut = next(self.cuts, "")
        if cut == OUT:
            raise CutError
        with self.server.lock:
            answer = statement(*given)
        if cut == BACK:
            raise CutError
        return answer

    def check(self) -> None:
        """Raise CutError where nothing gets through."""
        if self.is_away:
            raise CutError

    def hears(self) -> bool:
        """True if a notice gets through."""
        return not self.is_away

    def _no_wait(self) -> None:
        if self.is_away:
            raise away()

    @contextmanager
    def told(self) -> Iterator[None]:
        """Say plainly that the server does not answer."""
        try:
            yield
        except CutError:
            raise away() from None


def away() -> StoreAwayError:
    """The error that the server does not answer."""
    return StoreAwayError("the server of the store does not answer; nothing that was confirmed is lost")


class SharedStore(Store):
    """The store of one daemon at a server."""

    is_shared = True

    def __init__(self, server: Server) -> None:
        self.link = Link(server)
        driver = File(server.path, "crash", 5.0)

        @contextmanager
        def reading() -> Iterator[Any]:
            with self.link.told():
                self.link.check()
            with driver.reading() as connection:
                yield connection

        self._tables = Tables(driver, reading)
        self._close = driver.close
        self.marks: dict[int, Mark] = {}
        """The agents that it holds, as far as it knows."""
        self.leases: SharedLeases = SharedLeases(self)
        self._refusal = ""

    @property
    def letters(self) -> DatabaseLetters:
        """The messages between its agents, to be read."""
        return DatabaseLetters(self._tables.read, self._tables.name)

    def agents(self) -> Iterator[AgentRow]:
        """All agents, by number."""
        return self._tables.agents()

    def held(self) -> list[tuple[int, int, int]]:
        """Agent, a number of elements or runs of it, and how many are active runs."""
        return self._tables.read("held by agents")

    def facts(self, key: str) -> dict[str, str]:
        """A fact of agents, by their names."""
        return dict(self._tables.read("facts of agents", key))

    def of(self, agent: int | None = None) -> DatabaseAgent:
        """The store as one agent sees it."""
        return DatabaseAgent(self._tables, self.own if agent is None else agent, self.own)

    def commit(self, *batches: Batch) -> None:
        """Record the batches, all or nothing. Raises FencedError, StoreAwayError if nobody wants to wait."""
        server = self.link.server
        if self._refusal:
            raise StoreError(self._refusal)
        if not self.leases.daemon:
            server.record_unheld(batches)
            return
        agents = {batch.agent for batch in batches}
        if lost := agents - self.marks.keys():
            raise fenced(lost)
        marks = {agent: self.marks[agent] for agent in agents}
        while True:
            try:
                self.link.ask(server.record, self.leases.daemon, marks, batches)
                break
            except CutError:
                if self.is_recorded(marks):
                    break
            except FencedError as error:
                self._forget(error.agents)
                raise
        for agent, mark in marks.items():
            if self.marks.get(agent) == mark:  # else it was given away meanwhile
                self.marks[agent] = Mark(mark.epoch, mark.turn + 1)
        for batch in batches:
            self.marks |= {row.agent: Mark(1) for row in batch.agents if row.agent not in self.marks}
            self._forget(batch.removed_agents)

    def is_recorded(self, marks: dict[int, Mark]) -> bool:
        """True if a commit whose answer was lost was made (G51). Raises FencedError."""
        while True:
            self.link.wait()
            if self._refusal:
                raise StoreError(self._refusal)
            try:
                found = self.link.ask(self.link.server.marks, marks)
            except CutError:
                continue
            daemon = self.leases.daemon
            if lost := {agent for agent, mark in marks.items() if found[agent][0] != daemon}:
                self._forget(lost)
                raise fenced(lost)
            return all(found[agent][1].turn == mark.turn + 1 for agent, mark in marks.items())

    def _forget(self, agents: Iterable[int]) -> None:
        for agent in agents:
            self.marks.pop(agent, None)

    def refuse(self, why: str) -> None:
        """Record nothing from now on: the daemon is killed."""
        self._refusal = why

    def close(self) -> None:
        """End it."""
        self._refusal = self._refusal or "the store is closed"
        self._close()


class SharedLeases(Leases):
    """The leases of one daemon at a server."""

    def __init__(self, store: SharedStore) -> None:
        self._store, self.daemon = store, 0

    def _ask(self, statement: Callable[..., T], *given: Any) -> T:
        link = self._store.link
        with link.told():
            return link.ask(statement, *given)

    def join(self, home: str, address: str, version: str, digest: str = "", weight: int = WEIGHT) -> AgentRow:
        """Be a daemon of this store."""
        server = self._store.link.server
        self.daemon, own, mark = self._ask(server.join, home, address, version, digest, weight)
        self._store.marks = {own.agent: mark}
        self._store.use_own(own.agent)
        return own

    def need(self, release: str, what: str) -> None:
        """Have the store say that it needs a release."""
        self._ask(self._store.link.server.need, release, what)

    def renew(self, *, draining: bool = False) -> Beat:
        """Hold what it holds for longer."""
        try:
            self.latest = self._ask(self._store.link.server.renew, self.daemon, self.held(), draining)
            return self.latest
        except FencedError:
            lost, self._store.marks = frozenset(self._store.marks), {}
            raise fenced(lost) from None

    def take(self, most: int = PORTION, *, of_others: bool = True) -> list[Taken]:
        """Take agents that nobody holds."""
        given = self.daemon, self.held(), most, of_others
        return self._took(self._ask(self._store.link.server.take, *given))

    def claim(self, name: str) -> Taken | None:
        """Take the agent of a name."""
        given = self.daemon, self.held(), 1, True, name
        return next(iter(self._took(self._ask(self._store.link.server.take, *given))), None)

    def make(self, name: str, state: str) -> Taken | None:
        """Make a new agent."""
        made = self._ask(self._store.link.server.make, self.daemon, name, state)
        return None if made is None else self._took([made])[0]

    def owners(self) -> list[Ownership]:
        """The daemons that hold the agents."""
        return self._ask(self._store.link.server.owners)

    def _took(self, found: list[tuple[Taken, Mark]]) -> list[Taken]:
        self._store.marks |= {taken.row.agent: mark for taken, mark in found}
        return [taken for taken, _ in found]

    def pin(self, agent: int, home: str) -> None:
        """Have an agent be taken by daemons of that home alone."""
        self._ask(self._store.link.server.pin, self.daemon, agent, home)

    def give(self, agents: Iterable[int]) -> None:
        """Let go of agents."""
        given = set(agents)
        self._store.marks = {agent: mark for agent, mark in self._store.marks.items() if agent not in given}
        self._ask(self._store.link.server.give, self.daemon, given)

    def hand_over(self, agents: Iterable[int], daemon: int) -> bool:
        """Let a daemon hold agents from now on."""
        given = set(agents)
        self._store.marks = {agent: mark for agent, mark in self._store.marks.items() if agent not in given}
        return self._ask(self._store.link.server.hand_over, self.daemon, given, daemon)

    def pinned(self) -> frozenset[int]:
        """The numbers of the agents that it holds which have their files in its home."""
        server = self._store.link.server
        return frozenset(agent for agent in self._store.marks if server.lease(agent).home)

    def find(self, name: str) -> tuple[AgentRow, DaemonRow | None] | None:
        """An agent of the store by its name, and who holds it."""
        return self._ask(self._store.link.server.find, name)

    def listen(self, heard: Callable[[frozenset[int]], None]) -> Notices:
        """Tell other daemons and hear of them."""
        return Notices(self._store.link, self.daemon, heard)

    def held(self) -> frozenset[int]:
        """The numbers of the agents that it holds, as far as it knows."""
        return frozenset(self._store.marks)

    def leave(self) -> None:
        """Give back all it holds."""
        self._ask(self._store.link.server.drop, self.daemon)
        self._store.marks, self.daemon = {}, 0


class Notices(DaemonNotices):
    """The notices of one daemon to others; those that cannot get through are lost."""

    def __init__(self, link: Link, daemon: int, heard: Callable[[frozenset[int]], None]) -> None:
        self._link, self._daemon, self._heard = link, daemon, heard
        link.server.hearers[daemon] = self._hear

    def _hear(self, agents: frozenset[int]) -> None:
        if self._link.hears():
            self._heard(agents)

    def tell(self, agent: int) -> None:
        """Have the daemon that holds an agent be told that a message for it is recorded."""
        with suppress(CutError):
            self._link.check()
            self._link.server.tell(agent)

    def close(self) -> None:
        """Tell and hear nothing more."""
        self._link.server.hearers.pop(self._daemon, None)
