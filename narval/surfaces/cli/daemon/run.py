"""The command run: the daemon in the foreground."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from narval import __version__
from narval.ask.text import clean, clean_lines, counted
from narval.core.definitions.reading.durations import duration
from narval.core.errors import CutOffError, FencedError
from narval.kinds.work.cli.tables import ITEMS
from narval.surfaces.cli.command import INTERRUPTED, NOT_WELL, command
from narval.surfaces.cli.paging import PAGE
from narval.surfaces.cli.render.tables import LATER, RUNS, Column, table
from narval.surfaces.cli.session import Session
from narval.system.startup_gc import resume

if TYPE_CHECKING:
    import asyncio

    from narval.daemon.daemon import Daemon
    from narval.files.home import Home
    from narval.system.systemd import ServiceManager

Summary = dict[str, Any]

STANDARD_ERROR = 2

_EXAMPLE = """\
narval run
narval run --web
narval run --standby
narval run --follow
narval run --until-idle --timeout 60"""


@command("run", example=_EXAMPLE)
@click.option(
    "--until-idle",
    is_flag=True,
    help="End when nothing can go on without something from outside; the exit status is 1 if a run failed.",
)
@click.option("--timeout", type=click.FloatRange(min=0), metavar="S", help="End after S seconds.")
@click.option("--web", is_flag=True, help="Keep `narval web` at work beside it.")
@click.option(
    "--standby",
    is_flag=True,
    help="Wait for the end of a daemon of this home on another machine, and start then.",
)
@click.option(
    "--follow",
    is_flag=True,
    help="Publish what is saved in this home for all that share its store, as `narval collection publish`.",
)
@click.pass_context
def run(
    context: click.Context,
    session: Session,
    until_idle: bool,
    timeout: float | None,
    web: bool,
    standby: bool,
    follow: bool,
) -> None:
    """Run the daemon in the foreground.

    SIGTERM, SIGINT, `narval stop` or a `quit` element end it in good order: calls under way have some time to
    end, and the next start continues what is left. A second signal ends it at once. SIGHUP makes it read its
    files again, or ends it if its terminal was closed.

    With --follow each saved change of the home is checked and published as its collection `home`, for the
    agents of all homes that share its store. A home whose store is on a database server has one running
    daemon: --standby waits on a second machine, with a copy of the home, until the first is gone.
    """
    gc.disable()  # until it is ready
    import asyncio

    home, began = session.home, time.monotonic()
    with _log_on_standard_error():
        beside = _web(session) if web else None
        work = partial(
            _work,
            home,
            _ready(session),
            beside,
            until_idle=until_idle,
            timeout=timeout,
            standby=standby,
            follow=follow,
            lost=(lost := list[float]()),
        )
        try:
            summary = asyncio.run(until_over(work, lost))
        finally:
            gc.freeze()  # so the exit does not collect everything that was read
    if summary is None:
        context.exit(INTERRUPTED)
    session.give(summary, lambda reply: _summary(reply, until_idle, time.monotonic() - began))
    context.exit(NOT_WELL if until_idle and (summary["failed"] or not summary["idle"]) else 0)


async def until_over(work: Callable[[], Coroutine[Any, Any, Any]], lost: list[float]) -> Any:
    """Serve the home until the daemon ends, and return its summary. Raises what ends it.

    The moments at which it lost its lease are added to `lost`.

    A daemon starts again if others may have its agents by now (G47), or if its own agent was cut off from the
    store; then it waits for the store.
    """
    while True:
        try:
            return await work()
        except (FencedError, CutOffError) as error:
            click.echo(f"warning: {error}; this daemon starts over", err=True)
            lost.append(time.time())


async def _work(
    home: Home,
    ready: Callable[[Summary, int], None],
    beside: Callable[[Daemon], Coroutine[Any, Any, None]] | None,
    *,
    until_idle: bool,
    timeout: float | None,
    standby: bool,
    follow: bool,
    lost: list[float],
) -> Summary | None:
    """Serve the home until the daemon ends; its summary, or None if it was ended at once.

    The coroutines to run `beside` it start when it is ready, and are cancelled at its end.
    """
    import asyncio

    from narval.ask.daemon import requests as operations
    from narval.ask.daemon.status import status as status_of
    from narval.ask.definitions.listing import definitions
    from narval.surfaces.cli.daemon.kept import keep_chat
    from narval.surfaces.cli.without_daemon import serving
    from narval.system.systemd import ServiceManager, is_journal, journal_command

    manager = ServiceManager()
    if standby:
        manager.ready("standby")
    async with serving(home, as_daemon=True, standby=standby) as daemon:
        if daemon.fleet is not None:
            daemon.fleet.members.has_lost(lost)
        if is_journal(STANDARD_ERROR):
            daemon.logbook.leave(journal_command())
        besides: list[Callable[[], Coroutine[Any, Any, None]]] = []
        if beside is not None:
            besides.append(partial(beside, daemon))
        if follow:
            besides.append(_publishing(daemon, home))
        if not until_idle:
            besides.append(partial(keep_chat, home, daemon, STANDARD_ERROR))
        work = asyncio.create_task(operations.work(daemon, until_idle=until_idle, timeout=timeout))
        daemon.stop.announce_to(manager.stopping)
        summary = partial(operations.summary, daemon)
        others = [asyncio.create_task(manager.keep_alive(partial(operations.turn, daemon), summary))]
        try:
            with _signals(daemon, work, manager):
                ready(await status_of(daemon), len((await definitions(daemon))["definitions"]))
                manager.ready(summary())
                resume()
                others += (asyncio.create_task(one()) for one in besides)
                await asyncio.wait([work])
        finally:
            work.cancel()
            for other in others:
                other.cancel()
            await asyncio.gather(*others, return_exceptions=True)
        return None if work.cancelled() else work.result()


_STOPPING = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def _signals(daemon: Daemon, work: asyncio.Task[Summary], manager: ServiceManager) -> Iterator[None]:
    """Handle signals: SIGTERM and SIGINT end the daemon well, a second at once, a third without a message.

    SIGHUP makes it read the files again, unless the terminal is gone. It stays ignored if it was before, as
    under nohup.
    """
    from narval.ask.daemon.requests import end_well

    loop, had_terminal = work.get_loop(), _has_terminal()
    handled = [*_STOPPING]
    reading: set[asyncio.Task[bool]] = set()

    def hung_up() -> None:
        if had_terminal and not _has_terminal():
            daemon.stop.request()
            return
        task = loop.create_task(_reload(daemon, manager))
        reading.add(task)
        task.add_done_callback(reading.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    def stop_at_once() -> None:
        for number in _STOPPING:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
        work.cancel()

    def stop(received: signal.Signals) -> None:
        for number in _STOPPING:
            loop.add_signal_handler(number, stop_at_once)
        if received is signal.SIGINT:
            click.echo("narval is stopping; interrupt it again to stop at once", err=True)
        end_well(daemon, drain=received is signal.SIGTERM)

    for number in _STOPPING:
        loop.add_signal_handler(number, stop, number)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, hung_up)
        handled.append(signal.SIGHUP)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


async def _reload(daemon: Daemon, manager: ServiceManager) -> bool:
    """Read the files again, and notify the service manager."""
    manager.reloading()
    try:
        return await daemon.reloader.reload()
    finally:
        manager.ready()


def _has_terminal() -> bool:
    """True if this program belongs to a terminal."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _web(session: Session) -> Callable[[Daemon], Coroutine[Any, Any, None]]:
    """The pages beside the daemon; their line goes to standard error if the output is JSON."""
    from narval.surfaces.cli.daemon.kept import keep_web

    return partial(keep_web, session.home, output=STANDARD_ERROR if session.as_json else None)


