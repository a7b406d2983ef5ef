"""Commands for a running daemon: status, reload, stop, log."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from narval import __version__
from narval.ask.text import Row, clean, fault_line, moments_of_zone
from narval.core.errors import DaemonGoneError, OperatorError
from narval.surfaces.cli.command import NOT_WELL, asking, command
from narval.surfaces.cli.render import answers
from narval.surfaces.cli.render import status as status_shown
from narval.surfaces.cli.session import NOTHING_MORE, SLICE, Session, reach
from narval.surfaces.control.client import PAUSE

if TYPE_CHECKING:
    from narval.files.home import Holder, Home
    from narval.surfaces.control.client import Client


@command("status", example="narval status\nnarval status --check\nnarval status --metrics")
@click.option("--check", is_flag=True, help="Say in a line whether it can work; so does the exit status.")
@click.option("--metrics", is_flag=True, help="Print its numbers, as OpenMetrics.")
def status(session: Session, check: bool, metrics: bool) -> None:
    """Tell whether the daemon is running, and what it does.

    With --check the exit status is 0 if the daemon can work, and 1 if something prevents that: no daemon
    runs, the store is unreachable, the disk is full. It is 3 if the daemon does not answer.
    """
    if check and metrics:
        raise click.UsageError("expected --check or --metrics, got both")
    if check:
        _check(session)
    elif metrics:
        session.give(session.ask("metrics"), _write_metrics)
    else:
        with _reached(session) as (reached, away):
            if away is None:
                session.give(reached.ask("status"), status_shown.status)
            else:
                session.give(_waiting(session.home, away), status_shown.waiting)


@contextmanager
def _reached(session: Session) -> Iterator[tuple[Session | Client, Holder | None]]:
    """The connection that answers operations, and the daemon that waits for its store's server, if one does:
    it does not listen, and nothing can be read.

    A daemon that listens is reached first: reading who holds the home takes as long as asking it.
    """
    if session.peer:
        yield session, None
        return
    daemon = reach(session.home, lambda: None, session.acting_as, session.agent)
    if daemon is not None:
        with daemon:
            yield daemon, None
        return
    holder = session.home.known_holder()
    yield session, holder if holder is not None and holder.away else None


def _check(session: Session) -> None:
    """Say in a line whether the daemon can work. Raises Exit if it cannot."""
    with _reached(session) as (reached, away):
        answer: Row = reached.ask("health") if away is None else _unwell(away)
    session.give(answer, _write_health)
    if not answer["well"]:
        raise click.exceptions.Exit(NOT_WELL)


def _unwell(holder: Holder) -> Row:
    """The health of a daemon that waits for the server of its store."""
    text = f"nothing can be read or recorded: {holder.away}"
    trouble = {"what": "store", "grave": "high", "text": text}
    return {"well": False, "standby": False, "troubles": [trouble]}


def _write_health(answer: Row) -> None:
    if answer["well"]:
        click.echo("well: a standby" if answer["standby"] else "well")
    else:
        click.echo(f"not well: {'; '.join(clean(one['text']) for one in answer['troubles'])}")


def _write_metrics(answer: list[Row]) -> None:
    from narval.ask.exposition import openmetrics

    click.echo(openmetrics(answer), nl=False)


def _waiting(home: Home, holder: Holder) -> Row:
    """The known part of the status of a daemon that waits for the server of its store."""
    from narval.ask.json_forms import moment

    since = moment(holder.since)
    away = {"since": since, "why": holder.away}
    status = {"home": str(home.path), "version": __version__, "pid": holder.pid, "since": since}
    return {**status, "state": "waiting", "away": away}


def _reload(session: Session) -> Row:
    """The daemon's answer; without a daemon, the faults that the next one would find."""
    with session.connect("look") as connection:
        if not connection.record_only:
            answer: Row = connection.ask("reload")
            return answer
        return {"changed": None, "faults": connection.ask("status")["faults"]}


_RELOADED = {
    True: "the changes are active",
    False: "nothing has changed",
    None: "no daemon runs: the next one reads the files as it starts",
}


