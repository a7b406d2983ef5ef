"""The contract of a store that daemons share: leases, which say which of them may run which agent (G46 to
G50), and the collections that all of them follow (G58).

A daemon has a row, which it renews by the clock of the store; while it does, the agents it holds are its
own. Each time an agent changes hands its epoch is raised. A commit is valid only under the epoch in the
store, so a former owner's decision is never recorded (G47). A home on SQLite has none of this: its lock is
the lease.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from narval.core.errors import StoreAwayError, StoreError
from narval.store.batch import AgentRow

LEASE = 3.0
"""Seconds of the store's clock after which others may take the agents of a daemon that has not renewed its
row.
"""

RENEWAL = 0.5
"""Seconds between two renewals."""

DOUBTED = 2.0
"""Seconds by its own clock after which a daemon that has not renewed starts and performs nothing."""

GIVEN_UP = 2.5
"""Seconds after which it ends its workers and programs."""

ALIVE = 2.0
"""Seconds after a daemon's last sign of life for which the program beside it renews for it."""

PULSE = 0.25
"""Seconds between two signs of life of a daemon."""

PORTION = 250
"""The most agents taken at once."""

WEIGHT = 10
"""The default weight of a daemon."""


def given_up(error: StoreError, patience: float) -> StoreAwayError:
    """The error that ends a daemon after that many seconds in which the server did not answer."""
    return StoreAwayError(f"{error}; given up after {patience:g} seconds (store_patience)")


class DaemonRow(NamedTuple):
    """A daemon that runs on a store, under its number.

    `home` is the name of its home's own agent, `address` tells people where it is (host and process),
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
    """The number of agents that it holds, as of its last renewal."""
    weight: int = WEIGHT
    """Its share of the agents, relative to other daemons (1 to 100)."""


class Taken(NamedTuple):
    """An agent that a daemon holds from now on, and its epoch."""

    row: AgentRow
    epoch: int
    was_given: bool = False
    """True for one that another daemon gave it."""


class Ownership(NamedTuple):
    """The running daemon that holds an agent: the name of its home ("" if none does), the epoch, and the home
    to which the agent is pinned ("": to none).
    """

    agent: int
    home: str
    epoch: int
    pinned: str


class Beat(NamedTuple):
    """The answer to a renewal.

    `at` is the clock of the store (seconds since 1970), `mail` are the agents of this daemon with waiting
    messages, `published` the collections of the store, by name with their digests. `daemons` are those whose
    lease has not expired, including itself. `free` is how many agents `take` would find (some thousands at
    most), including those of expired daemons, and `unknown` how many of these it holds without knowing it.
    `lost` are the homes without a daemon whose last one is gone without having left.
    """

    at: float
    daemons: tuple[DaemonRow, ...]
    mail: frozenset[int] = frozenset()
    published: tuple[tuple[str, str], ...] = ()
    free: int = 0
    unknown: int = 0
    lost: tuple[str, ...] = ()


class DaemonNotices(Protocol):
    """Notices of daemons to one another, between heartbeats. Any may be lost, since the heartbeats find
    everything.
    """

    def tell(self, agent: int) -> None:
        """Notify the daemon that holds an agent of a recorded message. Returns at once; thread-safe."""

    def close(self) -> None:
        """Stop sending and receiving notices."""


class Leases(Protocol):
    """The leases of one daemon. Its methods may block for as long as the store takes; any thread may call
    them, one at a time. All raise StoreError, and StoreAwayError if the server does not answer.
    """

    daemon: int
    """The number of this daemon; 0 before it has joined."""

    url: str = ""
    """The URL by which a program beside this one reaches the store; "" if none can."""

    latest: Beat | None = None
    """The answer to its last renewal."""

    patience: float | None = None
    """Seconds after which a daemon ends if the server does not answer; None: it waits for ever."""

    def join(self, home: str, address: str, version: str, digest: str = "", weight: int = WEIGHT) -> AgentRow:
        """Join the store as a daemon; return the home's own agent, made if missing, which it holds.

        Raises ElsewhereError if another daemon of that home is running, SettingsError if an agent that is not
        a home's own has the name, and StoreError if the store needs a later release.
        """

    def need(self, release: str, what: str) -> None:
        """Record in the store that it needs a release (`releases.py`), before `what`, which is new in it, is
        recorded; from then on daemons of older releases are refused.

        Raises RequestError, without a change, if a daemon of an older release is running.
        """

    def renew(self, *, draining: bool = False) -> Beat:
        """Extend its leases by `LEASE` seconds; `draining` tells the others that it gives all agents away.

        Raises FencedError if its lease expired and its row is gone: then it holds nothing. If the row still
        exists, however late, no daemon has taken any of its agents.
        """

    def take(self, most: int = PORTION, *, of_others: bool = True) -> list[Taken]:
        """Take agents that no daemon holds, and with `of_others` those of expired daemons, those with work
        first; not those whose files another home has. Agents that it holds without knowing it, because an
        answer was lost, come before all others.

        The row of a daemon is removed before any of its agents is taken, so that no daemon holds the rest.
        """

    def claim(self, name: str) -> Taken | None:
        """Take the agent of a name if `take` would, or the row of a peer that is pinned to its own name. None
        if it may not, or there is none.
        """

    def make(self, name: str, state: str) -> Taken | None:
        """Make a new agent in a state, which it holds. None if there is one of that name."""

    def pin(self, agent: int, home: str) -> None:
        """Let only daemons of a home take an agent that it holds; "": any."""

    def give(self, agents: Iterable[int]) -> None:
        """Release agents: any daemon may take them at once."""

    def hand_over(self, agents: Iterable[int], daemon: int) -> bool:
        """Transfer agents to another daemon, which learns of it with its next renewal (G55).

        False if that one is not running, or gives all away: then this one still holds them, without knowing
        it.
        """

    def pinned(self) -> frozenset[int]:
        """The numbers of the agents it holds whose files are in its home, as far as it knows."""

    def find(self, name: str) -> tuple[AgentRow, DaemonRow | None] | None:
        """An agent of the store by its name, and the daemon that holds it, if one does."""

    def owners(self) -> list[Ownership]:
        """The daemons that hold the agents of the store, by number of the agent."""

    def held(self) -> frozenset[int]:
        """The numbers of the agents that it holds, as far as it knows."""

    def leave(self) -> None:
        """Give back all agents it holds, and leave the store."""


class PublishedRow(NamedTuple):
    """A collection as it was last published: the size of its packed files in bytes, and their SHA-256.

    `at` is by the clock of the store, in seconds since 1970; `by` is the login of the publisher.
    """

    name: str
    digest: str
    at: float
    by: str
    bytes: int


class Published(Protocol):
    """The collections of a store, by name. Its methods block for as long as the store takes; any thread may
    call them. All raise StoreError, and StoreAwayError if the server does not answer.
    """

    def all(self) -> list[PublishedRow]:
        """All collections, by name."""

    def get(self, name: str) -> tuple[str, bytes] | None:
        """The digest and the packed files of a collection; None if there is none of that name."""

    def put(self, name: str, digest: str, files: bytes, by: str) -> None:
        """Publish these packed files as a collection. Raises OperatorError if the asker is not allowed to."""

    def withdraw(self, name: str) -> bool:
        """Remove a collection; False if there was none. Raises OperatorError if that is not allowed."""