def _publishing(daemon: Daemon, home: Home) -> Callable[[], Coroutine[Any, Any, None]]:
    """The task that publishes saved files. Raises RequestError if no other home could follow."""
    from narval.daemon.fleet.roaming import publishing
    from narval.system.logins import login

    return publishing(home.path, daemon.store, daemon.files, login(os.getuid()))


def _ready(session: Session) -> Callable[[Summary, int], None]:
    def tell(status: Summary, definitions: int) -> None:
        loaded, active = counted(definitions, "definition"), counted(status["runs"]["active"], "run")
        ready = f"narval {__version__} is ready: {status['home']}, {loaded}, {active} under way"
        click.echo(ready, err=session.as_json)
        if status["faults"]:
            click.echo(f"{counted(len(status['faults']), 'fault')}: see `narval check`", err=True)

    return tell


def _summary(summary: Summary, until_idle: bool, seconds: float) -> None:
    ended = ("idle" if summary["idle"] else "not idle") if until_idle else "stopped"
    by = f" by {clean(summary['stopped_by'])}" if summary["stopped_by"] else ""
    click.echo(f"{ended}{by} after {duration(seconds)}")
    if summary["failed"]:
        click.echo(f"\n{counted(len(summary['failed']), 'run')} failed:")
        table(_with_agents(RUNS, summary["failed"]), summary["failed"])
    if summary["waiting"]:
        click.echo("\ncalls that wait:")
        for text in summary["waiting"]:
            click.echo(f"  {clean_lines(text)}")
    if summary["later"]:
        click.echo("\nto come:")
        table(_with_agents(LATER, summary["later"]), summary["later"])
    if summary["asked"]:
        click.echo("\nwaits for people (`narval work`):")
        table(ITEMS, summary["asked"][:PAGE])
        if len(summary["asked"]) > PAGE:
            click.echo(f"and {len(summary['asked']) - PAGE} more")


def _with_agents(columns: Sequence[Column], rows: Sequence[Summary]) -> Sequence[Column]:
    """The columns of rows, with an agent column if some rows are not of the home's own agent."""
    named = any("agent" in row for row in rows)
    return (*columns, Column("agent", lambda row: row.get("agent", ""))) if named else columns


@contextmanager
def _log_on_standard_error() -> Iterator[None]:
    """Write warnings and errors of the log also on standard error; if that is the journal, the whole log."""
    import logging

    from narval.system.systemd import JournalFormatter, is_journal

    class Calm(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            text = clean_lines(f"{record.levelname.lower()}: {super().format(record)}")
            return text.replace("\n", "\n    ")

    handler = logging.StreamHandler()
    if is_journal(STANDARD_ERROR):
        handler.setFormatter(JournalFormatter())
    else:
        handler.setLevel(logging.WARNING)
        # the command itself reports the error that ends the daemon
        handler.addFilter(lambda record: record.levelno < logging.CRITICAL)
        handler.setFormatter(Calm())
    logger = logging.getLogger("narval")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
