"""The session of one command: its home, its output, and its connection to a daemon or to the opened home.

This module is light, as help needs only its class: code that reads a home, asks a daemon or writes an answer
is imported on use.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import click

from narval.core.errors import HomeHeldError, NarvalError, OperatorError
from narval.system.startup_gc import suspended

if TYPE_CHECKING:
    from pathlib import Path

    from narval.ask.text import Row
    from narval.files.home import Home
    from narval.surfaces.cli.without_daemon import HomeView, RecordOnlyHome, WorkingHome
    from narval.surfaces.control.client import Client
    from narval.surfaces.link.protocol import PeerClient

    WithoutDaemon = HomeView | RecordOnlyHome | WorkingHome

T = TypeVar("T")

SLICE = 3600.0
"""Seconds that one request waits for something new: nothing is polled."""

NOTHING_MORE = "no daemon runs: nothing more will come"


class Connection(Protocol):
    """The interface to operations: of a daemon through its socket, or of the home opened by this command."""

    @property
    def record_only(self) -> bool:
        """True if no daemon runs: requests are recorded for the next one."""

    def ask(self, method: str, /, **params: Any) -> Any:
        """The answer to one operation. Raises NarvalError."""


class Session:
    """The common options of commands, and the objects made from them."""

    def __init__(self) -> None:
        self.directory = ""
        self.as_json = False
        self.acting_as = ""
        self.agent = os.environ.get("NARVAL_AGENT", "")
        self.peer = ""

    def note(self, name: str, value: Any) -> None:
        """Set an option by its name."""
        setattr(self, name, value)

    @property
    def words(self) -> list[str]:
        """The beginning of a command that asks the same home, agent and peer."""
        options = {"--home": self.directory, "--agent": self.agent, "--peer": self.peer}
        return ["narval", *(word for name, value in options.items() if value for word in (name, value))]

    @property
    def home(self) -> Home:
        """The home, for a command that works on its files. Raises NoHomeError; OperatorError with a peer."""
        if self.peer:
            raise OperatorError(f"{_command_name()} works on the files of a home: leave --peer out")
        return self.own_home

    @cached_property
    def own_home(self) -> Home:
        """The home; its zone is used to show moments from then on. Raises NoHomeError."""
        from narval.ask.text import show_moments_in
        from narval.files.home import Home

        home = Home.find(self.directory, os.environ)
        show_moments_in(lambda: _zone_of(home))
        return home

    @property
    def is_homeless(self) -> bool:
        """True if nothing names a home, and the usual one does not exist."""
        from narval.files.home import Home

        return not (
            self.peer or self.directory or os.environ.get("NARVAL_HOME") or Home("~/.narval").exists()
        )

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """The attributes that tables show of elements, as the settings have it, or as shipped."""
        from narval.files.settings import COLUMNS, read_settings

        settings, _ = read_settings(self.own_home.path)
        return settings.columns if settings is not None else COLUMNS

    def ask(self, method: str, /, **params: Any) -> Any:
        """The answer to one operation. Raises NarvalError."""
        with closing(self._reach(lambda: _purpose_of(method))) as connection:
            return connection.ask(method, **params)

    @contextmanager
    def connect(self, purpose: Purpose) -> Iterator[Connection]:
        """A connection to the home's daemon; if none runs, to the home, which this command opens for a
        purpose.

        Raises DaemonGoneError if its daemon does not answer, and HomeHeldError unless the purpose is a look.
        """
        with closing(self._reach(lambda: purpose)) as connection:
            yield connection

    def vouch(self) -> None:
        """Check with the daemon that this program may make a login, a token or a code. Raises RequestError.

        Without a daemon no run has programs, so nothing needs to be checked.
        """
        daemon = reach(self.home, lambda: None, self.acting_as)
        if daemon is not None:
            with closing(daemon):
                daemon.ask("vouch")

    @contextmanager
    def daemon(self) -> Iterator[Client | PeerClient | None]:
        """A connection to the daemon of the home or peer; None if none runs: the home is not opened."""
        if self.peer:
            answering: Client | PeerClient | None = self.reach_peer()
        else:
            answering = reach(self.home, lambda: None, self.acting_as, self.agent)
        with nullcontext() if answering is None else closing(answering) as connection:
            yield connection

    def reload(self) -> None:
        """Have the daemon of the home, if one runs, read written files at once."""
        with self.daemon() as daemon:
            if daemon is not None:
                daemon.ask("reload")

    def _reach(self, purpose: Callable[[], Purpose]) -> Client | PeerClient | WithoutDaemon:
        if self.peer:
            return self.reach_peer()
        home, acting_as, agent = self.home, self.acting_as, self.agent
        return reach(home, lambda: _opened(home, purpose(), acting_as, agent), acting_as, agent)

    def reach_peer(self, **limits: float) -> PeerClient:
        """The interface to the operations of the peer. Raises OperatorError if it cannot be asked."""
        from narval.core.definitions.suggestions import closest
        from narval.files.outside.peers import PEERS_FILE, load_peers
        from narval.surfaces.link.protocol import PeerClient

        if self.acting_as:
            raise OperatorError("a peer may not act in a person's name: leave --as out")
        peers = load_peers(self.own_home.path)
        if self.peer not in peers:
            there = closest(self.peer, peers) or f"; link it: narval link add {self.peer} URL"
            raise OperatorError(f"there is no peer {self.peer!r:.80} in {PEERS_FILE}{there}")
        return PeerClient(peers[self.peer], self.own_home.path, agent=self.agent, **limits)

    @contextmanager
    def lines(
        self, people: Callable[[Any], str], none: str = "", heading: Callable[[], str] | None = None
    ) -> Iterator[Callable[[list[Any]], int]]:
        """Write items as they come, one a line; as JSON they are one array, whole even if it is cut short.

        If none came, people are told in the words of `none`, on standard error; if some did, they come below
        the heading.
        Each call returns the number (`seq`, from 1) of the last item so far.
        """
        from narval.ask.text import json_bytes

        last, refused = 0, False

        def write(items: list[Any]) -> int:
            nonlocal last
            for item in items:
                if heading is not None and not (last or self.as_json):
                    click.echo(heading())
                before = b"," if last else b"[\n "  # the comma comes first, so each written line is complete
                last = item["seq"]
                click.echo(before + json_bytes(item, indent=None) if self.as_json else people(item))
            return last

        try:
            yield write
        except NarvalError:
            refused = True
            raise
        else:
            if none and not (last or self.as_json):
                click.echo(none, err=True)
        finally:
            if self.as_json and (last or not refused):
                click.echo("]" if last else "[]")

    def follow(self, people: Callable[[Any], str], news: Callable[[Connection, float], list[Row]]) -> None:
        """Write what is new, a line each, until interrupted; only once if no daemon runs.

        `news` asks for it, and takes the seconds for which the daemon may wait.
        """
        number, wait = 0, 0.0
        with self.connect("look") as connection, self.lines(people) as write:
            while True:
                rows = news(connection, wait)
                number, wait = write([{"seq": number + at, **row} for at, row in enumerate(rows, 1)]), SLICE
                if connection.record_only:
                    click.echo(NOTHING_MORE, err=True)
                    return

    def give(self, value: Any, people: Callable[[Any], object]) -> None:
        """Write a value: as JSON, or as `people` writes it."""
        if self.as_json:
            from narval.ask.text import json_bytes

            click.echo(json_bytes(value))
        else:
            people(value)


def _zone_of(home: Home) -> str:
    """The zone in which moments are shown; "" for that of the machine, if the settings name none, or an
    unknown one, which is reported at once.
    """
    name = home.zone_name()
    if not name:
        return ""
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name).key
    except (OSError, ValueError, LookupError):
        from narval.ask.text import clean, zone_of_machine

        why = f"there is no time zone {clean(name)!r:.80} (timezone in etc/narval.toml)"
        click.echo(f"{why}; moments are shown in {zone_of_machine()}", err=True)
        return ""


def _command_name() -> str:
    """The name of the running command, as it is typed."""
    context = click.get_current_context(silent=True)
    return f"`{context.command_path}`" if context is not None else "this"


Purpose = Literal["look", "record", "work"]
"""The purpose of a command on a home without a daemon: only queries; changes that the next daemon acts upon;
or work that this command performs itself.
"""


def _purpose_of(method: str) -> Purpose:
    """The purpose of a command that asks one operation."""
    with suspended():
        from narval.ask.operations import OPERATIONS

        return "look" if OPERATIONS[method].scope == "read" else "record"


def _opened(home: Home, purpose: Purpose, acting_as: str, agent: str) -> WithoutDaemon:
    with suspended():
        from narval.surfaces.cli.without_daemon import HomeView, RecordOnlyHome, WorkingHome

        if purpose == "look":
            return HomeView(home, acting_as, agent)
        return (WorkingHome if purpose == "work" else RecordOnlyHome)(home, acting_as, agent)


def reach(home: Home, otherwise: Callable[[], T], acting_as: str = "", agent: str = "") -> Client | T:
    """A connection to the home's daemon, or the result of `otherwise` if none runs.

    A starting or ending daemon, or another command, may hold the home for a moment without listening. So
    opening it is tried again until PATIENCE ends.
    """
    from narval.surfaces.control import client

    holder, deadline = None, time.monotonic() + client.PATIENCE
    while True:
        socket = home.known_socket()
        daemon = None
        if socket is not None:
            daemon = client.Client.reach(socket, acting_as=acting_as, agent=agent)
        if daemon is not None:
            return daemon
        try:
            return otherwise()
        except HomeHeldError:
            now, present = time.monotonic(), home.holder()
            if present != holder:
                holder, deadline = present, now + client.PATIENCE
            if now > deadline:
                raise
        time.sleep(client.PAUSE)


def in_home(session: Session, path: Path) -> Path:
    """A path as given if it exists, else the one in the home, as faults are printed."""
    if path.exists() or path.is_absolute() or session.is_homeless:
        return path
    in_home = session.home.path / path
    return in_home if in_home.exists() else path
