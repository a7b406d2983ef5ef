"""The session of one command: its home, its way of writing, and its connection to what answers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from narval.errors import HomeHeldError, NarvalError
from narval.operations.text import json_bytes
from narval.surfaces.cli.startup_gc import suspended
from narval.surfaces.control import client

if TYPE_CHECKING:
    from narval.runtime.home.home import Home
    from narval.surfaces.cli.without_daemon import RecordOnlyHome, WorkingHome

T = TypeVar("T")


class Connection(Protocol):
    """The way to operations: to a daemon through its socket, or to the home opened by this command."""

    @property
    def record_only(self) -> bool:
        """True if no daemon runs: what is asked is recorded for the next one."""

    def ask(self, method: str, /, **params: Any) -> Any:
        """The answer to one operation. Raises NarvalError."""


@dataclass
class Session:
    """The options that all commands share, and what follows from them."""

    directory: Path | None = None
    as_json: bool = False
    acting_as: str = ""

    def note(self, name: str, value: Any) -> None:
        """Note an option by its name."""
        setattr(self, name, value)

    @cached_property
    def home(self) -> Home:
        """The home. Raises NoHomeError."""
        from narval.runtime.home.home import Home

        return Home.find(self.directory, os.environ)

    def ask(self, method: str, /, **params: Any) -> Any:
        """The answer to one operation. Raises NarvalError."""
        with connect(self.home, acting_as=self.acting_as) as connection:
            return connection.ask(method, **params)

    @contextmanager
    def lines(self, people: Callable[[Any], str]) -> Iterator[Callable[[list[Any]], int]]:
        """Write items as they come, one a line; as JSON they are one array, whole even if it is cut short.

        Each time the number (`seq`, from 1) of the last item so far is given back.
        """
        last, refused = 0, False

        def write(items: list[Any]) -> int:
            nonlocal last
            for item in items:
                before = b"," if last else b"[\n "  # not a comma after: a line is whole once it is written
                last = item["seq"]
                click.echo(before + json_bytes(item, indent=None) if self.as_json else people(item))
            return last

        try:
            yield write
        except NarvalError:
            refused = True
            raise
        finally:
            if self.as_json and (last or not refused):
                click.echo("]" if last else "[]")

    def give(self, value: Any, people: Callable[[Any], object]) -> None:
        """Write a value: as JSON, or as `people` writes it."""
        if self.as_json:
            click.echo(json_bytes(value))
        else:
            people(value)


@contextmanager
def connect(home: Home, *, working: bool = False, acting_as: str = "") -> Iterator[Connection]:
    """A connection to a home; without a daemon, `working` performs what is asked, else it is recorded.

    With `acting_as`, it is in the name of that person.
    Raises HomeHeldError, or DaemonGoneError when the holder of the home does not answer.
    """
    connection = reach(home, lambda: _opened(home, acting_as, working=working), acting_as)
    try:
        yield connection
    finally:
        connection.close()


def _opened(home: Home, acting_as: str, *, working: bool) -> RecordOnlyHome | WorkingHome:
    with suspended():
        from narval.surfaces.cli.without_daemon import RecordOnlyHome, WorkingHome

        return WorkingHome(home, acting_as) if working else RecordOnlyHome(home, acting_as)


def reach(home: Home, otherwise: Callable[[], T], acting_as: str = "") -> client.Client | T:
    """A connection to the home's daemon, or what `otherwise` makes of the home when none runs.

    A home may be held and not listen for a moment, while a daemon starts or ends, or another command works;
    so that is tried again until patience with its holder ends.
    """
    holder, deadline = None, time.monotonic() + client.PATIENCE
    while True:
        daemon = client.Client.reach(home.socket(), acting_as)
        if daemon is not None:
            return daemon
        try:
            return otherwise()
        except HomeHeldError:
            now, found = time.monotonic(), home.holder()
            if found != holder:
                holder, deadline = found, now + client.PATIENCE
            if now > deadline:
                raise
        time.sleep(client.PAUSE)
