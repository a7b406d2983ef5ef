"""The contract of leases: which daemon of those that share a store may work on which agent (G46 to G50).

A daemon has a row, which it renews by the clock of the store; while it does, the agents it holds are its own.
Each time an agent changes hands its epoch is raised, and a commit counts only under the epoch that the store
has: so what a former owner decided is never recorded (G47). A home on SQLite has none of this: its lock
is the lease.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from narval.store.batch import AgentRow

LEASE = 3.0
"""Seconds of the store's clock after which others may take the agents of a daemon that has not renewed."""

RENEWAL = 0.5
"""Seconds between two renewals."""

DOUBTED = 2.0
"""Seconds by its own clock after which a daemon that has not renewed begins and performs nothing (G48)."""

GIVEN_UP = 2.5
"""Seconds after which it ends its workers and programs."""

ALIVE = 2.0
"""Seconds since it has shown that it lives, for which a program beside a daemon renews for it."""

PULSE = 0.25
"""Seconds between two signs of life of a daemon."""

PORTION = 250
"""The most agents that are taken at once (G49)."""

WEIGHT = 10
"""The weight of a daemon whose settings say nothing (G54)."""


class DaemonRow(NamedTuple):
    """A daemon that is at work on a store, under its number.

    `home` is the name of its home's own agent, `address` says to people where it is (host and process),
    `digest` is that of its people and settings; `until` is by the clock of the store, in seconds since 1970.
    """

    daemon: int
    home: str
    address: str
    version: str
    digest: str
    started: float
    until: float
    draining: bool
    agents: int
    """The agents that it holds, as it has told with its last renewal."""
    weight: int = WEIGHT
    """Its part of the agents, compared with other daemons (1 to 100)."""


class Taken(NamedTuple):
    """An agent that a daemon holds from now on, and under which epoch."""

    row: AgentRow
    epoch: int
    was_given: bool = False
    """True of one that another daemon gave it."""


class Ownership(NamedTuple):
    """The daemon that holds an agent: the name of its home, "" where none does; the epoch, and to which home
    the agent is pinned ("": to none).
    """

    agent: int
    home: str
    epoch: int
    pinned: str


class Beat(NamedTuple):
    """The answer to a renewal.

    `at` is the clock of the store (seconds since 1970), `mail` are the agents of this daemon that have
    messages they have not taken, `published` the collections of the store, by name with their digests.
    `daemons` are those whose time is not over, itself among them; `free` is how many agents `take` would
    find (some thousands at most), of daemons whose time is over too, and `unknown` how many of these it holds
    without knowing it.
    """

    at: float
    daemons: tuple[DaemonRow, ...]
    mail: frozenset[int] = frozenset()
    published: tuple[tuple[str, str], ...] = ()
    free: int = 0
    unknown: int = 0


class DaemonNotices(Protocol):
    """Notices of daemons to one another, between heartbeats: any may be lost, for these find it all."""

    def tell(self, agent: int) -> None:
        """Have the daemon that holds an agent be told that a message for it is recorded. It returns at once,
        and may be called in any thread.
        """

    def close(self) -> None:
        """Tell and hear nothing more."""


class Leases(Protocol):
    """The leases of one daemon. Its methods may block for as long as the store takes; any thread may call
    them, one at a time. All raise StoreError, StoreAwayError where the server does not answer.
    """

    daemon: int
    """The number of this daemon; 0 before it has joined."""

    url: str = ""
    """The URL by which a program beside this one reaches the store; "" where none can."""

    latest: Beat | None = None
    """The answer to its last renewal."""

    def join(self, home: str, address: str, version: str, digest: str = "", weight: int = WEIGHT) -> AgentRow:
        """Be a daemon of this store: the own agent of the home, made where there is none, which it holds.

        Raises ElsewhereError where another daemon of that home is at work, SettingsError where an agent that
        is not the own one of any home has the name, and StoreError where the store needs a later release.
        """

    def need(self, release: str, what: str) -> None:
        """Have the store say that it needs a release (`releases.py`), before `what` is recorded that is new
        in it; daemons of older ones are refused from then on.

        Raises RequestError where a daemon of an older one is at work: then nothing has changed.
        """

    def renew(self, *, draining: bool = False) -> Beat:
        """Hold what it holds for `LEASE` seconds more; `draining` tells the others that it gives all away.

        Raises FencedError where its time was over and its row is gone: then it holds nothing. A row that is
        there still, late as it may be, means that nobody has taken anything of it.
        """

    def take(self, most: int = PORTION, *, of_others: bool = True) -> list[Taken]:
        """Take agents that nobody holds, and with `of_others` those whose daemon's time is over, those with
        work first; not those that another home has the files of. Those that it holds without knowing it
        come before all others.

        The row of a daemon goes before anything of it is taken, and then nobody holds what is left. What it
        holds by the store without knowing it, because an answer was lost, is among what it is given.
        """

    def claim(self, name: str) -> Taken | None:
        """Take the agent of a name if `take` would, and the row of a peer that is pinned to its own name.
        None where it may not, or there is none.
        """

    def make(self, name: str, state: str) -> Taken | None:
        """Make a new agent, which it holds, in a state. None where there is one of that name."""

    def pin(self, agent: int, home: str) -> None:
        """Have an agent that it holds be taken by daemons of that home alone; "": by any."""

    def give(self, agents: Iterable[int]) -> None:
        """Let go of agents: any daemon may take them at once."""

    def hand_over(self, agents: Iterable[int], daemon: int) -> bool:
        """Let a daemon hold agents from now on, which it is told with its next renewal (G55).

        False where that one is not at work, or gives all away: then this one holds them still, without
        knowing it.
        """

    def pinned(self) -> frozenset[int]:
        """The numbers of the agents that it holds which have their files in its home, as far as it knows."""

    def find(self, name: str) -> tuple[AgentRow, DaemonRow | None] | None:
        """An agent of the store by its name, and the daemon that holds it, if one does."""

    def owners(self) -> list[Ownership]:
        """The daemons that hold the agents of the store, by number of the agent."""

    def held(self) -> frozenset[int]:
        """The numbers of the agents that it holds, as far as it knows."""

    def leave(self) -> None:
        """Give back all it holds, and be a daemon of this store no more."""