@asking(
    "reload",
    "reload",
    example="narval reload",
    alters=True,
    well=lambda answer: not answer["faults"],
    ask=_reload,
)
def reload(answer: Row) -> None:
    """Make the daemon read its files now.

    These are recipes, modules, schemas and settings. The daemon also does so by itself when they change; this
    command waits until it is done. The exit status is 1 if there are faults.
    """
    for fault in answer["faults"]:
        click.echo(clean(fault_line(fault)))
    click.echo(_RELOADED[answer["changed"]])


@command("stop", example="narval stop\nnarval stop --drain", alters=True)
@click.option("--drain", is_flag=True, help="Give agents to other daemons of the store first.")
@click.option(
    "--timeout", type=click.FloatRange(0), default=120.0, metavar="S", help="Wait at most S seconds."
)
def stop(session: Session, drain: bool, timeout: float) -> None:
    """Stop the daemon cleanly, and wait until it has ended.

    Calls under way have `stop_grace` seconds to end; the next start continues what is left. A standby ends at
    once, and so does a daemon that waits for the server of its store. With --drain, other daemons of the
    store take over the shared agents.
    """
    if session.peer:
        _stop_peer(session, timeout, drain=drain)
        return
    home = session.home
    if (waiting := home.holder()) is not None and waiting.waits:
        _end(home, waiting, timeout)
        session.give({"stopped": True}, lambda _: click.echo("stopped"))
        return
    daemon = reach(home, lambda: _free(home), session.acting_as)
    if daemon is not None:
        with daemon:
            daemon.ask("stop", drain=drain)
            if not daemon.closed(timeout):
                raise DaemonGoneError(f"the daemon is still ending after {timeout:g} seconds")
        another = reach(home, lambda: _free(home))
        if another is not None:
            another.close()
    said = "stopped" if daemon is not None else f"no daemon runs at {home.path}"
    session.give({"stopped": daemon is not None}, lambda _: click.echo(said))


def _stop_peer(session: Session, timeout: float, *, drain: bool) -> None:
    """End the daemon of a peer, and wait until it no longer answers. Raises DaemonGoneError."""
    deadline = time.monotonic() + timeout
    session.ask("stop", drain=drain)
    with suppress(DaemonGoneError):
        while session.ask("health"):
            if time.monotonic() > deadline:
                raise OperatorError(f"the daemon is still ending after {timeout:g} seconds")
            time.sleep(PAUSE)
    session.give({"stopped": True}, lambda _: click.echo("stopped"))


def _end(home: Home, waiting: Holder, timeout: float) -> None:
    """End a waiting daemon, which has no agents and no socket. Raises DaemonGoneError."""
    import signal

    deadline = time.monotonic() + timeout
    os.kill(waiting.pid, signal.SIGTERM)
    while (holder := home.holder()) is not None and holder.pid == waiting.pid:
        if time.monotonic() > deadline:
            raise DaemonGoneError(f"the daemon that waits is still ending after {timeout:g} seconds")
        time.sleep(PAUSE)


def _free(home: Home) -> None:
    """Raise HomeHeldError if a program holds the home."""
    holder = home.holder()
    if holder is not None:
        raise home.held_by(holder)


_LOG = answers.log_line, "the log is empty", moments_of_zone


@command("log", example="narval log --lines 20\nnarval log --follow")
@click.option("--follow", is_flag=True, help="Go on until interrupted.")
@click.option("--lines", type=click.IntRange(min=0), default=200, metavar="N", help="The last N lines.")
def log(session: Session, follow: bool, lines: int) -> None:
    """Show the daemon's own log."""
    with session.daemon() as daemon, session.lines(*_LOG) as write:
        if daemon is None:  # the file is enough, even if the store cannot be opened
            from narval.system.log import logged_in

            write(logged_in(session.home.log, lines))
            if follow:
                click.echo(NOTHING_MORE, err=True)
            return
        after = write(daemon.ask("log", lines=lines))
        while follow:
            after = write(daemon.ask("log", after=after, wait=SLICE))
