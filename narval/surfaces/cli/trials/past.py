"""`narval simulate --since`: what definitions would have done on what came in a time."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from narval.ask.text import clean
from narval.core.engines.registry import runnable
from narval.core.errors import RequestError
from narval.surfaces.cli.documents import Progress
from narval.surfaces.cli.render.past import json_form, told
from narval.surfaces.cli.session import Session
from narval.system import stopwatch
from narval.trials.past.outcome import NEWEST
from narval.trials.past.play import play_past, tried
from narval.trials.past.stores import past_stores
from narval.trials.simulate.scenario import When
from narval.trials.simulate.simulated_home import SimulatedHome, simulated_home


def simulate_past(
    session: Session, names: Sequence[str], since: When, backups: Sequence[Path], *, everything: bool
) -> None:
    """Play definitions, by names or files, on what came since a day, and tell what came of it.

    Raises RequestError, DefinitionError, StoreError.
    """
    home = session.home
    here = simulated_home(home, session.agent)
    for fault in here.loaded.faults:
        click.echo(f"did not load: {clean(fault)}", err=True)
    until = time.time()
    start = until - since.after if since.date is None else since.moment(until, here.zone)
    if start >= until:
        raise RequestError(f"--since: expected a moment in the past, found {since.date or 'now'}")
    if not names:
        raise RequestError("--since: expected a definition to try: its name, or its file")
    files = [name for name in names if runnable(here.loaded.library, name) is None]
    for file in files:
        _raise_if_unknown(here, file)
    trial = tried(here.loaded, files, [name for name in names if name not in files])
    with (
        _until_interrupted() as interrupted,
        Progress() as progress,
        past_stores(home, here.settings, session.agent, backups) as stores,
    ):
        playing = play_past(
            here,
            trial,
            stores,
            start,
            until,
            most=None if everything else NEWEST,
            stopped=interrupted.is_set,
            read=lambda rows: progress.show(f"read {rows:,} rows of the past"),
            told=lambda come, of: progress.show(f"{come:,} of {of:,} arrivals played"),
        )
        with stopwatch.stopped():
            report = asyncio.run(playing)
    if session.as_json:
        session.give(json_form(report, here.zone), click.echo)
    else:
        for line in told(report, here.zone):
            click.echo(line)


def _raise_if_unknown(here: SimulatedHome, file: str) -> None:
    from narval.core.definitions.suggestions import closest
    from narval.core.engines.registry import is_runnable

    if not Path(file).is_file():
        names = [found.full_name for found in here.loaded.library if is_runnable(found.kind)]
        meant = closest(file, names) or "; narval definitions lists what is loaded"
        raise RequestError(f"there is no definition and no file {file!r}{meant}")


@contextmanager
def _until_interrupted() -> Iterator[threading.Event]:
    """An event that is set by Ctrl-C; the next Ctrl-C ends the program, as ever."""
    interrupted, before = threading.Event(), signal.getsignal(signal.SIGINT)

    def interrupt(number: int, frame: object) -> None:
        interrupted.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)
